//go:build unix

package manager_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/connect"
	"github.com/rungci/rung/executor/provider/hosts"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

func TestMain(m *testing.M) {
	if file := os.Getenv("RUNG_TEST_VICTIM"); file != "" {
		if err := beVictim(file); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(pluginVariable) != "" {
		bePlugin()
		return
	}
	code := m.Run()
	executortest.RemoveProgram()
	os.Exit(code)
}

// world is a GitLab and a manager of it.
type world struct {
	t       *testing.T
	dir     string
	url     string
	server  *gitlabtest.Server
	tokens  []string
	hosts   []hosts.Host      // of the provider that entries with [runners.provider] have
	others  provider.Provider // instead of hosts; may be nil
	manager *manager.Manager
	ended   chan error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), server: gitlabtest.New(gitlabtest.Options{}), ended: make(chan error, 1)}
	w.serve()
	return w
}

// serve lets the server be reached.
func (w *world) serve() {
	server := httptest.NewServer(w.server)
	w.t.Cleanup(server.Close)
	w.url = server.URL
}

// configure reads a configuration. Each %s in it is the address and token of another runner.
func (w *world) configure(global string, entries ...string) *config.Config {
	w.t.Helper()
	c, err := w.read(global, entries...)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) read(global string, entries ...string) (*config.Config, error) {
	text := global + "\n"
	for i, entry := range entries {
		if i == len(w.tokens) {
			w.tokens = append(w.tokens, w.server.NewRunner())
		}
		text += fmt.Sprintf("[[runners]]\nname = \"runner-%d\"\nurl = %q\ntoken = %q\nexecutor = \"shell\"\n%s\n", i, w.url, w.tokens[i], entry)
	}
	report := config.Check("config.toml", []byte(text), os.Getenv)
	return report.Config, report.Err()
}

func (w *world) options(c *config.Config, program string) manager.Options {
	return manager.Options{
		Config: c, SystemID: "s_0123456789ab", State: filepath.Join(w.dir, "state"), Secret: []byte("a secret"), Version: "1", Revision: "test",
		Log:     logTo(),
		Program: func(string, string) (string, error) { return program, nil },
		Open: func(ctx context.Context, _ *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
			if level != executor.None {
				return nil, fmt.Errorf("there is no level %s in this test", level)
			}
			if setup.Temp == "" {
				setup.Temp = filepath.Join(w.dir, "temp")
			}
			if err := os.MkdirAll(setup.Temp, 0o700); err != nil {
				return nil, err
			}
			return none.New(ctx, setup, none.Options{Ahead: true})
		},
		Provider: func(_ context.Context, _ *config.Runner, setup provider.Setup) (provider.Provider, error) {
			if w.others != nil {
				return w.others, nil
			}
			return hosts.New(w.hosts, setup)
		},
		Connect: func(ctx context.Context, to provider.Access) (host.Host, error) {
			return connect.Host(ctx, to, func(string, string) (string, error) { return program, nil })
		},
	}
}

func (w *world) start(c *config.Config) {
	w.t.Helper()
	program, err := executortest.Program()
	if err != nil {
		w.t.Fatal(err)
	}
	w.run(w.options(c, program))
}

// run starts a manager.
func (w *world) run(o manager.Options) {
	w.t.Helper()
	var err error
	if w.manager, err = manager.New(o); err != nil {
		w.t.Fatal(err)
	}
	go func() { w.ended <- w.manager.Run(context.WithoutCancel(w.t.Context())) }()
	w.t.Cleanup(func() {
		w.manager.Kill("the test is over")
		w.wait()
		for _, v := range w.server.Violations() {
			w.t.Error("GitLab objects:", v)
		}
	})
}

// wait waits until the manager has ended.
func (w *world) wait() {
	w.t.Helper()
	select {
	case err := <-w.ended:
		if err != nil {
			w.t.Error(err)
		}
		w.ended <- nil
	case <-time.After(3 * time.Minute):
		w.t.Fatal("the manager does not end")
	}
}

func script(lines ...string) gitlab.Job {
	return gitlab.Job{
		Info:      gitlab.JobInfo{Name: "test", ProjectID: 7, ProjectName: "project"},
		Variables: []gitlab.Variable{{Key: "GIT_STRATEGY", Value: "none"}, {Key: "FF_TIMESTAMPS", Value: "false"}},
		Steps:     []gitlab.Step{{Name: "script", Script: lines}},
	}
}

// untilThereIs is a command that waits for a file, which make makes.
func untilThereIs(file string) string { return "until [ -e " + file + " ]; do sleep 0.1; done" }

func (w *world) make(file string) {
	w.t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) result(j *gitlabtest.Job) gitlabtest.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	r, err := j.Wait(ctx)
	if err != nil {
		w.t.Fatalf("the job does not end: %v\n%s", err, r.Log)
	}
	return r
}

func TestJobsRunOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	const jobs = 40
	var all []*gitlabtest.Job
	for range jobs {
		all = append(all, w.server.Enqueue(script("true")))
	}
	if _, err := executortest.Program(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.start(w.configure("concurrent = 4\ncheck_interval = 1", ""))
	for _, j := range all {
		if r := w.result(j); r.State != gitlab.Success {
			t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
		}
	}
	t.Logf("%.1f jobs a second", jobs/time.Since(began).Seconds())
	w.manager.Drain()
	w.wait()
	if left, _ := filepath.Glob(filepath.Join(w.dir, "state", "running", "*")); len(left) > 0 {
		t.Error("left:", left)
	}
}

func TestALimitBoundsTheJobsOfARunner(t *testing.T) {
	w := newWorld(t)
	gate := filepath.Join(w.dir, "go")
	first, second := w.server.Enqueue(script("echo begun; "+untilThereIs(gate))), w.server.Enqueue(script("echo second"))
	w.start(w.configure("concurrent = 4\ncheck_interval = 1", "limit = 1\nrequest_concurrency = 4"))
	if err := first.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	if n := len(w.manager.Running()); n != 1 {
		t.Errorf("%d jobs run", n)
	}
	if r := second.Result(); r.State != gitlab.Pending {
		t.Errorf("the second job is %s", r.State)
	}
	w.make(gate)
	w.result(second)
}

func TestDrainingFinishesWhatRuns(t *testing.T) {
	w := newWorld(t)
	gate := filepath.Join(w.dir, "go")
	runs := w.server.Enqueue(script("echo begun; " + untilThereIs(gate) + "; echo whole"))
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", ""))
	if err := runs.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	waits := w.server.Enqueue(script("true"))
	w.manager.Drain()
	w.make(gate)
	w.wait()
	if r := runs.Result(); r.State != gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
	if r := waits.Result(); r.State != gitlab.Pending {
		t.Errorf("the job that waits is %s", r.State)
	}
}

func TestStoppingRunsAfterScripts(t *testing.T) {
	w := newWorld(t)
	from := script("echo begun; sleep 60")
	from.Steps = append(from.Steps, gitlab.Step{Name: "after_script", Script: []string{"echo cleaned up"}})
	from.Features.FailureReasons = []string{"runner_interrupted"}
	j := w.server.Enqueue(from)
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", ""))
	if err := j.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	w.manager.Stop("the runner ends")
	w.wait()
	if r := j.Result(); r.FailureReason != "runner_interrupted" || !strings.Contains(r.Log, "cleaned up") {
		t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}

func TestTheConfigurationIsReloaded(t *testing.T) {
	w := newWorld(t)
	c := w.configure("concurrent = 1\ncheck_interval = 1", "", "")
	one := *c
	one.Runners = c.Runners[:1]
	w.start(&one)
	first := w.server.Enqueue(script("echo begun; sleep 2"))
	if err := first.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	two := *c
	two.Runners, two.Concurrent = c.Runners[1:], 2
	if err := w.manager.Reload(t.Context(), &two); err != nil {
		t.Fatal(err)
	}
	second := w.result(w.server.Enqueue(script("true")))
	if second.State != gitlab.Success || !strings.Contains(second.Log, "runner-1") {
		t.Errorf("%s\n%s", second.State, second.Log)
	}
	if r := w.result(first); r.State != gitlab.Success { // which its runner has, though it is asked for no more
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

func TestIsolationThatAJobAsksFor(t *testing.T) {
	w := newWorld(t)
	w.start(w.configure("concurrent = 4\ncheck_interval = 1", "[runners.isolation]\ndefault = \"none\"\nallowed = [\"none\", \"cgroup\"]"))
	for _, c := range []struct{ asks, state, log string }{
		{"", "success", "Job succeeded"},
		{"none", "success", "Job succeeded"},
		{"cgroup", "failed", "there is no level cgroup in this test"},
		{"container", "failed", "runners.isolation.allowed"},
		{"strong", "failed", "which is not a level"},
	} {
		from := script("true")
		from.Variables = append(from.Variables, gitlab.Variable{Key: "RUNG_ISOLATION", Value: c.asks})
		if r := w.result(w.server.Enqueue(from)); string(r.State) != c.state || !strings.Contains(r.Log, c.log) {
			t.Errorf("%q: %s %s\n%s", c.asks, r.State, r.FailureReason, r.Log)
		}
	}
}

func TestAStrongerMinimum(t *testing.T) {
	w := newWorld(t)
	c := w.configure("concurrent = 1\ncheck_interval = 1", "[runners.isolation]\ndefault = \"cgroup\"\nminimum = \"cgroup\"\nallowed = [\"none\", \"cgroup\"]")
	o := w.options(c, program(t))
	o.Open = func(context.Context, *config.Runner, executor.Level, executor.Setup) (executor.Executor, error) {
		level := &broken{level: executor.CGroup}
		level.answers.Store(true)
		return level, nil
	}
	w.run(o)
	from := script("true")
	from.Variables = append(from.Variables, gitlab.Variable{Key: "RUNG_ISOLATION", Value: "none"})
	if r := w.result(w.server.Enqueue(from)); r.State != gitlab.Failed || !strings.Contains(r.Log, "runners.isolation.minimum") {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

// logTo is where managers of tests log to.
func logTo() *slog.Logger {
	if os.Getenv("RUNG_TEST_LOG") == "" {
		return nil
	}
	f, err := os.OpenFile(os.Getenv("RUNG_TEST_LOG"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	return slog.New(slog.NewTextHandler(f, nil))
}
