//go:build linux

package local_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/local"
	"github.com/rungci/rung/fleet/group/options"
)

// alone is a program that needs no libraries, for the machines of all tests.
var alone = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rung-alone-")
	if err != nil {
		return "", err
	}
	aloneDir = dir
	file := filepath.Join(dir, "alone")
	build := exec.Command("go", "build", "-o", file, "./machine/alone")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return file, nil
})

// aloneDir is the folder with that program, once there is one.
var aloneDir string

// eachBox tries something with each kind of box.
func eachBox(t *testing.T, try func(t *testing.T, o local.Options)) {
	for _, kind := range []string{local.Containers, local.Sandboxes} {
		t.Run(kind, func(t *testing.T) {
			engine := enginetest.Host(t)
			if kind == local.Sandboxes {
				enginetest.Runsc(t)
			}
			enginetest.Busybox(t)
			program, err := alone()
			if err != nil {
				t.Fatal(err)
			}
			try(t, local.Options{Machines: kind, MaxSize: 2, Network: local.NetworkNone, Engine: engine, Image: enginetest.Image, Program: program})
		})
	}
}

// boxes are the containers of machines in the tests' engine: the state of each, by the machine.
func boxes(t *testing.T) map[string]string {
	t.Helper()
	all, err := enginetest.Client(t).ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", "rung.machine")})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range all.Items {
		out[c.Labels["rung.machine"]] = string(c.State)
	}
	return out
}

// log logs into a machine that is a box.
func (f *fleet) log(id string) host.Host {
	f.t.Helper()
	info, err := f.ConnectInfo(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	h, err := ssh.New(f.t.Context(), ssh.Options{
		Address: info.Username + "@" + info.Addr(false), KeyText: info.Key, Fingerprint: info.HostKeys[0], Config: []string{os.DevNull},
		Program: func(host.Platform) (string, error) { return executortest.Program() },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { h.Close() })
	return h
}

func TestBoxesAreAnInstanceGroup(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		o.MaxSize = 3
		o.Shapes = map[string]local.Shape{"small": {CPUs: 0.5, Memory: 256 << 20}}
		grouptest.Run(t, grouptest.Subject{
			Open: func(t *testing.T) group.Basic {
				g, err := local.New(o)
				if err != nil {
					t.Fatal(err)
				}
				return g
			},
			Patience: 2 * patience,
		})
	})
}

func TestABoxIsAHostOfItsOwn(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		f := open(t, t.TempDir(), o)
		one, two := f.create(group.Request{ID: "one", Count: 1}), f.create(group.Request{ID: "two", Count: 1})
		a, b := f.log(one), f.log(two)
		if got := hosttest.Sh(t, a, `hostname; id -un; pwd; echo $HOME`); got != one+"\nroot\n/root\n/root" {
			t.Errorf("the machine says %q", got)
		}
		gVisor := strings.Contains(hosttest.Sh(t, a, "dmesg 2>/dev/null; true"), "gVisor")
		if want := o.Machines == local.Sandboxes; gVisor != want {
			t.Errorf("its kernel is gVisor's: %t", gVisor)
		}
		for _, dir := range []string{"/root", "/tmp", "/builds"} {
			hosttest.Sh(t, a, `mkdir -p "$1" && echo mine >"$1/mine"`, dir)
			if !fails(t, b, `cat "$1/mine" 2>/dev/null`, dir) {
				t.Errorf("the other machine has it in %s", dir)
			}
			if _, err := os.Stat(filepath.Join(dir, "mine")); err == nil {
				t.Errorf("this host has it in %s", dir)
			}
		}
		if !fails(t, a, `ls "$1" 2>/dev/null`, f.state) {
			t.Error("the machine sees the folder of machines")
		}
		if _, err := a.Exec(t.Context(), &host.Command{Args: []string{"sleep", "98765"}}); err != nil {
			t.Fatal(err)
		}
		const find = `cat /proc/[0-9]*/cmdline | tr '\0' ' '`
		if got := hosttest.Sh(t, a, find); !strings.Contains(got, "sleep 98765") {
			t.Errorf("the machine does not see its own processes: %s", got)
		}
		if got := hosttest.Sh(t, b, find); strings.Contains(got, "98765") {
			t.Errorf("the other machine sees: %s", got)
		}
		l := hosttest.Listen(t, "tcp", "127.0.0.1:0")
		if conn, err := a.Dial(t.Context(), "tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Error("the machine reaches this host's loopback address")
		}
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho $(hostname): $(cat)\nexit 3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		path, err := a.Put(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		p, err := a.Exec(t.Context(), &host.Command{Args: []string{path}, Stdin: strings.NewReader("hello"), Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if code, err := p.Wait(); code != 3 || err != nil || out.String() != one+": hello\n" {
			t.Errorf("a program that was copied there ends with %d, %v, and says %q", code, err, out.String())
		}
	})
}

func TestABoxWithANetworkReachesOthers(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		o.Network = local.NetworkOwn
		l := hosttest.Listen(t, "tcp", net.JoinHostPort(enginetest.Address(), "0"))
		go func() {
			if conn, err := l.Accept(); err == nil {
				_, _ = conn.Write([]byte("hello"))
				conn.Close()
			}
		}()
		f := open(t, t.TempDir(), o)
		conn, err := f.log(f.create(group.Request{ID: "r", Count: 1})).Dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if heard, err := io.ReadAll(conn); err != nil || string(heard) != "hello" {
			t.Errorf("it hears %q, %v", heard, err)
		}
	})
}

func TestABoxThatEndsHasFailedWithAReason(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		o.MaxSize = 4
		f := open(t, t.TempDir(), o)
		for _, c := range []struct {
			what, want string
			end        func(id string)
		}{
			{"its keeper is killed", "its keeper (process", func(id string) { f.status(id).Keeper.Kill() }},
			{"its container is killed", "its container has ended with exit code 137", func(id string) {
				if _, err := enginetest.Client(t).ContainerKill(t.Context(), id, client.ContainerKillOptions{}); err != nil {
					t.Error(err)
				}
			}},
			{"a job kills its server", "its container has ended with exit code 1: the machine's SSH server was killed (SIGKILL)", func(id string) {
				_, _ = f.log(id).Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", "kill -KILL $PPID; sleep 600"}})
			}},
		} {
			id := f.create(group.Request{ID: strings.ReplaceAll(c.what, " ", "-"), Count: 1})
			c.end(id)
			f.eventually(c.what+": it has failed", func() bool { return f.look(id).State == group.StateFailed })
			if i := f.look(id); !strings.HasPrefix(i.Reason, c.want) {
				t.Errorf("%s: it has failed because %s", c.what, i.Reason)
			}
			f.eventually(c.what+": it does not run", func() bool { return boxes(t)[id] != "running" })
		}
	})
}

func TestABoxWhoseImageDoesNotExistHasFailed(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		o.Image = "127.0.0.1:1/rung-made-up:1"
		f := open(t, t.TempDir(), o)
		created, err := f.Create(t.Context(), group.Request{ID: "r", Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		id := created.Instances[0]
		f.eventually("it has failed", func() bool { return f.look(id).State == group.StateFailed })
		if i := f.look(id); !strings.HasPrefix(i.Reason, "its image "+o.Image+": the engine at ") {
			t.Errorf("it has failed because %s", i.Reason)
		}
	})
}

func TestTheImageOfABoxIsPulledWithTheCredentialsOfTheUser(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		docker := enginetest.Client(t)
		registry := enginetest.Registry(t, "127.0.0.1")
		private := registry + "/rung/private:1"
		if _, err := docker.ImageTag(t.Context(), client.ImageTagOptions{Source: o.Image, Target: private}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_, _ = docker.ImageRemove(context.Background(), private, client.ImageRemoveOptions{})
		})
		auth, err := json.Marshal(map[string]string{"username": enginetest.RegistryUser, "password": enginetest.RegistryPassword, "serveraddress": registry})
		if err != nil {
			t.Fatal(err)
		}
		pushing, err := docker.ImagePush(t.Context(), private, client.ImagePushOptions{RegistryAuth: base64.URLEncoding.EncodeToString(auth)})
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(pushing)
		if err = errors.Join(err, pushing.Close()); err != nil || !strings.Contains(string(said), "digest") {
			t.Fatalf("%v\n%s", err, said)
		}
		if _, err := docker.ImageRemove(t.Context(), private, client.ImageRemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		o.Image = private
		config := t.TempDir()
		t.Setenv("DOCKER_CONFIG", config)
		f := open(t, t.TempDir(), o)
		created, err := f.Create(t.Context(), group.Request{ID: "without", Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		id := created.Instances[0]
		f.eventually("without credentials it has failed", func() bool { return f.look(id).State == group.StateFailed })
		if i := f.look(id); !strings.Contains(i.Reason, "without credentials") {
			t.Errorf("it has failed because %s", i.Reason)
		}
		user := base64.StdEncoding.EncodeToString([]byte(enginetest.RegistryUser + ":" + enginetest.RegistryPassword))
		text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, registry, user)
		if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		id = f.create(group.Request{ID: "with", Count: 1})
		if got := hosttest.Sh(t, f.log(id), `hostname; env`); !strings.HasPrefix(got, id+"\n") || strings.Contains(got, config) {
			t.Errorf("the machine says %q", got)
		}
		err = filepath.WalkDir(f.state, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(enginetest.RegistryPassword)) || bytes.Contains(text, []byte(user)) {
				t.Errorf("%s has the password", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestBoxesOutliveTheirGroup(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		state := t.TempDir()
		f := open(t, state, o)
		id := f.create(group.Request{ID: "r", Count: 1})
		before := f.log(id)
		hosttest.Sh(t, before, `echo here >kept`)
		if err := f.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.over = true
		next := open(t, state, o)
		if got := hosttest.Sh(t, next.log(id), "cat kept"); got != "here" {
			t.Errorf("the machine has %q for the key of the next process", got)
		}
	})
}

func TestContainersOfUnknownMachinesAreRemoved(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		state := t.TempDir()
		f := open(t, state, o)
		id, other := f.create(group.Request{ID: "r", Count: 1}), f.create(group.Request{ID: "r2", Count: 1})
		if err := f.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.over = true
		f.status(id).Keeper.Kill()
		if err := os.RemoveAll(filepath.Join(state, "machines", id)); err != nil {
			t.Fatal(err)
		}
		basic, err := local.New(o)
		if err != nil {
			t.Fatal(err)
		}
		others := group.Adapt(basic)
		if _, err := others.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "others", State: state}); err != nil {
			t.Fatal(err)
		}
		if err := others.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, exists := boxes(t)[id]; !exists {
			t.Error("another owner has removed it")
		}
		open(t, state, o)
		if now := boxes(t); now[id] != "" || now[other] != "running" {
			t.Errorf("there are %v, and %s is unknown", now, id)
		}
	})
}

func TestNothingRunsInASuspendedBox(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		f := open(t, t.TempDir(), o)
		id := f.create(group.Request{ID: "r", Count: 1})
		h := f.log(id)
		for range 2 {
			if done, err := f.Suspend(t.Context(), []string{id}); err != nil || !slices.Equal(done, []string{id}) {
				t.Fatal(done, err)
			}
		}
		if state := boxes(t)[id]; state != "paused" {
			t.Errorf("its container is %s", state)
		}
		for range 2 {
			if done, err := f.Resume(t.Context(), []string{id}); err != nil || !slices.Equal(done, []string{id}) {
				t.Fatal(done, err)
			}
		}
		if got := hosttest.Sh(t, h, "hostname"); got != id {
			t.Errorf("it says %q", got)
		}
		if _, err := f.Suspend(t.Context(), []string{id}); err != nil { // it can be deleted like that
			t.Fatal(err)
		}
	})
}

func TestAShapeBoundsItsBox(t *testing.T) {
	eachBox(t, func(t *testing.T, o local.Options) {
		o.Shapes = map[string]local.Shape{"small": {CPUs: 0.5, Memory: 256 << 20}}
		f := open(t, t.TempDir(), o)
		id := f.create(group.Request{ID: "r", Count: 1, Shape: "small"})
		found, err := enginetest.Client(t).ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if has := found.Container.HostConfig; has.Memory != 256<<20 || has.MemorySwap != 256<<20 || has.NanoCPUs != 5e8 {
			t.Errorf("its limits are %d bytes, %d with swap, and %d billionths of a processor", has.Memory, has.MemorySwap, has.NanoCPUs)
		}
	})
}

func TestOptionsThatDoNotGoTogether(t *testing.T) {
	for _, c := range []struct {
		pointer string
		o       local.Options
	}{
		{"/machines", local.Options{Machines: local.Containers}},
		{"/paths", local.Options{Machines: local.Containers, Image: "i", Paths: []string{"/srv"}}},
		{"/network", local.Options{Machines: local.Sandboxes, Image: "i", Network: local.NetworkHost}},
		{"/image", local.Options{Image: "i"}},
		{"/engine", local.Options{Machines: local.Processes, Engine: "/run/docker.sock"}},
		{"/program", local.Options{Program: "/usr/bin/rung"}},
	} {
		_, err := local.New(c.o)
		var wrong options.Errors
		if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Pointer != c.pointer {
			t.Errorf("%+v: %v, want an error at %s", c.o, err, c.pointer)
		}
	}
}

func TestOnlyProcessesHaveVolumes(t *testing.T) {
	for _, o := range []local.Options{{}, {Machines: local.Containers, Image: "i"}, {Machines: local.Sandboxes, Image: "i"}} {
		g, err := local.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if has := group.AbilitiesOf(g, group.ProviderInfo{}).Volumes; has != (o.Machines == "") {
			t.Errorf("%q: %t", o.Machines, has)
		}
		var decided options.Errors
		if err := group.NoVolumes(g); errors.As(err, &decided) == (o.Machines == "") || len(decided) > 0 && decided[0].Pointer != "/machines" {
			t.Errorf("%q: %v", o.Machines, err)
		}
	}
}
