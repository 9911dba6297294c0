package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

func contentDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// misfitError says that a state is not that of the run.
type misfitError struct{ error }

// fit opens the state that the run goes on from.
func (r *run) fit() (*document, error) {
	d, err := r.opts.From.fit(&r.opts, r.opts.Files, r.dirs.root)
	if err != nil {
		return nil, &misfitError{err}
	}
	if r.opts.DigestKey, err = hex.DecodeString(d.DigestKey); err != nil {
		return nil, &misfitError{err}
	}
	return d, nil
}

// adopt takes over what of a state a run needs before its first event.
func (r *run) adopt(d *document) error {
	r.from = d
	r.base = &environ{variables(d.Base)}
	for _, secret := range d.Masks {
		r.out.addSecret(secret.string)
	}
	for _, secret := range d.MadeUp {
		r.out.addMadeUp(secret.string)
	}
	for _, s := range d.Services {
		put(&r.services.saved, s.Name.string, []byte(s.Saved.string))
	}
	if !d.Files {
		return nil
	}
	for _, dir := range r.dirs.moving() {
		if err := copyTree(filepath.Join(r.opts.Files, dir), filepath.Join(r.dirs.root, dir), d.Folder, r.dirs.root); err != nil {
			return err
		}
	}
	return nil
}

// restore brings the run's own list to where the state was taken.
func (r *run) restore(l *listRun, steps []plan.Step) *event.Error {
	d := r.from
	s := l.scope
	s.env.vars, s.context, s.steps = variables(d.Env), d.Context.Value, fields(d.Steps)
	*l.state = listState{failed: d.List.Failed, cancelled: d.List.Cancelled, cut: d.List.Cut, first: d.List.First.outcome(), counts: d.List.Counts, live: l.ctx}
	last := 0
	for _, e := range d.Background {
		at, err := strconv.Atoi(e.Step)
		if err != nil || at <= last || at >= d.next || at > len(steps) || !steps[at-1].Background {
			return stateError("%q is not a background step of the run", e.Step)
		}
		b := &background{
			id: e.Step, step: &steps[at-1], cancel: func(error) {}, barrier: &barrier{exports: variables(e.Exports)}, done: make(chan struct{}),
			outcome: e.Outcome.outcome(), asked: e.Asked, settled: e.Settled,
		}
		last = at
		close(b.done)
		l.background = append(l.background, b)
	}
	if d.next > len(steps)+len(d.Posts) {
		return stateError("step %d is beyond the end of the run", d.next)
	}
	m := &mover{run: r, ctx: l.ctx, steps: steps, known: map[string]*source.Component{}}
	return m.hooks()
}

func stateError(format string, args ...any) *event.Error {
	return event.NewError(event.CodeStateInvalid, "the state does not fit the run: "+format, args...)
}

// mover finds the steps of hooks again.
type mover struct {
	run   *run
	ctx   context.Context
	steps []plan.Step
	known map[string]*source.Component // by the ID of the step
}

// hooks brings back what components have to do at the end.
func (m *mover) hooks() *event.Error {
	d, h := m.run.from, &m.run.hooks
	h.early, h.told = map[string]*hook{}, map[string]bool{}
	for _, name := range d.Names {
		h.names[name.string] = true
	}
	for _, id := range d.Told {
		h.told[id] = true
	}
	all := make([]*hook, len(d.Hooks))
	for i, e := range d.Hooks {
		all[i] = &hook{early: e.Early, over: variables(e.Over), inv: &invocation{
			id: e.Step, state: texts(e.State), given: event.StepInputs{Inputs: fields(e.Given.Inputs), Env: texts(e.Given.Env), Secrets: names(e.Given.Secrets)},
		}}
		if e.Pre {
			h.early[e.Step] = all[i]
		}
	}
	done := max(0, d.next-len(m.steps)-1) // posts run from the end of the list
	for i, at := range d.Posts {
		if len(d.Posts)-i > done {
			if err := m.hook(all[at], d.Hooks[at].Scope); err != nil {
				return err
			}
		}
		h.posts = append(h.posts, all[at])
	}
	return nil
}

// hook completes a hook whose Post is to run.
func (m *mover) hook(h *hook, e *encodedScope) *event.Error {
	r, inv := m.run, h.inv
	if e == nil {
		return stateError("the scope of what step %s has to clean up is missing", inv.id)
	}
	at, err := m.find(inv.id)
	if err != nil {
		return err
	}
	inv.step, inv.found = at.step, at.found
	around := at.around
	switch {
	case at.found != nil:
		around = at.found
		inv.spec, inv.def = &at.found.Plan.Spec, &at.found.Plan.Definition
	case at.step.Inline != nil:
		inv.spec, inv.def = &at.step.Inline.Spec, &at.step.Inline.Definition
	default:
		return stateError("step %s runs nothing of its own", inv.id)
	}
	if inv.def.Post == nil {
		return stateError("step %s has nothing to clean up (post)", inv.id)
	}
	h.scope = &scope{view: view{
		run: r, dir: r.opts.Dir, workDir: r.opts.WorkDir, inputs: e.Inputs.Value, own: variables(e.Own), known: texts(e.Known),
		steps: fields(e.Steps), top: e.Top, path: e.Path.string, context: e.Context.Value, may: at.call.permissions(),
	}, secrets: texts(e.Secrets), depth: e.Depth, call: at.call}
	if e.Shared {
		h.scope.steps = r.hooks.top.steps
	}
	for name, v := range h.scope.own {
		v.sensitive = true
		h.scope.own[name] = v
	}
	if around != nil {
		h.scope.dir, h.scope.origin = around.Dir, around.Origin
	}
	return nil
}

// spot is a step that was found again.
type spot struct {
	step   *plan.Step
	around *source.Component // that the step is written in; nil is the run's own
	found  *source.Component // that it refers to; nil where it is not a reference
	call   *call             // of the innermost of these
}

// find returns the step with the ID.
func (m *mover) find(id string) (*spot, *event.Error) {
	at, list, path := &spot{}, m.steps, ""
	for part := range strings.SplitSeq(id, ".") {
		if at.found != nil {
			at.around, list = at.found, at.found.Plan.Definition.Steps
		}
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > len(list) {
			return nil, stateError("there is no step %.100q", id)
		}
		st := &list[n-1]
		at.step, at.found = st, nil
		path = strings.TrimPrefix(path+"."+part, ".")
		switch {
		case st.Ref != nil:
			var err *event.Error
			if at.found, err = m.component(path, st, at.around); err != nil {
				return nil, err
			}
			from := &scope{view: view{run: m.run}, call: at.call}
			if at.around != nil {
				from.origin = at.around.Origin
			}
			component := at.found.Plan
			at.call = &call{step: st, from: from, spec: &component.Spec, origin: at.found.Origin, reads: m.run.components.envReads(component)}
		case st.Inline != nil:
			list = st.Inline.Definition.Steps
		default:
			list = st.Parallel
		}
	}
	return at, nil
}

// component loads the component of a step again, which must be the one that it was.
func (m *mover) component(id string, st *plan.Step, around *source.Component) (*source.Component, *event.Error) {
	if found := m.known[id]; found != nil {
		return found, nil
	}
	r := m.run
	var was *encodedComponent
	for i := range r.from.Components {
		if c := &r.from.Components[i]; c.Step == id {
			was = c
		}
	}
	if was == nil {
		return nil, stateError("the component of step %s is missing", id)
	}
	dir := r.opts.Dir
	if around != nil {
		dir = around.Dir
	}
	ref := *was.Reference
	ref.Span, ref.Expr = st.Ref.Span, nil
	ctx := source.WithProgress(m.ctx, func(p event.Progress) { r.out.emit("", p) })
	found, lerr := r.opts.Source.Load(ctx, &ref, dir)
	if lerr != nil {
		return nil, r.at(loadError(ctx, ref.Text, lerr), ref.Span)
	}
	r.components.learn(found)
	definition, perr := planDigest(found.Plan)
	if perr != nil {
		return nil, systemError("%v", perr)
	}
	if definition != was.Plan || found.Origin != nil && found.Digest != was.Digest {
		return nil, r.at(stateError("the component %s of step %s is not the one that it was", ref.Text, id), ref.Span)
	}
	m.known[id] = found
	r.components.meet(id, &ref, found)
	return found, nil
}

func variables(encoded []encodedVariable) map[string]variable {
	out := make(map[string]variable, len(encoded))
	for _, v := range encoded {
		out[v.Name.string] = variable{v.Text.string, v.Sensitive}
	}
	return out
}

func texts(encoded []encodedVariable) map[string]string {
	if len(encoded) == 0 {
		return nil
	}
	out := make(map[string]string, len(encoded))
	for _, v := range encoded {
		out[v.Name.string] = v.Text.string
	}
	return out
}

func fields(encoded []encodedField) map[string]value.Value {
	out := make(map[string]value.Value, len(encoded))
	for _, f := range encoded {
		out[f.Name.string] = f.Value.Value
	}
	return out
}

func names(encoded []text) (out []string) {
	for _, name := range encoded {
		out = append(out, name.string)
	}
	return out
}

func (o *encodedOutcome) outcome() *outcome {
	if o == nil {
		return nil
	}
	out := &outcome{
		status: o.Status, allowed: o.Allowed, exitCode: o.ExitCode, err: o.Error, counts: o.Counts, cut: o.Cut, late: o.Late,
		exports: variables(o.Exports),
	}
	if len(o.Outputs) > 0 {
		out.outputs = fields(o.Outputs)
	}
	return out
}

// copyTree copies the folders, files and links of a folder that exists to another, which may exist. A link into the folder was leads into
// the folder is. What is neither is left out: a socket or a pipe is of no use to another process.
func copyTree(from, to, was, is string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == from {
			return nil
		}
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rest)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			if info.Mode().Perm()&0o700 != 0o700 {
				return nil // it can be written to, so that what is in it can be
			}
			return os.Chmod(target, info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			if was != "" {
				link = relocated(link, was, is)
			}
			return os.Symlink(link, target)
		case info.Mode().IsRegular():
			return copyFile(path, target, info)
		default:
			return nil
		}
	})
}

func copyFile(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := out.ReadFrom(in); err != nil {
		out.Close()
		return err
	}
	if err := errors.Join(out.Chmod(info.Mode().Perm()), out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
