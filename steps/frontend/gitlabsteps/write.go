package gitlabsteps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Write writes a plan as the YAML that ParseSteps reads: a component that has no spec as one document with `run`, any other as the
// two documents of a file. Environments that steps share are written once and repeated by an alias.
//
// What comes out always reads back to an equal plan. A plan that the syntax has no words for is an error: one with a toolkit, with
// titles of its own, or with a script in the place of a component's exec.
func Write(c *plan.Component) ([]byte, error) {
	w := &writer{}
	var p printer
	if !isBare(&c.Spec) {
		var doc node
		doc.add("spec", w.spec(&c.Spec))
		p.entries(doc, 0, false)
		p.WriteString("---\n")
	}
	definition := w.definition(&c.Definition)
	definition.spaced = true
	w.share()
	w.resolve(&definition)
	p.entries(definition, 0, false)
	out := []byte(p.String())
	return out, check(c, out)
}

// check reads what was written, and says what of the plan is not in it.
func check(c *plan.Component, written []byte) error {
	want, err := plan.Canonical(c)
	if err != nil {
		return err
	}
	again, err := ParseSteps("the plan", written)
	if err != nil {
		return fmt.Errorf("writing the plan as steps: the syntax has no words for a part of it: %w", err)
	}
	got, err := plan.Canonical(again)
	if err != nil || bytes.Equal(want, got) {
		return err
	}
	wanted, gotten := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range wanted {
		wanted[i] = strings.TrimSuffix(wanted[i], ",")
		if i >= len(gotten) || wanted[i] != strings.TrimSuffix(gotten[i], ",") {
			return fmt.Errorf("writing the plan as steps: the syntax has no words for %s", strings.TrimSpace(wanted[i]))
		}
	}
	return fmt.Errorf("writing the plan as steps: the syntax has no words for a part of it")
}

// isBare reports whether a spec is that of a job, which is not written.
func isBare(s *plan.Spec) bool {
	return s.AnyOutputs && s.Description == "" && !s.DelegateOutputs && len(s.Inputs)+len(s.Outputs)+len(s.Env)+len(s.Secrets) == 0
}

// writer makes nodes of a plan.
type writer struct {
	envs []*sharedEnv // in the order that they are written in
}

func (w *writer) spec(s *plan.Spec) node {
	out := node{object: true}
	out.addText("description", s.Description)
	if len(s.Inputs) > 0 {
		out.add("inputs", named(s.Inputs, func(in plan.Input) node {
			n := declaration(in.Type, in.Default, in.Sensitive, in.Description)
			if len(in.Options) > 0 {
				n.add("options", valueNode(value.OfArray(in.Options)))
			}
			n.addText("match", in.Match)
			return n
		}))
	}
	if s.DelegateOutputs {
		out.add("outputs", textNode("delegate"))
	} else if len(s.Outputs) > 0 {
		out.add("outputs", named(s.Outputs, func(o plan.Output) node { return declaration(o.Type, o.Default, o.Sensitive, o.Description) }))
	}
	if len(s.Env) > 0 {
		out.add("env", named(s.Env, func(e plan.EnvRequest) node {
			n := node{object: true}
			if e.Default != nil {
				n.add("default", textNode(*e.Default))
			}
			n.addText("description", e.Description)
			return n
		}))
	}
	if len(s.Secrets) > 0 {
		out.add("secrets", named(s.Secrets, func(e plan.SecretRequest) node {
			n := node{object: true}
			if e.Optional {
				n.add("optional", boolNode(true))
			}
			n.addText("description", e.Description)
			return n
		}))
	}
	return out
}

func declaration(kind value.Kind, def *value.Value, sensitive bool, description string) node {
	var n node
	n.add("type", textNode(kind.String()))
	if def != nil {
		n.add("default", valueNode(*def))
	}
	if sensitive {
		n.add("sensitive", boolNode(true))
	}
	n.addText("description", description)
	return n
}

// named makes a map of what has names.
func named[V any](all map[string]V, make func(V) node) node {
	n := node{object: true}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n.add(name, make(all[name]))
	}
	return n
}

func (w *writer) definition(d *plan.Definition) node {
	out := node{object: true}
	w.addEnv(&out, d.Env)
	if d.Exec != nil {
		out.add("exec", w.exec(d.Exec))
	}
	if d.Exec == nil || len(d.Steps) > 0 {
		steps := w.steps(d.Steps)
		steps.spaced = true
		out.add("run", steps)
	}
	results(&out, d)
	return out
}

func results(out *node, d *plan.Definition) {
	if len(d.Outputs) > 0 {
		out.add("outputs", named(d.Outputs, fieldNode))
	}
	out.addText("delegate", d.Delegate)
}

func fieldNode(f plan.Field) node { return valueNode(f.Value) }

func (w *writer) exec(x *plan.Exec) node {
	n := node{object: true}
	command := node{list: true}
	for _, arg := range x.Command {
		command.items = append(command.items, fieldNode(arg))
	}
	n.add("command", command)
	if x.WorkDir != nil {
		n.add("work_dir", fieldNode(*x.WorkDir))
	}
	if x.LogFile != nil {
		n.add("log_file", fieldNode(*x.LogFile))
	}
	if x.Timeout != 0 {
		n.add("timeout", durationNode(x.Timeout))
	}
	return n
}

// durationNode leaves out the zeros that Go writes at the end: 5m, not 5m0s.
func durationNode(d plan.Duration) node {
	text := time.Duration(d).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return scalarNode(text)
}

func (w *writer) steps(steps []plan.Step) node {
	n := node{list: true}
	for i := range steps {
		n.items = append(n.items, w.step(&steps[i]))
	}
	return n
}

// step writes what a step is called and when it runs, what it does, and with what. A step that has a title got its name from what it
// does, and gets both back when it is read: it is written without one, and what it does comes first.
func (w *writer) step(s *plan.Step) node {
	n := node{object: true}
	if s.Title == "" {
		n.add("name", textNode(s.Name))
		control(&n, s)
	}
	switch {
	case s.Ref != nil && s.Ref.Kind == plan.RefAction:
		n.add("action", textNode(s.Ref.Action))
	case s.Ref != nil:
		n.add("func", referenceNode(s.Ref))
	case s.Inline != nil && s.Inline.Definition.Exec != nil:
		w.inlineExec(&n, s.Inline.Definition.Exec)
	}
	if len(s.Inputs) > 0 {
		n.add("inputs", named(s.Inputs, fieldNode))
	}
	if len(s.Secrets) > 0 {
		n.add("secrets", named(s.Secrets, textNode))
	}
	if s.Title != "" {
		control(&n, s)
	}
	w.addEnv(&n, s.Env)
	switch {
	case len(s.Parallel) > 0:
		if s.Limit > 0 {
			n.add("max_parallel", scalarNode(fmt.Sprint(s.Limit)))
		}
		n.add("parallel", w.steps(s.Parallel))
	case s.Inline != nil && s.Inline.Definition.Exec == nil:
		n.add("run", w.steps(s.Inline.Definition.Steps))
		results(&n, &s.Inline.Definition)
	}
	return n
}

// control writes when, how long and how often a step runs.
func control(n *node, s *plan.Step) {
	if s.If != nil {
		n.add("if", fieldNode(*s.If))
	}
	n.addText("when", string(s.When))
	if s.Timeout != 0 {
		n.add("timeout", durationNode(s.Timeout))
	}
	if s.Retry != nil {
		n.add("retry", retryNode(s.Retry))
	}
	if s.AllowFailure != nil {
		n.add("allow_failure", allowFailureNode(s.AllowFailure))
	}
}

func (w *writer) inlineExec(n *node, x *plan.Exec) {
	if x.Script == nil {
		n.add("exec", w.exec(x))
		return
	}
	n.add("script", fieldNode(x.Script.Text))
	n.addText("shell", x.Script.Shell)
	if x.LogFile != nil {
		n.add("log_file", fieldNode(*x.LogFile))
	}
}

func retryNode(r *plan.Retry) node {
	if r.Delay == 0 && len(r.ExitCodes) == 0 {
		return scalarNode(fmt.Sprint(r.Max))
	}
	var n node
	n.add("max", scalarNode(fmt.Sprint(r.Max)))
	if r.Delay != 0 {
		n.add("delay", durationNode(r.Delay))
	}
	if len(r.ExitCodes) > 0 {
		n.add("exit_codes", codesNode(r.ExitCodes))
	}
	return n
}

func allowFailureNode(a *plan.AllowFailure) node {
	if len(a.ExitCodes) == 0 {
		return boolNode(true)
	}
	var n node
	n.add("exit_codes", codesNode(a.ExitCodes))
	return n
}

func codesNode(codes []int) node {
	texts := make([]string, len(codes))
	for i, code := range codes {
		texts[i] = fmt.Sprint(code)
	}
	return scalarNode("[" + strings.Join(texts, ", ") + "]")
}

// referenceNode writes a reference in short form, where that says all of it, or else as a map.
func referenceNode(ref *plan.Reference) node {
	bare := *ref
	bare.Span = diag.Span{}
	parsed, err := ParseReference(ref.Text, diag.Span{})
	if err == nil && (ref.Kind == plan.RefDynamic || sameReference(parsed, &bare)) {
		return textNode(ref.Text)
	}
	var parts, n node
	switch ref.Kind {
	case plan.RefGit:
		parts.addText("url", ref.URL)
		parts.addText("rev", ref.Rev)
	case plan.RefOCI:
		parts.addText("registry", ref.Registry)
		parts.addText("repository", ref.Repository)
		parts.addText("tag", ref.Tag)
	case plan.RefArchive:
		parts.addText("url", ref.URL)
		parts.addText("sha256", ref.SHA256)
	default:
		return textNode(ref.Text)
	}
	parts.addText("dir", strings.Join(ref.Path, "/"))
	parts.addText("file", ref.File)
	n.add(string(ref.Kind), parts)
	return n
}

func sameReference(a, b *plan.Reference) bool {
	left, lerr := json.Marshal(a)
	right, rerr := json.Marshal(b)
	return lerr == nil && rerr == nil && bytes.Equal(left, right)
}
