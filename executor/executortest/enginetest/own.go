//go:build unix

package enginetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// Own is an engine that one test has for itself, so that it can be killed.
type Own struct {
	Address string // unix:///…

	args    []string // of dockerd
	process int
	again   *exec.Cmd // that was started by Start; nil before
}

// answersWithin bounds how long an engine may take to start.
const answersWithin = 2 * time.Minute

// StartOwn starts an engine by scripts/engine.sh, which ends it with the test. The test is skipped where Host skips it.
func StartOwn(t testing.TB) *Own {
	t.Helper()
	Host(t)
	script := filepath.Join("..", "..", "scripts", "engine.sh")
	if _, err := os.Stat(script); err != nil {
		t.Fatalf("%s is for packages two folders below the root: %v", script, err)
	}
	// The command of the script says where the engine is, and ends with its input.
	command := exec.Command(script, "sh", "-c", `echo "$RUNG_TEST_ENGINE"; cat "$(dirname "${RUNG_TEST_ENGINE#unix://}")/pid"; echo; cat`)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, Variable+"=") {
			command.Env = append(command.Env, pair)
		}
	}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	e := &Own{}
	t.Cleanup(func() {
		if e.again != nil {
			_ = e.again.Process.Signal(syscall.SIGTERM)
			_ = e.again.Wait()
		}
		_ = in.Close()
		_ = command.Wait()
	})
	lines := bufio.NewReader(out)
	address, _ := lines.ReadString('\n')
	pid, _ := lines.ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	e.Address = strings.TrimSpace(address)
	if e.process, err = strconv.Atoi(strings.TrimSpace(pid)); err != nil || e.Address == "" {
		t.Fatalf("the engine says %q and %q", address, pid)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", e.process))
	if err != nil {
		t.Fatal(err)
	}
	for arg := range bytes.SplitSeq(bytes.TrimRight(text, "\x00"), []byte{0}) {
		e.args = append(e.args, string(arg))
	}
	return e
}

// Client returns a client of the engine.
func (e *Own) Client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost(e.Address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill kills the engine, and nothing of what it runs.
func (e *Own) Kill() { _ = syscall.Kill(e.process, syscall.SIGKILL) }

// Stop asks the engine to end, as its service is stopped, and waits for that.
func (e *Own) Stop() {
	_ = syscall.Kill(e.process, syscall.SIGTERM)
	awaitGone(e.process)
}

// Start starts the engine again, with further options, and waits until it answers.
func (e *Own) Start(t testing.TB, options ...string) {
	t.Helper()
	awaitGone(e.process)
	if e.again != nil {
		_ = e.again.Wait()
	}
	// The containerd of a killed engine is about to end, too, and its number may be somebody else's by then.
	for _, file := range []string{e.option("--pidfile"), filepath.Join(e.option("--exec-root"), "containerd", "containerd.pid")} {
		text, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid != e.process {
			awaitGone(pid)
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	e.again = exec.Command(e.args[0], slices.Concat(e.args[1:], options)...)
	e.again.Stdout, e.again.Stderr = &said, &said
	if err := e.again.Start(); err != nil {
		t.Fatal(err)
	}
	e.process = e.again.Process.Pid
	c := e.Client(t)
	for until := time.Now().Add(answersWithin); ; time.Sleep(100 * time.Millisecond) {
		_, err := c.Ping(t.Context(), client.PingOptions{})
		if err == nil {
			return
		}
		if time.Now().After(until) {
			_ = e.again.Process.Kill()
			_ = e.again.Wait()
			t.Fatalf("the engine does not start again: %v\n%s", err, said.String())
		}
	}
}

// option is the value of an option of dockerd.
func (e *Own) option(name string) string {
	if i := slices.Index(e.args, name); i >= 0 {
		return e.args[i+1]
	}
	return ""
}

// awaitGone waits until a process has ended; one that nobody has collected yet has.
func awaitGone(pid int) {
	for until := time.Now().Add(answersWithin); syscall.Kill(pid, 0) == nil && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(stat), ") Z ") {
			return
		}
	}
}
