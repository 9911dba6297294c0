// Package github runs the jobs of a GitHub Actions workflow on this machine, as GitHub would.
//
//	Options ── Open ──> Project: repository, settings, event, definition           (decides, runs nothing)
//	                       │ Select: jobs and legs by name, List: what would run and why
//	                       '── Run ──> schedule ── attempt ──> executor.Prepare ── steps/service/client
//	                                      │ a job's `if`, its legs, the workflow that it calls: steps/frontend/actions/workflow
//	                                      '── artifacts, caches and traces: .rung
//
// A job begins in an empty folder. What a machine of GitHub's has and this one cannot give is told to the Observer, mapped by
// .rung/runners.yml, or refused.
package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/settings"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/actions/lockfile"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/value"
)

// Folder is where the workflows of a project are, from its root.
const Folder = ".github/workflows"

// maxFile bounds a workflow's file, in bytes. GitHub's limit is lower.
const maxFile = 4 << 20

// Options say what a run is made of.
type Options struct {
	// Dir is a folder of the project, File the definition, absolute or from there.
	Dir, File string
	// Text is the definition in the place of File's content; nil reads the file.
	Text []byte
	// Env is the environment of this program, for git.
	Env   []string
	Event Event
	// Variables are configuration variables (`vars`), over those of the project's settings.
	Variables map[string]string
	// Secrets are the values of `secrets`, over those of the project's settings.
	Secrets map[string]string
	// Load reads a file of another repository at a ref: a workflow that is called there. It may be nil.
	Load func(ctx context.Context, of *repository.Repository, repository, ref, path string) ([]byte, error)
	// Lock reads our own lock file, of the project with a root; it returns nil where there is none. It may be nil.
	Lock func(root string) (*lock.File, error)
	// Relock leaves GitHub's lock file out: it is about to be written again.
	Relock bool
}

// Project is a project with a workflow and what started it.
type Project struct {
	Repository *repository.Repository
	Settings   *settings.Settings
	Store      *store.Store
	Runners    Runners
	Limits     local.Limits // those of the project
	// File is the definition as messages call it: its path from the root.
	File     string
	Workflow *definition.Workflow
	// Title is what the run is called.
	Title string
	// Notes say what was assumed, a sentence each.
	Notes []string
	// Starts says that the event starts the workflow, Why which filter decided.
	Starts bool
	Why    string

	options Options
	own     *lock.File     // our own lock file
	locks   *lockfile.File // GitHub's, of the project
	lock    *lock.File     // what both say for the workflow
	facts   *facts
	inputs  value.Value
	github  map[string]value.Value
	// protected says that the run is for a protected ref, which gets protected variables.
	protected bool
}

// Open finds out what would run. The error is a diag.List of what is wrong with the definition or the settings, an *EventError, or one of
// the system's.
func Open(ctx context.Context, o Options) (*Project, error) {
	p := &Project{options: o}
	type opened struct {
		r   *repository.Repository
		err error
	}
	root := rootOf(o)
	repositories := make(chan opened, 1)
	go func() { // git may take as long as all else together
		r, err := repository.Open(ctx, root, o.Env)
		repositories <- opened{r, err}
	}()
	err := p.read(root)
	found := <-repositories
	if err != nil {
		return nil, err
	}
	if found.err != nil {
		return nil, found.err
	}
	p.Repository = found.r
	if !onServer(p.Repository) {
		p.Repository.Server = repository.Server{Protocol: "https", Host: "github.com", Port: "443", SSHHost: "github.com", SSHPort: "22"}
	}
	p.Store = store.Open(p.Repository.Root)
	if err := p.readSettings(); err != nil {
		return nil, err
	}
	if err := p.readLocks(ctx); err != nil {
		return nil, err
	}
	if err := p.checkCalls(ctx); err != nil {
		return nil, err
	}
	return p, p.decide(ctx)
}

// onServer reports whether a repository has a remote that is on a server.
func onServer(r *repository.Repository) bool {
	return r.RemoteURL != "" && strings.Contains(r.RemoteURL, r.Server.Host)
}

// rootOf is the folder that a definition belongs to, as far as its name tells.
func rootOf(o Options) string {
	file := o.File
	if !filepath.IsAbs(file) {
		file = filepath.Join(o.Dir, file)
	}
	if dir := filepath.Dir(file); o.Text == nil && strings.HasSuffix(filepath.ToSlash(dir), "/"+Folder) {
		return filepath.Dir(filepath.Dir(dir))
	}
	return cmp.Or(o.Dir, ".")
}

// read reads the definition.
func (p *Project) read(root string) (err error) {
	o := &p.options
	text := o.Text
	p.File = filepath.ToSlash(o.File)
	if text == nil {
		full := o.File
		if !filepath.IsAbs(full) {
			full = filepath.Join(o.Dir, full)
		}
		if top, err := filepath.Abs(Root(root)); err == nil {
			if rel, err := filepath.Rel(top, full); err == nil && filepath.IsLocal(rel) {
				p.File = filepath.ToSlash(rel)
			}
		}
		if text, err = readDefinition(Root(root), full, p.File); err != nil {
			return err
		}
		o.Text = text
	}
	p.Workflow, err = definition.Parse(p.File, text)
	return err
}

// readDefinition reads the file of a workflow, of the project in root, that messages call name.
func readDefinition(root, file, name string) ([]byte, error) {
	text, err := projectfile.ReadPath(root, file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the workflow %s: %w", name, err)
	}
	return text, nil
}

// Root returns the folder around one that holds .git, absolute; the folder itself where there is none.
func Root(dir string) string {
	full, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for at := full; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if filepath.Dir(at) == at {
			return full
		}
	}
}

// Find returns the workflows of the project around a folder, from its root, which it returns too. Those that others only call are left out where
// there are more.
func Find(dir string) (root string, files []string, err error) {
	root = Root(cmp.Or(dir, "."))
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(Folder)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return root, nil, err
	}
	var called []string
	for _, e := range entries {
		ext, name := path.Ext(e.Name()), path.Join(Folder, e.Name())
		if e.IsDir() || ext != ".yml" && ext != ".yaml" {
			continue
		}
		if text, err := readDefinition(root, filepath.Join(root, filepath.FromSlash(name)), name); err == nil {
			if w, err := definition.Parse(name, text); err == nil && slices.Equal(w.On.Names(), []string{"workflow_call"}) {
				called = append(called, name)
				continue
			}
		}
		files = append(files, name)
	}
	if files == nil {
		files = called
	}
	return root, files, nil
}

// readSettings reads what GitHub has in the settings of a repository and a local run has in .rung.
func (p *Project) readSettings() (err error) {
	name := func(file string) string { return store.Folder + "/" + file }
	if p.Settings, err = settings.Read(p.Repository.Root, filepath.Join(p.Store.Root(), store.VariablesFile), name(store.VariablesFile)); err != nil {
		return err
	}
	if p.Runners, err = readRunners(p.Repository.Root, filepath.Join(p.Store.Root(), RunnersFile), name(RunnersFile)); err != nil {
		return err
	}
	p.Limits, err = local.ReadLimits(p.Repository.Root)
	return err
}

// decide finds out about the event, and whether it starts the workflow.
func (p *Project) decide(ctx context.Context) error {
	o, w := &p.options, p.Workflow
	also := object{}
	p.inputs = value.OfStruct(nil)
	switch o.Event.Name {
	case dispatch:
		inputs, event, err := w.Dispatch(o.Event.Inputs)
		if err != nil {
			return &EventError{Message: err.Error(), Hint: inputsHint(w.DispatchInputs())}
		}
		p.inputs = inputs
		also["inputs"], also["workflow"] = event, p.File
	case timer:
		for _, line := range w.On.Schedules()[:min(1, len(w.On.Schedules()))] {
			also["schedule"] = line.Cron
		}
	case call:
		if err := p.asCalled(); err != nil {
			return err
		}
	default:
		if len(o.Event.Inputs) > 0 {
			return &EventError{"only workflow_dispatch and workflow_call have inputs", "add --event workflow_dispatch"}
		}
	}
	var err error
	if p.facts, err = openFacts(ctx, p.Repository, o.Event, also); err != nil {
		return err
	}
	p.Notes = append(p.Notes, p.facts.notes...)
	p.github = p.facts.github(p.File, cmp.Or(w.Name, p.File))
	p.protected = p.github["ref_protected"].Bool()
	if p.Title, err = w.RunTitle(p.contexts()); err != nil {
		return err
	}
	p.Title = cmp.Or(p.Title, w.Name, p.File)
	// Changes of files take git a while, so they are not looked for where nobody asks.
	asks := strings.Contains(string(o.Text), "paths")
	p.Starts, p.Why = w.On.Matches(p.facts.filtered(ctx, asks))
	if word := skipWord(p.Repository.Commit); word != "" && slices.Contains([]string{"push", "pull_request"}, p.facts.name) {
		p.Notes = append(p.Notes, fmt.Sprintf("the message of the commit says %s: GitHub would not run anything", word))
	}
	return nil
}

// skipWord is what in a commit's message makes GitHub skip workflows; "" where nothing does.
func skipWord(c *repository.Commit) string {
	if c == nil {
		return ""
	}
	for _, word := range []string{"[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]"} {
		if strings.Contains(c.Message, word) {
			return word
		}
	}
	return ""
}

// asCalled takes the inputs for a run of a reusable workflow by itself.
func (p *Project) asCalled() error {
	fields := map[string]value.Value{}
	var missing []string
	for _, in := range p.Workflow.CallInputs() {
		text, given := p.options.Event.Inputs[in.Name]
		switch {
		case given && in.Type != "string":
			v, err := value.ParseJSON([]byte(text))
			if err != nil || v.Kind().String() != in.Type {
				return &EventError{fmt.Sprintf("the input %s must be a %s, not %q", in.Name, in.Type, text), ""}
			}
			fields[in.Name] = v
		case given:
			fields[in.Name] = value.OfString(text)
		case in.Required:
			missing = append(missing, in.Name)
		default:
			fields[in.Name] = in.Default
		}
	}
	for name := range p.options.Event.Inputs {
		if _, known := fields[name]; !known {
			return &EventError{fmt.Sprintf("the workflow has no input %q", name), inputsHint(p.Workflow.CallInputs())}
		}
	}
	if missing != nil {
		return &EventError{"the inputs " + strings.Join(missing, ", ") + " are required", "pass each with --input NAME=VALUE"}
	}
	p.inputs = value.OfStruct(fields)
	return nil
}

// inputsHint says what inputs there are.
func inputsHint(inputs []definition.Input) string {
	if len(inputs) == 0 {
		return "the workflow has no inputs"
	}
	names := make([]string, len(inputs))
	for i, in := range inputs {
		names[i] = in.Name
		if in.Options != nil {
			names[i] += " (" + strings.Join(in.Options, ", ") + ")"
		}
	}
	slices.Sort(names)
	return "its inputs are " + strings.Join(names, ", ") + "; pass one with --input NAME=VALUE"
}
