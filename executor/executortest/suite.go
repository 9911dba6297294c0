package executortest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// Run tries all that the contract says: each case with a level of its own, beside others, as jobs are. Those that wait longest begin first.
func Run(t *testing.T, level Level) {
	s := &suite{level}
	ends, heirs, bounds := &ends{s}, &heirs{s}, &bounds{s}
	for _, c := range []struct {
		name string
		try  func(*testing.T)
	}{
		{"an environment that ends before the run says what happened", ends.endsBefore},
		{"an environment that ends in a step says what happened", ends.endsInStep},
		{"an environment that ends while files are copied says what happened", ends.endsWhileCopying},
		{"files are fetched from an environment that has ended or does not answer, or it says what happened", ends.fetchesAfter},
		{"an environment whose owner does not come back ends itself", heirs.endsAlone},
		{"a step runs in the environment and its log and exit code come back", s.runs},
		{"a command that fails is shown where it was written", s.failingLine},
		{"the folders of the layout are there", s.layout},
		{"two jobs at once do not see each other's files", s.apart},
		{"files that are sent and fetched are the same", s.roundTrip},
		{"an archive cannot write outside of its folder", s.hostile},
		{"fetching what does not exist is fs.ErrNotExist", s.fetchMissing},
		{"a lost connection is made again and the log goes on", s.reconnects},
		{"a run is cancelled", s.cancels},
		{"a shell runs a command and returns its exit code", s.shell},
		{"a shell has a terminal of the person's size", s.terminal},
		{"closing ends a shell", s.closeEndsShell},
		{"closing again does nothing", s.closeTwice},
		{"closing while a step runs leaves nothing", s.closeBusy},
		{"what a job has made read-only is removed too", s.readOnly},
		{"preparing with a context that has ended leaves nothing", s.prepareCancelled},
		{"preparing that is cancelled half way leaves nothing", s.prepareCancelledLater},
		{"after its process was killed a sweep leaves nothing", s.sweeps},
		{"a sweep leaves the living alone", s.sweepSparesTheLiving},
		{"what the level cannot do is refused", s.refuses},
		{"a job uses no more than it may", bounds.uses},
		{"a job reaches no more than it may", bounds.reaches},
		{"a project folder is kept, is one job's at a time, and nothing of a hostile job is left in it", s.keeps},
		{"a project folder that is kept is the next job's when the owner of one was killed", s.keepsOfTheKilled},
		{"rights and places that the level does not have are refused", bounds.refuses},
		{"an image that is nowhere is the job's mistake", s.missingImage},
		{"names that could lead elsewhere are refused", s.badNames},
		{"limits are the same on every level", ends.limits},
		{"a job that kills its own step-runner ends its environment", ends.killsItsRunner},
		{"more than may be fetched is refused and leaves nothing", ends.fetchTooMuch},
		{"a lease that ends with its process cannot be detached", heirs.detachRefused},
		{"an environment that is detached is recovered and goes on", heirs.detaches},
		{"a new process adopts the job of a killed one without losing or doubling a byte of its log", heirs.adopts},
		{"the environment of a living process is not taken over", heirs.ownedByTheLiving},
		{"an environment that is gone is not recovered", heirs.recoversNothing},
	} {
		sideBySide(t, c.name, c.try)
	}
}

// sideBySide tries a case beside the others of its test.
func sideBySide(t *testing.T, name string, try func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		try(t)
	})
}

type suite struct{ level Level }

// opened is a level and where it keeps things.
type opened struct {
	executor.Executor
	dir   string
	level Level
}

// open makes the level, which must leave nothing.
func (s *suite) open(t *testing.T) *opened {
	t.Helper()
	return s.openIn(t, shortDir(t))
}

// openIn makes the level with what is in dir.
func (s *suite) openIn(t *testing.T, dir string) *opened {
	t.Helper()
	p := &opened{dir: dir, level: s.level}
	var err error
	if p.Executor, err = s.level.New(p.dir, executor.Lease{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Executor.Close(); err != nil {
			t.Errorf("closing the level: %v", err)
		}
		p.wantNothing(t, "after the level was closed")
	})
	return p
}

// shortDir is a temporary folder whose name leaves room for the path of a socket below it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rung-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (p *opened) wantNothing(t *testing.T, when string) {
	t.Helper()
	left, err := p.level.Left(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("%s this is left: %q", when, left)
	}
}

// job is an environment and a client of it.
type job struct {
	executor.Environment
	client *client.Client
}

func (p *opened) prepare(t *testing.T, id string) *job {
	t.Helper()
	return p.start(t, p.level.Job(id))
}

// start prepares a job and closes it with the test.
func (p *opened) start(t *testing.T, asked *executor.Job) *job {
	t.Helper()
	id := asked.ID
	env, err := p.Prepare(t.Context(), asked, func(step event.Preparing) { t.Logf("%s: %+v", id, step) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial("environment", client.WithDialer(env.Connect))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Disconnect()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := env.Close(ctx); err != nil {
			t.Errorf("closing the environment of %s: %v", id, err)
		}
	})
	return &job{env, c}
}

// script runs a script in the project's folder and returns its log.
func (j *job) script(t *testing.T, text string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var log bytes.Buffer
	_, err := j.client.Execute(ctx, j.request("script", text), &log)
	return log.String(), err
}

func (j *job) request(id, text string) client.Request {
	l := j.Layout()
	env := map[string]string{"CI_PROJECT_DIR": l.Project, "TEMP_DIR": l.Temp, "BIN_DIR": l.Bin}
	for name, value := range l.Env {
		env[name] = value
	}
	return client.Request{ID: id, Text: "- script: |\n    " + strings.ReplaceAll(text, "\n", "\n    "), WorkDir: l.Project, Env: env}
}

func (s *suite) runs(t *testing.T) {
	j := s.open(t).prepare(t, "runs")
	log, err := j.script(t, "echo hello")
	if err != nil || !strings.Contains(log, "hello") {
		t.Errorf("it ends with %v, and its log is %q", err, log)
	}
	log, err = j.script(t, "echo bad >&2; exit 3")
	var failure *client.StepFailure
	if !errors.As(err, &failure) || failure.ExitCode != 3 || !strings.Contains(log, "bad") {
		t.Errorf("a step that fails ends with %v, and its log is %q", err, log)
	}
}

func (s *suite) failingLine(t *testing.T) {
	j := s.open(t).prepare(t, "failing-line")
	for _, shell := range []string{"", "    shell: sh\n"} {
		events := &collected{}
		request := j.request("line", "")
		request.Text = "run:\n  - name: lines\n" + shell + "    script: |\n      set -e\n      echo one\n      if true; then\n        test a = b\n      fi\n      echo never\n"
		if err := session.Run(t.Context(), nil, j.Environment, request, events); err != nil {
			t.Fatal(err)
		}
		line := 7 + strings.Count(shell, "\n")
		if e := events.failure; e == nil || len(e.Diagnostics) == 0 || e.Diagnostics[0].Line != line || strings.TrimSpace(e.Diagnostics[0].Source) != "test a = b" {
			t.Errorf("shell %q: the error is %+v, and the command that fails is on line %d", strings.TrimSpace(shell), e, line)
		}
	}
}

func (s *suite) layout(t *testing.T) {
	j := s.open(t).prepare(t, "layout")
	log, err := j.script(t, `set -e
test "$PWD" = "$CI_PROJECT_DIR"
test -z "$(ls -A .)"
test -d "$TEMP_DIR"
ls -ld "$TEMP_DIR" | grep '^drwx------'
test -x "$BIN_DIR/step-runner"
echo mine >file
echo mine >"$TEMP_DIR/file"`)
	if err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}

func (s *suite) apart(t *testing.T) {
	p := s.open(t)
	a, b := p.prepare(t, "one"), p.prepare(t, "two")
	var wg sync.WaitGroup
	for name, j := range map[string]*job{"a": a, "b": b} {
		wg.Go(func() {
			if log, err := j.script(t, "echo "+name+" >"+name+`; echo `+name+` >"$TEMP_DIR/`+name+`"`); err != nil {
				t.Errorf("%v\n%s", err, log)
			}
		})
	}
	wg.Wait()
	for name, j := range map[string]*job{"a": a, "b": b} {
		if log, err := j.script(t, `test "$(ls . "$TEMP_DIR" | grep -c '^[ab]$')" = 2 && cat `+name+` "$TEMP_DIR/`+name+`"`); err != nil {
			t.Errorf("job %s sees other files than its own: %v\n%s", name, err, log)
		}
	}
}

func (s *suite) cancels(t *testing.T) {
	j := s.open(t).prepare(t, "cancels")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := j.client.Run(ctx, j.request("long", "echo begun; sleep 600")); err != nil {
		t.Fatal(err)
	}
	var stop sync.Once
	_, err := j.client.FollowLogs(ctx, "long", writerFunc(func(p []byte) (int, error) {
		stop.Do(func() {
			if err := j.client.Cancel(ctx, "long", event.Stop{Reason: "enough"}, false); err != nil {
				t.Error(err)
			}
		})
		return len(p), nil
	}), client.LogOptions{})
	if err != nil {
		t.Error(err)
	}
	status, err := j.client.Status(ctx, "long")
	if err != nil || status.State != event.Cancelled {
		t.Errorf("it ends as %+v, %v", status, err)
	}
}

func (s *suite) closeTwice(t *testing.T) {
	p := s.open(t)
	j := p.prepare(t, "twice")
	if log, err := j.script(t, "echo data >file"); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	for range 2 {
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if conn, err := j.Connect(ctx); err == nil {
		conn.Close()
		t.Error("a closed environment takes a connection")
	}
}

func (s *suite) closeBusy(t *testing.T) {
	p := s.open(t)
	j := p.prepare(t, "busy")
	begun := make(chan struct{})
	if err := j.client.Run(t.Context(), j.request("long", "echo begun; sleep 600")); err != nil {
		t.Fatal(err)
	}
	following, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, _ = j.client.FollowLogs(following, "long", once(func() { close(begun) }), client.LogOptions{})
	}()
	awaitBegin(t, begun)
	if err := j.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// awaitBegin waits until something in the environment has begun.
func awaitBegin(t *testing.T, begun <-chan struct{}) {
	t.Helper()
	select {
	case <-begun:
	case <-time.After(patience):
		t.Fatalf("what should run has written nothing for %s", patience)
	}
}

func (s *suite) readOnly(t *testing.T) {
	j := s.open(t).prepare(t, "readonly")
	if log, err := j.script(t, "mkdir -p a/b; echo x >a/b/file; chmod 400 a/b/file; chmod 500 a/b; chmod 000 a"); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
}

func (s *suite) prepareCancelled(t *testing.T) {
	p := s.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	env, err := p.Prepare(ctx, p.level.Job("never"), nil)
	if err == nil {
		t.Errorf("it prepares: %v", env.Close(t.Context()))
	}
}

// prepareCancelledLater cancels at every point at which something is reported.
func (s *suite) prepareCancelledLater(t *testing.T) {
	p := s.open(t)
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		count := 0
		env, err := p.Prepare(ctx, p.level.Job("later"), func(event.Preparing) {
			mu.Lock()
			defer mu.Unlock()
			if count++; count == n {
				cancel()
			}
		})
		if err == nil {
			err = env.Close(context.WithoutCancel(ctx))
		}
		cancel()
		if count < n {
			if err != nil {
				t.Error(err)
			}
			return
		}
		left, err := p.level.Left(p.dir)
		left = slices.DeleteFunc(left, func(name string) bool { return strings.HasSuffix(name, ".ledger") }) // of the level, which is open
		if err != nil || len(left) > 0 {
			t.Errorf("cancelled at report %d: %q %v", n, left, err)
		}
	}
}

func (s *suite) sweeps(t *testing.T) {
	dir := shortDir(t)
	owner := s.startOwner(t, dir, executor.Lease{})
	if left, err := s.level.Left(dir); err != nil || len(left) == 0 {
		t.Errorf("before its owner is killed, this is there: %q %v", left, err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	e, err := s.level.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := s.level.Left(dir); err != nil || len(left) > 0 {
		t.Errorf("after the sweep this is left: %q %v", left, err)
	}
}

func (s *suite) sweepSparesTheLiving(t *testing.T) {
	dir := shortDir(t)
	owner := s.startOwner(t, dir, executor.Lease{})
	e, err := s.level.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	before, _ := s.level.Left(dir)
	if err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	after, _ := s.level.Left(dir)
	if strings.Join(before, "\n") != strings.Join(after, "\n") {
		t.Errorf("of a living process %q became %q", before, after)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait()
	if err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// startOwner starts a process that has an environment in which a step runs. env is added to its variables.
func (s *suite) startOwner(t *testing.T, dir string, lease executor.Lease, env ...string) *exec.Cmd {
	t.Helper()
	owner := exec.Command(os.Args[0], Again...)
	terms, err := json.Marshal(lease)
	if err != nil {
		t.Fatal(err)
	}
	program, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	owner.Env = append(slices.Concat(os.Environ(), s.level.Env, env), ownerDir+"="+dir, ownerLease+"="+string(terms), ProgramVariable+"="+program)
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != ownerReady {
		t.Fatalf("the owner says %q (%v)", line, err)
	}
	return owner
}

func (s *suite) refuses(t *testing.T) {
	p := s.open(t)
	can := p.Capabilities()
	if can.Image && can.Services {
		if err := executor.Check(p, s.level.Job("can")); err != nil {
			t.Error(err)
		}
		return
	}
	j := s.level.Job("cannot")
	j.Image = &containers.Image{Name: "alpine"}
	j.Services = []containers.Service{{Image: containers.Image{Name: "postgres"}}}
	env, err := p.Prepare(t.Context(), j, nil)
	var refusal *executor.Refusal
	if !errors.As(err, &refusal) || refusal.Level != p.Level() || refusal.Could == "" && p.Level().Rank() < executor.Container.Rank() {
		t.Errorf("it gives %v, %v", env, err)
	}
}

func (s *suite) missingImage(t *testing.T) {
	p := s.open(t)
	if !p.Capabilities().Image || s.level.MissingImage == "" {
		return // such jobs are refused
	}
	j := s.level.Job("missing")
	j.Image = &containers.Image{Name: s.level.MissingImage}
	env, err := p.Prepare(t.Context(), j, nil)
	var user *executor.UserError
	if !errors.As(err, &user) || user.Hint == "" || !strings.Contains(user.Message, s.level.MissingImage) {
		t.Errorf("it gives %v, %v", env, err)
	}
}

func (s *suite) badNames(t *testing.T) {
	p := s.open(t)
	for _, bad := range []func(*executor.Job){
		func(j *executor.Job) { j.ID = "" },
		func(j *executor.Job) { j.ID = "../up" },
		func(j *executor.Job) { j.ID = strings.Repeat("x", 1000) },
		func(j *executor.Job) { j.ProjectName = "" },
		func(j *executor.Job) { j.ProjectName = ".." },
		func(j *executor.Job) { j.ProjectName = "a/../../b" },
		func(j *executor.Job) { j.ProjectName = filepath.Join(string(filepath.Separator), "etc") },
	} {
		j := s.level.Job("bad")
		bad(j)
		if env, err := p.Prepare(t.Context(), j, nil); err == nil {
			t.Errorf("id %q and project %q are accepted: %v", j.ID, j.ProjectName, env.Close(t.Context()))
		}
	}
}

func (s *suite) fetchMissing(t *testing.T) {
	j := s.open(t).prepare(t, "missing")
	for _, path := range []string{"/nothing", "/nothing/here"} {
		if err := j.Fetch(t.Context(), j.Layout().Project+path, &bytes.Buffer{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
