package oci

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/tree"
)

// PlatformFiles are the files that a component has on one platform only.
type PlatformFiles struct {
	Platform oci.Platform
	Source   string // a folder or a file
	Target   string // where it is in the component, with slashes; "" is the root, and of a file its name there
}

// ParsePlatformFiles reads "PLATFORM=SOURCE" or "PLATFORM=SOURCE=TARGET".
func ParsePlatformFiles(text string) (PlatformFiles, error) {
	platform, rest, found := strings.Cut(text, "=")
	from, to, hasTarget := strings.Cut(rest, "=")
	p := PlatformFiles{Source: from, Target: to}
	switch {
	case !found || from == "":
		return p, fmt.Errorf("%q names no files: write PLATFORM=SOURCE or PLATFORM=SOURCE=TARGET", text)
	case hasTarget && to == "":
		return p, fmt.Errorf("%q has an empty target: leave out the last =, or say where the files go", text)
	}
	if hasTarget {
		p.Target = path.Clean(filepath.ToSlash(to))
		if p.Target == "." {
			p.Target = ""
		} else if err := tree.CheckPath(p.Target); err != nil {
			return p, err
		}
	}
	var err error
	p.Platform, err = oci.ParsePlatform(platform)
	return p, err
}

// file is one file or link of a component.
type file struct {
	path       string // on disk
	link       string // the target of a link, with slashes; "" for a file
	size       int64
	executable bool
}

// files are a component's content, by name.
type files map[string]file

// names returns the names in order.
func (f files) names() []string { return slices.Sorted(maps.Keys(f)) }

// collect finds what is in a folder, or the one file that the path names, and adds it under a target. What exclude holds
// (absolute paths) is left out. Returned are the sockets, pipes and devices that were left out because nobody can have them.
func (f files) collect(from, target string, exclude map[string]bool) (skipped []string, err error) {
	from, err = filepath.Abs(from)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is neither a file nor a folder", from)
		}
		if target == "" {
			target = filepath.Base(from)
		}
		return nil, f.add(target, from, info)
	}
	// A link to a folder is that folder, where it is named itself; Walk would see the link.
	if from, err = filepath.EvalSymlinks(from); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(from, func(full string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case full == from:
			return nil
		case exclude[full] && entry.IsDir(), entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case exclude[full], entry.IsDir(), entry.Name() == ".git":
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Type(); mode != 0 && mode != fs.ModeSymlink {
			skipped = append(skipped, full)
			return nil
		}
		rel, err := filepath.Rel(from, full)
		if err != nil {
			return err
		}
		return f.add(path.Join(target, filepath.ToSlash(rel)), full, info)
	})
	return skipped, err
}

func (f files) add(name, full string, info fs.FileInfo) error {
	if err := tree.CheckPath(name); err != nil {
		return err
	}
	if strings.HasPrefix(path.Base(name), ".wh.") {
		return fmt.Errorf("%s cannot be published: in images the names that begin with .wh. mean that a file is removed", full)
	}
	entry := file{path: full, size: info.Size(), executable: info.Mode()&0o111 != 0 && runtime.GOOS != "windows"}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(full)
		if err != nil {
			return err
		}
		entry = file{path: full, link: filepath.ToSlash(target)}
	}
	f[name] = entry
	return nil
}

// with returns the files with others over them.
func (f files) with(over files) files {
	all := maps.Clone(f)
	maps.Copy(all, over)
	return all
}

// without returns the files that are not among others.
func (f files) without(others files) files {
	rest := maps.Clone(f)
	for name := range others {
		delete(rest, name)
	}
	return rest
}

// check holds what is to be published against what a component is: it has a definition, and every definition in it is right.
func (f files) check(dir string, compile func(name string, text []byte) error) error {
	found := false
	for _, name := range f.names() {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if _, isFile := f[folder]; isFile {
				return fmt.Errorf("%s would be below %s, which is not a folder", f[name].path, f[folder].path)
			}
		}
		if base := path.Base(name); base != plan.DefaultFile && base != plan.FallbackFile || f[name].link != "" {
			continue
		}
		found = true
		if f[name].size > maxDefinition {
			return fmt.Errorf("%s is larger than a definition may be", f[name].path)
		}
		text, err := os.ReadFile(f[name].path)
		if err != nil {
			return err
		}
		if compile == nil {
			continue
		}
		if err := compile(f[name].path, text); err != nil {
			return err
		}
	}
	if !found {
		return &NoStepError{dir}
	}
	return nil
}

// NoStepError says that a folder holds no component.
type NoStepError struct{ Dir string }

func (e *NoStepError) Error() string {
	return fmt.Sprintf("%s holds no step: there is neither a %s nor a %s in it", e.Dir, plan.DefaultFile, plan.FallbackFile)
}
