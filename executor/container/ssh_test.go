//go:build unix

package container_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/steps/containers"
)

// The variables that tell a test binary that is started again about the SSH server.
const sshAddress, sshKey, sshKnownHosts = "RUNG_TEST_SSH_ADDRESS", "RUNG_TEST_SSH_KEY", "RUNG_TEST_SSH_KNOWN_HOSTS"

var opened struct {
	sync.Mutex
	hosts map[string]host.Host // by address
}

func init() {
	onHost = func() host.Host {
		address := os.Getenv(sshAddress)
		if address == "" {
			return nil
		}
		opened.Lock()
		defer opened.Unlock()
		if h := opened.hosts[address]; h != nil {
			return h
		}
		h, err := ssh.New(context.Background(), ssh.Options{
			Address: address, Key: os.Getenv(sshKey), KnownHosts: []string{os.Getenv(sshKnownHosts)}, Config: []string{},
		})
		if err != nil {
			panic(err)
		}
		opened.hosts = map[string]host.Host{address: h}
		return h
	}
}

func TestConformanceOverSSH(t *testing.T) {
	enginetest.Busybox(t)
	s := hosttest.StartSSHD(t)
	t.Setenv(sshAddress, s.Address)
	t.Setenv(sshKey, s.Key)
	t.Setenv(sshKnownHosts, s.KnownHosts)
	executortest.Run(t, level())
}

func TestTheEnginesMachineTakesNothingFromANetworkThatLeadsNowhere(t *testing.T) {
	enginetest.Busybox(t)
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root")
	}
	setting := func(t *testing.T, at host.Host, policy executor.NetworkPolicy) string {
		t.Helper()
		o, j := options(t.TempDir()), job("straight")
		o.Setup.Host, j.Network = at, policy
		open(t, o, j)
		all, err := enginetest.Client(t).NetworkList(t.Context(), client.NetworkListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, network := range all.Items {
			if network.Labels[testLabel] == o.Labels[testLabel] {
				text, err := os.ReadFile("/proc/sys/net/ipv4/conf/br-" + network.ID[:12] + "/rp_filter")
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(string(text))
			}
		}
		t.Fatal("the job has no network")
		return ""
	}
	s := hosttest.StartSSHD(t)
	far, err := ssh.New(t.Context(), ssh.Options{Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	usual, err := os.ReadFile("/proc/sys/net/ipv4/conf/default/rp_filter")
	if err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[executor.NetworkPolicy]string{executor.NetworkNone: "1", executor.NetworkPublic: "1", executor.NetworkDefault: strings.TrimSpace(string(usual))} {
		for where, at := range map[string]host.Host{"here": nil, "over SSH": far} {
			if got := setting(t, at, policy); got != want {
				t.Errorf("%s, network policy %q: rp_filter is %s, want %s", where, policy, got, want)
			}
		}
	}
}

// answering starts an engine that answers pings, and returns its socket.
func answering(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rung-engine-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.41")
	}))
	_ = server.Listener.Close()
	socket := filepath.Join(dir, "docker.sock")
	server.Listener = hosttest.Listen(t, "unix", socket)
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

func TestTheEngineOfAnotherMachine(t *testing.T) {
	socket := answering(t)
	t.Run("is the one that answers there", func(t *testing.T) {
		s := hosttest.StartSSHD(t, "SetEnv DOCKER_HOST= XDG_RUNTIME_DIR="+filepath.Dir(socket)+" HOME="+t.TempDir())
		h, err := ssh.New(t.Context(), ssh.Options{Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		// This machine's own engine may answer first: it is the same machine.
		e, err := container.DetectOn(t.Context(), h, []string{"DOCKER_HOST=unix:///nowhere"}, nil)
		if err != nil || !strings.Contains(e.String(), " on "+h.Name()) {
			t.Errorf("%v, %v", e, err)
		}
	})
	t.Run("may be none, which one sentence says", func(t *testing.T) {
		empty := t.TempDir()
		s := hosttest.StartSSHD(t, "SetEnv DOCKER_HOST= XDG_RUNTIME_DIR="+empty+" HOME="+empty)
		h, err := ssh.New(t.Context(), ssh.Options{Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		_, err = container.DetectOn(t.Context(), h, nil, nil)
		if err == nil { // that of this machine, which is the same
			return
		}
		if text := err.Error(); !errors.Is(err, container.ErrNoEngine) || strings.Contains(text, "\n") || strings.Contains(text, empty) {
			t.Errorf("not one sentence without the places that are not there: %s", text)
		}
	})
	t.Run("is the one that DOCKER_HOST names there", func(t *testing.T) {
		for address, answers := range map[string]bool{"unix://" + socket: true, "unix:///nowhere": false} {
			s := hosttest.StartSSHD(t, "SetEnv DOCKER_HOST="+address)
			h, err := ssh.New(t.Context(), ssh.Options{Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{}})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			e, err := container.DetectOn(t.Context(), h, nil, nil)
			if answers && (err != nil || e.Host != address) || !answers && !errors.Is(err, container.ErrNoEngine) {
				t.Errorf("%s: %v, %v", address, e, err)
			}
		}
	})
	t.Run("is the one that DOCKER_HOST of its own environment names", func(t *testing.T) {
		s := hosttest.StartSSHD(t, "SetEnv DOCKER_HOST=unix:///nowhere")
		h, err := ssh.New(t.Context(), ssh.Options{Address: s.Address, Key: s.Key, KnownHosts: []string{s.KnownHosts}, Config: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		e, err := container.DetectOn(t.Context(), h, []string{"DOCKER_HOST=unix:///here"}, []string{"DOCKER_HOST=unix://" + socket})
		if err != nil || e.Host != "unix://"+socket {
			t.Errorf("%v, %v", e, err)
		}
	})
	t.Run("may be named by its address", func(t *testing.T) {
		s := hosttest.StartSSHD(t)
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("SSH_AUTH_SOCK", "")
		if err := errors.Join(os.Mkdir(filepath.Join(home, ".ssh"), 0o700), os.Rename(s.Key, filepath.Join(home, ".ssh", "id_ed25519")),
			os.Rename(s.KnownHosts, filepath.Join(home, ".ssh", "known_hosts"))); err != nil {
			t.Fatal(err)
		}
		e, err := container.Detect(t.Context(), []string{"DOCKER_HOST=ssh://" + s.Address + socket})
		if err != nil || e.String() != "unix://"+socket+" on ssh://"+s.Address+" (DOCKER_HOST)" {
			t.Errorf("%v, %v", e, err)
		}
		level, err := container.New(t.Context(), executor.Setup{State: t.TempDir()}, container.Options{Engine: e})
		if err != nil {
			t.Fatal(err)
		}
		job := &executor.Job{ID: "services", ProjectName: "project", Services: []containers.Service{{Image: containers.Image{Name: "redis"}}}}
		if _, err := level.StartServices(t.Context(), job, nil); err == nil || !strings.Contains(err.Error(), "use an engine on this machine") {
			t.Errorf("services of a job on this machine: %v", err)
		}
		if err := level.Close(); err != nil {
			t.Error(err)
		}
		if _, err := container.Detect(t.Context(), []string{"DOCKER_HOST=ssh://" + s.Address + "/nowhere"}); !errors.Is(err, container.ErrNoEngine) || !strings.Contains(err.Error(), "/nowhere on ssh://") {
			t.Error(err)
		}
	})
}
