//go:build unix

package manager_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/fake"
	"github.com/rungci/rung/executor/provider/hosts"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// reload changes to a configuration with some of the runners of another one.
func (w *world) reload(c *config.Config, runners ...config.Runner) {
	w.t.Helper()
	other := *c
	other.Runners = runners
	if err := w.manager.Reload(w.t.Context(), &other); err != nil {
		w.t.Fatal(err)
	}
}

// waits reports whether a job still waits after some requests for jobs.
func (w *world) waits(j *gitlabtest.Job) bool {
	time.Sleep(1500 * time.Millisecond)
	return j.Result().State == gitlab.Pending
}

func TestARunnerThatComesBackIsTheOneThatItWas(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]string{"limit": "limit = 1", "jobs of a project": "[runners.policy]\nmax_jobs_per_project = 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.configure("concurrent = 4\ncheck_interval = 1", entry)
			w.start(c)
			ends := filepath.Join(w.dir, "ends")
			first := w.server.Enqueue(script("echo begun; while ! test -e " + ends + "; do sleep 0.1; done"))
			if err := first.WaitLog(t.Context(), "begun"); err != nil {
				t.Fatal(err)
			}
			w.reload(c)
			w.reload(c, c.Runners...)
			second := w.server.Enqueue(script("echo second"))
			if !w.waits(second) {
				t.Errorf("a second job is %s", second.Result().State)
			}
			if err := os.WriteFile(ends, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, j := range []*gitlabtest.Job{first, second} {
				if r := w.result(j); r.State != gitlab.Success {
					t.Errorf("%s\n%s", r.State, r.Log)
				}
			}
		})
	}
}

// watched counts how often its provider was closed.
type watched struct {
	provider.Provider
	closed *atomic.Int32
}

func (c watched) Close() error {
	c.closed.Add(1)
	return c.Provider.Close()
}

func TestTheProviderOfARunnerIsClosedAfterItsLastJob(t *testing.T) {
	t.Parallel()
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	c := w.configure("concurrent = 4\ncheck_interval = 1", provided, "")
	o := w.options(c, program)
	opened, closed := new(atomic.Int32), new(atomic.Int32)
	o.Provider = func(_ context.Context, _ *config.Runner, setup provider.Setup) (provider.Provider, error) {
		opened.Add(1)
		return watched{fake.New(fake.Options{Room: 4}, setup), closed}, nil
	}
	w.run(o)
	for until := time.Now().Add(time.Minute); opened.Load() == 0 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	w.reload(c, c.Runners[1])
	for until := time.Now().Add(time.Minute); closed.Load() == 0 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	if opened, closed := opened.Load(), closed.Load(); opened != 1 || closed != 1 {
		t.Errorf("it was opened %d times, and closed %d times", opened, closed)
	}
}

func TestARunnerThatRestsAsksAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(*world, *config.Config){
		"its token": func(w *world, c *config.Config) {
			r := c.Runners[0]
			r.Token = w.server.NewRunner()
			w.reload(c, r)
		},
		"by a signal": func(w *world, _ *config.Config) { w.manager.Wake() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			repair := w.server.Break(func(answer http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				if !strings.HasSuffix(r.URL.Path, "/jobs/request") {
					return false
				}
				answer.WriteHeader(http.StatusForbidden)
				return true
			})
			c := w.configure("concurrent = 1\ncheck_interval = 1", "unhealthy_requests_limit = 1")
			w.start(c)
			for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				if entries := w.manager.State().Entries; len(entries) == 1 && !entries[0].Resting.IsZero() {
					break
				}
				if time.Now().After(until) {
					t.Fatal("the runner does not rest")
				}
			}
			time.Sleep(100 * time.Millisecond)
			repair()
			wake(w, c)
			if r := w.result(w.server.Enqueue(script("true"))); r.State != gitlab.Success {
				t.Errorf("%s\n%s", r.State, r.Log)
			}
		})
	}
}

func TestAChangedRunnerAsksAsItsConfigurationSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server = gitlabtest.New(gitlabtest.Options{LongPoll: 20 * time.Second})
	w.serve()
	c := w.configure("concurrent = 8\ncheck_interval = 1", "request_concurrency = 1")
	w.start(c)
	asks := func(n int) {
		t.Helper()
		asking := -1
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			for _, e := range w.manager.State().Entries {
				if asking = e.Asking; asking == n {
					return
				}
			}
		}
		t.Errorf("%d requests wait for an answer, want %d", asking, n)
	}
	asks(1)
	r := c.Runners[0]
	for _, n := range []int{4, 2} {
		r.RequestConcurrency = n
		w.reload(c, r)
		asks(n)
	}
}

// A configuration may come at any time, also as the last job ends: what was removed is closed, and nothing begins. The race detector judges it, too.
func TestAManagerThatEndsTakesNoConfiguration(t *testing.T) {
	w := newWorld(t)
	w.hosts = []hosts.Host{{Access: provider.Access{Protocol: provider.Local}}}
	const global = "concurrent = 2\ncheck_interval = 1"
	both := w.configure(global, "", provided)
	one := w.configure(global, "")
	w.start(both)
	var over atomic.Bool
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for !over.Load() {
			_ = w.manager.Reload(t.Context(), one) // which may be refused by now
			_ = w.manager.Reload(t.Context(), both)
		}
	})
	w.manager.Drain()
	w.wait()
	over.Store(true)
	reloads.Wait()
	if err := w.manager.Reload(t.Context(), both); err == nil {
		t.Error("a manager that has ended has taken a configuration")
	}
}
