package host

import (
	"io"
	"sync"
)

// Outputs are the writers of a command whose two outputs are copied at the same time: where stdout and stderr are one, as with 2>&1, only one of the
// copies writes at once, as in os/exec. nil discards.
func Outputs(stdout, stderr io.Writer) (io.Writer, io.Writer) {
	if stdout != nil && same(stdout, stderr) {
		both := &inTurn{to: stdout}
		return both, both
	}
	return orDiscard(stdout), orDiscard(stderr)
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// same reports whether two writers are one; those that cannot be compared are not.
func same(a, b io.Writer) (is bool) {
	defer func() { _ = recover() }()
	return a == b
}

// inTurn lets one Write happen at a time. It has no ReadFrom, with which the end of one stream would take back what the other has written to a
// bytes.Buffer.
type inTurn struct {
	mu sync.Mutex
	to io.Writer
}

func (w *inTurn) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
