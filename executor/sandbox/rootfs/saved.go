package rootfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

// fromFiles returns an image of the operator's folder; nil if it has none of the name.
func (s *Store) fromFiles(ctx context.Context, r Request) (*Image, error) {
	if s.Saved == "" || !isLocalName(r.Name) {
		return nil, nil
	}
	path := filepath.Join(s.Saved, r.Name)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "index.json")); err != nil {
			return &Image{Root: path}, Furnish(path)
		}
		return s.fromLayout(ctx, r, path, "")
	}
	path += ".tar"
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Reading all of it each time would take long: what has the same time and size is the same.
	digest := distribution.DigestOf(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", path, info.Size(), info.ModTime().UnixNano(), r.Platform))
	if it, err := s.open(digest); it != nil || err != nil {
		return it, err
	}
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(s.Folder, "new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := unpackSaved(ctx, path, work); err != nil {
		return nil, savedError(path, err)
	}
	return s.fromLayout(ctx, r, work, digest)
}

func savedError(path string, err error) error {
	return fmt.Errorf("the image in %s cannot be read: %w; save it again with docker save or skopeo copy", path, err)
}

// unpackSaved unpacks the archive of an image.
func unpackSaved(ctx context.Context, path, to string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	plain, end, err := pack.Decompress(file, 1)
	if err != nil {
		return err
	}
	defer end()
	_, err = pack.ExtractTar(ctx, plain, to, pack.ExtractOptions{MaxBytes: maxBytes, MaxEntries: maxEntries})
	return err
}

// layout is an image in a folder: a layout of OCI, or what docker save has written.
type layout struct {
	config string   // files
	layers []string // the lowest first
	digest distribution.Digest
}

// fromLayout keeps the image of a folder. digest is what it is kept by; empty is its own.
func (s *Store) fromLayout(ctx context.Context, r Request, dir string, digest distribution.Digest) (*Image, error) {
	found, err := readLayout(dir, r)
	if err != nil {
		return nil, savedError(dir, err)
	}
	if digest == "" {
		digest = found.digest
	}
	kept := record{}
	return s.keep(ctx, digest, &kept, func(ctx context.Context, root, _ string) error {
		if err := readConfig(found.config, &kept.Config); err != nil {
			return savedError(dir, err)
		}
		var opens []func() (io.ReadCloser, error)
		for _, file := range found.layers {
			opens = append(opens, func() (io.ReadCloser, error) { return os.Open(file) })
		}
		return unpackLayers(ctx, root, opens)
	})
}

// readLayout finds the files of an image.
func readLayout(dir string, r Request) (*layout, error) {
	if text, err := readBounded(filepath.Join(dir, "index.json")); err == nil {
		return readOCI(dir, text, r)
	}
	text, err := readBounded(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, errors.New("it has neither the index.json of an OCI layout nor the manifest.json of docker save")
	}
	var all []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		return nil, fmt.Errorf("its manifest.json names no image (%w)", errors.Join(err))
	}
	chosen := all[0]
	for _, one := range all {
		for _, tag := range one.RepoTags {
			if containers.SameImage(tag, r.Name) {
				chosen = one
			}
		}
	}
	l := &layout{digest: distribution.DigestOf([]byte(chosen.Config + strings.Join(chosen.Layers, ",")))}
	if l.config, err = within(dir, chosen.Config); err != nil {
		return nil, err
	}
	for _, name := range chosen.Layers {
		file, err := within(dir, name)
		if err != nil {
			return nil, err
		}
		l.layers = append(l.layers, file)
	}
	return l, nil
}

// within is a file below a folder.
func within(dir, name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("it names the file %q, which is not in it", name)
	}
	return filepath.Join(dir, name), nil
}

// readOCI follows the index of an OCI layout to the image for a platform.
func readOCI(dir string, text []byte, r Request) (*layout, error) {
	platform, err := r.platform()
	if err != nil {
		return nil, err
	}
	blob := func(d distribution.Digest) (string, error) {
		if err := d.Validate(); err != nil {
			return "", err
		}
		return filepath.Join(dir, "blobs", "sha256", d.Hex()), nil
	}
	for range maxIndexes {
		var index distribution.Index
		var it distribution.ImageManifest
		if err := errors.Join(json.Unmarshal(text, &index), json.Unmarshal(text, &it)); err != nil {
			return nil, fmt.Errorf("its index is damaged: %w", err)
		}
		if len(index.Manifests) == 0 {
			l := &layout{digest: distribution.DigestOf(text)}
			if l.config, err = blob(it.Config.Digest); err != nil {
				return nil, err
			}
			for _, d := range it.Layers {
				file, err := blob(d.Digest)
				if err != nil {
					return nil, err
				}
				l.layers = append(l.layers, file)
			}
			return l, nil
		}
		chosen, others := oci.Choose(platform, index.Manifests)
		if chosen == nil && len(index.Manifests) == 1 {
			chosen = &index.Manifests[0] // docker save says nothing of platforms
		}
		if chosen == nil {
			return nil, fmt.Errorf("it is not made for the platform %s; it is for %s", platform, strings.Join(others, ", "))
		}
		file, err := blob(chosen.Digest)
		if err != nil {
			return nil, err
		}
		if text, err = readBounded(file); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("there are more than %d indexes in each other", maxIndexes)
}

// unpackError says whose mistake it is that an image cannot be unpacked.
func unpackError(ctx context.Context, at *source.Location, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if pack.Refused(err) {
		return &source.DeniedError{What: at.Name, Why: err.Error()}
	}
	return &source.FetchError{What: at.Name, Err: err}
}
