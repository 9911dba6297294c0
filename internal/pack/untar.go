package pack

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// headerRoom is how many bytes of a tar stream an entry may need besides its content, on average: headers, long names and padding.
const headerRoom = 16 << 10

// ExtractTarZstd unpacks a tar archive that is compressed with Zstandard, in any number of frames; see Extract.
func ExtractTarZstd(ctx context.Context, archive io.Reader, dir string, o ExtractOptions) (*Summary, error) {
	z, err := zstd.NewReader(archive, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(o.withDefaults().Workers))
	if err != nil {
		return nil, &FormatError{Why: "it is not compressed with Zstandard", Err: err}
	}
	defer z.Close()
	return ExtractTar(ctx, z, dir, o)
}

// ExtractTarGzip unpacks a tar archive that is compressed with gzip; see Extract.
func ExtractTarGzip(ctx context.Context, archive io.Reader, dir string, o ExtractOptions) (*Summary, error) {
	z, err := gzip.NewReader(bufio.NewReaderSize(archive, writeBuffer))
	if err != nil {
		return nil, &FormatError{Why: "it is not compressed with gzip", Err: err}
	}
	defer z.Close()
	return ExtractTar(ctx, z, dir, o)
}

// untarrer unpacks one tar archive.
type untarrer struct {
	options ExtractOptions
	summary *Summary
	layout  layout
	target  *target
	writer  *writer
	links   []tarLink
	targets map[string]string // of links, by their names
}

// tarLink is a symbolic link that is made at the end.
type tarLink struct{ name, target string }

// ExtractTar unpacks a tar archive that is not compressed; see [Extract].
func ExtractTar(ctx context.Context, plain io.Reader, dir string, o ExtractOptions) (*Summary, error) {
	o = o.withDefaults()
	t, err := openTarget(dir, o.Replace)
	if err != nil {
		return nil, err
	}
	defer t.close()
	u := &untarrer{options: o, summary: &Summary{}, layout: layout{}, target: t, writer: t.newWriter(), targets: map[string]string{}}
	defer u.writer.close()
	stream := &tarStream{r: &stoppable{ctx, plain}, left: o.MaxBytes + headerRoom*(int64(o.MaxEntries)+1), limit: o.MaxBytes}
	if err := u.unpack(stream); err != nil {
		return nil, err
	}
	for _, l := range u.links {
		if err := u.writer.link(l.name, l.target); err != nil {
			return nil, err
		}
	}
	if err := t.finish(); err != nil {
		return nil, err
	}
	return u.summary, nil
}

func (u *untarrer) unpack(stream *tarStream) error {
	r := tar.NewReader(stream)
	for {
		stream.mark()
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return stream.finish()
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return unlessStopped("", "it is not a whole tar archive; perhaps it was cut short", err)
		}
		if u.summary.Entries++; u.summary.Entries > u.options.MaxEntries {
			return &LimitError{"entries", int64(u.options.MaxEntries)}
		}
		if err := u.entry(h, r); err != nil {
			return err
		}
	}
}

func (u *untarrer) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		u.summary.Entries--
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if u.options.NoGit && isInGit(name) {
		u.summary.Entries--
		u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Git, Name: name})
		return nil
	}
	a := attributes{perm: fs.FileMode(h.Mode).Perm(), modified: h.ModTime}
	if name == "." && h.Typeflag != tar.TypeDir {
		return &UnsafeError{h.Name, "it stands for the folder that is unpacked into"}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if name == "." {
			u.summary.Entries--
			return nil
		}
		if err := u.layout.add(name, folder); err != nil {
			return err
		}
		return u.target.setFolder(name, a)
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return u.file(name, h.Size, content, a)
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxTarget {
			return &FormatError{Entry: h.Name, Why: fmt.Sprintf("a symbolic link has a target of 1 to %d bytes", maxTarget)}
		}
		return u.link(name, h.Linkname)
	case tar.TypeLink:
		return u.hardLink(name, h)
	}
	u.summary.Entries--
	u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Special, Name: name, Mode: h.FileInfo().Mode()})
	return nil
}

// place notes an entry that is not a folder, and makes the folder that it is in.
func (u *untarrer) place(name string, k kind) error {
	if err := u.layout.add(name, k); err != nil {
		return err
	}
	return u.target.ensure(parent(name))
}

// link notes a symbolic link, which is made at the end.
func (u *untarrer) link(name, target string) error {
	u.links = append(u.links, tarLink{name, target})
	u.targets[name] = target
	return u.place(name, link)
}

func (u *untarrer) file(name string, size int64, content io.Reader, a attributes) error {
	if size > u.options.MaxBytes-u.summary.Bytes {
		return &LimitError{"bytes", u.options.MaxBytes}
	}
	if err := u.place(name, file); err != nil {
		return err
	}
	u.summary.Bytes += size
	return u.writer.file(name, content, size, a)
}

// hardLink gives a file that the archive already made another name.
func (u *untarrer) hardLink(name string, h *tar.Header) error {
	to, err := cleanName(h.Linkname)
	if err != nil {
		return err
	}
	if target, ok := u.targets[to]; ok && u.options.Replace {
		return u.link(name, target)
	}
	if u.layout[to] != file {
		return &UnsafeError{h.Name, "it is another name for \"" + h.Linkname + "\", which is not a file of the archive before it"}
	}
	if err := u.place(name, file); err != nil {
		return err
	}
	in, base, err := u.writer.enter(name)
	if err == nil {
		err = u.writer.makeWay(in, base, name)
	}
	if err == nil {
		err = u.target.root.Link(filepath.FromSlash(to), filepath.FromSlash(name))
	}
	if err != nil {
		return fmt.Errorf("linking %q: %w", name, err)
	}
	return nil
}

// tarStream counts the bytes of a tar archive, and knows whether its end was there.
type tarStream struct {
	r     io.Reader
	left  int64
	limit int64
	total int64 // bytes read
	next  int64 // where the next header begins, or what marks the end
	last  [tarBlock]byte
}

// tarBlock is what everything in a tar archive is padded to.
const tarBlock = 512

// mark is called when an entry's content was read.
func (s *tarStream) mark() { s.next = (s.total + tarBlock - 1) / tarBlock * tarBlock }

// Read implements io.Reader.
func (s *tarStream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if n >= len(s.last) {
		copy(s.last[:], p[n-len(s.last):n])
	} else {
		copy(s.last[:], s.last[n:])
		copy(s.last[len(s.last)-n:], p[:n])
	}
	s.total += int64(n)
	if s.left -= int64(n); s.left < 0 {
		return n, &LimitError{"bytes", s.limit}
	}
	return n, err
}

// finish checks that the archive ends with the blocks that mark its end, and that its checksum is right. Frames of Zstandard stand
// alone: an archive that is cut between two would look whole otherwise.
func (s *tarStream) finish() error {
	if s.total < s.next+tarBlock || s.last != [tarBlock]byte{} {
		return &FormatError{Why: "its end is missing; it was cut short"}
	}
	if _, err := io.Copy(io.Discard, s); err != nil {
		return unlessStopped("", "its end cannot be read", err)
	}
	return nil
}
