package unpack

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/rungci/rung/steps/source/tree"
)

// unzip packs the content of a zip archive.
func unzip(ctx context.Context, f io.ReaderAt, size int64, to *tree.Writer) error {
	count, err := countEntries(f, size)
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return &FormatError{Why: "it is a damaged zip archive", Err: err}
	}
	if uint64(len(z.File)) != count {
		return &FormatError{Why: fmt.Sprintf("it is a damaged zip archive: it has %d entries and says %d", len(z.File), count)}
	}
	for _, entry := range z.File {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := unzipEntry(ctx, entry, to); err != nil {
			return err
		}
	}
	return nil
}

// Flags and methods of zip entries.
const (
	flagEncrypted = 1 << 0
	flagStrong    = 1 << 6
	creatorFAT    = 0
	creatorNTFS   = 10
	creatorVFAT   = 14
)

// nameOf returns the path of an entry. Programs for Windows have written backslashes where the format demands slashes: in
// entries from such systems a backslash is a slash, unless slashes are there too.
func nameOf(entry *zip.File) string {
	name := entry.Name
	switch entry.CreatorVersion >> 8 {
	case creatorFAT, creatorNTFS, creatorVFAT:
		if !strings.Contains(name, "/") {
			name = strings.ReplaceAll(name, `\`, "/")
		}
	}
	return name
}

func unzipEntry(ctx context.Context, entry *zip.File, to *tree.Writer) error {
	raw := nameOf(entry)
	name := cleanName(raw)
	mode := entry.Mode()
	switch {
	case strings.HasSuffix(raw, "/") && entry.UncompressedSize64 > 0:
		return &FormatError{Entry: raw, Why: "is a folder with content"}
	case mode.IsDir(), strings.HasSuffix(raw, "/"), inGit(name):
		return nil
	case entry.Flags&(flagEncrypted|flagStrong) != 0:
		return &FormatError{Entry: raw, Why: "is encrypted, and there is no way to give a password"}
	case entry.Method != zip.Store && entry.Method != zip.Deflate:
		return &FormatError{Entry: raw, Why: fmt.Sprintf("is compressed in a way (%d) that few programs know; deflate is the usual one", entry.Method)}
	case entry.UncompressedSize64 > tree.MaxSize:
		return fmt.Errorf("%w: the entry %q has %d MiB", tree.ErrLimit, raw, entry.UncompressedSize64>>20)
	case mode.Type() != 0 && mode.Type() != fs.ModeSymlink:
		return &FormatError{Entry: raw, Why: "is neither a file nor a folder nor a link"}
	}
	content, err := entry.Open()
	if err != nil {
		return &FormatError{Entry: raw, Why: "is damaged", Err: err}
	}
	defer content.Close()
	if mode.Type() != fs.ModeSymlink {
		return addFile(ctx, to, name, mode&0o111 != 0, int64(entry.UncompressedSize64), content)
	}
	target, err := io.ReadAll(io.LimitReader(&reading{ctx: ctx, r: content, entry: raw}, tree.MaxLinkSize+1))
	if err != nil {
		return err
	}
	return to.AddSymlink(name, string(target))
}

// Sizes of a zip archive's records, in bytes.
const (
	endSize       = 22
	end64Size     = 56
	locatorSize   = 20
	directorySize = 46
	maxComment    = 1<<16 - 1
)

// directory is where the list of a zip archive's entries is.
type directory struct {
	count, size, offset uint64
	end                 int64 // where what follows the list begins
}

// countEntries finds out how many entries a zip archive has, without keeping anything of them: the reader of the standard
// library makes room for as many as there are, whatever number the archive gives. It is strict, where that reader is not:
// the list is at the end, with nothing in between and nothing behind.
func countEntries(f io.ReaderAt, size int64) (uint64, error) {
	d, err := findDirectory(f, size)
	if err != nil {
		return 0, err
	}
	if d.count > MaxEntries {
		return 0, fmt.Errorf("%w: %d entries", tree.ErrLimit, d.count)
	}
	if d.offset > uint64(size) || d.size > uint64(size) || int64(d.offset+d.size) != d.end {
		return 0, damaged("its list of files is not where it should be")
	}
	var count, at uint64
	head := make([]byte, directorySize)
	for at < d.size {
		if _, err := f.ReadAt(head, int64(d.offset+at)); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if at+directorySize > d.size || !bytes.HasPrefix(head, []byte("PK\x01\x02")) {
			return 0, damaged("its list of files is not one")
		}
		at += directorySize + uint64(binary.LittleEndian.Uint16(head[28:])) + uint64(binary.LittleEndian.Uint16(head[30:])) +
			uint64(binary.LittleEndian.Uint16(head[32:]))
		if count++; count > d.count {
			break
		}
	}
	if count != d.count || at != d.size {
		return 0, damaged(fmt.Sprintf("it says that it has %d entries, which is not so", d.count))
	}
	return count, nil
}

func damaged(why string) error { return &FormatError{Why: "it is a damaged zip archive: " + why} }

// findDirectory reads the records at the archive's end.
func findDirectory(f io.ReaderAt, size int64) (d directory, err error) {
	tail := make([]byte, min(size, endSize+maxComment))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return d, err
	}
	at := -1
	for i := len(tail) - endSize; i >= 0; i-- {
		if bytes.HasPrefix(tail[i:], magicEmptyZip) && i+endSize+int(binary.LittleEndian.Uint16(tail[i+20:])) <= len(tail) {
			at = i
			break
		}
	}
	if at < 0 {
		return d, damaged("its end is missing; the download may have been cut off")
	}
	end := tail[at:]
	if len(end) != endSize+int(binary.LittleEndian.Uint16(end[20:])) {
		return d, damaged("there is something behind its end")
	}
	d = directory{
		count:  uint64(binary.LittleEndian.Uint16(end[10:])),
		size:   uint64(binary.LittleEndian.Uint32(end[12:])),
		offset: uint64(binary.LittleEndian.Uint32(end[16:])),
		end:    size - int64(len(end)),
	}
	if binary.LittleEndian.Uint32(end[4:]) != 0 {
		return d, damaged("it is one of several volumes")
	}
	if d.count == 0xffff || d.size == 0xffff || d.size == 0xffffffff || d.offset == 0xffffffff {
		return findDirectory64(f, d)
	}
	return d, nil
}

// findDirectory64 reads the records of a large archive, where they are.
func findDirectory64(f io.ReaderAt, d directory) (directory, error) {
	locator := make([]byte, locatorSize)
	if d.end < locatorSize {
		return d, nil
	}
	if _, err := f.ReadAt(locator, d.end-locatorSize); err != nil {
		return d, err
	}
	if !bytes.HasPrefix(locator, []byte("PK\x06\x07")) {
		return d, nil
	}
	at := binary.LittleEndian.Uint64(locator[8:])
	if at > uint64(d.end) || d.end-locatorSize-int64(at) != end64Size {
		return d, damaged("its end is not where it should be")
	}
	end := make([]byte, end64Size)
	if _, err := f.ReadAt(end, int64(at)); err != nil {
		return d, err
	}
	if !bytes.HasPrefix(end, []byte("PK\x06\x06")) {
		return d, damaged("its end is not one")
	}
	return directory{
		count:  binary.LittleEndian.Uint64(end[32:]),
		size:   binary.LittleEndian.Uint64(end[40:]),
		offset: binary.LittleEndian.Uint64(end[48:]),
		end:    int64(at),
	}, nil
}
