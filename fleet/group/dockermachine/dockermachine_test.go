//go:build unix

package dockermachine_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	xssh "golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/dockermachine"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/options"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "docker-machine" {
		os.Exit(stand(os.Args[1:], os.Stdout, os.Stderr))
	}
	hosttest.Main(m)
}

// program is the stand-in.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "docker-machine")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// answering is an address where somebody answers, and a file with something as a key.
func answering(t *testing.T) (address, port, key string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	address, port, _ = net.SplitHostPort(l.Addr().String())
	key = filepath.Join(t.TempDir(), "key")
	hosttest.WriteKey(t, key)
	return address, port, key
}

// generic are options of the driver for SSH servers that are there already.
func generic(t *testing.T, program, store string) dockermachine.Options {
	t.Helper()
	address, port, key := answering(t)
	return dockermachine.Options{
		Program: program, StoragePath: store, Driver: "generic", Name: "runner-%s-small", MaxSize: 3,
		MachineOptions: []string{"generic-ip-address=" + address, "generic-ssh-port=" + port, "generic-ssh-key=" + key, "generic-ssh-user=ci", "engine-registry-mirror=https://mirror.example.com"},
	}
}

func TestMachinesOfDockerMachineAreAnInstanceGroup(t *testing.T) {
	grouptest.Run(t, grouptest.Subject{Patience: 2 * time.Minute, Open: func(t *testing.T) group.Basic { return made(t, generic(t, program(t), stores(t))) }})
}

// stores is where each test has its store, whichever of its groups asks.
func stores(t *testing.T) string {
	return filepath.Join(os.TempDir(), "machines-"+strconv.Itoa(os.Getpid())+strings.NewReplacer("/", "-", ",", "").Replace(t.Name()))
}

func made(t *testing.T, o dockermachine.Options) group.Basic {
	t.Helper()
	if err := os.MkdirAll(o.StoragePath, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(o.StoragePath) })
	g, err := dockermachine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fleet is a group in one test.
type fleet struct {
	*group.Group
	t     *testing.T
	store string
}

func open(t *testing.T, state string, o dockermachine.Options) *fleet {
	t.Helper()
	f := &fleet{Group: group.Adapt(made(t, o)), t: t, store: o.StoragePath}
	if _, err := f.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "tests", State: state}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

func (f *fleet) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.Shutdown(ctx); err != nil {
		f.t.Error(err)
	}
}

// tell makes the stand-in do something, or cease to.
func (f *fleet) tell(what string, yes bool) {
	f.t.Helper()
	file := filepath.Join(f.store, what)
	err := os.Remove(file)
	if yes {
		err = os.WriteFile(file, nil, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// stored are the machines of the store.
func (f *fleet) stored() (names []string) {
	entries, _ := os.ReadDir(filepath.Join(f.store, "machines"))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (f *fleet) eventually(what string, so func() bool) {
	f.t.Helper()
	for until := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			f.t.Fatalf("it is not so that %s", what)
		}
	}
}

func (f *fleet) look(id string) group.Instance {
	f.t.Helper()
	all, err := f.List(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, i := range all {
		if i.ID == id {
			return i
		}
	}
	return group.Instance{State: group.StateDeleted}
}

func (f *fleet) create(request string) string {
	f.t.Helper()
	created, err := f.Create(f.t.Context(), group.Request{ID: request, Count: 1})
	if err != nil || len(created.Instances) != 1 {
		f.t.Fatalf("%+v, %v", created, err)
	}
	return created.Instances[0]
}

func (f *fleet) delete(id string) {
	f.t.Helper()
	if _, err := f.Delete(f.t.Context(), []string{id}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) is(id string, state group.State) func() bool {
	return func() bool { return f.look(id).State == state }
}

func TestAMachineIsReachedAsItsDriverSays(t *testing.T) {
	s := hosttest.StartSSHD(t)
	user, at, _ := strings.Cut(s.Address, "@")
	address, port, _ := net.SplitHostPort(at)
	o := generic(t, program(t), t.TempDir())
	o.MachineOptions = []string{"--generic-ip-address=" + address, "generic-ssh-port=" + port, "generic-ssh-key=" + s.Key, "generic-ssh-user=" + user}
	f := open(t, t.TempDir(), o)
	id := f.create("r")
	f.eventually("it runs", f.is(id, group.StateRunning))
	if !strings.HasPrefix(id, "runner-") || !strings.HasSuffix(id, "-small") {
		t.Errorf("its name is %q", id)
	}
	info, err := f.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ssh.New(t.Context(), ssh.Options{
		Address: info.Username + "@" + info.Addr(true), KeyText: info.Key, Fingerprint: xssh.FingerprintSHA256(s.HostKey), Config: []string{os.DevNull},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if got := hosttest.Sh(t, h, "echo $HOME"); got != s.Home {
		t.Errorf("it is another host, with %s", got)
	}
}

func TestAMachineThatCannotBeMadeHasFailedAndIsRemoved(t *testing.T) {
	f := open(t, t.TempDir(), generic(t, program(t), t.TempDir()))
	f.tell("refuse-create", true)
	id := f.create("r")
	f.eventually("it has failed", f.is(id, group.StateFailed))
	if i := f.look(id); !strings.Contains(i.Reason, "the cloud has no room") {
		t.Errorf("it has failed because %s", i.Reason)
	}
	f.delete(id)
	f.eventually("nothing is left", func() bool { return len(f.stored()) == 0 && f.look(id).State == group.StateDeleted })
}

func TestARemovalThatFailsIsTriedAgain(t *testing.T) {
	f := open(t, t.TempDir(), generic(t, program(t), t.TempDir()))
	id := f.create("r")
	f.eventually("it runs", f.is(id, group.StateRunning))
	f.tell("refuse-rm", true)
	f.delete(id)
	f.eventually("it says why it is still there", func() bool { return strings.Contains(f.look(id).Reason, "the cloud is away") })
	if i := f.look(id); i.State != group.StateDeleting {
		t.Errorf("it is %s", i.State)
	}
	f.tell("refuse-rm", false)
	f.eventually("it goes", func() bool { f.delete(id); return f.look(id).State == group.StateDeleted })
	if left := f.stored(); len(left) > 0 {
		t.Errorf("docker-machine has %v", left)
	}
}

func TestAMachineIsOnRecordBeforeItIsMade(t *testing.T) {
	state, o := t.TempDir(), generic(t, program(t), t.TempDir())
	f := open(t, state, o)
	f.tell("hold", true)
	id := f.create("r")
	text, err := os.ReadFile(filepath.Join(state, "machines.json"))
	if err != nil || !strings.Contains(string(text), id) {
		t.Errorf("the record is %q, %v", text, err)
	}
	f.eventually("docker-machine makes it", func() bool { return slices.Contains(f.stored(), id) })
	f.close()
	next := open(t, state, o)
	if i := next.look(id); i.State != group.StateFailed || i.Request != "r" {
		t.Errorf("the next process finds %+v", i)
	}
	next.delete(id)
	next.eventually("nothing is left", func() bool { return len(next.stored()) == 0 && next.look(id).State == group.StateDeleted })
}

func TestWhatMakesAMachineEndsBeforeItIsRemoved(t *testing.T) {
	state, o := t.TempDir(), generic(t, program(t), t.TempDir())
	f := open(t, state, o)
	f.tell("hold", true)
	// One that a process before this one has left, which was killed.
	id := strings.Replace(f.create("r"), "-small", "x-small", 1)
	cmd := exec.Command(o.Program, append([]string{"create", "--driver", "generic", "--" + o.MachineOptions[0]}, id)...)
	cmd.Env = append(os.Environ(), "MACHINE_STORAGE_PATH="+o.StoragePath, "MACHINE_BUGSNAG_API_TOKEN=no-report")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	f.eventually("docker-machine makes it", func() bool { return slices.Contains(f.stored(), id) })
	f.close()
	file := filepath.Join(state, "machines.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	record := `{"order":{"ID":"r2","Labels":{"rung-owner":"tests"}},"making":` + strconv.Itoa(cmd.Process.Pid) + `}`
	text = []byte(strings.TrimSuffix(string(text), "}") + `,"` + id + `":` + record + `}`)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	next := open(t, state, o)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what makes it ends with %v", err)
	}
	if i := next.look(id); i.State != group.StateFailed {
		t.Errorf("it is %+v", i)
	}
}

func TestAMachineWhoseCreationHadNotBegunIsForgotten(t *testing.T) {
	o := generic(t, program(t), t.TempDir())
	f := open(t, t.TempDir(), o)
	id := f.create("r")
	f.eventually("it runs", f.is(id, group.StateRunning))
	f.tell("refuse-rm", true) // nothing is asked of the cloud
	if err := os.Remove(filepath.Join(o.StoragePath, "machines", id, "config.json")); err != nil {
		t.Fatal(err)
	}
	f.delete(id)
	f.eventually("nothing is left", func() bool { return len(f.stored()) == 0 && f.look(id).State == group.StateDeleted })
}

func TestAMachineThatIsNotOnRecordIsFound(t *testing.T) {
	o := generic(t, program(t), t.TempDir())
	f := open(t, t.TempDir(), o)
	id := f.create("r")
	f.eventually("it runs", f.is(id, group.StateRunning))
	f.close()
	next := open(t, t.TempDir(), o) // its state is lost
	if i := next.look(id); i.State != group.StateFailed || !strings.Contains(i.Reason, "not on record") {
		t.Errorf("it is %+v", i)
	}
	next.delete(id)
	next.eventually("it goes", func() bool { return len(next.stored()) == 0 })
}

func TestAMachineOfSomebodyElseIsLeftAlone(t *testing.T) {
	o := generic(t, program(t), t.TempDir())
	if err := os.MkdirAll(filepath.Join(o.StoragePath, "machines", "runner-12345678-abc-small"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := open(t, t.TempDir(), o)
	if all, err := f.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the group has %v, %v", all, err)
	}
}

func TestAStoppedMachineIsNotWell(t *testing.T) {
	f := open(t, t.TempDir(), generic(t, program(t), t.TempDir()))
	id := f.create("r")
	f.eventually("it runs", f.is(id, group.StateRunning))
	f.tell("stopped", true)
	if err := f.Heartbeat(t.Context(), id); !errors.Is(err, group.ErrInstanceUnhealthy) || !strings.Contains(err.Error(), "Stopped") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnOptionOfNoDriverFailsWithWhatDockerMachineSays(t *testing.T) {
	o := generic(t, program(t), t.TempDir())
	o.MachineOptions = append(o.MachineOptions, "amazonec2-secret-key=hunter2")
	f := open(t, t.TempDir(), o)
	id := f.create("r")
	f.eventually("it has failed", f.is(id, group.StateFailed))
	if i := f.look(id); !strings.Contains(i.Reason, "flag provided but not defined: -amazonec2-secret-key") || strings.Contains(i.Reason, "hunter2") {
		t.Errorf("it has failed because %s", i.Reason)
	}
}

func TestWithoutTheProgramTheGroupSaysSo(t *testing.T) {
	g, err := dockermachine.New(dockermachine.Options{Driver: "generic", Name: "r-%s", Program: "/nowhere/docker-machine"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "tests", State: t.TempDir()})
	var wrong options.Errors
	if !errors.As(err, &wrong) || wrong[0].Pointer != "/program" {
		t.Errorf("the error is %v", err)
	}
}

// TestTheRealDockerMachine does what the tests with the stand-in do, with the real one where it is.
func TestTheRealDockerMachine(t *testing.T) {
	real, err := exec.LookPath("docker-machine")
	if err != nil {
		t.Skip("docker-machine is not on this machine")
	}
	o := generic(t, real, t.TempDir())
	o.Driver, o.MachineOptions = "none", []string{"url=tcp://127.0.0.1:2376"} // "generic" would install an engine on this host
	f := open(t, t.TempDir(), o)
	id := f.create("r")
	f.eventually("docker-machine has it", func() bool { return slices.Contains(f.stored(), id) })
	f.eventually("it is made, or has failed with a reason", func() bool { return f.look(id).State != group.StateCreating || len(f.stored()) == 1 })
	f.eventually("it goes", func() bool { f.delete(id); return f.look(id).State == group.StateDeleted })
	if left := f.stored(); len(left) > 0 {
		t.Errorf("docker-machine has %v", left)
	}
}
