//go:build linux

package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/local"
	"github.com/rungci/rung/fleet/group/local/machine"
)

// fleet is a group of this host in one test, which leaves nothing.
type fleet struct {
	*group.Group
	t     *testing.T
	state string
	over  bool // another one has its machines
	boxed bool // they are containers or sandboxes
	made  map[string]bool
}

// patience bounds every wait.
const patience = time.Minute

func open(t *testing.T, state string, o local.Options) *fleet {
	t.Helper()
	if o.Machines == "" {
		possible(t)
	}
	basic, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{Group: group.Adapt(basic), t: t, state: state, boxed: o.Machines != "", made: map[string]bool{}}
	if _, err := f.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "tests", State: state}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.end)
	return f
}

// end deletes all machines, and holds that nothing of them is left.
func (f *fleet) end() {
	if f.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f.eventually("there are no machines", func() bool {
		all, err := f.List(ctx)
		for _, i := range all {
			if f.t.Failed() && !f.made[i.ID] {
				log, _ := os.ReadFile(filepath.Join(f.state, "machines", i.ID, "log"))
				f.t.Logf("the log of %s, which is %s (%s):\n%s", i.ID, i.State, i.Reason, log)
			}
			f.made[i.ID] = true
			_, _ = f.Delete(ctx, []string{i.ID})
		}
		return err == nil && len(all) == 0
	})
	if err := f.Shutdown(ctx); err != nil {
		f.t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(f.state, "machines")); err != nil || len(left) > 0 {
		f.t.Errorf("what is left: %v, %v", left, err)
	}
	f.eventually("no process of a machine is left", func() bool { return len(processesWith(f.state)) == 0 })
	if f.boxed {
		for name, state := range boxes(f.t) {
			if f.made[name] {
				f.t.Errorf("the container %s is left, and %s", name, state)
			}
		}
	}
}

// processesWith are the processes of this host that have a text on their command lines.
func processesWith(text string) (out []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(text)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			out = append(out, pid)
		}
	}
	return slices.DeleteFunc(out, func(pid int) bool { return pid == os.Getpid() })
}

func (f *fleet) eventually(what string, so func() bool) {
	f.t.Helper()
	for until := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			f.t.Fatalf("it is not so that %s", what)
		}
	}
}

func (f *fleet) look(id string) (out group.Instance) {
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

// create makes a machine that runs.
func (f *fleet) create(request group.Request) string {
	f.t.Helper()
	created, err := f.Create(f.t.Context(), request)
	if err != nil || len(created.Instances) != 1 {
		f.t.Fatalf("%+v, %v", created, err)
	}
	id := created.Instances[0]
	f.eventually("the machine runs", func() bool {
		i := f.look(id)
		if i.State == group.StateFailed {
			f.t.Fatalf("the machine has failed: %s", i.Reason)
		}
		return i.State == group.StateRunning
	})
	return id
}

// connect connects to a machine as the fleet does.
func (f *fleet) connect(id string) host.Host {
	f.t.Helper()
	info, err := f.ConnectInfo(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	h, err := ssh.New(f.t.Context(), ssh.Options{
		Address: info.Username + "@" + info.Addr(false), KeyText: info.Key, Fingerprint: info.HostKeys[0], Config: []string{os.DevNull},
		Program: func(host.Platform) (string, error) { return os.Executable() },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { h.Close() })
	return h
}

func (f *fleet) status(id string) machine.Status {
	f.t.Helper()
	s, known, err := machine.ReadStatus(filepath.Join(f.state, "machines", id))
	if err != nil || !known {
		f.t.Fatal(known, err)
	}
	return s
}

// fails says whether a command fails on a machine.
func fails(t *testing.T, h host.Host, text string, args ...string) bool {
	t.Helper()
	p, err := h.Exec(t.Context(), &host.Command{Args: append([]string{"sh", "-c", text, "sh"}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	code, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return code != 0
}

func TestAMachineIsAHostOfItsOwn(t *testing.T) {
	f := open(t, t.TempDir(), local.Options{MaxSize: 2, Network: local.NetworkNone})
	one, two := f.create(group.Request{ID: "one", Count: 1}), f.create(group.Request{ID: "two", Count: 1})
	a, b := f.connect(one), f.connect(two)
	if got := hosttest.Sh(t, a, `hostname; id -un; pwd; echo $HOME`); got != one+"\nrunner\n/home/runner\n/home/runner" {
		t.Errorf("the machine says %q", got)
	}
	t.Run("each user is its machine's alone", func(t *testing.T) {
		if os.Geteuid() == 0 && hosttest.Sh(t, a, "id -u") == hosttest.Sh(t, b, "id -u") {
			t.Error("both machines have the same user")
		}
	})
	t.Run("files are copied, and stay on their machine", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho hello from $(hostname)\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		path, err := a.Put(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if got := hosttest.Sh(t, a, path); got != "hello from "+one {
			t.Errorf("the program says %q", got)
		}
		if err := a.Files().MkdirAll(t.Context(), "/builds/project", 0o755); err != nil {
			t.Error(err)
		}
		for _, dir := range []string{"/home/runner", "/tmp", "/var/tmp", "/builds", "/cache"} {
			hosttest.Sh(t, a, `echo mine >"$1/mine"`, dir)
			if got := hosttest.Sh(t, b, `ls -A "$1"`, dir); strings.Contains(got, "mine") {
				t.Errorf("the other machine has in %s: %s", dir, got)
			}
			if _, err := os.Stat(filepath.Join(dir, "mine")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("this host has it in %s: %v", dir, err)
			}
		}
		for _, dir := range []string{"/", "/etc", "/usr/bin", "/run/rung/door"} {
			if !fails(t, a, `touch "$1/mine" 2>/dev/null`, dir) {
				t.Errorf("the machine can write to %s", dir)
			}
		}
		if !fails(t, a, `ls "$1" 2>/dev/null`, f.state) {
			t.Error("the machine sees the folder of machines")
		}
	})
	t.Run("processes are not seen from others", func(t *testing.T) {
		p, err := a.Exec(t.Context(), &host.Command{Args: []string{"sleep", "98765"}})
		if err != nil {
			t.Fatal(err)
		}
		const find = `cat /proc/[0-9]*/cmdline | tr '\0' ' '`
		for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // what starts it may not be the program yet
			got := hosttest.Sh(t, a, find)
			if strings.Contains(got, "sleep 98765") {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("the machine does not see its own: %s", got)
			}
		}
		if got := hosttest.Sh(t, b, find); strings.Contains(got, "98765") || strings.Contains(got, one) {
			t.Errorf("the other machine sees: %s", got)
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	t.Run("networks are apart", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, network := range []string{"tcp", "unix"} {
			if conn, err := a.Dial(t.Context(), network, l.Addr().String()); err == nil {
				conn.Close()
				t.Errorf("the machine reaches this host's loopback address by %s", network)
			}
		}
		if got := hosttest.Sh(t, a, `cat /proc/net/dev | grep -c :`); got != "1" {
			t.Errorf("it has %s network devices, want its own loopback alone", got)
		}
	})
}

func TestAMachineThatEndsHasFailedWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		which func(machine.Status) machine.Process
		want  string
	}{
		"its keeper":        {func(s machine.Status) machine.Process { return s.Keeper }, "its keeper (process"},
		"its door":          {func(s machine.Status) machine.Process { return s.Door }, "the process that holds its namespaces has ended: signal: killed"},
		"its first process": {func(s machine.Status) machine.Process { return s.Init }, "its first process was killed (SIGKILL)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone})
			id := f.create(group.Request{ID: "r", Count: 1})
			h := f.connect(id)
			p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sleep", "600"}})
			if err != nil {
				t.Fatal(err)
			}
			status := f.status(id)
			c.which(status).Kill()
			f.eventually("it has failed", func() bool { return f.look(id).State == group.StateFailed })
			if i := f.look(id); !strings.HasPrefix(i.Reason, c.want) {
				t.Errorf("it has failed because %s", i.Reason)
			}
			if err := f.Heartbeat(t.Context(), id); !errors.Is(err, group.ErrInstanceUnhealthy) {
				t.Errorf("it is well: %v", err)
			}
			if _, err := p.Wait(); !errors.Is(err, host.ErrLost) {
				t.Errorf("its command ends with %v", err)
			}
			f.eventually("all its processes have ended", func() bool { return !status.Keeper.Lives() && !status.Door.Lives() && !status.Init.Lives() })
		})
	}
	t.Run("its server, by a job", func(t *testing.T) {
		f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone})
		id := f.create(group.Request{ID: "r", Count: 1})
		h := f.connect(id)
		if _, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", "kill -KILL $PPID; sleep 600"}}); err != nil && !errors.Is(err, host.ErrLost) {
			t.Fatal(err)
		}
		f.eventually("it has failed", func() bool { return f.look(id).State == group.StateFailed })
		if i := f.look(id); i.Reason != "its SSH server was killed (SIGKILL)" {
			t.Errorf("it has failed because %s", i.Reason)
		}
	})
}

func TestMachinesOutliveTheirGroup(t *testing.T) {
	state := t.TempDir()
	o := local.Options{MaxSize: 1, Network: local.NetworkNone, Shapes: map[string]local.Shape{"small": {CPUs: 1, Memory: 1 << 30}}}
	f := open(t, state, o)
	id := f.create(group.Request{ID: "r", Shape: "small", Count: 1, Labels: map[string]string{"project": "p"}})
	before := f.connect(id)
	hosttest.Sh(t, before, `echo here >kept`)
	infoBefore, err := f.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.over = true
	next := open(t, state, o)
	i := next.look(id)
	if i.State != group.StateRunning || i.Shape != "small" || i.Labels["project"] != "p" || i.Request != "r" {
		t.Errorf("the next process finds %+v", i)
	}
	info, err := next.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(info.Key, infoBefore.Key) {
		t.Error("the key of the process before is on disk")
	}
	if got := hosttest.Sh(t, next.connect(id), "cat kept"); got != "here" {
		t.Errorf("the machine has %q", got)
	}
	if created, err := next.Create(t.Context(), group.Request{ID: "r", Shape: "small", Count: 1}); err != nil || !slices.Equal(created.Instances, []string{id}) {
		t.Errorf("the request again: %+v, %v", created, err)
	}
	if _, err := next.Create(t.Context(), group.Request{ID: "r2", Count: 1}); !errors.Is(err, group.ErrQuota) {
		t.Errorf("more than max_size: %v", err)
	}
}

func TestNoPrivateKeyIsOnDisk(t *testing.T) {
	f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone})
	f.create(group.Request{ID: "r", Count: 1})
	err := filepath.WalkDir(f.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("PRIVATE KEY")) {
			t.Errorf("%s holds one", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatAMachineWritesCanAlwaysBeRemoved(t *testing.T) {
	f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone})
	h := f.connect(f.create(group.Request{ID: "r", Count: 1}))
	hosttest.Sh(t, h, `mkdir -p a/b && touch a/b/c && chmod 0 a/b a && ln -s /etc/passwd link`)
	if _, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", "trap '' TERM HUP; sleep 1000 & sleep 1000"}}); err != nil {
		t.Fatal(err)
	}
}

func TestAShapeBoundsItsMachine(t *testing.T) {
	f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone, Shapes: map[string]local.Shape{"small": {CPUs: 0.5, Memory: 256 << 20}}})
	id := f.create(group.Request{ID: "r", Count: 1, Shape: "small"})
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", f.status(id).Init.PID))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), id) {
		if os.Geteuid() == 0 {
			t.Errorf("it is not in a control group of its own: %s", text)
		}
		enginetest.Skip(t, "control groups")
	}
	if os.Geteuid() == 0 && !fails(t, f.connect(id), `head -c 400m /dev/zero | tail -c 350m >/dev/null`) {
		t.Error("a process gets more memory than its machine has")
	}
	if i := f.look(id); i.State != group.StateRunning && i.State != group.StateFailed {
		t.Errorf("it is %+v", i)
	}
}

func TestAMachineSeesThePathsOfItsOption(t *testing.T) {
	tools := t.TempDir()
	for dir := tools; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // its user is another one
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tools, "tool"), []byte("a tool"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone, Paths: []string{tools}})
	h := f.connect(f.create(group.Request{ID: "r", Count: 1}))
	if got := hosttest.Sh(t, h, `cat "$1/tool"`, tools); got != "a tool" {
		t.Errorf("it sees %q", got)
	}
	if !fails(t, h, `echo >"$1/tool" 2>/dev/null`, tools) {
		t.Error("it can change it")
	}
}

func TestANetworkOfItsOwnReachesWhatThisHostDoes(t *testing.T) {
	enginetest.Program(t, "slirp4netns")
	address := outside(t)
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hello"))
			conn.Close()
		}
	}()
	loop, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	f := open(t, t.TempDir(), local.Options{MaxSize: 1})
	id := f.create(group.Request{ID: "r", Count: 1})
	h := f.connect(id)
	conn, err := h.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard := make([]byte, 5)
	if _, err := conn.Read(heard); err != nil || string(heard) != "hello" {
		t.Errorf("it hears %q, %v", heard, err)
	}
	_, port, _ := net.SplitHostPort(loop.Addr().String())
	for _, hosts := range []string{"127.0.0.1", "10.0.2.2"} {
		if conn, err := h.Dial(t.Context(), "tcp", net.JoinHostPort(hosts, port)); err == nil {
			conn.Close()
			t.Errorf("it reaches this host's loopback addresses by %s", hosts)
		}
	}
	slirp := processesWith("slirp4netns\x00--configure")
	for _, pid := range slirp {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(text), fmt.Sprintf(" %d ", f.status(id).Keeper.PID)) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.eventually("without its network it has failed", func() bool { return f.look(id).State == group.StateFailed })
	if i := f.look(id); !strings.HasPrefix(i.Reason, "its network has ended") {
		t.Errorf("it has failed because %s", i.Reason)
	}
}

// outside is an address of this host that is no loopback address.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if of, is := a.(*net.IPNet); is && of.IP.To4() != nil && of.IP.IsGlobalUnicast() {
			return of.IP.String()
		}
	}
	enginetest.Skip(t, "an address of this host that others reach")
	return ""
}

// asNobody is set in the process that runs tests again as a user without rights.
const asNobody = "RUNG_TEST_LOCAL_AS_NOBODY"

func TestMachinesNeedNoRoot(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv(asNobody) != "" {
		return // the other tests show it
	}
	possible(t)
	dir, err := os.MkdirTemp("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "tests")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err = errors.Join(err, os.WriteFile(program, text, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o777), os.Chmod(filepath.Join(dir, "tmp"), 0o777)); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "OfItsOwn$|Reason|Outlive|Removed|Paths", "-test.skip", "Box|Containers")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asNobody+"=1", "TMPDIR="+filepath.Join(dir, "tmp"), "HOME="+filepath.Join(dir, "tmp"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("no tests to run")) {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestOpenSSHsClientGetsIn(t *testing.T) {
	client := enginetest.Program(t, "ssh")
	f := open(t, t.TempDir(), local.Options{MaxSize: 1, Network: local.NetworkNone})
	id := f.create(group.Request{ID: "r", Count: 1})
	info, err := f.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	address, port, _ := net.SplitHostPort(info.Addr(false))
	key, known := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(key, info.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), client, "-F", "none", "-i", key, "-p", port, "-o", "UserKnownHostsFile="+known, "-o", "StrictHostKeyChecking=accept-new",
		"-o", "BatchMode=yes", info.Username+"@"+address, "hostname; exit 3")
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 3 || strings.TrimSpace(string(out)) != id {
		t.Errorf("it says %q, %v", out, err)
	}
}

func TestNothingRunsOnASuspendedMachine(t *testing.T) {
	f := open(t, t.TempDir(), local.Options{MaxSize: 2, Network: local.NetworkNone})
	id, other := f.create(group.Request{ID: "r", Count: 1}), f.create(group.Request{ID: "r2", Count: 1})
	h, b := f.connect(id), f.connect(other)
	if _, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", "setsid sh -c 'while :; do sh -c :; done' & while :; do sleep 0.001; done"}}); err != nil {
		t.Fatal(err)
	}
	if done, err := f.Suspend(t.Context(), []string{id}); err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	hosttest.Sh(t, b, "echo the other machine runs")
	for _, stat := range below(t, f.status(id).Init.PID) {
		if !strings.Contains(stat, ") T ") && !strings.Contains(stat, ") Z ") && !strings.Contains(stat, ") D ") { // D: its child is stopped before it executes a program
			t.Errorf("a process runs: %s", stat)
		}
	}
	if err := f.Heartbeat(t.Context(), id); !errors.Is(err, group.ErrInstanceUnhealthy) {
		t.Errorf("it is well: %v", err)
	}
	if done, err := f.Resume(t.Context(), []string{id}); err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	if got := hosttest.Sh(t, h, "hostname"); got != id {
		t.Errorf("it says %q", got)
	}
	if done, err := f.Suspend(t.Context(), []string{id}); err != nil || len(done) != 1 { // it can be deleted like that
		t.Fatal(done, err)
	}
}

// below is what the kernel has of a process and all below it, a line each.
func below(t *testing.T, pid int) (out []string) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	out = append(out, string(stat))
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(text)) {
			number, _ := strconv.Atoi(child)
			out = append(out, below(t, number)...)
		}
	}
	return out
}

func TestMachinesOfAnotherOwnerAreLeftAlone(t *testing.T) {
	state := t.TempDir()
	f := open(t, state, local.Options{MaxSize: 1, Network: local.NetworkNone})
	id := f.create(group.Request{ID: "r", Count: 1})
	basic, err := local.New(local.Options{Folder: filepath.Join(state, "machines")})
	if err != nil {
		t.Fatal(err)
	}
	other := group.Adapt(basic)
	if _, err := other.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "others", State: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if all, err := other.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the other has %v, %v", all, err)
	}
	if _, err := other.Delete(t.Context(), []string{id}); err != nil {
		t.Error(err)
	}
	if err := other.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if i := f.look(id); i.State != group.StateRunning {
		t.Errorf("it is %+v", i)
	}
}
