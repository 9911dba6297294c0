package service

import (
	"bufio"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// sendTrace sends the trace of the run as one document. It is made of the spools while it is sent, and is never on disk.
func (r *run) sendTrace(ctx context.Context, incomplete bool, send func([]byte) error) error {
	if !r.finished() && !incomplete {
		return failedPrecondition("the run has not ended, so its trace is incomplete").hinted("wait for its end, or ask for the incomplete trace")
	}
	size, _, _ := r.events.extent()
	t, err := trace.Of(func(visit func(event.Event) error) error { return r.replay(ctx, size, visit) },
		trace.Options{RuntimeDigest: r.service.opts.RuntimeDigest})
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(sender(send), maxChunk)
	if err = trace.Export(out, "json", t); err == nil {
		err = out.Flush()
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return err
}

// sender sends what is written.
type sender func([]byte) error

func (s sender) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxChunk)
		if err := s(rest[:n]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// replay calls visit with the events that are in so many bytes of the spool.
func (r *run) replay(ctx context.Context, size int64, visit func(event.Event) error) error {
	in := recordReader{spool: r.events}
	in.upTo(size)
	var data []byte
	for in.offset < size {
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		kind, body, err := in.next()
		if err != nil {
			return readError(err)
		}
		var e event.Event
		if kind == recordLog {
			e, data, err = r.logEvent(body, data)
		} else {
			e, err = decodeEvent(body)
			err = readError(err)
		}
		if err != nil {
			return err
		}
		if _, last := e.Body.(event.RunFinished); last {
			if _, _, cut := r.log.extent(); cut != nil {
				lost := event.Warning{Message: fmt.Sprintf("the logs are incomplete because the service could not store the rest: %v", cut)}
				if err := visit(event.Event{Seq: e.Seq, Time: e.Time, Body: lost}); err != nil {
					return err
				}
			}
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// logEvent makes the event of a piece of log, whose data replaces what is in buf.
func (r *run) logEvent(body, buf []byte) (event.Event, []byte, error) {
	p, err := decodePiece(body)
	if err != nil {
		return event.Event{}, buf, readError(err)
	}
	if int64(cap(buf)) < p.size {
		buf = make([]byte, p.size)
	}
	buf = buf[:p.size]
	if err := r.read(buf, p.at); err != nil {
		return event.Event{}, buf, err
	}
	return event.Event{Seq: p.seq, Time: p.time.UTC(), Step: p.step, Body: event.Log{Stream: p.stream, Offset: p.offset, Data: buf}}, buf, nil
}

// decodeEvent reads the record of any other event.
func decodeEvent(body []byte) (event.Event, error) {
	var message runnerv1.Event
	if err := proto.Unmarshal(body, &message); err != nil {
		return event.Event{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	decoded, err := event.DecodeBody(message.GetType(), []byte(message.GetBody()))
	if err != nil {
		return event.Event{}, fmt.Errorf("%w: %w", errRecord, err)
	}
	return event.Event{Seq: message.GetSeq(), Time: message.GetTime().AsTime(), Step: message.GetStep(), Body: decoded}, nil
}
