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
	"github.com/rungci/rung/steps/plan"
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

// Where the two lists of steps are in a document: those of the run's component, one step in their place, and those that ran. No line of a
// deeper level begins like these, and no text in JSON has a line end.
var (
	inComponent  = []byte("\n    \"component\": {")
	plannedSteps = []byte("\n        \"steps\": [\n          {\n            \"name\": \"\"\n          }\n        ]")
	ranSteps     = []byte("\n  \"steps\": []")
)

// writeHeader writes the document without its logs and its end, as indented JSON. It holds the text of one step at a time. beside is nil when
// the logs are part of the document. What goes wrong in writing is reported by out.Flush.
func (t *Trace) writeHeader(out *bufio.Writer, beside *LogFile) error {
	stepless := *t
	stepless.Steps = []*Step{}
	var planned []plan.Step
	if c := t.Run.Component; c != nil && len(c.Definition.Steps) > 0 {
		own := *c
		planned, own.Definition.Steps = own.Definition.Steps, make([]plan.Step, 1)
		stepless.Run.Component = &own
	}
	document := struct {
		*Trace
		LogFile *LogFile `json:"log_file,omitempty"`
	}{&stepless, beside}
	var text bytes.Buffer
	if err := indenting(&text, "").Encode(document); err != nil {
		return fmt.Errorf("encoding the trace: %w", err)
	}
	before, after, _ := bytes.Cut(text.Bytes(), ranSteps)
	if len(planned) > 0 {
		component := bytes.Index(before, inComponent)
		at := component + bytes.Index(before[component:], plannedSteps)
		out.Write(before[:at])
		if err := writeSteps(out, "        ", planned); err != nil {
			return err
		}
		before = before[at+len(plannedSteps):]
	}
	out.Write(before)
	if err := writeSteps(out, "  ", t.Steps); err != nil {
		return err
	}
	out.Write(bytes.TrimSuffix(after, []byte("\n}\n")))
	return nil
}

// writeSteps writes a line with the key of steps, after this indent, and the list of them.
func writeSteps[S plan.Step | *Step](out *bufio.Writer, indent string, steps []S) error {
	out.WriteString("\n" + indent + `"steps": [`)
	var text bytes.Buffer
	enc := indenting(&text, indent+"  ")
	for i := range steps {
		if i > 0 {
			out.WriteByte(',')
		}
		text.Reset()
		if err := enc.Encode(&steps[i]); err != nil {
			return fmt.Errorf("encoding the trace: %w", err)
		}
		out.WriteString("\n" + indent + "  ")
		out.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	}
	if len(steps) > 0 {
		out.WriteString("\n" + indent)
	}
	out.WriteByte(']')
	return nil
}

// indenting writes values as JSON, with the prefix before every line but the first.
func indenting(w io.Writer, prefix string) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	return enc
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
