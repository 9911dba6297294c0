package pack

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// unzipper unpacks one zip archive.
type unzipper struct {
	ctx     context.Context
	options ExtractOptions
	summary *Summary
	files   []zipEntry
	links   []zipEntry
	folders []zipEntry
	layout  layout
}

type zipEntry struct {
	*zip.File
	name string // checked
}

// ExtractZip unpacks a zip archive; see Extract.
func ExtractZip(ctx context.Context, archive io.ReaderAt, size int64, dir string, o ExtractOptions) (*Summary, error) {
	z, err := zip.NewReader(archive, size)
	if err != nil {
		return nil, &FormatError{Why: "it is not a whole zip archive; perhaps it was cut short", Err: err}
	}
	decoders := &sync.Pool{}
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser { return newInflater(decoders, r) })
	z.RegisterDecompressor(methodZstd, zstd.ZipDecompressor(zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true)))
	u := &unzipper{ctx: ctx, options: o.withDefaults(), summary: &Summary{}, layout: layout{}}
	if err := u.plan(z, size); err != nil {
		return nil, err
	}
	t, err := openTarget(dir, u.options.Replace)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := u.write(t); err != nil {
		return nil, err
	}
	return u.summary, nil
}

// plan checks all entries. Nothing is written yet.
func (u *unzipper) plan(z *zip.Reader, size int64) error {
	if len(z.File) > u.options.MaxEntries {
		return &LimitError{"entries", int64(u.options.MaxEntries)}
	}
	var packed uint64
	for _, f := range z.File {
		if err := u.planEntry(f); err != nil {
			return err
		}
		if packed += min(f.CompressedSize64, uint64(size)+1); packed > uint64(size) {
			return &FormatError{Entry: f.Name, Why: "its content overlaps that of other entries, or lies outside of the archive"}
		}
	}
	return nil
}

func (u *unzipper) planEntry(f *zip.File) error {
	name, err := cleanName(f.Name)
	if err != nil {
		return err
	}
	if u.options.NoGit && isInGit(name) {
		u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Git, Name: name})
		return nil
	}
	if f.Flags&1 != 0 {
		return &FormatError{Entry: f.Name, Why: "it is encrypted"}
	}
	if f.UncompressedSize64 > uint64(u.options.MaxBytes) || u.summary.Bytes+int64(f.UncompressedSize64) > u.options.MaxBytes {
		return &LimitError{"bytes", u.options.MaxBytes}
	}
	e := zipEntry{f, name}
	k := file
	switch mode := f.Mode(); {
	case mode.IsDir():
		k = folder
		u.folders = append(u.folders, e)
	case name == ".":
		return &UnsafeError{f.Name, "it stands for the folder that is unpacked into"}
	case mode&fs.ModeSymlink != 0:
		if f.UncompressedSize64 == 0 || f.UncompressedSize64 > maxTarget {
			return &FormatError{Entry: f.Name, Why: fmt.Sprintf("a symbolic link has a target of 1 to %d bytes", maxTarget)}
		}
		k = link
		u.links = append(u.links, e)
	case mode.IsRegular():
		u.summary.Bytes += int64(f.UncompressedSize64)
		u.files = append(u.files, e)
	default:
		u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Special, Name: name, Mode: mode})
		return nil
	}
	if name == "." {
		return nil
	}
	u.summary.Entries++
	return u.layout.add(name, k)
}

// write unpacks what was planned: folders, then files, several at a time, then links.
func (u *unzipper) write(t *target) error {
	for name, k := range u.layout {
		if k == implied || k == folder {
			if err := t.ensure(name); err != nil {
				return err
			}
		}
	}
	for _, f := range u.folders {
		if err := t.setFolder(f.name, f.attributes()); err != nil {
			return err
		}
	}
	if err := u.writeFiles(t); err != nil {
		return err
	}
	w := t.newWriter()
	defer w.close()
	for _, l := range u.links {
		if err := u.writeLink(w, l); err != nil {
			return err
		}
	}
	return t.finish()
}

func (u *unzipper) writeLink(w *writer, l zipEntry) error {
	content, err := l.Open()
	if err != nil {
		return unlessStopped(l.name, "its content cannot be read", err)
	}
	defer content.Close()
	to, err := io.ReadAll(io.LimitReader(content, maxTarget+1))
	if err != nil {
		return unlessStopped(l.name, "its content cannot be read", err)
	}
	if len(to) == 0 || len(to) > maxTarget {
		return &FormatError{Entry: l.name, Why: fmt.Sprintf("a symbolic link has a target of 1 to %d bytes", maxTarget)}
	}
	return w.link(l.name, string(to))
}

func (u *unzipper) writeFiles(t *target) error {
	ctx, cancel := context.WithCancelCause(u.ctx)
	defer cancel(nil)
	work := make(chan zipEntry)
	var group sync.WaitGroup
	for range u.options.Workers {
		group.Go(func() {
			w := t.newWriter()
			defer w.close()
			for e := range work {
				if err := writeZipFile(ctx, w, e); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, e := range u.files {
		if ctx.Err() != nil {
			break
		}
		work <- e
	}
	close(work)
	group.Wait()
	return context.Cause(ctx)
}

func writeZipFile(ctx context.Context, w *writer, e zipEntry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	content, err := e.Open()
	if err != nil {
		return &FormatError{Entry: e.name, Why: "its content cannot be read", Err: err}
	}
	defer content.Close()
	return w.file(e.name, &stoppable{ctx, content}, int64(e.UncompressedSize64), e.attributes())
}

// attributes are what is restored of an entry. Systems without permissions write none.
func (e zipEntry) attributes() attributes {
	const systemUnix, systemMac = 3, 19
	a := attributes{perm: e.Mode().Perm(), modified: e.Modified}
	if by := e.CreatorVersion >> 8; by != systemUnix && by != systemMac {
		a.perm = 0o644
		if e.Mode().IsDir() {
			a.perm = 0o755
		}
	}
	if a.modified.Before(time.Unix(0, 0)) { // the archive has no time
		a.modified = time.Time{}
	}
	return a
}

// stoppable stops reading when its context ends.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.r.Read(p)
}

// unlessStopped says that an archive is damaged, unless it is another matter why it could not be read on.
func unlessStopped(name, why string, err error) error {
	var limit *LimitError
	var format *FormatError
	var unsafe *UnsafeError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &limit) || errors.As(err, &format) || errors.As(err, &unsafe) {
		return err
	}
	return &FormatError{Entry: name, Why: why, Err: err}
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
