package credentials

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/rungci/rung/internal/shellword"
)

// maxIncludes bounds how deep git's configuration files can include each other.
const maxIncludes = 10

// maxConfigVariables bounds GIT_CONFIG_COUNT.
const maxConfigVariables = 1000

// option is one line of git's configuration, of the sections that matter here.
type option struct {
	section, subsection string
	key, value          string // key in lower case
}

// gitConfig is git's configuration: files from the system's to the user's, then variables. Of one file, the options of a section
// come before those of its subsections, and what it includes comes last.
type gitConfig []option

// gitConfig reads git's configuration as git does outside of a repository: what a repository configures is not the user's.
func (f *Finder) gitConfig() (gitConfig, error) {
	var all gitConfig
	for _, file := range f.gitConfigFiles() {
		if err := all.read(f, file, 0); err != nil {
			return nil, err
		}
	}
	count, _ := strconv.Atoi(f.getenv("GIT_CONFIG_COUNT"))
	for i := range min(max(count, 0), maxConfigVariables) {
		n := strconv.Itoa(i)
		all.add(f.getenv("GIT_CONFIG_KEY_"+n), f.getenv("GIT_CONFIG_VALUE_"+n))
	}
	return all, nil
}

func (f *Finder) gitConfigFiles() (files []string) {
	if system := f.getenv("GIT_CONFIG_SYSTEM"); system != "" {
		files = append(files, system)
	} else if no, _ := strconv.ParseBool(f.getenv("GIT_CONFIG_NOSYSTEM")); !no {
		files = append(files, "/etc/gitconfig")
	}
	if global := f.getenv("GIT_CONFIG_GLOBAL"); global != "" {
		return append(files, global)
	}
	if xdg := f.getenv("XDG_CONFIG_HOME"); xdg != "" {
		files = append(files, filepath.Join(xdg, "git", "config"))
	} else if f.Home != "" {
		files = append(files, filepath.Join(f.Home, ".config", "git", "config"))
	}
	if f.Home != "" {
		files = append(files, filepath.Join(f.Home, ".gitconfig"))
	}
	return files
}

// read adds a file, and what it includes.
func (c *gitConfig) read(f *Finder, file string, depth int) error {
	text, err := readFile(file)
	if err != nil || len(text) == 0 {
		return err
	}
	parsed := config.New()
	if err := config.NewDecoder(bytes.NewReader(text)).Decode(parsed); err != nil {
		return fmt.Errorf("%s cannot be read as a git configuration file; git config --file %s --list says where it is wrong", file, shellword.Of(file))
	}
	var includes []string
	for _, section := range parsed.Sections {
		name := strings.ToLower(section.Name)
		if name != "credential" && name != "core" && name != "include" {
			continue
		}
		for _, o := range section.Options {
			if name == "include" && o.IsKey("path") {
				includes = append(includes, o.Value)
			}
			*c = append(*c, option{section: name, key: strings.ToLower(o.Key), value: o.Value})
		}
		for _, sub := range section.Subsections {
			for _, o := range sub.Options {
				*c = append(*c, option{name, sub.Name, strings.ToLower(o.Key), o.Value})
			}
		}
	}
	for _, include := range includes {
		if depth == maxIncludes {
			return fmt.Errorf("%s: git configuration files include each other more than %d deep", file, maxIncludes)
		}
		if include = f.expandHome(include); !filepath.IsAbs(include) {
			include = filepath.Join(filepath.Dir(file), include)
		}
		if err := c.read(f, include, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (f *Finder) expandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && f.Home != "" {
		return filepath.Join(f.Home, rest)
	}
	return path
}

// add adds a variable that is named by "section.subsection.key".
func (c *gitConfig) add(name, value string) {
	section, rest, _ := strings.Cut(name, ".")
	subsection, key := "", rest
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		subsection, key = rest[:i], rest[i+1:]
	}
	*c = append(*c, option{strings.ToLower(section), subsection, strings.ToLower(key), value})
}

// core returns the last value of an option of [core].
func (c gitConfig) core(key string) (value string) {
	for _, o := range c {
		if o.section == "core" && o.subsection == "" && o.key == key {
			value = o.value
		}
	}
	return value
}

// helpers are the credential helpers for a URL. An empty one takes back those before it.
func (c gitConfig) helpers(at *url.URL) (helpers []string) {
	for _, o := range c {
		switch {
		case o.section != "credential" || o.key != "helper" || !matches(o.subsection, at):
		case o.value == "":
			helpers = nil
		default:
			helpers = append(helpers, o.value)
		}
	}
	return helpers
}

// question is what a helper is asked.
type question struct{ protocol, host, path, username string }

// question makes the question for a URL.
func (c gitConfig) question(at *url.URL) question {
	q := question{protocol: at.Scheme, host: hostField(at), username: at.User.Username()}
	usePath := at.Scheme != "http" && at.Scheme != "https"
	configured := ""
	for _, o := range c {
		if o.section != "credential" || !matches(o.subsection, at) {
			continue
		}
		switch o.key {
		case "username":
			configured = o.value
		case "usehttppath":
			on, err := strconv.ParseBool(o.value)
			usePath = on || err != nil && (o.value == "" || strings.EqualFold(o.value, "yes") || strings.EqualFold(o.value, "on"))
		}
	}
	if q.username == "" && !strings.ContainsAny(configured, "\r\n\x00") {
		q.username = configured
	}
	if usePath {
		q.path = strings.TrimPrefix(at.Path, "/")
	}
	return q
}

// matches reports whether the pattern of a [credential "pattern"] section is for a URL: scheme, host and port are the same, where
// a * stands for one label of the host, and its path is that of the URL or a folder above it. No pattern is for all.
func matches(pattern string, at *url.URL) bool {
	if pattern == "" {
		return true
	}
	p, err := url.Parse(pattern)
	if err != nil || p.Scheme != at.Scheme {
		return false
	}
	if name := p.User.Username(); name != "" && name != at.User.Username() {
		return false
	}
	wantHost, wantPort := hostPort(p)
	host, port := hostPort(at)
	if wantPort != port || !matchHost(wantHost, host) {
		return false
	}
	want, have := path.Clean("/"+p.Path), path.Clean("/"+at.Path)
	return want == "/" || have == want || strings.HasPrefix(have, want+"/")
}

func matchHost(pattern, host string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); !ok || err != nil {
			return false
		}
	}
	return true
}
