//go:build unix

package manager_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
)

// leave runs a manager that is killed after so many writes of state.
func (w *world) leave(writes int, entry string) {
	w.t.Helper()
	_, ended := w.victim(victim{Writes: writes, Entry: entry})
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		w.t.Fatal(err)
	}
}

// victim starts a manager in a process of its own.
func (w *world) victim(v victim) (*exec.Cmd, <-chan error) {
	w.t.Helper()
	program, err := executortest.Program()
	if err != nil {
		w.t.Fatal(err)
	}
	if len(w.tokens) == 0 {
		w.tokens = []string{w.server.NewRunner()}
	}
	v.URL, v.Token, v.Dir, v.Program = w.url, w.tokens[0], w.dir, program
	return v.start(w.t)
}

// After how many writes of state a job has a level, and an environment in it.
const (
	beforeItHasAPlace = 1
	withAPlace        = 2
)

func TestAJobThatIsAdoptedBeforeItHasAPlaceIsHeldToTheRules(t *testing.T) {
	for name, tc := range map[string]struct {
		variable    gitlab.Variable
		entry, says string
	}{
		"its network": {gitlab.Variable{Key: "RUNG_NETWORK", Value: "none"}, "", "network"},
		"the minimum": {gitlab.Variable{Key: "RUNG_ISOLATION", Value: "none"}, "[runners.isolation]\ndefault = \"cgroup\"\nminimum = \"cgroup\"", "runners.isolation.minimum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			from := script("echo it runs")
			from.Variables = append(from.Variables, tc.variable)
			j := w.server.Enqueue(from)
			w.leave(beforeItHasAPlace, "")
			w.start(w.configure("concurrent = 1\ncheck_interval = 1", tc.entry))
			if r := w.result(j); r.State != gitlab.Failed || !strings.Contains(r.Log, tc.says) || strings.Contains(r.Log, "it runs") {
				t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
			}
		})
	}
}

func TestAnAdoptedJobWaitsForItsEngine(t *testing.T) {
	t.Parallel()
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	j := w.server.Enqueue(script("echo it runs"))
	w.leave(withAPlace, "")
	o := w.options(w.configure("concurrent = 1\ncheck_interval = 1", ""), program)
	open, late := o.Open, new(atomic.Int32)
	o.Open = func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
		if late.Add(1) < 4 {
			return nil, errors.New("the engine is not there yet")
		}
		return open(ctx, r, level, setup)
	}
	w.run(o)
	if r := w.result(j); r.State != gitlab.Success || strings.Count(r.Log, "it runs\n") != 1 {
		t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}

func TestAJobOfTwoRunnersWithOneTokenIsAdoptedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ends := filepath.Join(w.dir, "ends")
	j := w.server.Enqueue(script("while ! test -e " + ends + "; do sleep 0.1; done; echo it ran"))
	w.leave(withAPlace, "")
	w.tokens = append(w.tokens, w.tokens[0])
	c := w.configure("concurrent = 4\ncheck_interval = 1", "", "")
	slices.Reverse(c.Runners)
	w.start(c)
	if err := j.WaitLog(t.Context(), "Preparing"); err != nil {
		t.Fatal(err)
	}
	if running := w.manager.Running(); len(running) != 1 || running[0].Entry.Name != "runner-0" {
		t.Errorf("these jobs run: %+v", running)
	}
	w.reload(c, c.Runners...)
	var names []string
	for _, e := range w.manager.State().Entries {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"runner-1", "runner-0"}) {
		t.Errorf("when the configuration is read again, the runners are %q", names)
	}
	if err := os.WriteFile(ends, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.result(j); r.State != gitlab.Success || strings.Count(r.Log, "it ran\n") != 1 {
		t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}

// TestTheJobsOfARunnerThatWasTakenFromTheConfigurationAreFinished is about an entry that is removed while no process has the state folder.
func TestTheJobsOfARunnerThatWasTakenFromTheConfigurationAreFinished(t *testing.T) {
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		entries []string // of the new configuration
		writes  int      // of the process before
		secret  []byte
		lost    bool
	}{
		"there is another runner":          {[]string{""}, withAPlace, []byte("a secret"), false},
		"it was the only one":              {nil, withAPlace, []byte("a secret"), false},
		"its job has no place yet":         {[]string{""}, beforeItHasAPlace, []byte("a secret"), false},
		"what opens its jobs is not there": {[]string{""}, withAPlace, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ends := filepath.Join(w.dir, "ends")
			j := w.server.Enqueue(script("while ! test -e " + ends + "; do sleep 0.1; done; echo it ran"))
			w.leave(tc.writes, "")
			w.tokens = nil
			o := w.options(w.configure("concurrent = 2\ncheck_interval = 1", tc.entries...), program)
			var log syncBuffer
			o.Secret, o.Log = tc.secret, slog.New(slog.NewTextHandler(&log, nil))
			w.run(o)
			if err := os.WriteFile(ends, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if len(tc.entries) > 0 {
				if r := w.result(w.server.Enqueue(script("echo the new runner"))); r.State != gitlab.Success {
					t.Errorf("a job of the new runner is %s\n%s", r.State, r.Log)
				}
			}
			if tc.lost {
				if !strings.Contains(log.String(), "jobs of runners that are not in the configuration any more are lost") {
					t.Errorf("nobody is told:\n%s", log.String())
				}
				return
			}
			if r := w.result(j); r.State != gitlab.Success || strings.Count(r.Log, "it ran\n") != 1 {
				t.Errorf("its job is %s %s\n%s\n%s", r.State, r.FailureReason, r.Log, log.String())
			}
			if n := len(w.manager.State().Entries); n != len(tc.entries) {
				t.Errorf("%d runners ask for jobs", n)
			}
		})
	}
}
