package pack

import (
	"context"
	"errors"
	"io"
	"sync"
)

// unzipper unpacks one zip archive.
type unzipper struct {
	ctx     context.Context
	options ExtractOptions
	summary *Summary
	files   []*ZipEntry
	links   []*ZipEntry
	folders []*ZipEntry
	layout  layout
}

// ExtractZip unpacks a zip archive; see Extract.
func ExtractZip(ctx context.Context, archive io.ReaderAt, size int64, dir string, o ExtractOptions) (*Summary, error) {
	o = o.withDefaults()
	entries, err := OpenZip(archive, size, o.budget())
	if err != nil {
		return nil, err
	}
	u := &unzipper{ctx: ctx, options: o, summary: &Summary{}, layout: layout{}}
	for _, e := range entries {
		if err := u.plan(e); err != nil {
			return nil, err
		}
	}
	t, err := openTarget(dir, o.Replace)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := u.write(t); err != nil {
		return nil, err
	}
	return u.summary, nil
}

// plan checks an entry. Nothing is written yet.
func (u *unzipper) plan(e *ZipEntry) error {
	if u.options.NoGit && InGit(e.Name) {
		u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Git, Name: e.Name})
		return nil
	}
	if e.Name == "." {
		if e.Kind == KindFolder {
			u.folders = append(u.folders, e)
		}
		return unpackedRoot(&e.Entry)
	}
	k := file
	switch e.Kind {
	case KindFolder:
		k = folder
		u.folders = append(u.folders, e)
	case KindSymlink:
		k = link
		u.links = append(u.links, e)
	case KindFile:
		u.summary.Bytes += e.Size
		u.files = append(u.files, e)
	default:
		u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Special, Name: e.Name, Mode: e.Mode})
		return nil
	}
	u.summary.Entries++
	return u.layout.add(e.Name, k)
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
		if err := t.setFolder(f.Name, f.attributes()); err != nil {
			return err
		}
	}
	if err := u.writeFiles(t); err != nil {
		return err
	}
	w := t.newWriter()
	defer w.close()
	for _, l := range u.links {
		to, err := l.ReadTarget(u.ctx)
		if err == nil {
			err = w.link(l.Name, to)
		}
		if err != nil {
			return err
		}
	}
	return t.finish()
}

func (u *unzipper) writeFiles(t *target) error {
	ctx, cancel := context.WithCancelCause(u.ctx)
	defer cancel(nil)
	work := make(chan *ZipEntry)
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

func writeZipFile(ctx context.Context, w *writer, e *ZipEntry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	content, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer content.Close()
	return w.file(e.Name, content, e.Size, e.attributes())
}

// unlessStopped says that an archive is damaged, unless it is another matter why it could not be read on.
func unlessStopped(name, why string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || Refused(err) {
		return err
	}
	return &FormatError{Entry: name, Why: why, Err: err}
}
