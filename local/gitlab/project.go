package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/settings"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
	"github.com/rungci/rung/steps/value"
)

// DefaultFile is the file that a pipeline is defined in when nobody says otherwise.
const DefaultFile = ".gitlab-ci.yml"

// Options say what a pipeline is made of.
type Options struct {
	// Dir is a folder of the project, File the definition's path from there; empty is DefaultFile at the project's root.
	Dir, File string
	// Text is the definition in the place of File's content; nil reads the file. File is its name then.
	Text []byte
	// Env is the environment of this program, for git.
	Env []string
	// Variables are those given by hand; they override all others but a job's dotenv variables.
	Variables []variable.Variable
	// Inputs are those of spec:inputs.
	Inputs map[string]value.Value
	// JobInputs are those of `inputs:` of jobs, as they were given.
	JobInputs []JobInput
	// Projects are folders of this machine that stand for other projects, by their paths: artifacts of their jobs are taken from there.
	Projects map[string]string
	Event    repository.Event
	// Loader makes what gives the files of includes. It may be nil; then there are none but the definition itself.
	Loader func(*repository.Repository) (Loader, error)
	// Lock reads the lock file of the project with a root; it returns nil where there is none. It may be nil.
	Lock func(root string) (*local.Lock, error)
}

// Loader gives the files of includes, and those of other projects.
type Loader interface {
	config.Loader
	// ProjectFiles lists the files of a project, for `rules: exists: project`.
	ProjectFiles(ctx context.Context, project, ref string) ([]string, error)
}

// Project is a project with the pipeline that an event would start in it.
type Project struct {
	Repository *repository.Repository
	Facts      *repository.Facts
	Settings   *settings.Settings
	Limits     local.Limits // those of the project
	Store      *store.Store
	// File is the definition as messages call it: its path from the root, or as it was given.
	File string
	// Text is the definition's text.
	Text       []byte
	Config     *config.Config
	Definition *keyword.Definition
	Pipeline   *pipeline.Pipeline
	// Warnings are what is accepted and hardly meant.
	Warnings diag.List

	options   Options
	inputs    map[string]map[string]value.Value // of jobs, as they were given
	rules     []IncludeRule                     // of includes, as they were decided
	loader    Loader
	variables []variable.Layer // from outside of the file
	lock      *local.Lock      // of components and images; nil is none
	parent    *Project         // of a child pipeline
	depth     int              // 0 is not a child
}

// Open finds out what the pipeline is. The error is a diag.List of what is wrong with the definition, or one of the system's. The Project
// is what could be made of it nevertheless, or nil.
func Open(ctx context.Context, o Options) (*Project, error) {
	p := &Project{options: o}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	if err := p.read(); err != nil {
		return nil, err
	}
	if err := p.resolve(ctx); err != nil {
		return p, err
	}
	return p, p.checkGiven()
}

// open finds out about the repository, the settings and the event.
func (p *Project) open(ctx context.Context) (err error) {
	o := &p.options
	if p.Repository, err = repository.Open(ctx, cmp.Or(o.Dir, "."), o.Env); err != nil {
		return err
	}
	root := p.Repository.Root
	p.Store = store.Open(root)
	name := store.Folder + "/" + store.VariablesFile
	if p.Settings, err = settings.Read(p.Repository.Root, filepath.Join(p.Store.Root(), store.VariablesFile), name); err != nil {
		return err
	}
	if p.Limits, err = local.ReadLimits(root); err != nil {
		return err
	}
	event := o.Event
	if o.File != "" {
		event.ConfigPath = p.relative(o.File)
	}
	if p.Facts, err = p.Repository.Facts(ctx, event); err != nil {
		return &EventError{err}
	}
	if note := otherVariables(root); note != "" && p.Settings.Variables == nil {
		p.Facts.Notes = append(p.Facts.Notes, note)
	}
	if o.Loader != nil {
		if p.loader, err = o.Loader(p.Repository); err != nil {
			return err
		}
		p.Facts.ProjectFiles = p.loader.ProjectFiles
	}
	p.variables = []variable.Layer{
		{Level: variable.Predefined, Variables: p.Facts.Variables},
		{Level: variable.Project, Variables: p.Settings.For("", p.Protected())},
		{Level: variable.Pipeline, Variables: o.Variables},
	}
	return p.readLock()
}

// readLock reads the lock file: a job finds the same components wherever it runs.
func (p *Project) readLock() (err error) {
	if p.options.Lock != nil {
		p.lock, err = p.options.Lock(p.Repository.Root)
	}
	return err
}

// otherVariables says how to give the variables that a project keeps for gitlab-ci-local, if it has that file.
func otherVariables(root string) string {
	const file = ".gitlab-ci-local-variables.yml"
	if info, err := os.Lstat(filepath.Join(root, file)); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	own := store.Folder + "/" + store.VariablesFile
	return file + " is not read: variables are in " + own + " (NAME: value works in both; `type: file` is `file: true`), or given with --variable NAME=VALUE"
}

// EventError says that there is no such event as was asked for.
type EventError struct{ Err error }

func (e *EventError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *EventError) Unwrap() error { return e.Err }

// Protected reports whether the pipeline is for a protected ref, which gets protected variables.
func (p *Project) Protected() bool {
	for _, v := range p.Facts.Variables {
		if v.Name == "CI_COMMIT_REF_PROTECTED" {
			return v.Value == "true"
		}
	}
	return false
}

// relative is a file's path from the root of the project, with slashes; as it is when it is not below that.
func (p *Project) relative(file string) string {
	full := file
	if !filepath.IsAbs(full) {
		full = filepath.Join(p.options.Dir, file)
	}
	full, err := filepath.Abs(full)
	if err != nil {
		return file
	}
	roots := []string{p.Repository.Root}
	if real, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		full = filepath.Join(real, filepath.Base(full))
	}
	if real, err := filepath.EvalSymlinks(p.Repository.Root); err == nil {
		roots = append(roots, real)
	}
	for _, root := range roots {
		if rel, err := filepath.Rel(root, full); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return file
}

// read reads the definition's text.
func (p *Project) read() (err error) {
	o := &p.options
	path := filepath.Join(p.Repository.Root, DefaultFile)
	p.File = DefaultFile
	if o.File != "" {
		p.File = p.relative(o.File)
		if path = o.File; !filepath.IsAbs(path) {
			path = filepath.Join(o.Dir, path)
		}
	}
	if o.Text != nil {
		p.Text = o.Text
		return nil
	}
	if p.Text, err = p.Repository.ReadFile(path, config.MaxFileSize); err != nil {
		return fmt.Errorf("cannot read the definition: %w", err)
	}
	return nil
}

// resolve makes the pipeline of the text.
func (p *Project) resolve(ctx context.Context) error {
	decisions := &outsideFacts{ctx: ctx, facts: p.Facts, variables: variable.Merge(p.variables...)}
	o := config.Options{
		Place:  config.Place{Kind: config.Local, Path: p.File},
		Inputs: p.options.Inputs,
		Rule:   includeRule(decisions, func(r IncludeRule) { p.rules = append(p.rules, r) }), InputRule: inputRule, Expand: decisions.expand, ExpandInput: decisions.expandOpen,
	}
	watched := &watchedLoader{Loader: p.loader}
	if p.loader != nil {
		o.Loader = watched
	}
	var found diag.List
	c, err := config.Resolve(ctx, p.File, p.Text, o)
	if err != nil {
		if found = diag.Of(err); found == nil {
			return err
		}
	}
	if c == nil {
		return watched.blame(found)
	}
	p.Config, p.Warnings = c, c.Warnings
	definition, wrong := keyword.Read(c)
	p.Definition = definition
	if found = append(found, wrong...); len(found) > 0 {
		return watched.blame(found)
	}
	facts := pipeline.Facts{
		Ref: p.Facts.Pipeline, Variables: p.variables, JobVariables: p.jobVariables,
		Changed: func(c when.Changes) (when.Answer, error) { return p.Facts.Changed(ctx, c) },
		Exists:  func(e when.Exists) (when.Answer, error) { return p.Facts.Exists(ctx, e) },
	}
	made, err := pipeline.New(definition, facts)
	p.Pipeline = made
	if made != nil {
		p.Warnings = append(p.Warnings, made.Warnings...)
	}
	return err
}

// jobVariables is what is predefined for a job when rules are decided.
func (p *Project) jobVariables(j *pipeline.Job) []variable.Variable {
	return p.Facts.JobVariables(p.jobFacts(j))
}

// jobFacts is a job as its predefined variables see it, as it is written.
func (p *Project) jobFacts(j *pipeline.Job) repository.Job {
	facts := repository.Job{Name: j.Name, Stage: j.Stage, Group: j.Group}
	if image := j.Keywords.Image; image != nil {
		facts.Image = image.Name
	}
	if e := j.Keywords.Environment; e != nil {
		facts.Environment = &repository.Environment{Name: e.Name, URL: e.URL, Action: e.Action, Tier: e.DeploymentTier}
	}
	return facts
}

// outsideFacts are the when.Facts of includes: what is known before there is a definition.
type outsideFacts struct {
	ctx       context.Context
	facts     *repository.Facts
	variables *variable.Collection
}

// Lookup implements when.Facts.
func (f *outsideFacts) Lookup(name string) (string, bool) { return f.variables.Lookup(name) }

// IsMasked implements when.Facts.
func (f *outsideFacts) IsMasked(name string) bool { return f.variables.IsMasked(name) }

// Changed implements when.Facts.
func (f *outsideFacts) Changed(c when.Changes) (when.Answer, error) {
	c.Paths = f.expandAll(c.Paths)
	return f.facts.Changed(f.ctx, c)
}

// Exists implements when.Facts.
func (f *outsideFacts) Exists(e when.Exists) (when.Answer, error) {
	e.Paths = f.expandAll(e.Paths)
	return f.facts.Exists(f.ctx, e)
}

// Pipeline implements when.Facts.
func (f *outsideFacts) Pipeline() when.Pipeline { return f.facts.Pipeline }

// expandAll expands a list, which others may share.
func (f *outsideFacts) expandAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = f.expand(text)
	}
	return out
}

// expand expands the variables of a place; what is too large stays as it is.
func (f *outsideFacts) expand(text string) string {
	if out, err := variable.ExpandKnown(text, f.Lookup); err == nil {
		return out
	}
	return text
}

// expandOpen is the function expand_vars of $[[ ]].
func (f *outsideFacts) expandOpen(text string) (string, error) {
	var masked []string
	for _, name := range variable.References(text) {
		if f.IsMasked(name) {
			masked = append(masked, name)
		}
	}
	if masked != nil {
		return "", fmt.Errorf("expand_vars cannot use masked variables: %s", strings.Join(masked, ", "))
	}
	return variable.ExpandKnown(text, f.Lookup)
}

var _ when.Facts = (*outsideFacts)(nil)

// errNoJobs says that a pipeline has no jobs.
var errNoJobs = errors.New("the pipeline has no jobs")

// Excluded returns why a job, by the name in the file, is not part of the pipeline.
func (p *Project) Excluded(name string) (why string, there bool) {
	for _, j := range p.Pipeline.Excluded {
		if j.Name == name || j.Group == name {
			return j.Reason(), true
		}
	}
	return "", false
}

// Names are the names of all jobs of the definition.
func (p *Project) Names() []string {
	var out []string
	for _, j := range p.Definition.Jobs {
		out = append(out, j.Name)
	}
	return out
}
