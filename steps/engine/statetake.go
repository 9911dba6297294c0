package engine

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// digestKeySize is how long the key of a run's digests is, in bytes.
const digestKeySize = 16

// state takes the state of the run, which stands before the step with the ID.
func (r *run) state(l *listRun, before string) (*State, error) {
	if r.opts.Recorded != nil {
		return nil, errors.New("a replay cannot be moved: what stands in for its steps is not part of its state")
	}
	if len(r.out.key) != digestKeySize {
		return nil, fmt.Errorf("the run cannot be moved: the key of its digests has %d bytes instead of %d", len(r.out.key), digestKeySize)
	}
	d, err := sealOf(&r.opts, r.out.digest)
	if err != nil {
		return nil, err
	}
	d.Format, d.Run, d.Before, d.DigestKey = StateFormat, r.id, before, hex.EncodeToString(r.out.key)
	d.WorkDir, d.HostHome = text{string: r.opts.WorkDir}, r.opts.HostHome
	d.Folder, d.Files = r.dirs.root, r.dirs.used()
	d.Limit, d.Left = r.clock.remaining()
	d.Base, d.Env = encodedVariables(r.base.vars), encodedVariables(l.scope.env.vars)
	d.Context, d.Steps = encodedValue{l.scope.context}, encodedFields(l.scope.steps)
	s := l.state
	d.List = encodedList{Failed: s.failed, Cancelled: s.cancelled, Cut: s.cut, First: encodeOutcome(s.first), Counts: s.counts}
	for _, b := range l.background {
		e := encodedBackground{Step: b.id, Asked: b.asked, Settled: b.settled}
		if !b.settled {
			e.Exports, e.Outcome = encodedVariables(b.barrier.exports), encodeOutcome(b.outcome)
		}
		d.Background = append(d.Background, e)
	}
	if err := r.hooks.encode(d, len(r.opts.Component.Definition.Steps), &r.components); err != nil {
		return nil, err
	}
	d.Masks, d.MadeUp = r.out.learnt()
	if d.Services, err = r.services.save(); err != nil {
		return nil, err
	}
	return d.seal(r.out, r.opts.Secrets)
}

// seal makes the state of the document.
func (d *document) seal(out *emitter, secrets map[string]string) (*State, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	tree, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	h := &hider{masked: func(s string) bool { return s != StateFormat && out.mask.String(s) != s }, secrets: map[string]string{}, found: map[string]int{}}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(secrets))) {
		h.secrets[secrets[name]] = name
	}
	if tree, err = h.hide(tree); err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	s := &State{}
	if s.Document, err = canonicalJSON(tree); err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	s.Sensitive = h.list
	_, err = ParseState(s.Document, s.Sensitive) // what nobody would read is not given away
	return s, err
}

func encodedVariables(vars map[string]variable) []encodedVariable {
	out := make([]encodedVariable, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v := vars[name]
		out = append(out, encodedVariable{text{string: name}, text{v.text, v.sensitive}, v.sensitive})
	}
	return out
}

func encodedTexts(texts map[string]string, hide bool) []encodedVariable {
	out := make([]encodedVariable, 0, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		out = append(out, encodedVariable{Name: text{string: name}, Text: text{texts[name], hide}})
	}
	return out
}

func encodedFields(fields map[string]value.Value) []encodedField {
	out := make([]encodedField, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, encodedField{text{string: name}, encodedValue{fields[name]}})
	}
	return out
}

func encodeOutcome(o *outcome) *encodedOutcome {
	if o == nil {
		return nil
	}
	return &encodedOutcome{
		Status: o.status, Allowed: o.allowed, Outputs: encodedFields(o.outputs), Exports: encodedVariables(o.exports), ExitCode: o.exitCode,
		Error: o.err, Counts: o.counts, Cut: o.cut, Late: o.late,
	}
}

// encode puts the hooks that are to come after the steps of the run's own list into the document.
func (h *hooks) encode(d *document, steps int, components *components) error {
	for _, name := range slices.Sorted(maps.Keys(h.names)) {
		d.Names = append(d.Names, text{string: name})
	}
	d.Told = slices.Sorted(maps.Keys(h.told))
	numbers := map[*hook]int{}
	add := func(one *hook) *encodedHook {
		if at, ok := numbers[one]; ok {
			return &d.Hooks[at]
		}
		numbers[one] = len(d.Hooks)
		inv := one.inv
		d.Hooks = append(d.Hooks, encodedHook{
			Step: inv.id, Early: one.early, State: encodedTexts(inv.state, false),
			Given: encodedGiven{Inputs: encodedFields(inv.given.Inputs), Env: encodedTexts(inv.given.Env, false), Secrets: encodedNames(inv.given.Secrets)},
		})
		return &d.Hooks[len(d.Hooks)-1]
	}
	for _, id := range slices.SortedFunc(maps.Keys(h.early), comparePlaces) {
		add(h.early[id]).Pre = true
	}
	next, err := strconv.Atoi(d.Before)
	if err != nil {
		return err
	}
	done := next - steps - 1 // posts run from the end of the list
	for i, one := range h.posts {
		e := add(one)
		if len(h.posts)-i <= done {
			d.Posts = append(d.Posts, numbers[one])
			continue
		}
		s := one.scope
		e.Over = encodedVariables(one.over)
		e.Scope = &encodedScope{
			Path: text{string: s.path}, Depth: s.depth, Top: s.top, Inputs: encodedValue{s.inputs}, Context: encodedValue{s.context},
			Shared: sameMap(s.steps, h.top.steps),
			Own:    encodedVariables(s.own), Secrets: encodedTexts(s.secrets, true), Known: encodedTexts(s.known, true),
		}
		if !e.Scope.Shared {
			e.Scope.Steps = encodedFields(s.steps)
		}
		d.Posts = append(d.Posts, numbers[one])
		if err := components.encode(d, one.inv.id); err != nil {
			return err
		}
	}
	return nil
}

// sameMap reports whether a change of one map is one of the other.
func sameMap(a, b map[string]value.Value) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

func encodedNames(names []string) (out []text) {
	for _, name := range names {
		out = append(out, text{string: name})
	}
	return out
}

// planDigest tells definitions apart.
func planDigest(c *plan.Component) (string, error) {
	canonical, err := plan.Canonical(c)
	if err != nil {
		return "", err
	}
	return contentDigest(canonical), nil
}

// learnt returns what is masked beyond what the run was started with, and what of all that was made up.
func (e *emitter) learnt() (masks, madeUp []text) {
	e.secretsMu.Lock()
	defer e.secretsMu.Unlock()
	for _, secret := range slices.Sorted(maps.Keys(e.secrets)) {
		if !e.given[secret] {
			masks = append(masks, text{secret, true})
		}
	}
	for _, secret := range e.madeUp {
		madeUp = append(madeUp, text{secret, true})
	}
	return masks, madeUp
}

// used reports whether the run has left anything in its own folders that a step could look for.
func (d *directories) used() bool {
	for _, dir := range d.moving() {
		if !isEmpty(filepath.Join(d.root, dir)) {
			return true
		}
	}
	return false
}

// moving are the names of the folders that move with a run. What is in files is that of one process and gone between steps.
func (d *directories) moving() []string {
	if d.home == "" {
		return []string{tmpFolder}
	}
	return []string{homeFolder, tmpFolder}
}

// copyTo copies what moves with the run to a new folder.
func (d *directories) copyTo(to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, dir := range d.moving() {
		if err := copyTree(filepath.Join(d.root, dir), filepath.Join(to, dir), "", ""); err != nil {
			_ = os.RemoveAll(to)
			return err
		}
	}
	return nil
}

// Movable is what ToolkitProcess.Once has made and what another process can go on with.
type Movable interface {
	// Save returns all that Restore needs. It is asked for between two steps; an error says what keeps it from moving now.
	Save() ([]byte, error)
	// Restore is called once, on what was made anew in the other process, before anything uses it.
	Restore(saved []byte) error
}

// save returns what the services need to go on in another process.
func (s *services) save() ([]encodedService, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	saved := map[string][]byte{}
	maps.Copy(saved, s.saved) // of those that nobody has asked for since
	for _, one := range s.order {
		one.mu.Lock()
		made := one.made
		one.mu.Unlock()
		if made == nil {
			continue
		}
		movable, ok := made.(Movable)
		if !ok {
			return nil, fmt.Errorf("the run cannot be moved while it has %s", one.name)
		}
		data, err := movable.Save()
		if err != nil {
			return nil, fmt.Errorf("the run cannot be moved now: %s: %w", one.name, err)
		}
		saved[one.name] = data
	}
	var out []encodedService
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		out = append(out, encodedService{text{string: name}, text{string(saved[name]), true}})
	}
	return out, nil
}
