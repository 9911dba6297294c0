package pack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Format is a kind of archive.
type Format string

// The formats that can be read.
const (
	FormatZip     Format = "zip" // with any of Deflate, Zstandard, and no compression
	FormatTar     Format = "tar"
	FormatTarZstd Format = "tar.zst"
	FormatTarGzip Format = "tar.gz"
)

// The first bytes of what can be unpacked.
var (
	magicZip      = []byte("PK\x03\x04")
	magicEmptyZip = []byte("PK\x05\x06")
	magicGzip     = []byte{0x1f, 0x8b}
	magicZstd     = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// others are archives that are recognised to be refused by their names.
var others = []struct{ magic, name string }{
	{"BZh", "bzip2"}, {"\xfd7zXZ", "xz"}, {"7z\xbc\xaf", "7-zip"}, {"Rar!", "rar"},
}

// Detect returns the format of an archive from how it begins, whatever its name. An archive of size 0 is an error like any other that is
// cut short.
func Detect(archive io.ReaderAt) (Format, error) {
	head := make([]byte, tarBlock)
	n, err := archive.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the archive: %w", err)
	}
	switch head = head[:n]; {
	case bytes.HasPrefix(head, magicZip), bytes.HasPrefix(head, magicEmptyZip):
		return FormatZip, nil
	case bytes.HasPrefix(head, magicZstd):
		return FormatTarZstd, nil
	case bytes.HasPrefix(head, magicGzip):
		return FormatTarGzip, nil
	case IsTar(head):
		return FormatTar, nil
	case n == 0:
		return "", &FormatError{Why: "it is empty"}
	}
	for _, other := range others {
		if bytes.HasPrefix(head, []byte(other.magic)) {
			return "", &FormatError{Why: "it is a " + other.name + " archive; only zip, tar, tar.gz and tar.zst can be unpacked"}
		}
	}
	if start := bytes.ToLower(bytes.TrimSpace(head)); bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html")) {
		return "", &FormatError{Why: "it is a web page, perhaps one to log in, and not an archive"}
	}
	return "", &FormatError{Why: fmt.Sprintf("it is neither zip nor tar nor tar.gz nor tar.zst: it begins with %q; it may be cut short", head[:min(n, 16)])}
}

// Decompress undoes gzip and Zstandard, whichever it is; other content is passed as it is. Workers is how many cores Zstandard may use.
func Decompress(r io.Reader, workers int) (plain io.Reader, closer func(), err error) {
	in := bufio.NewReaderSize(r, writeBuffer)
	head, err := in.Peek(len(magicZstd))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, unlessStopped("", "it is not compressed with gzip", err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(workers), zstd.WithDecoderLowmem(workers == 1))
		if err != nil {
			return nil, nil, unlessStopped("", "it is not compressed with Zstandard", err)
		}
		return z, z.Close, nil
	}
	return in, func() {}, nil
}

// IsTar reports whether a block of 512 bytes is the first one of a tar archive: a header with a correct checksum, or the end of an empty
// archive.
func IsTar(block []byte) bool {
	if len(block) < tarBlock {
		return false
	}
	block = block[:tarBlock]
	if allZero(block) {
		return true
	}
	var sum, signed, want int64
	for i, b := range block {
		if 148 <= i && i < 156 {
			b = ' '
		}
		sum += int64(b)
		signed += int64(int8(b))
	}
	for _, b := range bytes.Trim(block[148:156], " \x00") {
		if b < '0' || b > '7' {
			return false
		}
		want = want<<3 | int64(b-'0')
	}
	return want == sum || want == signed
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
