package federation

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// place is where something is: a host, and the elements of a path there, decoded. A place on this machine has no host.
type place struct {
	scheme   string // "" where the text had none
	user     string
	host     string // in lower case, with its port when that is not the scheme's own
	elements []string
	query    string // with its question mark
}

// defaultPorts are the ports that URLs of a scheme leave out.
var defaultPorts = map[string]string{"https": "443", "http": "80", "ssh": "22", "git+ssh": "22", "ssh+git": "22", "oci": "443", "git": "9418"}

// canonicalHost writes a host, perhaps with a port, in one form: what leads to the same place has to be the same here, or whoever
// denies it would deny one spelling. Its error does not show the text.
func canonicalHost(scheme, text string) (string, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return "", errors.New("its host has a letter that is not ASCII; write the host as DNS has it (xn--…)")
	}
	name, port := strings.ToLower(text), ""
	if rest, ok := strings.CutPrefix(name, "["); ok {
		name, port, _ = strings.Cut(rest, "]")
		port = strings.TrimPrefix(port, ":")
	} else if before, after, ok := strings.Cut(name, ":"); ok {
		name, port = before, after
	}
	name = strings.TrimRight(name, ".")
	if ip, err := netip.ParseAddr(name); err == nil {
		name = ip.Unmap().String()
	}
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port = strings.TrimLeft(port, "0"); port != "" && port != defaultPorts[scheme] {
		name += ":" + port
	}
	if scheme == "file" && name == "localhost" {
		name = ""
	}
	return name, nil
}

// parsePlace reads a URL, "host/path", "user@host:path" as SSH has it, or a path. Its error does not show the text, which may hold
// a password.
func parsePlace(text string) (place, error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		scheme, rest = "", text
		if at, path, ok := cutSCP(text); ok && strings.Contains(at, "@") {
			scheme, rest = "ssh", at+"/"+path
		}
	}
	p := place{scheme: strings.ToLower(scheme)}
	if i := strings.IndexAny(rest, "?#"); i >= 0 && p.scheme != "file" {
		if rest, p.query = rest[:i], rest[i:]; p.query[0] == '#' {
			p.query = ""
		}
	}
	host, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		p.user, _, _ = strings.Cut(host[:i], ":")
		host = host[i+1:]
	}
	var err error
	if p.host, err = canonicalHost(p.scheme, host); err != nil {
		return place{}, err
	}
	for element := range strings.SplitSeq(path, "/") {
		decoded, err := element, error(nil)
		if p.scheme != "" {
			decoded, err = url.PathUnescape(element)
		}
		if err != nil && p.scheme == "file" {
			decoded, err = element, nil // a path as it is
		}
		switch {
		case err != nil:
			return place{}, fmt.Errorf("its path has a %% that stands for no character")
		case decoded == "..":
			return place{}, fmt.Errorf("its path has an element \"..\"")
		case strings.ContainsAny(decoded, "/\x00\r\n") || strings.Contains(decoded, `\`) && p.scheme != "file":
			return place{}, fmt.Errorf("its path has a character that no path here can have")
		case decoded != "" && decoded != ".":
			p.elements = append(p.elements, decoded)
		}
	}
	return p, nil
}

// cutSCP cuts [user@]host:path, as scp writes it, before the path. The host may be in brackets.
func cutSCP(text string) (host, path string, ok bool) {
	host, path, ok = strings.Cut(text, ":")
	if before, _, bracket := strings.Cut(text, "["); bracket && !strings.ContainsAny(before, ":/") {
		host, path, ok = strings.Cut(text, "]:")
		host += "]"
	}
	return host, path, ok && !strings.Contains(host, "/")
}

// hostname is the host without its port.
func (p place) hostname() string {
	return (&url.URL{Host: p.host}).Hostname()
}

// joined returns the elements as the path of a URL, without a slash before the first.
func joined(elements []string) string {
	escaped := slices.Clone(elements)
	for i := range escaped {
		escaped[i] = url.PathEscape(escaped[i])
	}
	return strings.Join(escaped, "/")
}

// pattern is what an entry is for: a host, or all below one ("*.example.com"), or every host ("*"), and a path there.
type pattern struct {
	host     string // after "*." when wild
	wild     bool
	elements []string
}

// parsePattern reads a match. Its error says what is wrong with it.
func parsePattern(text string) (pattern, error) {
	if scheme, _, ok := strings.Cut(text, "://"); ok && scheme != "file" {
		return pattern{}, fmt.Errorf("a match has no scheme: leave %s:// out, it is for all of them", scheme)
	}
	if strings.ContainsAny(text, "@? \t") {
		return pattern{}, fmt.Errorf(`a match is a host, or a host and a path: "gitlab.com/" or "gitlab.com/group/"`)
	}
	where, err := parsePlace(text)
	if err != nil {
		return pattern{}, err
	}
	m := pattern{host: where.host, elements: where.elements}
	if m.host == "" && len(m.elements) == 0 {
		return pattern{}, fmt.Errorf(`it is empty; a match is a host, or a host and a path: "gitlab.com/" or "gitlab.com/group/"`)
	}
	switch rest, wild := strings.CutPrefix(m.host, "*."); {
	case m.host == "*":
		m.host, m.wild = "", true
	case wild:
		m.host, m.wild = rest, true
	}
	if strings.Contains(m.host, "*") || strings.Contains(strings.Join(m.elements, ""), "*") {
		return pattern{}, fmt.Errorf(`a * stands for the beginning of a host only: "*.example.com/"`)
	}
	return m, nil
}

// String writes the pattern in its one form.
func (m pattern) String() string {
	host := m.host
	if m.wild {
		host = strings.TrimSuffix("*."+host, ".")
	}
	return host + "/" + strings.Join(m.elements, "/")
}

// matches reports whether a place is what the pattern is for, or below it. Case does not count, as on the hosts that people use,
// nor does a ".git" at the end: who denies a place denies it however it is written.
func (m pattern) matches(p place) bool {
	switch {
	case m.wild && (p.host == "" || m.host != "" && !strings.HasSuffix(p.host, "."+m.host)):
		return false
	case !m.wild && m.host != p.host:
		return false
	case len(m.elements) > len(p.elements):
		return false
	}
	for i, want := range m.elements {
		have := p.elements[i]
		if i == len(m.elements)-1 {
			want, have = withoutGit(want), withoutGit(have)
		}
		if !strings.EqualFold(want, have) {
			return false
		}
	}
	return true
}

func withoutGit(element string) string {
	if n := len(element) - len(".git"); n > 0 && strings.EqualFold(element[n:], ".git") {
		return element[:n]
	}
	return element
}

// longer reports whether m says more than n: more elements, else a whole host rather than a part of one, else a longer one.
func (m pattern) longer(n pattern) bool {
	switch {
	case len(m.elements) != len(n.elements):
		return len(m.elements) > len(n.elements)
	case m.wild != n.wild:
		return n.wild
	}
	return len(m.host) > len(n.host)
}

// fileURL is the URL of a path on this machine.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/folder
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// filePath is the path that a file:// URL is for.
func filePath(fileURL string) string {
	path := strings.TrimPrefix(fileURL, "file://")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	if len(path) > 2 && path[0] == '/' && path[2] == ':' {
		path = path[1:] // /C:/folder
	}
	return filepath.FromSlash(path)
}
