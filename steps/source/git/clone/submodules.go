package clone

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/source/git"
)

// Limits of submodules.
const (
	maxSubmodules      = 1000
	maxSubmoduleLevels = 20
	maxModulesFile     = 1 << 20 // bytes of .gitmodules
)

// SubmoduleOptions say which submodules come, and how.
type SubmoduleOptions struct {
	Recursive bool
	Depth     int                    // how many commits of history; 0 is all
	Wanted    func(path string) bool // of the first level
	Rewrite   func(url string) string
}

// module is a submodule.
type module struct{ name, path, url string }

// Submodules brings the files of the submodules of a commit that is checked out.
func (c *Clone) Submodules(ctx context.Context, commit string, o SubmoduleOptions) error {
	left := maxSubmodules
	return c.submodules(ctx, commit, o, &left, 0)
}

func (c *Clone) submodules(ctx context.Context, commit string, o SubmoduleOptions, left *int, level int) error {
	modules, commits, err := c.modules(ctx, commit)
	if err != nil {
		return err
	}
	for i, m := range modules {
		if level == 0 && !o.Wanted(m.path) {
			continue
		}
		if *left--; *left < 0 || level == maxSubmoduleLevels {
			return &RefusedError{fmt.Errorf("the submodule %s is one of more than %d, or more than %d levels deep", m.path, maxSubmodules, maxSubmoduleLevels)}
		}
		if err := c.submodule(ctx, m, commits[i], o, left, level); err != nil {
			return fmt.Errorf("the submodule %s: %w", m.path, err)
		}
	}
	return nil
}

// modules returns the submodules that have an address, and their commits.
func (c *Clone) modules(ctx context.Context, commit string) (modules []module, commits []string, err error) {
	_, root, err := c.store.Commit(plumbing.NewHash(commit))
	if err != nil {
		return nil, nil, err
	}
	known := map[string]module{}
	links := map[string]string{}
	err = c.store.Files(ctx, root, func(f git.File) error {
		switch {
		case f.Mode == git.ModeSubmodule:
			links[f.Path] = f.Hash.String()
		case f.Path == ".gitmodules":
			known, err = c.readModules(f)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, nil, refusePath(err)
	}
	for at, m := range known {
		if links[at] != "" {
			modules = append(modules, m)
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.path, b.path) })
	for i, m := range modules {
		for _, other := range modules[:i] {
			if other.name == m.name || strings.HasPrefix(other.name, m.name+"/") || strings.HasPrefix(m.name, other.name+"/") {
				return nil, nil, &RefusedError{fmt.Errorf(".gitmodules: the repositories of the submodules %q and %q would be in each other", other.name, m.name)}
			}
		}
		commits = append(commits, links[m.path])
	}
	return modules, commits, nil
}

// readModules reads .gitmodules; the submodules are by their paths.
func (c *Clone) readModules(f git.File) (map[string]module, error) {
	size, err := c.store.BlobSize(f.Hash)
	if err != nil {
		return nil, err
	}
	if size > maxModulesFile {
		return nil, &RefusedError{fmt.Errorf(".gitmodules is larger than %d bytes", maxModulesFile)}
	}
	var text bytes.Buffer
	if err := c.store.CopyBlob(&text, f.Hash); err != nil {
		return nil, err
	}
	parsed := config.New()
	if err := config.NewDecoder(&text).Decode(parsed); err != nil {
		return nil, Refuse(".gitmodules cannot be read: %w", err)
	}
	found := map[string]module{}
	for _, s := range parsed.Section("submodule").Subsections {
		m := module{name: s.Name, path: s.Option("path"), url: s.Option("url")}
		if m.path == "" || m.url == "" || s.Option("update") == "none" {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(m.name)) || path.Clean(m.name) != m.name || pack.InGit(m.name) || strings.HasPrefix(m.name, "-") || strings.ContainsAny(m.name+m.path+m.url, "\n\r\x00\\") {
			return nil, &RefusedError{fmt.Errorf(".gitmodules: %q is not a safe name of a submodule", m.name)}
		}
		found[m.path] = m
	}
	return found, nil
}

// submodule brings the files of one submodule. Its repository is below .git/modules, where git has it.
func (c *Clone) submodule(ctx context.Context, m module, commit string, o SubmoduleOptions, left *int, level int) error {
	folder, err := c.submoduleFolder(m.path)
	if err != nil {
		return err
	}
	url, err := git.JoinURL(c.options.URL, m.url)
	if err != nil {
		return &RefusedError{err}
	}
	url = o.Rewrite(url)
	gitDir := filepath.Join(c.gitDir, "modules", filepath.FromSlash(m.name))
	linked, err := filepath.Rel(folder, gitDir)
	if err != nil {
		return err
	}
	workTree, err := filepath.Rel(gitDir, folder)
	if err != nil {
		return err
	}
	options := Options{Folder: folder, URL: url, Access: c.options.Access, Branch: "main",
		Config: "[remote \"origin\"]\n\turl = " + quote(url) + "\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"}
	inner, err := open(ctx, options, gitDir, filepath.ToSlash(linked), filepath.ToSlash(workTree))
	if err != nil {
		return err
	}
	defer inner.Close()
	if o.Depth == 0 { // with a depth, the commit alone is what anybody looks at
		if err := inner.Fetch(ctx, Fetch{Refspecs: []string{"+refs/heads/*:refs/remotes/origin/*"}}); err != nil {
			return fmt.Errorf("fetching %s: %w", url, err)
		}
	}
	if _, err := inner.Complete(ctx, commit, o.Depth); err != nil {
		return fmt.Errorf("fetching the commit %s of %s: %w", commit, url, err)
	}
	if err := inner.CheckOut(ctx, commit); err != nil {
		return err
	}
	if err := c.appendConfig("[submodule " + quote(m.name) + "]\n\tactive = true\n\turl = " + quote(url) + "\n"); err != nil {
		return err
	}
	if o.Recursive {
		if err := inner.submodules(ctx, commit, o, left, level+1); err != nil {
			return err
		}
	}
	for name := range inner.attrs {
		if c.attrs == nil {
			c.attrs = attributes{}
		}
		c.attrs[name] = true
	}
	return nil
}

// submoduleFolder is where a submodule's files go: the empty folder that its parent made. Links are there by now, and none of them may lead elsewhere.
func (c *Clone) submoduleFolder(name string) (string, error) {
	at := c.options.Folder
	for element := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, element)
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		if !info.IsDir() {
			return "", &RefusedError{fmt.Errorf("%s, on the way to it, is not a folder", at)}
		}
	}
	entries, err := os.ReadDir(at)
	if err == nil && len(entries) > 0 {
		err = &RefusedError{fmt.Errorf("its folder is not empty: this file system takes two names of the commit for the same")}
	}
	return at, err
}

func (c *Clone) appendConfig(text string) error {
	f, err := os.OpenFile(filepath.Join(c.gitDir, "config"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// quote writes a value, or a name, for Git's configuration.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
