//go:build unix

package manager_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

const sessionServer = "concurrent = 2\ncheck_interval = 1\n[session_server]\nlisten_address = \"127.0.0.1:0\"\n"

// openTerminal opens the terminal of a job that runs.
func (w *world) openTerminal(j *gitlabtest.Job) *gitlabtest.Terminal {
	w.t.Helper()
	j.Watch(true) // the runner sends its log, and hears, soon
	if err := j.WaitLog(w.t.Context(), "begun"); err != nil {
		w.t.Fatal(err)
	}
	c, err := j.Terminal(w.t.Context(), gitlabtest.TerminalProtocol)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// types types a line and waits for what it shows.
func (w *world) types(c *gitlabtest.Terminal, line, want string) {
	w.t.Helper()
	if err := c.Type(w.t.Context(), line+"\n"); err != nil {
		w.t.Fatal(err)
	}
	if shown, err := c.Until(w.t.Context(), want); err != nil {
		w.t.Fatalf("%v after %q", err, shown)
	}
}

func TestATerminalIsAShellInTheJobsEnvironment(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	t.Setenv("OPERATORS_SECRET", "operator")
	w := newWorld(t)
	job := script("echo from-the-script > file", "echo begun", "until [ -e go ]; do sleep 0.05; done", "cat go")
	job.Variables = append(job.Variables, gitlab.Variable{Key: "MINE", Value: "of-$OTHER"}, gitlab.Variable{Key: "OTHER", Value: "the-job", Masked: true})
	j := w.server.Enqueue(job)
	w.start(w.configure(sessionServer, ""))
	c := w.openTerminal(j)
	w.types(c, "cat file", "from-the-script\r\n")
	w.types(c, `echo "$MINE, [$OPERATORS_SECRET]"`, "of-the-job, []\r\n")
	w.types(c, "echo from-the-terminal > go; echo writ''ten", "written")
	if err := j.WaitLog(t.Context(), "from-the-terminal"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Until(t.Context(), "The job has ended."); err != nil {
		t.Fatal(err)
	}
	if r := j.Result(); r.State != gitlab.Running {
		t.Errorf("the job is %s while its terminal is open", r.State)
	}
	w.types(c, "cat go; exit", "from-the-terminal\r\n")
	if r := w.result(j); r.State != gitlab.Success {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}

func TestATerminalKeepsAJobForTheSessionTimeout(t *testing.T) {
	w := newWorld(t)
	j := w.server.Enqueue(script("echo begun", "until [ -e go ]; do sleep 0.05; done", "exit 3"))
	w.start(w.configure(sessionServer+"session_timeout = 1\n", ""))
	c := w.openTerminal(j)
	w.types(c, "touch go; echo go''ne", "gone")
	shown, reason, err := c.Ended(t.Context())
	if err != nil || reason != "the job has ended" || !strings.Contains(shown, "The time of this terminal is over.") {
		t.Errorf("%q, %q, %v", shown, reason, err)
	}
	if r := w.result(j); r.State != gitlab.Failed || r.ExitCode != 3 {
		t.Errorf("%s %d", r.State, r.ExitCode)
	}
}

func TestACancelledJobDoesNotWaitForItsTerminal(t *testing.T) {
	w := newWorld(t)
	j := w.server.Enqueue(script("echo begun", "until [ -e go ]; do sleep 0.05; done; for i in $(seq 600); do echo more; sleep 0.1; done"))
	w.start(w.configure(sessionServer, ""))
	c := w.openTerminal(j)
	w.types(c, "touch go; echo go''ne", "gone")
	j.Cancel()
	if r := w.result(j); r.State != gitlab.Canceled {
		t.Errorf("%s", r.State)
	}
	if _, _, err := c.Ended(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestThereIsNoTerminalWithoutASessionServer(t *testing.T) {
	w := newWorld(t)
	j := w.server.Enqueue(script("true"))
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", ""))
	w.result(j)
	if s := j.Session(); s != nil {
		t.Error("GitLab was told of", s.URL)
	}
	if f := w.server.Runner(w.tokens[0]).Managers["s_0123456789ab"].Features; f.Session || f.Terminal {
		t.Error("GitLab was told that there are terminals")
	}
}
