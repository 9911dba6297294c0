package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

func TestHostileRequests(t *testing.T) {
	t.Parallel()
	w := serve(t)
	text := func(yaml string) *runnerv1.RunRequest_Text {
		return &runnerv1.RunRequest_Text{Text: &runnerv1.Text{Yaml: yaml}}
	}
	fine := func(change func(*runnerv1.RunRequest)) *runnerv1.RunRequest {
		r := &runnerv1.RunRequest{Id: "hostile", WorkDir: w.dir, Steps: text(script("true"))}
		change(r)
		return r
	}
	file := func(name string) func(*runnerv1.RunRequest) {
		return func(r *runnerv1.RunRequest) {
			r.Variables = []*runnerv1.Variable{{Name: name, Value: "text", File: true}}
		}
	}
	for name, change := range map[string]func(*runnerv1.RunRequest){
		"an id of 1 MB":                       func(r *runnerv1.RunRequest) { r.Id = strings.Repeat("x", 1<<20) },
		"a work directory with a NUL":         func(r *runnerv1.RunRequest) { r.WorkDir = w.dir + "/a\x00b" },
		"a lock file that is none":            func(r *runnerv1.RunRequest) { r.Lock = "version = 9" },
		"a relative work directory":           func(r *runnerv1.RunRequest) { r.WorkDir = "../x" },
		"a file variable outside":             file("../../x"),
		"a file variable with a NUL":          file("a\x00b"),
		"a file variable with a name of 1 MB": file(strings.Repeat("x", 1<<20)),
		"a file variable .":                   file("."),
		"an environment variable A=B":         func(r *runnerv1.RunRequest) { r.Env = map[string]string{"A=B": "c"} },
		"an environment variable with a NUL":  func(r *runnerv1.RunRequest) { r.Env = map[string]string{"A": "c\x00"} },
		"a secret named A=B":                  func(r *runnerv1.RunRequest) { r.Secrets = map[string]string{"A=B": "cccccc"} },
		"a secret with a NUL":                 func(r *runnerv1.RunRequest) { r.Secrets = map[string]string{"A": "ccccc\x00"} },
		"text that nests 10,000 deep":         func(r *runnerv1.RunRequest) { r.Steps = text(strings.Repeat("[", 10000)) },
		"aliases that multiply": func(r *runnerv1.RunRequest) {
			r.Steps = text("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n")
		},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			_, err := w.api.Run(soon(t), fine(change))
			_ = w.client.Close(soon(t), "hostile")
			if code := status.Code(err); code != codes.InvalidArgument && code != codes.FailedPrecondition {
				t.Errorf("got %v", err)
			}
			if len(fmt.Sprint(err)) > 2000 {
				t.Errorf("the error has %d bytes", len(fmt.Sprint(err)))
			}
		})
	}
	t.Run("any text can be an id, and names no file", func(t *testing.T) {
		for _, id := range []string{"../x", "a\x00b", "/etc/passwd", "☃\u202e", "\x1b[31m\n", strings.Repeat("y", 256)} {
			w.run(id, script("echo fine"))
			if got := w.log(id); got != "fine\n" {
				t.Errorf("the log of %q is %q", id, got)
			}
			if err := w.client.Close(soon(t), id); err != nil {
				t.Error(err)
			}
		}
		if list, err := w.client.List(soon(t)); err != nil || len(list) != 0 {
			t.Errorf("left are %v, %v", list, err)
		}
	})
	t.Run("any text can be the name of a file variable that is a file's name", func(t *testing.T) {
		w.run("names", "- {name: a, script: 'cat \"${{ vars[\"-rf *\"] }}\"'}\n", func(r *client.Request) {
			r.Variables = []client.Variable{{Name: "-rf *", Value: "kept", File: true}}
		})
		if got := w.log("names"); got != "kept" {
			t.Errorf("the log is %q, %+v", got, w.status("names").Error)
		}
	})
	t.Run("a masked file variable stays masked beside a secret of the same name", func(t *testing.T) {
		w.run("both", "- {name: a, script: 'cat ${{ vars.KEY }}'}\n", func(r *client.Request) {
			r.Variables = []client.Variable{{Name: "KEY", Value: "text-of-the-file", File: true, Masked: true}}
			r.Secrets = map[string]string{"KEY": "another-secret"}
		})
		if got := w.log("both"); got != "[MASKED]" {
			t.Errorf("the log is %q", got)
		}
	})
	t.Run("the same request at the same time starts one run", func(t *testing.T) {
		var started atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				out, err := w.api.Run(soon(t), &runnerv1.RunRequest{Id: "once", WorkDir: w.dir, Steps: text(script("echo x >>" + w.dir + "/times"))})
				if err != nil {
					t.Error(err)
				}
				if out.GetStarted() {
					started.Add(1)
				}
			})
		}
		all.Wait()
		w.end("once")
		times, err := os.ReadFile(filepath.Join(w.dir, "times"))
		if err != nil || string(times) != "x\n" || started.Load() != 1 {
			t.Errorf("it ran %q, %d were told that it had started, %v", times, started.Load(), err)
		}
	})
	t.Run("offsets and numbers that are not there", func(t *testing.T) {
		w.run("short", script("printf abc"))
		w.end("short")
		for offset, want := range map[int64]string{0: "abc", 3: "", 4: "", math.MaxInt64: ""} {
			var got strings.Builder
			if at, err := w.client.FollowLogs(soon(t), "short", &got, client.LogOptions{Offset: offset}); err != nil || got.String() != want || at != max(offset, 3) {
				t.Errorf("from %d: %q up to %d, %v", offset, got.String(), at, err)
			}
		}
		for _, step := range []string{"", "1"} {
			if _, err := w.client.FollowLogs(soon(t), "short", io.Discard, client.LogOptions{Offset: -1, Step: step}); status.Code(errors.Unwrap(err)) != codes.InvalidArgument && !strings.Contains(err.Error(), "is negative") {
				t.Errorf("from -1: %v", err)
			}
		}
		if _, err := w.client.FollowLogs(soon(t), "short", io.Discard, client.LogOptions{Offset: math.MaxInt64, Step: "1"}); err != nil {
			t.Error(err)
		}
		n := 0
		if at, err := w.client.FollowSteps(soon(t), "short", client.StepOptions{After: math.MaxInt64}, func(event.Event) error { n++; return nil }); err != nil || n != 0 || at != math.MaxInt64 {
			t.Errorf("events of the future: %d up to %d, %v", n, at, err)
		}
	})
	t.Run("cancelled while it starts, and twice, a run is cancelled once", func(t *testing.T) {
		for i := range 20 {
			id := fmt.Sprint("cancel", i)
			w.run(id, script("sleep 100"))
			for range 2 {
				if err := w.client.Cancel(soon(t), id, event.Stop{Reason: "changed my mind"}, i%2 == 0); err != nil {
					t.Error(err)
				}
			}
			if st := w.end(id); st.State != event.Cancelled {
				t.Errorf("%s ended with %+v", id, st)
			}
		}
	})
	t.Run("a follower of a run that is closed is told so", func(t *testing.T) {
		w.run("closed", script("echo hi; sleep 100"))
		stream, err := w.api.FollowLogs(soon(t), &runnerv1.FollowLogsRequest{Id: "closed"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Close(soon(t), "closed"); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) && status.Code(err) != codes.NotFound {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a run that is being closed can still be killed", func(t *testing.T) {
		w.run("stubborn", script("trap '' TERM; echo started; while :; do sleep 0.05; done"), func(r *client.Request) { r.Grace = 5 * time.Minute })
		await(t, "it has started", func() bool { return w.status("stubborn").LogBytes > 0 })
		short, cancel := context.WithTimeout(soon(t), 200*time.Millisecond)
		defer cancel()
		if _, err := w.api.Close(short, &runnerv1.CloseRequest{Id: "stubborn"}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("closing it: %v", err)
		}
		if _, err := w.api.Close(soon(t), &runnerv1.CloseRequest{Id: "stubborn", Force: true}); err != nil {
			t.Errorf("closing it with force: %v", err)
		}
		await(t, "it has ended", func() bool { return w.service.Active() == 0 })
	})
}

// TestWhatAKilledServerLeaves is removed by the next server, and what a live one has is not.
func TestWhatAKilledServerLeaves(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs locks on folders")
	}
	t.Setenv("TMPDIR", t.TempDir())
	left, err := os.MkdirTemp("", "step-runner-service-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(left, "step-runner-1", "variables"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, ".in-use"), nil, 0o600); err != nil { // and nobody has locked it
		t.Fatal(err)
	}
	others := filepath.Join(os.TempDir(), "step-runner-service-link")
	if err := os.Symlink(t.TempDir(), others); err != nil {
		t.Fatal(err)
	}
	first := serve(t)
	first.run("1", script(waitFor("go")))
	await(t, "what was left is gone", func() bool { return !exists(left) })
	second := serve(t)
	second.run("1", script("true"))
	second.end("1")
	if !exists(filepath.Join(first.service.Folder(), "step-runner-1")) || !exists(others) {
		t.Error("a server has removed what is not its own")
	}
	touch(t, filepath.Join(first.dir, "go"))
	first.end("1")
}
