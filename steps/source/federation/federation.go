// Package federation reads sources.toml, in which users configure where components come from: mappings from one host to another (a mirror,
// an internal instance, a folder), credentials, and requirements for what is fetched, such as signatures.
//
// An entry is for a host, or a path on it. What an entry does not set, the entry with the next shorter match says.
//
//   - Mapping goes by the name that a reference has, once: what a name is mapped to is not mapped again.
//   - Credentials, keys, certificates and proxies go by the place that is asked in the end.
//   - Demands (deny, pinned, signed_by) go by both.
//
// There may be two files: the user's and the project's. The project's can map, and demand more; what the user's demands holds in
// any case, and only the user's says how to get in.
package federation

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// FileName is the name of a file of sources.
const FileName = "sources.toml"

// Folders that a file of sources can be in.
const (
	UserFolder    = "rung"  // in the user's configuration folder
	ProjectFolder = ".rung" // in the work directory
)

// Options say which files are read, and in which world.
type Options struct {
	// File is read alone, as the user's own. The error is fs.ErrNotExist where it is not there.
	File string
	// ConfigDir is the user's configuration folder (os.UserConfigDir), WorkDir the work directory: without File, the file in each
	// is read if it is there. "" has none.
	ConfigDir, WorkDir string
	// Home is what ~/ stands for.
	Home string
	// Env is this program's environment, as NAME=value: passwords are looked up in it.
	Env []string
	// Version is this program's, for servers to know.
	Version string
}

// Config is what the files say. It implements source.Rules.
type Config struct {
	opts  Options
	files []*file // the project's before the user's

	unread error // the user's file may exist and cannot be read: nothing is fetched without knowing what it demands

	mu      sync.Mutex
	clients map[connection]*http.Client
	demands map[*entry]*demand
}

var _ source.Rules = (*Config)(nil)

// Load reads the files. What is wrong in them is a diag.List.
func Load(o Options) (*Config, error) {
	c := &Config{opts: o, clients: map[connection]*http.Client{}, demands: map[*entry]*demand{}}
	if o.File != "" {
		return c, c.read(o.File, false)
	}
	var all diag.List
	for _, f := range []struct {
		dir, folder string
		project     bool
	}{{o.WorkDir, ProjectFolder, true}, {o.ConfigDir, UserFolder, false}} {
		if f.dir == "" {
			continue
		}
		err := c.read(filepath.Join(f.dir, f.folder, FileName), f.project)
		if list := diag.Of(err); list != nil {
			all = append(all, list...)
		} else if err != nil && !f.project && outOfReach(f.dir) {
			c.unread = fmt.Errorf("%w; set HOME or XDG_CONFIG_HOME to a folder that can be read, or use --sources", err)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) { // .rung is a file
			return nil, err
		}
	}
	return c, all.Err()
}

// outOfReach reports whether nothing in a folder can be known: it, or one above it, is another user's or no folder.
func outOfReach(dir string) bool {
	_, err := os.ReadDir(dir)
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

func (c *Config) read(path string, project bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path) // before it is opened: that would wait for whoever writes to a pipe
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return diag.List{{Span: diag.Span{File: path}, Message: "this is not a file"}}
	}
	if info.Size() > MaxFileSize {
		return tooLarge(path)
	}
	root := filepath.Dir(path)
	if project {
		root = filepath.Dir(root)
	}
	text, err := projectfile.ReadPath(root, path, MaxFileSize)
	var refused *projectfile.Error
	if errors.As(err, &refused) && refused.Err == nil { // it could be read, and is not: the project has to change
		return diag.List{{Span: diag.Span{File: path}, Message: FileName + " " + refused.Why, Hint: "make it a plain file in the project, or remove it"}}
	}
	if err != nil {
		return err
	}
	f, err := parse(path, text, project)
	if err == nil {
		c.files = append(c.files, f)
	}
	return err
}

// Files are the paths of the files that were read. The project's comes before the user's.
func (c *Config) Files() (paths []string) {
	for _, f := range c.files {
		paths = append(paths, f.path)
	}
	return paths
}

// entry finds the longest match for a place that sets one of the keys, in one file.
func (f *file) entry(p place, keys ...string) *entry {
	for _, e := range f.entries {
		if e.has(keys...) && e.pattern.matches(p) {
			return e
		}
	}
	return nil
}

// entry finds the longest match for a place that sets one of the keys. Of two that are as long the project's counts.
func (c *Config) entry(p place, keys ...string) (found *entry) {
	for _, f := range c.files {
		if e := f.entry(p, keys...); e != nil && (found == nil || e.pattern.longer(found.pattern)) {
			found = e
		}
	}
	return found
}

// userEntry finds the longest match in the user's file.
func (c *Config) userEntry(p place, keys ...string) *entry {
	for _, f := range c.files {
		if !f.project {
			return f.entry(p, keys...)
		}
	}
	return nil
}

// Apply implements source.Rules. A local folder is where it is: what the files demand of it is all that they say.
func (c *Config) Apply(at *source.Location) (source.Trust, error) {
	if c.unread != nil && at.Kind != plan.RefLocal {
		return source.Trust{}, c.unread
	}
	if at.Kind == plan.RefLocal {
		where, err := parsePlace(at.URL)
		if err != nil {
			return source.Trust{}, &source.DeniedError{What: at.Name, Why: err.Error()}
		}
		return c.trust(at, route{name: where, rewritten: rewritten{url: at.URL, place: where}})
	}
	r, err := c.route(at)
	if err != nil {
		return source.Trust{}, err
	}
	trust, err := c.trust(at, r)
	if err != nil {
		return source.Trust{}, err
	}
	at.URL = r.url
	at.Access.PlainHTTP = at.Access.PlainHTTP || r.plainHTTP
	for _, p := range []place{r.name, r.place} {
		if e := c.entry(p, "submodules"); e != nil && e.submodules {
			at.Access.Submodules = true
		}
	}
	if e := c.entry(r.name, "refresh"); e != nil {
		trust.Refresh = e.refresh
	}
	return trust, c.access(r.place, &at.Access)
}

// route is the way of a location.
type route struct {
	rewritten
	name   place
	mapped *entry // nil where it is where its name says
}

// route finds out where a location leads.
func (c *Config) route(at *source.Location) (route, error) {
	text := at.Name
	if at.Kind == plan.RefArchive && !hasScheme(text) {
		text = at.URL // a path that is seen from the work directory
	}
	if host, path, ok := cutSCP(text); ok && at.Kind == plan.RefGit && !strings.Contains(text, "://") {
		text = "ssh://" + host + "/" + path
	}
	name, err := parsePlace(text)
	if err != nil {
		return route{}, &source.DeniedError{What: at.Name, Why: err.Error()}
	}
	r := route{name: name}
	if r.mapped = c.entry(name, "replace"); r.mapped != nil {
		r.rewritten, err = r.mapped.rewrite(at.Kind, name)
		return r, err
	}
	r.rewritten = rewritten{url: at.URL, place: name}
	return r, nil
}

func hasScheme(text string) bool {
	p, err := parsePlace(text)
	return err == nil && p.scheme != ""
}
