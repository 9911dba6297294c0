package pack

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// methodZstd is the number that zip archives have for Zstandard.
const methodZstd = 93

// codec compresses pieces of files. It belongs to one worker.
type codec interface {
	// piece compresses a part of a file. The pieces of a file, one behind the other, are its compressed content.
	piece(to *bytes.Buffer, raw []byte, last bool) error
}

// flateLevels are those of the existing runner, but for the default, which is 5 there: 6 takes a few percent more time, and makes up for
// what compressing large files in pieces costs in size.
var flateLevels = map[Level]int{
	LevelFastest: flate.NoCompression, LevelFast: 1, LevelDefault: 6, LevelSlow: 7, LevelSlowest: 9,
}

// deflater ends every piece but the last on a byte, with an empty stored block, and lets none refer to what is before it. So pieces
// can be made in any order.
type deflater struct{ w *flate.Writer }

func newDeflater(l Level) (*deflater, error) {
	w, err := flate.NewWriter(io.Discard, flateLevels[l])
	return &deflater{w}, err
}

func (d *deflater) piece(to *bytes.Buffer, raw []byte, last bool) error {
	d.w.Reset(to)
	if _, err := d.w.Write(raw); err != nil {
		return err
	}
	if !last {
		return d.w.Flush()
	}
	return d.w.Close()
}

var zstdLevels = map[Level]zstd.EncoderLevel{
	LevelFastest: zstd.SpeedFastest, LevelFast: zstd.SpeedFastest, LevelDefault: zstd.SpeedDefault,
	LevelSlow: zstd.SpeedBetterCompression, LevelSlowest: zstd.SpeedBestCompression,
}

// newZstd returns an encoder that compresses with so many workers, or frames one at a time for each of as many callers.
func newZstd(w io.Writer, l Level, workers int) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstdLevels[l]), zstd.WithEncoderConcurrency(workers), zstd.WithLowerEncoderMem(true))
}

// framer compresses a piece to a frame of Zstandard.
type framer struct{ e *zstd.Encoder }

func newFramer(l Level) (*framer, error) {
	e, err := newZstd(nil, l, 1)
	return &framer{e}, err
}

func (f *framer) piece(to *bytes.Buffer, raw []byte, _ bool) error {
	to.Grow(len(raw)/2 + 64)
	_, err := to.Write(f.e.EncodeAll(raw, to.AvailableBuffer()))
	return err
}

// combineCRC returns the CRC-32 of two texts, one behind the other, from those of both and the length of the second.
func combineCRC(first, second uint32, length int64) uint32 {
	const one = 1 << 31 // polynomials have their lowest power in the highest bit
	shift, square := uint32(one), uint32(one>>8)
	for n := uint64(length); n > 0; n >>= 1 { // shift becomes x to the power of 8 times the length
		if n&1 != 0 {
			shift = multiplyCRC(shift, square)
		}
		square = multiplyCRC(square, square)
	}
	return multiplyCRC(shift, first) ^ second
}

// multiplyCRC multiplies polynomials modulo that of CRC-32.
func multiplyCRC(a, b uint32) (product uint32) {
	const polynomial = 0xedb88320
	for bit := uint32(1 << 31); bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ polynomial
		} else {
			b >>= 1
		}
	}
	return product
}
