package federation

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/rungci/rung/steps/diag"
)

// file is one file of sources.
type file struct {
	path    string   // absolute
	project bool     // it came with what is run, and may demand things but not send the user's secrets anywhere
	entries []*entry // the longest match first
}

// setting is where a key was set.
type setting struct {
	span   diag.Span
	source string
	at     unstable.Range
}

// entry is one [[source]].
type entry struct {
	file   *file
	span   diag.Span // of its [[source]]
	source string
	set    map[string]setting

	pattern pattern
	target  target

	match, replace                string
	username                      string
	passwordEnv, passwordFile     string
	tokenEnv, tokenFile           string
	sshKey, knownHosts            string
	caFile, clientCert, clientKey string
	proxy                         string
	plainHTTP, submodules         bool
	refresh                       time.Duration
	deny, pinned                  bool
	reason                        string
	signedBy                      []string
	threshold                     int
}

// keys are the keys of an entry.
var keys = []string{
	"match", "replace", "username", "password_env", "password_file", "token_env", "token_file", "ssh_key", "known_hosts",
	"ca_file", "client_cert", "client_key", "proxy", "plain_http", "submodules", "refresh", "deny", "reason", "pinned", "signed_by", "threshold",
}

// field returns where the value of a key goes, nil for a key that is not known.
func (e *entry) field(key string) any {
	switch key {
	case "match":
		return &e.match
	case "replace":
		return &e.replace
	case "username":
		return &e.username
	case "password_env":
		return &e.passwordEnv
	case "password_file":
		return &e.passwordFile
	case "token_env":
		return &e.tokenEnv
	case "token_file":
		return &e.tokenFile
	case "ssh_key":
		return &e.sshKey
	case "known_hosts":
		return &e.knownHosts
	case "ca_file":
		return &e.caFile
	case "client_cert":
		return &e.clientCert
	case "client_key":
		return &e.clientKey
	case "proxy":
		return &e.proxy
	case "plain_http":
		return &e.plainHTTP
	case "submodules":
		return &e.submodules
	case "refresh":
		return &e.refresh
	case "deny":
		return &e.deny
	case "reason":
		return &e.reason
	case "pinned":
		return &e.pinned
	case "signed_by":
		return &e.signedBy
	case "threshold":
		return &e.threshold
	}
	return nil
}

// Groups of keys. Those of a group belong together: an entry that has one of them has its say about all.
var (
	credentialKeys = []string{"username", "password_env", "password_file", "token_env", "token_file"}
	secretKeys     = []string{"password_env", "password_file", "token_env", "token_file"}
	certKeys       = []string{"client_cert", "client_key"}
	// accessKeys are about the place that is asked, and are the user's alone.
	accessKeys = []string{
		"username", "password_env", "password_file", "token_env", "token_file", "ssh_key", "known_hosts",
		"ca_file", "client_cert", "client_key", "proxy", "plain_http",
	}
)

// has reports whether the entry sets one of the keys.
func (e *entry) has(keys ...string) bool {
	for _, key := range keys {
		if _, ok := e.set[key]; ok {
			return true
		}
	}
	return false
}

// at is "file:line" of a key, for people.
func (e *entry) at(key string) string {
	span := e.span
	if s, ok := e.set[key]; ok {
		span = s.span
	}
	return fmt.Sprintf("%s:%d", span.File, span.Line)
}

// wrong is a problem with the value of a key.
func (e *entry) wrong(key, hint, format string, args ...any) diag.Diagnostic {
	s, ok := e.set[key]
	if !ok {
		s = setting{span: e.span, source: e.source}
	}
	return diag.Diagnostic{Span: s.span, Source: s.source, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// check looks at every entry as a whole.
func (p *parser) check() {
	if len(p.problems) > 0 {
		return // what would be said of values that are wrong already is of no use
	}
	seen := map[string]*entry{}
	for _, e := range p.file.entries {
		p.problems = append(p.problems, e.check()...)
		if len(e.set) == 0 || e.match == "" {
			continue
		}
		name := strings.ToLower(e.pattern.String())
		if first := seen[name]; first != nil {
			p.problems = append(p.problems, e.wrong("match", "make one entry of the two", "the match %s already exists, on line %d", e.pattern, first.span.Line))
		}
		seen[name] = e
	}
}

func (e *entry) check() (problems diag.List) {
	fail := func(key, hint, format string, args ...any) {
		problems = append(problems, e.wrong(key, hint, format, args...))
	}
	if e.match == "" {
		fail("", `write which host it is for: match = "gitlab.com/"`, "the entry has no match")
		return problems
	}
	var err error
	if e.pattern, err = parsePattern(e.match); err != nil {
		fail("match", "", "%v", err)
	}
	if e.has("replace") {
		if e.target, err = parseTarget(e); err != nil {
			fail("replace", `as in "https://mirror.example.com/", "ssh://git@host/", "file:///srv/steps/" or "./folder/"`, "%v", err)
		}
		for _, key := range accessKeys {
			if e.has(key) {
				fail(key, fmt.Sprintf("write another [[source]] with match = %q and %s", e.target.hostHint(), key),
					"%s is for the place that is asked, and this entry is for a place that is never asked because of its replace", key)
			}
		}
	}
	problems = append(problems, e.checkCredentials()...)
	if e.has("client_cert") != e.has("client_key") {
		fail("client_cert", "set both", "client_cert and client_key belong together")
	}
	if e.has("reason") && !e.deny {
		fail("reason", "", "reason says why deny is true, and it is not")
	}
	if e.has("threshold") && e.threshold > len(e.signedBy) {
		fail("threshold", "threshold is how many of the keys in signed_by must have signed", "%d signatures are demanded, and signed_by has %d keys", e.threshold, len(e.signedBy))
	}
	if e.has("proxy") && e.proxy != proxyNone {
		if u, err := url.Parse(e.proxy); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
			fail("proxy", `as in "http://proxy.example.com:3128", or "none" to use none`, "the proxy is not a URL with the scheme http, https or socks5")
		}
	}
	if e.file.project {
		problems = append(problems, e.checkProject()...)
	}
	return problems
}

func (e *entry) checkCredentials() (problems diag.List) {
	var have []string
	for _, key := range secretKeys {
		if e.has(key) {
			have = append(have, key)
		}
	}
	switch {
	case len(have) > 1:
		problems = append(problems, e.wrong(have[1], "keep one of them", "%s and %s both say what the password is", have[0], have[1]))
	case len(have) == 0 && e.has("username"):
		problems = append(problems, e.wrong("username", "add password_env, password_file, token_env or token_file", "the user name has no password"))
	}
	return problems
}

// checkProject refuses what a file that came with a project must not say.
func (e *entry) checkProject() (problems diag.List) {
	const hint = "write it into your own file, or name this one with --sources if you trust it"
	for _, key := range accessKeys {
		if e.has(key) {
			problems = append(problems, e.wrong(key, hint, "a project's file cannot set %s: a project that you cloned could send your secrets elsewhere, or listen in", key))
		}
	}
	if e.has("replace") && e.target.scheme == "file" && !e.file.inProject(e.target.folder) {
		problems = append(problems, e.wrong("replace", hint, "a project's file cannot lead to a folder outside of the project"))
	}
	for _, path := range e.signedBy {
		if strings.HasPrefix(path, "~/") || !e.file.inProject(e.file.absolute(path, "")) {
			problems = append(problems, e.wrong("signed_by", hint, "a project's file cannot name keys outside of the project"))
		}
	}
	if e.has("replace") && e.target.scheme == "http" && !isLoopback(e.target.host) {
		problems = append(problems, e.wrong("replace", hint, "a project's file cannot make step-runner use http:// but on this machine: your credentials would be there for all to read"))
	}
	return problems
}

// isLoopback reports whether a host, perhaps with a port, is this machine.
func isLoopback(host string) bool {
	name := place{host: host}.hostname()
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// proxyNone is the proxy that is none.
const proxyNone = "none"

// inProject reports whether a path is in the project that the file came with, also where links lead.
func (f *file) inProject(path string) bool {
	root := filepath.Dir(filepath.Dir(f.path)) // the folder around ProjectFolder
	if real, err := filepath.EvalSymlinks(path); err == nil {
		if root, err = filepath.EvalSymlinks(root); err != nil {
			return false
		}
		path = real
	}
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}
