package service_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/trace"
)

// logging is a run that writes to both streams, in two steps at the same time, more than one read of a pipe.
const logging = `
- name: both
  parallel:
    - {name: a, script: 'seq 20000; echo oops >&2'}
    - {name: b, script: 'seq 20000 >&2'}
- {name: c, script: printf end}
`

func withLogFile(path string) func(*client.Request) {
	return func(r *client.Request) { r.LogFile = path }
}

// followed are the events of a run as JSON.
func (w *world) followed(id string, o client.StepOptions) []string {
	w.t.Helper()
	o.Logs = true
	var all []string
	if _, err := w.client.FollowSteps(soon(w.t), id, o, func(e event.Event) error {
		text, err := e.MarshalJSON()
		all = append(all, string(text))
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func TestALogInAFileOfTheClients(t *testing.T) {
	t.Parallel()
	w := serve(t)
	file := w.write("the.log", "")
	w.run("1", logging, withLogFile(file))
	byData := w.followed("1", client.StepOptions{})
	if diff := cmp.Diff(byData, w.followed("1", client.StepOptions{LogFile: file})); diff != "" {
		t.Errorf("events whose data is read from the file are other ones: %s", diff)
	}
	middle := int64(len(byData) / 2)
	if diff := cmp.Diff(byData[middle:], w.followed("1", client.StepOptions{LogFile: file, After: middle})); diff != "" {
		t.Errorf("after event %d they are other ones: %s", middle, diff)
	}
	log := w.log("1")
	if text, err := os.ReadFile(file); err != nil || string(text) != log || len(log) < 200_000 {
		t.Errorf("the file has %d bytes, the log %d, %v", len(text), len(log), err)
	}
	if err := w.client.Close(soon(t), "1"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != log {
		t.Errorf("the file did not stay: %d bytes, %v", len(text), err)
	}
}

func TestATraceSharesTheLogOfTheService(t *testing.T) {
	t.Parallel()
	w := serve(t)
	path := filepath.Join(w.dir, "trace.json")
	record, err := trace.NewRecorder(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := record.SharedLog()
	if err != nil {
		t.Fatal(err)
	}
	w.run("1", logging, withLogFile(shared))
	if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{Logs: true, LogFile: shared}, func(e event.Event) error {
		record.Event(e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := w.client.GetTrace(soon(t), "1", &sent, false); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, sent.Bytes()) {
		t.Errorf("the recorded trace (%d bytes) is not the one that the service sends (%d): %v", len(got), sent.Len(), err)
	}
}

func TestALogGoesOnWhereTheFileTakesNoMore(t *testing.T) {
	t.Parallel()
	w := serve(t)
	path, goOn := filepath.Join(w.dir, "trace.json"), filepath.Join(w.dir, "go-on")
	record, err := trace.NewRecorder(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := record.SharedLog()
	if err != nil {
		t.Fatal(err)
	}
	w.run("1", script("seq 20000; "+waitFor(goOn)+"; seq 20000; echo the end"), withLogFile(shared))
	full := false
	if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{Logs: true, LogFile: shared}, func(e event.Event) error {
		record.Event(e)
		if log, is := e.Body.(event.Log); is && bytes.HasSuffix(log.Data, []byte("\n20000\n")) && !full {
			full = true
			defer touch(t, goOn)
			return w.service.FillLogFile("1")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	log, last := w.log("1"), "\n20000\n"
	if text, err := os.ReadFile(shared); err != nil || !strings.HasPrefix(log, string(text)) || strings.Count(string(text), last) != 1 || strings.Count(log, last) != 2 {
		t.Errorf("the file has %d bytes, the log %d: %v", len(text), len(log), err)
	}
	if diff := cmp.Diff(w.followed("1", client.StepOptions{}), w.followed("1", client.StepOptions{LogFile: shared})); diff != "" {
		t.Errorf("events whose data is read from the file are other ones: %s", diff)
	}
	if err := record.Close(); err == nil || !strings.Contains(err.Error(), "is the disk full?") {
		t.Errorf("the trace is whole: %v", err)
	}
	left, err := trace.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.CheckLogs(); err != nil || !left.Incomplete {
		t.Errorf("what was recorded until then: %v", err)
	}
	if err := w.client.Close(soon(t), "1"); err != nil {
		t.Fatal(err)
	}
	if logs, _ := filepath.Glob(filepath.Join(w.service.Folder(), "*.log")); len(logs) > 0 {
		t.Error("left:", logs)
	}
}

func TestAnotherProcessTakesOverTheTraceOfARunThatGoesOn(t *testing.T) {
	t.Parallel()
	w := serve(t)
	path, goOn := filepath.Join(w.dir, "trace.json"), filepath.Join(w.dir, "go-on")
	first, err := trace.NewRecorder(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := first.SharedLog()
	if err != nil {
		t.Fatal(err)
	}
	w.run("1", script("seq 20000; "+waitFor(goOn)+"; seq 20000"), withLogFile(shared))
	gone := errors.New("the process is gone")
	if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{Logs: true, LogFile: shared}, func(e event.Event) error {
		if first.Event(e); e.Body.Type() == "log" {
			return gone // in the middle of the log; it closes nothing
		}
		return nil
	}); !errors.Is(err, gone) {
		t.Fatal(err)
	}
	second, err := trace.NewRecorder(path, trace.Options{Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := second.SharedLog(); err != nil || again != shared {
		t.Fatalf("the log is %s, and was %s: %v", again, shared, err)
	}
	touch(t, goOn)
	if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{Logs: true, LogFile: shared}, func(e event.Event) error {
		second.Event(e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := w.client.GetTrace(soon(t), "1", &sent, false); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, sent.Bytes()) {
		t.Errorf("the trace (%d bytes) is not the one that the service sends (%d): %v", len(got), sent.Len(), err)
	}
}

func TestAFileThatCannotTakeTheLogIsRefused(t *testing.T) {
	t.Parallel()
	w := serve(t)
	full, empty := w.write("full.log", "x"), w.write("empty.log", "")
	link := filepath.Join(w.dir, "link.log")
	if err := os.Symlink(empty, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"relative.log":                   "not an absolute path",
		filepath.Join(w.dir, "none.log"): "cannot be used",
		w.dir:                            "not an empty regular file",
		full:                             "not an empty regular file",
		link:                             "not an empty regular file",
	} {
		err := w.client.Run(soon(t), w.request("1", script("true"), withLogFile(path)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
	w.run("own", script("echo hello"))
	_, err := w.client.FollowSteps(soon(t), "own", client.StepOptions{Logs: true, LogFile: empty}, func(event.Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "not in a file of the client's") {
		t.Errorf("following places of a log that has none: %v", err)
	}
	// One that was cut, or taken away and replaced, is not taken for the log.
	w.run("cut", script("echo hello; sleep 0"), withLogFile(empty))
	w.end("cut")
	if err := os.Truncate(empty, 2); err != nil {
		t.Fatal(err)
	}
	_, err = w.client.FollowSteps(soon(t), "cut", client.StepOptions{Logs: true, LogFile: empty}, func(event.Event) error { return nil })
	if err == nil || errors.Is(err, client.ErrLogLost) || !strings.Contains(err.Error(), "reading the log") {
		t.Errorf("following a log that was cut: %v", err)
	}
}
