package app

import (
	"os"
	"strings"
	"time"

	"github.com/makegood/makegood/provider/local"
)

// FailWord in a prompt makes the local generator fail for good, so that anybody can watch a
// refund.
const FailWord = "#fail"

// SlowVar makes the local generator slow: a duration, such as 2s, that each job then takes.
const SlowVar = "MAKEGOOD_LOCAL_DURATION"

// demonstration is what makes the local generator's faults visible on demand.
func demonstration() []local.Option {
	options := []local.Option{local.FailWord(FailWord)}
	if d, err := time.ParseDuration(strings.TrimSpace(os.Getenv(SlowVar))); err == nil && d > 0 {
		options = append(options, local.Duration(d))
	}
	return options
}
