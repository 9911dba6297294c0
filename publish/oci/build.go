// Package oci builds images of components, for one platform or several, and pushes them to registries.
//
// A component is built as an OCI image layout: an index with one manifest per platform, whose layers are tar archives compressed
// with zstd. The same files give the same bytes, wherever and whenever they are built: names are sorted, times are one given
// time, owners and modes are left out but for the executable bit. Empty folders are no content.
package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/unpack"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
	"github.com/rungci/rung/steps/source/tree"
)

// ArtifactType says that a manifest is that of a component.
const ArtifactType = "application/vnd.rung.step.v1"

const maxDefinition = source.MaxFileSize

// Options is what to build.
type Options struct {
	Dir string // the files for all platforms
	// Platforms are what to build for, with the files of each. Where such a folder is in Dir it is not part of the others.
	// None builds one image that is for every platform.
	Platforms []PlatformFiles
	// Time is when all of it was made, for everybody who looks; the zero value is the beginning of 1970.
	Time time.Time
	// Compile says what is wrong with a definition file. What it refuses is not built.
	Compile func(name string, text []byte) error
	// Entrypoint is the absolute path, in the image, of the program that a container of it runs. Such an image is for container engines:
	// it need not hold a component. Empty builds a component.
	Entrypoint string
	// ArtifactType is what the image is where it is neither a component nor for container engines. It need not hold a component.
	ArtifactType string
	// Annotations are those of the image, beside the time.
	Annotations map[string]string
}

// Image is what was built for one platform.
type Image struct {
	Platform string
	Digest   string // of the manifest
	Content  string // the content digest of what will be pulled
	Files    int
}

// Result is what was built.
type Result struct {
	Digest  string // of the index
	Images  []Image
	Skipped []string // sockets, pipes and devices that were left out
}

// Build writes a component to out: an OCI image layout, in a tar archive where out ends with ".tar", else in a folder.
// What is at out is replaced when it is of that kind; anything else there is an error.
func Build(ctx context.Context, o Options, out string) (*Result, error) {
	if err := replaceable(out); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(out), ".step-runner-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	b := &builder{ctx: ctx, options: o, exclude: map[string]bool{}, layout: &layout{dir: temp}}
	for _, path := range []string{out, temp} {
		if err := b.leaveOut(path); err != nil {
			return nil, err
		}
	}
	result, err := b.build()
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(out, ".tar") {
		return result, b.layout.pack(out)
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	return result, os.Rename(temp, out)
}

// ErrExists says that something else is where the result should be.
var ErrExists = errors.New("already exists, and is not an image layout")

func replaceable(out string) error {
	info, err := os.Lstat(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if strings.HasSuffix(out, ".tar") {
		if info.Mode().IsRegular() {
			return nil
		}
		return fmt.Errorf("%s %w", out, ErrExists)
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) == 0 {
		if err != nil {
			err = fmt.Errorf("%s %w", out, ErrExists)
		}
		return err
	}
	if _, err := os.Stat(filepath.Join(out, layoutFile)); err != nil {
		return fmt.Errorf("%s %w", out, ErrExists)
	}
	return nil
}

// builder is one build.
type builder struct {
	ctx     context.Context
	options Options
	exclude map[string]bool
	layout  *layout
	common  files
	layers  map[string]builtLayer // the layers of common files, by what is not in them
}

// leaveOut keeps a path out of the common files.
func (b *builder) leaveOut(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		full = filepath.Join(real, filepath.Base(full))
	}
	b.exclude[full] = true
	return nil
}

func (b *builder) build() (*Result, error) {
	platforms := b.options.Platforms
	seen := map[string]bool{}
	for _, p := range platforms {
		name := p.Platform.Normal().String()
		if seen[name] {
			return nil, fmt.Errorf("the platform %s is defined twice", name)
		}
		seen[name] = true
		if p.Source == "" {
			return nil, fmt.Errorf("the platform %s has no files: its source is empty", name)
		}
		if err := b.leaveOut(p.Source); err != nil {
			return nil, err
		}
	}
	if len(platforms) == 0 {
		platforms = []PlatformFiles{{Platform: oci.Generic}}
	}
	result := &Result{}
	info, err := os.Stat(b.options.Dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", b.options.Dir)
	}
	if err != nil {
		return nil, err
	}
	b.common = files{}
	if result.Skipped, err = b.common.collect(b.options.Dir, "", b.exclude); err != nil {
		return nil, err
	}
	index := distribution.Index{
		SchemaVersion: 2, MediaType: distribution.MediaTypeIndex, ArtifactType: b.artifactType(),
		Annotations: b.annotations(),
	}
	for _, p := range platforms {
		own := files{}
		if p.Source != "" {
			skipped, err := own.collect(p.Source, p.Target, nil)
			if err != nil {
				return nil, err
			}
			result.Skipped = append(result.Skipped, skipped...)
		}
		d, image, err := b.image(p.Platform.Normal(), own)
		if err != nil {
			return nil, err
		}
		index.Manifests = append(index.Manifests, d)
		result.Images = append(result.Images, image)
	}
	slices.Sort(result.Skipped)
	d, err := b.layout.writeJSON(distribution.MediaTypeIndex, index)
	if err != nil {
		return nil, err
	}
	d.ArtifactType = b.artifactType()
	result.Digest = d.Digest.String()
	return result, b.layout.finish(d)
}

// artifactType is what the image is, if it is not one that container engines run.
func (b *builder) artifactType() string {
	if b.options.Entrypoint != "" {
		return ""
	}
	return cmp.Or(b.options.ArtifactType, ArtifactType)
}

// check reports what is wrong with the files of one platform.
func (b *builder) check(all files) error {
	err := all.check(b.options.Dir, b.options.Compile)
	entrypoint := b.options.Entrypoint
	if entrypoint == "" && b.options.ArtifactType == "" {
		return err
	}
	if none := (*NoStepError)(nil); err != nil && !errors.As(err, &none) {
		return err
	}
	if entrypoint == "" {
		return nil
	}
	program, ok := all[strings.TrimPrefix(entrypoint, "/")]
	switch {
	case !path.IsAbs(entrypoint):
		return fmt.Errorf("the entrypoint %s is not an absolute path", entrypoint)
	case !ok:
		return fmt.Errorf("the entrypoint %s is not in the image", entrypoint)
	case program.link == "" && !program.executable:
		return fmt.Errorf("the entrypoint %s is not executable: %s", entrypoint, program.path)
	}
	return nil
}

func (b *builder) time() time.Time {
	if b.options.Time.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return b.options.Time.UTC().Truncate(time.Second)
}

func (b *builder) annotations() map[string]string {
	all := map[string]string{distribution.AnnotationCreated: b.time().Format(time.RFC3339)}
	maps.Copy(all, b.options.Annotations)
	return all
}

// image builds what is for one platform: a layer of the files that all have, but for those that it has its own of, and a layer
// of its own.
func (b *builder) image(p oci.Platform, own files) (d distribution.Descriptor, image Image, err error) {
	all := b.common.with(own)
	if err := b.check(all); err != nil {
		return d, image, err
	}
	var layers []builtLayer
	for i, content := range []files{b.common.without(own), own} {
		if len(content) == 0 {
			continue
		}
		layer, known := builtLayer{}, false
		key := strings.Join(content.names(), "\x00")
		if i == 0 {
			layer, known = b.layers[key]
		}
		if !known {
			if layer, err = b.layer(content); err != nil {
				return d, image, err
			}
		}
		if b.layers == nil {
			b.layers = map[string]builtLayer{}
		}
		if i == 0 {
			b.layers[key] = layer
		}
		layers = append(layers, layer)
	}
	image = Image{Platform: p.String(), Files: len(all)}
	if image.Content, err = b.content(layers); err != nil {
		return d, image, err
	}
	created := b.time()
	config := distribution.ImageConfig{Created: &created, Platform: *p.Spec(), RootFS: distribution.RootFS{Type: "layers"}}
	manifest := distribution.ImageManifest{
		SchemaVersion: 2, MediaType: distribution.MediaTypeManifest, ArtifactType: b.artifactType(),
		Annotations: b.annotations(),
	}
	for _, l := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.plain)
		manifest.Layers = append(manifest.Layers, l.descriptor)
	}
	if b.options.Entrypoint != "" {
		config.Config.Entrypoint = []string{b.options.Entrypoint}
	}
	// A component has an image's config, too, though nothing runs it: some registries take no other.
	if manifest.Config, err = b.layout.writeJSON(distribution.MediaTypeConfig, config); err != nil {
		return d, image, err
	}
	if d, err = b.layout.writeJSON(distribution.MediaTypeManifest, manifest); err != nil {
		return d, image, err
	}
	d.Platform, d.ArtifactType = p.Spec(), b.artifactType()
	image.Digest = d.Digest.String()
	return d, image, nil
}

// content computes what will be pulled, as who pulls it does: so what could not be pulled is not built.
func (b *builder) content(built []builtLayer) (string, error) {
	layers := make([]unpack.Layer, len(built))
	for i, l := range built {
		layers[i] = unpack.Layer{Kind: unpack.Artifact, Open: func() (io.ReadCloser, error) { return b.layout.open(l.descriptor.Digest) }}
	}
	w := tree.NewWriter(io.Discard)
	if err := unpack.Layers(b.ctx, layers, w); err != nil {
		return "", err
	}
	return w.Close()
}

// writeJSON stores a document as a blob.
func (l *layout) writeJSON(mediaType string, v any) (distribution.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return distribution.Descriptor{}, err
	}
	d := distribution.Descriptor{MediaType: mediaType, Digest: distribution.DigestOf(data), Size: int64(len(data))}
	return d, l.write(d.Digest, data)
}
