package service

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// The spool of events is a sequence of records: the length of what follows as a varint, a byte that says what it is, and
// either an Event message or, for a piece of a log, a few varints. The data of the piece stands in the spool of the log.
const (
	recordEvent byte = 'e'
	recordLog   byte = 'l'
)

// piece is a piece of a log as its record has it.
type piece struct {
	seq    int64
	time   time.Time
	stream event.Stream
	offset int64 // in the step's log
	at     int64 // in the spool of the log
	size   int64
	step   string
}

var errRecord = errors.New("the spool of events is damaged")

// appendLogRecord appends the record of a piece of log that stands at a place of the log's spool.
func appendLogRecord(buf []byte, e *event.Event, l *event.Log, at int64) []byte {
	var body [8 * binary.MaxVarintLen64]byte
	b := append(body[:0], recordLog)
	stream := int64(runnerv1.Stream_STREAM_STDOUT)
	if l.Stream == event.Stderr {
		stream = int64(runnerv1.Stream_STREAM_STDERR)
	}
	for _, n := range [...]int64{e.Seq, e.Time.UnixNano(), stream, l.Offset, at, int64(len(l.Data))} {
		b = binary.AppendVarint(b, n)
	}
	b = append(b, e.Step...)
	return append(binary.AppendUvarint(buf, uint64(len(b))), b...)
}

// appendEventRecord appends the record of an event that is not a piece of a log.
func appendEventRecord(buf []byte, e *event.Event) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(withoutSpans(e.Body)); err != nil {
		return buf, err
	}
	message := &runnerv1.Event{
		Seq: e.Seq, Time: timestamppb.New(e.Time), Type: e.Body.Type(), Step: e.Step,
		Body: clean(string(bytes.TrimSuffix(body.Bytes(), []byte("\n")))),
	}
	buf = binary.AppendUvarint(buf, uint64(1+proto.Size(message)))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(append(buf, recordEvent), message)
}

// withoutSpans takes the places out of the components in an event, as the trace does: a field with a place does not read back
// as the same field.
func withoutSpans(body event.Body) event.Body {
	switch b := body.(type) {
	case event.RunStarted:
		b.Component = plan.Bare(b.Component)
		return b
	case event.StepResolved:
		b.Component = plan.Bare(b.Component)
		return b
	}
	return body
}

// decodePiece reads the record of a piece of log, without its length and first byte.
func decodePiece(data []byte) (piece, error) {
	var numbers [6]int64
	for i := range numbers {
		n, size := binary.Varint(data)
		if size <= 0 {
			return piece{}, errRecord
		}
		numbers[i], data = n, data[size:]
	}
	p := piece{seq: numbers[0], time: time.Unix(0, numbers[1]), offset: numbers[3], at: numbers[4], size: numbers[5], step: string(data)}
	p.stream = event.Stdout
	if numbers[2] == int64(runnerv1.Stream_STREAM_STDERR) {
		p.stream = event.Stderr
	}
	return p, nil
}

// recordReader reads the records of a spool in order.
type recordReader struct {
	spool  *spool
	offset int64
	in     *bufio.Reader
	buf    []byte
}

// recordBuffer is how much of the spool of events is read at a time, in bytes.
const recordBuffer = 32 << 10

// upTo makes the records up to an extent of the spool readable.
func (r *recordReader) upTo(size int64) {
	section := io.NewSectionReader(r.spool, r.offset, size-r.offset)
	if r.in == nil {
		r.in = bufio.NewReaderSize(section, recordBuffer)
	} else {
		r.in.Reset(section)
	}
}

// next returns the kind and the body of the next record, io.EOF when there is none. The body is valid until the next call.
func (r *recordReader) next() (kind byte, body []byte, err error) {
	length, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, nil, err
	}
	if length == 0 {
		return 0, nil, errRecord
	}
	if uint64(cap(r.buf)) < length {
		r.buf = make([]byte, length)
	}
	r.buf = r.buf[:length]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	r.offset += int64(length) + int64(uvarintSize(length))
	return r.buf[0], r.buf[1:], nil
}

func uvarintSize(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
