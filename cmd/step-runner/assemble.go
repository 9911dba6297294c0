package main

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/steps/catalog"
	"github.com/rungci/rung/steps/catalog/script"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
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
	"github.com/rungci/rung/steps/toolkit/github"
	"github.com/rungci/rung/steps/value"
)

// engineOptions are what every run of this program has, whoever asks for it: languages, toolkits, and the program itself.
func (a *app) engineOptions() engine.Options {
	return engine.Options{
		HostEnv:        a.env,
		ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
		Toolkits:       map[string]engine.Toolkit{plan.ToolkitGitHub: github.Begin, plan.ToolkitGitHubAction: github.Begin},
		Functions:      functions(),
		Program:        programFile(),
		ProgramEnv:     a.programEnv,
		Runtime:        event.Runtime{Version: version(), OS: runtime.GOOS, Arch: runtime.GOARCH},
	}
}

// functions are what expressions can call beyond those of the language.
func functions() map[string]engine.Function {
	all := maps.Clone(github.Functions)
	for name, f := range script.Functions {
		all[name] = func(_ engine.FunctionScope, args []value.Value) (value.Value, error) { return f(args) }
	}
	return all
}

// programFile is the file of this program; "" where the system does not say.
func programFile() string {
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	return file
}

// sourceFlags say where components may come from.
type sourceFlags struct {
	sources  string
	cacheDir string
	lockFile string
	locked   bool
	offline  bool
	refresh  bool
	bundles  []string

	given *lock.File // what a client locks, in the place of a file; nil is none
}

// locking are the flags with the lock that a client gave; nil is none.
func (o *sourceFlags) locking(given *lock.File) *sourceFlags {
	out := *o
	out.given = given
	return &out
}

// flags declares them.
func (o *sourceFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&o.sources, "sources", "", "read where components come from in `FILE` (default: your configuration folder's rung/sources.toml and the project's .rung/sources.toml)")
	f.StringVar(&o.cacheDir, "cache", "", "keep what is fetched in `DIR` (default: $STEP_RUNNER_CACHE, or step-runner in your cache folder)")
	f.StringVar(&o.lockFile, "lock-file", "", "use what references are locked to in `FILE` (default: "+lock.Name+" in the work directory, if it is there)")
	f.BoolVar(&o.locked, "locked", false, "refuse components that are not in the lock file")
	f.BoolVar(&o.offline, "offline", false, "fetch nothing: use what is in the cache and in bundles")
	f.BoolVar(&o.refresh, "refresh", false, "ask anew what tags and branches point to, however lately that was asked")
	f.StringArrayVar(&o.bundles, "bundle", nil, "use the components in `FILE`, written by trace bundle")
}

// openResolver makes the source of one run's components. What is fetched is laid out in folder, which is the run's own; local
// components are seen from workDir.
func (a *app) openResolver(o *sourceFlags, folder, workDir string) (*source.Resolver, error) {
	r := &source.Resolver{
		Local:   &source.Local{Parse: gitlabsteps.ParseFile, ParseAction: actions.Parse, ParseFetchedAction: actions.ParseFetched, WorkDir: workDir},
		Cache:   cache.New(a.cacheDir(o, folder)),
		Locked:  o.locked,
		Offline: o.offline,
		Fresh:   o.refresh,
		Folder:  folder,
		WorkDir: workDir,
	}
	var err error
	if r.Lock, err = readLock(o, workDir); err != nil {
		return nil, err
	}
	if err := addBundles(r, o); err != nil {
		return nil, err
	}
	if r.Rules, err = a.rules(o, workDir); err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // without one there are no credentials in it
	found := &credentials.Finder{Env: a.env, Home: home}
	r.Fetchers = map[plan.RefKind]source.Fetcher{
		plan.RefGit:     &git.Fetcher{Cache: r.Cache, Credentials: found},
		plan.RefArchive: &archive.Fetcher{Cache: r.Cache, Credentials: found},
		plan.RefOCI:     &oci.Fetcher{Cache: r.Cache, Credentials: found},
		plan.RefBuiltin: &source.Builtin{FS: catalog.FS},
	}
	return r, nil
}

// rules reads where the user wants components to come from.
func (a *app) rules(o *sourceFlags, workDir string) (*federation.Config, error) {
	home, _ := os.UserHomeDir()
	config, _ := os.UserConfigDir()
	rules, err := federation.Load(federation.Options{
		File: o.sources, ConfigDir: config, WorkDir: workDir, Home: home, Env: a.env, Version: version(),
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, coded(exitNotFound, "--sources: there is no %s", o.sources)
	}
	return rules, err
}

// cacheDir is the folder of the cache. Where a user has none, as in a container whose user has no home, it is in the run's own
// folder, if there is a run, and lasts as long.
func (a *app) cacheDir(o *sourceFlags, folder string) string {
	if dir := cmp.Or(o.cacheDir, a.getenv("STEP_RUNNER_CACHE")); dir != "" {
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

// ownLock reads the lock file for a project with a root. What it lacks is refused with --locked, wherever the steps run.
func (o *sourceFlags) ownLock(root string) (*lock.File, error) {
	f, err := readLock(o, root)
	if err == nil && o.locked {
		f.Closed = append(f.Closed, lock.Closed{By: "--locked demands it", Hint: "step-runner lock adds it"})
	}
	return f, err
}

// readLock reads the lock file that the flags name, or the one beside the steps.
func readLock(o *sourceFlags, workDir string) (*lock.File, error) {
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
		return nil, coded(exitNotFound, "--lock-file: there is no %s", path).hinted("step-runner lock writes one")
	case err != nil:
		return nil, coded(exitDefinition, "reading the lock file: %v", err)
	case f == nil && o.locked:
		return nil, coded(exitNotFound, "--locked: there is no %s", path).hinted("write one with step-runner lock, or name another with --lock-file")
	}
	return f, nil
}
