package none

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
)

const (
	// startTime bounds how long a step-runner may take until it listens.
	startTime = 20 * time.Second
	// endTime is how long a step-runner may take to end what it runs when its environment is closed.
	endTime = 5 * time.Second
	// cleanupTime bounds the removal of what could not be prepared.
	cleanupTime = time.Minute
	// dialPause and maxDialPause are the shortest and the longest time between two attempts to reach a step-runner that starts. Between
	// them it is the dialShare-th part of the time that it has taken: it takes ten milliseconds or two seconds, and is not kept waiting.
	dialPause    = 200 * time.Microsecond
	maxDialPause = 20 * time.Millisecond
	dialShare    = 16
	// lostPause is the time between two attempts to find out how a step-runner on a host is that cannot be reached.
	lostPause = time.Second
	// maxTail is how much is kept of what a step-runner says, in bytes.
	maxTail = 4 << 10
	// socketName is short: the path of a socket has at most 104 bytes on some systems.
	socketName = "s"
	// maxSocket is the longest path of a socket that works on every system, in bytes: a server makes it under a longer name first.
	maxSocket = 75
)

// runner is a step-runner process on the host, in a folder of its own.
type runner struct {
	executor *Executor
	dir      string
	socket   string
	process  host.Process   // nil if another process started it
	stdin    *io.PipeWriter // its end, or a line, ends the step-runner; nil where it was recovered
	said     *tail
	bound    Bound // what is around it; nil is nothing

	*executor.Life // ends when the step-runner has ended
}

// startRunner starts a step-runner and waits until it listens.
func (e *Executor) startRunner(ctx context.Context, slot string) (*runner, error) {
	name := "rung-" + random()
	var bound Bound
	if e.opts.Bounds != nil {
		var err error
		if bound, err = e.opts.Bounds.Bound(slot, name); err != nil {
			return nil, err
		}
	}
	r := e.runnerIn(e.host.Path().Join(e.temp, name), bound)
	if len(r.socket) > maxSocket && e.host.Platform().OS != "windows" {
		r = e.runnerIn("/tmp/"+name, bound)
	}
	if err := e.book.Add(r.entry()); err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		if r.process == nil {
			r.Finish(&executor.Gone{Reason: "its step-runner was not started", Err: err}) // there is nothing to wait for
		}
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		_, closeErr := r.close(cleanup)
		return nil, errors.Join(err, closeErr)
	}
	return r, nil
}

func (e *Executor) runnerIn(dir string, bound Bound) *runner {
	return &runner{executor: e, dir: dir, socket: e.host.Path().Join(dir, socketName), bound: bound, Life: executor.NewLife()}
}

// entry is what the ledger holds of the step-runner.
func (r *runner) entry() string { return r.executor.entry(r.dir, r.bound) }

// into makes a command run within what is around the step-runner.
func (r *runner) into(command *host.Command) {
	if r.bound != nil {
		r.bound.Into(command)
	}
}

func (r *runner) bin() string { return r.executor.host.Path().Join(r.dir, "bin") }

func (r *runner) start(ctx context.Context) error {
	e := r.executor
	files := e.host.Files()
	name := "step-runner"
	if e.host.Platform().OS == "windows" {
		name += ".exe"
	}
	for _, dir := range []string{r.dir, r.bin()} {
		if err := files.Mkdir(ctx, dir, 0o700); err != nil {
			return fmt.Errorf("making a folder for the step-runner: %w", err)
		}
	}
	if err := files.Link(ctx, e.program, e.host.Path().Join(r.bin(), name)); err != nil {
		return fmt.Errorf("making the step-runner available to the job: %w", err)
	}
	if r.bound != nil {
		if err := r.bound.Make(ctx); err != nil {
			return err
		}
	}
	args := []string{e.program, "serve", "--socket", r.socket, "--end-with", "socket"}
	command := &host.Command{Env: e.environ()}
	if e.setup.Lease.Outlives() {
		// It goes on when this process ends. Being told is faster than missing the socket.
		args = append(append(args, e.setup.Lease.Args()...), "--end-with", "line")
		command.Stdin, r.stdin = io.Pipe()
	} else {
		if e.host.Name() != local.Name { // whose connection may break without anybody there noticing
			args = append(args, e.setup.Lease.Args()...)
		}
		// The step-runner ends with this process, however that ends.
		args = append(args, "--end-with", "stdin")
		command.Stdin, r.stdin = io.Pipe()
		r.said = &tail{}
		command.Stderr = r.said
	}
	command.Args = append(append(args, e.setup.Limits.Args()...), e.setup.Serve...)
	r.into(command)
	var err error
	if r.process, err = e.host.Exec(context.WithoutCancel(ctx), command); err != nil {
		return fmt.Errorf("starting the step-runner: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, err := r.process.Wait()
		r.ended(endReason(code, err, r.said.String()), nil)
	}()
	conn, err := r.await(ctx, ended)
	if err != nil {
		return err
	}
	go r.watch(conn)
	return nil
}

// environ is the environment of step-runners. That of this program is for this machine.
func (e *Executor) environ() []string {
	if e.host.Name() != local.Name {
		return nil
	}
	if e.setup.Env == nil {
		return os.Environ()
	}
	return e.setup.Env
}

func endReason(code int, err error, said string) string {
	reason := fmt.Sprintf("its step-runner ended with exit code %d", code)
	if err != nil {
		reason = fmt.Sprintf("its step-runner ended: %v", err)
	}
	if said != "" {
		reason += "; its last words:\n" + said
	}
	return reason
}

// await waits until the step-runner listens.
func (r *runner) await(ctx context.Context, ended <-chan struct{}) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("the step-runner did not start within %s", startTime))
	defer cancel()
	began := time.Now()
	for {
		conn, err := r.executor.host.Dial(ctx, "unix", r.socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ended:
			return nil, r.Err()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(min(max(dialPause, time.Since(began)/dialShare), maxDialPause)):
		}
	}
}

// watch notices when the step-runner has ended. A connection that the step-runner holds ends with it; but it may end for other
// reasons, too.
func (r *runner) watch(conn net.Conn) {
	for {
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		var err error
		if conn, err = r.redial(); err != nil {
			r.ended("its step-runner is not running any more", err)
			return
		}
	}
}

// redial connects to the step-runner again. The error says that it has ended, or its host is lost.
func (r *runner) redial() (net.Conn, error) {
	for {
		ctx, cancel := context.WithTimeout(r.executor.life, host.LostAfter)
		conn, err := r.executor.host.Dial(ctx, "unix", r.socket)
		cancel()
		if err == nil || !errors.Is(err, host.ErrLost) {
			return conn, err
		}
		select {
		case <-r.Done():
			return nil, err
		case <-r.executor.host.Done():
			return nil, fmt.Errorf("%w: %w", err, r.executor.host.Err())
		case <-r.executor.life.Done():
			return nil, err
		case <-time.After(lostPause):
		}
	}
}

func (r *runner) ended(reason string, err error) {
	if r.bound != nil && r.alive() {
		reason, err = r.bound.Explain(reason, err)
	}
	r.Finish(&executor.Gone{Reason: reason, Err: err})
}

func (r *runner) alive() bool { return r.Err() == nil }

// stop ends the step-runner and all that it runs, and waits for that. clean is false where it had to be killed.
func (r *runner) stop(ctx context.Context) (clean bool, err error) {
	err = r.executor.host.Files().RemoveAll(ctx, r.socket) // which ends it
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if r.stdin != nil {
		go func() {
			_, _ = io.WriteString(r.stdin, "\n") // it may have ended
			_ = r.stdin.Close()
		}()
	}
	if r.process == nil && err != nil {
		return false, err
	}
	if r.ends(ctx) {
		return true, nil
	}
	if r.process != nil {
		err = r.process.Kill()
	}
	switch {
	case r.bound != nil: // which is removed with all that runs in it
		return false, err
	case r.process != nil && r.executor.host.Name() == local.Name:
		return false, err
	}
	// It is nobody's child here. A job may have stopped it, so that it does not even notice that its connection has ended.
	if err = errors.Join(err, context.Cause(ctx), r.executor.kill(ctx, r.dir)); err == nil && r.process == nil && !r.ends(ctx) {
		err = fmt.Errorf("the step-runner has not ended within %s, and could not be killed", endTime)
	}
	return false, err
}

// ends waits for the end of the step-runner, for as long as it may take.
func (r *runner) ends(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	select {
	case <-r.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends the step-runner and removes its folder. clean says that the step-runner ended by itself when it was asked to, and left no
// process.
func (r *runner) close(ctx context.Context) (clean bool, err error) {
	alive := r.alive()
	if r.process != nil || alive {
		if clean, err = r.stop(ctx); err != nil {
			return false, err
		}
	}
	if r.bound != nil {
		if err := r.bound.Remove(ctx); err != nil {
			return false, err
		}
	}
	if err := r.executor.host.Files().RemoveAll(ctx, r.dir); err != nil {
		return false, err
	}
	return clean && alive, r.executor.book.Done(r.entry())
}

// tail keeps the end of what a step-runner says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - maxTail; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String is what was said, but for the line that every step-runner begins with.
func (t *tail) String() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.text)
	if line, rest, _ := strings.Cut(string(text), "\n"); strings.HasPrefix(line, "step-runner is listening on ") {
		return rest
	}
	return string(text)
}
