// Package gitquery is how git answers questions about a repository that somebody else may have made: it starts no program that the repository's own
// configuration names, asks no server, and changes nothing.
//
// A clone brings no configuration, but an archive, a shared folder or the jobs of a kept folder do. Git's own names of programs that these questions reach
// are the monitor of files, hooks, the transport by which a partial clone fetches what it lacks, and filters, where files are compared.
package gitquery

import (
	"os"
	"slices"
	"strings"
)

// fixed is what every question is asked with. GIT_NO_LAZY_FETCH is not known to gits before 2.45, which find that no protocol is allowed.
var fixed = []string{"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"}

// emptyVariable is a variable without a value, for settings whose names -c cannot take.
const emptyVariable = "RUNG_GIT_EMPTY"

// Environment is the environment of a question, made of that of the user.
func Environment(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return name == emptyVariable || slices.ContainsFunc(fixed, func(set string) bool { return strings.HasPrefix(set, name+"=") })
	})
	return append(append(out, fixed...), emptyVariable+"=")
}

// Command is git with the arguments that every question has, and those of this one.
func Command(args ...string) []string {
	return append([]string{"git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull}, args...)
}

// WithoutFilters are arguments that come before the command: the filters of a configuration do nothing. keys are those of all its settings, as `git config
// --list` prints them. A file that a filter changes, such as one of Git LFS, is then another than that of the commit unless the index knows better.
func WithoutFilters(keys []string) []string {
	var names []string
	for _, key := range keys {
		if rest, ok := strings.CutPrefix(key, "filter."); ok {
			if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
				names = append(names, rest[:dot])
			}
		}
	}
	slices.Sort(names)
	var out []string
	for _, name := range slices.Compact(names) {
		for _, key := range []string{"clean", "smudge", "process", "required"} {
			setting := "filter." + name + "." + key
			if strings.Contains(name, "=") { // which -c would take for the end of the name; gits before 2.31 refuse the argument
				out = append(out, "--config-env="+setting+"="+emptyVariable)
			} else {
				out = append(out, "-c", setting+"=")
			}
		}
	}
	return out
}
