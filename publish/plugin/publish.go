package plugin

import (
	"cmp"
	"context"
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

	"github.com/rungci/rung/internal/pluginstore"
	"github.com/rungci/rung/internal/tempfolder"
	publish "github.com/rungci/rung/publish/oci"
	"github.com/rungci/rung/steps/source/oci"
)

// Program is that of a plugin for one platform.
type Program struct {
	Platform oci.Platform
	File     string
}

// Programs finds the programs of a plugin: in a folder with OS/ARCH/PROGRAM or dist/OS/ARCH/PROGRAM, as builds for releases lay them out, or in files, whose own
// content says what they are for. A script is for every platform. kind is what their names say that they are for; it may be empty.
func Programs(paths []string) (all []Program, kind string, err error) {
	if len(paths) == 1 {
		if info, err := os.Stat(paths[0]); err == nil && info.IsDir() {
			return inFolder(paths[0])
		}
	}
	for _, name := range paths {
		p, err := detect(name)
		if err != nil {
			return nil, "", err
		}
		all = append(all, Program{p, name})
	}
	return checked(all, strings.Join(paths, ", "))
}

// inFolder finds programs below a folder.
func inFolder(folder string) ([]Program, string, error) {
	if info, err := os.Stat(filepath.Join(folder, "dist")); err == nil && info.IsDir() {
		folder = filepath.Join(folder, "dist")
	}
	found, err := filepath.Glob(filepath.Join(folder, "*", "*", "*"))
	if err != nil {
		return nil, "", err
	}
	by := map[string][]string{} // by platform
	for _, file := range found {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			by[filepath.Dir(file)] = append(by[filepath.Dir(file)], file)
		}
	}
	var all []Program
	for dir, files := range by {
		system, arch := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
		platform, err := oci.ParsePlatform(system + "/" + strings.Replace(arch, "armv", "arm/v", 1))
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", dir, err)
		}
		file, err := programIn(dir, files)
		if err != nil {
			return nil, "", err
		}
		if is, err := detect(file); err == nil && is.OS != oci.Generic.OS && (is.OS != platform.OS || is.Architecture != platform.Architecture) {
			return nil, "", fmt.Errorf("%s is a program for %s, and its folder is for %s", file, is, platform)
		}
		all = append(all, Program{platform, file})
	}
	if len(all) == 0 {
		return nil, "", fmt.Errorf("there is no program below %s; it must have OS/ARCH/plugin, such as linux/amd64/plugin", folder)
	}
	return checked(all, folder)
}

// programIn chooses among the files of a platform.
func programIn(dir string, files []string) (string, error) {
	for _, file := range files {
		if base := strings.TrimSuffix(filepath.Base(file), ".exe"); base == "plugin" {
			return file, nil
		}
	}
	var named []string
	for _, file := range files {
		if kind, _ := pluginstore.Divide(filepath.Base(file)); kind != "" || len(files) == 1 {
			named = append(named, file)
		}
	}
	if len(named) != 1 {
		return "", fmt.Errorf("%s has %d files, and none is called plugin", dir, len(files))
	}
	return named[0], nil
}

// checked holds programs against each other, and says what their names say that they are for.
func checked(all []Program, where string) ([]Program, string, error) {
	kind := ""
	for i, p := range all {
		of, _ := pluginstore.Divide(filepath.Base(p.File))
		if of != "" && kind != "" && of != kind {
			return nil, "", fmt.Errorf("%s: one program is for the contract %q and another for %q", where, kind, of)
		}
		kind = cmp.Or(kind, of)
		for _, other := range all[:i] {
			if other.Platform.String() == p.Platform.String() {
				return nil, "", fmt.Errorf("%s and %s are both for %s", other.File, p.File, p.Platform)
			}
		}
	}
	slices.SortFunc(all, func(a, b Program) int { return strings.Compare(a.Platform.String(), b.Platform.String()) })
	return all, kind, nil
}

// Image is what to publish.
type Image struct {
	Programs []Program
	Kind     string // one of pluginstore.Kinds, or empty
	Name     string
	Version  string    // a full version, or another tag
	Time     time.Time // see publish.Options
}

// build makes the image in a folder of its own, which done removes.
func (i *Image) build(ctx context.Context) (layout string, built *publish.Result, done func(), err error) {
	temp, err := tempfolder.Make("publish")
	if err != nil {
		return "", nil, nil, err
	}
	done = func() { tempfolder.Remove(temp) }
	defer func() {
		if err != nil {
			done()
		}
	}()
	o := publish.Options{ArtifactType: ArtifactType, Dir: filepath.Join(temp, "none"), Time: i.Time, Annotations: map[string]string{annotationTitle: i.Name}}
	if pluginstore.IsVersion(i.Version) {
		o.Annotations[annotationVersion] = strings.TrimPrefix(i.Version, "v")
	}
	if i.Kind != "" {
		o.Annotations[annotationKind] = i.Kind
	}
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		return "", nil, nil, err
	}
	for n, p := range i.Programs {
		name := "plugin"
		if p.Platform.OS == "windows" {
			name = "plugin.exe"
		}
		file := filepath.Join(temp, fmt.Sprint(n), name) // of a mode that it has on every system
		if err := copyProgram(p.File, file); err != nil {
			return "", nil, nil, err
		}
		o.Platforms = append(o.Platforms, publish.PlatformFiles{Platform: p.Platform, Source: file, Target: path.Base(name)})
	}
	layout = filepath.Join(temp, "layout")
	built, err = publish.Build(ctx, o, layout)
	return layout, built, done, err
}

func copyProgram(from, to string) error {
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "read", Path: from, Err: errors.New("it is not a file")}
	case info.Size() > pluginstore.MaxSize:
		return fmt.Errorf("%s is larger than %d MiB, the limit of a plugin's program", from, pluginstore.MaxSize>>20)
	}
	if err := os.Mkdir(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Push publishes a plugin to a registry. A full version sets its floating tags as well, see publish.Tags.
func (i *Image) Push(ctx context.Context, to publish.Target) (*publish.Pushed, error) {
	layout, _, done, err := i.build(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	pushed, err := publish.Push(ctx, layout, to)
	return pushed, ofPlugin(err)
}

// Mirror adds a plugin to a folder with an OCI image layout, under a name "REPOSITORY:VERSION" or "NAME:VERSION", see publish.Add.
func (i *Image) Mirror(ctx context.Context, folder, name string, force bool) (digest string, unchanged bool, err error) {
	layout, built, done, err := i.build(ctx)
	if err != nil {
		return "", false, err
	}
	defer done()
	unchanged, err = publish.Add(layout, folder, name, force)
	return built.Digest, unchanged, err
}
