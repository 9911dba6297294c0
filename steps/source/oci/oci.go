// Package oci fetches packages from container registries: images, indexes of images for several platforms, and artifacts.
//
// The pin of an image is the digest of the manifest that its tag names. Of an index the entry for the platform is taken: the
// exact one, else one for the operating system "generic", else one without a platform. A manifest that is not an index is
// taken as it is. Its layers lie over each other; see package unpack for what of them counts. A layer of artifacts that is not
// an archive but has a title, as `oras push` makes them, is one file.
package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/archive/unpack"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/oci/distribution"
	"github.com/rungci/rung/steps/source/tree"
)

// Limits of one image.
const (
	MaxLayers   = 512
	MaxSize     = tree.MaxSize // of all layers as they are downloaded, in bytes
	maxIndexes  = 4            // in each other
	maxPlatform = 20           // that an error lists
)

// LayerMediaType is that of layers that hold a component. It is GitLab's, so that the existing step-runner reads them too.
const LayerMediaType = "application/vnd.gitlab.step.layer.v1.tar+zstd"

// Credentials finds what a user has for a registry.
type Credentials = distribution.Credentials

// Fetcher is a source.Fetcher for images and artifacts.
type Fetcher struct {
	Cache       *cache.Cache
	Credentials Credentials     // may be nil
	Platform    Platform        // the zero value is this machine's
	Policy      download.Policy // the zero value is the usual one
}

var _ source.Fetcher = (*Fetcher)(nil)

// Variant implements source.Fetcher: what a pin of an index holds depends on the platform.
func (f *Fetcher) Variant() string { return f.platform().String() }

func (f *Fetcher) platform() Platform {
	if f.Platform.OS == "" {
		return Host()
	}
	return f.Platform.Normal()
}

// defaultTag is what a reference without a tag means.
const defaultTag = "latest"

// revision is the tag or the digest to ask for. Of "tag@digest" the digest counts.
func revision(at *source.Location) (rev string, pinned bool, err error) {
	rev = at.Rev
	if i := strings.LastIndexByte(rev, '@'); i >= 0 {
		rev = rev[i+1:]
	}
	if rev == "" {
		return defaultTag, false, nil
	}
	if strings.Contains(rev, ":") {
		err := distribution.Digest(rev).Validate()
		if err != nil {
			err = &source.DeniedError{What: at.Name, Why: fmt.Sprintf("%q is not a digest: %v", rev, err), Hint: "a digest is sha256: and 64 hexadecimal digits, in lower case"}
		}
		return rev, true, err
	}
	if !distribution.IsTag(rev) {
		return "", false, &source.DeniedError{What: at.Name, Why: fmt.Sprintf("%q is not a tag", rev), Hint: "a tag has letters, digits, and in between . _ -, and at most 128 of them"}
	}
	return rev, false, nil
}

// Resolve implements source.Fetcher.
func (f *Fetcher) Resolve(ctx context.Context, at *source.Location) (pin string, err error) {
	rev, pinned, err := revision(at)
	if err != nil || pinned {
		return rev, err
	}
	r, err := f.open(ctx, at)
	if err != nil {
		return "", err
	}
	found, err := r.Resolve(ctx, rev)
	if err != nil {
		return "", Explain(ctx, at, "the manifest of the tag "+rev, err)
	}
	return found.String(), nil
}

func (f *Fetcher) open(ctx context.Context, at *source.Location) (*distribution.Repository, error) {
	return distribution.Open(ctx, distribution.Options{At: at, Credentials: f.Credentials, Policy: f.Policy})
}

// Explain makes an error of package distribution one of a source; what says which part of the image it is about.
func Explain(ctx context.Context, at *source.Location, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var status *download.StatusError
	var wrong *distribution.DigestError
	var large *download.TooLargeError
	switch {
	case errors.As(err, &wrong):
		return &source.DeniedError{What: at.Name, Why: err.Error(), Hint: "the registry, or something between it and here, sends other bytes"}
	case errors.As(err, &large):
		return &source.DeniedError{What: at.Name, Why: what + ": " + err.Error()}
	case errors.Is(err, download.ErrRedirect):
		return &source.DeniedError{What: at.Name, Why: err.Error()}
	case !errors.As(err, &status):
		return &source.FetchError{What: at.Name, Err: fmt.Errorf("%s: %w", what, err)}
	}
	switch status.Code {
	case http.StatusNotFound, http.StatusGone:
		return &source.NotFoundError{Ref: at.Name, Looked: []string{what}, Err: err}
	case http.StatusUnauthorized, http.StatusForbidden:
		return &source.DeniedError{
			What: at.Name, Why: err.Error(),
			Hint: "log in with `docker login`, or give a name and a password for the registry in sources.toml; some registries answer so for what does not exist, too",
		}
	}
	return &source.FetchError{What: at.Name, Err: fmt.Errorf("%s: %w", what, err)}
}

// Fetch implements source.Fetcher.
func (f *Fetcher) Fetch(ctx context.Context, at *source.Location, pin string, to *tree.Writer) error {
	if distribution.Digest(pin).Validate() != nil {
		return &source.DeniedError{What: at.Name, Why: fmt.Sprintf("%q is not the digest of a manifest", pin)}
	}
	r, err := f.open(ctx, at)
	if err != nil {
		return err
	}
	m, err := f.manifest(ctx, at, r, pin)
	if err != nil {
		return err
	}
	unlock, err := f.Cache.Lock(ctx, "download", at.URL)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &source.FetchError{What: at.Name, Err: err}
	}
	defer unlock()
	paths := map[distribution.Digest]string{}
	layers := make([]unpack.Layer, len(m.Layers))
	for i, d := range m.Layers {
		path, err := f.Cache.Download(at.URL + "@" + d.Digest.String())
		if err != nil {
			return &source.FetchError{What: at.Name, Err: err}
		}
		if _, there := paths[d.Digest]; !there {
			what := fmt.Sprintf("layer %d of %d", i+1, len(m.Layers))
			meter := download.NewMeter(ctx, "fetch "+at.Name+" "+d.Digest.String(), "fetching "+at.Name+", "+what)
			if err := r.Blob(ctx, d, path, meter); err != nil {
				return Explain(ctx, at, what, err)
			}
			paths[d.Digest] = path
		}
		open := func() (io.ReadCloser, error) { return os.Open(path) }
		layers[i] = unpack.Layer{Kind: KindOf(d.MediaType, m.Config.MediaType), Open: open, Title: d.Annotations[distribution.AnnotationTitle], Size: d.Size}
	}
	if err := unpack.Layers(ctx, layers, to); err != nil {
		return archive.Explain(ctx, at, err)
	}
	for _, path := range paths {
		_ = download.Remove(path)
	}
	return nil
}

// KindOf says how strictly a layer is taken: as an image's where the manifest is one of an image that can run.
func KindOf(layer, config string) unpack.Kind {
	isImage := config == distribution.MediaTypeConfig || config == distribution.DockerConfig
	isLayer := strings.HasPrefix(layer, "application/vnd.oci.image.layer.") || strings.HasPrefix(layer, "application/vnd.docker.image.rootfs.diff.")
	if isImage && isLayer {
		return unpack.Image
	}
	return unpack.Artifact
}

// manifest follows a pin to the manifest for our platform.
func (f *Fetcher) manifest(ctx context.Context, at *source.Location, r *distribution.Repository, pin string) (*distribution.ImageManifest, error) {
	for range maxIndexes {
		raw, err := r.Manifest(ctx, pin)
		if err != nil {
			return nil, Explain(ctx, at, "the manifest "+pin, err)
		}
		switch raw.MediaType {
		case distribution.MediaTypeIndex, distribution.DockerIndex:
		case distribution.MediaTypeManifest, distribution.DockerManifest:
			return ReadManifest(at, raw.Data)
		default:
			return nil, &source.DeniedError{What: at.Name, Why: fmt.Sprintf("the manifest is of the type %q, and only images, indexes and artifacts of OCI and Docker can be read", raw.MediaType)}
		}
		var index distribution.Index
		if err := json.Unmarshal(raw.Data, &index); err != nil {
			return nil, &source.DeniedError{What: at.Name, Why: "the index is damaged: " + err.Error()}
		}
		chosen, others := choose(f.platform(), index.Manifests)
		if chosen == nil {
			return nil, MissingPlatform(at, f.platform(), others)
		}
		if pin = chosen.Digest.String(); chosen.Digest.Validate() != nil {
			return nil, &source.DeniedError{What: at.Name, Why: fmt.Sprintf("the index names a manifest with the digest %.80q, which is none", pin)}
		}
	}
	return nil, &source.DeniedError{What: at.Name, Why: fmt.Sprintf("there are more than %d indexes in each other", maxIndexes)}
}

// MissingPlatform says that an index has nothing for a platform, and for which it has something.
func MissingPlatform(at *source.Location, want Platform, others []string) error {
	if len(others) > maxPlatform {
		others = append(others[:maxPlatform:maxPlatform], fmt.Sprintf("%d more", len(others)-maxPlatform))
	}
	there := "for no platform at all"
	if len(others) > 0 {
		there = "for " + strings.Join(others, ", ")
	}
	return &source.NotFoundError{Ref: at.Name, Err: fmt.Errorf("it has nothing for the platform %s; it is %s", want, there)}
}

// ReadManifest reads the manifest of an image, and holds it against the limits of one. The error is a *source.DeniedError.
func ReadManifest(at *source.Location, data []byte) (*distribution.ImageManifest, error) {
	denied := func(format string, args ...any) (*distribution.ImageManifest, error) {
		return nil, &source.DeniedError{What: at.Name, Why: fmt.Sprintf(format, args...)}
	}
	var m distribution.ImageManifest
	if err := json.Unmarshal(data, &m); err != nil {
		return denied("the manifest is damaged: %v", err)
	}
	if len(m.Layers) > MaxLayers {
		return denied("it has %d layers, and %d is the limit", len(m.Layers), MaxLayers)
	}
	var size int64
	for i, d := range m.Layers {
		switch {
		case d.Digest.Validate() != nil:
			return denied("layer %d has no valid digest", i+1)
		case d.Size < 0, d.Size > MaxSize, size > MaxSize-d.Size:
			return denied("its layers are larger than the limit of %d MiB", MaxSize>>20)
		case strings.Contains(d.MediaType, "+encrypted"):
			return denied("layer %d is encrypted", i+1)
		case strings.Contains(d.MediaType, ".nondistributable.") || strings.Contains(d.MediaType, ".foreign."):
			return denied("layer %d is not in the registry: it must be fetched from its owner", i+1)
		}
		size += d.Size
	}
	return &m, nil
}
