package rootfs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

const (
	maxIndexes = 4 // in each other
	maxLayers  = 512
)

// Pull fetches an image from its registry, unless what its name means now is here already, or it is one of the operator's. The errors are those of oci.Explain:
// *source.NotFoundError, *source.DeniedError, *source.FetchError. progress may be nil; it is called with bytes.
func (s *Store) Pull(ctx context.Context, r Request, progress func(current, total int64)) (*Image, error) {
	if it, err := s.fromFiles(ctx, r); it != nil || err != nil {
		return it, err
	}
	platform, err := r.platform()
	if err != nil {
		return nil, &source.DeniedError{What: r.Name, Why: err.Error()}
	}
	name := containers.ParseName(r.Name)
	at := &source.Location{
		Name: r.Name, URL: name.Registry + "/" + name.Repository,
		Access: source.Access{Username: r.Username, Password: r.Password},
	}
	repository, err := distribution.Open(ctx, distribution.Options{At: at})
	if err != nil {
		return nil, err
	}
	reference := name.Digest
	if reference == "" {
		reference = name.Tag
	}
	m, digest, err := findManifest(ctx, at, repository, platform, reference)
	if err != nil {
		return nil, err
	}
	it, err := s.open(digest)
	if it == nil && err == nil {
		it, err = s.fetch(ctx, at, repository, m, digest, progress)
	}
	if err != nil {
		return nil, err
	}
	return it, s.remember(r, digest)
}

// findManifest follows a tag or a digest to the manifest of an image for a platform.
func findManifest(ctx context.Context, at *source.Location, from *distribution.Repository, platform oci.Platform, reference string) (*distribution.ImageManifest, distribution.Digest, error) {
	denied := func(format string, args ...any) error {
		return &source.DeniedError{What: at.Name, Why: fmt.Sprintf(format, args...)}
	}
	for range maxIndexes {
		raw, err := from.Manifest(ctx, reference)
		if err != nil {
			return nil, "", oci.Explain(ctx, at, "the manifest "+reference, err)
		}
		switch raw.MediaType {
		case distribution.MediaTypeManifest, distribution.DockerManifest:
			var m distribution.ImageManifest
			if err := json.Unmarshal(raw.Data, &m); err != nil {
				return nil, "", denied("the manifest is damaged: %v", err)
			}
			return &m, distribution.DigestOf(raw.Data), checkManifest(at, &m)
		case distribution.MediaTypeIndex, distribution.DockerIndex:
		default:
			return nil, "", denied("the manifest is of the type %q, and only images of OCI and Docker can be run", raw.MediaType)
		}
		var index distribution.Index
		if err := json.Unmarshal(raw.Data, &index); err != nil {
			return nil, "", denied("the index is damaged: %v", err)
		}
		chosen, others := oci.Choose(platform, index.Manifests)
		if chosen == nil {
			return nil, "", &source.NotFoundError{Ref: at.Name, Err: fmt.Errorf("it is not made for the platform %s; it is for %s", platform, strings.Join(others[:min(len(others), maxIndexes)], ", "))}
		}
		if err := chosen.Digest.Validate(); err != nil {
			return nil, "", denied("the index names a manifest with the digest %.80q, which is none", chosen.Digest)
		}
		reference = chosen.Digest.String()
	}
	return nil, "", denied("there are more than %d indexes in each other", maxIndexes)
}

// checkManifest refuses what is no image, or larger than one may be.
func checkManifest(at *source.Location, m *distribution.ImageManifest) error {
	denied := func(format string, args ...any) error {
		return &source.DeniedError{What: at.Name, Why: fmt.Sprintf(format, args...)}
	}
	if m.Config.MediaType != distribution.MediaTypeConfig && m.Config.MediaType != distribution.DockerConfig {
		return denied("its configuration is of the type %q: it is not an image that can run", m.Config.MediaType)
	}
	if len(m.Layers) > maxLayers {
		return denied("it has %d layers, and %d is the limit", len(m.Layers), maxLayers)
	}
	var size int64
	for i, d := range append([]distribution.Descriptor{m.Config}, m.Layers...) {
		switch {
		case d.Digest.Validate() != nil, d.Size < 0:
			return denied("part %d of it has no valid digest and size", i)
		case d.Size > maxBytes-size, i == 0 && d.Size > maxRecord:
			return denied("it is larger than the limit")
		case strings.Contains(d.MediaType, "+encrypted"):
			return denied("layer %d is encrypted", i)
		}
		size += d.Size
	}
	return nil
}

// fetch downloads and unpacks an image.
func (s *Store) fetch(ctx context.Context, at *source.Location, from *distribution.Repository, m *distribution.ImageManifest, digest distribution.Digest, progress func(current, total int64)) (*Image, error) {
	total := m.Config.Size
	for _, d := range m.Layers {
		total += d.Size
	}
	r := record{Pull: containers.WithDigest(at.Name, digest.String())}
	return s.keep(ctx, digest, &r, func(ctx context.Context, root, scratch string) error {
		config := filepath.Join(scratch, "config")
		if err := from.Blob(ctx, m.Config, config, nil); err != nil {
			return oci.Explain(ctx, at, "its configuration", err)
		}
		if err := readConfig(config, &r.Config); err != nil {
			return &source.DeniedError{What: at.Name, Why: err.Error()}
		}
		have := m.Config.Size
		var opens []func() (io.ReadCloser, error)
		for i, d := range m.Layers {
			file := filepath.Join(scratch, d.Digest.Hex())
			if err := from.Blob(ctx, d, file, nil); err != nil {
				return oci.Explain(ctx, at, fmt.Sprintf("layer %d of %d", i+1, len(m.Layers)), err)
			}
			opens = append(opens, func() (io.ReadCloser, error) { return os.Open(file) })
			if have += d.Size; progress != nil {
				progress(have, total)
			}
		}
		if err := unpackLayers(ctx, root, opens); err != nil {
			return unpackError(ctx, at, err)
		}
		return nil
	})
}

// readConfig reads how an image is run from its configuration.
func readConfig(file string, to *Config) error {
	text, err := readBounded(file)
	if err != nil {
		return err
	}
	var image struct {
		Config Config `json:"config"`
	}
	if err := json.Unmarshal(text, &image); err != nil {
		return fmt.Errorf("its configuration is damaged: %w", err)
	}
	*to = image.Config
	return nil
}
