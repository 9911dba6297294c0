package ui

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/rungci/rung/steps/event"
)

// maxHeldMemory is how much of a job's output is held in memory, in bytes; what is more is in a temporary file.
const maxHeldMemory = 1 << 20

// heldOutput is output of both streams that is shown later, in its order. The zero value is empty.
type heldOutput struct {
	memory bytes.Buffer
	file   *os.File
	lost   int64 // bytes that could not be kept
}

func (h *heldOutput) empty() bool { return h.memory.Len() == 0 && h.file == nil && h.lost == 0 }

// add holds a piece of output.
func (h *heldOutput) add(stream event.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	if h.lost > 0 || h.memory.Len()+len(data) > maxHeldMemory && !h.spill() {
		h.lost += int64(len(data))
		return
	}
	head := [5]byte{byte(index(stream))}
	binary.BigEndian.PutUint32(head[1:], uint32(len(data)))
	h.memory.Write(head[:])
	h.memory.Write(data)
}

// spill moves what is in memory to the file.
func (h *heldOutput) spill() bool {
	if h.file == nil {
		f, err := os.CreateTemp("", "rung-held-*")
		if err != nil {
			return false
		}
		_ = os.Remove(f.Name()) // so that nothing is left of it; Windows insists on keeping it until it is closed
		h.file = f
	}
	_, err := h.memory.WriteTo(h.file)
	return err == nil
}

// replay shows what is held, and holds nothing more.
func (h *heldOutput) replay(show func(event.Stream, []byte)) {
	var in io.Reader = &h.memory
	if h.file != nil {
		defer os.Remove(h.file.Name())
		defer h.file.Close()
		if _, err := h.file.Seek(0, io.SeekStart); err == nil {
			in = io.MultiReader(bufio.NewReaderSize(h.file, maxHeldMemory), &h.memory)
		}
	}
	for {
		var head [5]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			break
		}
		data := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(in, data); err != nil {
			break
		}
		stream := event.Stdout
		if head[0] == byte(index(event.Stderr)) {
			stream = event.Stderr
		}
		show(stream, data)
	}
	if h.lost > 0 {
		show(event.Stderr, fmt.Appendf(nil, "%d more bytes of output are in the trace only: there is no room for a temporary file\n", h.lost))
	}
	*h = heldOutput{}
}
