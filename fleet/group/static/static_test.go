//go:build unix

package static_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	xssh "golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/fleet/group/static"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// answering is an address where somebody answers.
func answering(t *testing.T) string {
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
	return l.Addr().String()
}

func TestAListIsAnInstanceGroup(t *testing.T) {
	address := answering(t)
	grouptest.Run(t, grouptest.Subject{Open: func(t *testing.T) group.Basic {
		g, err := static.New(static.Options{Hosts: []static.Host{
			{Name: "one", Address: address, Shape: "small", CPUs: 2, Memory: 1 << 30, Labels: map[string]string{"room": "north"}},
			{Name: "two", Address: address, Shape: "large", CPUs: 8, Memory: 1 << 34},
			{Name: "three", Address: address},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}})
}

// open is a group of hosts, with the settings of a state folder.
func open(t *testing.T, state string, o static.Options) *group.Group {
	t.Helper()
	basic, err := static.New(o)
	if err != nil {
		t.Fatal(err)
	}
	g := group.Adapt(basic)
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "tests", State: state}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

// listed has the instances by id.
func listed(t *testing.T, g *group.Group) map[string]group.Instance {
	t.Helper()
	all, err := g.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]group.Instance{}
	for _, i := range all {
		out[i.ID] = i
	}
	return out
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}

// take takes a host and waits until it runs.
func take(t *testing.T, g *group.Group, request group.Request) string {
	t.Helper()
	created, err := g.Create(t.Context(), request)
	if err != nil || len(created.Instances) != 1 {
		t.Fatalf("%+v, %v", created, err)
	}
	id := created.Instances[0]
	eventually(t, "the host answers", func() bool { return listed(t, g)[id].State == group.StateRunning })
	return id
}

// realHost is an sshd as a host of a list.
func realHost(name string, s *hosttest.SSHD) static.Host {
	user, address, _ := strings.Cut(s.Address, "@")
	return static.Host{Name: name, Address: address, User: user, KeyFile: s.Key, HostKey: xssh.FingerprintSHA256(s.HostKey)}
}

// connect connects to an instance as the fleet does.
func connect(t *testing.T, g *group.Group, id string) host.Host {
	t.Helper()
	info, err := g.ConnectInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ssh.New(t.Context(), ssh.Options{Address: info.Username + "@" + info.Addr(false), KeyText: info.Key, Fingerprint: info.HostKeys[0], Config: []string{os.DevNull}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// run runs a command on a host and returns its output.
func run(t *testing.T, h host.Host, command string) string {
	t.Helper()
	var out strings.Builder
	p, err := h.Exec(t.Context(), &host.Command{Args: []string{"/bin/sh", "-c", command}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); code != 0 || err != nil {
		t.Fatalf("%s: %d, %v: %s", command, code, err, out.String())
	}
	return out.String()
}

func TestAHostIsReachedWithItsOwnKey(t *testing.T) {
	g := open(t, t.TempDir(), static.Options{Hosts: []static.Host{realHost("a", hosttest.StartSSHD(t)), realHost("b", hosttest.StartSSHD(t))}})
	homes := map[string]bool{}
	for n := range 2 {
		id := take(t, g, group.Request{ID: fmt.Sprint("r", n), Count: 1})
		homes[run(t, connect(t, g, id), "echo $HOME")] = true
	}
	if len(homes) != 2 {
		t.Errorf("both are the same host: %v", homes)
	}
}

func TestAHostIsResetBeforeItGoesBack(t *testing.T) {
	s := hosttest.StartSSHD(t)
	o := static.Options{Hosts: []static.Host{realHost("a", s)}, Reset: `test ! -e "$HOME/broken" && rm "$HOME/used" || { echo it is broken; exit 3; }`}
	g := open(t, t.TempDir(), o)
	id := take(t, g, group.Request{ID: "r1", Count: 1})
	used, broken := filepath.Join(s.Home, "used"), filepath.Join(s.Home, "broken")
	for _, file := range []string{used, broken} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Delete(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the host says why it does not go", func() bool {
		i := listed(t, g)[id]
		return i.State == group.StateDeleting && strings.Contains(i.Reason, "it is broken")
	})
	if _, err := g.Create(t.Context(), group.Request{ID: "r2", Count: 1}); !errors.Is(err, group.ErrQuota) {
		t.Errorf("a host that was not reset is handed out: %v", err)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes when it is deleted again", func() bool {
		if _, err := g.Delete(t.Context(), []string{id}); err != nil {
			t.Fatal(err)
		}
		return len(listed(t, g)) == 0
	})
	if _, err := os.Stat(used); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reset command has not run: %v", err)
	}
}

func TestTheNextProcessGoesOnWithAReset(t *testing.T) {
	s, state := hosttest.StartSSHD(t), t.TempDir()
	o := static.Options{Hosts: []static.Host{realHost("a", s)}, Reset: "exit 1"}
	g := open(t, state, o)
	id := take(t, g, group.Request{ID: "r1", Count: 1, Labels: map[string]string{"project": "p"}})
	if _, err := g.Delete(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reset fails", func() bool { return listed(t, g)[id].Reason != "" })
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Reset = "true"
	next := open(t, state, o)
	eventually(t, "the host is free", func() bool { return len(listed(t, next)) == 0 })
}

// A call that was given up may come so late, and the record is the next process's by then.
func TestWhatComesAfterTheEndChangesNothing(t *testing.T) {
	state := t.TempDir()
	o := static.Options{Hosts: []static.Host{{Name: "a", Address: answering(t)}, {Name: "b", Address: answering(t)}}}
	g := open(t, state, o)
	id := take(t, g, group.Request{ID: "r1", Count: 1})
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if deleted, err := g.Delete(t.Context(), []string{id}); err == nil {
		t.Errorf("a host is given back: %v", deleted)
	}
	if created, err := g.Create(t.Context(), group.Request{ID: "r2", Count: 1}); err == nil {
		t.Errorf("a host is taken: %v", created)
	}
	if all := listed(t, open(t, state, o)); len(all) != 1 || all[id].Request != "r1" {
		t.Errorf("the next process finds %+v", all)
	}
}

func TestAHostThatIsNotListedAnyMoreHasFailed(t *testing.T) {
	state, address := t.TempDir(), answering(t)
	g := open(t, state, static.Options{Hosts: []static.Host{{Name: "a", Address: address}}})
	id := take(t, g, group.Request{ID: "r1", Count: 1})
	next := open(t, state, static.Options{Hosts: []static.Host{{Name: "b", Address: address}}, Reset: "true"})
	if i := listed(t, next)[id]; i.State != group.StateFailed || !strings.Contains(i.Reason, `"a"`) {
		t.Errorf("it is %+v", i)
	}
	if _, err := next.Delete(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	if all := listed(t, next); len(all) != 0 {
		t.Errorf("it is still there: %v", all)
	}
}

// name is that of the host that an instance is.
func name(id string) string { return id[:strings.LastIndex(id, "-")] }

// once takes a host, connects to it or not, and gives it back. It returns the host's name.
func once(t *testing.T, g *group.Group, request string, connects bool) string {
	t.Helper()
	created, err := g.Create(t.Context(), group.Request{ID: request, Count: 1})
	if err != nil || len(created.Instances) != 1 {
		t.Fatalf("%+v, %v", created, err)
	}
	id := created.Instances[0]
	if connects {
		if _, err := g.ConnectInfo(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Delete(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	return name(id)
}

func TestADeadHostKeepsNobodyWaitingWhileThereAreOthers(t *testing.T) {
	state := t.TempDir()
	o := static.Options{Hosts: []static.Host{{Name: "dead", Address: "127.0.0.1:1"}, {Name: "one", Address: "127.0.0.1:2"}, {Name: "two", Address: "127.0.0.1:3"}}}
	g := open(t, state, o)
	for n, want := range []string{"dead", "one", "two", "one", "two"} {
		if n == 3 { // another process knows it, too
			if err := g.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			g = open(t, state, o)
		}
		if got := once(t, g, fmt.Sprint("r", n), want != "dead"); got != want {
			t.Errorf("host %d is %q, want %q", n, got, want)
		}
	}
	var all []string
	for n := range o.Hosts {
		created, err := g.Create(t.Context(), group.Request{ID: fmt.Sprint("last", n), Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name(created.Instances[0]))
	}
	if want := "one two dead"; strings.Join(all, " ") != want {
		t.Errorf("the hosts are %v, want %s", all, want)
	}
}

// The record of hosts in use of the version before says of none whether somebody has answered.
func TestAHostFromAnOlderRecordIsNoDeadOne(t *testing.T) {
	state := t.TempDir()
	old := `{"one":{"id":"one-abcdefgh","order":{},"created":"2026-03-02T08:00:00Z"}}`
	if err := os.WriteFile(filepath.Join(state, "taken.json"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	g := open(t, state, static.Options{Hosts: []static.Host{{Name: "one", Address: "127.0.0.1:1"}, {Name: "two", Address: "127.0.0.1:2"}}})
	if _, err := g.Delete(t.Context(), []string{"one-abcdefgh"}); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"two", "one"} { // and one again, as it was given back before two
		if got := once(t, g, fmt.Sprint("r", n), true); got != want {
			t.Errorf("host %d is %q, want %q", n, got, want)
		}
	}
}

func TestADamagedRecordOfHowHostsWereGivenBackIsIgnored(t *testing.T) {
	for name, text := range map[string]string{"cut": `{"one":{"at":"2026-`, "partly wrong": `{"two":{"failed":false},"one":{"failed":"yes"}}`, "null": `null`, "empty": ``} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			if err := os.WriteFile(filepath.Join(state, "left.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			g := open(t, state, static.Options{Hosts: []static.Host{{Name: "one", Address: "127.0.0.1:1"}, {Name: "two", Address: "127.0.0.1:2"}}})
			for n, want := range []string{"one", "two"} {
				if got := once(t, g, fmt.Sprint("r", n), true); got != want {
					t.Errorf("host %d is %q, want %q", n, got, want)
				}
			}
		})
	}
}

func TestAKeyThatIsNotThereIsAMistakeOfItsOption(t *testing.T) {
	basic, err := static.New(static.Options{Hosts: []static.Host{{Address: "a"}, {Address: "b", KeyFile: "/nowhere/key"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = basic.Init(t.Context(), hclog.NewNullLogger(), group.Settings{State: t.TempDir()})
	var wrong options.Errors
	if !errors.As(err, &wrong) || wrong[0].Pointer != "/hosts/1/key_file" {
		t.Errorf("the error is %v", err)
	}
}
