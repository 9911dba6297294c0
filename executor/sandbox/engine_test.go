//go:build unix

package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/sandbox"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/containers"
)

// throughEngine prepares a job in a sandbox of the tests' engine.
func throughEngine(t *testing.T, ask func(*executor.Job)) executor.Environment {
	t.Helper()
	enginetest.Runsc(t)
	enginetest.Busybox(t)
	t.Setenv(wayVariable, string(sandbox.ThroughEngine))
	l := level()
	e, err := l.New(t.TempDir(), executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	j := job("job")
	ask(j)
	env, err := e.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.End(t.Context(), env.Close); err != nil {
			t.Error(err)
		}
	})
	return env
}

func TestASandboxOfAnEngineReachesItsServicesByTheirNames(t *testing.T) {
	for name, user := range map[string]string{"root": "", "another user": "worker"} {
		t.Run(name, func(t *testing.T) {
			env := throughEngine(t, func(j *executor.Job) {
				j.Image.User = user
				j.Services = []containers.Service{{
					Image:   containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}, Entrypoint: []string{"sh", "-c", "exec nc -ll -p 80 -e echo hello"}},
					Aliases: []string{"web", "other"}, Variables: map[string]string{"HEALTHCHECK_TCP_PORT": "80"},
				}}
			})
			log, err := run(t, env, "dmesg | head -n 1\nnc web 80 </dev/null\nnc other 80 </dev/null\ncat /etc/resolv.conf")
			if err != nil || !strings.Contains(log, "gVisor") || strings.Count(log, "hello") != 2 {
				t.Errorf("%v\n%s", err, log)
			}
			if strings.Contains(log, "127.0.0.11") {
				t.Errorf("it asks a name server that it cannot reach:\n%s", log)
			}
		})
	}
}

func TestWithoutAnEngineThatHasTheRuntimeRunscAloneIsUsed(t *testing.T) {
	t.Setenv(enginetest.RunscVariable, enginetest.Runsc(t))
	setup := executor.Setup{State: filepath.Join(t.TempDir(), "state"), Env: append(os.Environ(), "DOCKER_HOST=unix:///nowhere")}
	e, err := sandbox.New(t.Context(), setup, sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Level() != executor.Sandbox || !e.Capabilities().NeedsRoot {
		t.Errorf("it can %+v", e.Capabilities())
	}
	if err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	setup.Env = append(setup.Env, enginetest.RunscVariable+"=/nowhere/runsc")
	if _, err := sandbox.New(t.Context(), setup, sandbox.Options{}); err == nil || !strings.Contains(err.Error(), "RUNG_RUNSC") || !strings.Contains(err.Error(), "DOCKER_HOST") {
		t.Errorf("without either: %v", err)
	}
}

func TestASandboxOfAnEngineReachesWhatItsNetworkPolicyLetsThrough(t *testing.T) {
	enginetest.Runsc(t)
	enginetest.Busybox(t)
	w := enginetest.NewWorld(t)
	l := level()
	l.Open = func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		o := container.Options{Network: container.Network{Mode: w.Network}}
		o.Job.ExtraHosts, o.Job.DNS = w.Hosts, []string{w.DNS}
		return sandbox.New(ctx, setup, sandbox.Options{
			Way: sandbox.ThroughEngine, Engine: &container.Engine{Host: os.Getenv(enginetest.Variable), From: enginetest.Variable}, Container: o,
		})
	}
	in := executortest.World{Level: l, At: w.At, Rebind: enginetest.RebindName}
	executortest.Network(t, in)
	t.Run("names that lead elsewhere each time", func(t *testing.T) { executortest.Rebinding(t, in) })
}

func TestServicesOfASandboxOfAnEngine(t *testing.T) {
	enginetest.Runsc(t)
	enginetest.Busybox(t)
	t.Setenv(wayVariable, string(sandbox.ThroughEngine))
	executortest.Services(t, level())
}
