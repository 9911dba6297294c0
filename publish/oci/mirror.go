package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/source/oci/distribution"
)

// AnnotationRefName is the annotation with the name of an image in a layout.
const AnnotationRefName = "org.opencontainers.image.ref.name"

// Layout is an OCI image layout that is read: a folder with one image or more.
type Layout struct{ layout *layout }

// OpenLayout opens the layout in a folder. The error is ErrNoLayout where there is none.
func OpenLayout(dir string) (*Layout, error) {
	if _, err := os.Stat(filepath.Join(dir, layoutFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s %w", dir, ErrNoLayout)
		}
		return nil, err
	}
	return &Layout{&layout{dir: dir}}, nil
}

// Images are the manifests that the layout names.
func (l *Layout) Images() ([]distribution.Descriptor, error) {
	index, err := l.layout.index()
	return index.Manifests, err
}

// Manifest reads a manifest or an index, and holds it against its digest.
func (l *Layout) Manifest(d distribution.Descriptor) (*distribution.Manifest, error) {
	return l.layout.manifest(d)
}

// Open opens a blob. Nobody has compared it with its digest.
func (l *Layout) Open(d distribution.Descriptor) (io.ReadCloser, error) {
	return l.layout.open(d.Digest)
}

// index reads what the layout names.
func (l *layout) index() (index distribution.Index, err error) {
	data, err := l.read(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return index, fmt.Errorf("%s %w", l.dir, ErrNoLayout)
	}
	if err == nil {
		err = json.Unmarshal(data, &index)
	}
	if err != nil {
		return index, fmt.Errorf("the index of the image layout %s is damaged: %w", l.dir, err)
	}
	return index, nil
}

// Add copies the one image of a layout into another one, which is made if there is none, under a name, "REPOSITORY:TAG". unchanged says that it had the name already. What had
// the name before is named no more; where the tag is a version, that is a *source.DeniedError without force.
func Add(from, to, name string, force bool) (unchanged bool, err error) {
	own, root, err := openLayout(from)
	if err != nil {
		return false, err
	}
	defer own.close()
	if _, err := os.Stat(filepath.Join(to, layoutFile)); errors.Is(err, fs.ErrNotExist) {
		if err := replaceable(to); err != nil {
			return false, err
		}
	}
	target, index := &layout{dir: to}, distribution.Index{}
	if _, err := os.Stat(filepath.Join(to, indexFile)); err == nil {
		if index, err = target.index(); err != nil {
			return false, err
		}
	}
	named := func(d distribution.Descriptor) bool { return d.Annotations[AnnotationRefName] == name }
	if i := slices.IndexFunc(index.Manifests, named); i >= 0 {
		tag := name[strings.LastIndexByte(name, ':')+1:]
		switch there := index.Manifests[i].Digest; {
		case there == root.Digest:
			unchanged = true // and written again: one of its files may be damaged
		case IsVersion(tag) && !force:
			return false, versionExists(to, tag, there, root.Digest)
		}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return false, err
	}
	if err := copyGraph(own, target, root, 0); err != nil {
		return false, err
	}
	root.Annotations = maps.Clone(root.Annotations)
	if root.Annotations == nil {
		root.Annotations = map[string]string{}
	}
	root.Annotations[AnnotationRefName] = name
	index.Manifests = slices.DeleteFunc(index.Manifests, named)
	return unchanged, target.finish(append(index.Manifests, root)...)
}

// copyGraph copies a manifest, and before it all that it names.
func copyGraph(from, to *layout, d distribution.Descriptor, depth int) error {
	if depth > maxNesting {
		return errors.New("there are too many indexes in each other")
	}
	m, err := from.manifest(d)
	if err != nil {
		return err
	}
	var names struct {
		Manifests []distribution.Descriptor `json:"manifests"`
		Layers    []distribution.Descriptor `json:"layers"`
		Config    distribution.Descriptor   `json:"config"`
	}
	if err := json.Unmarshal(m.Data, &names); err != nil {
		return fmt.Errorf("the manifest %s is damaged: %w", d.Digest, err)
	}
	for _, child := range names.Manifests {
		if err := copyGraph(from, to, child, depth+1); err != nil {
			return err
		}
	}
	if !isIndex(d) {
		for _, blob := range append(names.Layers, names.Config) {
			if err := to.take(from, blob.Digest); err != nil {
				return err
			}
		}
	}
	return to.write(d.Digest, m.Data)
}

// take copies a blob of another layout.
func (l *layout) take(from *layout, d distribution.Digest) error {
	in, err := from.open(d)
	if err != nil {
		return err
	}
	defer in.Close()
	temp, err := l.temp()
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = io.Copy(temp, in)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return l.adopt(temp.Name(), d)
}
