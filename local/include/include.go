// Package include gets the files that a .gitlab-ci.yml includes, from where GitLab would: the project's own files, other projects,
// web addresses, GitLab's templates and components. It implements config.Loader.
//
//	config.Place ──> Loader ──> local      the work tree, as it is
//	                       ├──> override   a folder of this machine that stands for a project
//	                       ├──> project    the whole tree of a commit, with Git ─┐
//	                       └──> remote     one file, over HTTP ──────────────────┴──> steps/source/cache, by digest
//
// What a name stands for is decided once in a run, and then noted in a lock file with the digest of what was fetched. A later run
// gets the same, or an error, until it is asked to refresh. Where things are, how to get in and what is denied is said by the
// user's sources.toml, as for components of steps.
package include

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/cache"
)

// Git fetches from Git repositories: a *git.Fetcher.
type Git interface {
	source.Fetcher
	// Tags returns the tags of a repository, and their commits.
	Tags(ctx context.Context, at *source.Location) (map[string]string, error)
}

// Credentials finds what a user has for a web server.
type Credentials interface {
	HTTP(ctx context.Context, url string) (user, password string, ok bool, err error)
}

// Options say where files come from.
type Options struct {
	// Repository is the project that the pipeline runs for.
	Repository *repository.Repository
	// Cache keeps what is fetched.
	Cache *cache.Cache
	Git   Git
	// Credentials are for files over HTTP; they may be nil.
	Credentials Credentials
	// Rules are the user's sources; nil leaves everything where its name says.
	Rules source.Rules
	// Projects are folders of this machine that stand for projects: by "group/project", or "host/group/project" for another
	// server's. They are taken as they are, whatever ref is asked for. GitLab's own is gitlab-org/gitlab, which has the templates.
	Projects map[string]string
	// LockFile is the file that notes what was fetched; empty notes nothing.
	LockFile string
	// Offline uses only what is in the cache. Refresh asks anew what names stand for, and notes that.
	Offline, Refresh bool
	// Policy says how long to go on with a web server that fails; the zero Policy is one that suits a person who waits.
	Policy download.Policy
	// Env is the environment of git in the folders of Projects; nil is that of this program.
	Env []string
}

// Loader gives files. It implements config.Loader, and is safe for concurrent use.
type Loader struct {
	o        Options
	projects map[string]string // Options.Projects by names in small letters, absolute

	mu      sync.Mutex
	lock    *lockFile
	tags    map[string]map[string]string // of repositories, by their names
	trees   map[string]*files            // packages, by their content digest
	folders map[string]*files            // overrides, by their folder
	decided map[string]string            // what names stand for in this run
	homes   map[string]string            // the host of a component's project, by the project and commit
	notes   []string
}

var _ config.Loader = (*Loader)(nil)

// New returns a Loader. The error is about the lock file, or a folder that stands for a project.
func New(o Options) (*Loader, error) {
	l := &Loader{
		o: o, projects: map[string]string{}, lock: &lockFile{}, tags: map[string]map[string]string{}, trees: map[string]*files{},
		folders: map[string]*files{}, decided: map[string]string{}, homes: map[string]string{},
	}
	if l.o.Policy == (download.Policy{}) {
		l.o.Policy.Attempts = attempts
	}
	if l.o.Env == nil {
		l.o.Env = os.Environ()
	}
	for name, dir := range o.Projects {
		full, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("the folder for %s: %w", name, err)
		}
		l.projects[strings.ToLower(strings.Trim(name, "/"))] = full
	}
	if o.LockFile == "" {
		return l, nil
	}
	var err error
	l.lock, err = readLock(o.LockFile)
	return l, err
}

// attempts is how often a web server is asked, when it does not answer.
const attempts = 3

// Save writes the lock file, if something is to be noted in it.
func (l *Loader) Save() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.LockFile == "" || !l.lock.changed {
		return nil
	}
	if err := l.lock.write(l.o.LockFile); err != nil {
		return fmt.Errorf("recording the includes: %w", err)
	}
	return nil
}

// Notes say what is otherwise than on GitLab, a sentence each, without a stop.
func (l *Loader) Notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notes)
}

// note adds a sentence, once.
func (l *Loader) note(text string) {
	if !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// Load implements config.Loader.
func (l *Loader) Load(ctx context.Context, place config.Place) (config.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch place.Kind {
	case config.Local:
		return l.local(place.Path)
	case config.Project:
		return l.projectFile(ctx, place)
	case config.Remote:
		return l.remote(ctx, place)
	case config.Template:
		return l.template(ctx, place)
	case config.CatalogComponent:
		return componentLoader{l}.component(ctx, place)
	}
	return config.File{}, fmt.Errorf("unknown kind of include")
}

// Glob implements config.Loader.
func (l *Loader) Glob(ctx context.Context, pattern config.Place) ([]string, error) {
	var names []string
	var err error
	if pattern.Kind == config.Local {
		names, err = l.o.Repository.Files(ctx)
	} else {
		names, err = l.ProjectFiles(ctx, pattern.Project, pattern.Ref)
	}
	if err != nil {
		return nil, err
	}
	matches := glob.Wildcard(pattern.Path)
	var found []string
	for _, name := range names {
		if matches(name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// ProjectFiles lists the files of a project, for rules:exists:project; ref is "" for the default branch.
func (l *Loader) ProjectFiles(ctx context.Context, project, ref string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOwn(project, ref) {
		return l.o.Repository.Files(ctx)
	}
	f, err := l.projectFiles(ctx, l.homeOf(project, ref), project, ref)
	if err != nil {
		return nil, err
	}
	return f.names, nil
}

// isOwn reports whether a project and ref are what the pipeline runs for: the work tree has them.
func (l *Loader) isOwn(project, ref string) bool {
	r := l.o.Repository
	if !strings.EqualFold(strings.Trim(project, "/"), string(r.Project)) || ref == "" {
		return false
	}
	return ref == r.Branch || r.Commit != nil && ref == r.Commit.SHA
}

// homeOf is the host that a project is on: the pipeline's server, or that of the component that brought it in.
func (l *Loader) homeOf(project, ref string) string {
	return cmp.Or(l.homes[project+"@"+ref], l.o.Repository.Server.FQDN())
}

// override is the folder that stands for a project.
func (l *Loader) override(host, project string) (dir string, ok bool) {
	project = strings.ToLower(project)
	if dir, ok = l.projects[strings.ToLower(host)+"/"+project]; ok {
		return dir, true
	}
	if !strings.EqualFold(host, l.o.Repository.Server.FQDN()) {
		return "", false
	}
	dir, ok = l.projects[project]
	return dir, ok
}

// files is what a project holds.
type files struct {
	dir   string
	names []string // in the order of their bytes
	sha   string   // of the commit; "" where it is not known
	read  func(name string) ([]byte, error)
}

// has reports whether there is a file.
func (f *files) has(name string) bool {
	_, found := slices.BinarySearch(f.names, name)
	return found
}

// load reads a file of a project. The error wraps fs.ErrNotExist where there is none.
func (f *files) load(name string) ([]byte, error) {
	if !f.has(name) {
		return nil, fmt.Errorf("the file %s does not exist: %w", name, fs.ErrNotExist)
	}
	return f.read(name)
}
