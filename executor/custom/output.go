package custom

import (
	"bytes"
	"sync"

	"github.com/rungci/rung/internal/mask"
)

// maxSaid bounds a line of a driver's output; longer ones are shown in parts.
const maxSaid = 16 << 10

// output takes what a driver prints, masks it and hands it on in lines. It is safe for concurrent use.
type output struct {
	mu     sync.Mutex
	masked *mask.Writer
	held   []byte
	line   func(string)
}

func newOutput(secrets *mask.Set, line func(string)) *output {
	o := &output{line: line}
	o.masked = secrets.NewWriter(o.take)
	return o
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.masked.Write(p)
}

// take takes text that is masked.
func (o *output) take(p []byte) {
	for len(p) > 0 {
		part, rest, complete := bytes.Cut(p, []byte{'\n'})
		o.held = append(o.held, part...)
		if p = rest; complete {
			o.say(len(o.held))
		}
		for len(o.held) > maxSaid {
			o.say(maxSaid)
		}
	}
}

func (o *output) say(n int) {
	if text := string(bytes.TrimRight(o.held[:n], "\r")); text != "" {
		o.line(text)
	}
	o.held = append(o.held[:0], o.held[n:]...)
}

// flush hands on what does not end in a line break.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.masked.Flush()
	o.say(len(o.held))
}
