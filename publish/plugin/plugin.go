// Package plugin brings plugins to registries and from there into the plugin folder of a machine. An image of a plugin has one program for each platform;
// an ordinary image that container engines run is one, too, if its entrypoint is the program.
//
// What is installed is found by its digest: a version is resolved to one first. The place is a registry, or a folder that mirrors some, as an OCI image layout.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

// ArtifactType says that a manifest is that of a plugin.
const ArtifactType = "application/vnd.rung.plugin.v1"

// Annotations of the images of plugins.
const (
	annotationKind    = "vnd.rung.plugin.kind" // one of pluginstore.Kinds
	annotationVersion = "org.opencontainers.image.version"
	annotationTitle   = distribution.AnnotationTitle // the name of the plugin
)

// RegistryVariable names the registry, and the beginning of repositories there, of plugins that are given by a name alone: "registry.example.com/ci/plugins".
const RegistryVariable = "RUNG_PLUGIN_REGISTRY"

// Place is where plugins are installed from.
type Place struct {
	// Mirror is a folder with an OCI image layout, or with one for each plugin. Empty: registries.
	Mirror string
	// Registry is that of names without one.
	Registry    string
	Credentials oci.Credentials // may be nil
	PlainHTTP   bool
	Policy      download.Policy
}

// ErrNoRegistry says that nothing says where a plugin comes from.
var ErrNoRegistry = errors.New("no registry is known for it; write REGISTRY/REPOSITORY, or set " + RegistryVariable)

// ofPlugin lets an error say that there is no plugin, where the packages that are shared with components would say that there is no step.
func ofPlugin(err error) error {
	var missing *source.NotFoundError
	if errors.As(err, &missing) && missing.What == "" {
		missing.What = "plugin"
	}
	return err
}

// images are those of one plugin.
type images interface {
	// versions are the tags that there are.
	versions(ctx context.Context) ([]string, error)
	resolve(ctx context.Context, tag string) (distribution.Digest, error)
	manifest(ctx context.Context, digest distribution.Digest) (*distribution.Manifest, error)
	// blob writes a blob to a new file, once it was compared with its digest.
	blob(ctx context.Context, d distribution.Descriptor, file string) error
}

// open finds the images that a reference names, and the source that a record has of them.
func (p *Place) open(ctx context.Context, ref pluginstore.Reference) (from images, at *source.Location, err error) {
	repository := ref.Source
	if !ref.HasRegistry() {
		name := repository
		if name == "" {
			name = ref.Name
		}
		switch {
		case p.Registry != "":
			repository = strings.TrimSuffix(strings.TrimPrefix(p.Registry, "oci://"), "/") + "/" + name
		case p.Mirror == "":
			return nil, nil, fmt.Errorf("%s: %w", ref, ErrNoRegistry)
		}
	}
	at = &source.Location{Kind: plan.RefOCI, Name: repository, URL: repository}
	if p.Mirror != "" {
		if at.Name == "" {
			at.Name = ref.Name
		}
		from, err = openMirror(p.Mirror, repository, ref.Name)
		return from, at, err
	}
	at.Access.PlainHTTP = p.PlainHTTP
	r, err := distribution.Open(ctx, distribution.Options{At: at, Credentials: p.Credentials, Policy: p.Policy})
	if err != nil {
		return nil, nil, err
	}
	at.Name, at.URL = r.Registry+"/"+r.Name, r.Registry+"/"+r.Name
	return &registry{r, at}, at, nil
}

// registry are the images of a repository.
type registry struct {
	*distribution.Repository
	at *source.Location
}

func (r *registry) versions(ctx context.Context) ([]string, error) {
	tags, err := r.Tags(ctx)
	if err != nil {
		return nil, oci.Explain(ctx, r.at, "the list of versions", err)
	}
	return tags, nil
}

func (r *registry) resolve(ctx context.Context, tag string) (distribution.Digest, error) {
	d, err := r.Resolve(ctx, tag)
	if err != nil {
		return "", oci.Explain(ctx, r.at, "the version "+tag, err)
	}
	return d, nil
}

func (r *registry) manifest(ctx context.Context, digest distribution.Digest) (*distribution.Manifest, error) {
	m, err := r.Manifest(ctx, digest.String())
	if err != nil {
		return nil, oci.Explain(ctx, r.at, "the manifest "+digest.String(), err)
	}
	return m, nil
}

func (r *registry) blob(ctx context.Context, d distribution.Descriptor, file string) error {
	meter := download.NewMeter(ctx, "fetch "+r.at.Name+" "+d.Digest.String(), "fetching "+r.at.Name)
	if err := r.Blob(ctx, d, file, meter); err != nil {
		return oci.Explain(ctx, r.at, "the layer "+d.Digest.String(), err)
	}
	return nil
}
