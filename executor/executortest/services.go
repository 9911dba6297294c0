package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// reported is what a level says while it prepares an environment.
type reported struct {
	mu sync.Mutex
	strings.Builder
}

func (r *reported) report(p event.Preparing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r, p.Message)
}

// Services tries the services of a level that has them. The image of its jobs has a shell and the commands of busybox. Each service has a port of its
// own: on some levels they share a network.
func Services(t *testing.T, level Level) {
	isolated := executor.NetworkNone // the policy of what needs no network, where the level has it
	can := capabilities(t, level)
	if !slices.Contains(can.Networks, isolated) {
		isolated = executor.NetworkDefault
	}
	service := func(script string, variables map[string]string, aliases ...string) containers.Service {
		s := containers.Service{Image: *level.Job("any").Image, Aliases: aliases, Command: []string{"-c", script}, Variables: map[string]string{"HEALTHCHECK_TCP_PORT": "8080"}}
		s.Entrypoint = []string{"sh"}
		for name, value := range variables {
			s.Variables[name] = value
		}
		return s
	}
	const serve, other = `exec nc -ll -p 8080 -e echo "I am $NAME of $JOB$SETTING"`, `exec nc -ll -p 8081 -e echo "I am $NAME of $JOB$SETTING"`
	ask := func(t *testing.T, policy executor.NetworkPolicy, services ...containers.Service) (answers func(script string) string, said string, err error) {
		t.Helper()
		dir := t.TempDir()
		e, err := level.New(dir, executor.Lease{})
		if err != nil {
			t.Fatal(err)
		}
		j, log := level.Job("services"), &reported{}
		j.Network, j.Services, j.Masked = policy, services, []string{"hidden word"}
		j.Variables, j.Private = map[string]string{"JOB": "the job", "NAME": "nobody", "SETTING": " which is private"}, []string{"SETTING"}
		env, err := e.Prepare(t.Context(), j, log.report)
		t.Cleanup(func() {
			if env != nil {
				err = env.Close(context.Background())
			}
			if err := errors.Join(e.Close()); err != nil {
				t.Error(err)
			}
			if left, leftErr := level.Left(dir); leftErr != nil || len(left) > 0 {
				t.Errorf("left: %q %v", left, leftErr)
			}
		})
		return func(script string) string {
			t.Helper()
			var out bytes.Buffer
			if code, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out}); err != nil || code != 0 {
				t.Errorf("%s: code %d, %v", script, code, err)
			}
			return out.String()
		}, log.String(), err
	}
	for _, policy := range []executor.NetworkPolicy{executor.NetworkDefault, executor.NetworkNone, executor.NetworkPublic} {
		if policy != executor.NetworkDefault && !slices.Contains(can.Networks, policy) {
			continue
		}
		sideBySide(t, "are reached under all their names when the job begins with the network policy "+string(policy), func(t *testing.T) {
			run, said, err := ask(t, policy, service("sleep 0.3; "+serve, map[string]string{"NAME": "db"}, "db", "database"), service(other, map[string]string{"NAME": "other", "HEALTHCHECK_TCP_PORT": "8081"}, "second"))
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			// Between two answers of a service nobody listens.
			for name, want := range map[string]string{"db 8080": "I am db of the job\n", "database 8080": "I am db of the job\n", "second 8081": "I am other of the job\n"} {
				if got := run("for n in 1 2 3 4 5 6 7 8 9; do nc -w 5 " + name + " </dev/null 2>/dev/null && break; sleep 0.5; done"); got != want {
					t.Errorf("%s answers %q\n%s", name, got, said)
				}
			}
			if strings.Contains(said, "warning") {
				t.Error(said)
			}
		})
	}
	sideBySide(t, "reach those that were started before them", func(t *testing.T) {
		run, said, err := ask(t, isolated, service(serve, map[string]string{"NAME": "db"}, "db"), service(`while answer=$(nc -w 5 db 8080 </dev/null); [ ! "$answer" ]; do sleep 0.2; done; exec nc -ll -p 8081 -e echo "$answer"`, map[string]string{"HEALTHCHECK_TCP_PORT": ""}, "front"))
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if got := run("for n in 1 2 3 4 5; do nc -w 5 front 8081 </dev/null && break; sleep 1; done"); !strings.Contains(got, "I am db of the job") {
			t.Errorf("it answers %q", got)
		}
	})
	sideBySide(t, "are adopted and removed with their job", func(t *testing.T) { adoptsServices(t, level, service(serve, nil, "db")) })
	sideBySide(t, "that end are reported at once with their log and nothing that is masked", func(t *testing.T) {
		_, said, err := ask(t, executor.NetworkDefault, service("echo no such database, hidden word; exit 3", nil))
		if err != nil || !strings.Contains(said, "probably did not start properly: it ended with code 3") || !strings.Contains(said, "no such database") || strings.Contains(said, "hidden word") {
			t.Errorf("%v\n%s", err, said)
		}
	})
	sideBySide(t, "that cannot be started are the job's mistake", func(t *testing.T) {
		broken := service("", nil)
		broken.Entrypoint = []string{"/no/such/program"}
		_, said, err := ask(t, executor.NetworkDefault, broken)
		var user *executor.UserError
		if !errors.As(err, &user) || !strings.Contains(err.Error(), "/no/such/program") {
			t.Errorf("%v\n%s", err, said)
		}
	})
	sideBySide(t, "are waited for by their own checks", func(t *testing.T) {
		checked := service("sleep 1; echo yes >/tmp/ready; sleep 600", nil, "checked")
		checked.Health = &containers.Health{Command: "test -e /tmp/ready", Interval: 200 * time.Millisecond, Retries: 50}
		failing := service("sleep 600", nil, "failing")
		failing.Health = &containers.Health{Command: "exit 1", Interval: 100 * time.Millisecond, Retries: 2}
		_, said, err := ask(t, isolated, checked, failing)
		if err != nil || strings.Count(said, "warning") != 1 || !strings.Contains(said, `its health check "exit 1" fails`) {
			t.Errorf("%v\n%s", err, said)
		}
	})
}

// capabilities are those of a level.
func capabilities(t *testing.T, level Level) executor.Capabilities {
	t.Helper()
	e, err := level.New(t.TempDir(), executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.Capabilities()
}

// adoptsServices takes over a job with a service that answers as db.
func adoptsServices(t *testing.T, level Level, answering containers.Service) {
	t.Helper()
	dir, lease := t.TempDir(), executor.Lease{Owner: "owner", Keep: time.Minute}
	var env executor.Environment
	for range 2 {
		e, err := level.New(dir, lease)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if env == nil {
			j := level.Job("adopted")
			j.Services = []containers.Service{answering}
			if env, err = e.Prepare(t.Context(), j, nil); err == nil {
				err = env.Detach()
			}
		} else {
			env, err = e.Recover(t.Context(), env.Handle())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"nc", "-w", "5", "db", "8080"}, Stdout: &out}); err != nil || !strings.Contains(out.String(), "I am") {
		t.Errorf("%v, %q", err, out.String())
	}
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
