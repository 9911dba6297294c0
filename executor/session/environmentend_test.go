package session

import (
	"context"
	"errors"
	"testing"

	"github.com/rungci/rung/executor"
)

// well is an environment that seems to be well.
type well struct{ executor.Environment }

func (well) Done() <-chan struct{}       { return nil }
func (well) Err() error                  { return nil }
func (well) Check(context.Context) error { return nil }

func TestATransferThatTheEndOfItsEnvironmentBrokeSaysSo(t *testing.T) {
	gone := &executor.Gone{Reason: "its place was stopped"}
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := false
	err := failure(ctx, ending{well{}, func() { asked = true; cancel(gone) }}, errors.New("cut short")) // Within notices it meanwhile
	if !asked || !errors.Is(err, gone) {
		t.Errorf("the error is %v, want %v", err, gone)
	}
}

// ending is an environment that ends when it is asked how it is.
type ending struct {
	executor.Environment
	end func()
}

func (e ending) Check(context.Context) error { e.end(); return nil }
