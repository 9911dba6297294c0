package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rungci/rung/steps/event"
)

// readEvents reads the event log of a run that was killed or still runs.
func readEvents(path string) (*Trace, error) {
	f, info, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := newBuilder()
	size, err := scan(f, func(e event.Event) error {
		if _, first := e.Body.(event.RunStarted); !first && b.trace.Run.Started.IsZero() {
			return errors.New("the first event is not the start of a run")
		}
		b.event(e)
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
	t.logs = &eventLog{open: func() (io.ReadCloser, error) {
		f, err := same.open()
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(f, size), f}, nil
	}}
	return t, nil
}

// scan calls visit with every event of an event log, with log data that is valid until visit returns, and returns how many
// bytes hold whole events. A last line that is cut, as a kill may leave it, is no event.
func scan(r io.Reader, visit func(event.Event) error) (size int64, err error) {
	in := bufio.NewReaderSize(r, flushSize)
	var long, data []byte
	for number := 1; ; number++ {
		line, err := readLine(in, &long)
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		var e event.Event
		if l, ok := parseLogLine(line[:len(line)-1], data); ok {
			e = event.Event{Time: l.time, Step: l.step, Body: event.Log{Stream: l.stream, Data: l.data}}
			data = l.data
		} else if err := json.Unmarshal(line, &e); err != nil {
			if _, more := in.Peek(1); more != nil {
				return size, nil // torn: the last line
			}
			return size, fmt.Errorf("line %d: %w", number, err)
		}
		if err := visit(e); err != nil {
			return size, err
		}
		size += int64(len(line))
	}
}

// readLine returns the next line with its end. One that does not fit in the reader is gathered in long. What follows the
// last line end is no line.
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

// eventLog gives the logs in an event log as the chunks of a document.
type eventLog struct {
	open func() (io.ReadCloser, error)
}

func (l *eventLog) chunks(yield func(Chunk) error) error {
	in, err := l.open()
	if err != nil {
		return fmt.Errorf("reading the logs: %w", err)
	}
	defer in.Close()
	ids := newBuilder() // what happened between the logs decides the IDs of their steps
	ids.unhashed = true
	m := newMerger(yield)
	if _, err = scan(in, func(e event.Event) error {
		log, isLog := e.Body.(event.Log)
		if isLog {
			return m.add(ids.log(e.Step, e.Time, log.Data), log.Stream, e.Time, log.Data)
		}
		ids.event(e)
		if _, done := e.Body.(event.StepFinished); done {
			return m.finish(ids.id(e.Step))
		}
		return nil
	}); err != nil {
		return err
	}
	return m.close()
}
