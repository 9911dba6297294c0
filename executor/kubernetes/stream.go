package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"time"

	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
)

// Connect runs `step-runner proxy` in the job's container: what it reads and writes is the connection. It returns when the step-runner has said its
// first word: only then there is something to talk to.
func (v *environment) Connect(ctx context.Context) (net.Conn, error) {
	const doing = "connecting to the step-runner in the job's pod"
	if err := v.Err(); err != nil {
		return nil, err
	}
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	in, toProxy := io.Pipe()
	fromProxy, out := io.Pipe()
	first := &firstWord{Writer: out, said: make(chan struct{})}
	c := &conn{in: fromProxy, out: toProxy, cancel: cancel}
	ended := make(chan error, 1)
	go func() {
		said := &container.Said{}
		err := v.executor.cluster.Exec(streaming, v.at, BuildContainer, []string{programFile, "proxy", "--socket", socketFile},
			remotecommand.StreamOptions{Stdin: in, Stdout: first, Stderr: said})
		if text := said.String(); text != "" {
			err = fmt.Errorf("the proxy in the job's pod: %s", text)
		}
		out.CloseWithError(err) // nil is the end
		in.CloseWithError(io.ErrClosedPipe)
		ended <- err
		cancel()
	}()
	select {
	case <-first.said:
		return c, nil
	case err := <-ended:
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		_ = c.Close()
		return nil, v.explain(ctx, doing, err)
	case <-ctx.Done():
		_ = c.Close()
		return nil, fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case <-v.Done():
		_ = c.Close()
		return nil, v.Err()
	}
}

// firstWord tells when something is written.
type firstWord struct {
	io.Writer
	once sync.Once
	said chan struct{}
}

func (w *firstWord) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.said) })
	return w.Writer.Write(p)
}

// conn is a connection through a command in a pod.
type conn struct {
	in     *io.PipeReader
	out    *io.PipeWriter
	cancel context.CancelFunc
	once   sync.Once
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close ends the command with its streams.
func (c *conn) Close() error {
	c.once.Do(func() {
		_ = c.out.Close()
		c.in.CloseWithError(net.ErrClosed)
		c.cancel()
	})
	return nil
}

func (c *conn) LocalAddr() net.Addr              { return address{} }
func (c *conn) RemoteAddr() net.Addr             { return address{} }
func (c *conn) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (c *conn) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (c *conn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// address is that of either end.
type address struct{}

func (address) Network() string { return "exec" }
func (address) String() string  { return "pod" }

// run runs a command in a container of the pod, and returns its exit code.
func (v *environment) run(ctx context.Context, in string, args []string, o remotecommand.StreamOptions) (int, error) {
	if err := v.Err(); err != nil {
		return -1, err
	}
	ctx, end := v.Within(ctx)
	defer end()
	o.Stdout, o.Stderr = host.Outputs(o.Stdout, o.Stderr)
	if o.Tty {
		o.Stderr = nil
	}
	err := v.executor.cluster.Exec(ctx, v.at, in, args, o)
	var code exec.CodeExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &code):
		return code.Code, nil
	case ctx.Err() != nil:
		return -1, context.Cause(ctx)
	}
	return -1, v.explain(ctx, "running a command in the job's pod", err)
}

// files are those of the job's container, as its user has them.
func (v *environment) files() *remotefiles.Client {
	return &remotefiles.Client{Run: func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (int, error) {
		return v.run(ctx, BuildContainer, append([]string{programFile, "host"}, args...), remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: errs})
	}}
}

// Send unpacks an archive in the job's container.
func (v *environment) Send(ctx context.Context, dir string, in io.Reader) error {
	if !path.IsAbs(dir) {
		return fmt.Errorf("files are sent to a folder by its absolute path, not %q", dir)
	}
	if err := v.files().Unpack(ctx, dir, in); err != nil {
		return fmt.Errorf("sending files to the job's pod: %w", err)
	}
	return nil
}

// Fetch copies files out of the job's container.
func (v *environment) Fetch(ctx context.Context, name string, out io.Writer) error {
	if !path.IsAbs(name) {
		return fmt.Errorf("files are fetched by their absolute path, not %q", name)
	}
	if err := v.files().Pack(ctx, path.Clean(name), out); err != nil {
		return fmt.Errorf("fetching %s: %w", name, err)
	}
	return nil
}

// shells are looked for in this order when a person names none.
var shells = []string{"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh", "/busybox/sh"}

// Shell runs a command in the job's container. A cluster's commands have neither folder nor variables of their own, and everybody who reads its
// audit log sees them: what the command is stands in a file of the pod's memory that the step-runner there removes and becomes.
func (v *environment) Shell(ctx context.Context, shell *executor.Shell) (int, error) {
	args := shell.Args
	if len(args) == 0 {
		for _, name := range shells {
			if _, err := v.files().Stat(ctx, name); err == nil {
				args = []string{name}
				break
			}
		}
		if err := v.Err(); err != nil {
			return -1, err
		}
		if args == nil {
			return -1, &executor.UserError{Message: "the job's image has no shell", Hint: "name a program that is in it"}
		}
	}
	described := struct {
		Args, Env []string
		Cwd       string
	}{args, shell.Env, shell.Dir}
	if described.Cwd == "" {
		described.Cwd = v.layout.Project
	}
	if shell.Terminal {
		described.Env = append([]string{"TERM=xterm"}, described.Env...)
	}
	name, err := v.describe(ctx, described)
	if err != nil {
		return -1, fmt.Errorf("opening a shell in the job's pod: %w", err)
	}
	o := remotecommand.StreamOptions{Stdin: shell.Stdin, Stdout: shell.Stdout, Stderr: shell.Stderr, Tty: shell.Terminal}
	if shell.Terminal {
		o.Stderr = nil // one stream, as terminals have
		sizing, done := context.WithCancel(ctx)
		defer done()
		o.TerminalSizeQueue = sizes{sizing, shell.Resize}
	}
	return v.run(ctx, BuildContainer, []string{programFile, "become", "--file", name}, o)
}

// describe puts the description of a command into a file that the job's user alone can read.
func (v *environment) describe(ctx context.Context, what any) (string, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	name := "shell-" + rand.Text()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	return path.Join(socketFolder, name), v.files().Unpack(ctx, socketFolder, &archive)
}

// sizes are those of a person's terminal.
type sizes struct {
	ctx context.Context
	all <-chan executor.Size
}

// Next waits for the next size; nil ends it.
func (s sizes) Next() *remotecommand.TerminalSize {
	select {
	case <-s.ctx.Done():
		return nil
	case size, open := <-s.all:
		if !open {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Columns, Height: size.Rows}
	}
}
