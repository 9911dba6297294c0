package jobs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/statestorage"
	"github.com/rungci/rung/manager/store"
)

// errStopped says that a manager that waited was told to end.
var errStopped = errors.New("stopped while another manager has the shared state")

// share waits until this manager has the state of [state_storage], and gives it to the manager's options. nil is none; the error is errStopped if it was told to end,
// by ctx or stop.
func share(ctx context.Context, p *command.Program, c *config.Config, o *manager.Options, served *listening, stop <-chan struct{}) (*statestorage.State, error) {
	if !c.StateStorage.Used() {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, r := range c.Runners {
		if !r.Apart(executor.Container) {
			o.Log.Warn("jobs of this runner are on this host alone: they are lost if a manager on another host takes over", "runner", r.Name)
		}
	}
	state, err := statestorage.Open(ctx, statestorage.Options{
		Config: c.StateStorage, Folder: o.State, Getenv: p.Getenv, Log: o.Log,
		OnLost: func(why error) { fence(o.Log, why) },
		OnWait: func(w statestorage.Waiting) { served.waits(o.State, c.ListenAddress, w) },
	})
	served.board.Wait(nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, errStopped
	case errors.Is(err, statestorage.ErrKey):
		return nil, exit.Coded(exit.Definition, "%v", err).Hinted("use the key_file of the other managers, or another prefix")
	case errors.Is(err, statestorage.ErrConfiguration):
		return nil, exit.Coded(exit.Definition, "%v", err).Hinted("see `rung config lint`, and docs/fleet.md")
	case errors.Is(err, store.ErrInUse):
		return nil, exit.Coded(exit.System, "%v", err).Hinted("stop it, or use another folder (--state)")
	case err != nil:
		return nil, exit.Coded(exit.System, "%v", err)
	}
	o.Log.Info("this manager has the shared state; others wait")
	o.Shared, o.Secret = state.State, state.Secret
	return state, nil
}

// fence ends this process when another manager may have the state: at once, before any part of it learns, and as if it were killed, so that its jobs go on and the
// other one takes them over.
func fence(log *slog.Logger, why error) {
	log.Error("this manager ends at once, and leaves its machines and jobs to the one that takes over; started again, it waits for its turn", "reason", why)
	os.Exit(exit.System)
}

// warnOfStorage tells that a changed [state_storage] needs a restart.
func warnOfStorage(log *slog.Logger, before, now *config.Config) {
	if !reflect.DeepEqual(before.StateStorage, now.StateStorage) {
		log.Warn("changed settings take effect when rung is started again", "settings", "[state_storage]")
	}
}
