package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive"
	"github.com/rungci/rung/steps/source/archive/unpack"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/oci/distribution"
	"github.com/rungci/rung/steps/source/tree"
)

const (
	maxIndexes = 4 // in each other
	// maxConfig bounds the configuration of an image, in bytes.
	maxConfig = 4 << 20
)

// Wanted is what to install.
type Wanted struct {
	Reference pluginstore.Reference
	// Kind is what the plugin is for, where the reference does not say: one of pluginstore.Kinds, or empty.
	Kind string
	// Upgrade looks for a newer version where one is installed that will do, and replaces a version whose tag has moved.
	Upgrade bool
	// Platform is that of the program; the zero value is this machine's.
	Platform oci.Platform
}

// Install brings a plugin into a folder. done is false where what is wanted was there already. The errors are those of package source, those of
// the folder, and a *pluginstore.ConflictError.
func Install(ctx context.Context, folder string, w Wanted, from *Place) (r *pluginstore.Record, done bool, err error) {
	defer func() { err = ofPlugin(err) }()
	if strings.HasPrefix(w.Reference.Name, pluginstore.ForeignPrefix) {
		return nil, false, &source.DeniedError{What: w.Reference.String(), Why: "it is a plugin of fleeting, whose protocol is not public", Hint: "build the plugin from its source with the imports of sdk/instancegroup (docs/plugins.md)"}
	}
	if w.Platform.OS == "" {
		w.Platform = oci.Host()
	}
	if !w.Upgrade {
		r, err := pluginstore.Find(folder, w.Reference, w.Kind)
		if err == nil {
			if changed := r.Check(); changed != nil {
				return nil, false, &source.DeniedError{What: w.Reference.String(), Why: changed.Error(), Hint: "--upgrade installs it again"}
			}
		}
		if err == nil || !errors.Is(err, pluginstore.ErrNone) {
			return r, false, err
		}
	}
	images, at, err := from.open(ctx, w.Reference)
	if err != nil {
		return nil, false, err
	}
	digest, version, err := find(ctx, images, at, w.Reference)
	if err != nil {
		return nil, false, err
	}
	m, err := follow(ctx, images, at, digest, w.Platform)
	if err != nil {
		return nil, false, err
	}
	record := m.record(w, at, version)
	if there, err := pluginstore.Find(folder, pluginstore.Reference{Source: at.URL, Name: record.Full(), Constraint: pluginstore.Latest, Digest: record.Digest}, record.Kind); err == nil && there.Version == record.Version && there.Check() == nil {
		return there, false, nil
	}
	temp, err := tempfolder.Make("install")
	if err != nil {
		return nil, false, err
	}
	defer tempfolder.Remove(temp)
	program, kind, err := m.fetch(ctx, images, at, temp, w.Platform)
	if err != nil {
		return nil, false, err
	}
	record.Kind = cmp.Or(record.Kind, kind)
	if record.Kind != "" && w.Kind != "" && record.Kind != w.Kind {
		return nil, false, &source.DeniedError{What: w.Reference.String(), Why: fmt.Sprintf("it is a plugin for the contract %q, and one for %q is wanted", record.Kind, w.Kind)}
	}
	added, err := pluginstore.Add(folder, record, w.Upgrade, func() (io.ReadCloser, error) { return os.Open(program) })
	return added, err == nil, err
}

// find resolves a reference to the digest of its image, and the version that its tag says.
func find(ctx context.Context, from images, at *source.Location, ref pluginstore.Reference) (digest distribution.Digest, version string, err error) {
	if ref.Digest != "" {
		if pluginstore.IsVersion(ref.Constraint) {
			version = ref.Constraint
		}
		return distribution.Digest(ref.Digest), version, nil
	}
	tags, err := from.versions(ctx)
	if err != nil {
		return "", "", err
	}
	versions := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !pluginstore.IsVersion(tag) })
	tag, ok := pluginstore.Newest(versions, ref.Constraint)
	if version = tag; !ok {
		if tag = ref.Constraint; !slices.Contains(tags, tag) {
			return "", "", missing(at, ref, tags, versions)
		}
	}
	digest, err = from.resolve(ctx, tag)
	return digest, version, err
}

// maxListed bounds the versions that an error lists.
const maxListed = 10

func missing(at *source.Location, ref pluginstore.Reference, tags, versions []string) error {
	err := errors.New("there are no versions of it")
	if len(tags) > 0 {
		slices.SortFunc(versions, func(a, b string) int { return pluginstore.Compare(b, a) })
		if len(versions) > maxListed {
			versions = append(versions[:maxListed:maxListed], "…")
		}
		err = fmt.Errorf("no version meets %q; there are %s", ref.Constraint, cmp.Or(strings.Join(versions, ", "), "no full versions"))
	}
	return &source.NotFoundError{Ref: at.Name + ":" + ref.Constraint, Err: err}
}

// image is that of a plugin for one platform.
type image struct {
	digest, own distribution.Digest // as it was asked for, and of the manifest for the platform
	manifest    *distribution.ImageManifest
	says        map[string]string // annotations, those of the index included
	platform    string
}

// follow goes from a digest to the manifest for a platform.
func follow(ctx context.Context, from images, at *source.Location, digest distribution.Digest, platform oci.Platform) (*image, error) {
	m := &image{digest: digest, own: digest, says: map[string]string{}, platform: platform.String()}
	for range maxIndexes {
		raw, err := from.manifest(ctx, m.own)
		if err != nil {
			return nil, err
		}
		var index distribution.Index
		if err := json.Unmarshal(raw.Data, &index); err != nil {
			return nil, &source.DeniedError{What: at.Name, Why: "the manifest is damaged: " + err.Error()}
		}
		for key, value := range index.Annotations {
			m.says[key] = cmp.Or(m.says[key], value)
		}
		if len(index.Manifests) == 0 {
			m.manifest, err = oci.ReadManifest(at, raw.Data)
			return m, err
		}
		chosen, others := oci.Choose(platform, index.Manifests)
		if chosen == nil {
			return nil, oci.MissingPlatform(at, platform, others)
		}
		if m.own = chosen.Digest; m.own.Validate() != nil {
			return nil, &source.DeniedError{What: at.Name, Why: fmt.Sprintf("the index names a manifest with the digest %.80q, which is none", m.own)}
		}
	}
	return nil, &source.DeniedError{What: at.Name, Why: fmt.Sprintf("there are more than %d indexes in each other", maxIndexes)}
}

// record is what is known of the plugin before its program is there.
func (m *image) record(w Wanted, at *source.Location, version string) pluginstore.Record {
	kind, short := pluginstore.Divide(w.Reference.Name)
	if said := m.says[annotationKind]; slices.Contains(pluginstore.Kinds, said) {
		kind = cmp.Or(kind, said)
	}
	if said := m.says[annotationVersion]; version == "" && pluginstore.IsVersion(said) {
		version = said
	}
	return pluginstore.Record{
		Name: short, Kind: kind, Version: cmp.Or(version, strings.ReplaceAll(m.digest.String(), ":", "-")), Source: at.URL,
		Digest: m.digest.String(), Manifest: m.own.String(), Platform: m.platform,
	}
}

// fetch brings the files of an image into a folder, and finds the program among them. kind is what its name says that it is for.
func (m *image) fetch(ctx context.Context, from images, at *source.Location, folder string, platform oci.Platform) (program, kind string, err error) {
	layers := make([]unpack.Layer, len(m.manifest.Layers))
	for i, d := range m.manifest.Layers {
		file := filepath.Join(folder, fmt.Sprintf("layer-%d", i))
		if err := from.blob(ctx, d, file); err != nil {
			return "", "", err
		}
		open := func() (io.ReadCloser, error) { return os.Open(file) }
		layers[i] = unpack.Layer{Kind: oci.KindOf(d.MediaType, m.manifest.Config.MediaType), Open: open, Title: d.Annotations[annotationTitle], Size: d.Size}
	}
	entrypoint, err := m.entrypoint(ctx, from, filepath.Join(folder, "config"))
	if err != nil {
		return "", "", err
	}
	files := filepath.Join(folder, "files")
	if err := unpackTo(ctx, layers, filepath.Join(folder, "pack"), files); err != nil {
		return "", "", archive.Explain(ctx, at, err)
	}
	name, err := findProgram(files, entrypoint, platform)
	if err != nil {
		return "", "", &source.DeniedError{What: at.Name, Why: err.Error(), Hint: "`rung plugin publish` makes an image that can be installed"}
	}
	if is, err := detect(filepath.Join(files, filepath.FromSlash(name))); err == nil && is.OS != oci.Generic.OS && (is.OS != platform.OS || is.Architecture != platform.Architecture) {
		return "", "", &source.DeniedError{What: at.Name, Why: fmt.Sprintf("its program for %s is one for %s", platform, is), Hint: "publish it again with the program for this platform"}
	}
	kind, _ = pluginstore.Divide(path.Base(name))
	return filepath.Join(files, filepath.FromSlash(name)), kind, nil
}

func unpackTo(ctx context.Context, layers []unpack.Layer, pack, folder string) error {
	file, err := os.Create(pack)
	if err != nil {
		return err
	}
	defer file.Close()
	to := tree.NewWriter(file)
	if err := unpack.Layers(ctx, layers, to); err != nil {
		return err
	}
	digest, err := to.Close()
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = tree.Extract(file, digest, folder, "")
	return err
}

// entrypoint is the program that a container of the image runs; empty where it says none.
func (m *image) entrypoint(ctx context.Context, from images, file string) (string, error) {
	d := m.manifest.Config
	if d.MediaType != distribution.MediaTypeConfig && d.MediaType != distribution.DockerConfig || d.Size > maxConfig {
		return "", nil
	}
	if err := from.blob(ctx, d, file); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var config distribution.ImageConfig
	if json.Unmarshal(text, &config) != nil || len(config.Config.Entrypoint) == 0 {
		return "", nil // the program has its usual name, or there is none
	}
	return config.Config.Entrypoint[0], nil
}

// findProgram finds the program of a plugin among the files of its image, and returns its path there: the one with the usual name, the entrypoint, or the only one.
func findProgram(files, entrypoint string, platform oci.Platform) (string, error) {
	candidates := []string{"plugin"}
	if platform.OS == "windows" {
		candidates = []string{"plugin.exe", "plugin"}
	}
	if entrypoint != "" {
		candidates = append(candidates, strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(entrypoint)), "/"))
	}
	if all, err := os.ReadDir(files); err == nil && len(all) == 1 {
		candidates = append(candidates, all[0].Name())
	}
	root, err := os.OpenRoot(files) // a link may lead anywhere
	if err != nil {
		return "", err
	}
	defer root.Close()
	for _, name := range candidates {
		if info, err := root.Stat(name); err == nil && info.Mode().IsRegular() {
			if info.Size() > pluginstore.MaxSize {
				return "", fmt.Errorf("its program %s is larger than %d MiB", name, pluginstore.MaxSize>>20)
			}
			return name, nil
		}
	}
	return "", fmt.Errorf("it holds no program: it has no file %s, no entrypoint that is in it, and not one file alone", candidates[0])
}
