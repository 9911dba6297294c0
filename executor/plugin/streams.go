package plugin

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin/wire"
)

// Connect implements executor.Environment.
func (v *environment) Connect(ctx context.Context) (net.Conn, error) {
	living, cancel := context.WithCancel(v.Lifetime())
	var stream grpc.BidiStreamingClient[executorv1.ConnectRequest, executorv1.ConnectResponse]
	err := v.during(ctx, "Connect", limits.prompt, func(c *call) error {
		stop := context.AfterFunc(c.Ctx, cancel) // ctx bounds connecting only
		defer stop()
		var err error
		if stream, err = v.process.rpc.Connect(living); err != nil {
			return err
		}
		if err = stream.Send(&executorv1.ConnectRequest{Environment: v.id}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err = stream.Recv()
		if err == nil && !stop() {
			err = context.Cause(c.Ctx)
		}
		return err
	})
	if err != nil {
		cancel()
		return nil, err
	}
	ours, theirs := net.Pipe()
	go func() {
		defer cancel()
		defer theirs.Close()
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if _, err := theirs.Write(m.GetData()); err != nil {
				return
			}
		}
	}()
	go func() {
		defer cancel() // who closes the connection reads nothing either
		buffer := make([]byte, wire.Chunk)
		for {
			n, err := theirs.Read(buffer)
			if n > 0 {
				if err := stream.Send(&executorv1.ConnectRequest{Data: buffer[:n]}); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return ours, nil
}

// Send implements executor.Environment.
func (v *environment) Send(ctx context.Context, dir string, archive io.Reader) error {
	var broken error // the archive
	err := v.during(ctx, "Send", limits.silence, func(c *call) error {
		stream, err := v.process.rpc.Send(c.Ctx)
		if err != nil {
			return err
		}
		err = stream.Send(&executorv1.SendRequest{Environment: v.id, Dir: dir})
		pieces := read(c.Ctx, archive)
		for err == nil {
			c.Rest()
			select {
			case p, open := <-pieces:
				c.Heard()
				switch {
				case !open:
					_, err = stream.CloseAndRecv()
					return err
				case p.err != nil:
					broken = p.err
					return nil // without an end: the plugin must not take a part for the whole
				}
				err = stream.Send(&executorv1.SendRequest{Data: p.data})
			case <-c.Ctx.Done():
				return context.Cause(c.Ctx)
			case <-stream.Context().Done():
				err = io.EOF
			}
		}
		if errors.Is(err, io.EOF) { // the plugin has ended the call, and says why
			_, err = stream.CloseAndRecv()
		}
		return err
	})
	return errors.Join(broken, err)
}

// piece is a part of an archive, or why there is no more.
type piece struct {
	data []byte
	err  error
}

// read reads an archive ahead. Whoever waits for it can be interrupted, which a reader cannot.
func read(ctx context.Context, archive io.Reader) <-chan piece {
	pieces := make(chan piece)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, wire.Chunk)
			n, err := archive.Read(buffer)
			for _, p := range []piece{{buffer[:n], nil}, {nil, err}} {
				if len(p.data) == 0 && p.err == nil {
					continue
				}
				if errors.Is(p.err, io.EOF) {
					return
				}
				select {
				case pieces <- p:
				case <-ctx.Done():
					return
				}
				if p.err != nil {
					return
				}
			}
		}
	}()
	return pieces
}

// Fetch implements executor.Environment.
func (v *environment) Fetch(ctx context.Context, path string, archive io.Writer) error {
	var writing error
	err := v.during(ctx, "Fetch", limits.silence, func(c *call) error {
		stream, err := v.process.rpc.Fetch(c.Ctx, &executorv1.FetchRequest{Environment: v.id, Path: path})
		for err == nil && writing == nil {
			var m *executorv1.FetchResponse
			if m, err = stream.Recv(); err == nil {
				c.Rest()
				_, writing = archive.Write(m.GetData())
				c.Heard()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	if writing != nil {
		return writing
	}
	return err
}

// Shell implements executor.Environment. A plugin that has no shells gives errors.ErrUnsupported.
func (v *environment) Shell(ctx context.Context, shell *executor.Shell) (code int, err error) {
	code = -1
	err = v.during(ctx, "Shell", limits.silence, func(c *call) error {
		c.Rest() // a person may say nothing for hours
		stream, err := v.process.rpc.Shell(c.Ctx)
		if err != nil {
			return err
		}
		first := &executorv1.ShellRequest{Environment: v.id, Args: shell.Args, Dir: shell.Dir, Env: shell.Env, Terminal: shell.Terminal}
		if shell.Terminal && shell.Resize != nil {
			select {
			case s := <-shell.Resize:
				first.Size = &executorv1.Size{Columns: uint32(s.Columns), Rows: uint32(s.Rows)}
			case <-c.Ctx.Done():
				return context.Cause(c.Ctx)
			}
		}
		if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		go talk(c.Ctx, stream, shell)
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			if err := errors.Join(write(shell.Stdout, m.GetStdout()), write(shell.Stderr, m.GetStderr())); err != nil {
				return err
			}
			if m.GetEnded() {
				code = int(m.GetExitCode())
				return nil
			}
		}
	})
	return code, err
}

func write(to io.Writer, data []byte) error {
	if to == nil || len(data) == 0 {
		return nil
	}
	_, err := to.Write(data)
	return err
}

// talk sends what a person types, and the size of the terminal, until the call ends.
func talk(ctx context.Context, stream grpc.BidiStreamingClient[executorv1.ShellRequest, executorv1.ShellResponse], shell *executor.Shell) {
	var mu sync.Mutex // of sending
	send := func(m *executorv1.ShellRequest) error {
		mu.Lock()
		defer mu.Unlock()
		return stream.Send(m)
	}
	go func() {
		resize := shell.Resize
		for {
			select {
			case <-ctx.Done():
				return
			case s, open := <-resize:
				if !open {
					resize = nil
				} else if send(&executorv1.ShellRequest{Size: &executorv1.Size{Columns: uint32(s.Columns), Rows: uint32(s.Rows)}}) != nil {
					return
				}
			}
		}
	}()
	buffer := make([]byte, wire.Chunk)
	for shell.Stdin != nil {
		n, err := shell.Stdin.Read(buffer)
		if n > 0 && send(&executorv1.ShellRequest{Stdin: buffer[:n]}) != nil {
			return
		}
		if err != nil {
			break
		}
	}
	_ = send(&executorv1.ShellRequest{End: true})
}
