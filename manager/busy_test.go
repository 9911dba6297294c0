package manager

import (
	"path/filepath"
	"testing"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/traces"
)

// TestWhetherAProjectIsBusyIsCheapToAsk is about a question that is asked for every cache in the folder, with every job that runs.
func TestWhetherAProjectIsBusyIsCheapToAsk(t *testing.T) {
	const url = "https://gitlab.example.com/"
	m := &Manager{running: map[*run]bool{}, disk: disk.New(disk.Options{})}
	e := &entry{manager: m, runner: &config.Runner{URL: url}, records: &store.Runner{}}
	m.begin(e, &gitlab.Job{ID: 1, Info: gitlab.JobInfo{ProjectID: 7}}, 0)
	runs, other := filepath.ToSlash(traces.ProjectFolder(url, 7)), filepath.ToSlash(traces.ProjectFolder(url, 8))
	s := space{m}
	if !s.busy(runs) || s.busy(other) {
		t.Errorf("the project of the job is busy: %v; another one is: %v", s.busy(runs), s.busy(other))
	}
	if n := testing.AllocsPerRun(100, func() { s.busy(other) }); n > 0 {
		t.Errorf("the question allocates %v times", n)
	}
}
