// Package unpack turns archives and image layers into trees. Archives are not trusted: internal/pack reads them, under its rules and within
// the limits of a tree, and what two programs could read differently is an error.
//
// Of an archive (zip, tar, tar.gz, tar.zst) everything must fit a tree: a device, a name that leads out, a link that leads
// out, two files of one name, or bytes that belong to nothing are errors. Folders are not content. A hard link becomes a copy.
// Files are executable if the archive says so; an archive made on Windows does not say. Layers of a container image may hold more, because
// they were made for a whole file system: see Image.
package unpack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/source/tree"
)

// Limits besides those of trees.
const (
	MaxEntries = 2 * tree.MaxFiles // folders included
	// MaxStream is what an archive may unpack to, with all that is not content, in bytes.
	MaxStream = tree.MaxSize + MaxEntries*2048
)

func newBudget() *pack.Budget {
	return &pack.Budget{MaxBytes: tree.MaxSize, MaxEntries: MaxEntries, MaxStream: MaxStream}
}

// within makes an error about a limit one about the limits of trees.
func within(err error) error {
	var limit *pack.LimitError
	if errors.As(err, &limit) && !errors.Is(err, tree.ErrLimit) {
		return fmt.Errorf("%w: %w", tree.ErrLimit, err)
	}
	return err
}

// Refused reports whether an error is about what an archive holds, and not about our own disk.
func Refused(err error) bool {
	var path *tree.PathError
	return pack.Refused(err) || errors.As(err, &path) || errors.Is(err, tree.ErrLimit)
}

// File packs the content of an archive. What it is is told by its first bytes, not by its name.
func File(ctx context.Context, f *os.File, to *tree.Writer) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	format, err := pack.Detect(f)
	if err != nil {
		return err
	}
	if format == pack.FormatZip {
		return within(unzip(ctx, f, info.Size(), to))
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, info.Size())), nil }
	return Layers(ctx, []Layer{{Kind: Archive, Open: open}}, to)
}

func unzip(ctx context.Context, f *os.File, size int64, to *tree.Writer) error {
	entries, err := pack.OpenZip(f, size, newBudget())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := unzipEntry(ctx, e, to); err != nil {
			return err
		}
	}
	return nil
}

func unzipEntry(ctx context.Context, e *pack.ZipEntry, to *tree.Writer) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.Kind == pack.KindFolder && e.Name == ".", inGit(e.Name):
		return nil
	case e.Kind == pack.KindFolder:
		return tree.CheckPath(e.Name)
	case e.Kind == pack.KindSpecial:
		return &pack.FormatError{Entry: e.Name, Why: "it is neither a file nor a folder nor a link"}
	case e.Kind == pack.KindSymlink:
		target, err := e.ReadTarget(ctx)
		if err != nil {
			return err
		}
		return to.AddSymlink(e.Name, target)
	}
	content, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer content.Close()
	return addFile(to, e.Name, e.Mode&0o111 != 0, e.Size, content)
}

// inGit reports whether a path is in a .git folder, which is not part of any tree.
func inGit(name string) bool {
	return name == ".git" || strings.HasPrefix(name, ".git/") || strings.HasSuffix(name, "/.git") || strings.Contains(name, "/.git/")
}

// reading remembers why content could not be read, because who copies it looks at it only up to the size that was announced.
type reading struct {
	r   io.Reader
	err error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// addFile packs one file, to its very end.
func addFile(to *tree.Writer, name string, executable bool, size int64, content io.Reader) error {
	in := &reading{r: content}
	if err := to.AddFile(name, executable, size, in); err != nil {
		if in.err != nil {
			return in.err
		}
		return err
	}
	// At the end checksums are compared.
	if n, err := in.Read(make([]byte, 1)); n > 0 || in.err != nil {
		if in.err == nil {
			in.err = &pack.FormatError{Entry: name, Why: fmt.Sprintf("it is longer than the %d bytes that it says it has", size), Err: err}
		}
	}
	return in.err
}
