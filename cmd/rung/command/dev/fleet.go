package dev

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/cleantext"
)

// restTime bounds how long the machines of a pipeline that has ended may take to be gone.
const restTime = time.Minute

// fleet shows what a fleet does. A nil fleet does nothing.
type fleet struct {
	mu       sync.Mutex
	out      io.Writer // nil: nobody looks
	color    bool
	machines map[string]string // those that exist, and what people call them, by request
	most     int
	made     int
	empty    chan struct{} // closed while there is none
}

func newFleet() *fleet {
	f := &fleet{machines: map[string]string{}, empty: make(chan struct{})}
	close(f.empty)
	return f
}

// through is where the display writes, so that its lines and those of the fleet do not mix.
func (f *fleet) through(to io.Writer, color bool) io.Writer {
	if f == nil {
		return to
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out, f.color = to, color
	return locked{f}
}

// locked writes a line at a time.
type locked struct{ *fleet }

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// observe shows a step, with its reason.
func (f *fleet) observe(e store.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Request != "" && e.Kind == store.Create {
		if len(f.machines) == 0 {
			f.empty = make(chan struct{})
		}
		f.made++
		f.machines[e.Request] = fmt.Sprintf("machine %d", f.made)
		f.most = max(f.most, len(f.machines))
	}
	name := f.machines[e.Request]
	if e.Kind == store.Gone && name != "" {
		if delete(f.machines, e.Request); len(f.machines) == 0 {
			close(f.empty)
		}
	}
	if text := step(e, name); text != "" && f.out != nil {
		f.say(fmt.Sprintf("%d now | %s", len(f.machines), text))
	}
}

// say prints a line. The caller holds the lock.
func (f *fleet) say(text string) {
	text = "fleet: " + cleantext.Line(text)
	if f.color {
		text = "\x1b[35m" + text + "\x1b[0m"
	}
	fmt.Fprintln(f.out, text)
}

// step is what an entry of the history says; empty for what is not worth a line.
func step(e store.Entry, machine string) string {
	text := ""
	switch e.Kind {
	case store.Create:
		text = machine + " is asked for"
	case store.Ready:
		text = fmt.Sprintf("%s is ready after %s", machine, e.At.Sub(e.Began).Round(10*time.Millisecond))
	case store.Delete:
		text = machine + " is ended"
	case store.Drain:
		text = machine + " takes no more jobs"
	case store.Gone:
		return machine + " is gone"
	case store.Ended:
		text = "a job has lost " + machine
	case store.Failed:
		text = strings.TrimSpace(machine + " failed")
	default:
		return ""
	}
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// rest waits until nothing is left of the fleet, or somebody interrupts.
func (f *fleet) rest(ctx, interrupted context.Context) {
	if f == nil {
		return
	}
	f.mu.Lock()
	empty := f.empty
	f.mu.Unlock()
	select {
	case <-empty:
	case <-time.After(restTime):
	case <-ctx.Done():
	case <-interrupted.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out != nil {
		f.say(fmt.Sprintf("%d machines were made, %d at once at most, and %d are left", f.made, f.most, len(f.machines)))
	}
}

// machinery is the part of a config.toml that has the fleet. Its machines end with this program, however that ends.
func (o *runFlags) machinery() string {
	return fmt.Sprintf(`  [runners.autoscaler]
    plugin = "local"
    max_instances = %[1]d
    update_interval = "1s"
    update_interval_when_expecting = "200ms"
    delete_instances_on_shutdown = true
    [runners.autoscaler.plugin_config]
      max_size = %[1]d
      network = "host"
      end_with = %[2]d
    [[runners.autoscaler.policy]]
      idle_time = "2s"
`, o.fleet, os.Getpid())
}
