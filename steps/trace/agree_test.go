package trace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
)

// recorded is a finished trace of the example with its event log, as a kill between the last two things that a recorder does leaves it.
func recorded(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{RuntimeDigest: func() string { return "sha256:0" }})
	if err != nil {
		t.Fatal(err)
	}
	example(newScript(r))
	r.mu.Lock()
	r.flush()
	r.mu.Unlock()
	kept := map[string]string{}
	for _, name := range []string{path + EventsSuffix, path + EventsSuffix + LogSuffix} {
		kept[name] = contents(t, name)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range kept {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestADocumentAndAnEventLogHaveToAgree(t *testing.T) {
	t.Parallel()
	t.Run("those of one run that say the same are one trace", func(t *testing.T) {
		if got, err := Read(recorded(t)); err != nil || got.Runtime.Digest == "" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	for name, change := range map[string][2]string{
		"another command": {`"all files"`, `"no files"`},
		"another status":  {`"status":"success"`, `"status":"failure"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := recorded(t)
			events := contents(t, path+EventsSuffix)
			changed := strings.Replace(events, change[0], change[1], 1)
			if changed == events {
				t.Fatalf("%s is not in the example", change[0])
			}
			if err := os.WriteFile(path+EventsSuffix, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "do not say the same") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("something that is not a file beside it", func(t *testing.T) {
		path := record(t, example)
		if err := os.Mkdir(path+EventsSuffix, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestALogThatWasChangedIsNotRead(t *testing.T) {
	t.Parallel()
	path := record(t, example)
	text := contents(t, path)
	head, logs, _ := strings.Cut(text, `"logs": [`)
	changed := head + `"logs": [` + strings.Replace(logs, "hello", "hallo", 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func() error{
		"reading":   func() error { return got.Chunks(func(Chunk) error { return nil }) },
		"showing":   func() error { return WriteText(&strings.Builder{}, got, TextOptions{Logs: true}) },
		"exporting": func() error { return Export(&strings.Builder{}, "json", got) },
	} {
		if err := look(); !errors.Is(err, ErrLogChanged) {
			t.Errorf("%s it: the error is %v", name, err)
		}
	}
}

func TestAStepCannotRewriteTheLogOfAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(r)
	s.at(0, "", started())
	s.run("1", "first", "denied\n", 0, 50)
	r.mu.Lock()
	r.flush()
	r.mu.Unlock()
	log := path + EventsSuffix + LogSuffix
	if err := os.WriteFile(log, []byte(strings.Replace(contents(t, log), "denied", "passed", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.at(200, "", event.RunFinished{Status: event.Success})
	if err := r.Close(); !errors.Is(err, ErrLogChanged) {
		t.Errorf("the error is %v", err)
	}
}

func TestTheSumIsOfWhatWasRead(t *testing.T) {
	t.Parallel()
	path := record(t, example)
	_, sum, err := ReadSummed(path)
	if err != nil || len(sum) != 64 {
		t.Fatal(sum, err)
	}
	if err := os.WriteFile(path, []byte(contents(t, path)+" "), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, again, err := ReadSummed(path); err != nil || again == sum {
		t.Error("a byte more is the same sum", err)
	}
}
