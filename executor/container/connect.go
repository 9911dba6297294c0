package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
)

// Connect takes the first connection to the step-runner in the job's container, if it is left, or else another.
func (v *environment) Connect(ctx context.Context) (net.Conn, error) {
	if v.first != nil && v.Err() == nil && ctx.Err() == nil {
		if first := v.first.take(); first != nil {
			return first, nil
		}
	}
	return v.connect(ctx)
}

// connect runs `step-runner proxy` in the job's container: what it reads and writes is the connection.
func (v *environment) connect(ctx context.Context) (net.Conn, error) {
	_, stream, err := v.exec(ctx, engine.Exec{Cmd: []string{programFile, "proxy", "--socket", socketFile}})
	if err != nil {
		return nil, fmt.Errorf("connecting to the step-runner in the job's container: %w", err)
	}
	r, w := io.Pipe()
	c := &conn{Conn: stream, out: r}
	go func() {
		said := &Said{}
		err := engine.Demultiplex(w, said, stream)
		if text := said.String(); text != "" {
			err = fmt.Errorf("the proxy in the job's container: %s", text)
		}
		w.CloseWithError(err) // nil is the end
	}()
	return c, nil
}

// conn is a connection to a process in a container, whose output the engine sends in frames.
type conn struct {
	net.Conn
	out  *io.PipeReader
	once sync.Once
}

func (c *conn) Read(p []byte) (int, error) { return c.out.Read(p) }

func (c *conn) Close() error {
	c.once.Do(func() {
		_ = c.Conn.Close() // the proxy reads the end of its input, and ends
		c.out.CloseWithError(net.ErrClosed)
	})
	return nil
}

// exec starts a command in the job's container.
func (v *environment) exec(ctx context.Context, command engine.Exec) (id string, stream *engine.Stream, err error) {
	if err := v.Err(); err != nil {
		return "", nil, err
	}
	id, stream, err = v.executor.client.Containers.Exec(ctx, v.container, command)
	if status := engine.Status(err); status == http.StatusNotFound || status == http.StatusConflict {
		return "", nil, v.whyGone(ctx, err)
	}
	if err != nil {
		return "", nil, v.executor.unreachable(ctx, err)
	}
	return id, stream, nil
}

// shells are looked for in this order when a person names none.
var shells = []string{"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh", "/busybox/sh"}

// Shell runs a command in the job's container.
func (v *environment) Shell(ctx context.Context, shell *executor.Shell) (int, error) {
	ctx, end := v.Within(ctx) // an engine may not end the stream of a command whose container it has killed: Docker with runsc, sometimes
	defer end()
	args := shell.Args
	if len(args) == 0 {
		for _, name := range shells {
			if v.executor.client.Containers.StatFile(ctx, v.container, name) == nil {
				args = []string{name}
				break
			}
		}
		if args == nil {
			return -1, &executor.UserError{Message: "the job's image has no shell", Hint: "name a program that is in it"}
		}
	}
	dir := shell.Dir
	if dir == "" {
		dir = v.layout.Project
	}
	id, stream, err := v.exec(ctx, engine.Exec{Cmd: args, Env: shell.Env, WorkingDir: dir, Tty: shell.Terminal})
	if err != nil {
		return -1, fmt.Errorf("opening a shell in the job's container: %w", err)
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	ended := make(chan struct{})
	defer close(ended)
	go v.resize(ctx, id, shell.Resize, ended)
	if shell.Stdin != nil {
		go func() {
			_, _ = io.Copy(stream, shell.Stdin)
			_ = stream.CloseWrite()
		}()
	} else {
		_ = stream.CloseWrite()
	}
	if shell.Terminal {
		_, err = io.Copy(orDiscard(shell.Stdout), stream)
	} else {
		err = engine.Demultiplex(orDiscard(shell.Stdout), orDiscard(shell.Stderr), stream)
	}
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	if err != nil {
		return -1, fmt.Errorf("the shell in the job's container: %w", err)
	}
	return v.exitCode(ctx, id)
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// exitCode is how a command has ended whose output has.
func (v *environment) exitCode(ctx context.Context, id string) (int, error) {
	found, err := v.executor.client.Containers.InspectExec(ctx, id)
	switch status := engine.Status(err); {
	case status == http.StatusNotFound, status == http.StatusConflict, err == nil && found.Running:
		return -1, v.whyGone(ctx, err)
	case err != nil:
		return -1, v.executor.unreachable(ctx, err)
	case found.ExitCode == nil: // the container was paused between the engine's making and its starting the command
		return -1, v.whyGone(ctx, errors.New("a command in the job's container was not started"))
	}
	return *found.ExitCode, nil
}

// resize gives a terminal in the container the size of the person's.
func (v *environment) resize(ctx context.Context, id string, sizes <-chan executor.Size, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case size, open := <-sizes:
			if !open {
				return
			}
			// A terminal of another size is one, too.
			_ = v.executor.client.Containers.ResizeExec(ctx, id, int(size.Rows), int(size.Columns))
		}
	}
}
