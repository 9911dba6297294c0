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
	head, err := t.header()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 2*maxChunk)
	out.Write(bytes.TrimSuffix(head, []byte("\n}\n")))
	out.WriteString(",\n  \"logs\": [")
	var buf []byte
	separator := "\n"
	err = t.Chunks(func(c Chunk) error {
		buf = append(append(buf[:0], separator...), "    "...)
		buf = appendChunk(buf, c)
		separator = ",\n"
		_, err := out.Write(buf)
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

// header returns the document without its logs, as indented JSON.
func (t *Trace) header() ([]byte, error) {
	var head bytes.Buffer
	enc := json.NewEncoder(&head)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(t); err != nil {
		return nil, fmt.Errorf("encoding the trace: %w", err)
	}
	return head.Bytes(), nil
}

// chunkJSON is a chunk in the document.
type chunkJSON struct {
	Step   string    `json:"step"`
	Stream string    `json:"stream"`
	Offset int64     `json:"offset"`
	Time   time.Time `json:"time"`
	// Text is the data cut behind every line end, so that two documents can be compared line by line; Base64 is the data when
	// it is not UTF-8.
	Text   []string `json:"text"`
	Base64 []byte   `json:"base64"`
}

// appendChunk appends a chunk in the form of chunkJSON, a line of the document for every line of the log.
func appendChunk(b []byte, c Chunk) []byte {
	b = append(b, `{"step": `...)
	b = appendJSONString(b, c.Step)
	b = append(b, `, "stream": `...)
	b = appendJSONString(b, string(c.Stream))
	b = append(b, `, "offset": `...)
	b = strconv.AppendInt(b, c.Offset, 10)
	b = append(b, `, "time": "`...)
	b = c.Time.UTC().AppendFormat(b, time.RFC3339Nano)
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

// errNotChunk is what is wrong with a log that does not have the form of chunkJSON.
var errNotChunk = errors.New("a chunk of the logs has neither text nor base64")

// data returns the bytes of the chunk, in buf where there is room.
func (c *chunkJSON) data(buf []byte) ([]byte, error) {
	if c.Text == nil && c.Base64 == nil {
		return nil, errNotChunk
	}
	buf = buf[:0]
	for _, line := range c.Text {
		buf = append(buf, line...)
	}
	return append(buf, c.Base64...), nil
}
