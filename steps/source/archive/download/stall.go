package download

import (
	"context"
	"errors"
	"io"
	"time"
)

// Watch is a context that ends when nothing happens for too long.
type Watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

// Watch begins to wait for the first byte. Stop must be called.
func (p Policy) Watch(ctx context.Context) *Watch {
	w := &Watch{stall: p.stall()}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(w.stall, func() { w.cancel(ErrStalled) })
	return w
}

// Context is what the request is made with.
func (w *Watch) Context() context.Context { return w.ctx }

// Stop ends the watch, and what uses its context.
func (w *Watch) Stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// Err returns the reason for an error: that the server stalled, where that is what ended the context.
func (w *Watch) Err(err error) error {
	if err != nil && errors.Is(context.Cause(w.ctx), ErrStalled) {
		return ErrStalled
	}
	return err
}

// Reader returns a reader that keeps the watch awake.
func (w *Watch) Reader(r io.Reader) io.Reader { return &watched{r, w} }

type watched struct {
	r io.Reader
	w *Watch
}

func (r *watched) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.w.timer.Reset(r.w.stall)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.w.Err(err)
	}
	return n, err
}
