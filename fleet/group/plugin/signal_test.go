//go:build unix

package plugin_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/plugin"
)

// stop stops a process, so that it does not answer.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// alive reports whether a process runs.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// A Ctrl-C is sent to the runner and to its plugins. The runner obeys it, and still needs them.
func TestAPluginLeavesAnInterruptToTheRunner(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) plugin.Config{
		"in Go":     func(t *testing.T) plugin.Config { return config(t, "fake", nil) },
		"in Python": func(t *testing.T) plugin.Config { c, _ := commands(t, nil); return c },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := opened(t, make(t))
			first := g.PID()
			for range 2 { // of somebody who cannot wait
				if err := syscall.Kill(first, syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond) // it would take a moment to have an effect
			}
			if err := g.List(t.Context(), func(group.Instance) {}); err != nil || g.PID() != first {
				t.Errorf("afterwards: %v, process %d, and was %d", err, g.PID(), first)
			}
			began := time.Now()
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Errorf("its end took %s: it was killed", took)
			}
		})
	}
}
