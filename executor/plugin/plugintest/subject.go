package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/providertest"
	"github.com/rungci/rung/internal/tempfolder"
)

// Subject is a provider plugin as the suite tries it. With the options of its configuration it has room for so many jobs.
func Subject(config plugin.Config, room int) providertest.Subject {
	return providertest.Subject{
		Open: func(ctx context.Context, setup provider.Setup) (provider.Provider, error) {
			opened, err := plugin.OpenProvider(ctx, config, setup)
			if err != nil {
				return nil, err // and no provider, rather than one that is nil
			}
			return opened, nil
		},
		Room: room,
		Kill: func(t *testing.T, p provider.Provider) {
			process, err := os.FindProcess(p.(*plugin.Provider).PID())
			if err == nil {
				err = process.Kill()
			}
			if err != nil {
				t.Error(err)
			}
		},
	}
}

const (
	// minRoom and maxRoom bound for how many jobs a provider may have room, to be tried: cases take all of it.
	minRoom, maxRoom = 2, 64
	// roomTime bounds how long it may take to say so.
	roomTime = 20 * time.Second
)

// openProvider opens the plugin in a folder that goes with it, and asks for how many jobs it has room.
func (trial *Trial) openProvider(ctx context.Context) (_ io.Closer, err error) {
	config := trial.Plugin
	state, err := tempfolder.Make("state")
	if err != nil {
		return nil, err
	}
	opened, err := plugin.OpenProvider(ctx, config, provider.Setup{Owner: "suite", State: state})
	if err != nil {
		tempfolder.Remove(state)
		return nil, err
	}
	closing := &opening{Provider: opened, state: state}
	defer func() {
		if err != nil {
			err = errors.Join(err, closing.Close())
		}
	}()
	asking, cancel := context.WithTimeoutCause(ctx, roomTime, fmt.Errorf("there was no answer for %s", roomTime))
	defer cancel()
	var now *provider.Capacity
	err = opened.Capacity(asking, provider.Needs{}, func(c provider.Capacity) { now = &c; cancel() })
	switch {
	case now == nil:
		return nil, fmt.Errorf("the provider plugin %q does not say how much room there is (in its call Capacity): %w", config.Name, err)
	case now.Free < minRoom && now.Reason != "":
		return nil, fmt.Errorf("the provider plugin %q has room for %d jobs, and the suite needs room for %d to %d; it says: %s", config.Name, now.Free, minRoom, maxRoom, now.Reason)
	case now.Free < minRoom || now.Free > maxRoom:
		return nil, fmt.Errorf("the provider plugin %q has room for %d jobs, and the suite needs room for %d to %d; change its options", config.Name, now.Free, minRoom, maxRoom)
	}
	trial.Room = now.Free
	return closing, nil
}

// opening is a provider whose folder goes with it.
type opening struct {
	*plugin.Provider
	state string
}

// Close implements io.Closer.
func (o *opening) Close() error {
	defer tempfolder.Remove(o.state)
	return o.Provider.Close()
}
