package container

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// removePause is the time between two attempts to remove what is still in use.
const removePause = 50 * time.Millisecond

// removal says what stays.
type removal struct {
	keep string // the id of a container that stays, stopped, with its volume; "" is none
}

// remove kills and removes all that carries the label of an environment.
func (e *Executor) remove(ctx context.Context, name string, how removal) error {
	filters := client.Filters{}.Add("label", label+"="+name)
	list, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return e.unreachable(ctx, err)
	}
	var wg sync.WaitGroup
	problems := make([]error, len(list.Items))
	for i, c := range list.Items {
		wg.Go(func() {
			if c.ID == how.keep {
				_, err := e.client.ContainerKill(ctx, c.ID, client.ContainerKillOptions{})
				if !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err) { // it has ended by itself
					problems[i] = err
				}
				return
			}
			problems[i] = retry(ctx, func() error {
				_, err := e.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
				return err
			})
		})
	}
	wg.Wait()
	problems = append(problems, e.removeNetworks(ctx, filters, how))
	if how.keep == "" {
		problems = append(problems, e.removeVolumes(ctx, filters))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("removing what the job has in %s: %w", e.engine, clean(err))
	}
	return nil
}

func (e *Executor) removeNetworks(ctx context.Context, filters client.Filters, how removal) error {
	list, err := e.client.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		return err
	}
	var problems []error
	for _, n := range list.Items {
		if how.keep != "" {
			_, _ = e.client.NetworkDisconnect(ctx, n.ID, client.NetworkDisconnectOptions{Container: how.keep, Force: true})
		}
		problems = append(problems, retry(ctx, func() error {
			_, err := e.client.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			return err
		}))
	}
	return errors.Join(problems...)
}

func (e *Executor) removeVolumes(ctx context.Context, filters client.Filters) error {
	list, err := e.client.VolumeList(ctx, client.VolumeListOptions{Filters: filters})
	if err != nil {
		return err
	}
	var problems []error
	for _, v := range list.Items {
		problems = append(problems, retry(ctx, func() error {
			_, err := e.client.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
			return err
		}))
	}
	return errors.Join(problems...)
}

// retry removes something, again and again while the engine says that it is in use or being removed. What is not there is
// removed.
func retry(ctx context.Context, remove func() error) error {
	for {
		err := remove()
		if err == nil || cerrdefs.IsNotFound(err) {
			return nil
		}
		if !cerrdefs.IsConflict(err) && !cerrdefs.IsPermissionDenied(err) { // a network in use is forbidden
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(removePause):
		}
	}
}
