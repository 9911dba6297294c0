package service

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// Sweep looks for what has expired, as if it were now.
func (s *Service) Sweep(now time.Time) { s.sweep(now) }

// Folder is where the service keeps logs.
func (s *Service) Folder() string { return s.folder }

// RunFolders are the folders of runs.
func (s *Service) RunFolders() []string {
	found, _ := filepath.Glob(filepath.Join(s.folder, "step-runner-*"))
	return found
}

// FillDisk makes the log of the run with the id end as a full disk makes it end.
func (s *Service) FillDisk(id string) {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.write = func([]byte, int64) (int, error) { return 0, syscall.ENOSPC }
}

// FillLogFile makes the file of the client's that takes the log of the run with the id take no more, and the log keep what it has.
func (s *Service) FillLogFile(id string) error {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	readable, err := os.Open(r.log.file.Name())
	if err == nil {
		err = r.log.file.Close()
		r.log.file = readable
	}
	return err
}

// Prepare takes a request to the point where it could be run.
func Prepare(in *runnerv1.RunRequest, parse func(string, []byte) (*plan.Component, error)) error {
	req, err := fromRunRequest(in)
	if err == nil {
		err = req.compile(parse)
	}
	if err == nil {
		limits := Limits{}.withDefaults()
		err = req.prepare(&limits)
	}
	return err
}

// GitLabResult maps the end of a run to that of the existing step-runner.
func GitLabResult(status event.Status, err *event.Error, exitCode *int) (stepsv0.StepResult_Status, string) {
	return gitlabResult(state{status: status, err: err, exitCode: exitCode})
}
