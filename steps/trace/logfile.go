package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/internal/lockedfile"
	"github.com/rungci/rung/internal/wholefile"
)

// LogSuffix is what the name of a log file has beyond the name of the trace, or of the event log, that it belongs to.
const LogSuffix = ".log"

// MaxEmbeddedLog is up to how many bytes of logs, of all steps together, are part of the document. Longer logs stay in the file that they
// were written to, beside the document.
const MaxEmbeddedLog = 16 << 20

// logWriter appends the log of a run to a file that is created when it is first needed.
type logWriter struct {
	path   string
	shared bool // somebody else appends
	file   *os.File
	buf    []byte // not written yet
	size   int64  // all that was added
	held   int64  // how much of it the file was seen to hold, if shared
}

func (l *logWriter) create() (err error) {
	l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return err
}

// add takes what comes next and returns its position in the file.
func (l *logWriter) add(data []byte) (at int64, err error) {
	at = l.size
	l.size += int64(len(data))
	if l.shared {
		return at, l.look()
	}
	if len(data) == 0 {
		return at, nil
	}
	if len(l.buf)+len(data) > flushSize {
		if err := l.flush(); err != nil {
			return at, err
		}
	}
	if len(data) <= flushSize {
		l.buf = append(l.buf, data...)
		return at, nil
	}
	return at, l.write(data)
}

// look makes sure that a file which somebody else appends to holds what was added.
func (l *logWriter) look() error {
	if l.size <= l.held {
		return nil
	}
	info, err := l.file.Stat()
	if err == nil {
		l.held = info.Size()
		err = l.whole(l.held)
	}
	return err
}

// whole says that a file of so many bytes does not hold what was added.
func (l *logWriter) whole(bytes int64) error {
	if bytes < l.size {
		return fmt.Errorf("%s has %d bytes, and the steps logged %d: the step-runner did not keep the rest; is the disk full?", l.path, bytes, l.size)
	}
	return nil
}

// flush writes what is in memory.
func (l *logWriter) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	err := l.write(l.buf)
	l.buf = l.buf[:0]
	return err
}

func (l *logWriter) write(data []byte) error {
	if l.file == nil {
		if err := l.create(); err != nil {
			return err
		}
	}
	_, err := l.file.Write(data)
	return err
}

// settle makes sure that the file holds what was added, and nothing else.
func (l *logWriter) settle(sync bool) error {
	if l.file == nil {
		return nil
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if err := l.whole(info.Size()); err != nil {
		return err
	}
	if info.Size() > l.size { // what follows belongs to no event
		if err := l.file.Truncate(l.size); err != nil {
			return err
		}
	}
	if sync {
		return l.file.Sync()
	}
	return nil
}

// publish gives the file the name that it has beside a document. The old name stays where the file system has hard links, so that the event
// log is whole until the document has replaced it.
func (l *logWriter) publish(path string) error {
	temp := l.path + ".new"
	_ = os.Remove(temp)
	if os.Link(l.path, temp) == nil {
		return os.Rename(temp, path)
	}
	return os.Rename(l.path, path)
}

func (l *logWriter) close() {
	if l.file != nil {
		l.file.Close()
	}
}

// remove removes the name that the file has while the run goes on.
func (l *logWriter) remove() {
	if l.file != nil {
		_ = lockedfile.CloseRemoved(l.file, l.path)
	}
}

// HandOver gives a finished trace another name as well: a hard link where the file system allows one, else a copy. Nothing ever writes into
// the files of a finished trace; a new one replaces them. A pipe or a device is written to.
func HandOver(from, to string) error {
	info, err := os.Stat(to)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		return exportTo(from, to)
	case same(from, to):
		return nil
	default: // a link stays one
		if to, err = filepath.EvalSymlinks(to); err != nil {
			return err
		}
	}
	_, err = os.Stat(from + LogSuffix)
	switch {
	case err == nil:
		err = wholefile.Place(from+LogSuffix, to+LogSuffix)
	case errors.Is(err, os.ErrNotExist):
		if err = os.Remove(to + LogSuffix); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return wholefile.Place(from, to)
}

// exportTo writes the trace as one document to a pipe or a device.
func exportTo(from, to string) error {
	t, err := Read(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(out, t), out.Close())
}

func same(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// LogsBeside reports whether the logs are not part of the document but in a file beside it.
func (t *Trace) LogsBeside() bool {
	checked, _ := t.logs.(*checkedLogs)
	if checked == nil {
		return false
	}
	d, ok := checked.logSource.(*documentLogs)
	return ok && d.beside != nil
}

// ErrLogChanged says that the log of a step is not the one that was recorded.
var ErrLogChanged = errors.New("is not the one that was recorded")

// CheckLogs holds the logs against the digests that their steps have of them.
func (t *Trace) CheckLogs() error { return t.Chunks(func(Chunk) error { return nil }) }

// checkedLogs are logs with their digests, in hexadecimal, by the IDs of their steps.
type checkedLogs struct {
	logSource
	want map[string]string
}

// setLogs gives a trace, which is whole, its logs; nil are none.
func (t *Trace) setLogs(logs logSource) {
	c := &checkedLogs{logSource: logs, want: map[string]string{}}
	t.Walk(func(s *Step, _ int) {
		if s.Log != nil && s.Log.Bytes > 0 { // of nothing there may be no chunk
			c.want[s.ID] = s.Log.SHA256
		}
	})
	t.logs = c
}

func (l *checkedLogs) chunks(yield func(Chunk) error) error {
	sums := map[string]hash.Hash{}
	if l.logSource != nil {
		if err := l.logSource.chunks(func(c Chunk) error {
			sum := sums[c.Step]
			if sum == nil && len(c.Data) > 0 {
				sum = sha256.New()
				sums[c.Step] = sum
			}
			if sum != nil {
				sum.Write(c.Data)
			}
			return yield(c)
		}); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		if hex.EncodeToString(sums[id].Sum(nil)) != l.want[id] {
			return fmt.Errorf("the log of the step %s %w", id, ErrLogChanged)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.want)) {
		if sums[id] == nil {
			return fmt.Errorf("the log of the step %s %w: it is missing", id, ErrLogChanged)
		}
	}
	return nil
}

// span is a range of bytes in a log file.
type span struct{ at, size int64 }

// errShortLog is what is wrong with a log file that does not hold what its trace refers to.
var errShortLog = errors.New("the log file is shorter than its trace says")

// readSpans appends the bytes of the spans to buf.
func readSpans(log io.ReaderAt, spans []span, buf []byte) ([]byte, error) {
	for _, s := range spans {
		start := len(buf)
		buf = append(buf, make([]byte, s.size)...)
		if n, err := log.ReadAt(buf[start:], s.at); int64(n) < s.size {
			if errors.Is(err, io.EOF) {
				err = errShortLog
			}
			return buf[:start], err
		}
	}
	return buf, nil
}
