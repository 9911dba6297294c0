//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

// phase is a point of a job in a container.
type phase struct {
	name  string
	image string                   // in YAML; empty is the usual one
	call  func(*http.Request) bool // the call of the engine that shows it; nil is the log of the step
	codes []int                    // how an interrupted job may end
}

var interrupted = []int{exit.Interrupted}

var phases = []phase{
	{"pulling", "127.0.0.1:1/no/registry:1", calls(http.MethodPost, "/images/create"), interrupted},
	{"starting", "", calls(http.MethodPost, "/start"), interrupted},
	{"sending files", "", execs("unpack"), interrupted},
	// Whose entrypoint may hold the streams of the container, so that a process in it is the connection.
	{"before the run", `{name: ` + enginetest.Image + `, entrypoint: [/bin/sh, -c, 'exec "$@"', entry]}`, execs("proxy"), interrupted},
	{"in a step", "", nil, interrupted},
	{"fetching files", "", func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/archive") && strings.Contains(r.URL.Query().Get("path"), "/store/")
	}, interrupted},
	{"cleaning up", "", func(r *http.Request) bool { return r.Method == http.MethodDelete }, []int{exit.OK, exit.Interrupted}},
}

// calls matches a call by the end of its path.
func calls(method, end string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && strings.HasSuffix(r.URL.Path, end) && !strings.Contains(r.URL.Path, "/exec/")
	}
}

// execs matches the call that makes a process in a container.
func execs(argument string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/exec") {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		return bytes.Contains(body, []byte(`"`+argument+`"`))
	}
}

func TestAnInterruptedJobInAContainerEndsInEveryPhaseAndLeavesNothing(t *testing.T) {
	enginetest.Busybox(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range phases {
		for times, how := range map[int]string{1: "once", 2: "twice"} {
			t.Run(p.name+", "+how, func(t *testing.T) {
				t.Parallel()
				i := &interruption{phase: p, id: strings.ReplaceAll(p.name, " ", "-") + "-" + how, program: program, times: times}
				i.try(t)
			})
		}
	}
}

// interruption is one case.
type interruption struct {
	phase
	id, program string
	times       int
}

func (i *interruption) try(t *testing.T) {
	dir := t.TempDir()
	image := enginetest.Image
	if i.image != "" {
		image = i.image
	}
	script := "echo kept >kept"
	if i.call == nil {
		script += "; echo begun; sleep 600"
	}
	for name, text := range map[string]string{
		"project/.gitlab-ci.yml": i.id + ":\n  image: " + image + "\n  script: ['" + script + "']\n  artifacts: {paths: [kept]}\n", "home/.keep": "", "tmp/.keep": "",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	gate := enginetest.NewGate(t, func(r *http.Request) bool { return i.call != nil && i.call(r) }, 2*time.Second)
	out := &said{seen: gate.Reached}
	c := exec.CommandContext(t.Context(), i.program, "local", "--isolation", "container", "--progress", "plain")
	c.Dir, c.Stdout, c.Stderr = filepath.Join(dir, "project"), out, out
	c.Env = append(os.Environ(), "DOCKER_HOST="+gate.Address, "HOME="+filepath.Join(dir, "home"), "TMPDIR="+filepath.Join(dir, "tmp"),
		"XDG_STATE_HOME=", "XDG_CACHE_HOME=", "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	select {
	case <-gate.Reached:
	case <-ended:
		t.Fatalf("it ended before: %s", out)
	}
	began := time.Now()
	for range i.times {
		_ = c.Process.Signal(os.Interrupt)
		time.Sleep(200 * time.Millisecond) // two signals of a kind at once are one
	}
	<-ended
	if took := time.Since(began); took > 5*time.Minute { // 30 seconds, on a machine of its own
		t.Errorf("it takes %s", took)
	}
	code := c.ProcessState.ExitCode()
	ok := false
	for _, want := range i.codes {
		ok = ok || code == want
	}
	if !ok || code == exit.Interrupted && !strings.Contains(out.String(), "interrupted") && !strings.Contains(out.String(), "CANCELLED") {
		t.Errorf("it ends with exit code %d, %s", code, out)
	}
	i.wantNothing(t, dir)
}

// wantNothing holds that nothing is left of the job.
func (i *interruption) wantNothing(t *testing.T, dir string) {
	c := enginetest.Client(t)
	ctx := t.Context()
	labelled := func(what string, labels map[string]string) {
		if strings.HasPrefix(labels["rung.job"], i.id) {
			t.Errorf("left: %s", what)
		}
	}
	containers, err := c.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range containers.Items {
		labelled("container "+one.Names[0], one.Labels)
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range networks.Items {
		labelled("network "+one.Name, one.Labels)
	}
	volumes, err := c.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range volumes.Items {
		labelled("volume "+one.Name, one.Labels)
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (filepath.Dir(path) == filepath.Join(dir, "tmp") && e.Name() != ".keep" || strings.HasSuffix(path, ".ledger")) {
			t.Errorf("left: %s", path)
		}
		return nil
	})
}

// said is what a program says, and tells when its step has begun.
type said struct {
	seen chan<- struct{}

	mu   sync.Mutex
	text bytes.Buffer
	told bool
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if !s.told && bytes.Contains(s.text.Bytes(), []byte("begun\n")) {
		s.told = true
		s.seen <- struct{}{}
	}
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
