package service_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/source"
)

// world is a server on a unix socket, and the ways to it.
type world struct {
	t       *testing.T
	dir     string // short: a socket's path may have about 100 bytes
	socket  string
	service *service.Service
	server  *service.Server
	client  *client.Client
	api     runnerv1.StepRunnerClient
	old     stepsv0.StepRunnerClient
}

// serve starts a server with an engine as step-runner has it.
func serve(t *testing.T, change ...func(*service.Options)) *world {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	dir, err := os.MkdirTemp("", "sv-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, dir: dir, socket: filepath.Join(dir, service.SocketName)}
	w.start(change...)
	t.Cleanup(w.stop)
	if w.client, err = client.Dial("unix:" + w.socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Disconnect() })
	conn := dial(t, w.socket)
	w.api, w.old = runnerv1.NewStepRunnerClient(conn), stepsv0.NewStepRunnerClient(conn)
	return w
}

func dial(t *testing.T, socket string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func options() service.Options {
	return service.Options{
		Parse: gitlabsteps.ParseSteps,
		Engine: func() engine.Options {
			return engine.Options{
				HostEnv:        os.Environ(),
				ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
				Runtime:        event.Runtime{Version: "test", OS: runtime.GOOS, Arch: runtime.GOARCH},
			}
		},
		Sources: func(service.SourcesOf) (source.Source, error) {
			return &source.Local{Parse: gitlabsteps.ParseFile}, nil
		},
	}
}

func (w *world) start(change ...func(*service.Options)) {
	w.t.Helper()
	opts := options()
	for _, c := range change {
		c(&opts)
	}
	var err error
	if w.service, err = service.New(opts); err != nil {
		w.t.Fatal(err)
	}
	listener, err := service.ListenUnix(w.socket)
	if err != nil {
		w.t.Fatal(err)
	}
	w.serveOn(listener)
}

func (w *world) serveOn(listener net.Listener) {
	w.server = service.NewServer(w.service, service.Access{})
	server := w.server
	go func() { _ = server.Serve(listener) }()
}

func (w *world) stop() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	w.server.Stop(now)
	w.service.Close()
}

// soon is a context that ends when a test that hangs should fail.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// run starts steps.
func (w *world) run(id, steps string, change ...func(*client.Request)) {
	w.t.Helper()
	if err := w.client.Run(soon(w.t), w.request(id, steps, change...)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) request(id, steps string, change ...func(*client.Request)) client.Request {
	r := client.Request{ID: id, Text: steps, WorkDir: w.dir}
	for _, c := range change {
		c(&r)
	}
	return r
}

// log follows the log of a run to its end.
func (w *world) log(id string) string {
	w.t.Helper()
	var b bytes.Buffer
	if _, err := w.client.FollowLogs(soon(w.t), id, &b, client.LogOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// end waits for the end of a run.
func (w *world) end(id string) *client.Status {
	w.t.Helper()
	w.log(id)
	return w.status(id)
}

func (w *world) status(id string) *client.Status {
	w.t.Helper()
	st, err := w.client.Status(soon(w.t), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// write writes a file into the work directory.
func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// await waits until something is true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// touch writes a file for a step that waits for it.
func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// waitFor is a script that waits for a file.
func waitFor(path string) string {
	return fmt.Sprintf("while ! [ -e %s ]; do sleep 0.02; done", path)
}

// script makes a list of one step that runs shell text.
func script(text string) string {
	return "- name: only\n  script: |\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}
