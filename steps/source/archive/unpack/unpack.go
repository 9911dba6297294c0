// Package unpack packs the files of archives and of image layers into trees. Archives are not trusted: nothing is written
// outside of a tree.Writer, everything is bounded, and what two programs could read differently is an error.
//
// Of an archive (zip, tar, tar.gz, tar.zst) everything must fit a tree: a device, a name that leads out, a link that leads
// out, two files of one name, or bytes that belong to nothing are errors. Folders are not content. A hard link becomes a copy.
// Files are executable where the archive says so; an archive made on Windows does not say. The layers of a container image are
// taken more easily, because they were made for a whole file system: see Image.
package unpack

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/rungci/rung/steps/source/tree"
)

// Limits besides those of trees.
const (
	MaxEntries = 2 * tree.MaxFiles // folders included
	// MaxStream is what an archive may unpack to, with all that is not content, in bytes.
	MaxStream = tree.MaxSize + MaxEntries*2048
	// maxWindow bounds the memory of unpacking zstd, in bytes.
	maxWindow = 128 << 20
)

// FormatError says what is wrong with an archive.
type FormatError struct {
	Entry string // "" when it is about the whole archive
	Why   string
	Err   error // may be nil
}

func (e *FormatError) Error() string {
	msg := e.Why
	if e.Entry != "" {
		msg = fmt.Sprintf("the entry %q %s", e.Entry, e.Why)
	}
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

func (e *FormatError) Unwrap() error { return e.Err }

// Refused reports whether an error is about what an archive holds, and not about our own disk.
func Refused(err error) bool {
	var format *FormatError
	var path *tree.PathError
	return errors.As(err, &format) || errors.As(err, &path) || errors.Is(err, tree.ErrLimit)
}

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

// File packs the content of an archive. What it is is told by its first bytes, not by its name.
func File(ctx context.Context, f *os.File, to *tree.Writer) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, magicZip), bytes.HasPrefix(head, magicEmptyZip):
		return unzip(ctx, f, info.Size(), to)
	case bytes.HasPrefix(head, magicGzip), bytes.HasPrefix(head, magicZstd), isTar(head):
		open := func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, info.Size())), nil }
		return Layers(ctx, []Layer{{Kind: Archive, Open: open}}, to)
	case n == 0:
		return &FormatError{Why: "it is empty"}
	}
	for _, other := range others {
		if bytes.HasPrefix(head, []byte(other.magic)) {
			return &FormatError{Why: "it is a " + other.name + " archive, and only zip, tar, tar.gz and tar.zst can be unpacked"}
		}
	}
	if start := bytes.ToLower(bytes.TrimSpace(head)); bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html")) {
		return &FormatError{Why: "it is a web page, perhaps one to log in, and no archive"}
	}
	return &FormatError{Why: fmt.Sprintf("it is neither zip nor tar nor tar.gz: it begins with %q", head[:min(n, 16)])}
}

// decompress undoes gzip and zstd, whichever it is.
func decompress(r io.Reader) (_ io.Reader, closer func(), err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, &FormatError{Why: "it is damaged", Err: err}
		}
		return z, func() {}, nil
	case bytes.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, &FormatError{Why: "it is damaged", Err: err}
		}
		return z, z.Close, nil
	}
	return in, func() {}, nil
}

// isTar reports whether a block is the first one of a tar archive: a header with a right checksum, or the end of an empty one.
func isTar(block []byte) bool {
	if len(block) < 512 {
		return false
	}
	block = block[:512]
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

// cleanName takes off what means nothing: "./" in front, "/" behind. It is "" for the root.
func cleanName(name string) string {
	for {
		rest, found := strings.CutPrefix(name, "./")
		if !found {
			break
		}
		name = strings.TrimLeft(rest, "/")
	}
	name = strings.TrimRight(name, "/")
	if name == "." {
		return ""
	}
	return name
}

// inGit reports whether a path is in a .git folder, which is not part of any tree.
func inGit(name string) bool {
	return name == ".git" || strings.HasPrefix(name, ".git/") || strings.HasSuffix(name, "/.git") || strings.Contains(name, "/.git/")
}

// reading reads the content of an entry. It ends with ctx, and what goes wrong is the archive's fault. The error is kept,
// because who copies content looks at it only up to the size that was announced.
type reading struct {
	ctx   context.Context
	r     io.Reader
	entry string
	err   error
}

func (r *reading) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		var format *FormatError
		if !errors.As(err, &format) && !errors.Is(err, tree.ErrLimit) {
			err = &FormatError{Entry: r.entry, Why: "is damaged", Err: err}
		}
		r.err = err
	}
	return n, err
}

// addFile packs one file, to its very end.
func addFile(ctx context.Context, to *tree.Writer, name string, executable bool, size int64, content io.Reader) error {
	in := &reading{ctx: ctx, r: content, entry: name}
	if err := to.AddFile(name, executable, size, in); err != nil {
		if in.err != nil {
			return in.err
		}
		return err
	}
	// At the end checksums are compared.
	if n, err := in.Read(make([]byte, 1)); n > 0 || in.err != nil {
		if in.err == nil {
			in.err = &FormatError{Entry: name, Why: fmt.Sprintf("is longer than the %d bytes that it says it has", size), Err: err}
		}
	}
	return in.err
}
