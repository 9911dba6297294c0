package local

import "github.com/rungci/rung/local/limits"

// limitFlags are the flags that limit jobs; their names are those of the limits.
var limitFlags = []struct{ name, kind, usage string }{
	{"cpus", "N", "let each job use at most `N` processors (container jobs only)"},
	{"memory", "SIZE", "let each job use at most `SIZE` of memory, such as 2GiB (container jobs only)"},
	{"pids", "N", "let each job have at most `N` processes and threads (container jobs only)"},
	{"disk", "SIZE", "let each job write at most `SIZE` of files (container jobs, if the engine has quotas)"},
	{"network", "POLICY", "let jobs reach `POLICY` beside their services: all, none, public, or a list such as example.com:443,10.1.0.0/16 (container jobs only)"},
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
