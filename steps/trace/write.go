package trace

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/rungci/rung/steps/event"
)

// write writes the whole document. The logs stream through.
func write(w io.Writer, t *Trace) error {
	return writeLogs(w, t, nil, func(chunk func([]byte) error) error {
		var buf []byte
		return t.Chunks(func(c Chunk) error {
			buf = appendChunk(buf[:0], c)
			return chunk(buf)
		})
	})
}

// writeIndex writes a document whose logs stay in a file of so many bytes beside it: its chunks say where they are.
func writeIndex(w io.Writer, t *Trace, source *eventLog, size int64) error {
	return writeLogs(w, t, &LogFile{Bytes: size}, func(chunk func([]byte) error) error {
		var buf []byte
		return source.merged(func(c mergedChunk) error {
			buf = appendChunkHead(buf[:0], c.Chunk)
			buf = append(buf, `", "at": [`...)
			for i, s := range c.spans {
				if i > 0 {
					buf = append(buf, ", "...)
				}
				buf = strconv.AppendInt(append(buf, '['), s.at, 10)
				buf = append(strconv.AppendInt(append(buf, ", "...), s.size, 10), ']')
			}
			return chunk(append(buf, "]}"...))
		})
	})
}

// writeLogs writes a document that is a header and the chunks that chunks makes.
func writeLogs(w io.Writer, t *Trace, beside *LogFile, chunks func(write func([]byte) error) error) error {
	out := bufio.NewWriterSize(w, 2*maxChunk)
	if err := t.writeHeader(out, beside); err != nil {
		return err
	}
	out.WriteString(",\n  \"logs\": [")
	separator := "\n"
	err := chunks(func(chunk []byte) error {
		out.WriteString(separator + "    ")
		separator = ",\n"
		_, err := out.Write(chunk)
		return err
	})
	if err != nil {
		return err
	}
	if separator == ",\n" {
		out.WriteString("\n  ")
	}
	out.WriteString("]\n}\n")
	return out.Flush() // reports what any of the writes met
}

// LogFile is what a document says of the log file beside it.
type LogFile struct {
	Bytes int64 `json:"bytes"`
}

// writeHeader writes the document without its logs and its end, as indented JSON. It holds the text of one step at a time. beside is nil when
// the logs are part of the document. What goes wrong in writing is reported by out.Flush.
func (t *Trace) writeHeader(out *bufio.Writer, beside *LogFile) error {
	stepless := *t
	stepless.Steps = []*Step{}
	document := struct {
		*Trace
		LogFile *LogFile `json:"log_file,omitempty"`
	}{&stepless, beside}
	text, err := indented(document, "")
	if err != nil {
		return err
	}
	// No line of a deeper level begins like this, and no text in JSON has a line end.
	const steps = "\n  \"steps\": ["
	before, after, _ := bytes.Cut(text, []byte(steps+"]"))
	out.Write(before)
	out.WriteString(steps)
	for i, s := range t.Steps {
		if i > 0 {
			out.WriteByte(',')
		}
		if text, err = indented(s, "    "); err != nil {
			return err
		}
		out.WriteString("\n    ")
		out.Write(bytes.TrimSuffix(text, []byte("\n")))
	}
	if len(t.Steps) > 0 {
		out.WriteString("\n  ")
	}
	out.WriteByte(']')
	out.Write(bytes.TrimSuffix(after, []byte("\n}\n")))
	return nil
}

// indented is a value as JSON, with the prefix before every line but the first.
func indented(v any, prefix string) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding the trace: %w", err)
	}
	return text.Bytes(), nil
}

// chunkJSON is a chunk in the document.
type chunkJSON struct {
	Step   string    `json:"step"`
	Stream string    `json:"stream"`
	Offset int64     `json:"offset"`
	Time   time.Time `json:"time"`
	// Text is the data cut after every line end, so that two documents can be compared line by line; Base64 is the data when
	// it is not UTF-8. At says where it is in the log file beside the document: positions and numbers of bytes.
	Text   []string   `json:"text"`
	Base64 []byte     `json:"base64"`
	At     [][2]int64 `json:"at"`
}

// appendChunk appends a chunk in the form of chunkJSON, a line of the document for every line of the log.
func appendChunk(b []byte, c Chunk) []byte {
	b = appendChunkHead(b, c)
	if !event.IsText(c.Data) {
		b = append(b, `", "base64": "`...)
		b = base64.StdEncoding.AppendEncode(b, c.Data)
		return append(b, `"}`...)
	}
	b = append(b, `", "text": [`...)
	for rest := c.Data; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line = rest[:i+1]
		}
		if len(rest) < len(c.Data) {
			b = append(b, ',')
		}
		b = appendJSONString(append(b, "\n      "...), line)
		rest = rest[len(line):]
	}
	return append(b, "\n    ]}"...)
}

// appendChunkHead appends a chunk up to the end of its time, without the quote.
func appendChunkHead(b []byte, c Chunk) []byte {
	b = append(b, `{"step": `...)
	b = appendJSONString(b, c.Step)
	b = append(b, `, "stream": `...)
	b = appendJSONString(b, string(c.Stream))
	b = append(b, `, "offset": `...)
	b = strconv.AppendInt(b, c.Offset, 10)
	b = append(b, `, "time": "`...)
	return c.Time.UTC().AppendFormat(b, time.RFC3339Nano)
}

// What can be wrong with a chunk.
var (
	errNotChunk    = errors.New("a chunk of the logs has neither text, base64 nor at")
	errChunkPlace  = errors.New("a chunk of the logs is not a part of the log file")
	errNoLogBeside = errors.New("a chunk of the logs is in a log file, and the trace has none")
)

// data returns the bytes of the chunk, in buf where there is room. log is the file beside the document, nil when there is none.
func (c *chunkJSON) data(buf []byte, log io.ReaderAt, size int64) ([]byte, error) {
	if c.At != nil {
		return c.beside(buf, log, size)
	}
	if c.Text == nil && c.Base64 == nil {
		return nil, errNotChunk
	}
	buf = buf[:0]
	for _, line := range c.Text {
		buf = append(buf, line...)
	}
	return append(buf, c.Base64...), nil
}

// beside reads the bytes of the chunk from the log file.
func (c *chunkJSON) beside(buf []byte, log io.ReaderAt, size int64) ([]byte, error) {
	if log == nil {
		return nil, errNoLogBeside
	}
	spans, total := make([]span, len(c.At)), int64(0)
	for i, at := range c.At {
		spans[i] = span{at[0], at[1]}
		if at[0] < 0 || at[1] < 0 || at[1] > maxChunk-total || at[0] > size-at[1] {
			return nil, errChunkPlace
		}
		total += at[1]
	}
	return readSpans(log, spans, buf[:0])
}
