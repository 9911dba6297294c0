package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

// Target is where to push.
type Target struct {
	At          *source.Location // its URL is "registry/repository"
	Tag         string           // a full version, or any other tag
	Force       bool             // also where the version is there with other content
	NoFloat     bool             // set no other tag
	Credentials oci.Credentials  // may be nil
	Policy      download.Policy
}

// Pushed is what is in the registry now.
type Pushed struct {
	Registry, Repository string
	Digest               string
	Tags                 []string // that name it now, the one that was asked for first
	Unchanged            bool     // the tag named the same before
}

// maxNesting bounds indexes in indexes.
const maxNesting = 4

// Push brings the image layout at a path to a registry: what is not there yet of its content, then the tags. A version that is
// there with other content is a *source.DeniedError.
func Push(ctx context.Context, layoutPath string, to Target) (*Pushed, error) {
	l, root, err := openLayout(layoutPath)
	if err != nil {
		return nil, err
	}
	defer l.close()
	r, err := distribution.Open(ctx, distribution.Options{At: to.At, Credentials: to.Credentials, Policy: to.Policy})
	if err != nil {
		return nil, err
	}
	p := &push{ctx: ctx, layout: l, to: to, r: r}
	result := &Pushed{Registry: r.Registry, Repository: r.Name, Digest: root.Digest.String(), Tags: []string{to.Tag}}
	if result.Unchanged, err = p.compare(root); err != nil {
		return nil, err
	}
	if !to.NoFloat {
		existing, err := r.Tags(ctx)
		if err != nil {
			return nil, oci.Explain(ctx, to.At, "the list of tags", err)
		}
		result.Tags = Tags(to.Tag, existing)
	}
	if err := p.graph(root, 0); err != nil {
		return nil, err
	}
	m, err := l.manifest(root)
	if err != nil {
		return nil, err
	}
	for _, tag := range result.Tags {
		if err := r.PushManifest(ctx, tag, m); err != nil {
			return nil, oci.Explain(ctx, to.At, "the tag "+tag, err)
		}
	}
	return result, nil
}

// push is one push.
type push struct {
	ctx    context.Context
	layout *layout
	to     Target
	r      *distribution.Repository
}

// compare finds out what the tag names now.
func (p *push) compare(root distribution.Descriptor) (same bool, err error) {
	there, err := p.r.Resolve(p.ctx, p.to.Tag)
	var status *download.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusNotFound:
		return false, nil
	case err != nil:
		return false, oci.Explain(p.ctx, p.to.At, "the tag "+p.to.Tag, err)
	case there == root.Digest:
		return true, nil
	case IsVersion(p.to.Tag) && !p.to.Force:
		return false, versionExists(p.to.At.Name, p.to.Tag, there, root.Digest)
	}
	return false, nil
}

// versionExists says that a version would be replaced.
func versionExists(where, version string, there, own distribution.Digest) error {
	return &source.DeniedError{
		What: where, Why: fmt.Sprintf("version %s already exists, with other content: it is %s, and this is %s", version, there, own),
		Hint: "publish a new version; --force replaces what others may use already",
	}
}

// graph pushes a manifest under its digest, and before it all that it names.
func (p *push) graph(d distribution.Descriptor, depth int) error {
	if depth > maxNesting {
		return errors.New("there are too many indexes in each other")
	}
	m, err := p.layout.manifest(d)
	if err != nil {
		return err
	}
	if isIndex(d) {
		var index distribution.Index
		if err := json.Unmarshal(m.Data, &index); err != nil {
			return fmt.Errorf("the index is damaged: %w", err)
		}
		for _, child := range index.Manifests {
			if err := p.graph(child, depth+1); err != nil {
				return err
			}
		}
	} else {
		var manifest distribution.ImageManifest
		if err := json.Unmarshal(m.Data, &manifest); err != nil {
			return fmt.Errorf("the manifest is damaged: %w", err)
		}
		for _, blob := range append(manifest.Layers, manifest.Config) {
			open := func() (io.ReadCloser, error) { return p.layout.open(blob.Digest) }
			if err := p.r.PushBlob(p.ctx, blob, open); err != nil {
				return oci.Explain(p.ctx, p.to.At, "pushing "+blob.Digest.String(), err)
			}
		}
	}
	if err := p.r.PushManifest(p.ctx, d.Digest.String(), m); err != nil {
		return oci.Explain(p.ctx, p.to.At, "pushing the manifest "+d.Digest.String(), err)
	}
	return nil
}
