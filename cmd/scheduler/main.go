// Command scheduler hands queued jobs to Redis, watches the workers' leases and refunds
// orphans. Two may run side by side.
package main

import (
	"os"
	_ "time/tzdata" // zones on machines that have none

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
)

func main() {
	os.Exit(app.Main(config.Scheduler, "Hands queued jobs to Redis, watches workers, refunds orphans. Two may run side by side.", (*app.App).Schedule))
}
