package hosttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rungci/rung/executor/host"
)

// bigInput is how much goes both ways at once, in bytes.
const bigInput = 100 << 20

func testExec(t *testing.T, h host.Host) {
	t.Run("exit codes", func(t *testing.T) {
		for _, code := range []int{0, 1, 7, 126, 127, 128, 255} {
			if r := run(t, h, &host.Command{Args: []string{"sh", "-c", "exit " + strconv.Itoa(code)}}); r.code != code || r.err != nil {
				t.Errorf("exit %d: %d, %v", code, r.code, r.err)
			}
		}
	})
	t.Run("a signal that ends the command", func(t *testing.T) {
		for _, name := range []string{"TERM", "KILL", "SEGV"} {
			r := run(t, h, &host.Command{Args: []string{"sh", "-c", "ulimit -c 0; kill -" + name + " $$"}})
			var signal *host.SignalError
			if !errors.As(r.err, &signal) || signal.Signal != "SIG"+name || r.code != -1 {
				t.Errorf("%s: %d, %v", name, r.code, r.err)
			}
		}
	})
	t.Run("arguments arrive as they are", func(t *testing.T) {
		args := []string{"", " ", "two words", "it's", `"`, `\`, `a\nb`, "line\nline\n", "\n", "$HOME `id` $(id)", "*", "~", "!!", "-n", "ü€😀", "\x01\x1b\x7f\xff", "%s;|&<>(){}[]#^=,"}
		r := run(t, h, &host.Command{Args: append([]string{"sh", "-c", `for a; do printf '%s\0' "$a"; done`, "sh"}, args...)})
		if want := strings.Join(args, "\x00") + "\x00"; r.stdout != want || r.err != nil {
			t.Errorf("got %q, %v; want %q", r.stdout, r.err, want)
		}
	})
	t.Run("the work directory", func(t *testing.T) {
		dir := filepath.Join(realTemp(t), "it's a folder\n\\")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if r := run(t, h, &host.Command{Args: []string{"pwd"}, Dir: dir}); r.stdout != dir+"\n" || r.err != nil {
			t.Errorf("got %q, %v", r.stdout, r.err)
		}
	})
	t.Run("the two outputs are apart", func(t *testing.T) {
		if r := run(t, h, &host.Command{Args: []string{"sh", "-c", "echo out; echo err >&2"}}); r.stdout != "out\n" || r.stderr != "err\n" {
			t.Errorf("got %q and %q", r.stdout, r.stderr)
		}
	})
	t.Run("output is binary, and may begin with anything", func(t *testing.T) {
		for _, begin := range []string{"", "@", "@rung-", "\n", "@rung-ABC ok\n"} {
			data := []byte(begin)
			for i := range 1024 {
				data = append(data, byte(i))
			}
			r := run(t, h, &host.Command{Args: []string{"cat"}, Stdin: bytes.NewReader(data)})
			if r.stdout != string(data) || r.err != nil {
				t.Errorf("%q: got %d bytes, %v", begin, len(r.stdout), r.err)
			}
		}
	})
	t.Run("a writer that fails does not stop the command", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "done")
		r := run(t, h, &host.Command{Args: []string{"sh", "-c", `head -c 1000000 /dev/zero; echo yes >"$1"`, "sh", file}, Stdout: failingWriter{}})
		if _, err := os.Stat(file); err != nil || !errors.Is(r.err, errStop) || r.code != 0 {
			t.Errorf("%v, %d, %v", err, r.code, r.err)
		}
	})
	t.Run("a process is the leader of its group", func(t *testing.T) {
		out := newLines()
		p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", `kill -s 0 -- -$$ && echo $$`}, Stdout: out})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := out.next(t, p), strconv.Itoa(p.PID()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for range 2 {
			if code, err := p.Wait(); code != 0 || err != nil {
				t.Error(code, err)
			}
		}
	})
	t.Run("30 commands at once", func(t *testing.T) { manyAtOnce(t, h) })
	testInput(t, h)
	testEnvironment(t, h)
	testNotStarted(t, h)
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errStop }

// realTemp is a temporary folder by the path that a process in it sees.
func realTemp(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// manyAtOnce starts commands that all run before one of them may end.
func manyAtOnce(t *testing.T, h host.Host) {
	const count = 30
	var up, done sync.WaitGroup
	proceed := make(chan struct{})
	for i := range count {
		up.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			in, feed := io.Pipe()
			out := newLines()
			p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", "echo up; cat; exit 3"}, Stdin: in, Stdout: out})
			if err != nil {
				t.Error(err)
				up.Done()
				return
			}
			first := out.next(t, p)
			up.Done()
			<-proceed
			fmt.Fprintf(feed, "number %d\n", i)
			feed.Close()
			code, err := p.Wait()
			if second := out.next(t, p); first != "up" || second != fmt.Sprint("number ", i) || code != 3 || err != nil {
				t.Errorf("%q, %q, %d, %v", first, second, code, err)
			}
		}()
	}
	up.Wait()
	close(proceed)
	done.Wait()
}

func testInput(t *testing.T, h host.Host) {
	t.Run("no input is at its end", func(t *testing.T) {
		if r := run(t, h, &host.Command{Args: []string{"sh", "-c", "cat; echo end"}}); r.stdout != "end\n" {
			t.Errorf("got %q, %v", r.stdout, r.err)
		}
	})
	t.Run("the command reads all of its input and nothing else", func(t *testing.T) {
		r := run(t, h, &host.Command{Args: []string{"cat"}, Stdin: strings.NewReader("first\nlast"), Env: []string{"A=b"}})
		if r.stdout != "first\nlast" {
			t.Errorf("got %q", r.stdout)
		}
	})
	t.Run("an input that never ends keeps nobody waiting", func(t *testing.T) {
		in, feed := io.Pipe()
		defer feed.Close()
		if r := run(t, h, &host.Command{Args: []string{"true"}, Stdin: in}); r.err != nil || r.code != 0 {
			t.Error(r.code, r.err)
		}
	})
	t.Run("input that nobody reads", func(t *testing.T) {
		r := run(t, h, &host.Command{Args: []string{"echo", "done"}, Stdin: io.LimitReader(zeros{}, 8<<20)})
		if r.stdout != "done\n" || r.err != nil {
			t.Errorf("%q, %v", r.stdout, r.err)
		}
	})
	t.Run("100 MB both ways at once", func(t *testing.T) {
		size := int64(bigInput)
		if testing.Short() {
			size = 4 << 20
		}
		sent, received := sha256.New(), sha256.New()
		source := rand.NewChaCha8([32]byte{1})
		in := io.TeeReader(io.LimitReader(source, size), sent)
		var errs bytes.Buffer
		r := run(t, h, &host.Command{Args: []string{"sh", "-c", "cat; echo end >&2"}, Stdin: in, Stdout: received, Stderr: &errs})
		if !bytes.Equal(sent.Sum(nil), received.Sum(nil)) || r.err != nil || errs.String() != "end\n" {
			t.Errorf("what came back differs; %v, %q", r.err, errs.String())
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func testEnvironment(t *testing.T, h host.Host) {
	t.Run("the environment arrives as it is", func(t *testing.T) {
		all := make([]byte, 0, 255)
		for i := 1; i < 256; i++ {
			all = append(all, byte(i))
		}
		env := []string{
			"A=", "B= ", "C=it's", "D=line\nline\n", "E=\n", `F=\n"$(id)"` + "`id`", "G=ü€😀", "H=" + string(all), "I=a=b", "lower=x", "_J=!x!",
			"K=first", "K=second", "L=" + strings.Repeat("long ", 20_000), "n=1", "s=2", "IFS=x",
		}
		script := `for n in A B C D E F G H I lower _J K L n s; do eval "printf '%s=%s\0' $n \"\$$n\""; done`
		r := run(t, h, &host.Command{Args: []string{"sh", "-c", script}, Env: env})
		want := ""
		for _, pair := range env {
			if pair != "K=first" && pair != "IFS=x" {
				want += strings.Replace(pair, "n=1", "n=n", 1) + "\x00"
			}
		}
		if r.stdout != want || r.err != nil {
			t.Errorf("got %d bytes, %v, %s; want %d", len(r.stdout), r.err, r.stderr, len(want))
			for i, pair := range strings.Split(r.stdout, "\x00") {
				if wants := strings.Split(want, "\x00"); i >= len(wants) || pair != wants[i] {
					t.Fatalf("item %d is %.300q", i, pair)
				}
			}
		}
	})
	t.Run("a command has a home and a PATH, and nothing of this program's", func(t *testing.T) {
		t.Setenv("RUNG_TEST_SECRET", "leaked")
		r := run(t, h, &host.Command{Args: []string{"env"}})
		if !strings.Contains(r.stdout, "\nHOME=/") && !strings.HasPrefix(r.stdout, "HOME=/") || !strings.Contains("\n"+r.stdout, "\nPATH=") {
			t.Errorf("the environment lacks something: %s", r.stdout)
		}
		if strings.Contains(r.stdout, "leaked") || strings.Contains(r.stdout, "rung_") {
			t.Errorf("the environment holds too much: %s", r.stdout)
		}
	})
	t.Run("the environment is on no command line", func(t *testing.T) {
		if _, err := os.Stat("/proc/self/cmdline"); err != nil {
			t.Skip("needs /proc to look at command lines")
		}
		r := run(t, h, &host.Command{Args: []string{"sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null"}, Env: []string{"SECRET=s3cret-in-the-environment"}})
		if !strings.Contains(r.stdout, "cat /proc/") || strings.Contains(r.stdout, "s3cret-in-the-environment") {
			t.Errorf("command lines are %q", r.stdout)
		}
	})
	t.Run("what no process can be given is refused", func(t *testing.T) {
		for _, c := range []*host.Command{
			{}, {Args: []string{""}}, {Args: []string{"echo", "a\x00b"}}, {Args: []string{"echo"}, Env: []string{"A=\x00"}}, {Args: []string{"echo"}, Env: []string{"A"}},
			{Args: []string{"echo"}, Env: []string{"=x"}},
		} {
			if p, err := h.Exec(t.Context(), c); err == nil {
				_, _ = p.Wait()
				t.Errorf("%q with %q has started", c.Args, c.Env)
			}
		}
	})
}

func testNotStarted(t *testing.T, h host.Host) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name    string
		command host.Command
		kind    error
		says    string
	}{
		{"a name that is in no folder of PATH", host.Command{Args: []string{"no-such-program"}}, fs.ErrNotExist, "PATH"},
		{"a PATH without the program", host.Command{Args: []string{"ls"}, Env: []string{"PATH=" + dir}}, fs.ErrNotExist, "PATH"},
		{"a path that does not exist", host.Command{Args: []string{filepath.Join(dir, "missing")}}, fs.ErrNotExist, "does not exist"},
		{"a folder", host.Command{Args: []string{dir}}, fs.ErrPermission, ""},
		{"a file that may not be executed", host.Command{Args: []string{write("plain", "text", 0o644)}}, fs.ErrPermission, "chmod +x"},
		{"an interpreter that does not exist", host.Command{Args: []string{write("script", "#!/no/such/interpreter\n", 0o755)}}, fs.ErrPermission, ""},
		{"a work directory that does not exist", host.Command{Args: []string{"true"}, Dir: filepath.Join(dir, "nowhere")}, fs.ErrNotExist, "directory " + filepath.Join(dir, "nowhere") + " does not exist"},
		{"a work directory that is a file", host.Command{Args: []string{"true"}, Dir: write("file", "", 0o644)}, fs.ErrPermission, "directory"},
	} {
		t.Run(c.name+" does not start", func(t *testing.T) {
			r := run(t, h, &c.command)
			var notStarted *host.StartError
			if !errors.As(r.err, &notStarted) || !errors.Is(r.err, c.kind) || r.code != -1 {
				t.Fatalf("got %d, %#v", r.code, r.err)
			}
			if notStarted.Program != c.command.Args[0] || notStarted.Host != h.Name() || !strings.Contains(notStarted.Reason, c.says) {
				t.Errorf("got %+v", notStarted)
			}
			if r.stdout != "" {
				t.Errorf("the output holds %q", r.stdout)
			}
		})
	}
	t.Run("PATH of the environment finds the program", func(t *testing.T) {
		write("own-program", "#!/bin/sh\necho mine\n", 0o755)
		if r := run(t, h, &host.Command{Args: []string{"own-program"}, Env: []string{"PATH=" + dir + ":/usr/bin:/bin"}}); r.stdout != "mine\n" {
			t.Errorf("got %q, %v", r.stdout, r.err)
		}
	})
}

func testStop(t *testing.T, h host.Host) {
	// start starts a command that has a child, and returns the child's process ID.
	start := func(t *testing.T, ctx context.Context) (host.Process, string) {
		t.Helper()
		out := newLines()
		p, err := h.Exec(ctx, &host.Command{Args: []string{"sh", "-c", `trap "" TERM HUP INT; sleep 1000 & echo $!; wait; wait`}, Stdout: out})
		if err != nil {
			t.Fatal(err)
		}
		return p, out.next(t, p)
	}
	t.Run("the end of the context kills the whole group", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p, child := start(t, ctx)
		cancel(errStop)
		if code, err := p.Wait(); code != -1 || !errors.Is(err, errStop) {
			t.Error(code, err)
		}
		awaitGone(t, h, child)
		awaitGone(t, h, strconv.Itoa(p.PID()))
	})
	t.Run("Kill kills the whole group", func(t *testing.T) {
		p, child := start(t, t.Context())
		if err := errors.Join(p.Kill(), p.Kill()); err != nil {
			t.Error(err)
		}
		if code, err := p.Wait(); code != -1 || !errors.Is(err, host.ErrKilled) {
			t.Error(code, err)
		}
		awaitGone(t, h, child)
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a context that has ended starts nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		file := filepath.Join(t.TempDir(), "file")
		if _, err := h.Exec(ctx, &host.Command{Args: []string{"touch", file}}); !errors.Is(err, errStop) {
			t.Error(err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("the command has run")
		}
	})
	t.Run("a command that has ended is not stopped by its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, err := h.Exec(ctx, &host.Command{Args: []string{"sh", "-c", "exit 4"}})
		if err != nil {
			t.Fatal(err)
		}
		code, err := p.Wait()
		cancel()
		if again, errAgain := p.Wait(); code != 4 || err != nil || again != 4 || errAgain != nil {
			t.Error(code, err, again, errAgain)
		}
	})
	t.Run("what holds the output of a command that has ended is killed", func(t *testing.T) {
		r := run(t, h, &host.Command{Args: []string{"sh", "-c", "sleep 1000 & echo $!; exit 5"}})
		if r.code != 5 || r.err != nil {
			t.Error(r.code, r.err)
		}
		awaitGone(t, h, strings.TrimSpace(r.stdout))
	})
}

func testTerminal(t *testing.T, h host.Host) {
	t.Run("it has the size and the name that were asked for", func(t *testing.T) {
		var out bytes.Buffer
		r := run(t, h, &host.Command{
			Args: []string{"sh", "-c", `test -t 0 && test -t 1 && test -t 2 && stty size && echo "$TERM $A"; exit 3`}, Stdout: &out, Env: []string{"A=" + strings.Repeat("x", 10_000)},
			Terminal: &host.Terminal{Name: "vt100", Size: host.Size{Columns: 91, Rows: 17}},
		})
		if want := "17 91\r\nvt100 " + strings.Repeat("x", 10_000) + "\r\n"; out.String() != want || r.code != 3 || r.err != nil {
			t.Errorf("got %.200q, %d, %v", out.String(), r.code, r.err)
		}
	})
	t.Run("what is typed arrives, and a new size is seen", func(t *testing.T) {
		in, feed := io.Pipe()
		defer feed.Close()
		out := newLines()
		p, err := h.Exec(t.Context(), &host.Command{
			Args:  []string{"sh", "-c", `stty -echo; echo ready; read line; echo "got $line"; until test "$(stty size)" = "33 101"; do sleep 0.02; done; echo resized; read line`},
			Stdin: in, Stdout: out, Terminal: &host.Terminal{Size: host.Size{Columns: 80, Rows: 24}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.next(t, p); got != "ready" {
			t.Fatalf("got %q", got)
		}
		_, _ = io.WriteString(feed, "hello\r")
		if got := out.next(t, p); got != "got hello" {
			t.Errorf("got %q", got)
		}
		if err := p.Resize(host.Size{Columns: 101, Rows: 33}); err != nil {
			t.Error(err)
		}
		if got := out.next(t, p); got != "resized" {
			t.Errorf("got %q", got)
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if _, err := p.Wait(); !errors.Is(err, host.ErrKilled) {
			t.Error(err)
		}
		if err := p.Resize(host.Size{Columns: 1, Rows: 1}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a program that does not exist does not start in one either", func(t *testing.T) {
		r := run(t, h, &host.Command{Args: []string{"no-such-program"}, Terminal: &host.Terminal{Size: host.Size{Columns: 80, Rows: 24}}})
		var notStarted *host.StartError
		if !errors.As(r.err, &notStarted) {
			t.Errorf("got %d, %v, %q", r.code, r.err, r.stdout)
		}
	})
}
