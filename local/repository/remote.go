package repository

import (
	"net/url"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/source"
)

var defaultPorts = map[string]string{"https": "443", "http": "80", "ssh": "22"}

// setting is one of Git's settings: its name in small letters but for what stands between the first and the last dot.
type setting struct{ key, value string }

type config []setting

// parseConfig reads what git config --list -z prints.
func parseConfig(text string) config {
	var c config
	for entry := range strings.SplitSeq(text, "\x00") {
		if key, value, _ := strings.Cut(entry, "\n"); key != "" {
			c = append(c, setting{key, value})
		}
	}
	return c
}

func (c config) last(key string) string {
	for _, s := range slices.Backward(c) {
		if s.key == key {
			return s.value
		}
	}
	return ""
}

func (c config) first(key string) string {
	for _, s := range c {
		if s.key == key {
			return s.value
		}
	}
	return ""
}

// remotes are the names of the remotes that have a URL, in order.
func (c config) remotes() []string {
	var names []string
	for _, s := range c {
		name, ok := strings.CutPrefix(s.key, "remote.")
		if name, isURL := strings.CutSuffix(name, ".url"); ok && isURL && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// rewrite applies url.<base>.insteadOf: the longest beginning that matches is replaced.
func (c config) rewrite(address string) string {
	longest, with := "", ""
	for _, s := range c {
		base, ok := strings.CutPrefix(s.key, "url.")
		base, isInstead := strings.CutSuffix(base, ".insteadof")
		if ok && isInstead && strings.HasPrefix(address, s.value) && len(s.value) > len(longest) {
			longest, with = s.value, base
		}
	}
	if longest == "" {
		return address
	}
	return with + address[len(longest):]
}

// setRemoteURL reads the server and the project from the URL of a remote.
func (r *Repository) setRemoteURL(address string) {
	server, project, clean := parseRemote(address)
	r.RemoteURL, r.Server, r.Project = clean, server, project
}

// sshHosts are hosts that serve nothing but SSH for another one.
var sshHosts = map[string]string{"altssh.gitlab.com": "gitlab.com", "ssh.github.com": "github.com", "altssh.bitbucket.org": "bitbucket.org"}

// parseRemote reads the URL of a remote: https, http, ssh, git, scp's host:path, and paths. The server is empty for paths, and the
// URL comes back without credentials.
func parseRemote(address string) (server Server, project Project, clean string) {
	clean = source.WithoutUserinfo(address)
	scheme, _, isURL := strings.Cut(address, "://")
	if !isURL {
		return parseSCP(address)
	}
	u, err := url.Parse(clean)
	if err != nil {
		return Server{}, "", clean
	}
	clean = u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.User != nil { // of SSH: a name that is part of the place
		clean = u.Scheme + "://" + u.User.Username() + "@" + u.Host + u.EscapedPath()
	}
	host := strings.ToLower(u.Hostname())
	if host == "" || strings.EqualFold(scheme, "file") {
		return Server{}, "", clean
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "https", "http":
		server = Server{Protocol: scheme, Host: host, Port: orElse(u.Port(), defaultPorts[scheme]), SSHHost: host, SSHPort: defaultPorts["ssh"]}
	case "ssh", "git+ssh", "ssh+git":
		server = overSSH(host, orElse(u.Port(), defaultPorts["ssh"]))
	default: // git://
		server = overSSH(host, defaultPorts["ssh"])
	}
	return server, projectOf(u.Path), clean
}

// parseSCP reads [user@]host:path.
func parseSCP(address string) (Server, Project, string) {
	user, rest := "", address
	if i := strings.IndexByte(address, '@'); i >= 0 && !strings.Contains(address[:i], "/") {
		user, rest = address[:i+1], address[i+1:]
		name, _, hasPassword := strings.Cut(user, ":")
		if hasPassword {
			user = name + "@"
		}
	}
	host, path, ok := "", "", false
	if strings.HasPrefix(rest, "[") {
		host, path, ok = strings.Cut(rest[1:], "]:")
	} else {
		host, path, ok = strings.Cut(rest, ":")
	}
	if !ok || host == "" || strings.ContainsAny(host, `/\`) || len(host) == 1 { // a path; one letter is a drive
		return Server{}, "", address
	}
	return overSSH(strings.ToLower(host), defaultPorts["ssh"]), projectOf(path), user + rest
}

// overSSH is a server that is only known by its SSH address: the web is taken to be at the same host.
func overSSH(host, port string) Server {
	web := orElse(sshHosts[host], host)
	return Server{Protocol: "https", Host: web, Port: defaultPorts["https"], SSHHost: host, SSHPort: port}
}

// projectOf makes the path of a project of that of its repository.
func projectOf(path string) Project {
	path = strings.Trim(strings.TrimPrefix(path, "/~"), "/")
	path = strings.Trim(strings.TrimSuffix(path, ".git"), "/")
	return Project(strings.ToValidUTF8(path, "-"))
}

func orElse(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}
