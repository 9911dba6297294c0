package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
)

// LogOptions say what of a log is wanted.
type LogOptions struct {
	Offset int64  // how many bytes to leave out
	Step   string // the id of one step, "2.1"; empty is all
}

// FollowLogs copies the log of a run to w, byte for byte, until the run ends. It returns where it ended, whatever the error: the
// offset to go on at.
func (c *Client) FollowLogs(ctx context.Context, id string, w io.Writer, o LogOptions) (int64, error) {
	err := again(ctx, func() (progress bool, err error) {
		ctx, cancel := context.WithCancel(ctx) // ends the stream when w fails
		defer cancel()
		stream, err := c.api.FollowLogs(ctx, &runnerv1.FollowLogsRequest{Id: id, Offset: o.Offset, Step: o.Step})
		if err != nil {
			return false, err
		}
		for {
			piece, err := stream.Recv()
			if err != nil {
				return progress, err
			}
			progress = true
			n, err := w.Write(piece.GetData())
			o.Offset += int64(n)
			if err != nil {
				return progress, &localError{err}
			}
		}
	})
	return o.Offset, callError("following the log of", id, err)
}

// StepOptions say which events are wanted.
type StepOptions struct {
	After int64 // how many to leave out: the Seq of the last one that is known
	Logs  bool  // pieces of logs are wanted, too
	// LogFile is the Request.LogFile of the run: pieces of logs are read from it, and only their places cross the connection. The Data of a
	// piece is then valid until visit returns.
	LogFile string
	// Most bounds what is reported. Beyond it the error is ErrTooMuch.
	Most Reported
}

// Reported is how much was reported of a run, in bytes. As a limit, 0 is none.
type Reported struct {
	Log    int64
	Events int64 // all others, those of unknown types included
}

// add counts an event. One without content takes memory and disk, too.
func (r *Reported) add(m *runnerv1.Event) {
	const least = 16
	if l := m.GetLog(); l != nil {
		r.Log += least + max(int64(len(l.GetData())), l.GetSize())
		return
	}
	r.Events += least + int64(len(m.GetBody())+len(m.GetStep())+len(m.GetType()))
}

// within returns ErrTooMuch when it exceeds a limit.
func (r *Reported) within(most Reported) error {
	switch {
	case most.Log > 0 && r.Log > most.Log:
		return fmt.Errorf("%w: a log of more than %d bytes", ErrTooMuch, most.Log)
	case most.Events > 0 && r.Events > most.Events:
		return fmt.Errorf("%w: more than %d bytes beside its log", ErrTooMuch, most.Events)
	}
	return nil
}

// FollowSteps calls visit with what happens in a run, in order, until the run ends. Events of a type that this version does not
// know are left out. It returns the number of the last event, whatever the error: where to go on.
func (c *Client) FollowSteps(ctx context.Context, id string, o StepOptions, visit func(event.Event) error) (int64, error) {
	var pieces *pieceReader
	if o.Logs && o.LogFile != "" {
		file, err := os.Open(o.LogFile)
		if err != nil {
			return o.After, callError("following", id, &localError{err})
		}
		defer file.Close()
		pieces = &pieceReader{file: file, first: o.After == 0}
	}
	var reported Reported
	err := again(ctx, func() (progress bool, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.api.FollowSteps(ctx, &runnerv1.FollowStepsRequest{Id: id, After: o.After, Logs: o.Logs, LogPlaces: pieces != nil})
		if err != nil {
			return false, err
		}
		for {
			batch, err := stream.Recv()
			if err != nil {
				return progress, err
			}
			for _, message := range batch.GetEvents() {
				progress = true
				reported.add(message)
				if err := reported.within(o.Most); err != nil {
					return progress, &localError{err}
				}
				if err := pieces.fill(message.GetLog()); err != nil {
					return progress, &localError{err}
				}
				if e, known := fromEvent(message); known {
					if err := visit(e); err != nil {
						return progress, &localError{err}
					}
				}
				o.After = message.GetSeq()
			}
		}
	})
	return o.After, callError("following", id, err)
}

// maxPiece bounds a piece of a log that is read from a file, in bytes; no server makes longer ones.
const maxPiece = 4 << 20

// pieceReader reads the data of pieces of a log from a file.
type pieceReader struct {
	file  *os.File
	first bool  // no piece came before
	next  int64 // where the next piece begins, once first is false and one came
	known bool
	buf   []byte
}

// fill adds the data to a piece that came without it: all but those that the file could not take. Pieces follow each other in the file without gaps.
func (p *pieceReader) fill(l *runnerv1.Log) error {
	if p == nil || l == nil {
		return nil
	}
	at, size, data := l.GetAt(), l.GetSize(), int64(len(l.GetData()))
	if (p.known || p.first) && at != p.next || at < 0 || size <= 0 || size > maxPiece || data > 0 && data != size {
		return fmt.Errorf("the step-runner does not keep the log in %s: a piece of %d bytes is at %d", p.file.Name(), size, at)
	}
	p.known, p.next = true, at+size
	if data > 0 { // the file could not take it
		return nil
	}
	if int64(cap(p.buf)) < size {
		p.buf = make([]byte, size)
	}
	l.Data = p.buf[:size]
	if _, err := p.file.ReadAt(l.Data, at); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	return nil
}

func fromEvent(m *runnerv1.Event) (event.Event, bool) {
	e := event.Event{Seq: m.GetSeq(), Time: m.GetTime().AsTime(), Step: m.GetStep()}
	if l := m.GetLog(); l != nil {
		stream := event.Stdout
		if l.GetStream() == runnerv1.Stream_STREAM_STDERR {
			stream = event.Stderr
		}
		e.Body = event.Log{Stream: stream, Offset: l.GetOffset(), Data: l.GetData()}
		return e, true
	}
	body, err := event.DecodeBody(m.GetType(), []byte(m.GetBody()))
	e.Body = body
	return e, err == nil
}

// GetTrace copies the trace of a run, a JSON document, to w. incomplete allows that of a run that has not ended.
func (c *Client) GetTrace(ctx context.Context, id string, w io.Writer, incomplete bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.api.GetTrace(ctx, &runnerv1.GetTraceRequest{Id: id, Incomplete: incomplete})
	for err == nil {
		var piece *runnerv1.GetTraceResponse
		if piece, err = stream.Recv(); err == nil {
			if _, failure := w.Write(piece.GetData()); failure != nil {
				err = &localError{failure}
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return callError("getting the trace of", id, err)
}

// localError is an error of the caller's own.
type localError struct{ err error }

func (e *localError) Error() string { return fmt.Sprintf("passing it on: %v", e.err) }
func (e *localError) Unwrap() error { return e.err }

// again follows a stream to its end, and begins anew, where it was, whenever the connection is lost.
func again(ctx context.Context, follow func() (progress bool, err error)) error {
	wait := retryFirst
	for {
		progress, err := follow()
		var local *localError
		if errors.As(err, &local) { // which may be an io.EOF, too
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
			return err
		}
		if progress {
			wait = retryFirst
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		wait = min(2*wait, retryMost)
	}
}
