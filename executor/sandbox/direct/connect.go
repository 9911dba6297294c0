package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/remotefiles"
)

// Connect runs `step-runner proxy` in the sandbox: what it reads and writes is the connection.
func (v *environment) Connect(ctx context.Context) (net.Conn, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if first := v.takeFirst(); first != nil {
		return first, nil
	}
	in, toProxy := io.Pipe()
	fromProxy, out := io.Pipe()
	said := &container.Said{}
	running, err := v.at.execFile(context.WithoutCancel(ctx), v.at.path(proxyFile), &host.Command{Stdin: in, Stdout: out, Stderr: said})
	if err != nil {
		return nil, v.failed(fmt.Errorf("connecting to the step-runner in the sandbox: %w", err))
	}
	c := &conn{in: fromProxy, out: toProxy, process: running}
	go func() {
		_, err := running.Wait()
		if text := said.String(); text != "" {
			err = fmt.Errorf("the proxy in the sandbox: %s", text)
		}
		if v.Err() != nil {
			err = v.Err()
		}
		out.CloseWithError(err) // nil is the end
		in.CloseWithError(io.ErrClosedPipe)
	}()
	return c, nil
}

// conn is a connection through a process.
type conn struct {
	in      *io.PipeReader
	out     *io.PipeWriter
	process host.Process
	once    sync.Once
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close ends the proxy, which reads the end of its input.
func (c *conn) Close() error {
	c.once.Do(func() {
		_ = c.out.Close()
		c.in.CloseWithError(net.ErrClosed)
	})
	return nil
}

// CloseWrite ends what the other side reads.
func (c *conn) CloseWrite() error { return c.out.Close() }

func (c *conn) LocalAddr() net.Addr              { return address{} }
func (c *conn) RemoteAddr() net.Addr             { return address{} }
func (c *conn) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (c *conn) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (c *conn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// address is that of either end.
type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "sandbox" }

// process describes a command of the job's user. env is over what the image has.
func (v *environment) process(args []string, dir string, env []string) *process {
	return &process{User: v.user, Args: args, Env: append(v.environs[:len(v.environs):len(v.environs)], env...), Cwd: dir, Capabilities: rightsOf(v.user.UID)}
}

// failed is the error of a call, or why the environment has ended.
func (v *environment) failed(err error) error {
	if err != nil && v.Err() != nil {
		return v.Err()
	}
	return err
}

// shells are looked for in this order when a person names none.
var shells = []string{"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh", "/busybox/sh"}

// Shell runs a command in the sandbox.
func (v *environment) Shell(ctx context.Context, shell *executor.Shell) (int, error) {
	if len(shell.Args) > 0 {
		return v.run(ctx, shell, v.user)
	}
	for _, name := range shells {
		asked := *shell
		asked.Args = []string{name}
		if v.has(ctx, name) {
			return v.run(ctx, &asked, v.user)
		}
	}
	if err := v.Err(); err != nil {
		return -1, err
	}
	return -1, &executor.UserError{Message: "the job's image has no shell", Hint: "name a program that is in it"}
}

// has reports whether the sandbox has a file.
func (v *environment) has(ctx context.Context, name string) bool {
	_, err := v.files(v.user).Stat(ctx, name)
	return err == nil
}

// run runs a command as a user of the sandbox.
func (v *environment) run(ctx context.Context, shell *executor.Shell, as user) (int, error) {
	if err := v.Err(); err != nil {
		return -1, err
	}
	ctx, end := v.Within(ctx)
	defer end()
	dir := shell.Dir
	if dir == "" {
		dir = v.layout.Project
	}
	p := v.process(shell.Args, dir, shell.Env)
	p.User, p.Capabilities = as, rightsOf(as.UID)
	c := &host.Command{Stdin: shell.Stdin, Stdout: shell.Stdout, Stderr: shell.Stderr}
	if shell.Terminal {
		p.Terminal, c.Stderr = true, nil
		p.Env = append(p.Env, "TERM=xterm")
		c.Terminal = &host.Terminal{}
		if shell.Resize != nil {
			select {
			case size := <-shell.Resize:
				c.Terminal.Size = host.Size(size)
			case <-ctx.Done():
				return -1, context.Cause(ctx)
			}
		}
	}
	running, err := v.at.exec(ctx, p, c)
	if err != nil {
		return -1, v.failed(fmt.Errorf("opening a shell in the sandbox: %w", err))
	}
	ended := make(chan struct{})
	defer close(ended)
	go resize(running, shell.Resize, ended)
	code, err := running.Wait()
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	return code, v.failed(err)
}

// resize hands sizes on to a terminal until it has ended.
func resize(p host.Process, sizes <-chan executor.Size, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case size, open := <-sizes:
			if !open {
				return
			}
			_ = p.Resize(host.Size(size)) // a terminal of another size is one, too
		}
	}
}

// files are the files of the sandbox, as one of its users sees them: `step-runner host` in it does the work.
func (v *environment) files(as user) *remotefiles.Client {
	return &remotefiles.Client{Run: func(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (int, error) {
		return v.run(ctx, &executor.Shell{Args: append([]string{programFile, "host"}, args...), Dir: "/", Stdin: in, Stdout: out, Stderr: errs}, as)
	}}
}

// Send unpacks an archive in the sandbox, as the job's user.
func (v *environment) Send(ctx context.Context, dir string, in io.Reader) error {
	if !path.IsAbs(dir) {
		return fmt.Errorf("files are sent to a folder by its absolute path, not %q", dir)
	}
	if err := v.files(v.user).Unpack(ctx, dir, in); err != nil {
		return v.failed(fmt.Errorf("sending files to the sandbox: %w", err))
	}
	return nil
}

// Fetch packs files in the sandbox, as its root.
func (v *environment) Fetch(ctx context.Context, name string, out io.Writer) error {
	if !path.IsAbs(name) {
		return fmt.Errorf("files are fetched by their absolute path, not %q", name)
	}
	return v.failed(v.files(user{}).Pack(ctx, path.Clean(name), out))
}
