package manager

import (
	"testing"
	"time"

	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/steps/event"
)

func TestAJobThatItsMachineKeptFromRunningIsToldFromOthers(t *testing.T) {
	t.Parallel()
	prepared := time.Now()
	for name, c := range map[string]struct {
		ended job.Ended
		want  bool
	}{
		"no folder can be made":        {job.Ended{Err: event.NewError(event.CodeInternalError, "mkdir")}, true},
		"a disk is full before":        {job.Ended{Err: event.NewError(event.CodeDiskFull, "full")}, true},
		"a disk is full while it runs": {job.Ended{Err: event.NewError(event.CodeDiskFull, "full"), Prepared: prepared}, true},
		"an image cannot be pulled":    {job.Ended{Err: event.NewError(event.CodeImagePullFailed, "503")}, false},
		"an image is wrong":            {job.Ended{Err: event.NewError(event.CodeImageUnavailable, "none")}, false},
		"a step failed":                {job.Ended{Err: event.NewError(event.CodeStepFailed, "1"), Prepared: prepared}, false},
		"a component is not fetched":   {job.Ended{Err: event.NewError(event.CodeFetchFailed, "503"), Prepared: prepared}, false},
		"it succeeded":                 {job.Ended{Prepared: prepared}, false},
	} {
		if got := unprepared(c.ended); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
