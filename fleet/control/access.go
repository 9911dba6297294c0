package control

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/fleet/group"
)

// expiryMargin is how long before they expire credentials are asked for again.
const expiryMargin = 10 * time.Second

// errNoGroup is about a machine of a pool that is not in the configuration any more, until a list has it.
var errNoGroup = errors.New("no list of a group that is configured has the machine yet")

// access is how to reach a machine, as its group said last.
type access struct {
	cloud    atomic.Pointer[cloud] // nil: it is not known which group has it
	instance string
	turn     chan struct{} // holds a token while nobody asks

	info  group.ConnectInfo
	known bool
}

func newAccess(c *cloud, instance string) *access {
	a := &access{instance: instance, turn: make(chan struct{}, 1)}
	a.cloud.Store(c)
	a.turn <- struct{}{}
	return a
}

// get asks the group, if that was not done or the answer is about to expire.
func (a *access) get(ctx context.Context) (group.ConnectInfo, error) {
	if a == nil || a.cloud.Load() == nil {
		return group.ConnectInfo{}, errNoGroup
	}
	c := a.cloud.Load()
	select {
	case <-a.turn:
	case <-ctx.Done():
		return group.ConnectInfo{}, context.Cause(ctx)
	}
	defer func() { a.turn <- struct{}{} }()
	if a.known && (a.info.Expires == nil || c.f.clock.Now().Before(a.info.Expires.Add(-expiryMargin))) {
		return a.info, nil
	}
	info, err := call(ctx, c, c.f.o.CallTimeout, func(ctx context.Context) (group.ConnectInfo, error) { return c.group.ConnectInfo(ctx, a.instance) })
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
