package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
)

// maxChunk is how much is sent at a time, in bytes. A client that does not read holds a few of these, and no more, of the
// server's memory.
const maxChunk = 32 << 10

// followLog sends the log from an offset until the run ends.
func (r *run) followLog(ctx context.Context, offset int64, send func([]byte) error) error {
	if offset < 0 {
		return invalid("the offset %d is negative", offset)
	}
	buf := make([]byte, maxChunk)
	for {
		size, done, cut, err := r.log.await(ctx, offset)
		if err != nil {
			return err
		}
		for offset < size {
			data := buf[:min(size-offset, maxChunk)]
			if err := r.read(data, offset); err != nil {
				return err
			}
			if err := send(data); err != nil {
				return err
			}
			offset += int64(len(data))
		}
		if cut != nil {
			return logCut(cut)
		}
		if done {
			return nil
		}
	}
}

// read fills data from the spool of the log.
func (r *run) read(data []byte, offset int64) error {
	_, err := r.log.ReadAt(data, offset)
	return readError(err)
}

// readError is the error of a spool that cannot be read.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrClosed):
		return notFound("the run was closed")
	default:
		return internal("reading the stored run: %v", err)
	}
}

// logCut is the error of a log whose rest is lost.
func logCut(cut error) error {
	return dataLoss("the log ends here because the rest could not be stored: %v; the run continues", cut)
}

// followStepLog sends the log of one step, of which the client has so many bytes.
func (r *run) followStepLog(ctx context.Context, step string, skip int64, send func([]byte) error) error {
	if skip < 0 {
		return invalid("the offset %d is negative", skip)
	}
	buf := make([]byte, maxChunk)
	err := r.records(ctx, func(kind byte, body []byte) error {
		if kind != recordLog {
			return nil
		}
		p, err := decodePiece(body)
		if err != nil || p.step != step {
			return err
		}
		if skip >= p.size {
			skip -= p.size
			return nil
		}
		for at, end := p.at+skip, p.at+p.size; at < end; {
			data := buf[:min(end-at, maxChunk)]
			if err := r.read(data, at); err != nil {
				return err
			}
			if err := send(data); err != nil {
				return err
			}
			at += int64(len(data))
		}
		skip = 0
		return nil
	}, nil)
	if err != nil {
		return err
	}
	if _, _, cut := r.log.extent(); cut != nil {
		return logCut(cut)
	}
	return nil
}

// records calls visit with every record until the run ends. pause, if any, is called whenever there is no more at the moment.
func (r *run) records(ctx context.Context, visit func(kind byte, body []byte) error, pause func() error) error {
	in := recordReader{spool: r.events}
	for {
		size, done, cut, err := r.events.await(ctx, in.offset)
		if err != nil {
			return err
		}
		in.upTo(size)
		for {
			kind, body, err := in.next()
			if errors.Is(err, io.EOF) && in.offset == size {
				break
			}
			if err != nil {
				return readError(err)
			}
			if err := visit(kind, body); err != nil {
				return err
			}
		}
		if pause != nil {
			if err := pause(); err != nil {
				return err
			}
		}
		if cut != nil {
			return dataLoss("the events end here because the rest could not be stored: %v; the run continues", cut)
		}
		if done {
			return nil
		}
	}
}

// logForm is what followers of events are sent of the log.
type logForm int

const (
	noLogs logForm = iota
	logData
	logPlaces // where the data is in the file that the client keeps, or what that could not take
)

// followEvents sends the events after one until the run ends.
func (r *run) followEvents(ctx context.Context, after int64, logs logForm, send func([]*runnerv1.Event) error) error {
	if after < 0 {
		return invalid("events are numbered from 1; there is none after %d", after)
	}
	var batch []*runnerv1.Event
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := send(batch)
		batch, size = nil, 0
		return err
	}
	return r.records(ctx, func(kind byte, body []byte) error {
		e, err := r.eventOf(kind, body, after, logs)
		if err != nil || e == nil {
			return err
		}
		batch = append(batch, e)
		if size += proto.Size(e); size >= maxChunk {
			return flush()
		}
		return nil
	}, flush)
}

// eventOf makes the message of a record, nil when it is not wanted.
func (r *run) eventOf(kind byte, body []byte, after int64, logs logForm) (*runnerv1.Event, error) {
	if kind == recordLog {
		if logs == noLogs {
			return nil, nil
		}
		p, err := decodePiece(body)
		if err != nil || p.seq <= after {
			return nil, err
		}
		stream := runnerv1.Stream_STREAM_STDOUT
		if p.stream == event.Stderr {
			stream = runnerv1.Stream_STREAM_STDERR
		}
		log := &runnerv1.Log{Stream: stream, Offset: p.offset}
		if logs == logPlaces {
			log.At, log.Size = p.at, p.size
		}
		if logs != logPlaces || r.log.diverted(p.at) {
			log.Data = make([]byte, p.size)
			if err := r.read(log.Data, p.at); err != nil {
				return nil, err
			}
		}
		return &runnerv1.Event{Seq: p.seq, Time: timestamppb.New(p.time), Type: event.Log{}.Type(), Step: p.step, Log: log}, nil
	}
	e := &runnerv1.Event{}
	if err := proto.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	if e.Seq <= after {
		return nil, nil
	}
	return e, nil
}
