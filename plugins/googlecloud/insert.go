package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/api/compute/v1"

	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	// createTime is how long a create waits for its operation to fail: most that have no capacity do so at once, and another zone is tried then.
	createTime = 5 * time.Second
	// unseenTime is for how long an instance whose operation has succeeded may be missing from lists.
	unseenTime = 2 * time.Minute
	// failedTime is for how long an instance that failed to be made is reported, unless it is deleted before.
	failedTime = time.Hour
	// maxReplays bounds how often a request id that was used up is replaced by the next one.
	maxReplays = 10
	firstLook  = 250 * time.Millisecond
)

// insert is an instance that was asked for, until a list has it.
type insert struct {
	zone   string // empty: the group chooses
	order  instancegroup.Order
	op     *compute.Operation
	at     time.Time // when it was asked for, and then when its operation was done
	done   bool
	failed error
}

// request makes an id that the API knows again of what is asked for, and of how many ids for it were used up.
func request(what string, number int) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "rung/%s/%d", what, number)).String()
}

// once asks for an instance, so that it is made once whoever asks how often. The API answers a request id that it knows with the operation that it had begun for it. One
// that was done by then was another's: if its instance does not exist, the id is used up, and the next one is taken.
func (c *cloud) once(ctx context.Context, name, zone string, order instancegroup.Order, exists func() (bool, error), ask func(ctx context.Context, id string) (*compute.Operation, error)) error {
	key := zone + "/" + name
	for replays := 0; ; replays++ {
		c.mu.Lock()
		number := c.asked[key]
		c.mu.Unlock()
		op, err := do(ctx, c, "making "+name, func(ctx context.Context) (*compute.Operation, error) {
			return ask(ctx, request(c.Project+"/"+key, number))
		})
		if errors.Is(err, errExists) {
			return nil
		}
		if err != nil {
			return c.refused(err, exists)
		}
		replayed := op.Status == "DONE"
		if !replayed {
			c.mu.Lock()
			c.pending[name] = &insert{zone: zone, order: order, op: op, at: time.Now()}
			c.mu.Unlock()
			return c.watch(ctx, key, name, op)
		}
		err = failed("making "+name, op)
		if err == nil {
			there, err := exists()
			if there || err != nil {
				return err
			}
		} else if replays == maxReplays {
			return err
		}
		c.mu.Lock()
		c.asked[key]++
		c.mu.Unlock()
	}
}

// refused is the error of a request that was refused, which is none where the instance exists: groups refuse a name that they have.
func (c *cloud) refused(err error, exists func() (bool, error)) error {
	var known *instancegroup.Error
	if errors.As(err, &known) {
		return err
	}
	if there, failed := exists(); failed != nil || !there {
		return err
	}
	return nil
}

// watch waits for a while whether an operation fails. What fails later is in the list.
func (c *cloud) watch(ctx context.Context, key, name string, op *compute.Operation) (err error) {
	pause := firstLook
	for until := time.Now().Add(createTime); op.Status != "DONE" && time.Now().Before(until); pause = min(2*pause, 2*time.Second) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil // it was asked for
		}
		next, err := c.operation(ctx, op)
		if err != nil {
			return nil //nolint:nilerr // the list will tell
		}
		op = next
	}
	if op.Status != "DONE" {
		return nil
	}
	if err = failed("making "+name, op); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, name)
		c.asked[key]++
	}
	if errors.Is(err, errExists) {
		return nil
	}
	return err
}

// operation looks how an operation stands.
func (c *cloud) operation(ctx context.Context, op *compute.Operation) (*compute.Operation, error) {
	return do(ctx, c, "the operation "+op.Name, func(ctx context.Context) (*compute.Operation, error) {
		if op.Zone == "" {
			return c.api.RegionOperations.Get(c.Project, short(op.Region), op.Name).Context(ctx).Do()
		}
		return c.api.ZoneOperations.Get(c.Project, short(op.Zone), op.Name).Context(ctx).Do()
	})
}

// awaited adds the instances that were asked for and that no list has: lists lag behind, and operations fail late.
func (c *cloud) awaited(ctx context.Context, found map[string]*instancegroup.Machine) error {
	c.mu.Lock()
	waiting := map[string]*insert{}
	for name, p := range c.pending {
		if found[name] != nil {
			delete(c.pending, name)
			continue
		}
		one := *p
		waiting[name] = &one
	}
	c.mu.Unlock()
	for name, p := range waiting {
		if !p.done {
			op, err := c.operation(ctx, p.op)
			if errors.Is(err, instancegroup.ErrNotFound) {
				op, err = &compute.Operation{Status: "DONE"}, nil // operations are kept for days
			}
			if err != nil {
				return err
			}
			if op.Status == "DONE" {
				p.done, p.at, p.failed = true, time.Now(), failed("making "+name, op)
			}
		}
		m := &instancegroup.Machine{Instance: instancegroup.Instance{
			ID: name, State: instancegroup.StateCreating, Labels: p.order.Labels, Shape: p.order.Shape, Zone: p.zone, Spot: p.order.Spot,
		}}
		patience := unseenTime
		if p.failed != nil {
			m.State, m.Reason, patience = instancegroup.StateFailed, p.failed.Error(), failedTime
		}
		c.mu.Lock()
		if kept := c.pending[name]; kept != nil {
			kept.done, kept.at, kept.failed = p.done, p.at, p.failed
			if p.done && time.Since(p.at) > patience {
				delete(c.pending, name)
			} else {
				found[name] = m
			}
		}
		c.mu.Unlock()
	}
	return nil
}

// dropFailed forgets an instance that failed to be made, and reports whether it did.
func (c *cloud) dropFailed(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[name]
	if p == nil || p.failed == nil {
		return false
	}
	delete(c.pending, name)
	c.asked[p.zone+"/"+name]++
	return true
}
