package ui

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/rungci/rung/steps/event"
)

// jsonView writes every event as one line of JSON, and nothing else.
type jsonView struct {
	mu     sync.Mutex
	w      io.Writer
	err    error
	closed bool
}

func newJSONView(w io.Writer) *jsonView { return &jsonView{w: w} }

// Event writes the event.
func (v *jsonView) Event(e event.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil || v.closed {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = v.w.Write(append(line, '\n'))
	}
	v.err = err
}

// Close returns the first error.
func (v *jsonView) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	return v.err
}
