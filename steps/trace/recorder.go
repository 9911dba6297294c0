package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rungci/rung/internal/lockedfile"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

const (
	// flushDelay is how long log data may be in memory only. Every other event is written at once.
	flushDelay = 500 * time.Millisecond
	// flushSize is how much of the event log, and of the log, is written at a time, in bytes.
	flushSize = 256 << 10
)

// Options configure a Recorder.
type Options struct {
	// RuntimeDigest returns the digest of the program that runs the steps. It is called once, by Close.
	RuntimeDigest func() string
	// Volatile skips syncing the document to disk: a power failure may lose it. For traces that are made by the way, of many runs.
	Volatile bool
	// Adopt takes over the trace of a run that goes on though the process that recorded it is gone: SharedLog returns the log file that the
	// step-runner still appends to. The recorder has to be given the run's events from the first one on.
	Adopt bool
}

// Recorder is an event.Sink that writes a trace. Close may be called while a late event arrives; otherwise events come one at
// a time, as event.Sink requires.
type Recorder struct {
	path   string
	events string // the name of the event log
	opts   Options

	mu      sync.Mutex
	file    *os.File // the event log
	buf     []byte   // lines not written yet
	size    int64    // of the event log, whole lines only
	log     logWriter
	embed   int64 // MaxEmbeddedLog, but in tests
	tree    *builder
	started bool        // the run's first event arrived
	timer   *time.Timer // writes buf after flushDelay
	armed   bool
	closed  bool
	err     error // the first failure; nothing is recorded after it
}

// NewRecorder starts a trace at path. The folder must exist. An existing trace at path stays until Close replaces it; what a
// run that was killed has left at path is removed. A run that still writes there is not disturbed: the trace is that of whichever ends last.
func NewRecorder(path string, opts Options) (*Recorder, error) {
	if err := checkTarget(path); err != nil {
		return nil, err
	}
	claim := claimEvents
	if opts.Adopt {
		claim = adoptEvents
	}
	file, events, err := claim(path)
	if err != nil {
		return nil, fmt.Errorf("cannot record the trace: %w", err)
	}
	r := &Recorder{path: path, events: events, opts: opts, file: file, tree: newBuilder(), log: logWriter{path: events + LogSuffix}, embed: MaxEmbeddedLog}
	r.timer = time.AfterFunc(time.Hour, r.flushLate)
	r.timer.Stop()
	return r, nil
}

// SharedLog creates the file that takes the log of the run and returns its absolute path, for a step-runner on the same file system that
// appends the log to it. From then on the recorder expects the data of every log event, in order, to be in that file before the event
// arrives, and does not write it again.
func (r *Recorder) SharedLog() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log.shared || r.log.file != nil {
		return "", errors.New("the trace has a log file already")
	}
	path, err := filepath.Abs(r.log.path)
	switch {
	case err != nil:
	case r.opts.Adopt:
		r.log.file, err = os.OpenFile(path, os.O_RDWR, 0)
	default:
		err = r.log.create()
	}
	if err != nil {
		return "", fmt.Errorf("cannot record the log: %w", err)
	}
	r.log.shared = true
	return path, nil
}

// checkTarget finds out early that the trace could not be written in the end.
func checkTarget(path string) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot record the trace in %s: the folder %s does not exist; create it first", path, dir)
	} else if err != nil {
		return fmt.Errorf("cannot record the trace: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("cannot record the trace in %s: %s is not a folder", path, dir)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot record the trace: %w", err)
	case info.IsDir():
		return fmt.Errorf("cannot record the trace in %s: it is a folder; give the name of a file in it", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot record the trace in %s: it is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot record the trace: %w", err)
	}
	return f.Close()
}

// Event records an event. It never fails: see Err.
func (r *Recorder) Event(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.closed {
		return
	}
	if log, ok := e.Body.(event.Log); ok {
		at, err := r.log.add(log.Data)
		if err != nil {
			if r.log.shared {
				r.flush() // the pieces before, which are there
			}
			if r.err == nil {
				r.fail(err)
			}
			return
		}
		r.buf = appendLogLine(r.buf, &e, &log, at)
		r.tree.log(e.Step, e.Time, log.Data)
		if len(r.buf) >= flushSize {
			r.flush()
		} else if !r.armed {
			r.armed = true
			r.timer.Reset(flushDelay)
		}
		return
	}
	e = withoutSpans(e)
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		r.fail(fmt.Errorf("encoding event %d: %w", e.Seq, err))
		return
	}
	r.buf = append(r.buf, line.Bytes()...)
	r.started = true
	r.tree.event(e)
	if _, often := e.Body.(event.Progress); !often || len(r.buf) >= flushSize {
		r.flush()
	}
}

// withoutSpans takes the places out of the components in an event: a trace depends on what a definition means, and a field
// with a place does not read back as the same field.
func withoutSpans(e event.Event) event.Event {
	switch body := e.Body.(type) {
	case event.RunStarted:
		body.Component = plan.Bare(body.Component)
		e.Body = body
	case event.StepResolved:
		body.Component = plan.Bare(body.Component)
		e.Body = body
	}
	return e
}

// flush writes what is in memory: the log first, so that no line refers to data that is not there. On failure the event log is cut back
// to its last whole line.
func (r *Recorder) flush() {
	if r.err != nil || len(r.buf) == 0 {
		return
	}
	r.armed = false
	if err := r.log.flush(); err != nil {
		r.fail(err)
		return
	}
	n, err := r.file.Write(r.buf)
	if err != nil {
		r.size += int64(bytes.LastIndexByte(r.buf[:n], '\n') + 1)
		r.fail(err)
		if err := r.file.Truncate(r.size); err != nil {
			r.err = errors.Join(r.err, err)
		}
		return
	}
	r.size += int64(n)
	if r.buf = r.buf[:0]; cap(r.buf) > 2*flushSize { // of a long event
		r.buf = nil
	}
}

// flushLate writes log data that no other event has followed.
func (r *Recorder) flushLate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.flush()
	}
}

// fail records the first failure and stops the recording.
func (r *Recorder) fail(err error) {
	r.buf = nil
	r.err = fmt.Errorf("the trace ends early: %w; what was recorded until then is in %s", err, r.events)
}

// Err returns the first failure, nil when the recording is whole so far.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close writes the trace and removes the event log. After a failure the event log and the log file stay and can be read as the trace of an
// unfinished run. When no event arrived there is nothing to write.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	r.flush()
	r.closed = true
	r.timer.Stop()
	defer r.log.close()
	if r.err == nil && r.started {
		if err := r.writeDocument(); err != nil {
			r.err = fmt.Errorf("cannot write the trace: %w; what was recorded is in %s", err, r.events)
		}
	}
	if r.err != nil {
		_ = lockedfile.Close(r.file)
		return r.err
	}
	r.log.remove()
	_ = lockedfile.CloseRemoved(r.file, r.events) // the last: as long as it is locked, the names are this run's
	return nil
}

// writeDocument replaces the trace at once, or not at all. A log of up to MaxEmbeddedLog bytes becomes part of the document; the file of a
// longer one is renamed to be beside it.
func (r *Recorder) writeDocument() (err error) {
	t := r.tree.finish()
	if r.opts.RuntimeDigest != nil {
		t.Runtime.Digest = r.opts.RuntimeDigest()
	}
	if err := r.log.settle(!r.opts.Volatile); err != nil {
		return err
	}
	beside := r.log.size > r.embed
	source := &eventLog{log: r.log.file, each: func(visit visitor) error {
		if r.log.size == 0 { // all events, for nothing
			return nil
		}
		_, err := scan(io.NewSectionReader(r.file, 0, r.size), decodeHeading, visit)
		return err
	}}
	t.setLogs(source)
	tmp, err := os.CreateTemp(filepath.Dir(r.path), filepath.Base(r.path)+".*.tmp") // mode 0600
	if err != nil {
		return wholefile.Named(err, "", r.path)
	}
	defer func() {
		if err = wholefile.Named(err, tmp.Name(), r.path); err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if beside {
		err = writeIndex(tmp, t, source, r.log.size)
	} else {
		err = write(tmp, t)
	}
	if err == nil && !r.opts.Volatile {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if beside {
		if err := r.log.publish(r.path + LogSuffix); err != nil {
			return err
		}
		return os.Rename(tmp.Name(), r.path)
	}
	if err := os.Rename(tmp.Name(), r.path); err != nil {
		return err
	}
	_ = os.Remove(r.path + LogSuffix) // of the trace that was replaced
	return nil
}
