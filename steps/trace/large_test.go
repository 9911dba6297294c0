package trace

import (
	"fmt"

	"github.com/rungci/rung/steps/event"
)

// large is a run of a thousand steps and ten megabytes of logs.
func large(s *script) {
	s.at(0, "", started())
	for i := 1; i <= 50; i++ {
		list := fmt.Sprint(i)
		s.at(0, list, event.StepStarted{Name: fmt.Sprintf("group_%d", i), Kind: event.KindSteps})
		for j := 1; j <= 20; j++ {
			output := ""
			for k := range 200 {
				output += fmt.Sprintf("\x1b[2m%05d\x1b[0m compiling package %d of \x1b[36m%d\x1b[0m\n", k, j, i)
			}
			exit := 0
			if i == 30 && j == 7 {
				exit = 2
			}
			s.run(fmt.Sprintf("%d.%d", i, j), fmt.Sprintf("step_%d_%d", i, j), output, exit, 20+i*j%90)
		}
		s.at(0, list, event.StepFinished{Status: event.Success, Duration: 1000e6})
	}
	s.at(0, "", event.RunFinished{Status: event.Success, Duration: 60e9, Counts: event.Counts{Success: 1000}})
}
