package worktree

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kept is what of a repository's configuration the copy has, as section.key or section.*.key. What is not here stays behind: it could
// name programs to run (core.fsmonitor, core.sshCommand, diff.*.command), hold credentials (http.extraHeader, credential.*), or
// change what a job sees by its user's taste.
var kept = map[string]bool{
	"core.repositoryformatversion": true, "core.filemode": true, "core.ignorecase": true, "core.precomposeunicode": true, "core.symlinks": true,
	"core.autocrlf": true, "core.eol": true, "core.safecrlf": true, "core.checkroundtripencoding": true, "core.longpaths": true,
	"core.sparsecheckout": true, "core.sparsecheckoutcone": true, "core.excludesfile": true, "core.attributesfile": true,
	"core.protecthfs": true, "core.protectntfs": true, "core.abbrev": true,
	"index.version": true, "index.sparse": true, "status.showuntrackedfiles": true,
	"remote.*.url": true, "remote.*.pushurl": true, "remote.*.fetch": true, "remote.*.tagopt": true, "remote.*.promisor": true, "remote.*.partialclonefilter": true,
	"branch.*.remote": true, "branch.*.merge": true, "branch.*.pushremote": true,
	"submodule.active": true, "submodule.*.url": true, "submodule.*.active": true, "submodule.*.branch": true, "submodule.*.ignore": true,
	"filter.lfs.required": true, "lfs.repositoryformatversion": true,
}

// lfsFilters are what `git lfs install --local` writes, also with --skip-smudge. A filter with the same name that runs another program stays behind.
var lfsFilters = map[string][]string{
	"filter.lfs.clean":   {"git-lfs clean -- %f"},
	"filter.lfs.smudge":  {"git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"},
	"filter.lfs.process": {"git-lfs filter-process", "git-lfs filter-process --skip"},
}

// vouching makes the original's index vouch for the copies: Git compares neither the times of a file's inode, nor its number and owner.
var vouching = []setting{{section: "core", key: "trustctime", value: "false"}, {section: "core", key: "checkstat", value: "minimal"}}

// keeps reports whether the copy has a setting.
func keeps(s setting) bool {
	if s.section == "extensions" {
		return s.key != "worktreeconfig" // its file is merged
	}
	if kept[s.name()] || slices.Contains(lfsFilters[s.name()], s.value) {
		return true
	}
	return s.sub != "" && kept[s.section+".*."+s.key]
}

// readConfig reads the configuration of a work tree.
func (r *repository) readConfig() (*config, error) {
	c, err := readConfig(r.common, "config")
	if err != nil || c.get("extensions.worktreeconfig") == "" {
		return c, err
	}
	more, err := readConfig(r.dir, "config.worktree")
	if err != nil {
		return nil, err
	}
	c.settings = append(c.settings, more.settings...)
	return c, nil
}

// writeConfig reads the configuration, and writes what of it the copy has.
func (r *repository) writeConfig(file, workTree string) error {
	c, err := r.readConfig()
	if err != nil {
		return err
	}
	r.config = c
	var out strings.Builder
	last := ""
	put := func(s setting) {
		if header := s.header(); header != last {
			out.WriteString(header)
			last = header
		}
		fmt.Fprintf(&out, "\t%s = %s\n", s.key, quote(s.value))
	}
	if c.get("core.repositoryformatversion") == "" {
		put(setting{section: "core", key: "repositoryformatversion", value: "0"})
	}
	put(setting{section: "core", key: "bare", value: "false"})
	for _, s := range vouching {
		put(s)
	}
	for _, s := range c.settings {
		if !keeps(s) {
			continue
		}
		if s.key == "url" || s.key == "pushurl" {
			s.value = address(s.value, workTree)
		}
		put(s)
	}
	return os.WriteFile(file, []byte(out.String()), 0o666)
}

// address is a remote's address without credentials, and, where it is a path, from wherever the copy is.
func address(text, workTree string) string {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		if strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || text == "." || text == ".." {
			return filepath.ToSlash(filepath.Join(workTree, filepath.FromSlash(text)))
		}
		return text // an absolute path, or user@host:path, where there is no place for a password
	}
	authority, path, slash := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, _ := strings.Cut(authority[:at], ":")
		authority = authority[at+1:]
		// With HTTP a user's name can be the token itself. With SSH it is part of the address.
		if strings.Contains(scheme, "ssh") && user != "" {
			authority = user + "@" + authority
		}
	}
	out := scheme + "://" + authority
	if slash {
		out += "/" + path
	}
	if u, err := url.Parse(out); err == nil && strings.HasPrefix(scheme, "http") && (u.RawQuery != "" || u.Fragment != "") {
		u.RawQuery, u.Fragment = "", "" // a place for tokens
		return u.String()
	}
	return out
}
