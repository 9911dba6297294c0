package pack

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// ZipEntry is an entry of a zip archive.
type ZipEntry struct {
	Entry
	file *zip.File
}

// OpenZip returns the entries of a zip archive. It is strict where package zip is not: the list of entries is at the end, with nothing
// behind it, has as many entries as it says, and is counted before memory is made for it.
func OpenZip(archive io.ReaderAt, size int64, b *Budget) ([]*ZipEntry, error) {
	if err := CheckZip(archive, size, b.MaxEntries); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(archive, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, &FormatError{Why: "it is not a whole zip archive; perhaps it was cut short", Err: err}
	}
	decoders := &sync.Pool{}
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser { return newInflater(decoders, r) })
	z.RegisterDecompressor(methodZstd, zstd.ZipDecompressor(zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true)))
	entries := make([]*ZipEntry, 0, len(z.File))
	var packed uint64
	for _, f := range z.File {
		e, err := zipEntry(f)
		if err == nil {
			err = b.take(&e.Entry)
		}
		if err != nil {
			return nil, err
		}
		if packed += min(f.CompressedSize64, uint64(size)+1); packed > uint64(size) {
			return nil, &FormatError{Entry: f.Name, Why: "its content overlaps that of other entries, or lies outside of the archive"}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Flags of zip entries, and the systems that they were made on.
const (
	flagEncrypted = 1 << 0
	flagStrong    = 1 << 6
	creatorFAT    = 0
	creatorUnix   = 3
	creatorNTFS   = 10
	creatorVFAT   = 14
	creatorMac    = 19
)

func zipEntry(f *zip.File) (*ZipEntry, error) {
	written, by := f.Name, f.CreatorVersion>>8
	// Programs for Windows have written backslashes where the format demands slashes.
	if (by == creatorFAT || by == creatorNTFS || by == creatorVFAT) && !strings.Contains(written, "/") {
		written = strings.ReplaceAll(written, `\`, "/")
	}
	name, err := cleanName(written)
	if err != nil {
		return nil, err
	}
	e := &ZipEntry{Entry: Entry{Name: name, Mode: f.Mode(), Modified: f.Modified}, file: f}
	if e.Modified.Before(time.Unix(0, 0)) { // the archive has no time
		e.Modified = time.Time{}
	}
	switch mode := e.Mode; {
	case mode.IsDir() || strings.HasSuffix(written, "/"):
		e.Kind = KindFolder
		if f.UncompressedSize64 > 0 {
			return nil, &FormatError{Entry: f.Name, Why: "it is a folder with content"}
		}
	case mode&fs.ModeSymlink != 0:
		e.Kind = KindSymlink
	case mode.IsRegular():
		e.Kind = KindFile
		if e.Size = int64(f.UncompressedSize64); e.Size < 0 {
			return nil, &FormatError{Entry: f.Name, Why: "its size is impossible"}
		}
	default:
		e.Kind = KindSpecial
		return e, nil
	}
	switch {
	case f.Flags&(flagEncrypted|flagStrong) != 0:
		return nil, &FormatError{Entry: f.Name, Why: "it is encrypted, and there is no way to give a password"}
	case f.Method != zip.Store && f.Method != zip.Deflate && f.Method != methodZstd:
		return nil, &FormatError{Entry: f.Name, Why: fmt.Sprintf("it is compressed with the method %d; only deflate and Zstandard can be unpacked", f.Method)}
	}
	if by != creatorUnix && by != creatorMac { // no permissions
		perm := fs.FileMode(0o644)
		if e.Kind == KindFolder {
			perm = 0o755
		}
		e.Mode = e.Mode.Type() | perm
	}
	return e, nil
}

// Open returns the content of a file or link. Reading ends with the context. Entries can be opened concurrently.
func (e *ZipEntry) Open(ctx context.Context) (io.ReadCloser, error) {
	in, err := e.file.Open()
	if err != nil {
		return nil, unlessStopped(e.Name, "its content cannot be read", err)
	}
	return &zipContent{ctx: ctx, entry: e, ReadCloser: in}, nil
}

// ReadTarget returns the target of a symbolic link.
func (e *ZipEntry) ReadTarget(ctx context.Context) (string, error) {
	in, err := e.Open(ctx)
	if err != nil {
		return "", err
	}
	defer in.Close()
	target, err := io.ReadAll(io.LimitReader(in, maxTarget+1))
	if err != nil {
		return "", err
	}
	return string(target), checkTarget(e.Name, string(target))
}

// checkTarget bounds the target of a symbolic link.
func checkTarget(name, target string) error {
	if target == "" || len(target) > maxTarget {
		return &FormatError{Entry: name, Why: fmt.Sprintf("it is a symbolic link, and its target is empty or longer than %d bytes", maxTarget)}
	}
	return nil
}

// zipContent is the content of an entry. What goes wrong when it is read is the archive's fault.
type zipContent struct {
	ctx   context.Context
	entry *ZipEntry
	io.ReadCloser
}

func (c *zipContent) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unlessStopped(c.entry.Name, "its content cannot be read", err)
	}
	return n, err
}

// inflater is a decoder of Deflate that goes back to where it came from.
type inflater struct {
	io.ReadCloser
	pool *sync.Pool
}

func newInflater(pool *sync.Pool, r io.Reader) io.ReadCloser {
	if d, ok := pool.Get().(io.ReadCloser); ok {
		if err := d.(flate.Resetter).Reset(r, nil); err == nil {
			return &inflater{d, pool}
		}
	}
	return &inflater{flate.NewReader(r), pool}
}

// Close implements io.Closer.
func (i *inflater) Close() error {
	if i.ReadCloser == nil {
		return nil
	}
	err := i.ReadCloser.Close()
	i.pool.Put(i.ReadCloser)
	i.ReadCloser = nil
	return err
}

// Read implements io.Reader.
func (i *inflater) Read(p []byte) (int, error) {
	if i.ReadCloser == nil {
		return 0, errors.New("read after close")
	}
	return i.ReadCloser.Read(p)
}
