package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// sendTrace sends the trace of the run. It is made when somebody asks for it: most runs are never asked for theirs.
func (r *run) sendTrace(ctx context.Context, incomplete bool, send func([]byte) error) error {
	over := r.finished()
	if !over && !incomplete {
		return failedPrecondition("the run goes on, and its trace is not complete").hinted("wait for its end, or ask for the incomplete trace")
	}
	file, err := r.openTrace(over)
	if err != nil {
		return err
	}
	defer file.Close()
	buf := make([]byte, maxChunk)
	for ctx.Err() == nil {
		n, err := file.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return internal("reading the trace: %v", err)
		}
		if err := send(buf[:n]); err != nil {
			return err
		}
	}
	return contextError(ctx)
}

// openTrace makes the trace, unless it is there already, and opens it. That of a run that goes on is not kept.
func (r *run) openTrace(over bool) (*os.File, error) {
	r.traceMu.Lock()
	defer r.traceMu.Unlock()
	path := r.trace
	if over {
		if file, err := os.Open(path); err == nil {
			return file, nil
		}
	}
	if err := r.writeTrace(path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, internal("reading the trace: %v", err)
	}
	if !over {
		_ = os.Remove(path) // where that fails, the next one takes its place
	}
	return file, nil
}

// writeTrace makes a trace of what is spooled by now.
func (r *run) writeTrace(path string) error {
	rec, err := trace.NewRecorder(path, trace.Options{RuntimeDigest: r.service.opts.RuntimeDigest})
	if err != nil {
		return internal("%v", err)
	}
	size, _, _ := r.events.extent()
	in := recordReader{spool: r.events}
	in.upTo(size)
	for err == nil && in.offset < size {
		var kind byte
		var body []byte
		if kind, body, err = in.next(); err == nil {
			err = r.replay(rec, kind, body)
		}
	}
	closed := rec.Close()
	switch {
	case err != nil:
		err = readError(err)
	case closed != nil:
		err = internal("%v", closed)
	default:
		return nil
	}
	_ = os.Remove(path)
	_ = os.Remove(path + trace.EventsSuffix)
	return err
}

// replay gives the event of a record to a recorder.
func (r *run) replay(rec *trace.Recorder, kind byte, body []byte) error {
	if kind == recordLog {
		p, err := decodePiece(body)
		if err != nil {
			return err
		}
		data := make([]byte, p.size)
		if err := r.read(data, p.at); err != nil {
			return err
		}
		rec.Event(event.Event{Seq: p.seq, Time: p.time.UTC(), Step: p.step, Body: event.Log{Stream: p.stream, Offset: p.offset, Data: data}})
		return nil
	}
	var message runnerv1.Event
	if err := proto.Unmarshal(body, &message); err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	decoded, err := event.DecodeBody(message.GetType(), []byte(message.GetBody()))
	if err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	e := event.Event{Seq: message.GetSeq(), Time: message.GetTime().AsTime(), Step: message.GetStep(), Body: decoded}
	if _, last := decoded.(event.RunFinished); last {
		if _, _, cut := r.log.extent(); cut != nil {
			lost := event.Warning{Message: fmt.Sprintf("the logs are not complete, the service could not keep the rest: %v", cut)}
			rec.Event(event.Event{Seq: e.Seq, Time: e.Time, Body: lost})
		}
	}
	rec.Event(e)
	return nil
}
