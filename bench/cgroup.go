//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/rungci/rung/internal/cgroup"
)

// cgroupFigures are of jobs on this machine whose resources are bounded.
var cgroupFigures = []figure{{name: "first command on level cgroup, over none", unit: "ms", target: 5, measure: cgroupStart}}

// cgroupRounds is how often each level starts a job: the promise is about the median of so many.
const cgroupRounds = 20

// cgroupStart returns how much longer the first command of a job takes to print something on level cgroup, from the start of `step-runner
// local`. The median of the differences counts: the two take turns.
func cgroupStart(w *world) (float64, string, error) {
	if _, err := cgroup.Open(); err != nil {
		return 0, "", skipped(err.Error())
	}
	dir, err := w.repository("cgroup", fmt.Sprintf("job:\n  variables: {GIT_STRATEGY: none}\n  script: [echo %s]\n", firstWords))
	if err != nil {
		return 0, "", err
	}
	on := func(level string) command {
		return command{args: []string{w.runner, "local", "--isolation", level}, dir: dir, env: []string{"TMPDIR=" + w.inMemory}}
	}
	if _, err := on("cgroup").untilItPrints(firstWords); err != nil {
		return 0, "", err
	}
	var more []float64
	var mine, theirs []time.Duration
	for range cgroupRounds {
		a, err := on("cgroup").untilItPrints(firstWords)
		if err != nil {
			return 0, "", err
		}
		b, err := on("none").untilItPrints(firstWords)
		if err != nil {
			return 0, "", err
		}
		mine, theirs, more = append(mine, a), append(theirs, b), append(more, float64(a-b)/float64(time.Millisecond))
	}
	return median(more), fmt.Sprintf("none in %s, cgroup in %s, each until its first output", ms(median(theirs)), ms(median(mine))), nil
}
