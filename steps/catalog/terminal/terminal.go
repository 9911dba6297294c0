// Package terminal is the code of builtin://terminal: a shell that somebody can attach to while a job runs.
//
//	step-runner terminal SOCKET ──frames──> Unix socket ──> host ──> terminal of the shell
//
// The shell begins with the first who attaches, so that its terminal has that person's size and kind. Who detaches, or whose connection
// breaks, leaves the shell as it is: what it shows meanwhile is kept, as far as a screen or two go, and shown to the next. One person is
// attached at a time. The socket is for this user alone, and what is shown never reaches the job's log.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

// shellGrace is how long a shell has to end when its time is over. An interactive one takes no notice of a polite signal, so that this is
// mostly time that is waited.
const shellGrace = time.Second

type inputs struct {
	Shell  string `json:"shell"`
	Socket string `json:"socket"`
	Wait   string `json:"wait"`
	Limit  string `json:"limit"`
}

// ErrUnsupported says that this system has no terminals for processes.
var ErrUnsupported = errors.New("terminals are not supported on Windows; run the job on Linux or macOS")

// Why a terminal is closed before its shell ends.
type closedError struct{ text string }

func (e *closedError) Error() string { return e.text }

// Run is builtin://terminal.
func Run(ctx context.Context, call *program.Call) (err error) {
	if runtime.GOOS == "windows" {
		return ErrUnsupported
	}
	var in inputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	wait, err := parseTime("wait", in.Wait)
	if err != nil {
		return err
	}
	limit, err := parseTime("limit", in.Limit)
	if err != nil {
		return err
	}
	path, remove, err := in.place(call)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	l, err := listen(path)
	if err != nil {
		return fmt.Errorf("opening the terminal's socket: %w", err)
	}
	h := newHost(l)
	defer h.close(ended{text: "the job is over", code: -1})
	fmt.Fprintf(call.Stdout, "A terminal waits for %v at most. Attach to it, on this machine, with:\n\n  step-runner terminal %s\n\n", wait, shellword.Of(path))
	attached, err := h.first(ctx, wait)
	if err != nil {
		return err
	}
	if attached {
		err = in.open(ctx, call, h, wait, limit)
	} else {
		fmt.Fprintln(call.Stdout, "Nobody attached.")
	}
	return errors.Join(err, call.Output("attached", value.OfBool(attached)))
}

// open runs the shell until it ends, or its time is over, or nobody is there for too long.
func (in *inputs) open(ctx context.Context, call *program.Call, h *host, wait, limit time.Duration) error {
	fmt.Fprintf(call.Stdout, "Somebody is attached; the terminal is open for %v at most.\n", limit)
	shown, stop := context.WithTimeoutCause(ctx, limit, &closedError{fmt.Sprintf("its limit of %v is over", limit)})
	defer stop()
	shown, leave := context.WithCancelCause(shown)
	defer leave(nil)
	go h.watch(shown, wait, func() { leave(&closedError{fmt.Sprintf("nobody was attached for %v", wait)}) })

	result, err := in.run(shown, call, h)
	var closed *closedError
	switch {
	case err == nil:
		text := fmt.Sprintf("the shell ended with exit code %d", result.ExitCode)
		if result.Signal != "" {
			text = "the shell was killed by " + result.Signal
		}
		h.close(ended{text: text, code: result.ExitCode})
		fmt.Fprintf(call.Stdout, "The terminal is closed: %s.\n", text)
		return nil
	case errors.As(err, &closed):
		h.close(ended{text: closed.text, code: -1})
		fmt.Fprintf(call.Stdout, "The terminal is closed: %s.\n", closed.text)
		return nil
	case ctx.Err() != nil:
		h.close(ended{text: "the job is being stopped", code: -1})
		return context.Cause(ctx)
	}
	h.close(ended{text: "the shell did not start: " + err.Error(), code: -1})
	return err
}

// run runs the shell in a terminal.
func (in *inputs) run(ctx context.Context, call *program.Call, h *host) (process.Result, error) {
	spec := process.Spec{
		Args: []string{in.Shell}, Dir: call.WorkDir, Env: environ(call.Env, h.kind()), Grace: shellGrace,
		Terminal: &process.Terminal{Input: h.input, Output: h, Resize: h.sizes},
	}
	if in.Shell != "" {
		return process.Run(ctx, nil, spec)
	}
	spec.Args = []string{"bash"}
	result, err := process.Run(ctx, nil, spec)
	if errors.Is(err, process.ErrNotFound) {
		spec.Args = []string{"sh"}
		result, err = process.Run(ctx, nil, spec)
	}
	return result, err
}

// environ is an environment with the kind of the person's terminal.
func environ(env []string, kind string) []string {
	if kind == "" {
		return env
	}
	out := make([]string, 0, len(env)+1)
	for _, pair := range env {
		if !strings.HasPrefix(pair, "TERM=") {
			out = append(out, pair)
		}
	}
	return append(out, "TERM="+kind)
}

// place returns where to listen, and what removes it.
func (in *inputs) place(call *program.Call) (path string, remove func() error, err error) {
	if in.Socket == "" {
		folder, err := call.SocketFolder("terminal-")
		if err != nil {
			return "", nil, err
		}
		return filepath.Join(folder, "socket"), func() error { return os.RemoveAll(folder) }, nil
	}
	path = in.Socket
	if !filepath.IsAbs(path) {
		path = filepath.Join(call.WorkDir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", nil, err
	}
	return path, func() error { return nil }, nil
}

func parseTime(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is %q; it must be a time such as 30m or 1h30m", name, text)
	}
	return d, nil
}

var _ io.Writer = (*host)(nil)
