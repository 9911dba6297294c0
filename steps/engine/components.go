package engine

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// components are those that a run has met.
type components struct {
	out    *emitter
	places *places
	keep   bool // the run can be moved, so that it has to know which component a step has

	loaded map[string]*source.Component // before the first step, by referenceKey

	mu         sync.Mutex
	seen       map[string]bool      // by digest: those whose plan the events already hold
	encounters map[string]encounter // by the ID of the step
	reads      map[*plan.Component][]string
}

// envReads are the variables that the expressions of a component name.
func (c *components) envReads(of *plan.Component) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.reads[of]
	if !known {
		found = check.EnvReads(of)
		c.reads[of] = found
	}
	return found
}

// encounter is a component that a run has met.
type encounter struct {
	reference *plan.Reference // with every expression evaluated
	found     *source.Component
}

// meet takes note of the component of the step with the ID.
func (c *components) meet(id string, ref *plan.Reference, found *source.Component) {
	if !c.keep {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.encounters == nil {
		c.encounters = map[string]encounter{}
	}
	c.encounters[id] = encounter{ref, found}
}

// learn takes in what errors can show of a component's text, and what they must not.
func (c *components) learn(found *source.Component) {
	file := filepath.Join(found.Dir, found.File)
	c.places.add(file, found.Text)
	if found.Origin != nil {
		c.places.name(file, originName(found.Origin, found.File))
	}
	c.out.addPasswords(found.Text)
}

// announce emits what the reference of the step with the ID turned out to be.
func (c *components) announce(id string, found *source.Component) {
	resolved := event.StepResolved{Ref: found.Ref, Dir: found.Dir, File: found.File, Digest: found.Digest, Origin: found.Origin}
	if c.firstSight(resolved.Key()) {
		resolved.Component = c.out.component(found.Plan)
	}
	c.out.emit(id, resolved)
}

// firstSight reports whether this is the first time that the run meets a component.
func (c *components) firstSight(digest string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen[digest]
	c.seen[digest] = true
	return !seen
}

// referenceKey tells references to local components and actions in definitions apart, which are seen from a folder.
func referenceKey(ref *plan.Reference, dir string) string {
	return string(ref.Kind) + "\x00" + ref.Action + "\x00" + filepath.Join(ref.Path...) + "\x00" + ref.File + "\x00" + dir
}

// static returns a reference that no step can change with the expressions in it evaluated, else nil.
func (c *components) static(ref *plan.Reference) *plan.Reference {
	if ref.Kind == plan.RefDynamic {
		return nil
	}
	if ref.Kind != plan.RefAction {
		for _, part := range templates(ref) {
			if expr.Has(*part) {
				return nil
			}
		}
		return ref
	}
	workDir := expr.Values{"work_dir": value.OfString(c.places.workDir)}
	action, err := expr.Expand(value.OfString(ref.Action), workDir)
	if err != nil {
		return nil
	}
	out := *ref
	out.Action = action.Str()
	return &out
}

// templates are the texts of a reference that may hold expressions.
func templates(ref *plan.Reference) []*string {
	texts := []*string{&ref.URL, &ref.Rev, &ref.File, &ref.Registry, &ref.Repository, &ref.Tag, &ref.SHA256, &ref.Action, &ref.Text}
	for i := range ref.Path {
		texts = append(texts, &ref.Path[i])
	}
	return texts
}

// encode puts the components into the document that the step with the ID is in, and its own.
func (c *components) encode(d *document, id string) error {
	for end := range len(id) + 1 {
		if end < len(id) && id[end] != '.' {
			continue
		}
		at, ok := c.met(id[:end])
		if !ok || slices.ContainsFunc(d.Components, func(other encodedComponent) bool { return other.Step == id[:end] }) {
			continue
		}
		definition, err := planDigest(at.found.Plan)
		if err != nil {
			return err
		}
		one := encodedComponent{Step: id[:end], Reference: at.reference, Plan: definition}
		if at.found.Origin != nil {
			one.Digest = at.found.Digest
		}
		d.Components = append(d.Components, one)
	}
	return nil
}

// met returns the component of the step with the ID, if it has one.
func (c *components) met(id string) (encounter, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.encounters[id]
	return at, ok
}
