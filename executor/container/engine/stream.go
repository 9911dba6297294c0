package engine

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
)

// Stream is a connection to a process in a container. It does not end with the context of the call that opened it.
type Stream struct {
	net.Conn // for writing, and for its deadlines
	in       *bufio.Reader
}

// Read reads what the process writes: in frames, which Demultiplex reads, unless it has a terminal.
func (s *Stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// CloseWrite ends the input of the process.
func (s *Stream) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// hijack sends a call whose connection becomes a stream.
func (c *Client) hijack(ctx context.Context, q *request) (*Stream, error) {
	ctx, cancel := within(ctx, callTime)
	defer cancel()
	q.header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}}
	r, err := c.prepare(ctx, q)
	if err != nil {
		return nil, err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	abandon := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := upgrade(conn, r)
	if !abandon() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// upgrade asks for a stream on a connection.
func upgrade(conn net.Conn, r *http.Request) (*Stream, error) {
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	bounded := &io.LimitedReader{R: conn, N: maxRefusal}
	in := bufio.NewReader(bounded)
	response, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, fmt.Errorf("reading the engine's answer: %w", err)
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		bounded.N = math.MaxInt64
		return &Stream{Conn: conn, in: in}, nil
	}
	defer response.Body.Close()
	return nil, refusal(response)
}

const (
	// frameHeader is how long the header of a frame is: its stream, three zeros, and the length of what follows.
	frameHeader = 8
	// copySize is how much of a frame is copied at a time, in bytes.
	copySize = 32 << 10
	// maxComplaint bounds what is kept of an error that the engine sends in a stream, in bytes.
	maxComplaint = 4 << 10
)

// The streams of frames.
const (
	standardInput = iota // what is echoed of it is output
	standardOutput
	standardError
	engineError
)

// Demultiplex writes what a process without a terminal writes to out and errs, until it ends. An engine's own complaint is an *Error.
func Demultiplex(out, errs io.Writer, in io.Reader) error {
	var header [frameHeader]byte
	buffer := make([]byte, copySize)
	for {
		if _, err := io.ReadFull(in, header[:]); err != nil {
			if errors.Is(err, io.EOF) { // between frames; within one it is unexpected
				return nil
			}
			return err
		}
		if header[1]|header[2]|header[3] != 0 || header[0] > engineError {
			return fmt.Errorf("the engine sends no frames, but %q", header)
		}
		frame := &io.LimitedReader{R: in, N: int64(binary.BigEndian.Uint32(header[4:]))}
		var to io.Writer
		switch header[0] {
		case standardInput, standardOutput:
			to = out
		case standardError:
			to = errs
		case engineError:
			text, err := io.ReadAll(io.LimitReader(frame, maxComplaint))
			return errors.Join(&Error{Message: strings.TrimSpace(string(text))}, err)
		}
		if _, err := io.CopyBuffer(to, frame, buffer); err != nil {
			return err
		}
		if frame.N > 0 {
			return io.ErrUnexpectedEOF
		}
	}
}
