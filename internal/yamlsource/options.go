package yamlsource

import (
	"bytes"
	"strings"
)

// Options say how a dialect of YAML differs from what Parse reads.
type Options struct {
	// Tags are the local tags that nodes may carry ("!reference").
	Tags []string
	// YAML11 reads plain yes, no, on and off as booleans, as parsers of YAML 1.1 do.
	YAML11 bool
	// LastKeyWins lets the last of several keys of one name win, and merges every merge key of a map, instead of reporting
	// them; File.Warnings says which.
	LastKeyWins bool
	// Open and Close, when set, enclose text on one line in which nothing has a meaning to YAML: "$[[" and "]]" let
	// [$[[ a, b ]], c] be a list of two.
	Open, Close string
}

// The characters with a meaning to YAML's flow style, to comments and to keys are hidden in opaque text while it is parsed:
// each becomes one character of a private area, so that every column stays.
const (
	veiled    = "[]{},:#"
	veilPlane = 0xF0000
)

// veil hides what is between open and close on one line. Without anything to hide it returns the data as it is.
func (o Options) veil(data []byte) []byte {
	if o.Open == "" || !bytes.Contains(data, []byte(o.Open)) || bytes.Contains(data, []byte("\xf3\xb0\x80")) || bytes.Contains(data, []byte("\xf3\xb0\x81")) {
		return data
	}
	out := make([]byte, 0, len(data)+len(data)/16)
	for len(data) > 0 {
		line := data[:lineLength(data)]
		data = data[len(line):]
		for {
			start := bytes.Index(line, []byte(o.Open))
			length := -1
			if start >= 0 {
				length = bytes.Index(line[start+len(o.Open):], []byte(o.Close))
			}
			if length < 0 {
				break
			}
			end := start + len(o.Open) + length + len(o.Close)
			out = append(out, line[:start]...)
			for _, c := range line[start:end] {
				if strings.IndexByte(veiled, c) >= 0 {
					out = append(out, string(rune(veilPlane+int(c)))...)
				} else {
					out = append(out, c)
				}
			}
			line = line[end:]
		}
		out = append(out, line...)
	}
	return out
}

// lineLength returns how many bytes the first line of the data has, its end included.
func lineLength(data []byte) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1
	}
	return len(data)
}

// unveil undoes veil in a scalar's text.
func unveil(text string) string {
	if !strings.Contains(text, "\xf3\xb0") {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r >= veilPlane && r < veilPlane+0x80 {
			return r - veilPlane
		}
		return r
	}, text)
}
