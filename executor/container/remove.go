package container

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rungci/rung/executor/container/engine"
)

// removePause is the time between two attempts to remove what is still in use.
const removePause = 50 * time.Millisecond

// removal says what stays.
type removal struct {
	keep string // the id of a container that stays, stopped, with its volume; "" is none
}

// remove kills and removes all that carries the label of an environment.
func (e *Executor) remove(ctx context.Context, name string, how removal) error {
	ids, err := e.client.Containers.List(ctx, label, name)
	if err != nil {
		return e.unreachable(ctx, err)
	}
	var wg sync.WaitGroup
	problems := make([]error, len(ids))
	for i, id := range ids {
		wg.Go(func() {
			if id == how.keep {
				err := e.client.Containers.Kill(ctx, id)
				if status := engine.Status(err); status != http.StatusConflict && status != http.StatusNotFound { // it has ended by itself
					problems[i] = err
				}
				return
			}
			problems[i] = retry(ctx, func() error { return e.client.Containers.Remove(ctx, id) })
		})
	}
	wg.Wait()
	problems = append(problems, e.removeNetworks(ctx, name, how))
	if how.keep == "" {
		problems = append(problems, e.removeVolumes(ctx, name))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("removing what the job has in %s: %w", e.engine, err)
	}
	return nil
}

func (e *Executor) removeNetworks(ctx context.Context, name string, how removal) error {
	ids, err := e.client.Networks.List(ctx, label, name)
	if err != nil {
		return err
	}
	var problems []error
	for _, id := range ids {
		if how.keep != "" {
			_ = e.client.Networks.Leave(ctx, id, how.keep)
		}
		problems = append(problems, retry(ctx, func() error { return e.client.Networks.Remove(ctx, id) }))
	}
	return errors.Join(problems...)
}

func (e *Executor) removeVolumes(ctx context.Context, name string) error {
	volumes, err := e.client.Volumes.List(ctx, label, name)
	if err != nil {
		return err
	}
	var problems []error
	for _, volume := range volumes {
		problems = append(problems, retry(ctx, func() error { return e.client.Volumes.Remove(ctx, volume) }))
	}
	return errors.Join(problems...)
}

// retry removes something, again and again while the engine says that it is in use or being removed. What is not there is
// removed.
func retry(ctx context.Context, remove func() error) error {
	for {
		err := remove()
		switch engine.Status(err) {
		case http.StatusNotFound:
			return nil
		case http.StatusConflict, http.StatusForbidden: // a network in use is forbidden
		default:
			return err // or nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(removePause):
		}
	}
}
