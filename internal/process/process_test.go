//go:build unix

package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if err := EnableSubreaper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// testGrace is longer than any test takes, so that a test which needs it to be over fails by its timeout.
const testGrace = 10 * time.Minute

func testEnv(more ...string) []string { return append([]string{"PATH=" + os.Getenv("PATH")}, more...) }

// sh runs a script to its end and returns its result and output.
func sh(t *testing.T, script string, args ...string) (Result, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	result, err := Run(t.Context(), nil, Spec{
		Args: append([]string{"sh", "-c", script, "sh"}, args...), Dir: t.TempDir(), Env: testEnv(), Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return result, stdout.String(), stderr.String()
}

// pidFrom reads a process id that a script has written.
func pidFrom(t *testing.T, text string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatalf("no pid: %v", err)
	}
	return pid
}

func gone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// isEnded reports whether a process is gone or a zombie.
func isEnded(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return gone(pid) || err == nil && bytes.Contains(data, []byte(") Z "))
}

// watched is a writer that says when a text has come.
type watched struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want string
	seen chan struct{}
}

func watch(want string) *watched { return &watched{want: want, seen: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.buf.String(), w.want)
	w.buf.Write(p)
	if !before && strings.Contains(w.buf.String(), w.want) {
		close(w.seen)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func TestRunReportsHowTheProcessEnded(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		want         Result
	}{
		{"success", "exit 0", Result{}},
		{"failure", "exit 3", Result{ExitCode: 3}},
		{"the largest exit code", "exit 255", Result{ExitCode: 255}},
		{"SIGKILL", "kill -KILL $$", Result{ExitCode: -1, Signal: "SIGKILL"}},
		{"SIGSEGV", "kill -SEGV $$", Result{ExitCode: -1, Signal: "SIGSEGV"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, _, _ := sh(t, tc.script); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestRunGivesTheProcessItsWorld(t *testing.T) {
	dir := t.TempDir()
	var stdout bytes.Buffer
	script := `pwd; printf '%s|' "$@"; env | grep -c .; cat; test -t 0 || echo no terminal`
	_, err := Run(t.Context(), nil, Spec{Args: []string{"/bin/sh", "-c", script, "sh", "a b", ""}, Dir: dir, Env: testEnv("A=1"), Stdout: &stdout})
	if err != nil {
		t.Fatal(err)
	}
	if got := stdout.String(); !strings.HasPrefix(got, dir+"\na b||") || !strings.HasSuffix(got, "no terminal\n") {
		t.Errorf("got %q", got)
	}
}

func TestProgramIsFoundInThePathOfTheStep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		writeProgram(t, filepath.Join(dir, name, "tool"), "#!/bin/sh\necho "+name+"\n", 0o755)
	}
	for _, tc := range []struct {
		name, path, program, want string
	}{
		{"the first folder of PATH wins", filepath.Join(dir, "two") + ":" + filepath.Join(dir, "one"), "tool", "two\n"},
		{"folders that do not exist are passed over", "/does/not/exist:" + filepath.Join(dir, "one"), "tool", "one\n"},
		{"a relative folder is relative to the work directory", "one", "tool", "one\n"},
		{"a path with a separator is relative to the work directory", "", "./two/tool", "two\n"},
		{"a path with a separator needs no dot", "", "one/tool", "one\n"},
		{"an absolute path needs no PATH", "", filepath.Join(dir, "one", "tool"), "one\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout bytes.Buffer
			_, err := Run(t.Context(), nil, Spec{Args: []string{tc.program}, Dir: dir, Env: []string{"PATH=" + tc.path}, Stdout: &stdout})
			if err != nil || stdout.String() != tc.want {
				t.Errorf("got %q, %v", stdout.String(), err)
			}
		})
	}
}

func writeProgram(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestStartErrorsSayWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	writeProgram(t, filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644)
	writeProgram(t, filepath.Join(dir, "garbage"), "\x00\x01\x02", 0o755)
	writeProgram(t, filepath.Join(dir, "noshebang"), "echo hello\n", 0o755)
	writeProgram(t, filepath.Join(dir, "nointerpreter"), "#!/no/such/interpreter -x\n", 0o755)
	writeProgram(t, filepath.Join(dir, "windows"), "#!/bin/sh\r\necho\r\n", 0o755)
	writeProgram(t, filepath.Join(dir, "bin", "plain"), "", 0o644)
	huge := strings.Repeat("x", 4<<20)
	for _, tc := range []struct {
		name string
		spec Spec
		kind error
		says []string
	}{
		{"a missing program", Spec{Args: []string{"no-such-tool"}}, ErrNotFound, []string{`"no-such-tool"`, os.Getenv("PATH")}},
		{"no PATH", Spec{Args: []string{"sh"}, Env: []string{"A=1"}}, ErrNotFound, []string{"PATH is not set"}},
		{"an empty PATH", Spec{Args: []string{"sh"}, Env: []string{"PATH="}}, ErrNotFound, []string{"PATH is empty"}},
		{"a missing file", Spec{Args: []string{"./missing"}}, ErrNotFound, []string{"./missing does not exist", dir}},
		{"a file below a file", Spec{Args: []string{"plain/x"}}, ErrNotFound, []string{"not a directory"}},
		{"no execute permission", Spec{Args: []string{"./plain"}}, ErrNotExecutable, []string{"chmod +x"}},
		{"no execute permission in PATH", Spec{Args: []string{"plain"}, Env: []string{"PATH=" + dir + "/bin"}}, ErrNotExecutable, []string{"chmod +x", dir + "/bin/plain"}},
		{"no #! line", Spec{Args: []string{"./noshebang"}}, ErrNotExecutable, []string{"no #! line", "architecture"}},
		{"not a program", Spec{Args: []string{"./garbage"}}, ErrNotExecutable, []string{"no #! line", "architecture"}},
		{"an interpreter that is missing", Spec{Args: []string{"./nointerpreter"}}, ErrNotExecutable, []string{"/no/such/interpreter"}},
		{"Windows line ends", Spec{Args: []string{"./windows"}}, ErrNotExecutable, []string{"carriage return"}},
		{"a directory as the program", Spec{Args: []string{"./bin"}}, ErrNotExecutable, []string{"is a directory"}},
		{"a directory in PATH is passed over", Spec{Args: []string{"bin"}, Env: []string{"PATH=" + dir}}, ErrNotFound, nil},
		{"a missing work directory", Spec{Args: []string{"sh"}, Dir: dir + "/nowhere"}, ErrWorkDir, []string{dir + "/nowhere does not exist"}},
		{"a file as the work directory", Spec{Args: []string{"sh"}, Dir: dir + "/plain"}, ErrWorkDir, []string{"is not a directory"}},
		{"a missing work directory with a relative program", Spec{Args: []string{"./x"}, Dir: dir + "/nowhere"}, ErrWorkDir, nil},
		{"arguments that are too long", Spec{Args: []string{"sh", huge}}, ErrTooLong, []string{"4194", "argument 1", "file"}},
		{"an environment that is too long", Spec{Args: []string{"sh"}, Env: testEnv("A=" + huge)}, ErrTooLong, []string{"4194", "the variable A,"}},
		{"an empty command", Spec{}, ErrNotFound, []string{"command is empty"}},
		{"NUL in an argument", Spec{Args: []string{"sh", "a\x00b"}}, nil, []string{"argument 1", "NUL"}},
		{"NUL in the environment", Spec{Args: []string{"sh"}, Env: testEnv("A=\x00")}, nil, []string{`"A"`, "NUL"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.spec.Dir == "" {
				tc.spec.Dir = dir
			}
			if tc.spec.Env == nil {
				tc.spec.Env = testEnv()
			}
			result, err := Run(t.Context(), nil, tc.spec)
			if result.ExitCode != -1 {
				t.Errorf("exit code %d, want -1", result.ExitCode)
			}
			var start *StartError
			if !errors.As(err, &start) {
				t.Fatalf("got %v, want a StartError", err)
			}
			if start.Kind != tc.kind || tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("kind %v, want %v", start.Kind, tc.kind)
			}
			for _, text := range tc.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
}

// What another user may do cannot be asked as root, so that the error names all that it may be.
func TestAFolderThatItsUserCannotEnterIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has other users")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), nil, Spec{Args: []string{"/bin/true"}, Env: testEnv(), Dir: dir, User: &User{ID: 65534, Group: 65534}})
	if !errors.Is(err, ErrNotExecutable) || !strings.Contains(err.Error(), "no permission to enter the work directory "+dir+" or to execute /bin/true, as the user with the number 65534") {
		t.Errorf("got %v", err)
	}
}

func TestOutputIsByteExact(t *testing.T) {
	const size = 10 << 20
	outSum, errSum := sha256.New(), sha256.New()
	var outSize, errSize int
	counting := func(sum io.Writer, n *int) io.Writer {
		return writerFunc(func(p []byte) (int, error) { *n += len(p); return sum.Write(p) })
	}
	_, err := Run(t.Context(), nil, Spec{
		Args: []string{"sh", "-c", "yes out | head -c 10485760 & yes err | head -c 10485760 >&2; wait"}, Env: testEnv(),
		Stdout: counting(outSum, &outSize), Stderr: counting(errSum, &errSize),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := func(line string) [32]byte { return sha256.Sum256([]byte(strings.Repeat(line, size/4))) }
	if outSize != size || [32]byte(outSum.Sum(nil)) != want("out\n") {
		t.Errorf("stdout differs: %d bytes", outSize)
	}
	if errSize != size || [32]byte(errSum.Sum(nil)) != want("err\n") {
		t.Errorf("stderr differs: %d bytes", errSize)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestOneWriterForBothStreamsKeepsTheOrder(t *testing.T) {
	var both bytes.Buffer
	_, err := Run(t.Context(), nil, Spec{Args: []string{"sh", "-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2"}, Env: testEnv(), Stdout: &both, Stderr: &both})
	if err != nil || both.String() != "1\n2\n3\n4\n" {
		t.Errorf("got %q, %v", both.String(), err)
	}
}

func TestWriterThatFailsDoesNotStopTheProcess(t *testing.T) {
	full := errors.New("disk full")
	result, err := Run(t.Context(), nil, Spec{
		Args: []string{"sh", "-c", "yes | head -c 1000000; exit 4"}, Env: testEnv(),
		Stdout: writerFunc(func([]byte) (int, error) { return 0, full }),
	})
	var output *OutputError
	if result.ExitCode != 4 || !errors.Is(err, full) || !errors.As(err, &output) || output.Stream != "stdout" {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestBackgroundChildIsKilled(t *testing.T) {
	for _, tc := range []struct{ name, script string }{
		{"one that holds the output", "sleep 1000 & echo $!"},
		{"one that ignores signals", "(trap '' TERM HUP INT; exec sleep 1000) & echo $!"},
		{"one that is stopped", "sleep 1000 & echo $!; kill -STOP $!"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, stdout, _ := sh(t, tc.script)
			if pid := pidFrom(t, stdout); !gone(pid) {
				t.Errorf("process %d lives", pid)
			}
		})
	}
}

func TestStop(t *testing.T) {
	cause := errors.New("the timeout of the step is over")
	type stopped struct {
		result Result
		err    error
	}
	run := func(t *testing.T, grace time.Duration, script string, stop func(cancel context.CancelCauseFunc, kill chan struct{})) (stopped, string) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		kill := make(chan struct{})
		out := watch("ready\n")
		go func() {
			<-out.seen
			stop(cancel, kill)
		}()
		result, err := Run(ctx, kill, Spec{Args: []string{"sh", "-c", script}, Env: testEnv(), Stdout: out, Grace: grace})
		return stopped{result, err}, out.String()
	}
	cancelOnly := func(cancel context.CancelCauseFunc, _ chan struct{}) { cancel(cause) }

	t.Run("a process may clean up after SIGTERM", func(t *testing.T) {
		got, out := run(t, testGrace, `trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done`, cancelOnly)
		if got != (stopped{Result{ExitCode: 5}, cause}) || out != "ready\nbye\n" {
			t.Errorf("got %+v, %q", got, out)
		}
	})
	t.Run("the rest of the group may clean up after the main process has ended", func(t *testing.T) {
		got, out := run(t, testGrace, `sh -c 'trap "sleep 0.3; echo bye; exit" TERM; echo ready; while :; do sleep 0.01; done' & exec sleep 1000`, cancelOnly)
		if got != (stopped{Result{ExitCode: -1, Signal: "SIGTERM"}, cause}) || out != "ready\nbye\n" {
			t.Errorf("got %+v, %q", got, out)
		}
	})
	t.Run("a process that ignores SIGTERM is killed after the grace", func(t *testing.T) {
		got, _ := run(t, 50*time.Millisecond, `trap '' TERM; echo ready; while :; do sleep 1000; done`, cancelOnly)
		if got != (stopped{Result{ExitCode: -1, Signal: "SIGKILL"}, cause}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a child that ignores SIGTERM is killed after the grace", func(t *testing.T) {
		got, _ := run(t, 50*time.Millisecond, `(trap '' TERM; echo ready; sleep 1000) & exec sleep 1000`, cancelOnly)
		if got != (stopped{Result{ExitCode: -1, Signal: "SIGTERM"}, cause}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a stopped process is continued to be stopped politely", func(t *testing.T) {
		got, _ := run(t, testGrace, `echo ready; kill -STOP $$`, cancelOnly)
		if got != (stopped{Result{ExitCode: -1, Signal: "SIGTERM"}, cause}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the kill channel kills at once", func(t *testing.T) {
		got, _ := run(t, testGrace, `trap '' TERM; echo ready; sleep 1000; exit 0`, func(_ context.CancelCauseFunc, kill chan struct{}) { close(kill) })
		if got != (stopped{Result{ExitCode: -1, Signal: "SIGKILL"}, ErrKilled}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the kill channel ends the grace", func(t *testing.T) {
		got, _ := run(t, testGrace, `trap '' TERM; echo ready; sleep 1000; exit 0`, func(cancel context.CancelCauseFunc, kill chan struct{}) {
			cancel(cause)
			close(kill)
		})
		if got != (stopped{Result{ExitCode: -1, Signal: "SIGKILL"}, cause}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a process is killed though its output is not taken", func(t *testing.T) {
		if _, err := os.Stat("/proc/self/stat"); err != nil {
			t.Skip("this system has no /proc to see the death of an unreaped process in")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		blocked := writerFunc(func(p []byte) (int, error) {
			cancel(cause)
			pid := pidFrom(t, string(p))
			for !isEnded(pid) {
				time.Sleep(time.Millisecond)
			}
			return len(p), nil
		})
		result, err := Run(ctx, nil, Spec{Args: []string{"sh", "-c", "echo $$; exec sleep 1000"}, Env: testEnv(), Stdout: blocked, Grace: testGrace})
		if result != (Result{ExitCode: -1, Signal: "SIGTERM"}) || !errors.Is(err, cause) {
			t.Errorf("got %+v, %v", result, err)
		}
	})
	t.Run("nothing starts when the context has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if result, err := Run(ctx, nil, Spec{Args: []string{"sh"}}); result != notStarted || !errors.Is(err, cause) {
			t.Errorf("got %+v, %v", result, err)
		}
	})
	t.Run("nothing starts when the kill channel is closed", func(t *testing.T) {
		kill := make(chan struct{})
		close(kill)
		if result, err := Run(t.Context(), kill, Spec{Args: []string{"sh"}}); result != notStarted || !errors.Is(err, ErrKilled) {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}

func TestSlowWriterGetsEverything(t *testing.T) {
	// The process is long dead when the writer comes to take the rest.
	var stdout bytes.Buffer
	first := true
	_, err := Run(t.Context(), nil, Spec{
		Args: []string{"sh", "-c", "printf '%60000d' 7; printf '%4d' 8"}, Env: testEnv(),
		Stdout: writerFunc(func(p []byte) (int, error) {
			if first {
				first = false
				time.Sleep(WaitDelay + WaitDelay/4)
			}
			return stdout.Write(p)
		}),
	})
	if err != nil || stdout.Len() != 60004 {
		t.Errorf("got %d bytes, %v; want 60004", stdout.Len(), err)
	}
}

func TestNoDescriptorsLeak(t *testing.T) {
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip("this system has no /dev/fd to count descriptors with")
	}
	count := func() int {
		entries, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skip("cannot list /dev/fd: ", err)
		}
		return len(entries)
	}
	sh(t, "exit 0")
	before := count()
	for range 10 {
		sh(t, "exit 0")
		if _, err := Run(t.Context(), nil, Spec{Args: []string{"sh", "-c", "read x"}, Env: testEnv(), Stdin: []byte("x\n")}); err != nil {
			t.Fatal(err)
		}
		for _, program := range []string{"no-such-tool", "/"} {
			if _, err := Run(t.Context(), nil, Spec{Args: []string{program}, Stdin: []byte("x"), Stdout: io.Discard, Stderr: os.Stderr}); err == nil {
				t.Fatal("no error")
			}
		}
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, program := range []string{"/bin/true", "/bin/bash"} {
		b.Run(filepath.Base(program), func(b *testing.B) {
			var stdout, stderr bytes.Buffer
			spec := Spec{Args: []string{program, "-c", "true"}, Env: os.Environ(), Stdout: &stdout, Stderr: &stderr}
			b.ReportAllocs()
			for b.Loop() {
				if result, err := Run(context.Background(), nil, spec); err != nil || result.ExitCode != 0 {
					b.Fatal(result, err)
				}
			}
		})
	}
}

// BenchmarkBare is the least that a process with two pipes takes.
func BenchmarkBare(b *testing.B) {
	for _, program := range []string{"/bin/true", "/bin/bash"} {
		b.Run(filepath.Base(program), func(b *testing.B) {
			devNull, err := null()
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, bufferSize)
			b.ReportAllocs()
			for b.Loop() {
				var out, errs [2]int
				if err := errors.Join(syscall.Pipe(out[:]), syscall.Pipe(errs[:])); err != nil {
					b.Fatal(err)
				}
				syscall.CloseOnExec(out[0])
				syscall.CloseOnExec(errs[0])
				pid, err := syscall.ForkExec(program, []string{program, "-c", "true"}, &syscall.ProcAttr{
					Env: os.Environ(), Files: []uintptr{devNull.Fd(), uintptr(out[1]), uintptr(errs[1])},
				})
				if err != nil {
					b.Fatal(err)
				}
				syscall.Close(out[1])
				syscall.Close(errs[1])
				_, _ = syscall.Read(out[0], buf)
				_, _ = syscall.Read(errs[0], buf)
				syscall.Close(out[0])
				syscall.Close(errs[0])
				var status syscall.WaitStatus
				if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 0 {
					b.Fatal(status, err)
				}
			}
		})
	}
}
