package pluginhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rungci/rung/internal/pluginhost/handshake"
)

// Call is a call of a plugin that is under way.
type Call struct {
	// Ctx is the call's: it ends with that of the caller, and when the plugin says nothing for too long.
	Ctx context.Context

	process *Process
	name    string
	began   time.Time
	limit   time.Duration
	cancel  context.CancelCauseFunc
	caller  context.Context
	timer   *time.Timer
}

// Begin begins a call. The plugin must do something within the limit, each time that it is waited for.
func (p *Process) Begin(ctx context.Context, name string, limit time.Duration) *Call {
	c := &Call{process: p, name: name, began: time.Now(), limit: limit, caller: ctx}
	c.Ctx, c.cancel = context.WithCancelCause(ctx)
	c.timer = time.AfterFunc(limit, func() {
		p.suspect(name, limit)
		c.cancel(&Failure{Kind: p.kind.Name, Plugin: p.name, Call: name, What: fmt.Sprintf("has not answered for %s", limit)})
	})
	return c
}

// Heard says that the plugin did something, and that more is waited for.
func (c *Call) Heard() { c.timer.Reset(c.limit) }

// Rest says that the plugin is not waited for.
func (c *Call) Rest() { c.timer.Stop() }

// End ends the call.
func (c *Call) End() {
	c.timer.Stop()
	c.cancel(nil)
}

// Silent says of a call that was given up after some time, for a reason, that the plugin does not answer, and what a person can do. name is the call's, and may be empty.
func (p *Process) Silent(name string, waited time.Duration, why error) error {
	advice := "its log may say why"
	if pid := p.PID(); pid > 0 {
		advice += fmt.Sprintf("; if its process %d hangs, end that, and another one is started", pid)
	}
	return &Failure{Kind: p.kind.Name, Plugin: p.name, Call: name, What: "has not answered for " + waited.Round(10*time.Millisecond).String(), Err: &advised{advice, why}}
}

// advised is an error that says what to do.
type advised struct {
	advice string
	err    error
}

func (a *advised) Error() string { return a.advice }
func (a *advised) Unwrap() error { return a.err }

// suspect asks a plugin that did not answer a call whether it answers at all, and ends it otherwise: that of other jobs goes on.
func (p *Process) suspect(name string, limit time.Duration) {
	probe := cmp.Or(p.kind.Probe, defaultProbe)
	ctx, cancel := context.WithTimeout(context.Background(), probe)
	defer cancel()
	if err := p.describe(ctx, p.kind); err != nil {
		p.Fail(fmt.Sprintf("has not answered for %s (in its call %s), nor for %s to whether it is there, and was ended", limit, name, probe))
	}
}

const defaultProbe = 5 * time.Second

// describe makes the call that every kind has, and does not look at the answer.
func (p *Process) describe(ctx context.Context, kind *Kind) error {
	return p.Conn.Invoke(ctx, "/"+kind.Services[p.Version()]+"/Describe", &emptypb.Empty{}, &emptypb.Empty{})
}

// Serves returns which of the kinds a file is a plugin of; nil is none. It starts the file, and ends it.
func Serves(ctx context.Context, c Config, kinds ...*Kind) (*Kind, error) {
	named := kindOf(c.File, kinds)
	file, remove, err := named.Verified(&c)
	if err != nil {
		return nil, err
	}
	defer remove()
	p, err := named.Start(ctx, &c, file)
	if err != nil {
		return nil, err
	}
	defer p.Leave()
	for _, kind := range kinds {
		err := p.asked(ctx, kind)
		if err == nil {
			return kind, nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
	}
	return nil, nil
}

// kindOf is the kind that a file is named for; the first one where it is named for none.
func kindOf(file string, kinds []*Kind) *Kind {
	for _, kind := range kinds {
		if base := filepath.Base(file); strings.HasPrefix(base, kind.Prefix) || kind.Foreign != "" && strings.HasPrefix(base, kind.Foreign) {
			return kind
		}
	}
	return kinds[0]
}

// asked asks a process whether it is of a kind.
func (p *Process) asked(ctx context.Context, kind *Kind) error {
	call := p.Begin(ctx, "Describe", handshake.Silence)
	defer call.End()
	return call.Failed(p.describe(call.Ctx, kind))
}

// Attend makes the call Open, which stays open as long as this program lives. The plugin must answer it within the limit.
func (p *Process) Attend(ctx context.Context, limit time.Duration, begin func(living context.Context) (next func() error, err error)) error {
	living, cancel := context.WithCancel(context.Background())
	call := p.Begin(ctx, "Open", limit)
	defer call.End()
	stop := context.AfterFunc(call.Ctx, cancel)
	next, err := begin(living)
	if err == nil {
		err = next()
	}
	if !stop() || err != nil {
		cancel()
		return p.wrongOption(call.Failed(err))
	}
	go func() {
		for err == nil {
			err = next()
		}
		cancel()
		select { // the process is seen to end by itself, which says more
		case <-p.Done():
		case <-time.After(exitTime):
			p.Fail("has ended its call Open, and cannot be used any more")
		}
	}()
	return nil
}

// Failed is what the error of a call means. It returns nil for nil.
func (c *Call) Failed(err error) error {
	if err == nil {
		return nil
	}
	if _, has := c.caller.Deadline(); has && status.Code(err) == codes.DeadlineExceeded {
		select { // the plugin's clock was a moment ahead of ours
		case <-c.caller.Done():
		case <-time.After(exitTime):
		}
	}
	said, ok := err, false
	if c.process.kind.Said != nil {
		said, ok = c.process.kind.Said(err)
	}
	var failure *Failure
	switch {
	case c.process.Err() != nil:
		return c.process.Err()
	case c.caller.Err() != nil:
		cause := context.Cause(c.caller)
		if errors.Is(cause, context.DeadlineExceeded) { // which says nothing of who was asked
			cause = c.process.Silent(c.name, time.Since(c.began), cause)
		}
		return cause
	case c.Ctx.Err() != nil && errors.As(context.Cause(c.Ctx), &failure):
		return failure
	case ok:
		return said
	}
	switch status.Code(err) {
	case codes.Unimplemented:
		return &unsupported{&Failure{Kind: c.process.kind.Name, Plugin: c.process.name, Call: c.name, What: "does not have this call"}}
	case codes.Unavailable, codes.Unknown, codes.Internal, codes.Canceled:
		// The connection broke, most likely because the process is ending.
		select {
		case <-c.process.Done():
			return c.process.Err()
		case <-time.After(exitTime):
		}
	}
	return &Failure{Kind: c.process.kind.Name, Plugin: c.process.name, Call: c.name, What: "has failed", Err: plainly(err)}
}

// unsupported is an optional call that a plugin does not have.
type unsupported struct{ *Failure }

// Unwrap makes errors.Is(err, errors.ErrUnsupported) true.
func (*unsupported) Unwrap() error { return errors.ErrUnsupported }
