package oci

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/source/oci/distribution"
)

// The files of an image layout besides its blobs.
const (
	layoutFile = "oci-layout"
	indexFile  = "index.json"
)

// layout is an OCI image layout, in a folder or in a tar archive of one.
type layout struct {
	dir     string
	archive *os.File // nil for a folder
	places  map[string]place
}

// place is where a file of an archive is.
type place struct{ offset, size int64 }

// blobPath is the name of a blob in a layout.
func blobPath(d distribution.Digest) string {
	return path.Join("blobs", "sha256", d.Hex())
}

func (l *layout) temp() (*os.File, error) { return os.CreateTemp(l.dir, "new-") }

// adopt makes a file of the layout's folder a blob.
func (l *layout) adopt(file string, d distribution.Digest) error {
	to := filepath.Join(l.dir, filepath.FromSlash(blobPath(d)))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(file, 0o644); err != nil {
		return err
	}
	return os.Rename(file, to)
}

func (l *layout) write(d distribution.Digest, data []byte) error {
	to := filepath.Join(l.dir, filepath.FromSlash(blobPath(d)))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// finish writes what says that a folder is a layout, and what is in it.
func (l *layout) finish(images ...distribution.Descriptor) error {
	version, err := json.Marshal(map[string]string{"imageLayoutVersion": "1.0.0"})
	if err != nil {
		return err
	}
	index, err := json.Marshal(distribution.Index{
		SchemaVersion: 2, MediaType: distribution.MediaTypeIndex, Manifests: images,
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, layoutFile), version, 0o644); err != nil {
		return err
	}
	temp, err := l.temp() // whoever reads a layout that images are added to sees all of an index
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(index)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(l.dir, indexFile))
}

// pack writes the folder as a tar archive.
func (l *layout) pack(to string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(to), ".step-runner-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	out := tar.NewWriter(temp)
	err = filepath.WalkDir(l.dir, func(full string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(l.dir, full)
		if err != nil {
			return err
		}
		data, err := os.Open(full)
		if err != nil {
			return err
		}
		defer data.Close()
		info, err := data.Stat()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(rel), Mode: 0o644, Size: info.Size(), ModTime: time.Unix(0, 0)}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.Copy(out, data)
		return err
	})
	if err == nil {
		err = out.Close()
	}
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), to)
}

// ErrNoLayout says that something is not an image layout.
var ErrNoLayout = errors.New("is not an image layout; `step-runner oci build` makes one")

// IsLayout reports whether there is an image layout at a path: a folder of one, or a tar archive.
func IsLayout(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return true
	}
	_, err = os.Stat(filepath.Join(name, layoutFile))
	return err == nil
}

// openLayout opens a layout and returns what its index names.
func openLayout(name string) (*layout, distribution.Descriptor, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, distribution.Descriptor{}, err
	}
	l := &layout{dir: name}
	if !info.IsDir() {
		if err := l.openArchive(name); err != nil {
			return nil, distribution.Descriptor{}, err
		}
	}
	root, err := l.root()
	if err != nil {
		l.close()
		return nil, root, err
	}
	return l, root, nil
}

// root reads what the layout is of.
func (l *layout) root() (root distribution.Descriptor, err error) {
	index, err := l.index()
	if err != nil {
		return root, err
	}
	if len(index.Manifests) != 1 {
		return root, fmt.Errorf("%s holds %d images, and only a layout of one can be pushed", l.dir, len(index.Manifests))
	}
	root = index.Manifests[0]
	return root, root.Digest.Validate()
}

func (l *layout) close() {
	if l.archive != nil {
		_ = l.archive.Close()
	}
}

// maxLayoutFiles bounds what a layout in an archive may hold.
const maxLayoutFiles = 10_000

// openArchive finds out where the files of an archive are.
func (l *layout) openArchive(name string) error {
	f, err := openRegular(name)
	if err != nil {
		return err
	}
	l.archive, l.places = f, map[string]place{}
	in := tar.NewReader(f)
	for range maxLayoutFiles {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			var offset int64
			if offset, err = f.Seek(0, io.SeekCurrent); err == nil {
				l.places[strings.TrimPrefix(h.Name, "./")] = place{offset, h.Size}
			}
		}
		if err != nil {
			l.close()
			return fmt.Errorf("%s %w: %w", name, ErrNoLayout, err)
		}
	}
	l.close()
	return fmt.Errorf("%s %w: it holds too many files", name, ErrNoLayout)
}

// openRegular opens what is a file: a pipe would make its reader wait for ever.
func openRegular(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a file")}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// openFile opens a file of the layout.
func (l *layout) openFile(name string) (io.ReadCloser, error) {
	if l.archive == nil {
		return openRegular(filepath.Join(l.dir, filepath.FromSlash(name)))
	}
	p, ok := l.places[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: l.dir + ":" + name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(l.archive, p.offset, p.size)), nil
}

func (l *layout) open(d distribution.Digest) (io.ReadCloser, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return l.openFile(blobPath(d))
}

// read reads a small file.
func (l *layout) read(name string) ([]byte, error) {
	f, err := l.openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, distribution.MaxManifest))
}

// manifest reads a manifest or an index, and holds it against its digest.
func (l *layout) manifest(d distribution.Descriptor) (*distribution.Manifest, error) {
	if err := d.Digest.Validate(); err != nil {
		return nil, err
	}
	data, err := l.read(blobPath(d.Digest))
	if err != nil {
		return nil, err
	}
	if got := distribution.DigestOf(data); got != d.Digest {
		return nil, fmt.Errorf("%s is damaged: the manifest %s has the digest %s", l.dir, d.Digest, got)
	}
	return &distribution.Manifest{MediaType: d.MediaType, Data: data}, nil
}

// isIndex reports whether a descriptor is that of an index.
func isIndex(d distribution.Descriptor) bool {
	return slices.Contains([]string{distribution.MediaTypeIndex, distribution.DockerIndex}, d.MediaType)
}
