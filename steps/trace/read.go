package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// Read reads a trace: a finished one, or what is recorded of a run that was killed or still runs, for which path may also be the event log
// itself. A document and an event log at one path are an error unless they say the same: nobody could tell which of them is meant. The
// logs stay in the file.
func Read(path string) (*Trace, error) {
	t, _, err := readPath(path, false)
	return t, err
}

// ReadSummed is Read for who has to know which bytes were read: sum is the SHA-256 of the document, in hexadecimal, and what the trace says
// is from the very bytes that it is of; the digests in it are of its logs. Of an event log there is none.
func ReadSummed(path string) (t *Trace, sum string, err error) { return readPath(path, true) }

func readPath(path string, summed bool) (*Trace, string, error) {
	if strings.HasSuffix(path, EventsSuffix) {
		t, err := readEvents(path)
		return t, "", err
	}
	events, info := unfinishedEvents(path)
	if events == "" {
		return readDocument(path, summed)
	}
	if !info.Mode().IsRegular() {
		return nil, "", fmt.Errorf("%s is beside the trace %s and is not a regular file; remove it", events, path)
	}
	log, err := readEvents(events)
	if errors.Is(err, os.ErrNotExist) { // it has just been finished
		return readDocument(path, summed)
	}
	t, sum, derr := readDocument(path, summed)
	switch {
	case errors.Is(derr, os.ErrNotExist):
		return log, "", err
	case err != nil:
		return nil, "", err
	case derr != nil:
		return nil, "", derr
	}
	return t, sum, agree(path, events, t, log)
}

// agree says whether a document and the event log beside it are of one run, and say the same of it.
func agree(path, events string, document, log *Trace) error {
	if document.Run.ID != log.Run.ID {
		return fmt.Errorf("%s is the trace of the run %s, and %s of the run %s, which goes on or was killed: "+
			"to read that, name %[2]s; to read the finished one, move or remove %[2]s", path, document.Run.ID, events, log.Run.ID)
	}
	log.Runtime.Digest = document.Runtime.Digest // the last thing that is found out, by no event
	a, err := json.Marshal(document)
	if err != nil {
		return err
	}
	b, err := json.Marshal(log)
	if err == nil && !bytes.Equal(a, b) {
		err = fmt.Errorf("%s and %s do not say the same of the run %s: somebody changed one of them; move or remove the one that you do not trust",
			path, events, document.Run.ID)
	}
	return err
}

// open opens a file of a trace; the info tells later whether it is still the same file.
func open(path string) (*os.File, os.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the trace: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("reading the trace: %w", err)
	}
	return f, info, nil
}

// readDocument reads a finished trace.
func readDocument(path string, summed bool) (*Trace, string, error) {
	f, info, err := open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if info.IsDir() {
		return nil, "", fmt.Errorf("%s is a folder, not a trace", path)
	}
	var in io.Reader = f
	hash := sha256.New()
	if summed { // what is decoded is what is hashed, whatever somebody writes there meanwhile
		in = io.TeeReader(f, hash)
	}
	d := headerReader{dec: json.NewDecoder(in), fields: map[string]json.RawMessage{}, logs: -1, ownEnd: hasOwnEnd(f, info.Size())}
	t, err := d.read()
	if err != nil {
		return nil, "", fmt.Errorf("%s %w", path, err)
	}
	sum := ""
	if summed {
		if _, err := io.Copy(hash, f); err != nil {
			return nil, "", fmt.Errorf("reading the trace: %w", err)
		}
		sum = hex.EncodeToString(hash.Sum(nil))
	}
	t.setLogs(nil)
	if d.logs >= 0 {
		same := sameFile{path, info}
		logs := &documentLogs{name: path, open: func() (io.ReadCloser, error) { return same.open() }, offset: d.logs}
		if size, beside := d.logFile(); beside {
			logs.beside, logs.size = &besideLog{path: path + LogSuffix}, size
		}
		t.setLogs(logs)
	}
	return t, sum, nil
}

// ReadFrom reads a finished trace from anywhere. Open is called again for every look at the logs, and has to give the same bytes
// every time. Name is used in errors.
func ReadFrom(name string, open func() (io.ReadCloser, error)) (*Trace, error) {
	in, err := open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	d := headerReader{dec: json.NewDecoder(in), fields: map[string]json.RawMessage{}, logs: -1}
	t, err := d.read()
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	t.setLogs(nil)
	if d.logs >= 0 {
		logs := &documentLogs{name: name, open: open, offset: d.logs}
		if size, beside := d.logFile(); beside {
			logs.size = size
		}
		t.setLogs(logs)
	}
	return t, nil
}

// hasOwnEnd reports whether the file ends as the documents that we write do. No part of one ends so: line ends inside of
// logs are escaped.
func hasOwnEnd(f io.ReaderAt, size int64) bool {
	tail := make([]byte, min(size, 7))
	_, err := f.ReadAt(tail, size-int64(len(tail)))
	return err == nil && (bytes.HasSuffix(tail, []byte("\n  ]\n}\n")) || bytes.HasSuffix(tail, []byte("[]\n}\n")))
}

// What can be wrong with a document; the text follows the name of the file.
var (
	errNotTrace = errors.New(`is not a trace: it has no "format": "` + Format + `"`)
	errCut      = errors.New("is cut short: the file ends in the middle of the trace; copy it again, or run again")
)

// headerReader reads a document without its logs, wherever they stand.
type headerReader struct {
	dec    *json.Decoder
	fields map[string]json.RawMessage
	logs   int64 // offset behind the key of the logs, -1 when there are none
	ownEnd bool  // the document is whole: what is behind the logs need not be looked at
}

func (h *headerReader) read() (*Trace, error) {
	if tok, err := h.dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errNotTrace
	}
	for h.dec.More() {
		key, err := h.dec.Token()
		if err != nil {
			return nil, broken(err)
		}
		done, err := h.field(key.(string)) // a key is always a string
		if err != nil {
			return nil, err
		}
		if done {
			return h.trace()
		}
	}
	if _, err := h.dec.Token(); err != nil {
		return nil, broken(err)
	}
	return h.trace()
}

// field reads the value of a key. It returns true when the rest need not be read.
func (h *headerReader) field(key string) (done bool, err error) {
	if key == "logs" {
		h.logs = h.dec.InputOffset()
		if h.ownEnd && h.fields["format"] != nil && h.fields["run"] != nil && h.fields["steps"] != nil {
			return true, nil
		}
		if err := skip(h.dec); err != nil {
			return false, broken(err)
		}
		return false, nil
	}
	var raw json.RawMessage
	if err := h.dec.Decode(&raw); err != nil {
		return false, broken(err)
	}
	h.fields[key] = raw
	if key == "format" {
		return false, checkFormat(raw)
	}
	return false, nil
}

// logFile returns the size of the log file beside the document, false when the logs are part of the document.
func (h *headerReader) logFile() (size int64, beside bool) {
	var file *LogFile
	if json.Unmarshal(h.fields["log_file"], &file) != nil || file == nil {
		return 0, false
	}
	return file.Bytes, true
}

func (h *headerReader) trace() (*Trace, error) {
	if h.fields["format"] == nil {
		return nil, errNotTrace
	}
	for _, field := range []string{"run", "steps"} {
		if h.fields[field] == nil {
			return nil, fmt.Errorf("is damaged: it has no %q", field)
		}
	}
	whole, err := json.Marshal(h.fields)
	if err != nil {
		return nil, broken(err)
	}
	var t Trace
	if err := json.Unmarshal(whole, &t); err != nil {
		return nil, fmt.Errorf("is not a trace that this version can read: %w", err)
	}
	return &t, nil
}

// checkFormat refuses what is not a trace, and traces that only newer versions can read.
func checkFormat(raw json.RawMessage) error {
	var format string
	if json.Unmarshal(raw, &format) != nil || !strings.HasPrefix(format, FormatName+"/") {
		return errNotTrace
	}
	if format != Format {
		return fmt.Errorf("has the format %s and this version reads %s; a newer version wrote it: update this program",
			format, Format)
	}
	return nil
}

// broken tells a file that ends early from one that is not JSON.
func broken(err error) error {
	var syntax *json.SyntaxError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &syntax) && strings.Contains(syntax.Error(), "unexpected end") {
		return errCut
	}
	return fmt.Errorf("is damaged: %w", err)
}

// skip reads the next value without keeping it.
func skip(dec *json.Decoder) error {
	depth := 0
	for {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// sameFile opens a file again and makes sure that it is the one that was read before.
type sameFile struct {
	path string
	info os.FileInfo
}

func (s sameFile) open() (*os.File, error) {
	f, err := os.Open(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s has gone since it was read; if its run has just ended, read it again", s.path)
	}
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(s.info, now) || now.Size() < s.info.Size() {
		f.Close()
		return nil, fmt.Errorf("%s has changed since it was read; read it again", s.path)
	}
	return f, nil
}

// documentLogs are the logs in a finished trace.
type documentLogs struct {
	name   string
	open   func() (io.ReadCloser, error)
	offset int64      // after the key "logs"
	beside *besideLog // the log file; nil when there is none
	size   int64      // of the log file
}

func (d *documentLogs) chunks(yield func(Chunk) error) error {
	f, err := d.open()
	if err != nil {
		return err
	}
	defer f.Close()
	path := d.name
	if err := skipTo(f, d.offset); err != nil {
		return fmt.Errorf("reading the logs of %s: %w", path, err)
	}
	// The decoder begins behind the key, where an array's bracket follows a colon that it would not expect.
	if err := skipColon(f); err != nil {
		return fmt.Errorf("%s %w", path, errCut)
	}
	dec := json.NewDecoder(f)
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return fmt.Errorf(`%s is damaged: "logs" is not an array`, path)
	}
	var log io.ReaderAt
	if d.beside != nil {
		log = d.beside
		defer d.beside.close()
	}
	var buf []byte
	for dec.More() {
		var c chunkJSON
		if err := dec.Decode(&c); err != nil {
			return fmt.Errorf("%s %w", path, broken(err))
		}
		if buf, err = c.data(buf, log, d.size); err != nil {
			return fmt.Errorf("%s is damaged: %w", path, err)
		}
		if err := yield(Chunk{c.Step, event.Stream(c.Stream), c.Offset, c.Time, buf}); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("%s %w", path, broken(err))
	}
	return nil
}

// skipTo goes on at an offset from the start.
func skipTo(r io.Reader, offset int64) error {
	if s, ok := r.(io.Seeker); ok {
		_, err := s.Seek(offset, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, r, offset)
	return err
}

// skipColon reads up to the colon and no further.
func skipColon(r io.Reader) error {
	for b := []byte{0}; b[0] != ':'; {
		if _, err := r.Read(b); err != nil {
			return err
		}
	}
	return nil
}
