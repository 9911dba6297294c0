package trace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
)

// longLog is the length from which these tests leave a log out of the document.
const longLog = 1 << 20

// long is a run whose log is too long to be part of the document: two steps write at the same time, one of them to both streams.
func long(s *script) {
	s.at(0, "", started())
	for _, step := range []string{"3", "3.1", "3.2"} {
		s.at(0, step, event.StepStarted{Name: "step " + step, Kind: event.KindExec})
	}
	for i := 0; i <= longLog; i += 20_000 {
		s.print("3.1", event.Stdout, strings.Repeat(fmt.Sprintf("größe %d\n", i), 2000))
		s.print("3.2", event.Stderr, strings.Repeat("\xff", i%9000))
		s.print("3.1", event.Stderr, "half a line")
	}
	for _, step := range []string{"3.1", "3.2", "3"} {
		s.at(0, step, event.StepFinished{Status: event.Success})
	}
	s.at(0, "", event.RunFinished{Status: event.Success})
}

func asJSON(t *testing.T, tr *Trace) string {
	t.Helper()
	var out bytes.Buffer
	if err := Export(&out, "json", tr); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// collected keeps events as a service does.
type collected []event.Event

func (c *collected) Event(e event.Event) {
	if log, ok := e.Body.(event.Log); ok {
		log.Data = bytes.Clone(log.Data)
		e.Body = log
	}
	*c = append(*c, e)
}

func (c collected) each(visit func(event.Event) error) error {
	for _, e := range c {
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

func TestALongLogStaysInTheFileThatItWasWrittenTo(t *testing.T) {
	var events collected
	long(newScript(&events))
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.embed = longLog
	_ = events.each(func(e event.Event) error { r.Event(e); return nil })
	before, err := os.Stat(path + EventsSuffix + LogSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path + LogSuffix); err != nil || !os.SameFile(before, after) {
		t.Errorf("the log was copied: %v", err)
	}
	if files, _ := filepath.Glob(path + "*"); len(files) != 2 {
		t.Errorf("the folder holds %v", files)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > longLog/10 {
		t.Errorf("the document has %d bytes", info.Size())
	}
	direct, err := Of(events.each, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := asJSON(t, read(t, path)), asJSON(t, direct); got != want {
		t.Error("the trace with a log file is not exported as the trace of the same events that has none")
	}

	t.Run("and moves with the document", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "there.json")
		os.WriteFile(to+LogSuffix, []byte("of an earlier trace"), 0o600)
		if err := HandOver(path, to); err != nil {
			t.Fatal(err)
		}
		if got := asJSON(t, read(t, to)); got != asJSON(t, read(t, path)) {
			t.Error("the trace that was handed over is another one")
		}
	})
	t.Run("which says so where it is missing", func(t *testing.T) {
		alone := filepath.Join(t.TempDir(), "alone.json")
		os.WriteFile(alone, []byte(contents(t, path)), 0o600)
		tr := read(t, alone)
		if err := tr.Log("3.1", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "alone.json.log, which does not exist") {
			t.Errorf("the error is %v", err)
		}
		os.WriteFile(alone+LogSuffix, []byte("short"), 0o600)
		if err := tr.Log("3.1", &bytes.Buffer{}); !errors.Is(err, errShortLog) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("which tells whether it is the one that was recorded", func(t *testing.T) {
		if err := read(t, path).CheckLogs(); err != nil {
			t.Error(err)
		}
		file, err := os.OpenFile(path+LogSuffix, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteAt([]byte("X"), 500_000); err != nil {
			t.Fatal(err)
		}
		if err := read(t, path).CheckLogs(); !errors.Is(err, ErrLogChanged) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("and goes when a shorter trace takes the place", func(t *testing.T) {
		r, err := NewRecorder(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		example(newScript(r))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + LogSuffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the old log is still there: %v", err)
		}
	})
}

func TestAChunkNamesNothingOutsideTheLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	for _, at := range []string{"[[-1, 5]]", "[[0, -1]]", "[[0, 11]]", "[[6, 5]]", "[[9223372036854775807, 5]]", "[[0, 9223372036854775807]]", "[[0, 70000]]"} {
		os.WriteFile(path, []byte(`{"format": "rung.trace/v1", "run": {}, "steps": [], "log_file": {"bytes": 10}, "logs": [
			{"step": "1", "stream": "stdout", "offset": 0, "time": "2026-03-01T12:00:00Z", "at": `+at+`}]}`), 0o600)
		os.WriteFile(path+LogSuffix, make([]byte, 100_000), 0o600)
		if err := read(t, path).Log("1", &bytes.Buffer{}); !errors.Is(err, errChunkPlace) {
			t.Errorf("%s: the error is %v", at, err)
		}
	}
}

func TestASharedLogIsNotWrittenAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*script)
	}{{"short", example}, {"long", long}} {
		t.Run(c.name, func(t *testing.T) {
			var events collected
			c.run(newScript(&events))
			path := filepath.Join(t.TempDir(), "trace.json")
			r, err := NewRecorder(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r.embed = longLog
			shared, err := r.SharedLog()
			if err != nil {
				t.Fatal(err)
			}
			file, err := os.OpenFile(shared, os.O_WRONLY|os.O_APPEND, 0) // the step-runner's
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			_ = events.each(func(e event.Event) error {
				if log, ok := e.Body.(event.Log); ok {
					if _, err := file.Write(log.Data); err != nil {
						t.Fatal(err)
					}
				}
				r.Event(e)
				return nil
			})
			if _, err := file.WriteString("what no event tells of"); err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			direct, err := Of(events.each, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := asJSON(t, read(t, path)), asJSON(t, direct); got != want {
				t.Error("the trace is another one")
			}
		})
	}
	t.Run("and a step-runner that did not write it is found out", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "trace.json")
		r, err := NewRecorder(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.SharedLog(); err != nil {
			t.Fatal(err)
		}
		example(newScript(r))
		if err := r.Close(); err == nil || !strings.Contains(err.Error(), "did not keep the rest") {
			t.Errorf("the error is %v", err)
		}
	})
}
