//go:build unix

package manager_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	sdk "github.com/rungci/rung/sdk/executor"
	"github.com/rungci/rung/steps/event"
)

// pluginVariable names the environment variable that makes this test binary an executor plugin, whose environments are fake.
const pluginVariable = "RUNG_TEST_PLUGIN"

// wrongs is what the plugin does wrong.
type wrongs struct {
	Call fake.Call `json:"call"`
	Act  string    `json:"act"`  // stick, panic, die, or a lie
	Once string    `json:"once"` // a file: it does wrong only as long as that does not exist
}

var acts = map[string]fake.Act{"stick": fake.Stick, "panic": fake.Panic, "die": fake.Die}

var lies = map[string]func(*executor.Handle, *executor.Layout){
	"no id":           func(h *executor.Handle, _ *executor.Layout) { h.ID = "" },
	"a relative path": func(_ *executor.Handle, l *executor.Layout) { l.Project = "../../etc" },
	"another level":   func(h *executor.Handle, _ *executor.Layout) { h.Level = "vm" },
}

func bePlugin() {
	sdk.Serve(sdk.Plugin{
		Name: "fake", Level: "fake", Rank: "container", Schema: `{"type":"object"}`,
		Open: func(_ context.Context, setup sdk.Setup, options json.RawMessage) (sdk.Executor, error) {
			var w wrongs
			if err := json.Unmarshal(options, &w); err != nil {
				return nil, err
			}
			e := &fake.Executor{At: map[fake.Call]fake.Act{}, Lease: setup.Lease, Run: func(_ context.Context, r *fake.Run) event.Status {
				r.Log("it ran\n")
				return event.Success
			}}
			if f, err := os.OpenFile(w.Once, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_ = f.Close()
				e.Lie = lies[w.Act]
				if act := acts[w.Act]; act != nil {
					e.At[w.Call] = act
				}
			}
			return e, nil
		},
	})
}

// plugged starts the world's manager with a plugin that does wrong.
func (w *world) plugged(t *testing.T, wrong wrongs) {
	t.Helper()
	o := w.options(w.configure("concurrent = 2\ncheck_interval = 1", ""), "")
	wrong.Once = filepath.Join(w.dir, "once")
	text, err := json.Marshal(wrong)
	if err != nil {
		t.Fatal(err)
	}
	o.Open = func(ctx context.Context, _ *config.Runner, _ executor.Level, setup executor.Setup) (executor.Executor, error) {
		return plugin.Open(ctx, plugin.Config{Name: "fake", File: os.Args[0], Env: []string{pluginVariable + "=fake"}, Options: text}, setup)
	}
	if w.manager, err = manager.New(o); err != nil {
		t.Fatal(err)
	}
	go func() { w.ended <- w.manager.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		w.manager.Kill("the test is over")
		w.wait()
		for _, v := range w.server.Violations() {
			t.Error("GitLab objects:", v)
		}
		if pids := processesOf(w.dir, ""); len(pids) > 0 {
			t.Error("processes are left:", pids)
		}
	})
}

// TestAPluginThatHangsLiesOrCrashes tries what a plugin can do wrong at each call that a job makes. The job ends once, with success or as a failure of the
// system, and the manager goes on with the next, which succeeds when the plugin was started again.
func TestAPluginThatHangsLiesOrCrashes(t *testing.T) {
	for _, call := range []fake.Call{fake.Prepare, fake.Check, fake.Connect, fake.Send, fake.Close, fake.Sweep} {
		for act := range acts {
			t.Run(act+" at "+string(call), func(t *testing.T) { oneWrong(t, wrongs{Call: call, Act: act}) })
		}
	}
	for lie := range lies {
		t.Run("lies: "+lie, func(t *testing.T) { oneWrong(t, wrongs{Act: lie}) })
	}
}

func oneWrong(t *testing.T, wrong wrongs) {
	t.Helper()
	t.Parallel()
	w := newWorld(t)
	w.plugged(t, wrong)
	from := script("true")
	from.Image = &gitlab.Image{Name: "busybox"}
	from.Features.FailureReasons = []string{"runner_system_failure"}
	from.Variables = append(from.Variables, gitlab.Variable{Key: "A_FILE", Value: "text", File: true})
	for _, attempt := range []string{"first", "second"} {
		if attempt == "second" && wrong.Act == "stick" {
			break // which would wait as long again
		}
		j := w.server.Enqueue(from)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		r, err := j.Wait(ctx)
		cancel()
		if err != nil {
			t.Fatalf("the %s job does not end\n%s", attempt, r.Log)
		}
		if finals := strings.Count(fmt.Sprint(r.Updates), "failed") + strings.Count(fmt.Sprint(r.Updates), "success"); finals != 1 {
			t.Errorf("the %s job ended %d times: %v", attempt, finals, r.Updates)
		}
		right := r.State == gitlab.Success && strings.Contains(r.Log, "it ran")
		again := attempt == "second" && wrong.Act == "die" // its process is another one, which does nothing wrong
		if !right && (again || r.FailureReason != "runner_system_failure") {
			t.Errorf("the %s job is %s %s\n%s", attempt, r.State, r.FailureReason, r.Log)
		}
	}
}

// TestPluginsAreKilled kills the process of a plugin at seeded moments while jobs begin, run and end. RUNG_FAULTS is the number of jobs.
func TestPluginsAreKilled(t *testing.T) {
	jobs, seed := number("RUNG_FAULTS", 24), number("RUNG_SEED", 1)
	rnd := rand.New(rand.NewPCG(uint64(seed), 2)) //nolint:gosec // of a test
	w := newWorld(t)
	w.plugged(t, wrongs{})
	from := script("true")
	from.Image = &gitlab.Image{Name: "busybox"}
	from.Features.FailureReasons = []string{"runner_system_failure"}
	kills, failed := 0, 0
	for range jobs {
		j := w.server.Enqueue(from)
		time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
		killed := 0
		if rnd.IntN(2) == 0 {
			killed = killPlugins()
		}
		r := w.result(j)
		if finals := strings.Count(fmt.Sprint(r.Updates), "failed") + strings.Count(fmt.Sprint(r.Updates), "success"); finals != 1 || strings.Count(r.Log, "it ran") > 1 {
			t.Errorf("a job ended %d times: %v\n%s", finals, r.Updates, r.Log)
		}
		if r.State != gitlab.Success {
			failed++
			if killed == 0 || r.FailureReason != "runner_system_failure" {
				t.Errorf("a job is %s %s, and %d plugins were killed\n%s", r.State, r.FailureReason, killed, r.Log)
			}
		}
		kills += killed
	}
	t.Logf("%d jobs, %d plugins were killed, %d jobs failed by that", jobs, kills, failed)
}

// killPlugins kills the plugins of this process; it returns how many.
func killPlugins() (n int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		env, _ := os.ReadFile(filepath.Join(folder, "environ"))
		status, _ := os.ReadFile(filepath.Join(folder, "status"))
		if !strings.Contains(string(env), pluginVariable+"=") || !strings.Contains(string(status), fmt.Sprintf("PPid:\t%d\n", os.Getpid())) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}
