package unpack

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/rungci/rung/internal/pack"
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
	first, second := newBudget(), newBudget()
	for i, layer := range layers {
		changes := newChanges(i, layer.Kind)
		if err := layer.scan(ctx, first, changes.note); err != nil {
			return within(err)
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
		n := -1
		err := layer.scan(ctx, second, func(e *pack.Entry, content io.Reader) error {
			n++
			return addAll(to, wanted[i][n], e.Size, content)
		})
		if err != nil {
			return within(err)
		}
	}
	for _, l := range links {
		if err := to.AddSymlink(l.name, l.target); err != nil {
			return err
		}
	}
	return nil
}

// scan calls visit with every entry of the layer.
func (l Layer) scan(ctx context.Context, b *pack.Budget, visit func(e *pack.Entry, content io.Reader) error) error {
	raw, err := l.Open()
	if err != nil {
		return err
	}
	defer raw.Close()
	plain, closer, err := pack.Decompress(raw, 1)
	if err != nil && l.Title == "" {
		return err
	}
	if err == nil {
		defer closer()
		in := bufio.NewReaderSize(plain, 64<<10)
		head, err := in.Peek(512)
		if pack.IsTar(head) {
			return pack.ReadTar(ctx, in, b, l.Kind == Image, visit)
		}
		if err != nil && !errors.Is(err, io.EOF) && l.Title == "" {
			return &pack.FormatError{Why: "it is damaged", Err: err}
		}
	}
	if l.Title == "" {
		return &pack.FormatError{Why: "it holds no tar archive"}
	}
	again, err := l.Open()
	if err != nil {
		return err
	}
	defer again.Close()
	return visit(&pack.Entry{Name: l.Title, Kind: pack.KindFile, Mode: 0o644, Size: l.Size}, again)
}
