// Package lastoutput keeps the end of what a program prints.
package lastoutput

import (
	"strings"
	"sync"
)

// Buffer keeps the last Max bytes that are written to it. It is safe for concurrent use.
type Buffer struct {
	Max int

	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p[max(0, len(p)-b.Max):]...)
	b.text = b.text[max(0, len(b.text)-b.Max):]
	return len(p), nil
}

// String is what is kept, without space around it and with ? for what is not UTF-8.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(b.text)), "?")
}
