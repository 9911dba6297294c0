package control

import (
	"context"
	"time"

	"github.com/rungci/rung/fleet/group"
)

// expiryMargin is how long before they expire credentials are asked for again.
const expiryMargin = 10 * time.Second

// access is how to reach a machine, as its group said last.
type access struct {
	c        *cloud
	instance string
	turn     chan struct{} // holds a token while nobody asks

	info  group.ConnectInfo
	known bool
}

func newAccess(c *cloud, instance string) *access {
	a := &access{c: c, instance: instance, turn: make(chan struct{}, 1)}
	a.turn <- struct{}{}
	return a
}

// get asks the group, if that was not done or the answer is about to expire.
func (a *access) get(ctx context.Context) (group.ConnectInfo, error) {
	if a == nil {
		return group.ConnectInfo{}, ErrGone
	}
	select {
	case <-a.turn:
	case <-ctx.Done():
		return group.ConnectInfo{}, context.Cause(ctx)
	}
	defer func() { a.turn <- struct{}{} }()
	if a.known && (a.info.Expires == nil || a.c.f.clock.Now().Before(a.info.Expires.Add(-expiryMargin))) {
		return a.info, nil
	}
	info, err := call(ctx, a.c, a.c.f.o.CallTimeout, func(ctx context.Context) (group.ConnectInfo, error) { return a.c.group.ConnectInfo(ctx, a.instance) })
	if err != nil {
		return group.ConnectInfo{}, err
	}
	a.info, a.known = info, true
	return info, nil
}

// forget lets the group be asked again.
func (a *access) forget(ctx context.Context) {
	select {
	case <-a.turn:
		a.known = false
		a.turn <- struct{}{}
	case <-ctx.Done():
	}
}
