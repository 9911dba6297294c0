// Package components finds the steps that commands name: their sources, cache, lock file and bundles.
package components

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/catalog"
	"github.com/rungci/rung/steps/frontend/actions"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/credentials"
	"github.com/rungci/rung/steps/source/federation"
	"github.com/rungci/rung/steps/source/git"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/oci"
)

// Flags say where components may come from.
type Flags struct {
	Sources  string
	CacheDir string
	lockFile string
	Locked   bool
	Offline  bool
	Refresh  bool
	Bundles  []string

	given *lock.File // what a client locks, in the place of a file; nil is none
}

// Args are the flags as a step-runner on this machine takes them.
func (o *Flags) Args() []string {
	var out []string
	file := func(flag, name string) {
		if name == "" {
			return
		}
		if full, err := filepath.Abs(name); err == nil {
			name = full
		}
		out = append(out, flag+"="+name)
	}
	file("--sources", o.Sources)
	file("--cache", o.CacheDir)
	file("--lock-file", o.lockFile)
	for _, name := range o.Bundles {
		file("--bundle", name)
	}
	for flag, set := range map[string]bool{"--locked": o.Locked, "--offline": o.Offline, "--refresh": o.Refresh} {
		if set {
			out = append(out, flag)
		}
	}
	return out
}

// Locking are the flags with the lock that a client gave; nil is none.
func (o *Flags) Locking(given *lock.File) *Flags {
	out := *o
	out.given = given
	return &out
}

// Declare declares them.
func (o *Flags) Declare(f *pflag.FlagSet) {
	f.StringVar(&o.Sources, "sources", "", "read the sources of components from `FILE` (default: rung/sources.toml in your configuration folder, and .rung/sources.toml in the project)")
	f.StringVar(&o.CacheDir, "cache", "", "cache fetched components in `DIR` (default: $STEP_RUNNER_CACHE, or step-runner in your cache folder)")
	f.StringVar(&o.lockFile, "lock-file", "", "use the lock file `FILE` (default: "+lock.Name+" in the work directory, if it exists)")
	f.BoolVar(&o.Locked, "locked", false, "refuse components and images that are neither in the lock file nor named by digest")
	f.BoolVar(&o.Offline, "offline", false, "fetch nothing; use the cache and bundles")
	f.BoolVar(&o.Refresh, "refresh", false, "resolve tags and branches again, even if they were resolved recently")
	f.StringArrayVar(&o.Bundles, "bundle", nil, "use the components in `FILE`, written by trace bundle")
}

// Open makes the source of one run's components. What is fetched is laid out in folder, which is the run's own; local
// components are seen from workDir.
func (o *Flags) Open(p *command.Program, folder, workDir string) (*source.Resolver, error) {
	r, err := o.open(p, folder, workDir)
	if err != nil {
		return nil, err
	}
	r.Lock, r.Rules, err = r.Project.Read()
	r.Project = nil
	if err != nil {
		return nil, err
	}
	return r, nil
}

// OpenAhead is Open for a run that checks its project out in workDir: the lock file and the sources.toml of the project are read after that.
func (o *Flags) OpenAhead(p *command.Program, folder, workDir string) (*source.Resolver, error) {
	r, err := o.open(p, folder, workDir)
	if err != nil {
		return nil, err
	}
	if r.Rules, err = o.Rules(p, ""); err != nil { // a mistake in the user's own is said at once
		return nil, err
	}
	return r, nil
}

// open makes a source that knows neither the lock file nor the rules, and how to read both.
func (o *Flags) open(p *command.Program, folder, workDir string) (*source.Resolver, error) {
	kept, err := o.OpenCache(p, folder)
	if err != nil {
		return nil, err
	}
	r := &source.Resolver{
		Local:   &source.Local{Parse: gitlabsteps.ParseFile, ParseAction: actions.Parse, ParseFetchedAction: actions.ParseFetched, WorkDir: workDir},
		Cache:   kept,
		Locked:  o.Locked,
		Offline: o.Offline,
		Fresh:   o.Refresh,
		Folder:  folder,
		WorkDir: workDir,
	}
	bundles, err := openBundles(o)
	if err != nil {
		return nil, err
	}
	for _, b := range bundles {
		r.Stores = append(r.Stores, b)
	}
	r.Project = &source.Project{Read: func() (*lock.File, source.Rules, error) {
		locked, err := readLock(o, workDir)
		if err == nil && !o.Locked { // with it, only what the lock file has may be used
			locked, err = lockBundled(locked, bundles)
		}
		if err != nil {
			return nil, nil, err
		}
		rules, err := o.Rules(p, workDir)
		if err != nil {
			return nil, nil, err
		}
		return locked, rules, nil
	}}
	home, _ := os.UserHomeDir() // without one there are no credentials in it
	found := &credentials.Finder{Env: p.Env, Home: home}
	r.Fetchers = map[plan.RefKind]source.Fetcher{
		plan.RefGit:     &git.Fetcher{Cache: r.Cache, Credentials: found},
		plan.RefArchive: &archive.Fetcher{Cache: r.Cache, Credentials: found},
		plan.RefOCI:     &oci.Fetcher{Cache: r.Cache, Credentials: found},
		plan.RefBuiltin: &source.Builtin{FS: catalog.FS},
	}
	return r, nil
}

// Rules reads where the user wants components to come from.
func (o *Flags) Rules(p *command.Program, workDir string) (*federation.Config, error) {
	home, _ := os.UserHomeDir()
	config, _ := os.UserConfigDir()
	rules, err := federation.Load(federation.Options{
		File: o.Sources, ConfigDir: config, WorkDir: workDir, Home: home, Env: p.Env, Version: p.Version,
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Coded(exit.NotFound, "--sources: there is no %s", o.Sources)
	}
	return rules, err
}

// OpenCache opens the cache that runs use; folder is the run's own, "" without a run.
func (o *Flags) OpenCache(p *command.Program, folder string) (*cache.Cache, error) {
	if cmp.Or(folder, o.CacheDir, p.Getenv("STEP_RUNNER_CACHE")) == "" {
		if _, err := os.UserCacheDir(); err != nil {
			return nil, exit.Coded(exit.NotFound, "you have no cache folder: %v (set HOME or STEP_RUNNER_CACHE, or use --cache)", err) // in a diagnostic it has no hint
		}
	}
	return OpenCache(o.CacheFolder(p, folder))
}

// OpenCache opens the cache in a folder, with the user's key.
func OpenCache(dir string) (*cache.Cache, error) {
	key := ""
	if config, err := os.UserConfigDir(); err == nil {
		key = filepath.Join(config, "rung", "cache.key")
	}
	kept, err := cache.Open(dir, key)
	var owner *cache.OwnerError
	if errors.As(err, &owner) {
		return nil, exit.Coded(exit.Denied, "the cache is not used: %v", owner).Hinted("%s", owner.Hint)
	}
	return kept, err
}

// CacheFolder is the folder of the cache. Where a user has none, as in a container whose user has no home, it is in the run's own
// folder, if there is a run, and lasts as long.
func (o *Flags) CacheFolder(p *command.Program, folder string) string {
	if dir := cmp.Or(o.CacheDir, p.Getenv("STEP_RUNNER_CACHE")); dir != "" {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil {
		if dir = filepath.Join(dir, "step-runner"); folder == "" || canBeRead(dir) {
			return dir
		}
	}
	return filepath.Join(folder, "cache")
}

// canBeRead reports whether a folder is there, or could be made, and is ours to read.
func canBeRead(dir string) bool {
	if os.MkdirAll(dir, 0o700) != nil {
		return false
	}
	f, err := os.Open(dir)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// OwnLock reads the lock file for a project with a root. What it lacks is refused with --locked, wherever the steps run; a project without
// one may use nothing that is fetched.
func (o *Flags) OwnLock(root string) (*lock.File, error) {
	f, err := findLock(o, root)
	if err == nil && o.Locked {
		if f == nil {
			f = &lock.File{Version: lock.Version}
		}
		f.Closed = append(f.Closed, lock.Closed{By: "--locked requires it", Hint: "step-runner lock adds it"})
	}
	return f, err
}

// readLock reads the lock file that the flags name, or the one beside the steps, which must exist with --locked.
func readLock(o *Flags, workDir string) (*lock.File, error) {
	f, err := findLock(o, workDir)
	if err == nil && f == nil && o.Locked {
		return nil, exit.Coded(exit.NotFound, "--locked: there is no %s", filepath.Join(workDir, lock.Name)).Hinted("write one with step-runner lock, or name another with --lock-file")
	}
	return f, err
}

// findLock reads the lock file that the flags name, or the one beside the steps; it returns nil where there is none.
func findLock(o *Flags, workDir string) (*lock.File, error) {
	if o.given != nil {
		return o.given, nil
	}
	read, path := lock.ReadIfThere, filepath.Join(workDir, lock.Name)
	if o.lockFile != "" {
		read, path = lock.Read, o.lockFile
	}
	f, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Coded(exit.NotFound, "--lock-file: there is no %s", path).Hinted("step-runner lock writes one")
	case err != nil:
		return nil, exit.Coded(exit.Definition, "reading the lock file: %v", err)
	}
	return f, nil
}
