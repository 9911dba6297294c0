// Package check finds mistakes in a list of steps before anything runs: names that do not exist, values of the wrong type, steps that cannot
// run. It walks the whole graph of components and reports everything at once.
//
// It reports only what is wrong for every input. What depends on values, and what cannot be loaded, is not reported.
package check

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// Limits.
const (
	// MaxFindings is how many findings are reported.
	MaxFindings = 100
	// MaxDepth is how deep components may call each other.
	MaxDepth = 100
	// MaxComponents bounds how many components are looked into.
	MaxComponents = 10_000
)

// Options say what a check may know.
type Options struct {
	// Dir is where relative references of the definition start.
	Dir string
	// Load returns the component that a reference leads to; nil, without an error, where that is unknown. conditional says that the reference
	// is behind an `if`. An error is a finding: a diag.List, or a *source.NotFoundError.
	Load func(ref *plan.Reference, from string, conditional bool) (*source.Component, error)
	// HasFunction reports whether expressions can call a function beyond those of the language.
	HasFunction func(name string) bool
	// Line returns the text of the line that a span is on, "" where it is unknown.
	Line func(diag.Span) string
	// Component says that the definition is a component's, which gets what its spec requests, and not a job's own.
	Component bool
	// Entered, if not nil, is called with each component that is looked into.
	Entered func(*source.Component)
}

// Result is what a check found.
type Result struct {
	// Found are the findings, in the order of the run. Each has its rule's ID as its code.
	Found diag.List
	// Steps says for each finding in which step it is: its ID and the names that lead there.
	Steps [][2]string
}

// Definition checks a definition and all components that it leads to.
func Definition(ctx context.Context, c *plan.Component, o Options) *Result {
	k := &checker{ctx: ctx, o: o, entered: map[string]bool{}, seen: map[finding]bool{}, answers: map[loading]answer{}, uses: map[string][]string{}, read: map[reading]bool{}}
	top := k.scope(o.Dir)
	top.top = true
	k.component(c, top)
	if o.Component {
		top.environment(c, o.Dir, nil)
		top.exported(&c.Spec, &c.Definition)
	}
	return &k.result
}

// finding tells findings apart: a step that is called from two places is wrong once.
type finding struct {
	span    diag.Span
	message string
}

type checker struct {
	ctx     context.Context
	o       Options
	result  Result
	seen    map[finding]bool
	entered map[string]bool // definition files
	depth   int
	answers map[loading]answer
	uses    map[string][]string // what shell text reads
	read    map[reading]bool    // components whose shell text was
}

func (s *scope) report(rule string, span diag.Span, hint, format string, args ...any) {
	s.add(diag.Diagnostic{Span: span, Code: rule, Hint: hint, Message: fmt.Sprintf(format, args...)})
}

func (s *scope) add(d diag.Diagnostic) {
	k := s.check
	key := finding{d.Span, d.Message}
	if k.seen[key] || len(k.result.Found) >= MaxFindings {
		return
	}
	k.seen[key] = true
	if d.Source == "" && d.Line > 0 && k.o.Line != nil {
		d.Source = k.o.Line(d.Span)
	}
	k.result.Found = append(k.result.Found, d)
	k.result.Steps = append(k.result.Steps, [2]string{s.id, s.path})
}

// scope is one in a folder.
func (k *checker) scope(dir string) *scope {
	return &scope{check: k, dir: dir, view: view{hasFunction: k.o.HasFunction}}
}

// component checks a component as its callers see it: by its spec alone. s becomes its scope.
func (k *checker) component(c *plan.Component, s *scope) {
	s.inputs, s.steps, s.later, s.spec = inputTypes(&c.Spec), map[string]expr.Type{}, nil, &c.Spec
	s.definition(&c.Definition)
	s.outputs(c)
}

// load follows a reference. It returns nil where nothing is known of what it leads to.
func (s *scope) load(ref *plan.Reference) *source.Component {
	k := s.check
	if k.o.Load == nil || k.ctx.Err() != nil {
		return nil
	}
	found, err := s.loaded(ref)
	var missing *source.NotFoundError
	var fetch *source.FetchError
	switch list := diag.Of(err); {
	case err == nil:
	case list != nil:
		for _, d := range rules.Set(slices.Clone(list), rules.Invalid) {
			s.add(d)
		}
	case errors.As(err, &missing) && ref.IsLocal():
		s.report(rules.ComponentNotFound, ref.Span, "a relative path starts in the folder of its file; in a job, in the work directory", "%v", err)
	case errors.As(err, &missing), errors.As(err, &fetch):
		s.report(rules.ComponentNotCached, ref.Span, "step-runner lock fetches it", "%s was not checked: it is not in the cache", ref.Text)
	default:
		s.report(rules.Invalid, ref.Span, "", "%v", err)
	}
	return found
}

// loading is a reference at some place, and answer what it leads to: a list may name the same component hundreds of times.
type (
	loading struct {
		ref   string
		dir   string
		maybe bool
	}
	answer struct {
		found *source.Component
		err   error
	}
)

// loaded is what a reference leads to. Of the same one it is asked once.
func (s *scope) loaded(ref *plan.Reference) (*source.Component, error) {
	plain := *ref
	plain.Span, plain.Expr = diag.Span{}, nil
	key := loading{fmt.Sprintf("%+v", plain), s.dir, s.maybe}
	a, known := s.check.answers[key]
	if known && ref.Expr == nil {
		return a.found, a.err
	}
	a.found, a.err = s.check.o.Load(ref, s.dir, s.maybe)
	s.check.answers[key] = a
	return a.found, a.err
}

// enter checks a component that was loaded, once.
func (s *scope) enter(found *source.Component) {
	k := s.check
	file := filepath.Join(found.Dir, found.File)
	if k.entered[file] || len(k.entered) >= MaxComponents || k.depth >= MaxDepth {
		return
	}
	k.entered[file] = true
	if k.o.Entered != nil {
		k.o.Entered(found)
	}
	k.depth++
	inner := k.scope(found.Dir)
	inner.id, inner.path = s.id, s.path
	k.component(found.Plan, inner)
	inner.exported(&found.Plan.Spec, &found.Plan.Definition)
	k.depth--
}

// outputs holds what a definition gives against what its spec declares.
func (s *scope) outputs(c *plan.Component) {
	def := &c.Definition
	if def.Exec == nil {
		for _, name := range sorted(def.Outputs) {
			f := def.Outputs[name]
			t := s.field(f)
			if out, ok := c.Spec.Outputs[name]; ok && t.Known && t.Kind != out.Type && t.Kind != value.Null {
				s.report(rules.OutputType, f.Span, "", "the output %q is declared as %s, but is given %s", name, out.Type, t.Kind.WithArticle())
			}
		}
		return
	}
	if def.Exec.Toolkit != "" || c.Spec.DelegateOutputs || def.Post != nil || def.Pre != nil || mentionsOutputFile(def) {
		return
	}
	for _, name := range sorted(c.Spec.Outputs) {
		if out := c.Spec.Outputs[name]; out.Default == nil {
			s.report(rules.OutputNeverProduced, out.Span, "let the command write it to ${{ output_file }}, or give it a default",
				"the output %q is never produced: nothing in the definition uses output_file", name)
		}
	}
}

// outputType is what callers know of a component's outputs.
func outputType(spec *plan.Spec, def *plan.Definition, s *scope) expr.Type {
	fields := make(map[string]expr.Type, len(spec.Outputs))
	for name, out := range spec.Outputs {
		fields[name] = expr.OfKind(out.Type)
	}
	closed := !spec.DelegateOutputs
	if spec.AnyOutputs {
		closed = def.Exec == nil && def.Delegate == ""
		for name, f := range def.Outputs {
			if fields[name] = (expr.Type{}); s != nil {
				fields[name] = s.field(f)
			}
		}
	}
	return expr.Type{Known: true, Kind: value.Struct, Fields: fields, Closed: closed}
}

// inputTypes is what a component knows of its inputs.
func inputTypes(spec *plan.Spec) expr.Type {
	fields := make(map[string]expr.Type, len(spec.Inputs))
	for name, in := range spec.Inputs {
		fields[name] = expr.OfKind(in.Type)
		if in.Type == value.Null {
			fields[name] = expr.Type{}
		}
	}
	return expr.Type{Known: true, Kind: value.Struct, Fields: fields, Closed: !spec.AnyInputs}
}
