package terminal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rungci/rung/internal/process"
)

// A frame is its kind, in a byte, the length of what follows in four, big-endian, and that. Both sides must be of the same version of this
// program, or one that speaks the same version of this protocol.
const (
	kindHello   = 'h' // person: version, size, kind of terminal
	kindData    = 'd' // both: what is typed, what is shown
	kindSize    = 's' // person: the new size
	kindWelcome = 'w' // host: it is attached
	kindRefused = 'r' // host: why not
	kindEnded   = 'e' // host: exit code, and why
)

const (
	// protocolVersion is the first byte of a hello.
	protocolVersion = 1
	// maxFrame bounds what a frame holds, in bytes.
	maxFrame = 64 << 10
	// maxKind bounds the name of a kind of terminal, in bytes.
	maxKind = 64

	headLength = 5
	sizeLength = 4
)

// writeFrame writes a frame in one call.
func writeFrame(w io.Writer, kind byte, payload []byte) error {
	frame := make([]byte, headLength, headLength+len(payload))
	frame[0] = kind
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	_, err := w.Write(append(frame, payload...))
	return err
}

// readFrame reads a frame.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [headLength]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes came; at most %d are allowed", n, maxFrame)
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, unexpected(err)
	}
	return head[0], payload, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Person is who attaches.
type Person struct {
	// Size is that of the person's terminal. Zero is none.
	Size process.Size
	// Kind is its kind, as in TERM; "" is not known.
	Kind string
}

func (p Person) encode() []byte {
	return append(appendSize([]byte{protocolVersion}, p.Size), p.Kind...)
}

var errForeign = errors.New("it is not step-runner that asks, or one of another version")

func decodePerson(payload []byte) (p Person, err error) {
	if len(payload) < 1+sizeLength || payload[0] != protocolVersion {
		return p, errForeign
	}
	p.Size, _ = decodeSize(payload[1 : 1+sizeLength])
	// The name finds a file in some systems' descriptions of terminals, and must stay one.
	kind := string(payload[1+sizeLength:])
	if len(kind) <= maxKind && strings.Trim(kind, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+.") == "" && !strings.HasPrefix(kind, ".") {
		p.Kind = kind
	}
	return p, nil
}

func appendSize(to []byte, size process.Size) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(to, size.Columns), size.Rows)
}

func decodeSize(payload []byte) (size process.Size, ok bool) {
	if len(payload) != sizeLength {
		return size, false
	}
	return process.Size{Columns: binary.BigEndian.Uint16(payload), Rows: binary.BigEndian.Uint16(payload[2:])}, true
}

// ended says how a terminal was closed.
type ended struct {
	code int // the shell's exit code; -1 when it has none
	text string
}

func (e ended) encode() []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(int32(e.code))), e.text...)
}

func decodeEnded(payload []byte) (e ended, ok bool) {
	if len(payload) < 4 {
		return e, false
	}
	return ended{code: int(int32(binary.BigEndian.Uint32(payload))), text: string(payload[4:])}, true
}
