package unpack

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rungci/rung/steps/source/tree"
)

// Kind is how strictly a layer is taken.
type Kind int

const (
	// Archive is a tar archive that stands alone. What does not fit a tree is an error.
	Archive Kind = iota
	// Artifact is a layer that was made to be a component. It is as an archive, but may replace what earlier layers hold, and take
	// it away by files named ".wh.…".
	Artifact
	// Image is a layer of a container image: a whole file system, perhaps. Devices, sockets and pipes are left out, and so are
	// names that not every system can have. A link with an absolute target gets the relative one that means the same inside of
	// the image. Of two files of one name the last counts, and a path may lead through links.
	Image
)

// Layer is one of several sets of files that lie over each other.
type Layer struct {
	Kind Kind
	// Open opens the layer: a tar archive, also compressed with gzip or zstd. It is called more than once.
	Open func() (io.ReadCloser, error)
	// Title is the name of the one file that the layer is where it is not a tar archive; "" where it must be one.
	Title string
	Size  int64 // of that file
}

// Layers packs what is left when each layer was laid over those before. The layers are read twice: first to find out what
// counts, so that nothing needs to be kept.
func Layers(ctx context.Context, layers []Layer, to *tree.Writer) error {
	m := &merge{root: newFolder()}
	first, second := &budget{}, &budget{}
	for i, layer := range layers {
		changes := newChanges(i, layer.Kind)
		if err := layer.scan(ctx, first, changes.note); err != nil {
			return err
		}
		if err := m.apply(changes); err != nil {
			return err
		}
	}
	wanted, links := m.result(len(layers))
	for i, layer := range layers {
		if len(wanted[i]) == 0 {
			continue
		}
		err := layer.scan(ctx, second, func(h *tar.Header, n int, content io.Reader) error {
			return addAll(ctx, to, wanted[i][n], h.Size, content)
		})
		if err != nil {
			return err
		}
	}
	for _, l := range links {
		if err := to.AddSymlink(l.name, l.target); err != nil {
			return err
		}
	}
	return nil
}

// budget is what all layers together may still hold.
type budget struct {
	entries int
	bytes   int64
}

func (b *budget) entry() error {
	if b.entries++; b.entries > MaxEntries {
		return fmt.Errorf("%w: more than %d entries", tree.ErrLimit, MaxEntries)
	}
	return nil
}

// scan calls visit with every entry of the layer, which are counted from 0.
func (l Layer) scan(ctx context.Context, b *budget, visit func(h *tar.Header, n int, content io.Reader) error) error {
	raw, err := l.Open()
	if err != nil {
		return err
	}
	defer raw.Close()
	plain, closer, err := decompress(raw)
	if err != nil && l.Title == "" {
		return err
	}
	if err == nil {
		defer closer()
		in := bufio.NewReaderSize(plain, 64<<10)
		head, err := in.Peek(512)
		if isTar(head) {
			return l.scanTar(ctx, &bounded{ctx: ctx, r: in, budget: b}, b, visit)
		}
		if err != nil && !errors.Is(err, io.EOF) && l.Title == "" {
			return &FormatError{Why: "it is damaged", Err: err}
		}
	}
	if l.Title == "" {
		return &FormatError{Why: "it holds no tar archive"}
	}
	again, err := l.Open()
	if err != nil {
		return err
	}
	defer again.Close()
	return visit(&tar.Header{Typeflag: tar.TypeReg, Name: l.Title, Mode: 0o644, Size: l.Size}, 0, again)
}

func (l Layer) scanTar(ctx context.Context, in *bounded, b *budget, visit func(*tar.Header, int, io.Reader) error) error {
	archive := tar.NewReader(in)
	for n := 0; ; n++ {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return l.finish(in)
		case err != nil && errors.Is(err, tree.ErrLimit), ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), err)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return &FormatError{Why: "it is a damaged tar archive", Err: err}
		}
		if err := b.entry(); err != nil {
			return err
		}
		if h.Size > tree.MaxSize { // a sparse file is large without being so in the archive
			return fmt.Errorf("%w: the entry %q has %d MiB", tree.ErrLimit, h.Name, h.Size>>20)
		}
		if err := visit(h, n, archive); err != nil {
			return err
		}
	}
}

// finish reads what is behind the end of a tar archive, so that checksums are compared. An archive that stands for itself has
// a mark at its end, and nothing behind it.
func (l Layer) finish(in *bounded) error {
	if l.Kind != Image && !allZero(in.last[:]) {
		return &FormatError{Why: "it is a damaged tar archive: its end is missing; the download may have been cut off"}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if l.Kind != Image && !allZero(buf[:n]) {
			return &FormatError{Why: "it is a damaged tar archive: there is something behind its end"}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && (errors.Is(err, tree.ErrLimit) || in.ctx.Err() != nil) {
			return err
		}
		if err != nil {
			return &FormatError{Why: "it is a damaged tar archive", Err: err}
		}
	}
}

// bounded is a stream that ends with ctx and with the budget. It remembers the last block.
type bounded struct {
	ctx    context.Context
	r      io.Reader
	budget *budget
	last   [512]byte
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.r.Read(p)
	if n >= len(b.last) {
		copy(b.last[:], p[n-len(b.last):n])
	} else {
		copy(b.last[:], b.last[n:])
		copy(b.last[len(b.last)-n:], p[:n])
	}
	if b.budget.bytes += int64(n); b.budget.bytes > MaxStream {
		return n, fmt.Errorf("%w: it unpacks to more than %d MiB", tree.ErrLimit, MaxStream>>20)
	}
	return n, err
}
