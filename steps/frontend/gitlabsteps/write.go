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
)

// Write writes a plan as the YAML that ParseSteps reads: a component that has no spec as one document with `run`, any other as the
// two documents of a file. Environments that steps share are written once and repeated by an alias.
//
// What comes out always reads back to an equal plan. A plan that the syntax cannot express is an error: one with an inline component
// that has an environment or inputs of its own.
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
		return fmt.Errorf("writing the plan as steps: the syntax cannot express a part of it: %w", err)
	}
	got, err := plan.Canonical(again)
	if err != nil || bytes.Equal(want, got) {
		return err
	}
	wanted, gotten := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range wanted {
		wanted[i] = strings.TrimSuffix(wanted[i], ",")
		if i >= len(gotten) || wanted[i] != strings.TrimSuffix(gotten[i], ",") {
			return fmt.Errorf("writing the plan as steps: the syntax cannot express %s", strings.TrimSpace(wanted[i]))
		}
	}
	return fmt.Errorf("writing the plan as steps: the syntax cannot express a part of it")
}

// isBare reports whether a spec is that of a job, which is not written.
func isBare(s *plan.Spec) bool {
	return s.AnyOutputs && !s.AnyInputs && s.Description == "" && !s.DelegateOutputs && len(s.Inputs)+len(s.Outputs)+len(s.Env)+len(s.Secrets)+len(s.Exports)+len(s.Access) == 0
}

// writer makes nodes of a plan.
type writer struct {
	envs    []*sharedEnv // in the order that they are written in
	unnamed map[*plan.Step]bool
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
	if len(d.Context) > 0 {
		out.add("context", named(d.Context, fieldNode))
	}
	w.addEnv(&out, d.Env)
	out.addText("input_prefix", d.InputPrefix)
	w.addHook(&out, "pre", d.Pre)
	w.addHook(&out, "post", d.Post)
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

func (w *writer) addHook(n *node, name string, h *plan.Hook) {
	if h == nil || h.Exec == nil {
		return
	}
	hook := node{object: true}
	hook.add("exec", w.exec(h.Exec))
	if h.If != nil {
		hook.add("if", fieldNode(*h.If))
	}
	n.add(name, hook)
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
	if x.Script != nil {
		n.add("script", fieldNode(x.Script.Text))
		n.addText("shell", x.Script.Shell)
	} else {
		command := node{list: true}
		for _, arg := range x.Command {
			command.items = append(command.items, fieldNode(arg))
		}
		n.add("command", command)
	}
	if x.WorkDir != nil {
		n.add("work_dir", fieldNode(*x.WorkDir))
	}
	if x.LogFile != nil {
		n.add("log_file", fieldNode(*x.LogFile))
	}
	if x.Timeout != 0 {
		n.add("timeout", durationNode(x.Timeout))
	}
	n.addText("toolkit", x.Toolkit)
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
	around := w.unnamed
	w.unnamed = unnamed(steps)
	n := w.group(steps)
	w.unnamed = around
	return n
}

// group writes steps that share their names with others.
func (w *writer) group(steps []plan.Step) node {
	n := node{list: true}
	for i := range steps {
		n.items = append(n.items, w.step(&steps[i]))
	}
	return n
}

// step writes what a step is called and when it runs, what it does, and with what. A step that got its name and title from what it
// does gets both back when it is read: it is written without them, and what it does comes first.
func (w *writer) step(s *plan.Step) node {
	n := node{object: true}
	if !w.unnamed[s] {
		n.add("name", textNode(s.Name))
		n.addText("title", s.Title)
		control(&n, s)
	}
	switch {
	case s.Ref != nil && s.Ref.Kind == plan.RefAction:
		n.add("action", actionNode(s.Ref))
	case s.Ref != nil:
		n.add("func", referenceNode(s.Ref))
	case s.Await != nil:
		n.add(awaitNode(s.Await))
	case s.Inline != nil && s.Inline.Definition.Exec != nil:
		w.inlineExec(&n, s.Inline.Definition.Exec)
	}
	if len(s.Inputs) > 0 {
		n.add("inputs", named(s.Inputs, fieldNode))
	}
	if len(s.Secrets) > 0 {
		n.add("secrets", named(s.Secrets, textNode))
	}
	if s.InheritEnv {
		n.add("inherit_env", boolNode(true))
	}
	if len(s.Permissions) > 0 {
		n.add("permissions", named(s.Permissions, textNode))
	}
	if len(s.AllowExports) > 0 {
		n.add("allow_exports", textsNode(s.AllowExports))
	}
	if s.Confine != nil {
		n.add("confine", boolNode(*s.Confine))
	}
	if len(s.AllowAccess) > 0 {
		n.add("allow_access", textsNode(s.AllowAccess))
	}
	if w.unnamed[s] {
		control(&n, s)
	}
	w.addEnv(&n, s.Env)
	switch {
	case len(s.Parallel) > 0:
		if s.Limit > 0 {
			n.add("max_parallel", scalarNode(fmt.Sprint(s.Limit)))
		}
		n.add("parallel", w.group(s.Parallel))
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
	if s.Background {
		n.add("background", boolNode(true))
	}
	if s.Timeout != 0 {
		n.add("timeout", durationNode(s.Timeout))
	}
	if s.TimeLimit != nil {
		n.add("time_limit", fieldNode(*s.TimeLimit))
	}
	if s.Retry != nil {
		n.add("retry", retryNode(s.Retry))
	}
	if s.AllowFailure != nil {
		n.add("allow_failure", allowFailureNode(s.AllowFailure))
	}
}

func (w *writer) inlineExec(n *node, x *plan.Exec) {
	if x.Script == nil || x.WorkDir != nil || x.Timeout != 0 {
		n.add("exec", w.exec(x))
		return
	}
	n.add("script", fieldNode(x.Script.Text))
	n.addText("shell", x.Script.Shell)
	if x.LogFile != nil {
		n.add("log_file", fieldNode(*x.LogFile))
	}
	n.addText("toolkit", x.Toolkit)
}

// actionNode writes an action, and what people read of it where that is another text.
func actionNode(ref *plan.Reference) node {
	if ref.Text == ref.Action {
		return textNode(ref.Action)
	}
	var n node
	n.addText("uses", ref.Action)
	n.addText("text", ref.Text)
	return n
}

// awaitNode returns the entry of a step that waits.
func awaitNode(a *plan.Await) (key string, n node) {
	key = "wait"
	if a.Cancel {
		key = "cancel"
	}
	if len(a.Steps) == 0 {
		return key, textNode("all")
	}
	return key, textsNode(a.Steps)
}

// textsNode is a list of strings.
func textsNode(texts []string) node {
	n := node{list: true}
	for _, text := range texts {
		n.items = append(n.items, textNode(text))
	}
	return n
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
	if len(a.ExitCodes) == 0 && a.If == nil {
		return boolNode(true)
	}
	var n node
	if a.If != nil {
		n.add("if", fieldNode(*a.If))
	}
	if len(a.ExitCodes) > 0 {
		n.add("exit_codes", codesNode(a.ExitCodes))
	}
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
