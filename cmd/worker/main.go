// Command worker runs generation jobs from the queue until it is told to stop.
package main

import (
	"os"
	_ "time/tzdata" // zones on machines that have none

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
)

func main() {
	os.Exit(app.Main(config.Worker, "Runs generation jobs from the queue. SIGTERM lets them finish or gives them back.", (*app.App).Work))
}
