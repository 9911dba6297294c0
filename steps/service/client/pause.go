package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
)

// Boundary is a point between two steps at which a run is paused.
type Boundary struct {
	Before string // the ID of the next step
	Since  time.Time
}

func fromBoundary(m *runnerv1.Boundary) *Boundary {
	if m == nil {
		return nil
	}
	return &Boundary{Before: m.GetBefore(), Since: m.GetSince().AsTime()}
}

// State is how a run stands at a boundary: all that another server needs to go on, beside the request that the run was started with.
type State struct {
	Document []byte // canonical JSON that holds nothing sensitive
	// Sensitive are sensitive texts that came up in the run, in clear. The run's own secrets are not among them.
	Sensitive [][]byte
}

// Origin is where a run goes on.
type Origin struct {
	State  State
	Folder string // on the server: where State put the run's own files; "" where there were none
}

// Pause asks a run to stop at its next boundary, and waits for that: as long as ctx lasts, or for wait when that is not less than 0. When
// the run is not there by then, the boundary is nil and waiting says what the run waits for; what was asked for stays.
func (c *Client) Pause(ctx context.Context, id string, wait time.Duration) (at *Boundary, waiting string, err error) {
	in := &runnerv1.PauseRequest{Id: id}
	if wait >= 0 {
		in.Wait = durationpb.New(wait)
	}
	out, err := c.api.Pause(ctx, in)
	return fromBoundary(out.GetPaused()), out.GetWaitingFor(), pauseError("pausing", id, err)
}

// Resume lets a paused run go on, to its next boundary with step, and reports whether it was paused. A Pause that has not been met yet is
// taken back.
func (c *Client) Resume(ctx context.Context, id string, step bool) (bool, error) {
	out, err := c.api.Resume(ctx, &runnerv1.ResumeRequest{Id: id, Step: step})
	return out.GetResumed(), pauseError("resuming", id, err)
}

// State returns the state of a paused run. The files in the run's own folders are copied to folder, an absolute path on the server that must
// not exist; "" copies none.
func (c *Client) State(ctx context.Context, id, folder string) (State, error) {
	out, err := c.api.GetState(ctx, &runnerv1.GetStateRequest{Id: id, Folder: folder})
	return State{out.GetState().GetDocument(), out.GetState().GetSensitive()}, pauseError("taking the state of", id, err)
}
