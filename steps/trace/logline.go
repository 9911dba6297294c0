package trace

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/rungci/rung/steps/event"
)

// Log events are nearly all of what a run records, so their lines are written and read by hand. The lines are the same
// as event.Event makes, except for escapes that JSON does not need; parseLogLine reads no others, and leaves any line that
// it does not know to event.Event.

// appendLogLine appends a log event as one line of JSON, with the line end.
func appendLogLine(b []byte, e *event.Event, l *event.Log) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, `,"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","type":"log","step":`...)
	b = appendJSONString(b, e.Step)
	b = append(b, `,"data":{"stream":`...)
	b = appendJSONString(b, string(l.Stream))
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, l.Offset, 10)
	if event.IsText(l.Data) {
		b = append(b, `,"text":`...)
		b = appendJSONString(b, l.Data)
	} else {
		b = append(b, `,"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, l.Data)
		b = append(b, '"')
	}
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
	data   []byte
}

// parseLogLine reads a line that appendLogLine wrote, without its line end. The data replaces what is in buf. It returns
// false for any other line.
func parseLogLine(line, buf []byte) (l logLine, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return l, false
	}
	_, rest, ok = bytes.Cut(rest, []byte(`,"time":"`))
	if !ok {
		return l, false
	}
	stamp, rest, ok := bytes.Cut(rest, []byte(`","type":"log","step":"`))
	if !ok || len(stamp) > len(time.RFC3339Nano) {
		return l, false
	}
	step, rest, ok := bytes.Cut(rest, []byte(`","data":{"stream":"`))
	if !ok || bytes.IndexByte(step, '\\') >= 0 {
		return l, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte(`","offset":`))
	if !ok {
		return l, false
	}
	_, rest, ok = bytes.Cut(rest, []byte(`,"`))
	if !ok {
		return l, false
	}
	text, ok := bytes.CutSuffix(rest, []byte(`"}}`))
	if !ok {
		return l, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return l, false
	}
	l = logLine{time: at, step: string(step), stream: internStream(stream)}
	if raw, isText := bytes.CutPrefix(text, []byte(`text":"`)); isText {
		l.data, ok = unescape(buf[:0], raw)
		return l, ok
	}
	raw, ok := bytes.CutPrefix(text, []byte(`base64":"`))
	if !ok {
		return l, false
	}
	l.data, err = base64.StdEncoding.AppendDecode(buf[:0], raw)
	return l, err == nil
}

// internStream returns the stream's name without allocating for the two that there are.
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

// unescape appends the text of a JSON string that appendJSONString wrote, given without its quotes.
func unescape(b, raw []byte) ([]byte, bool) {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(b, raw...), bytes.IndexByte(raw, '"') < 0
		}
		if i+1 >= len(raw) || bytes.IndexByte(raw[:i], '"') >= 0 {
			return b, false
		}
		b = append(b, raw[:i]...)
		size := 2
		switch raw[i+1] {
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case '"', '\\':
			b = append(b, raw[i+1])
		case 'u':
			size = 6
			if i+size > len(raw) {
				return b, false
			}
			c, err := strconv.ParseUint(string(raw[i+2:i+size]), 16, 16)
			if err != nil || c >= ' ' {
				return b, false
			}
			b = append(b, byte(c))
		default:
			return b, false
		}
		raw = raw[i+size:]
	}
}
