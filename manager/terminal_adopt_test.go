//go:build unix

package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// fixedSessionServer is a session server that is where it was when the manager is started again.
func fixedSessionServer(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return fmt.Sprintf("concurrent = 2\ncheck_interval = 1\n[session_server]\nlisten_address = %q\n", free.Addr())
}

// reopenTerminal opens a terminal as soon as the manager is back.
func (w *world) reopenTerminal(j *gitlabtest.Job) *gitlabtest.Terminal {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for {
		c, err := j.Terminal(ctx, gitlabtest.TerminalProtocol)
		if err == nil {
			return c
		}
		select {
		case <-ctx.Done():
			w.t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// goes is a file that abandoned jobs wait for, besides "go" in their folders.
func (w *world) goes() string { return filepath.Join(w.dir, "goes") }

// abandoned is a job whose manager was killed while its script waits for the file "go" and somebody had its terminal.
func (w *world) abandoned(global string, lines ...string) *gitlabtest.Job {
	w.t.Helper()
	w.t.Setenv("SHELL", "/bin/sh")
	wait := fmt.Sprintf("until [ -e go ] || [ -e %s ]; do sleep 0.05; done", w.goes())
	j := w.server.Enqueue(script(append([]string{"echo begun", wait}, lines...)...))
	first, ended := w.victim(victim{Global: global})
	c := w.openTerminal(j)
	w.types(c, "echo of-the-first > file; echo writ''ten", "written")
	_ = first.Process.Kill()
	<-ended
	if _, _, err := c.Ended(w.t.Context()); err == nil {
		w.t.Error("the terminal was closed as if the manager had ended by itself")
	}
	return j
}

func TestAnAdoptedJobHasTheTerminalThatGitLabWasToldOf(t *testing.T) {
	w := newWorld(t)
	global := fixedSessionServer(t)
	j := w.abandoned(global, "cat go")
	secrets := []string{j.Session().Authorization, strings.TrimPrefix(j.Session().URL[strings.LastIndex(j.Session().URL, "/"):], "/"), "PRIVATE KEY"}
	checkNotOnDisk(t, filepath.Join(w.dir, "state"), secrets)
	w.start(w.configure(global, ""))

	c := w.reopenTerminal(j)
	w.types(c, "cat file", "of-the-first\r\n")
	var refused *gitlabtest.StatusError
	if _, err := j.Terminal(t.Context(), gitlabtest.TerminalProtocol); !errors.As(err, &refused) || refused.Status != http.StatusLocked {
		t.Errorf("a second person: %v", err)
	}
	stop := filepath.Join(w.dir, "stop")
	next := w.server.Enqueue(script("echo begun", fmt.Sprintf("until [ -e %s ]; do sleep 0.05; done", stop)))
	other := w.openTerminal(next)
	w.types(other, "echo al''so; touch "+stop, "also")
	other.Close()

	w.types(c, "echo of-the-second > go; echo writ''ten", "written")
	if _, err := c.Until(t.Context(), "The job has ended. It waits until this terminal is closed"); err != nil {
		t.Fatal(err)
	}
	if r := j.Result(); r.State != gitlab.Running {
		t.Errorf("the job is %s while its terminal is open", r.State)
	}
	w.types(c, "cat go; exit", "of-the-second\r\n")
	if r := w.result(j); r.State != gitlab.Success || strings.Count(r.Log, "of-the-second") != 1 {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
	if r := w.result(next); r.State != gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
	if _, err := j.Terminal(t.Context(), gitlabtest.TerminalProtocol); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("after the job: %v", err)
	}
}

// checkNotOnDisk looks for secrets in files. There has to be a file.
func checkNotOnDisk(t *testing.T, folder string, secrets []string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds %q", path, secret)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestATerminalKeepsAnAdoptedJobForTheSessionTimeout(t *testing.T) {
	w := newWorld(t)
	global := fixedSessionServer(t) + "session_timeout = 1\n"
	j := w.abandoned(global, "exit 3")
	w.start(w.configure(global, ""))
	c := w.reopenTerminal(j)
	w.types(c, "touch go; echo go''ne", "gone")
	shown, reason, err := c.Ended(t.Context())
	if err != nil || reason != "the job has ended" || !strings.Contains(shown, "for 1s at most") || !strings.Contains(shown, "The time of this terminal is over.") {
		t.Errorf("%q, %q, %v", shown, reason, err)
	}
	if r := w.result(j); r.State != gitlab.Failed || r.ExitCode != 3 {
		t.Errorf("%s %d", r.State, r.ExitCode)
	}
}

func TestACancelledAdoptedJobDoesNotWaitForItsTerminal(t *testing.T) {
	w := newWorld(t)
	global := fixedSessionServer(t)
	j := w.abandoned(global, "for i in $(seq 600); do echo more; sleep 0.1; done") // GitLab is heard when the log is sent
	w.start(w.configure(global, ""))
	c := w.reopenTerminal(j)
	w.types(c, "touch go; echo go''ne", "gone")
	j.Cancel()
	if r := w.result(j); r.State != gitlab.Canceled {
		t.Errorf("%s", r.State)
	}
	if _, _, err := c.Ended(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAJobThatWaitedForItsTerminalEndsWithItsManager is about a manager that is killed while a job that has ended waits: the person is gone with it.
func TestAJobThatWaitedForItsTerminalEndsWithItsManager(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	w := newWorld(t)
	global := fixedSessionServer(t)
	j := w.server.Enqueue(script("echo begun", "until [ -e go ]; do sleep 0.05; done"))
	first, ended := w.victim(victim{Global: global})
	c := w.openTerminal(j)
	w.types(c, "touch go", "The job has ended.")
	_ = first.Process.Kill()
	<-ended
	w.start(w.configure(global, ""))
	if r := w.result(j); r.State != gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

func TestAJobIsAdoptedWithItsTerminalBeforeItHasBegun(t *testing.T) {
	for name, writes := range map[string]int{"before it has a place": beforeItHasAPlace, "with a place": withAPlace} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SHELL", "/bin/sh")
			w := newWorld(t)
			global := fixedSessionServer(t)
			j := w.server.Enqueue(script("echo begun", "until [ -e go ]; do sleep 0.05; done"))
			_, ended := w.victim(victim{Global: global, Writes: writes})
			<-ended
			w.start(w.configure(global, ""))
			c := w.openTerminal(j)
			w.types(c, "touch go; exit", "exit")
			if r := w.result(j); r.State != gitlab.Success {
				t.Errorf("%s\n%s", r.State, r.Log)
			}
		})
	}
}

func TestAnAdoptedJobHasNoTerminalWhereGitLabDoesNotAskForIt(t *testing.T) {
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	for name, global := range map[string]string{
		"another address":   sessionServer,
		"no session server": "concurrent = 2\ncheck_interval = 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.abandoned(fixedSessionServer(t), "echo of-the-second")
			var log syncBuffer
			o := w.options(w.configure(global, ""), program)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			w.run(o)
			if r := w.result(w.server.Enqueue(script("true"))); r.State != gitlab.Success {
				t.Errorf("%s\n%s", r.State, r.Log)
			}
			if _, err := j.Terminal(t.Context(), gitlabtest.TerminalProtocol); err == nil {
				t.Error("it has a terminal at an address where nobody listens")
			}
			if !strings.Contains(log.String(), "an adopted job has lost its terminal") {
				t.Errorf("nobody is told:\n%s", log.String())
			}
			if err := os.WriteFile(w.goes(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := w.result(j); r.State != gitlab.Success || !strings.Contains(r.Log, "of-the-second") {
				t.Errorf("%s\n%s", r.State, r.Log)
			}
		})
	}
}
