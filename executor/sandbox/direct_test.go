//go:build unix

package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// networkVariable names the network of sandboxes without an engine.
const networkVariable = "RUNG_SANDBOX_NETWORK"

// logged keeps what a run says.
type logged struct{ strings.Builder }

// Event implements event.Sink.
func (l *logged) Event(e event.Event) {
	if b, ok := e.Body.(event.Log); ok {
		l.Write(b.Data)
	}
}

// sandboxed prepares a job in a sandbox without an engine.
func sandboxed(t *testing.T, ask func(*executor.Job)) executor.Environment {
	t.Helper()
	alone(t)
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

// run runs a script in an environment.
func run(t *testing.T, env executor.Environment, script string) (string, error) {
	t.Helper()
	log := &logged{}
	err := session.Run(t.Context(), nil, env, client.Request{ID: "run", Text: "- script: |\n    " + strings.ReplaceAll(script, "\n", "\n    "), WorkDir: env.Layout().Project}, log)
	return log.String(), err
}

func TestASandboxSaysWhatItRanOutOf(t *testing.T) {
	env := sandboxed(t, func(j *executor.Job) { j.Resources.Memory = 96 << 20 })
	log, err := run(t, env, "dd if=/dev/zero of=/dev/null bs=256M count=1; echo exceeded")
	if !errors.Is(err, executor.ErrOutOfMemory) || !strings.Contains(err.Error(), "may use 96 MiB") {
		t.Errorf("it ends with %v\n%s", err, log)
	}
}

func TestASandboxHasItsOwnKernel(t *testing.T) {
	env := sandboxed(t, func(*executor.Job) {})
	log, err := run(t, env, "dmesg | head -n 1")
	if err != nil || !strings.Contains(log, "gVisor") {
		t.Errorf("%v\n%s", err, log)
	}
}

func TestAJobUsesNoMoreDiskThanItMay(t *testing.T) {
	env := sandboxed(t, func(j *executor.Job) { j.Resources.Disk = 20 << 20 })
	log, err := run(t, env, "dd if=/dev/zero of=small bs=1M count=10 && echo fits\ndd if=/dev/zero of=large bs=1M count=30 || echo full")
	if err != nil || !strings.Contains(log, "fits") || !strings.Contains(log, "full") {
		t.Errorf("%v\n%s", err, log)
	}
}

func TestASandboxSaysThatAJobHasTooManyProcesses(t *testing.T) {
	env := sandboxed(t, func(j *executor.Job) { j.Resources.PIDs = 64 })
	log, err := run(t, env, "n=0; while [ $n -lt 400 ]; do sleep 60 & n=$((n+1)); done; echo exceeded")
	if !errors.Is(err, executor.ErrGone) || !strings.Contains(err.Error(), "more processes and threads than it may") || strings.Contains(log, "exceeded") {
		t.Errorf("it ends with %v\n%s", err, log)
	}
}

// ownAddress is an address of this machine that is not one of loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	t.Skip("needs a network of this machine")
	return ""
}

func TestASandboxReachesWhatThisMachineReachesUnlessItShallNot(t *testing.T) {
	enginetest.Program(t, "slirp4netns")
	enginetest.Program(t, "ip")
	listener, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hello\n"))
			_ = conn.Close()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	reach := func(host string) string { return fmt.Sprintf("nc -w 3 %s %d </dev/null || true", host, port) }
	for _, c := range []struct {
		name, script string
		policy       executor.NetworkPolicy
		reached      bool
	}{
		{"the network", reach(ownAddress(t)), executor.NetworkDefault, true},
		{"this machine's loopback", reach("127.0.0.1") + "; " + reach("10.0.2.2"), executor.NetworkDefault, false},
		{"no network", reach(ownAddress(t)), executor.NetworkNone, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := sandboxed(t, func(j *executor.Job) { j.Network = c.policy })
			if log, err := run(t, env, c.script); err != nil || strings.Contains(log, "hello") != c.reached {
				t.Errorf("%v\n%s", err, log)
			}
			if err := session.End(t.Context(), env.Close); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join("/run/netns", env.Layout().Name)); err == nil {
				t.Error("its network namespace is left")
			}
			if left := processes(t, "slirp4netns", env.Layout().Name); len(left) > 0 {
				t.Errorf("this is left: %v", left)
			}
		})
	}
}

func TestASandboxReachesWhatItsNetworkPolicyLetsThrough(t *testing.T) {
	alone(t)
	enginetest.Program(t, "slirp4netns")
	enginetest.Busybox(t)
	w := enginetest.NewWorld(t)
	l := level()
	t.Setenv(networkVariable, w.Namespace(t))
	in := executortest.World{Level: l, At: w.At, Rebind: enginetest.RebindName, Four: true}
	executortest.Network(t, in)
	t.Run("names that lead elsewhere each time", func(t *testing.T) { executortest.Rebinding(t, in) })
}

func TestASandboxReachesItsMachineWhereThatIsListed(t *testing.T) {
	alone(t)
	enginetest.Program(t, "slirp4netns")
	executortest.Machine(t, level(), ownAddress(t))
}

func TestTheGatewayOfASandboxIsNobodyAndEndsWithIt(t *testing.T) {
	enginetest.Program(t, "ip")
	env := sandboxed(t, func(j *executor.Job) { j.Network = executor.NetworkPublic })
	name := env.Layout().Name
	found := processes(t, "egress", name)
	if len(found) != 1 {
		t.Fatalf("these are its gateways: %v", found)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", found[0]))
	if err != nil || !strings.Contains(string(status), "\nUid:\t65534\t65534\t65534\t65534\n") {
		t.Errorf("%v\n%s", err, status)
	}
	for _, pid := range processes(t, env.Handle().ID, "runsc-sandbox") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-env.Done()
	for range 100 {
		if len(processes(t, "egress", name)) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if left := processes(t, "egress", name); len(left) > 0 {
		t.Errorf("the gateway lives: %v", left)
	}
	if err := session.End(t.Context(), env.Close); err != nil {
		t.Error(err)
	}
	if left := belongings(name); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}

func TestServicesOfASandbox(t *testing.T) {
	alone(t)
	enginetest.Program(t, "slirp4netns")
	executortest.Services(t, level())
}

func TestServicesOfASandboxHaveTheirLimitsAndSecrets(t *testing.T) {
	enginetest.Program(t, "ip")
	const secret = "only-in-memory"
	env := sandboxed(t, func(j *executor.Job) {
		j.ServiceResources = executor.Resources{Memory: 96 << 20, Disk: 20 << 20}
		s := containers.Service{Image: *j.Image, Aliases: []string{"db"}, Variables: map[string]string{"PASSWORD": secret, "HEALTHCHECK_TCP_PORT": "80"}}
		s.Entrypoint, s.Command = []string{"sh", "-c"}, []string{"dd if=/dev/zero of=large bs=1M count=30 2>/dev/null; exec nc -ll -p 80 -e sh -c 'echo \"$PASSWORD $(stat -c %s large)\"'"}
		j.Services = []containers.Service{s}
	})
	log, err := run(t, env, "nc -w 5 db 80 </dev/null")
	if size := strings.TrimPrefix(strings.TrimSpace(log), secret+" "); err != nil || !strings.Contains(log, secret) || size == fmt.Sprint(30<<20) {
		t.Errorf("%v\n%s", err, log)
	}
	if out, err := exec.Command("grep", "-rlaF", "--devices=skip", secret, env.Handle().ID).Output(); err == nil {
		t.Errorf("its secret is in %s", out)
	}
	text, err := os.ReadFile(filepath.Join(env.Handle().ID, "service-1", "group.json"))
	var group cgroup.Group
	if err = errors.Join(err, json.Unmarshal(text, &group)); err != nil || group.Usage().Memory != 96<<20 {
		t.Errorf("its limit is %+v, %v", group.Usage(), err)
	}
}
