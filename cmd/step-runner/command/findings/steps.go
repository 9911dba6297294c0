// Package findings is the command `check`: it finds out what it is given, checks it, and reports what is wrong.
package findings

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/actions"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/walk"
)

// ofSteps finds the problems of a file of steps. It fetches nothing.
func ofSteps(ctx context.Context, p *command.Program, from *components.Flags, file string) ([]problems.Problem, error) {
	return checked(ctx, p, from, func(c *checking) ([]problems.Problem, error) {
		name, text, err := p.Read(file)
		if err != nil {
			return nil, err
		}
		return c.text(name, text)
	})
}

// ofAction finds the problems of the metadata file of an action. It fetches nothing.
func ofAction(ctx context.Context, p *command.Program, from *components.Flags, file string) ([]problems.Problem, error) {
	return checked(ctx, p, from, func(c *checking) ([]problems.Problem, error) {
		name, text, err := p.Read(file)
		if err != nil {
			return nil, err
		}
		return c.action(name, text)
	})
}

// ofComponent finds the problems of a component: a reference, or the path of its folder or file. It fetches nothing.
func ofComponent(ctx context.Context, p *command.Program, from *components.Flags, arg string) ([]problems.Problem, error) {
	return checked(ctx, p, from, func(c *checking) ([]problems.Problem, error) {
		if _, err := os.Stat(arg); err == nil && !strings.HasPrefix(arg, ".") && !filepath.IsAbs(arg) {
			arg = "./" + filepath.ToSlash(arg)
		}
		ref, err := gitlabsteps.ParseStaticReference(arg, diag.Span{})
		if err != nil {
			return nil, components.Unknown(arg, err)
		}
		return c.reference(ref)
	})
}

// ofRuns finds the problems of the steps of jobs with `run`, and of the components that they name. It fetches nothing.
func ofRuns(ctx context.Context, p *command.Program, from *components.Flags, of *gitlab.Project, jobs []*plan.Component) ([]problems.Problem, error) {
	return checkedIn(ctx, p, from, of.Repository.Root, func(c *checking) ([]problems.Problem, error) {
		for _, s := range of.Config.Sources { // whose comments ofPipeline reports
			c.texts[s.Name] = s.Text()
		}
		var all []problems.Problem
		told := map[string]bool{}
		for _, job := range jobs {
			for _, found := range c.definition(job, c.dir, false) {
				if key := found.Error(); !told[key] { // jobs share their steps by extends, and their components
					told[key] = true
					all = append(all, found)
				}
			}
		}
		return all, nil
	})
}

// checked checks something with what is in the current folder and in the cache.
func checked(ctx context.Context, p *command.Program, from *components.Flags, check func(*checking) ([]problems.Problem, error)) ([]problems.Problem, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, exit.Coded(exit.System, "finding the current folder: %v", err)
	}
	return checkedIn(ctx, p, from, dir, check)
}

// checkedIn checks something with what is in a folder, where relative references start, and in the cache.
func checkedIn(ctx context.Context, p *command.Program, from *components.Flags, dir string, check func(*checking) ([]problems.Problem, error)) ([]problems.Problem, error) {
	folder, err := engine.MakeFolder()
	if err != nil {
		return nil, exit.Coded(exit.System, "making a folder to work in: %v", err)
	}
	defer engine.RemoveFolder(folder)
	cached := *from
	cached.Offline = true
	resolver, err := cached.Open(p, folder, dir)
	if err != nil {
		return nil, err
	}
	return check(&checking{program: p, ctx: ctx, from: resolver, dir: dir, texts: map[string][]byte{}, shown: map[string]string{}})
}

// checking is one check.
type checking struct {
	program *command.Program
	ctx     context.Context
	from    *source.Resolver
	dir     string
	texts   map[string][]byte // by the name that spans have
	files   []string          // in the order in which they were entered
	shown   map[string]string // what people know a file by
	found   diag.List         // in the texts of actions
}

// text checks a file of steps.
func (c *checking) text(name string, text []byte) ([]problems.Problem, error) {
	c.know(name, name, text)
	component, err := gitlabsteps.ParseSteps(name, text)
	if err != nil {
		wrong := diag.Of(err)
		if wrong == nil {
			return nil, err
		}
		return problems.Sorted(rules.Set(wrong, rules.Invalid)), nil
	}
	return c.definition(component, c.dir, false), nil
}

// action checks the metadata file of an action.
func (c *checking) action(name string, text []byte) ([]problems.Problem, error) {
	c.know(name, name, text)
	component, err := actions.Parse(name, text)
	if err != nil {
		wrong := diag.Of(err)
		if wrong == nil {
			return nil, err
		}
		return problems.Sorted(rules.Set(wrong, rules.Invalid)), nil
	}
	c.found = actions.Check(name, text)
	return c.definition(component, filepath.Dir(name), true), nil
}

// reference checks a component.
func (c *checking) reference(ref *plan.Reference) ([]problems.Problem, error) {
	found, err := c.from.Load(c.ctx, ref, c.dir)
	if wrong := diag.Of(err); wrong != nil {
		return problems.Sorted(rules.Set(wrong, rules.Invalid)), nil
	}
	if err != nil {
		return nil, err
	}
	c.enter(found)
	return c.definition(found.Plan, found.Dir, true), nil
}

func (c *checking) know(file, shown string, text []byte) {
	if _, known := c.texts[file]; !known {
		c.files = append(c.files, file)
	}
	c.texts[file], c.shown[file] = text, shown
}

func (c *checking) enter(found *source.Component) {
	file := filepath.Join(found.Dir, found.File)
	shown := c.relative(file)
	if found.Origin != nil {
		shown = found.Ref + "/" + found.File
	}
	name := cmp.Or(found.Plan.Definition.Span.File, file)
	c.know(name, shown, found.Text)
	if found.Origin == nil && strings.HasPrefix(found.File, "action.") {
		c.found = append(c.found, actions.Check(name, found.Text)...)
	}
}

// relative is a file as people know it who are in the folder of the check.
func (c *checking) relative(file string) string {
	if rel, err := filepath.Rel(c.dir, file); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return file
}

func (c *checking) definition(component *plan.Component, dir string, called bool) []problems.Problem {
	functions := runner.EngineOptions(c.program).Functions
	found := check.Definition(c.ctx, component, check.Options{
		Dir: dir, Load: c.load, Entered: c.enter, Component: called,
		HasFunction: func(name string) bool { return functions[name] != nil },
		Line:        func(span diag.Span) string { return diag.LineOf(c.texts[span.File], span.Line) },
	}).Found
	found = rules.Apply(append(found, c.found...), c.files, func(file string) []byte { return c.texts[file] })
	for i := range found {
		if shown, ok := c.shown[found[i].File]; ok {
			found[i].File = shown
		} else if filepath.IsAbs(found[i].File) { // a component that is not what its language accepts
			found[i].File = c.relative(found[i].File)
		}
		// Reports are compared with those of other machines.
		found[i].Message = strings.ReplaceAll(found[i].Message, c.dir+string(filepath.Separator), "")
	}
	return problems.Sorted(found)
}

// load finds a component in the project or in the cache. What only a run can tell is unknown.
func (c *checking) load(ref *plan.Reference, from string, _ bool) (*source.Component, error) {
	if walk.IsDynamic(ref) {
		return nil, nil
	}
	if action, ok := strings.CutPrefix(ref.Action, plan.WorkDirPrefix); ok && ref.Kind == plan.RefAction {
		here := *ref
		here.Action = filepath.ToSlash(c.dir) + action
		ref = &here
	}
	found, err := c.from.Load(c.ctx, ref, from)
	var unsupported *source.UnsupportedError
	if errors.As(err, &unsupported) {
		return nil, nil
	}
	return found, err
}
