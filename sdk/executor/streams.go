package executor

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

// writer sends what is written to it in pieces.
type writer func([]byte) error

// Write implements io.Writer.
func (w writer) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(len(p), n+wire.Chunk)]
		if err := w(piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// reader reads what pieces arrive.
type reader struct {
	next func() ([]byte, error)
	rest []byte
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		var err error
		if r.rest, err = r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Connect implements executorv1.ExecutorServer.
func (s *server) Connect(stream grpc.BidiStreamingServer[executorv1.ConnectRequest, executorv1.ConnectResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	var conn net.Conn
	err = s.with(ctx, first.GetEnvironment(), func(env Environment) (err error) {
		conn, err = env.Connect(ctx)
		return err
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() { stop(); _ = conn.Close() }()
	if err := stream.Send(&executorv1.ConnectResponse{}); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(conn, &reader{next: func() ([]byte, error) {
			m, err := stream.Recv()
			return m.GetData(), err
		}})
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			_ = half.CloseWrite()
		} else {
			_ = conn.Close()
		}
	}()
	// Its own buffer is as large as a message; a connection that copies by itself would use smaller ones.
	_, err = io.CopyBuffer(writer(func(p []byte) error { return stream.Send(&executorv1.ConnectResponse{Data: p}) }), struct{ io.Reader }{conn}, make([]byte, wire.Chunk))
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return wire.Status(err)
}

// Send implements executorv1.ExecutorServer.
func (s *server) Send(stream grpc.ClientStreamingServer[executorv1.SendRequest, executorv1.SendResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	archive := &reader{rest: first.GetData(), next: func() ([]byte, error) {
		m, err := stream.Recv()
		return m.GetData(), err
	}}
	err = s.with(stream.Context(), first.GetEnvironment(), func(env Environment) error {
		err := env.Send(stream.Context(), first.GetDir(), archive)
		if err == nil {
			_, err = io.Copy(io.Discard, archive) // what follows the end of the archive
		}
		return err
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&executorv1.SendResponse{})
}

// Fetch implements executorv1.ExecutorServer.
func (s *server) Fetch(request *executorv1.FetchRequest, stream grpc.ServerStreamingServer[executorv1.FetchResponse]) error {
	return s.with(stream.Context(), request.GetEnvironment(), func(env Environment) error {
		return env.Fetch(stream.Context(), request.GetPath(), writer(func(p []byte) error { return stream.Send(&executorv1.FetchResponse{Data: p}) }))
	})
}

// Shell implements executorv1.ExecutorServer.
func (s *server) Shell(stream grpc.BidiStreamingServer[executorv1.ShellRequest, executorv1.ShellResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	var mu sync.Mutex // of sending
	send := func(m *executorv1.ShellResponse) error {
		mu.Lock()
		defer mu.Unlock()
		return stream.Send(m)
	}
	resize := make(chan executor.Size, 16)
	stdin, typed := io.Pipe()
	defer stdin.Close()
	shell := &Shell{
		Args: first.GetArgs(), Dir: first.GetDir(), Env: first.GetEnv(), Terminal: first.GetTerminal(), Stdin: stdin,
		Stdout: writer(func(p []byte) error { return send(&executorv1.ShellResponse{Stdout: p}) }),
		Stderr: writer(func(p []byte) error { return send(&executorv1.ShellResponse{Stderr: p}) }),
	}
	if shell.Terminal && first.GetSize() != nil {
		shell.Resize = resize
		resize <- size(first.GetSize())
	}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil || m.GetEnd() {
				_ = typed.Close()
			}
			if err != nil {
				return
			}
			if m.GetSize() != nil {
				select {
				case resize <- size(m.GetSize()):
				default: // the next one counts
				}
			}
			if len(m.GetStdin()) > 0 {
				_, _ = typed.Write(m.GetStdin()) // one that ended reads nothing
			}
		}
	}()
	return s.with(stream.Context(), first.GetEnvironment(), func(env Environment) error {
		code, err := env.Shell(stream.Context(), shell)
		if err != nil {
			return err
		}
		return send(&executorv1.ShellResponse{Ended: true, ExitCode: int64(code)})
	})
}

func size(m *executorv1.Size) executor.Size {
	return executor.Size{Columns: uint16(m.GetColumns()), Rows: uint16(m.GetRows())}
}
