package service

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// fits says what keeps the run from going on from the state in the request.
func (r *run) fits(req *request) error {
	if req.from == nil {
		return nil
	}
	if req.files != "" && !filepath.IsAbs(req.files) {
		return invalid("the folder %q of the run's files is not an absolute path", req.files)
	}
	opts := r.service.opts.Engine()
	req.options(&opts, r.service.folderOf(r.number))
	if err := req.from.Fits(&opts, req.files); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// pausable returns what stops the run at boundaries.
func (r *run) pausable() (*engine.Control, error) {
	if r.control == nil {
		return nil, failedPrecondition("the run %q belongs to somebody else, who runs it to its end", r.id)
	}
	return r.control, nil
}

// boundary is where the run is paused; nil while it goes on.
func (r *run) boundary() *runnerv1.Boundary {
	if r.control == nil {
		return nil
	}
	if at, paused := r.control.Standing(); paused {
		return toBoundary(at)
	}
	return nil
}

func toBoundary(at engine.Standing) *runnerv1.Boundary {
	return &runnerv1.Boundary{Before: at.Before, Since: timestamppb.New(at.Since)}
}

// Pause stops a run at its next boundary.
func (f *runnerFace) Pause(ctx context.Context, in *runnerv1.PauseRequest) (*runnerv1.PauseResponse, error) {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return nil, err
	}
	control, err := r.pausable()
	if err != nil {
		return nil, err
	}
	if in.GetWait() != nil {
		wait := in.GetWait()
		if !wait.IsValid() || wait.AsDuration() < 0 {
			return nil, invalid("the time to wait is out of range")
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait.AsDuration())
		defer cancel()
	}
	control.Pause()
	defer r.touch()
	at, err := control.Await(ctx)
	var waiting *engine.WaitingError
	switch {
	case err == nil:
		return &runnerv1.PauseResponse{Paused: toBoundary(at)}, nil
	case errors.As(err, &waiting):
		return &runnerv1.PauseResponse{WaitingFor: clean(waiting.For)}, nil
	default:
		return nil, failedPrecondition("%v", err)
	}
}

// Resume lets a run go on.
func (f *runnerFace) Resume(_ context.Context, in *runnerv1.ResumeRequest) (*runnerv1.ResumeResponse, error) {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return nil, err
	}
	control, err := r.pausable()
	if err != nil {
		return nil, err
	}
	return &runnerv1.ResumeResponse{Resumed: control.Resume(in.GetStep())}, nil
}

// GetState returns the state of a paused run.
func (f *runnerFace) GetState(_ context.Context, in *runnerv1.GetStateRequest) (*runnerv1.GetStateResponse, error) {
	r, err := f.service.find(in.GetId())
	if err != nil {
		return nil, err
	}
	control, err := r.pausable()
	if err != nil {
		return nil, err
	}
	if in.GetFolder() != "" && !filepath.IsAbs(in.GetFolder()) {
		return nil, invalid("the folder %q is not an absolute path", in.GetFolder())
	}
	defer r.touch()
	state, err := control.State(in.GetFolder())
	if err != nil {
		return nil, failedPrecondition("%v", err)
	}
	return &runnerv1.GetStateResponse{State: &runnerv1.RunState{Document: state.Document, Sensitive: state.Sensitive}}, nil
}

// leave ends a paused run that goes on elsewhere. One that is not known has been closed before.
func (s *Service) leave(ctx context.Context, id string) error {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	control, err := r.pausable()
	if err == nil {
		err = control.Leave()
	}
	if err != nil {
		return failedPrecondition("the run %q cannot go on elsewhere: %v", id, err)
	}
	select {
	case <-r.ended: // before anything else could stop it
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// heldFor returns how long the run has been paused; 0 while it goes on.
func (r *run) heldFor(now time.Time) time.Duration {
	if r.control == nil {
		return 0
	}
	at, paused := r.control.Standing()
	if !paused {
		return 0
	}
	return now.Sub(at.Since)
}

// heldTooLong is the reason of a run that is stopped because it was paused for too long.
func heldTooLong(limit time.Duration) error {
	return &event.Stop{Code: event.CodePausedTooLong, Reason: fmt.Sprintf("it was paused for longer than %s", limit)}
}
