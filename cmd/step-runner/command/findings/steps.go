// Package findings checks steps and reports what is wrong, for the commands that do.
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
	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/walk"
)

// OfSteps finds the problems of what an argument names: a file of steps, or a component. It fetches nothing.
func OfSteps(ctx context.Context, p *command.Program, from *components.Flags, arg string) ([]problems.Problem, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, exit.Coded(exit.System, "finding the current folder: %v", err)
	}
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
	c := &checking{program: p, ctx: ctx, from: resolver, dir: dir, texts: map[string][]byte{}, shown: map[string]string{}}
	info, err := os.Stat(arg)
	if arg == "-" || err == nil && !info.IsDir() {
		name, text, err := p.Read(arg)
		if err != nil {
			return nil, err
		}
		return c.text(name, text)
	}
	if err == nil && !strings.HasPrefix(arg, ".") && !filepath.IsAbs(arg) {
		arg = "./" + filepath.ToSlash(arg)
	}
	ref, rerr := gitlabsteps.ParseStaticReference(arg, diag.Span{})
	if rerr != nil {
		return nil, exit.Coded(exit.NotFound, "%q is neither a file nor a reference: %v", arg, rerr)
	}
	return c.reference(ref)
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
	shown := file
	if found.Origin != nil {
		shown = found.Ref + "/" + found.File
	} else if rel, err := filepath.Rel(c.dir, file); err == nil && filepath.IsLocal(rel) {
		shown = filepath.ToSlash(rel)
	}
	c.know(cmp.Or(found.Plan.Definition.Span.File, file), shown, found.Text)
}

func (c *checking) definition(component *plan.Component, dir string, called bool) []problems.Problem {
	functions := runner.EngineOptions(c.program).Functions
	found := check.Definition(c.ctx, component, check.Options{
		Dir: dir, Load: c.load, Entered: c.enter, Component: called,
		HasFunction: func(name string) bool { return functions[name] != nil },
		Line:        func(span diag.Span) string { return diag.LineOf(c.texts[span.File], span.Line) },
	}).Found
	found = rules.Apply(found, c.files, func(file string) []byte { return c.texts[file] })
	for i := range found {
		if shown, ok := c.shown[found[i].File]; ok {
			found[i].File = shown
		}
		found[i].Message, found[i].Source = source.MaskUserinfo(found[i].Message), source.MaskUserinfo(found[i].Source)
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
