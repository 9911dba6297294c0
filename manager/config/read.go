package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/egress"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
)

// Report is what Lint finds.
type Report struct {
	// Problems are errors, warnings and notes, in the order of the file. No source line with a secret is in them.
	Problems []problems.Problem
	// Used and Ignored count the keys of the file, without tables.
	Used, Ignored int
	// Config is nil if the file as a whole cannot be used. An entry with errors is in it, and cannot be run: see Runner.Levels.
	Config *Config
}

// Unusable is Err if the file as a whole cannot be used; nil if no more than some of its entries cannot.
func (r *Report) Unusable() error {
	if r.Config != nil {
		return nil
	}
	return r.Err()
}

// Err is the errors of the report as a diag.List, nil if there are none.
func (r *Report) Err() error {
	var list diag.List
	for _, p := range r.Problems {
		if !p.Warning && !p.Note {
			list = append(list, p.Diagnostic)
		}
	}
	return list.Err()
}

// Read reads a configuration. The error is a diag.List with all that is wrong with it, or that of the file. What is wrong with one entry is no error:
// that entry alone cannot be run. A file that is not there is a configuration without entries, with an error that is fs.ErrNotExist.
func Read(path string) (*Config, error) {
	text, err := readFile(path)
	if err != nil {
		return empty(path), err
	}
	report := Check(path, text, os.Getenv)
	return report.Config, report.Unusable()
}

// Lint reads a configuration and says all there is to say of it, its permissions included. The error is that of the file.
func Lint(path string) (*Report, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	report := Check(path, text, os.Getenv)
	if info, err := os.Stat(path); err == nil && report.Config != nil {
		report.Problems = slices.Concat(permissions(path, info.Mode(), report.Config), stateKey(report.Config.StateStorage.KeyFile), AsRoot(report.Config), report.Problems)
	}
	return report, nil
}

// permissions says who else can read the tokens of a file.
func permissions(path string, mode fs.FileMode, c *Config) []problems.Problem {
	if runtime.GOOS == "windows" || mode.Perm()&0o077 == 0 {
		return nil
	}
	for i := range c.Runners {
		if c.Runners[i].Token == "" {
			continue
		}
		return []problems.Problem{{Warning: true, Rule: "config/readable-token", Diagnostic: diag.Diagnostic{
			Span:    diag.Span{File: path},
			Message: fmt.Sprintf("other users on this machine can read the tokens in this file (mode %04o)", mode.Perm()),
			Hint:    "chmod 600 " + shellword.Of(path),
		}}}
	}
	return nil
}

// stateKey says that all users can read the key of the shared state, with which they can read what is in it. A group may: volumes of Kubernetes are a group's.
func stateKey(path string) []problems.Problem {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o004 == 0 {
		return nil
	}
	return []problems.Problem{{Warning: true, Rule: "config/readable-key", Diagnostic: diag.Diagnostic{
		Span:    diag.Span{File: path},
		Message: fmt.Sprintf("state_storage.key_file: all users on this machine can read the key of the shared state (mode %04o)", info.Mode().Perm()),
		Hint:    "chmod 600 " + path,
	}}}
}

// RuleRoot is the rule of the warning that jobs run as root.
const RuleRoot = "config/root"

// AsRoot says which jobs run as root on this machine, if this process is root's.
func AsRoot(c *Config) (all []problems.Problem) {
	for i := range c.Runners {
		r := &c.Runners[i]
		levels, err := r.Levels()
		weak := slices.ContainsFunc(levels.Allowed, func(l executor.Level) bool { return l.Rank() < executor.Container.Rank() })
		if os.Geteuid() != 0 || err != nil || !weak || !r.here() || r.User != "" {
			continue
		}
		all = append(all, problems.Problem{Warning: true, Rule: RuleRoot, Diagnostic: diag.Diagnostic{
			Span:    diag.Span{File: c.Path, Line: r.line, Column: 1, Length: 1},
			Message: fmt.Sprintf("jobs of the entry %q run as root on this machine", r.Name),
			Hint:    "write user = \"gitlab-runner\" above all tables, as gitlab-runner's service has it with --user; user = \"root\" if that is meant",
		}})
	}
	return all
}

// Check is Lint for a text. getenv has the variables in addresses and tokens.
func Check(name string, text []byte, getenv func(string) string) *Report {
	doc, err := parse(name, text)
	if err != nil {
		var d diag.Diagnostic
		errors.As(err, &d)
		return &Report{Problems: []problems.Problem{{Diagnostic: d, Rule: "config/syntax"}}}
	}
	r := &reader{doc: doc, report: &Report{}, invalid: map[int]*InvalidError{}}
	c := empty(name)
	c.doc = doc
	r.table(schema(), doc.values, "", reflect.ValueOf(c).Elem())
	for i := range c.Runners {
		span, _ := doc.at(fmt.Sprintf("runners[%d]", i), doc.keys)
		c.Runners[i].line = span.Line
		if c.Runners[i].Executor == "" && c.Runners[i].Plugin != nil {
			c.Runners[i].Executor = PluginExecutor
		}
		r.runner(&c.Runners[i], fmt.Sprintf("runners[%d]", i))
		r.entryValues(&c.Runners[i], fmt.Sprintf("runners[%d]", i), getenv)
	}
	r.values(c, getenv)
	if _, set := doc.values["concurrent"]; set && c.Concurrent < 1 {
		r.found(warning, "config/value", "concurrent", doc.vals, "write how many jobs may run at once", "no job runs with concurrent = %d", c.Concurrent)
	}
	r.report.Used = len(r.used)
	r.sort()
	if !r.failed {
		for i := range c.Runners {
			c.Runners[i].invalid = r.invalid[i]
		}
		c.complete(getenv)
		r.report.Config = c
	}
	return r.report
}

func empty(path string) *Config { return &Config{Path: path, Concurrent: 1} }

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder, not a configuration", path)
	case info.Size() > MaxSize:
		return nil, fmt.Errorf("%s is larger than %d MiB, which no configuration is", path, MaxSize>>20)
	}
	return os.ReadFile(path)
}

// DefaultPath is where gitlab-runner has its configuration, for this user.
func DefaultPath() string {
	switch {
	case runtime.GOOS == "windows":
		if program, err := os.Executable(); err == nil {
			return filepath.Join(filepath.Dir(program), fileName)
		}
		return fileName
	case os.Geteuid() == 0:
		return filepath.Join("/etc/gitlab-runner", fileName)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fileName
	}
	return PathIn(home)
}

// PathIn is where gitlab-runner has the configuration of the user with a home.
func PathIn(home string) string { return filepath.Join(home, ".gitlab-runner", fileName) }

const fileName = "config.toml"

// level is how bad a finding is.
type level int

const (
	problem level = iota
	warning
	note
)

// reader makes a configuration of a document, and notes what there is to say.
type reader struct {
	doc    *document
	report *Report
	failed bool     // an error is about more than one entry
	used   []string // the keys that have an effect

	invalid map[int]*InvalidError // the first error of each entry
}

// MaxProblems is how much is said of one file.
const MaxProblems = 1000

// runner checks what keys alone cannot tell of an entry.
func (r *reader) runner(e *Runner, path string) {
	at := path + ".executor"
	of, known := executors[e.Executor]
	switch {
	case e.Executor == "":
		r.found(warning, "config/refused", path, r.doc.keys, "write executor, for example \"docker\"", "this entry has no executor: its jobs cannot be run")
	case !known:
		hint := ""
		if near := diag.Suggest(e.Executor, names(executors)); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		r.found(problem, "config/value", at, r.doc.vals, hint, "there is no executor %q", e.Executor)
	case of.why != "" && e.machinery() == nil && e.refused() != "":
		r.found(warning, "config/refused", at, r.doc.vals, "leave this entry to gitlab-runner", "jobs of executor %q cannot be run here: %s", e.Executor, e.refused())
	}
	for key, value := range map[string]string{"url": e.URL, "token": e.Token} {
		if value == "" {
			r.found(warning, "config/incomplete", path, r.doc.keys, "see `rung register`", "this entry has no %s, and cannot ask GitLab for jobs", key)
		}
	}
	if e.Executor == "ssh" && (e.SSH == nil || e.SSH.Host == "") {
		r.found(warning, "config/incomplete", at, r.doc.vals, "write host in [runners.ssh]", "executor \"ssh\" needs a host")
	}
	if e.Executor == "custom" && (e.Custom == nil || e.Custom.RunExec == "") {
		r.found(warning, "config/incomplete", at, r.doc.vals, "write run_exec in [runners.custom]", "executor \"custom\" needs a program that runs scripts")
	}
	r.plugin(e, path)
	r.queuing(e, path)
	r.autoscaler(e, path)
	r.networks(e, path+".policy")
	r.provider(e, path)
	r.unused(e, path)
	bounds{r}.slots(e, path)
	if levels, err := e.Levels(); err == nil && levels.Default != PluginLevel && e.Isolation.Minimum != "" && levels.Default.Rank() < levels.Minimum.Rank() {
		r.found(problem, "config/value", path+".isolation.minimum", r.doc.vals, "write a default that is as strong",
			"minimum %q is stronger than %q, the default of this entry: no job could run", levels.Minimum, levels.Default)
	}
}

// networks checks the network policies of an entry.
func (r *reader) networks(e *Runner, path string) {
	check := func(key, text string) {
		if _, err := egress.Parse(text); err != nil {
			r.found(problem, "config/value", path+"."+key, r.doc.vals, `write "none", "public", "all", or hosts and addresses: "example.com:443, *.example.org, 10.1.0.0/16"`, "%v", err)
		}
	}
	if e.Policy.Network != "" {
		check("network", e.Policy.Network)
	}
	for i, text := range e.Policy.AllowedNetworks {
		check(fmt.Sprintf("allowed_networks[%d]", i), text)
	}
}

// pin is what sha256 may be.
var pin = regexp.MustCompile(`(?i)^(sha256:)?[0-9a-f]{64}$`)

// plugin checks what an entry says of its plugin.
func (r *reader) plugin(e *Runner, path string) {
	p := e.Plugin
	switch {
	case e.Executor != PluginExecutor && p == nil:
		return
	case e.Executor != PluginExecutor:
		r.found(warning, "config/incomplete", path+".plugin", r.doc.keys, "write executor = \"plugin\"", "[runners.plugin] is not used by executor %q", e.Executor)
		r.ignore(path + ".plugin")
	case p == nil || p.Name == "" && p.File == "":
		r.found(warning, "config/incomplete", path+".executor", r.doc.vals, "write name or file in [runners.plugin]", "executor \"plugin\" needs a plugin")
	}
	if p != nil && p.SHA256 != "" && !pin.MatchString(p.SHA256) {
		r.found(problem, "config/value", path+".plugin.sha256", r.doc.vals, "write what sha256sum prints of the program", "sha256 must be 64 hexadecimal digits")
	}
	if e.Executor == PluginExecutor && e.Isolation.Default != "" {
		r.found(problem, "config/value", path+".isolation.default", r.doc.vals, "delete it, or choose another executor",
			"the default of an entry with executor \"plugin\" is its plugin, not %q", e.Isolation.Default)
	}
}

// provider checks what an entry says of where its machines come from.
func (r *reader) provider(e *Runner, path string) {
	p := e.Provider
	if p == nil {
		return
	}
	path += ".provider"
	switch plugin := p.Name != "" || p.File != ""; {
	case slices.Contains([]string{"ssh", "custom", PluginExecutor}, e.Executor):
		r.found(problem, "config/value", path, r.doc.keys, "delete it, or write executor = \"docker\" or \"shell\"", "executor %q has its own machine, and no provider", e.Executor)
	case plugin && len(p.Hosts) > 0:
		r.found(problem, "config/value", path, r.doc.keys, "delete name and file, or the hosts", "a provider is a list of hosts or a plugin, not both")
	case e.machinery() != nil: // which are those of its fleet
	case !plugin && len(p.Hosts) == 0:
		r.found(problem, "config/value", path, r.doc.keys, "write [[runners.provider.hosts]], or name or file of a plugin", "the provider has no machines")
	}
	bounds{r}.provider(p, path)
	for i, h := range p.Hosts {
		at := fmt.Sprintf("%s.hosts[%d]", path, i)
		if h.Address == "" {
			r.found(problem, "config/value", at, r.doc.keys, "write address = \"USER@HOST\"", "the host has no address")
		}
		if h.Slots < 0 {
			r.found(problem, "config/value", at+".slots", r.doc.vals, "write how many jobs it runs at once", "a host cannot have %d slots", h.Slots)
		}
	}
	if p.SHA256 != "" && !pin.MatchString(p.SHA256) {
		r.found(problem, "config/value", path+".sha256", r.doc.vals, "write what sha256sum prints of the program", "sha256 must be 64 hexadecimal digits")
	}
}

func names[T any](m map[string]T) []string {
	var all []string
	for name := range m {
		all = append(all, name)
	}
	return all
}

// found notes something.
func (r *reader) found(how level, rule, path string, places map[string]place, hint, format string, args ...any) {
	if len(r.report.Problems) >= MaxProblems && (how != problem || r.failed) {
		return
	}
	span, source := r.doc.at(path, places)
	if how == problem {
		r.fail(path, &InvalidError{Line: span.Line, Message: fmt.Sprintf(format, args...)})
	}
	r.report.Problems = append(r.report.Problems, problems.Problem{Warning: how == warning, Note: how == note, Rule: rule, Diagnostic: diag.Diagnostic{
		Span: span, Source: source, Hint: hint, Message: fmt.Sprintf(format, args...),
	}})
}

// fail notes what an error is about: one entry, or the file.
func (r *reader) fail(path string, err *InvalidError) {
	inside := insideEntry.FindStringSubmatch(path)
	if inside == nil {
		r.failed = true
		return
	}
	i, _ := strconv.Atoi(inside[1])
	if first := r.invalid[i]; first == nil || err.Line < first.Line {
		r.invalid[i] = err
	}
}

// insideEntry finds the paths of what an entry says.
var insideEntry = regexp.MustCompile(`(?i)^runners\[(\d+)\]\.`)
