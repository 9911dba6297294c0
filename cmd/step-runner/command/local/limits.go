package local

import "github.com/rungci/rung/local/limits"

// limitFlags are the flags that limit jobs; their names are those of the limits.
var limitFlags = []struct{ name, kind, usage string }{
	{"cpus", "N", "let each job use at most `N` processors (in containers, and in level cgroup)"},
	{"memory", "SIZE", "let each job use at most `SIZE` of memory, such as 2GiB (in containers, and in level cgroup)"},
	{"pids", "N", "let each job have at most `N` processes and threads (in containers, and in level cgroup)"},
	{"disk", "SIZE", "let each job write at most `SIZE` of files (in containers, if the engine has quotas)"},
	{"network", "POLICY", "let jobs reach `POLICY` beside their services: all, none, public, or a list such as example.com:443,10.1.0.0/16 (in containers only)"},
}

// limitFlag is one of them, as a flag.
type limitFlag struct {
	to         *limits.Limits
	name, kind string
	text       string
}

func (f *limitFlag) String() string { return f.text }
func (f *limitFlag) Type() string   { return f.kind }

// Set implements the interface of flags.
func (f *limitFlag) Set(text string) error {
	f.text = text
	return f.to.Set(f.name, text)
}
