//go:build linux

package cgroup_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/cgroup"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/session"
	groups "github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/steps/event"
)

func TestMain(m *testing.M) {
	executortest.Main(m, func() (executortest.Level, error) { return level(), nil })
}

// able skips a test where this user may make no control groups.
func able(t testing.TB) {
	t.Helper()
	if _, err := groups.Open(); err != nil {
		t.Log(err)
		enginetest.Skip(t, "control groups")
	}
}

func level() executortest.Level {
	return executortest.Level{
		Host: overSSH(),
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
			return cgroup.New(ctx, setup, cgroup.Options{})
		},
		Job:  func(id string) *executor.Job { return &executor.Job{ID: id, ProjectName: "project"} },
		Left: left,
		Running: func(dir string) ([]string, error) {
			return filepath.Glob(filepath.Join(dir, "temp", "*", "s"))
		},
		Ends: map[string]func(*testing.T, executor.Environment){
			"its step-runner is killed": func(t *testing.T, env executor.Environment) { signal(t, env, syscall.SIGKILL) },
			"all in its group is killed": func(t *testing.T, env executor.Environment) {
				if err := groupOf(t, env).Kill(t.Context()); err != nil {
					t.Error(err)
				}
			},
		},
		Stalls: map[string]func(*testing.T, executor.Environment){
			"its step-runner is stopped, and does not answer": func(t *testing.T, env executor.Environment) { signal(t, env, syscall.SIGSTOP) },
		},
	}
}

// signal sends a signal to the step-runner of an environment, which is the first process of its group.
func signal(t *testing.T, env executor.Environment, s syscall.Signal) {
	t.Helper()
	pid := processes(groupOf(t, env))[0]
	if err := syscall.Kill(pid, s); err != nil {
		t.Error(err)
	}
}

// seen are the groups that left has found in a folder: a sweep removes the folders that they are named for.
var seen = struct {
	sync.Mutex
	groups map[string]map[string]*groups.Group
}{groups: map[string]map[string]*groups.Group{}}

// left names the folders, groups and processes that are left.
func left(dir string) (names []string, err error) {
	seen.Lock()
	defer seen.Unlock()
	if seen.groups[dir] == nil {
		seen.groups[dir] = map[string]*groups.Group{}
	}
	for _, sub := range []string{"temp", "state"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			names = append(names, e.Name())
			if g := groupNamed(e.Name()); g != nil && sub == "temp" {
				seen.groups[dir][e.Name()] = g
			}
		}
	}
	for name, g := range seen.groups[dir] {
		if g.Exists() {
			names = append(names, "group "+name)
		}
	}
	slices.Sort(names)
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if env, err := os.ReadFile(file); err == nil && strings.Contains(string(env), "CI_PROJECT_DIR="+dir) {
			names = append(names, "process "+filepath.Base(filepath.Dir(file)))
		}
	}
	return names, nil
}

// groupNamed is the group with the name of a step-runner's folder.
func groupNamed(name string) *groups.Group {
	tree, err := groups.Open()
	if err != nil {
		return nil
	}
	g, err := tree.Group("", name)
	if err != nil {
		return nil
	}
	return g
}

// groupOf is the group of an environment, by its handle.
func groupOf(t *testing.T, env executor.Environment) *groups.Group {
	t.Helper()
	var state struct {
		Bound *groups.Group `json:"bound"`
	}
	if err := json.Unmarshal(env.Handle().State, &state); err != nil {
		t.Fatal(err)
	}
	return state.Bound
}

// processes are those of a group.
func processes(g *groups.Group) (pids []int) {
	for _, dir := range g.Dirs {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, word := range strings.Fields(string(text)) {
			pid := 0
			for _, digit := range word {
				pid = pid*10 + int(digit-'0')
			}
			pids = append(pids, pid)
		}
		return pids
	}
	return nil
}

func TestConformance(t *testing.T) {
	able(t)
	executortest.Run(t, level())
}

// open makes the level for jobs that begin with no process of an earlier one.
func open(t testing.TB) executor.Executor {
	t.Helper()
	able(t)
	dir, err := os.MkdirTemp("", "rung-test-")
	if err != nil {
		t.Fatal(err)
	}
	l := level()
	e, err := l.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return e
}

func prepare(t *testing.T, e executor.Executor, job *executor.Job) executor.Environment {
	t.Helper()
	if job.ID == "" {
		job.ID, job.ProjectName = "bounded", "shop"
	}
	env, err := e.Prepare(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.End(context.Background(), env.Close); err != nil {
			t.Error(err)
		}
		if groupOf(t, env).Exists() {
			t.Error("its group is left")
		}
	})
	return env
}

// run runs a script, and returns its log and why it failed.
func run(t *testing.T, env executor.Environment, script string) (string, *event.Error) {
	t.Helper()
	return executortest.Script(t, env, script)
}

func TestAStepThatRunsOutOfMemoryIsNamedWithThePeakAndTheLimit(t *testing.T) {
	env := prepare(t, open(t), &executor.Job{Resources: executor.Resources{Memory: 96 << 20}})
	log, failure := run(t, env, "dd if=/dev/zero of=/dev/null bs=512M count=1")
	if failure == nil || failure.Code != event.CodeOutOfMemory || failure.Hint == "" {
		t.Fatalf("it ends with %+v\n%s", failure, log)
	}
	for _, want := range []string{"the job used 96 MiB", "may use 96 MiB"} {
		if !strings.Contains(failure.Message, want) {
			t.Errorf("the message does not say %q: %s", want, failure.Message)
		}
	}
	if log, failure := run(t, env, "echo on"); failure != nil || log != "on\n" {
		t.Errorf("the environment goes on with %q, %v", log, failure)
	}
}

func TestAnEnvironmentWhoseStepRunnerIsKilledForMemoryIsNamed(t *testing.T) {
	env := prepare(t, open(t), &executor.Job{Resources: executor.Resources{Memory: 96 << 20}})
	// The kernel kills the process with the highest score first.
	log, failure := run(t, env, "echo 1000 >/proc/$PPID/oom_score_adj; dd if=/dev/zero of=/dev/null bs=512M count=1; sleep 60")
	if failure == nil || failure.Code != event.CodeOutOfMemory || !strings.Contains(failure.Message, "may use 96 MiB") {
		t.Errorf("it ends with %+v\n%s", failure, log)
	}
	if err := env.Err(); !errors.Is(err, executor.ErrGone) || !errors.Is(err, executor.ErrOutOfMemory) {
		t.Errorf("the environment ends with %v", err)
	}
}

func TestAForkBombEndsWithItsJob(t *testing.T) {
	env := prepare(t, open(t), &executor.Job{Resources: executor.Resources{PIDs: 64}})
	group := groupOf(t, env)
	_, failure := run(t, env, `bomb() { bomb | bomb & }; bomb; sleep 1; echo "$(ls -d /proc/[0-9]* | wc -l)"; exit 3`)
	if failure == nil {
		t.Error("it succeeds")
	}
	if used := group.Usage(); used.Refused == 0 {
		t.Errorf("no process was refused: %+v", used)
	}
	if err := session.End(t.Context(), env.Close); err != nil {
		t.Error(err)
	}
	if group.Exists() {
		t.Error("its group is left")
	}
}

func TestProcessorsAreShared(t *testing.T) {
	env := prepare(t, open(t), &executor.Job{Resources: executor.Resources{CPU: 0.1}})
	if log, failure := run(t, env, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"); failure != nil {
		t.Fatalf("%v\n%s", failure, log)
	}
	if used := groupOf(t, env).Usage(); used.Throttled == 0 {
		t.Errorf("it never waited: %+v", used)
	}
}

func TestADaemonDiesWithItsJob(t *testing.T) {
	for name, end := range map[string]func(*testing.T, executor.Environment){
		"closed": func(*testing.T, executor.Environment) {},
		"after its step-runner was killed": func(t *testing.T, env executor.Environment) {
			signal(t, env, syscall.SIGKILL)
			<-env.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := prepare(t, open(t), &executor.Job{})
			const script = `env -i setsid sh -c 'cd /; sleep 600 & echo $! >"$0"; wait' "$PWD/pid" >/dev/null 2>&1 </dev/null & while ! [ -s pid ]; do sleep 0.01; done; cat pid; wait_for=$(cat pid); kill -0 $wait_for; exec 1>&-; sleep ${AFTER:-0}`
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pid := make(chan string, 1)
			go func() { pid <- executortest.FirstLine(ctx, env, "AFTER=600\n"+script) }()
			daemon := <-pid
			if daemon == "" {
				t.Fatal("there is no daemon")
			}
			end(t, env)
			if err := session.End(t.Context(), env.Close); err != nil {
				t.Error(err)
			}
			if status, err := os.ReadFile("/proc/" + daemon + "/status"); err == nil && !strings.Contains(string(status), "State:\tZ") { // for its parent
				t.Errorf("process %s is still there:\n%s", daemon, status)
			}
		})
	}
}

func TestEverythingOfAJobIsInItsGroup(t *testing.T) {
	env := prepare(t, open(t), &executor.Job{})
	name := "/" + filepath.Base(filepath.Dir(env.Layout().Bin))
	log, failure := run(t, env, "grep -c '"+name+"$' /proc/self/cgroup")
	if failure != nil || strings.TrimSpace(log) == "0" {
		t.Errorf("a step is elsewhere: %v\n%s", failure, log)
	}
	var out strings.Builder
	code, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"cat", "/proc/self/cgroup"}, Stdout: &out})
	if err != nil || code != 0 || !strings.Contains(out.String(), name+"\n") {
		t.Errorf("a shell is elsewhere: %d, %v\n%s", code, err, out.String())
	}
}

func TestASlotHoldsItsJobs(t *testing.T) {
	e := open(t)
	slot, err := groups.Slot("rung-test-"+filepath.Base(t.TempDir())+"/slot-${slot}", 3)
	if err != nil {
		t.Fatal(err)
	}
	var dirs map[string]string
	t.Cleanup(func() { // after the environment's
		for _, dir := range dirs {
			_ = syscall.Rmdir(filepath.Dir(dir))
			_ = syscall.Rmdir(filepath.Dir(filepath.Dir(dir)))
		}
	})
	env := prepare(t, e, &executor.Job{Slot: slot, Resources: executor.Resources{PIDs: 100}})
	dirs = groupOf(t, env).Dirs
	for _, dir := range groupOf(t, env).Dirs {
		if !strings.HasSuffix(filepath.Dir(dir), "/"+slot) {
			t.Errorf("its group is %s, not in %s", dir, slot)
		}
	}
	if log, failure := run(t, env, "grep -c '"+slot+"/' /proc/self/cgroup"); failure != nil || strings.TrimSpace(log) == "0" {
		t.Errorf("a step is elsewhere: %v\n%s", failure, log)
	}
}

func TestLimitsThatCannotBeHeldAreRefused(t *testing.T) {
	e := open(t)
	for name, c := range map[string]struct {
		asks executor.Job
		want string
	}{
		"disk space":                 {executor.Job{Resources: executor.Resources{Disk: 1 << 30}}, `does not support limits of disk space, which the job asks for; "container" does`},
		"swap space without memory":  {executor.Job{Resources: executor.Resources{Swap: 1}}, "a limit of swap space needs one of memory"},
		"a list that is none":        {executor.Job{Resources: executor.Resources{CPUSet: "one"}}, `"one" is not a list of processors`},
		"processors that are not":    {executor.Job{Resources: executor.Resources{CPUSet: "60000"}}, "processor 60000"},
		"a slot that leads upwards":  {executor.Job{Slot: "../up"}, "does not name a control group"},
		"a template of one":          {executor.Job{Slot: "ci/${user}"}, "does not name a control group"},
		"an image":                   {executor.Job{Network: executor.NetworkNone}, "the network policy"},
		"less memory than is in use": {executor.Job{Resources: executor.Resources{Memory: 4096}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := c.asks
			job.ID, job.ProjectName = "refused", "shop"
			env, err := e.Prepare(t.Context(), &job, nil)
			if err == nil {
				_ = env.Close(context.Background())
				if c.want != "" {
					t.Fatal("it is accepted")
				}
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, and does not say %q", err, c.want)
			}
		})
	}
}

// elsewhere is another machine, which has no control groups.
type elsewhere struct{ host.Host }

func (elsewhere) Name() string            { return "ssh://build-1" }
func (elsewhere) Platform() host.Platform { return host.Platform{OS: "darwin", Arch: "arm64"} }

func TestAHostWithoutLinuxIsRefused(t *testing.T) {
	_, err := cgroup.New(t.Context(), executor.Setup{Host: elsewhere{}}, cgroup.Options{})
	if err == nil || !strings.Contains(err.Error(), `needs Linux, and ssh://build-1 has darwin; use "none" there`) {
		t.Errorf("the error is %v", err)
	}
}

func BenchmarkPrepare(b *testing.B) {
	e := open(b)
	for b.Loop() {
		env, err := e.Prepare(b.Context(), &executor.Job{ID: "fast", ProjectName: "shop"}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := env.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
