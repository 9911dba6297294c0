package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/fleet/group/local/machine"
	"github.com/rungci/rung/sdk/instancegroup"
)

// Suspend implements instancegroup.Suspender: all that runs on a machine stops, and uses nothing but memory.
func (c *cloud) Suspend(ctx context.Context, ids []string) ([]string, error) {
	return c.each(ctx, ids, func(r *record) error {
		if r.Suspended {
			return nil
		}
		r.Suspended = true
		if err := errors.Join(c.save(r), machine.Suspend(ctx, c.path(r.ID))); err != nil {
			r.Suspended = false
			return errors.Join(err, c.save(r))
		}
		return nil
	})
}

// Resume implements instancegroup.Suspender.
func (c *cloud) Resume(ctx context.Context, ids []string) ([]string, error) {
	return c.each(ctx, ids, func(r *record) error {
		if err := machine.Resume(ctx, c.path(r.ID)); err != nil {
			return err
		}
		r.Suspended = false
		return c.save(r)
	})
}

// each does something with machines that run or are suspended.
func (c *cloud) each(ctx context.Context, ids []string, do func(*record) error) (done []string, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var problems []error
	for _, id := range ids {
		r := c.machines[id]
		if r == nil {
			problems = append(problems, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no machine " + id})
			continue
		}
		state, reason, _ := c.state(r)
		if state != instancegroup.StateRunning && state != instancegroup.StateSuspended {
			problems = append(problems, fmt.Errorf("the machine %s is %s (%s), and does not run", id, state, reason))
			continue
		}
		if err := do(r); err != nil {
			problems = append(problems, fmt.Errorf("the machine %s: %w", id, err))
			continue
		}
		done = append(done, id)
	}
	return done, errors.Join(problems...)
}

// watchEvery is how often machines are looked at for what has changed.
const watchEvery = 200 * time.Millisecond

// Watch implements instancegroup.Watcher.
func (c *cloud) Watch(ctx context.Context, update func(instancegroup.Instance)) error {
	told := map[string]instancegroup.State{}
	for {
		all, err := c.Machines(ctx)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for _, m := range all {
			there[m.ID] = true
			if told[m.ID] != m.State {
				told[m.ID] = m.State
				update(m.Instance)
			}
		}
		for id := range told {
			if !there[id] {
				delete(told, id)
				update(instancegroup.Instance{ID: id, State: instancegroup.StateDeleted})
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchEvery):
		}
	}
}
