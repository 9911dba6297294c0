// Package config turns the text of a .gitlab-ci.yml and of all files that it includes into one configuration, in which every
// value knows where it was written and how it got to where it is used.
//
// Resolve goes the way that GitLab goes:
//
//	text ── inputs for $[[ ]], file by file ── include ── extends ── !reference ── default, inherit ── jobs
//
// It knows which keywords there are and where they are allowed, not what they mean: their values stay trees of Nodes. It fetches
// nothing and decides no rules of its own; a Loader and functions in Options do. Everything that is wrong is found in one go.
//
// Trees are shared, never changed and never copied: a job that extends another one holds the same trees, behind a hop that says
// so. That keeps thousands of jobs cheap.
package config

import (
	"context"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// Limits. Those that GitLab has are as GitLab has them by default.
const (
	// MaxIncludes is how many files all includes together may bring, the same file counted as often as it is included.
	MaxIncludes = 150
	// MaxFileSize is the longest file that may be included, in bytes.
	MaxFileSize = 16 << 20
	// MaxTotalSize bounds all files together, in bytes.
	MaxTotalSize = 64 << 20
	// MaxExtendsDepth is how many levels of jobs a job may extend.
	MaxExtendsDepth = 11
	// MaxReferenceDepth is how many !reference may lead to each other.
	MaxReferenceDepth = 10
	// maxRecursion is how long a chain is followed to tell how much too long it is.
	maxRecursion = 1000
	// MaxJobName is the longest name of a job, in characters.
	MaxJobName = 255
	// MaxExpandedNodes bounds what one value may hold, counted as often as inputs and references repeat it.
	MaxExpandedNodes = 1_000_000
	// MaxProblems is how many diagnostics are reported. The rest is only counted.
	MaxProblems = yamlsource.MaxProblems
)

// Options are the facts that a configuration is resolved with.
type Options struct {
	// Place is where the first file is from.
	Place Place
	// Inputs are values for the spec:inputs of the first file. Where an input is not a string, the text of a string is read as
	// JSON, as GitLab does with what people type.
	Inputs map[string]value.Value
	// Loader gives the files that are included. Without one, every include is an error.
	Loader Loader
	// Rule reports whether all conditions of one rule of an include hold: its `if`, `exists` and `changes`. The rule's
	// Source().Place tells which project's files `exists` means. Without it, rules of includes are an error.
	Rule func(rule Node) (bool, error)
	// InputRule decides the `if` of spec:inputs:rules, an expression over $[[ inputs.name ]]. Without it, such rules are an error.
	InputRule func(condition string, inputs func(name string) (value.Value, bool)) (bool, error)
	// Expand expands the variables in the places of includes. Without it, they stay.
	Expand func(text string) string
	// ExpandInput is the function expand_vars of $[[ ]]. It refuses masked variables. Without it, variables stay.
	ExpandInput func(text string) (string, error)
}

// Config is a resolved configuration.
type Config struct {
	// Root is everything at the top level, hidden jobs too: what GitLab shows as the full configuration. Its jobs are without
	// their defaults.
	Root Node
	// Stages, Workflow and Variables are the global keywords; they do not exist where the configuration has not got them.
	Stages, Workflow, Variables Node
	// Default is `default:`. It is already in the Jobs, as far as they inherit it.
	Default Node
	// Jobs are the jobs that are not hidden, in order.
	Jobs []Job
	// Inputs are those that the first file declares, in order, with their values.
	Inputs []Input
	// Sources are the files that were read, the first one first, as often as they are included.
	Sources []*Source
	// Warnings are what is accepted but probably a mistake.
	Warnings diag.List
	// Partial is set when a file is missing, and with it what it would have defined: a name that is not here may be there.
	Partial bool
	// Skipped is set when the rules of an include left it out: in another pipeline it may use what nothing uses here.
	Skipped bool

	index map[string]int
}

// Job is a job with all that it takes over.
type Job struct {
	Name string
	// Key is the name where it is written.
	Key Node
	// Body is the job's map after extends, !reference and default.
	Body Node
	// Lacking is set when it misses some of what it should take over, which has been reported.
	Lacking bool
	// Trigger is set for a job that triggers a pipeline instead of running a script.
	Trigger bool
	// Variables says which of the global variables the job gets, Defaults which of the default keywords.
	Variables, Defaults Inherit
}

// Inherit is what a job takes over from the top level.
type Inherit struct {
	All   bool
	Names []string // when not all
}

// Has reports whether a variable or keyword is taken over.
func (i Inherit) Has(name string) bool {
	if i.All {
		return true
	}
	for _, n := range i.Names {
		if n == name {
			return true
		}
	}
	return false
}

// Job returns a job by its name, nil when there is none.
func (c *Config) Job(name string) *Job {
	if i, ok := c.index[name]; ok {
		return &c.Jobs[i]
	}
	return nil
}

// Resolve reads a configuration whose first file diagnostics call name.
//
// Its error is a diag.List of all that is wrong, or that of the context. The Config is what could be made of the text
// nevertheless, so that more of it can be checked; it is nil when that is nothing.
func Resolve(ctx context.Context, name string, data []byte, options Options) (*Config, error) {
	if options.Expand == nil {
		options.Expand = func(text string) string { return text }
	}
	if options.ExpandInput == nil {
		options.ExpandInput = func(text string) (string, error) { return text, nil }
	}
	r := &resolver{problems: &problems{}, ctx: ctx, options: options}
	source := &Source{Name: name, Place: options.Place}
	root := r.read(source, data, r.commandLine())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if root == nil {
		return nil, r.err()
	}
	a := &assembler{problems: r.problems}
	root = a.references(a.extend(root))
	c := &Config{Root: Node{tree: root}, Inputs: r.inputs, Sources: r.sources}
	a.jobs(c)
	c.Warnings, c.Partial, c.Skipped = r.warnings, r.partial, r.skipped
	return c, r.err()
}

// resolver is the state of one call of Resolve: it reads files and what they include.
type resolver struct {
	*problems
	ctx      context.Context
	options  Options
	inputs   []Input // of the first file
	includes int
	size     int
	made     int // bytes of text that interpolation made
}

// commandLine are the inputs of the first file as trees.
func (r *resolver) commandLine() map[string]item {
	given := make(map[string]item, len(r.options.Inputs))
	for name, v := range r.options.Inputs {
		given[name] = item{value: treeOf(v)}
	}
	return given
}
