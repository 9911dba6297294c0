package github

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/frontend/actions"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
)

// Linted is what is wrong with a workflow.
type Linted struct {
	File  string            // as findings call it
	Texts map[string][]byte // of the files that findings name
	// Found are the findings. Each has its rule's ID as its code.
	Found diag.List
}

// Lint finds what is wrong with a workflow and with the workflows and actions of the project that it uses, whatever starts it and whatever values a run has. It
// fetches nothing. The error is that of a file that cannot be read.
func Lint(ctx context.Context, o Options) (*Linted, error) {
	p := &Project{options: o}
	l := &linter{project: p, ctx: ctx, seen: map[string]bool{}, Linted: Linted{Texts: map[string][]byte{}}}
	root := rootOf(o)
	err := p.read(root)
	l.File, l.Texts[p.File] = p.File, p.options.Text
	if err == nil {
		p.Repository, p.options.Load = &repository.Repository{Root: Root(root)}, nil
		err = p.readLocks(ctx)
	}
	if err == nil {
		err = p.checkCalls(ctx)
	}
	if err == nil {
		l.Found = p.Workflow.Check()
		err = l.workflow(&scope{Workflow: p.Workflow, lock: p.lock, depth: 1})
	}
	if err = l.add(err); err != nil {
		return nil, err
	}
	l.Found.Sort()
	return &l.Linted, nil
}

type linter struct {
	Linted
	project *Project
	ctx     context.Context
	seen    map[string]bool // files that are used
}

// add takes over what is wrong with a file.
func (l *linter) add(err error) error {
	list := diag.Of(err)
	if err != nil && list == nil {
		return err
	}
	l.Found = append(l.Found, rules.Set(slices.Clone(list), rules.Invalid)...)
	return nil
}

// workflow checks the jobs of a workflow, and those that they call.
func (l *linter) workflow(s *scope) error {
	for _, j := range s.Jobs {
		if err := l.add(j.Certain()); err != nil {
			return err
		}
		if j.Call != nil {
			if err := l.call(s, j); err != nil {
				return err
			}
		}
	}
	for _, use := range s.Uses() {
		if err := l.pin(s, use); err != nil {
			return err
		}
	}
	for _, j := range s.Jobs {
		for _, use := range j.Actions() {
			if err := l.action(use.Ref, j.ChecksOutOthers()); err != nil {
				return err
			}
		}
	}
	return nil
}

// call checks what a job gives to the workflow that it calls, and that workflow.
func (l *linter) call(s *scope, j *definition.Job) error {
	if !j.Call.Local {
		l.Found = append(l.Found, diag.Diagnostic{
			Span: j.Call.Span, Source: diag.LineOf(l.Texts[j.Call.Span.File], j.Call.Span.Line), Code: rules.CallNotChecked,
			Message: "what the job " + j.ID + " gives to " + j.Call.Uses + " was not checked: nothing is fetched",
		})
		return nil
	}
	called, err := l.project.load(l.ctx, s, j.Call)
	if l.Texts[j.Call.Path] == nil {
		l.Texts[j.Call.Path], _ = readDefinition(l.project.Repository.Root, filepath.Join(l.project.Repository.Root, filepath.FromSlash(j.Call.Path)), j.Call.Path)
	}
	first := !l.seen[j.Call.Path]
	l.seen[j.Call.Path] = true
	switch {
	case err != nil && !first && !errors.Is(err, context.Canceled):
		return nil // which has been reported
	case err != nil:
		return l.add(err)
	}
	if err := l.add(called.CheckCall(j)); err != nil || !first {
		return err
	}
	return l.workflow(called)
}

// actionFiles define an action in a folder.
var actionFiles = []string{"action.yml", "action.yaml"}

// action checks an action of the project, and those of the project that it uses. A folder without an action is reported, unless mayAppear says that its job
// gets folders from elsewhere.
func (l *linter) action(ref *plan.Reference, mayAppear bool) error {
	action, err := plan.ParseAction(ref.Action)
	folder, inProject := strings.CutPrefix(action.Folder, plan.WorkDirPrefix)
	if err != nil || !inProject && !action.Own || !filepath.IsLocal(filepath.FromSlash(path.Join(".", folder))) {
		return nil
	}
	for _, file := range actionFiles {
		name := path.Join(folder, file)
		if l.seen[name] {
			return nil
		}
		text, err := projectfile.Read(l.project.Repository.Root, name, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return l.add(diag.List{{Span: ref.Span, Source: diag.LineOf(l.Texts[ref.Span.File], ref.Span.Line), Message: err.Error()}})
		}
		l.seen[name], l.Texts[name] = true, text
		component, err := actions.Parse(name, text)
		if err != nil {
			return l.add(err)
		}
		l.Found = append(l.Found, actions.Check(name, text)...)
		for _, s := range component.Definition.Steps {
			if s.Ref == nil || s.Ref.Kind != plan.RefAction {
				continue
			}
			if err := l.action(s.Ref, mayAppear); err != nil {
				return err
			}
		}
		return nil
	}
	if !mayAppear && !l.isDocker(folder) {
		l.Found = append(l.Found, diag.Diagnostic{
			Span: ref.Span, Source: diag.LineOf(l.Texts[ref.Span.File], ref.Span.Line), Code: rules.ComponentNotFound,
			Message: fmt.Sprintf("there is no action %q: looked for %s and Dockerfile in %s of the project", ref.Text, strings.Join(actionFiles, ", "), path.Join(".", folder)),
			Hint:    "correct the path, which starts at the top of the project; if an earlier step makes the folder, add the comment # rung: ignore " + rules.ComponentNotFound,
		})
	}
	return nil
}

// isDocker reports whether a folder of the project is an action by its Dockerfile alone.
func (l *linter) isDocker(folder string) bool {
	for _, name := range []string{"Dockerfile", "dockerfile"} {
		if _, err := projectfile.Read(l.project.Repository.Root, path.Join(folder, name), maxFile); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// pin finds actions that a lock file should have, and has not.
func (l *linter) pin(s *scope, use definition.Use) error {
	repository, rev, ok := use.OnGitHub()
	if !ok {
		return nil
	}
	if _, err := pinned(s.lock, repository, rev); err != nil {
		return l.add(diag.List{{Span: use.Span, Source: diag.LineOf(l.Texts[use.Span.File], use.Span.Line), Message: err.Error()}})
	}
	return nil
}
