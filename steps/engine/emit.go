package engine

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// digestRounds makes guessing a secret from its digest slow: about a millisecond a guess.
const digestRounds = 4096

// emitter numbers events, masks them, and hands them to the sink one at a time.
type emitter struct {
	sink event.Sink
	mask *mask.Set
	key  []byte // of the digests of sensitive values

	// maskMu is held for reading from where something is masked until its event is sent, and for writing while a mask is added: nothing
	// that was masked without a text comes after the event that says that the text is masked.
	maskMu sync.RWMutex

	mu    sync.Mutex
	seq   int64
	ended bool // no event follows

	placeholders []string // Options.Placeholders

	secretsMu sync.Mutex
	secrets   map[string]bool   // what mask already knows
	given     map[string]bool   // those of them that the run was started with
	digests   map[string]string // they are slow to compute
	madeUp    []string          // secrets that are others in every run
	told      int               // how many of secrets have an event with a digest
}

// newEmitter makes the emitter of one run. Its key is fresh where none is given.
func newEmitter(sink event.Sink, key []byte) *emitter {
	if key == nil {
		key = make([]byte, 16)
		if _, err := rand.Read(key); err != nil {
			panic(err) // crypto/rand never fails on the systems Go runs on
		}
	}
	return &emitter{sink: sink, mask: mask.NewSet(), key: key, secrets: map[string]bool{}, digests: map[string]string{}}
}

// emit sends one event. Everything but log data, which is masked on its way here, is masked now.
func (e *emitter) emit(step string, body event.Body) {
	if _, isLog := body.(event.Log); !isLog {
		e.maskMu.RLock()
		defer e.maskMu.RUnlock()
		body = e.masked(body)
	}
	e.send(step, body)
}

// send sends an event that is masked.
func (e *emitter) send(step string, body event.Body) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	e.seq++
	e.sink.Event(event.Event{Seq: e.seq, Time: time.Now().UTC(), Step: step, Body: body})
}

// end drops all that is emitted from now on.
func (e *emitter) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
}

// masked returns body with every secret in any text of it masked. It goes through the event's JSON, so that a text that is
// added to an event later cannot be forgotten.
func (e *emitter) masked(body event.Body) event.Body {
	if e.mask.Len() == 0 {
		return body
	}
	lost := event.Warning{Message: "an event was dropped because it could not be masked"}
	data, err := json.Marshal(body)
	if err != nil {
		return lost
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return lost
	}
	clean, changed := e.maskTree(tree)
	if !changed {
		return body
	}
	if data, err = json.Marshal(clean); err != nil {
		return lost
	}
	decoded, err := event.DecodeBody(body.Type(), data)
	if err != nil {
		return lost
	}
	return decoded
}

// maskTree masks every text in decoded JSON, keys included, in place.
func (e *emitter) maskTree(node any) (clean any, changed bool) {
	switch x := node.(type) {
	case string:
		masked := e.mask.String(x)
		return masked, masked != x
	case []any:
		for i, item := range x {
			masked, c := e.maskTree(item)
			x[i], changed = masked, changed || c
		}
	case map[string]any:
		for key, item := range x {
			masked, c := e.maskTree(item)
			name := e.mask.String(key)
			if name != key {
				delete(x, key)
			}
			x[name], changed = masked, changed || c || name != key
		}
	}
	return node, changed
}

func (e *emitter) maskError(err *event.Error) *event.Error {
	masked, ok := e.masked(event.RunFinished{Error: err}).(event.RunFinished)
	if !ok || masked.Error == nil {
		return &event.Error{Code: err.Code, Kind: err.Kind, Step: err.Step, Message: mask.Replacement}
	}
	return masked.Error
}

// maxToldMasks is how many masks of a run have their digest in an event: each takes a millisecond.
const maxToldMasks = 100

// addSecret makes the text masked from now on. In a run that has begun an event says so.
func (e *emitter) addSecret(text string) {
	if text == "" || e.knows(text) {
		return
	}
	e.mu.Lock()
	begun := e.seq > 0
	e.mu.Unlock()
	digest := ""
	if begun && e.tell() && mask.Maskable(text) {
		digest = e.digest(text)
	}
	e.secretsMu.Lock()
	defer e.secretsMu.Unlock()
	if e.secrets[text] {
		return
	}
	e.maskMu.Lock()
	defer e.maskMu.Unlock()
	known := e.mask.Len()
	e.mask.Add(text)
	e.secrets[text] = true
	if begun && e.mask.Len() > known {
		e.send("", event.Masked{Digest: digest})
	}
}

func (e *emitter) knows(text string) bool {
	e.secretsMu.Lock()
	defer e.secretsMu.Unlock()
	return e.secrets[text]
}

// tell reports whether one more mask gets a digest.
func (e *emitter) tell() bool {
	e.secretsMu.Lock()
	defer e.secretsMu.Unlock()
	e.told++
	return e.told <= maxToldMasks
}

// addMadeUp makes a text masked that was made for this run alone: what is recorded of values that hold it is the same in another run.
func (e *emitter) addMadeUp(text string) {
	e.addSecret(text)
	e.secretsMu.Lock()
	defer e.secretsMu.Unlock()
	if text != "" && !slices.Contains(e.madeUp, text) {
		e.madeUp = append(e.madeUp, text)
	}
}

// addSensitive makes every sensitive part of the values masked from now on.
func (e *emitter) addSensitive(values map[string]value.Value) {
	for _, v := range values {
		v.Secrets(e.addSecret)
	}
}

// component returns the component as events show it: a keyed digest stands for the default of a sensitive input or output,
// which is masked from now on.
func (e *emitter) component(c *plan.Component) *plan.Component {
	shown := *c
	shown.Spec.Inputs, shown.Spec.Outputs = maps.Clone(c.Spec.Inputs), maps.Clone(c.Spec.Outputs)
	for name, in := range c.Spec.Inputs {
		in.Default = e.recordDefault(in.Default, in.Sensitive)
		shown.Spec.Inputs[name] = in
	}
	for name, out := range c.Spec.Outputs {
		out.Default = e.recordDefault(out.Default, out.Sensitive)
		shown.Spec.Outputs[name] = out
	}
	shown.Definition.Steps = e.recordGiven(c.Definition.Steps)
	shown.Definition.Context, _ = e.recordFields(c.Definition.Context)
	return &shown
}

// recordFields puts keyed digests in the place of the sensitive values among the fields.
func (e *emitter) recordFields(fields map[string]plan.Field) (shown map[string]plan.Field, changed bool) {
	shown = fields
	for name, f := range fields {
		if !f.Value.Sensitive() {
			continue
		}
		f.Value.Secrets(e.addSecret)
		if !changed {
			shown, changed = maps.Clone(fields), true
		}
		shown[name] = plan.Field{Value: e.record(f.Value), Span: f.Span}
	}
	return shown, changed
}

// recordGiven puts keyed digests in the place of sensitive values that are given to steps as they are: whoever started the run
// has them from elsewhere than the text of the steps.
func (e *emitter) recordGiven(steps []plan.Step) []plan.Step {
	shown := steps
	for i := range steps {
		inputs, changed := e.recordFields(steps[i].Inputs)
		if !changed {
			continue
		}
		if &shown[0] == &steps[0] {
			shown = slices.Clone(steps)
		}
		shown[i].Inputs = inputs
	}
	return shown
}

// addPasswords makes the passwords masked that stand in the URLs of a definition's text.
func (e *emitter) addPasswords(text []byte) {
	for _, secret := range source.Passwords(string(text)) {
		if !expr.Has(secret) { // what an expression makes is known when it has been evaluated
			e.addSecret(secret)
		}
	}
}

func (e *emitter) recordDefault(v *value.Value, sensitive bool) *value.Value {
	if v == nil || !sensitive {
		return v
	}
	marked := v.Mark(true)
	marked.Secrets(e.addSecret)
	recorded := e.record(marked)
	return &recorded
}

// digest returns the keyed digest of a sensitive text: enough to tell whether another run had the same one.
// Of a text that holds a placeholder it is event.Placeholder.
func (e *emitter) digest(text string) string {
	if e.holdsPlaceholder(text) {
		return event.Placeholder
	}
	e.secretsMu.Lock()
	defer e.secretsMu.Unlock()
	for _, madeUp := range e.madeUp {
		text = strings.ReplaceAll(text, madeUp, mask.Replacement)
	}
	if d, ok := e.digests[text]; ok {
		return d
	}
	d := Digest(e.key, text)
	e.digests[text] = d
	return d
}

func (e *emitter) holdsPlaceholder(text string) bool {
	return slices.ContainsFunc(e.placeholders, func(placeholder string) bool { return strings.Contains(text, placeholder) })
}

// record returns the value as events show it: every sensitive part replaced by its digest.
func (e *emitter) record(v value.Value) value.Value {
	if v.Marked() {
		return event.Redacted(e.digest(v.Text()))
	}
	if !v.Sensitive() {
		return v
	}
	switch v.Kind() {
	case value.Array:
		items := make([]value.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = e.record(item)
		}
		return value.OfArray(items)
	default: // a struct: only containers are sensitive without being marked
		return value.OfStruct(e.recordAll(v.Fields()))
	}
}

func (e *emitter) recordAll(values map[string]value.Value) map[string]value.Value {
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]value.Value, len(values))
	for name, v := range values {
		out[name] = e.record(v)
	}
	return out
}

// shownText returns a text as events show it where only text can stand.
func (e *emitter) shownText(text string, sensitive bool) string {
	if text != "" && (sensitive || e.holdsPlaceholder(text)) {
		return "[sensitive " + e.digest(text) + "]"
	}
	return text
}
