package plugin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	publish "github.com/rungci/rung/publish/oci"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

// mirror are the images of one plugin in a layout.
type mirror struct {
	*publish.Layout
	folder, what string
	all          []distribution.Descriptor          // the plugin's
	tags         map[string]distribution.Descriptor // by version
}

// openMirror finds the images of a plugin in a mirror: a layout, whose images are named REPOSITORY:VERSION, NAME:VERSION or VERSION alone, or a folder with a layout
// for each plugin, which is called REPOSITORY or NAME.
func openMirror(folder, repository, name string) (*mirror, error) {
	what := repository
	if what == "" {
		what = name
	}
	var first error = &source.NotFoundError{Ref: what, Looked: []string{folder}, Err: errNoMirror(folder)}
	for i, sub := range []string{"", repository, name} {
		if i > 0 && (sub == "" || !filepath.IsLocal(filepath.FromSlash(sub))) {
			continue
		}
		dir := filepath.Join(folder, filepath.FromSlash(sub))
		layout, err := publish.OpenLayout(dir)
		if err != nil {
			if !errors.Is(err, publish.ErrNoLayout) {
				first = err
			}
			continue
		}
		m := &mirror{Layout: layout, folder: dir, what: what, tags: map[string]distribution.Descriptor{}}
		images, err := layout.Images()
		if err != nil {
			return nil, damaged(what, dir, err)
		}
		for _, d := range images {
			m.note(d, repository, name, i > 0 || len(images) == 1)
		}
		if len(m.all) > 0 {
			return m, nil
		}
		first = &source.NotFoundError{Ref: what, Looked: []string{dir}, Err: errors.New("the mirror does not have it")}
	}
	return nil, first
}

// damaged is the error about a mirror in which something is missing or wrong.
func damaged(what, folder string, err error) error {
	return &source.DeniedError{What: what, Why: fmt.Sprintf("the mirror %s is damaged: %v", folder, err), Hint: "copy it again, or make it again with `rung plugin publish --to DIR`"}
}

// errNoMirror says why there are no plugins in a folder.
func errNoMirror(folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return errors.New("the folder does not exist")
	}
	return errors.New("it is not a mirror: it has no OCI image layout, which `rung plugin publish --to DIR` makes")
}

// note takes an image of the layout if it is the plugin's. In a layout of one plugin alone, names need not say which.
func (m *mirror) note(d distribution.Descriptor, repository, name string, alone bool) {
	ref := d.Annotations[publish.AnnotationRefName]
	of, version, tagged := strings.Cut(ref, ":")
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		of, version, tagged = ref[:i], ref[i+1:], true
	}
	switch {
	case tagged && (of == repository || of == name || repository == "" && strings.HasSuffix(of, "/"+name)):
	case alone && !tagged && !strings.Contains(ref, "/"):
		version = ref
	default:
		return
	}
	m.all = append(m.all, d)
	if version != "" {
		m.tags[version] = d
	}
}

func (m *mirror) versions(context.Context) (all []string, err error) {
	for version := range m.tags {
		all = append(all, version)
	}
	return all, nil
}

func (m *mirror) resolve(_ context.Context, tag string) (distribution.Digest, error) {
	if d, ok := m.tags[tag]; ok {
		return d.Digest, nil
	}
	return "", &source.NotFoundError{Ref: m.what + ":" + tag, Looked: []string{m.folder}}
}

func (m *mirror) manifest(_ context.Context, digest distribution.Digest) (*distribution.Manifest, error) {
	found, err := m.Manifest(distribution.Descriptor{Digest: digest})
	named := slices.ContainsFunc(m.all, func(d distribution.Descriptor) bool { return d.Digest == digest })
	switch {
	case errors.Is(err, os.ErrNotExist) && !named:
		return nil, &source.NotFoundError{Ref: m.what + "@" + digest.String(), Looked: []string{m.folder}}
	case err != nil:
		return nil, damaged(m.what, m.folder, err)
	}
	return found, nil
}

func (m *mirror) blob(_ context.Context, d distribution.Descriptor, file string) error {
	in, err := m.Open(d)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("the blob %s does not exist", d.Digest)
	}
	if err != nil {
		return damaged(m.what, m.folder, err)
	}
	defer in.Close()
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(in, d.Size+1))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if got := distribution.DigestSum(hash); n != d.Size || got != d.Digest {
		return damaged(m.what, m.folder, fmt.Errorf("the blob %s has the digest %s", d.Digest, got))
	}
	return nil
}
