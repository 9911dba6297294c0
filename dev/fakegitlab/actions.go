package fakegitlab

import (
	"fmt"
	"slices"
)

// Cancel cancels a pipeline.
func (s *Server) Cancel(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.board.pipeline(id); p != nil {
		s.board.cancel(p)
		s.tell()
	}
}

// action does something with a job of a pipeline, by its name.
func (s *Server) action(id int, name string, do func(*Job) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.board.pipeline(id)
	if p == nil {
		return fmt.Errorf("there is no pipeline %d", id)
	}
	at := slices.IndexFunc(p.jobs, func(j *Job) bool { return j.def.Name == name })
	if at < 0 {
		return fmt.Errorf("the pipeline has no job %q", name)
	}
	if err := do(p.jobs[at]); err != nil {
		return err
	}
	s.board.advance(p)
	s.tell()
	return nil
}

// CancelJob cancels one job.
func (s *Server) CancelJob(id int, name string) error {
	return s.action(id, name, func(j *Job) error {
		switch {
		case j.state.runs():
			j.last().api.Cancel()
		case !j.state.Over():
			j.state = Canceled
		default:
			return fmt.Errorf("the job %q is over", name)
		}
		return nil
	})
}

// Play starts a manual job, or a delayed one at once.
func (s *Server) Play(id int, name string) error {
	return s.action(id, name, func(j *Job) error {
		switch j.state {
		case Manual:
			j.state = Created
		case Scheduled:
		default:
			return fmt.Errorf("the job %q is not one that waits for somebody", name)
		}
		j.played = true
		j.pipeline.reconsider()
		return nil
	})
}

// Retry runs a job again that is over, and lets those run that were skipped because of it.
func (s *Server) Retry(id int, name string) error {
	return s.action(id, name, func(j *Job) error {
		if j.state != Success && j.state != Failed && j.state != Canceled {
			return fmt.Errorf("the job %q is not over", name)
		}
		j.state, j.played, j.failures = Created, true, 0
		s.board.begin(j)
		j.pipeline.reconsider()
		return nil
	})
}
