package git

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// address is where a repository is.
type address struct {
	scheme         string // https, http, ssh or file
	user, password string // what the URL itself says; never shown
	host           string // without brackets and port; "" for files
	port           string // "" is the scheme's own
	path           string // of http escaped as in the URL; of ssh as the server gets it; of file a path of this system
}

// maxURL is the longest URL that is looked at, in bytes.
const maxURL = 4096

// parseAddress reads the URL of a repository: https, http, ssh and file URLs, host:path as scp writes it, and absolute paths.
func parseAddress(text string) (*address, error) {
	switch {
	case text == "":
		return nil, errors.New("there is no address")
	case len(text) > maxURL:
		return nil, fmt.Errorf("the address is longer than %d bytes", maxURL)
	case strings.HasPrefix(text, "-"):
		return nil, errors.New("an address cannot begin with a dash")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, errors.New("an address cannot have control characters")
	}
	if filepath.IsAbs(text) || strings.HasPrefix(text, "/") {
		return &address{scheme: "file", path: filepath.Clean(text)}, nil
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return parseSCP(text)
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "https", "http", "ssh", "git+ssh", "ssh+git", "file":
	case "git":
		return nil, errors.New("git:// is neither encrypted nor authenticated; use https:// or ssh://")
	default:
		return nil, fmt.Errorf("repositories are fetched over https, http, ssh or from files, not over %q", scheme)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is not a URL") // the error would show what is in it
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("the URL of a repository has neither a ? nor a #")
	}
	if scheme == "file" {
		return parseFileURL(u)
	}
	a := &address{scheme: scheme, host: strings.ToLower(u.Hostname()), port: u.Port(), path: u.EscapedPath()}
	if u.User != nil {
		a.user = u.User.Username()
		a.password, _ = u.User.Password()
	}
	if strings.Contains(scheme, "ssh") {
		a.scheme, a.path = "ssh", u.Path
		if strings.HasPrefix(a.path, "/~") {
			a.path = a.path[1:]
		}
	} else {
		a.path = strings.TrimRight(a.path, "/")
	}
	if a.port == defaultPorts[a.scheme] {
		a.port = ""
	}
	return a, a.check()
}

var defaultPorts = map[string]string{"https": "443", "http": "80", "ssh": "22"}

// parseSCP reads [user@]host:path.
func parseSCP(text string) (*address, error) {
	if before, _, ok := strings.Cut(text, "::"); ok && !strings.ContainsAny(before, "[/@") {
		return nil, fmt.Errorf("repositories are fetched over https, http, ssh or from files, not with the helper %q", before)
	}
	user, rest := "", text
	if i := strings.IndexByte(text, '@'); i >= 0 && !strings.ContainsAny(text[:i], ":/") {
		user, rest = text[:i], text[i+1:]
	}
	var host, repo string
	var ok bool
	if strings.HasPrefix(rest, "[") {
		host, repo, ok = strings.Cut(rest[1:], "]:")
	} else {
		host, repo, ok = strings.Cut(rest, ":")
	}
	if !ok || host == "" || strings.Contains(host, "/") || runtime.GOOS == "windows" && len(host) == 1 {
		return nil, errors.New("it is neither a URL, nor host:path, nor an absolute path")
	}
	a := &address{scheme: "ssh", user: user, host: strings.ToLower(host), path: repo}
	return a, a.check()
}

func parseFileURL(u *url.URL) (*address, error) {
	if u.Host != "" && u.Host != "localhost" {
		return nil, errors.New("a file URL has three slashes: file:///folder/repository")
	}
	p := u.Path
	if runtime.GOOS == "windows" && len(p) > 2 && p[0] == '/' && p[2] == ':' {
		p = p[1:]
	}
	if strings.ContainsRune(p, 0) {
		return nil, errors.New("an address cannot have control characters")
	}
	p = filepath.FromSlash(path.Clean(p))
	if !filepath.IsAbs(p) {
		return nil, errors.New("a file URL has three slashes: file:///folder/repository")
	}
	return &address{scheme: "file", path: p}, nil
}

// check refuses what a program that gets a part of the address could take for an option.
func (a *address) check() error {
	switch {
	case a.host == "":
		return errors.New("it names no host")
	case strings.HasPrefix(a.host, "-"), strings.HasPrefix(a.path, "-"), strings.HasPrefix(a.user, "-"):
		return errors.New("host, user and path cannot begin with a dash")
	case strings.ContainsAny(a.host, " /\\@?#%\"'<>"):
		return errors.New("the host's name has a character that names cannot have")
	case strings.Trim(a.path, "/") == "":
		return errors.New("it names a host, but no repository")
	case strings.ContainsFunc(a.path+a.user, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("an address cannot have control characters")
	}
	if a.port != "" {
		if n, err := strconv.Atoi(a.port); err != nil || n < 1 || n > 65535 {
			return errors.New("the port is not a number from 1 to 65535")
		}
	}
	return nil
}

// hostPort is the host, with the port if it is not the scheme's own.
func (a *address) hostPort() string {
	host := a.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.port != "" {
		host += ":" + a.port
	}
	return host
}

// url is the address for requests and as the key of its mirror: without credentials, but with the user of SSH, who is part of
// the place.
func (a *address) url() string {
	switch a.scheme {
	case "file":
		return "file://" + filepath.ToSlash(a.path)
	case "ssh":
		user := a.user
		if user != "" {
			user += "@"
		}
		switch {
		case strings.HasPrefix(a.path, "/"):
			return "ssh://" + user + a.hostPort() + a.path
		case strings.HasPrefix(a.path, "~"):
			return "ssh://" + user + a.hostPort() + "/" + a.path
		}
		return user + a.hostPort() + ":" + a.path // relative to the user's folder
	}
	return a.scheme + "://" + a.hostPort() + a.path
}

// sameHost reports whether two repositories are in the same place as far as trust is concerned.
func (a *address) sameHost(b *address) bool {
	return a.scheme == b.scheme && a.host == b.host && a.port == b.port
}

// join resolves the URL of a submodule, which may be relative to its parent's.
func (a *address) join(text string) (*address, error) {
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return parseAddress(text)
	}
	joined := *a
	if a.scheme == "file" {
		joined.path = filepath.Join(a.path, filepath.FromSlash(text))
		return &joined, nil
	}
	rooted := strings.HasPrefix(a.path, "/")
	joined.path = path.Join("/", a.path, text)
	if !rooted {
		joined.path = joined.path[1:]
	}
	return &joined, joined.check()
}
