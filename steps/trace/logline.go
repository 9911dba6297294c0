package trace

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/rungci/rung/steps/event"
)

// Log events are nearly all that a run records, so their lines are written and read by hand. A line does not hold the data but says where
// it is in the log file. Its type is not that of event.Log, so that nothing reads it as an empty piece.

// pieceType is the type of the line of a log event.
const pieceType = "log.piece"

// appendLogLine appends a log event as one line of JSON, with the line end. The data is at a position of the log file.
func appendLogLine(b []byte, e *event.Event, l *event.Log, at int64) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, `,"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","type":"`+pieceType+`","step":`...)
	b = appendJSONString(b, e.Step)
	b = append(b, `,"data":{"stream":`...)
	b = appendJSONString(b, string(l.Stream))
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, l.Offset, 10)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, int64(len(l.Data)), 10)
	return append(b, "}}\n"...)
}

// escape says what stands for a byte in a JSON string: 0 for itself, 'u' for \u00XX, else a backslash and this letter.
var escape = func() (table [256]byte) {
	for c := range ' ' {
		table[c] = 'u'
	}
	table['\n'], table['\r'], table['\t'], table['"'], table['\\'] = 'n', 'r', 't', '"', '\\'
	return table
}()

// appendJSONString appends s, which must be UTF-8, as a JSON string.
func appendJSONString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		esc := escape[s[i]]
		if esc == 0 {
			continue
		}
		b = append(b, s[start:i]...)
		if esc == 'u' {
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[s[i]>>4], hex[s[i]&15])
		} else {
			b = append(b, '\\', esc)
		}
		start = i + 1
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// logLine is a log event as parseLogLine reads it.
type logLine struct {
	time   time.Time
	step   string
	stream event.Stream
	span   span
}

// pieceJSON is the line that appendLogLine writes.
type pieceJSON struct {
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	Type string    `json:"type"`
	Step string    `json:"step"`
	Data struct {
		Stream event.Stream `json:"stream"`
		Offset int64        `json:"offset"`
		At     int64        `json:"at"`
		Bytes  int64        `json:"bytes"`
	} `json:"data"`
}

// parseLogLine reads a line that appendLogLine wrote. It returns false for any other line.
func parseLogLine(line []byte) (l logLine, ok bool) {
	if !bytes.Contains(line[:min(len(line), maxLineHead)], []byte(`,"type":"`+pieceType+`",`)) {
		return l, false
	}
	if l, ok = parseFast(line); ok {
		return l, l.valid()
	}
	var slow pieceJSON
	if json.Unmarshal(line, &slow) != nil || slow.Type != pieceType {
		return l, false
	}
	l = logLine{slow.Time, slow.Step, slow.Data.Stream, span{slow.Data.At, slow.Data.Bytes}}
	return l, l.valid()
}

func (l *logLine) valid() bool { return l.span.at >= 0 && l.span.size >= 0 }

// maxLineHead is where the type of an event is in its line at the latest, in bytes.
const maxLineHead = 128

// parseFast reads the lines of steps whose ID needs no escapes, which are all that the engine gives.
func parseFast(line []byte) (l logLine, ok bool) {
	var stamp, step, stream []byte
	rest := line
	for _, part := range []struct {
		to   string
		into *[]byte
	}{{`,"time":"`, nil}, {`","type":"` + pieceType + `","step":"`, &stamp}, {`","data":{"stream":"`, &step}, {`","offset":`, &stream}, {`,"at":`, nil}} {
		before, after, found := bytes.Cut(rest, []byte(part.to))
		if !found {
			return l, false
		}
		if part.into != nil {
			*part.into = before
		}
		rest = after
	}
	at, size, found := bytes.Cut(rest, []byte(`,"bytes":`))
	size, ended := bytes.CutSuffix(size, []byte("}}"))
	if !found || !ended || bytes.IndexByte(step, '\\') >= 0 || bytes.IndexByte(stream, '\\') >= 0 || len(stamp) > len(time.RFC3339Nano) {
		return l, false
	}
	var errs [3]error
	l = logLine{step: string(step), stream: internStream(stream)}
	l.time, errs[0] = time.Parse(time.RFC3339Nano, string(stamp))
	l.span.at, errs[1] = strconv.ParseInt(string(at), 10, 64)
	l.span.size, errs[2] = strconv.ParseInt(string(size), 10, 64)
	return l, errs == [3]error{}
}

// internStream returns the stream's name without allocating for the usual two.
func internStream(name []byte) event.Stream {
	switch string(name) {
	case string(event.Stdout):
		return event.Stdout
	case string(event.Stderr):
		return event.Stderr
	default:
		return event.Stream(name)
	}
}
