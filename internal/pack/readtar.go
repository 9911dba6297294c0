package pack

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
)

// ReadTar calls visit with every entry of a tar archive that is not compressed, in its order. What visit leaves of the content is skipped.
//
// A layer of a container image was made for a root of its own: its names may begin with "/", and not every builder ends it properly. Any
// other archive ends with the blocks that mark its end, and nothing follows them.
func ReadTar(ctx context.Context, archive io.Reader, b *Budget, layer bool, visit func(e *Entry, content io.Reader) error) error {
	stream := &tarStream{ctx: ctx, r: archive, budget: b, layer: layer}
	r := tar.NewReader(stream)
	for {
		stream.mark()
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return stream.finish()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return unlessStopped("", "it is not a whole tar archive; perhaps it was cut short", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		e, err := tarEntry(h, layer)
		if err == nil {
			err = b.take(e)
		}
		if err == nil {
			err = visit(e, &tarContent{entry: e, r: r})
		}
		if err != nil {
			return err
		}
	}
}

func tarEntry(h *tar.Header, layer bool) (*Entry, error) {
	written, target := h.Name, h.Linkname
	if layer {
		if written = strings.TrimLeft(written, "/"); written == "" {
			written = "."
		}
		if h.Typeflag == tar.TypeLink {
			target = strings.TrimLeft(target, "/")
		}
	}
	name, err := cleanName(written)
	if err != nil {
		return nil, err
	}
	e := &Entry{Name: name, Mode: h.FileInfo().Mode(), Modified: h.ModTime, UID: h.Uid, GID: h.Gid}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = KindFolder
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		e.Kind, e.Size, e.Mode = KindFile, h.Size, e.Mode&^fs.ModeType
	case tar.TypeSymlink:
		e.Kind, e.Target = KindSymlink, target
	case tar.TypeLink:
		e.Kind = KindHardLink
		if e.Target, err = cleanName(target); err != nil {
			return nil, &UnsafeError{h.Name, "it is a hard link to \"" + h.Linkname + "\", which is not the name of an entry"}
		}
	default:
		e.Kind = KindSpecial
	}
	return e, nil
}

// tarContent is the content of an entry. What goes wrong when it is read is the archive's fault.
type tarContent struct {
	entry *Entry
	r     io.Reader
}

func (c *tarContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unlessStopped(c.entry.Name, "its content cannot be read", err)
	}
	return n, err
}

// tarStream counts the bytes of a tar archive, ends with its context, and knows whether the end of the archive was there.
type tarStream struct {
	ctx    context.Context
	r      io.Reader
	budget *Budget
	layer  bool
	total  int64 // bytes read
	next   int64 // where the next header begins, or what marks the end
	last   [tarBlock]byte
}

// tarBlock is what everything in a tar archive is padded to.
const tarBlock = 512

// mark is called when an entry's content was read.
func (s *tarStream) mark() { s.next = (s.total + tarBlock - 1) / tarBlock * tarBlock }

// Read implements io.Reader.
func (s *tarStream) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.r.Read(p)
	if n >= len(s.last) {
		copy(s.last[:], p[n-len(s.last):n])
	} else {
		copy(s.last[:], s.last[n:])
		copy(s.last[len(s.last)-n:], p[:n])
	}
	s.total += int64(n)
	if s.budget.stream += int64(n); s.budget.stream > s.budget.maxStream() {
		return n, &LimitError{"bytes", s.budget.maxStream()}
	}
	return n, err
}

// finish reads what follows the archive, so that checksums are compared, and checks that the archive ends with the blocks that mark its end.
// Frames of Zstandard stand alone: an archive that is cut between two would look whole otherwise.
func (s *tarStream) finish() error {
	if !s.layer && (s.total < s.next+tarBlock || s.last != [tarBlock]byte{}) {
		return &FormatError{Why: "its end is missing; it was cut short"}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := s.Read(buf)
		switch {
		case !s.layer && !allZero(buf[:n]):
			return &FormatError{Why: "something follows its end"}
		case errors.Is(err, io.EOF):
			return nil
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case err != nil:
			return unlessStopped("", "its end cannot be read", err)
		}
	}
}
