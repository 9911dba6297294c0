package pack

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
)

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
	if err := ReadTar(ctx, plain, o.budget(), false, u.entry); err != nil {
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

func (u *untarrer) entry(e *Entry, content io.Reader) error {
	if u.options.NoGit && InGit(e.Name) {
		u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Git, Name: e.Name})
		return nil
	}
	if u.options.Each != nil {
		tee, write, err := u.options.Each(e)
		if err != nil {
			return err
		}
		if tee != nil {
			content = io.TeeReader(content, tee)
		}
		if !write {
			_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, content, u.writer.buf)
			return err
		}
	}
	if e.Name == "." {
		return unpackedRoot(e)
	}
	switch e.Kind {
	case KindFolder:
		u.summary.Entries++
		if err := u.layout.add(e.Name, folder); err != nil {
			return err
		}
		return u.target.setFolder(e.Name, e.attributes())
	case KindFile:
		if err := u.place(e.Name, file); err != nil {
			return err
		}
		u.summary.Bytes += e.Size
		return u.writer.file(e.Name, content, e.Size, e.attributes())
	case KindSymlink:
		if err := checkTarget(e.Name, e.Target); err != nil {
			return err
		}
		return u.link(e.Name, e.Target)
	case KindHardLink:
		return u.hardLink(e)
	}
	u.summary.Warnings = append(u.summary.Warnings, Warning{Reason: Special, Name: e.Name, Mode: e.Mode})
	return nil
}

// unpackedRoot checks an entry that is the folder itself.
func unpackedRoot(e *Entry) error {
	if e.Kind != KindFolder {
		return &UnsafeError{e.Name, "it stands for the folder that is unpacked into"}
	}
	return nil
}

// place notes an entry that is not a folder, and makes the folder that it is in.
func (u *untarrer) place(name string, k kind) error {
	u.summary.Entries++
	if err := u.layout.add(name, k); err != nil {
		return err
	}
	return u.target.ensure(path.Dir(name))
}

// link notes a symbolic link, which is made at the end.
func (u *untarrer) link(name, target string) error {
	u.links = append(u.links, tarLink{name, target})
	u.targets[name] = target
	return u.place(name, link)
}

// hardLink gives a file that the archive already made another name.
func (u *untarrer) hardLink(e *Entry) error {
	if target, ok := u.targets[e.Target]; ok && u.options.Replace {
		return u.link(e.Name, target)
	}
	if u.layout[e.Target] != file {
		return &UnsafeError{e.Name, "it is another name for \"" + e.Target + "\", which is not a file of the archive before it"}
	}
	if err := u.place(e.Name, file); err != nil {
		return err
	}
	in, base, err := u.writer.enter(e.Name)
	if err == nil {
		err = u.writer.makeWay(in, base, e.Name)
	}
	if err == nil {
		err = u.target.root.Link(filepath.FromSlash(e.Target), filepath.FromSlash(e.Name))
	}
	if err != nil {
		return fmt.Errorf("linking %q: %w", e.Name, err)
	}
	return nil
}
