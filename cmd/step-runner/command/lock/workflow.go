package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/findings"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/steps/frontend/actions/lockfile"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/locker"
	"github.com/rungci/rung/steps/source/walk"
)

// maxLocked bounds a workflow, and the lock file beside it.
const maxLocked = 16 << 20

// projectToLock is the repository of the workflows and pipelines among what shall be locked.
type projectToLock struct {
	root  string         // absolute
	files []string       // the workflows, from there, with slashes
	old   *lockfile.File // GitHub's lock file as it is; empty where there is none
}

// projectOf finds the workflows and pipelines among the arguments; it returns nil where there are none.
func projectOf(args []string) (*projectToLock, error) {
	var out *projectToLock
	for _, arg := range args {
		if info, err := os.Stat(arg); err != nil || info.IsDir() || !project.IsWorkflow(arg) && !findings.IsPipeline(arg) {
			continue
		}
		full, err := filepath.Abs(arg)
		if err != nil {
			return nil, exit.Coded(exit.System, "finding the definition: %v", err)
		}
		root := ""
		if project.IsWorkflow(arg) {
			root = filepath.Dir(filepath.Dir(filepath.Dir(full)))
		} else {
			root = github.Root(filepath.Dir(full))
		}
		if out == nil {
			out = &projectToLock{root: root}
		}
		if out.root != root {
			return nil, exit.Usage("the definitions are in two repositories: %s and %s", out.root, root).Hinted("lock each repository separately")
		}
		if project.IsWorkflow(arg) {
			out.files = append(out.files, path.Join(github.Folder, filepath.Base(full)))
		}
	}
	if out == nil {
		return nil, nil
	}
	var err error
	out.old, err = readActionsLock(out.root)
	return out, err
}

// readActionsLock reads GitHub's lock file.
func readActionsLock(root string) (*lockfile.File, error) {
	text, err := projectfile.Read(root, lockfile.Path, maxLocked)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lockfile.New(), nil
	case err != nil:
		return nil, exit.Coded(exit.System, "reading the lock file: %v", err)
	}
	return lockfile.Parse(lockfile.Path, text)
}

// pins are the commits that GitHub's lock file has for the workflows.
func (w *projectToLock) pins() *lock.File {
	out := &lock.File{Version: lock.Version}
	for _, file := range w.files {
		for _, p := range github.Locked(w.old, file) {
			if out.Find(p.Kind, p.URL, p.Rev) == nil {
				out.Packages = append(out.Packages, p)
			}
		}
	}
	return out
}

// parseToLock parses definitions of steps and, by their place, workflows: the steps of those are all that they name.
func parseToLock(name string, text []byte) (*plan.Component, error) {
	if !project.IsWorkflow(name) {
		return gitlabsteps.ParseFile(name, text)
	}
	w, err := definition.Parse(name, text)
	if err != nil {
		return nil, err
	}
	c := &plan.Component{}
	for _, use := range w.Uses() {
		ref := use.Ref
		if use.Call != nil {
			ref = calledReference(use.Call)
		}
		c.Definition.Steps = append(c.Definition.Steps, plan.Step{Ref: ref})
	}
	return c, nil
}

// calledReference is a reference to the file of a workflow that is called.
func calledReference(c *definition.Call) *plan.Reference {
	ref := &plan.Reference{Kind: plan.RefLocal, Text: c.Uses, Span: c.Span, Path: []string{"."}, File: path.Base(c.Path)}
	if !c.Local {
		ref.Kind, ref.URL, ref.Rev, ref.Path = plan.RefGit, plan.GitHubURL+c.Repository, c.Ref, strings.Split(path.Dir(c.Path), "/")
	}
	return ref
}

// lockWorkflow locks all that the jobs of a workflow name: its actions and workflows, and the images that these then have.
func (a *lockCommands) lockWorkflow(ctx context.Context, o *lockOptions, l *locker.Locker, file string) error {
	if err := lockActions(ctx, l, file); err != nil {
		return err
	}
	p, err := o.project(l).OpenWorkflow(ctx, a.Program, file, nil)
	if err != nil {
		return err
	}
	images, unknown := p.Images(ctx)
	l.Warnings = append(l.Warnings, unknown...)
	return lockImages(ctx, l, images)
}

// lockActions locks the actions and workflows that a workflow uses.
func lockActions(ctx context.Context, l *locker.Locker, file string) error {
	full, err := filepath.Abs(file)
	if err != nil {
		return exit.Coded(exit.System, "finding the workflow: %v", err)
	}
	text, err := projectfile.ReadPath(filepath.Dir(filepath.Dir(filepath.Dir(full))), full, maxLocked)
	if err != nil {
		return exit.Coded(exit.System, "reading the workflow: %v", err)
	}
	c, err := parseToLock(file, text)
	if err != nil {
		return err
	}
	return l.Definition(ctx, c, text, filepath.Dir(full))
}

// actionsLock makes GitHub's lock file again for the workflows, and for those of the repository that they call. What it says of others stays.
func (w *projectToLock) actionsLock(ctx context.Context, from source.Source) (*lockfile.File, error) {
	out := &lockfile.File{Version: lockfile.Version, Workflows: maps.Clone(w.old.Workflows), Dependencies: maps.Clone(w.old.Dependencies)}
	todo := slices.Clone(w.files)
	for i := 0; i < len(todo); i++ {
		found := &actionsOf{used: map[string]map[string]bool{}, pins: map[string]lockfile.Dependency{}}
		walker := walk.Walker{Source: opaqueWorkflows{from}, Found: found.add, Failed: failedLocal}
		file := filepath.Join(w.root, filepath.FromSlash(todo[i]))
		text, err := projectfile.Read(w.root, todo[i], maxLocked)
		if err != nil {
			return nil, exit.Coded(exit.System, "reading the workflow: %v", err)
		}
		c, err := parseToLock(file, text)
		if err == nil {
			err = walker.Definition(ctx, c, filepath.Dir(file))
		}
		if err != nil {
			return nil, err
		}
		out.Workflows[todo[i]] = []string{}
		for _, key := range slices.Sorted(maps.Keys(found.pins)) {
			d := found.pins[key]
			d.Uses = slices.Sorted(maps.Keys(found.used[key]))
			repository, rev, _ := strings.Cut(key, "@")
			out.Lock(todo[i], repository, rev, d)
		}
		for _, called := range found.called {
			if !slices.Contains(todo, called) {
				todo = append(todo, called)
			}
		}
	}
	out.Prune(slices.Collect(maps.Keys(out.Workflows))...)
	return out, nil
}

// failedLocal lets go of folders that may be made by a step before: the locker has warned of those.
func failedLocal(p walk.Place, err error) error {
	var missing *source.NotFoundError
	if p.Ref.IsLocal() && errors.As(err, &missing) {
		return nil
	}
	return err
}

// opaqueWorkflows finds called workflows without what is in them: their own repository's lock file, or their own entry, is for that.
type opaqueWorkflows struct{ source.Source }

// Load implements source.Source.
func (o opaqueWorkflows) Load(ctx context.Context, ref *plan.Reference, from string) (*source.Component, error) {
	c, err := o.Source.Load(ctx, ref, from)
	if err != nil || ref.Kind == plan.RefAction || !project.IsWorkflow(filepath.Join(c.Dir, c.File)) {
		return c, err
	}
	out := *c
	out.Plan = &plan.Component{}
	return &out, nil
}

// actionsOf collects what one workflow depends on.
type actionsOf struct {
	pins   map[string]lockfile.Dependency
	used   map[string]map[string]bool
	called []string // workflows of the same repository
}

func (a *actionsOf) add(f walk.Found) error {
	if f.Component.Origin == nil && f.Ref.Kind == plan.RefLocal {
		a.called = append(a.called, path.Join(github.Folder, f.Ref.File))
		return nil
	}
	key, ok := keyOf(f.Component)
	if !ok {
		return nil
	}
	a.pins[key] = lockfile.Dependency{Ref: f.Component.Origin.Rev, Commit: f.Component.Origin.Pin}
	if f.In == nil {
		return nil
	}
	if user, ok := keyOf(f.In); ok && user != key {
		if a.used[user] == nil {
			a.used[user] = map[string]bool{}
		}
		a.used[user][key] = true
	}
	return nil
}

// keyOf is the key of a component's repository, where that is one of GitHub's.
func keyOf(c *source.Component) (string, bool) {
	if c.Origin == nil || c.Origin.Kind != plan.RefGit {
		return "", false
	}
	repository, ok := strings.CutPrefix(c.Origin.URL, plan.GitHubURL)
	return lockfile.Key(repository, c.Origin.Rev), ok
}

// writeActionsLock writes GitHub's lock file, or says with --check how it differs from what it should be.
func (a *lockCommands) writeActionsLock(ctx context.Context, o *lockOptions, w *projectToLock, resolver *source.Resolver) error {
	now, err := w.actionsLock(ctx, resolver)
	if err != nil {
		return err
	}
	if o.check {
		return a.reportActionsLock(w.old, now)
	}
	if !o.event.From.Offline {
		if err := a.addNumbers(ctx, resolver.Rules, now); err != nil {
			return err
		}
	}
	text, err := now.Encode()
	if err == nil {
		_, err = lockfile.Parse(lockfile.Path, text)
	}
	if err != nil {
		return exit.Coded(exit.NotFound, "%v", err)
	}
	if err := wholefile.WriteText(filepath.Join(w.root, filepath.FromSlash(lockfile.Path)), 0o644, text); err != nil {
		return exit.Coded(exit.System, "writing the lock file: %v", err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s: %s, %s\n", lockfile.Path, quantity.Count(len(now.Workflows), "workflow"), quantity.Count(len(now.Dependencies), "action"))
	return err
}

// reportActionsLock says how GitHub's lock file differs from what it should be.
func (a *lockCommands) reportActionsLock(old, now *lockfile.File) error {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(now.Workflows)) {
		if !old.Locks(name) {
			lines = append(lines, "missing: "+name)
		}
		for _, key := range now.Workflows[name] {
			is, was := now.Dependencies[key].Commit, old.Dependencies[key].Commit
			switch {
			case !slices.Contains(old.Workflows[name], key):
				lines = append(lines, fmt.Sprintf("missing: %s of %s, is %s", key, name, is))
			case is != was:
				lines = append(lines, fmt.Sprintf("moved: %s, was %s, is %s", key, was, is))
			}
		}
	}
	text := lockfile.Path + " is complete"
	if lines != nil {
		text = strings.Join(slices.Compact(lines), "\n")
	}
	if _, err := fmt.Fprintln(a.Stdout, text); err != nil || lines == nil {
		return err
	}
	return exit.Shown(exitNotLocked)
}

// lockFile is where the lock file of a project is: at the root of its repository, as seen from here.
func (w *projectToLock) lockFile() string {
	dir, err := os.Getwd()
	if err != nil {
		return filepath.Join(w.root, lock.Name)
	}
	rel, err := filepath.Rel(dir, filepath.Join(w.root, lock.Name))
	if err != nil {
		return filepath.Join(w.root, lock.Name)
	}
	return cmp.Or(rel, lock.Name)
}
