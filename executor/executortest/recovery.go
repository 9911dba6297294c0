package executortest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
)

// heirs are the cases of environments that outlive a process.
type heirs struct{ *suite }

// heritage is a lease that outlives its process.
var heritage = executor.Lease{Owner: "suite", Keep: time.Hour}

// absence is how long environments of endsAlone do without an owner: long enough for one that is slow.
const absence = 10 * time.Second

const (
	// linesBefore and linesAfter are how many lines the bequeathed job writes before and after its file "go" is there.
	linesBefore, linesAfter = 200, 200
	// recordName is the file in which an owner keeps what a manager would: the handle, and then each event.
	recordName = "record"
	// bequest is the run of the owner.
	bequest = "bequest"
)

func bequestScript() string {
	return fmt.Sprintf(`i=0
while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done
while ! [ -e go ]; do sleep 0.05; done
while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done`, linesBefore, linesBefore+linesAfter)
}

func bequestLog() string {
	var text strings.Builder
	for i := range linesBefore + linesAfter {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	return text.String()
}

// kept is a line of the record: the handle, or an event with its piece of the log.
type kept struct {
	Handle *executor.Handle `json:"handle,omitempty"`
	Seq    int64            `json:"seq,omitempty"`
	Log    []byte           `json:"log,omitempty"`
}

// recordSink keeps events as a manager does.
type recordSink struct{ file *os.File }

func (s *recordSink) write(k kept) {
	line, err := json.Marshal(k)
	if err == nil {
		_, err = s.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Event implements event.Sink.
func (s *recordSink) Event(e event.Event) {
	k := kept{Seq: e.Seq}
	if l, ok := e.Body.(event.Log); ok {
		k.Log = l.Data
	}
	s.write(k)
}

// bequeath is what the owner with a lease does: it starts a job, keeps its handle and what it says, and waits to be killed.
func bequeath(l *Level, dir string, lease executor.Lease) error {
	file, err := os.Create(filepath.Join(dir, recordName))
	if err != nil {
		return err
	}
	e, err := l.New(dir, lease)
	if err != nil {
		return err
	}
	env, err := e.Prepare(context.Background(), l.Job(bequest), nil)
	if err != nil {
		return err
	}
	record := &recordSink{file}
	handle := env.Handle()
	record.write(kept{Handle: &handle})
	j := &job{Environment: env}
	go func() { _ = session.Run(context.Background(), nil, env, j.request(bequest, bequestScript()), record) }()
	_, err = os.Stdout.WriteString(ownerReady)
	return err
}

// readRecord returns what a killed owner has kept. A line that is cut short was not kept.
func readRecord(t *testing.T, dir string) (handle executor.Handle, last int64, log string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var k kept
		if err := json.Unmarshal(lines.Bytes(), &k); err != nil {
			t.Fatal(err)
		}
		if k.Handle != nil {
			handle = *k.Handle
		}
		last = max(last, k.Seq)
		log += string(k.Log)
	}
	return handle, last, log
}

// startBequest starts an owner with a lease, and waits until it has kept part of the log.
func (s *heirs) startBequest(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	owner := s.startOwner(t, dir, heritage)
	for until := time.Now().Add(patience); ; {
		if _, _, log := readRecord(t, dir); strings.Contains(log, fmt.Sprintf("line %d\n", linesBefore/2)) {
			return owner
		}
		if time.Now().After(until) {
			t.Fatal("the owner's job does not begin")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *heirs) heir(t *testing.T, dir string) executor.Executor {
	t.Helper()
	e, err := s.level.New(dir, heritage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (s *heirs) adopts(t *testing.T) {
	if !s.can(t).Reattach {
		return
	}
	dir := s.heritageDir(t)
	owner := s.startBequest(t, dir)
	_ = owner.Process.Kill()
	_ = owner.Wait()
	handle, last, log := readRecord(t, dir)

	e := s.heir(t, dir)
	if err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	env, err := e.Recover(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	defer s.end(t, env)
	opensTerminal(t, env)
	if err := session.SendText(t.Context(), env, env.Layout().Project+"/go", ""); err != nil {
		t.Fatal(err)
	}
	rest := &collected{}
	if err := session.Resume(t.Context(), nil, env, session.Position{ID: bequest, After: last}, rest); err != nil || rest.status() != event.Success {
		t.Errorf("it ends with %q, %v", rest.status(), err)
	}
	if got := log + rest.log.String(); got != bequestLog() {
		t.Errorf("the log of both processes has %d bytes, not %d: %.300q…", len(got), len(bequestLog()), got)
	}
	if left := env.Handle(); left.ID != handle.ID {
		t.Errorf("it is now %q, not %q", left.ID, handle.ID)
	}
}

func (s *heirs) end(t *testing.T, env executor.Environment) {
	t.Helper()
	if err := session.End(context.WithoutCancel(t.Context()), env.Close); err != nil {
		t.Error(err)
	}
}

// heritageDir is a folder for levels with heritage, which must leave nothing when all of them are closed.
func (s *heirs) heritageDir(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	t.Cleanup(func() {
		if left, err := s.level.Left(dir); err != nil || len(left) > 0 {
			t.Errorf("in the end this is left: %q %v", left, err)
		}
	})
	return dir
}

// can are the capabilities of the level.
func (s *heirs) can(t *testing.T) executor.Capabilities {
	t.Helper()
	return s.open(t).Capabilities()
}

func (s *heirs) detaches(t *testing.T) {
	if !s.can(t).Reattach {
		return
	}
	dir := s.heritageDir(t)
	e := s.heir(t, dir)
	env, err := e.Prepare(t.Context(), s.level.Job("detached"), nil)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{Environment: env}
	if !e.Capabilities().Reattach {
		if env.Detach() == nil {
			t.Error("it is detached, and nobody can find it again")
		}
		s.end(t, env)
		return
	}
	text, err := json.Marshal(env.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := session.SendText(t.Context(), env, env.Layout().Project+"/file", "mine"); err != nil {
		t.Fatal(err)
	}
	if err := env.Detach(); err != nil {
		t.Fatal(err)
	}
	if err := session.End(t.Context(), env.Close); err != nil || env.Err() == nil {
		t.Errorf("closing what was detached: %v, %v", err, env.Err())
	}
	var handle executor.Handle
	if err := json.Unmarshal(text, &handle); err != nil {
		t.Fatal(err)
	}
	next := s.heir(t, dir)
	if j.Environment, err = next.Recover(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	defer s.end(t, j.Environment)
	events := &collected{}
	if err := session.Run(t.Context(), nil, j.Environment, j.request("run", "cat file"), events); err != nil || events.log.String() != "mine" {
		t.Errorf("it says %q, %v", events.log.String(), err)
	}
}

// endsAlone has owners killed that nobody takes over from, and waits until their environments have ended by themselves.
func (s *heirs) endsAlone(t *testing.T) {
	if s.level.Running == nil {
		return
	}
	for name, lease := range map[string]executor.Lease{
		"that should end with it":  {Away: absence},
		"that may outlive its own": {Owner: "suite", Keep: absence},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := s.heritageDir(t)
			owner := s.startOwner(t, dir, lease)
			if running, err := s.level.Running(dir); err != nil || len(running) == 0 {
				t.Errorf("before its owner is killed, this runs: %q, %v", running, err)
			}
			_ = owner.Process.Kill()
			_ = owner.Wait()
			awaitNone(t, "still running", func() ([]string, error) { return s.level.Running(dir) })
			e, err := s.level.New(dir, lease)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			awaitNone(t, "left after a sweep", func() ([]string, error) { // which leaves what may still be taken over
				return s.level.Left(dir)
			}, func() error { return e.Sweep(t.Context()) })
		})
	}
}

// awaitNone does things again and again until names is empty.
func awaitNone(t *testing.T, what string, names func() ([]string, error), do ...func() error) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		for _, do := range do {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		left, err := names()
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: %q", what, left)
		}
	}
}

func (s *heirs) detachRefused(t *testing.T) {
	j := s.open(t).prepare(t, "stays")
	if err := j.Detach(); err == nil {
		t.Error("it is detached, and nobody could take it over")
	}
	if log, err := j.script(t, "echo alive"); err != nil || !strings.Contains(log, "alive") {
		t.Errorf("afterwards: %v %s", err, log)
	}
}

func (s *heirs) ownedByTheLiving(t *testing.T) {
	if !s.can(t).Reattach {
		return
	}
	dir := s.heritageDir(t)
	owner := s.startBequest(t, dir)
	handle, _, _ := readRecord(t, dir)
	e := s.heir(t, dir)
	if _, err := e.Recover(t.Context(), handle); !errors.Is(err, executor.ErrOwned) {
		t.Errorf("the error is %v", err)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait()
	env, err := e.Recover(t.Context(), handle)
	if !e.Capabilities().Reattach {
		if !errors.Is(err, executor.ErrGone) {
			t.Errorf("it is found again: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s.end(t, env)
}

func (s *heirs) recoversNothing(t *testing.T) {
	if !s.can(t).Reattach {
		return
	}
	dir := s.heritageDir(t)
	e := s.heir(t, dir)
	env, err := e.Prepare(t.Context(), s.level.Job("closed"), nil)
	if err != nil {
		t.Fatal(err)
	}
	handle := env.Handle()
	s.end(t, env)
	if _, err := e.Recover(t.Context(), handle); !errors.Is(err, executor.ErrGone) {
		t.Errorf("the error is %v", err)
	}
	for _, damaged := range []executor.Handle{{}, {Level: handle.Level, Host: handle.Host, ID: handle.ID, State: json.RawMessage(`{"a":1}`)}, {Level: "other", Host: handle.Host}} {
		if env, err := e.Recover(t.Context(), damaged); err == nil {
			t.Errorf("%+v is recovered: %v", damaged, env.Close(t.Context()))
		}
	}
}
