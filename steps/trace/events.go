package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rungci/rung/steps/event"
)

// readEvents reads the event log of a run that was killed or is still running.
func readEvents(path string) (*Trace, error) {
	f, info, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	log := besideLog{path: path + LogSuffix}
	defer log.close()
	b := newBuilder()
	var data []byte
	size, err := scan(f, decodeEvent, func(e event.Event, p piece) error {
		if _, first := e.Body.(event.RunStarted); !first && b.trace.Run.Started.IsZero() {
			return errors.New("the first event is not the start of a run")
		}
		if _, isLog := e.Body.(event.Log); !isLog {
			b.event(e)
			return nil
		}
		if p.data == nil {
			var err error
			if data, err = readSpans(&log, []span{p.span}, data[:0]); err != nil {
				return err
			}
			p.data = data
		}
		b.log(e.Step, e.Time, p.data)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s is not the event log of a run: %w", path, err)
	}
	if size == 0 {
		return nil, fmt.Errorf("%s holds no event: the run was killed before it began", path)
	}
	t := b.finish()
	same := sameFile{path, info}
	t.setLogs(&eventLog{log: &besideLog{path: path + LogSuffix}, each: func(visit visitor) error {
		f, err := same.open()
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = scan(io.LimitReader(f, size), decodeHeading, visit)
		return err
	}})
	return t, nil
}

// besideLog is the log file beside a trace. It is opened when it is first read, and again after close.
type besideLog struct {
	path string
	file *os.File
}

// ReadAt implements io.ReaderAt.
func (l *besideLog) ReadAt(p []byte, at int64) (int, error) {
	if l.file == nil {
		f, err := os.Open(l.path)
		if errors.Is(err, os.ErrNotExist) {
			return 0, fmt.Errorf("the logs are in %s, which does not exist; keep the two files together", l.path)
		}
		if err != nil {
			return 0, fmt.Errorf("reading the logs: %w", err)
		}
		l.file = f
	}
	return l.file.ReadAt(p, at)
}

func (l *besideLog) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// visitor takes an event. The Data of a log event is in the piece.
type visitor func(e event.Event, p piece) error

// decodeEvent reads the line of an event.
func decodeEvent(line []byte) (e event.Event, err error) {
	err = json.Unmarshal(line, &e)
	return e, err
}

// decodeHeading does so for an event of which only the type, the time and the step are wanted: its body is empty. It takes no memory for
// what can be the whole definition of a run. Data of a log is data, not a heading.
func decodeHeading(line []byte) (event.Event, error) {
	var heading struct {
		Time time.Time `json:"time"`
		Type string    `json:"type"`
		Step string    `json:"step"`
	}
	if err := json.Unmarshal(line, &heading); err != nil {
		return event.Event{}, err
	}
	if heading.Type == (event.Log{}).Type() {
		return decodeEvent(line)
	}
	body, err := event.DecodeBody(heading.Type, []byte("{}"))
	return event.Event{Time: heading.Time, Step: heading.Step, Body: body}, err
}

// scan calls visit with every event of an event log, with pieces that are valid until visit returns, and returns how many
// bytes hold whole events. A last line that is cut, as a kill may leave it, is not an event.
func scan(r io.Reader, decode func(line []byte) (event.Event, error), visit visitor) (size int64, err error) {
	in := bufio.NewReaderSize(r, flushSize)
	var long []byte
	for number := 1; ; number++ {
		line, err := readLine(in, &long)
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		var e event.Event
		var p piece
		if l, ok := parseLogLine(line[:len(line)-1]); ok {
			e = event.Event{Time: l.time, Step: l.step, Body: event.Log{Stream: l.stream}}
			p.span = l.span
		} else if e, err = decode(line); err != nil {
			if _, more := in.Peek(1); more != nil {
				return size, nil // torn: the last line
			}
			return size, fmt.Errorf("line %d: %w", number, err)
		} else if log, ok := e.Body.(event.Log); ok { // as versions up to 0.1 wrote them
			p.data = append([]byte{}, log.Data...)
		}
		if err := visit(e, p); err != nil {
			return size, err
		}
		size += int64(len(line))
	}
}

// readLine returns the next line with its end. One that does not fit in the reader is gathered in long. What follows the
// last line end is not a line.
func readLine(in *bufio.Reader, long *[]byte) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	*long = append((*long)[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		*long = append(*long, line...)
	}
	return *long, err
}

// eventLog gives the logs of events as the chunks of a document.
type eventLog struct {
	each func(visit visitor) error
	log  io.ReaderAt // what the spans of pieces are in
}

// Of returns the trace of events that are kept elsewhere. events calls visit with each of them, in order; it is called again for every look
// at the logs, and has to give the same ones.
func Of(events func(visit func(event.Event) error) error, opts Options) (*Trace, error) {
	b := newBuilder()
	err := events(func(e event.Event) error {
		b.event(withoutSpans(e))
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := b.finish()
	if opts.RuntimeDigest != nil {
		t.Runtime.Digest = opts.RuntimeDigest()
	}
	t.setLogs(&eventLog{each: func(visit visitor) error {
		return events(func(e event.Event) error {
			if log, ok := e.Body.(event.Log); ok {
				return visit(e, piece{data: log.Data})
			}
			return visit(e, piece{})
		})
	}})
	return t, nil
}

func (l *eventLog) chunks(yield func(Chunk) error) error {
	if file, ok := l.log.(*besideLog); ok {
		defer file.close()
	}
	var data []byte
	return l.merged(func(c mergedChunk) error {
		if c.spans != nil {
			var err error
			if data, err = readSpans(l.log, c.spans, data[:0]); err != nil {
				return err
			}
			c.Data = data
		}
		return yield(c.Chunk)
	})
}

// merged calls yield with the chunks, whose data stays where it is.
func (l *eventLog) merged(yield func(mergedChunk) error) error {
	ids := newIdentities() // what happened between the logs decides the IDs of their steps
	m := newMerger(l.log, yield)
	if err := l.each(func(e event.Event, p piece) error {
		log, isLog := e.Body.(event.Log)
		if isLog {
			return m.add(ids.of(e.Step).id, log.Stream, e.Time, p)
		}
		id := ids.event(e)
		switch e.Body.(type) {
		case event.StepFinished:
			return m.finish(id)
		case event.StepRetrying:
			return m.cut(id)
		case event.Warning, event.Stopping: // the time of the next chunk says that it came later
			return m.cutAll()
		}
		return nil
	}); err != nil {
		return err
	}
	return m.close()
}
