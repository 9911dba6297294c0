//go:build linux || darwin

package trace

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/steps/event"
)

// limitEnv makes the test's own program the one whose files may not grow.
const limitEnv = "RUNG_TRACE_TEST_LIMITED"

func TestFullDisk(t *testing.T) {
	const most = 100_000
	if path := os.Getenv(limitEnv); path != "" {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			t.Fatal(err)
		}
		r, err := NewRecorder(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := newScript(r)
		s.at(0, "", started())
		s.at(0, "1", event.StepStarted{Name: "hello", Kind: event.KindExec})
		for i := range 5000 {
			s.print("1", event.Stdout, fmt.Sprintf("line %d of the log\n", i))
			if i%100 == 0 {
				s.at(0, "", event.Warning{Message: "still here"})
			}
		}
		s.at(0, "", event.RunFinished{Status: event.Success})
		fmt.Printf("err: %v\nclose: %v\n", r.Err(), r.Close())
		return
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
	cmd.Env = append(os.Environ(), limitEnv+"="+path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the run did not go on: %v\n%s", err, out.String())
	}
	for _, want := range []string{"err: the trace ends early", "close: the trace ends early", "file too large", EventsSuffix} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q: %s", want, out.String())
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a trace was written all the same")
	}
	events := contents(t, path+EventsSuffix)
	if len(events) < most*9/10 || !strings.HasSuffix(events, "}\n") {
		t.Errorf("%d bytes are kept, the last of them %q", len(events), events[max(0, len(events)-20):])
	}
	tr := read(t, path)
	if got := logOf(t, tr, "1"); !tr.Incomplete || !strings.HasPrefix(got, "line 0 of the log\nline 1 ") || !strings.HasSuffix(got, "of the log\n") {
		t.Errorf("the log is %d bytes", len(got))
	}
}

func TestKilledProgram(t *testing.T) {
	if path := os.Getenv(limitEnv + "_KILL"); path != "" {
		r, err := NewRecorder(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := newScript(r)
		s.at(0, "", started())
		s.at(0, "1", event.StepStarted{Name: "hello", Kind: event.KindExec})
		s.print("1", event.Stdout, "before the kill\n")
		for until := time.Now().Add(time.Minute); soFar(path) != "before the kill\n" && time.Now().Before(until); {
			time.Sleep(flushDelay / 10)
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProgram$")
	cmd.Env = append(os.Environ(), limitEnv+"_KILL="+path)
	if err := cmd.Run(); err == nil {
		t.Fatal("the program was not killed")
	}
	tr := read(t, path)
	if got := logOf(t, tr, "1"); got != "before the kill\n" || !tr.Incomplete {
		t.Errorf("the log is %q", got)
	}
}
