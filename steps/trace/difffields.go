package trace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// fields collects what differs in one step, or in the run itself.
type fields struct {
	d       *differ
	path    []string
	attempt int // that of the changes that are added now; 0 when there is only one
	changes []Change
}

// run compares what belongs to no step.
func (d *differ) run() {
	f := &fields{d: d}
	a, b := d.a.Run, d.b.Run
	f.text("status", string(a.Status), string(b.Status))
	f.number("exit_code", a.ExitCode, b.ExitCode)
	f.text("error", errorText(a.Error, (*event.Error).Error), errorText(b.Error, (*event.Error).Error))
	f.text("stopping", stopReason(a.Stopping), stopReason(b.Stopping))
	f.text("runtime.version", d.a.Runtime.Version, d.b.Runtime.Version)
	f.text("runtime.digest", d.a.Runtime.Digest, d.b.Runtime.Digest)
	f.text("runtime.os", d.a.Runtime.OS, d.b.Runtime.OS)
	f.text("runtime.arch", d.a.Runtime.Arch, d.b.Runtime.Arch)
	f.text("environment", placeText(a.Environment), placeText(b.Environment))
	f.text("source", a.Source, b.Source)
	f.definition("component", "", "", a.Component, b.Component)
	f.values("inputs", a.Inputs, b.Inputs)
	f.texts("env", a.Env, b.Env)
	f.texts("job", a.Job, b.Job)
	f.values("secrets", digests(a.Secrets), digests(b.Secrets))
	f.values("outputs", a.Outputs, b.Outputs)
	f.text("warnings", warningText(d.a), warningText(d.b))
	d.out.Run = f.changes
	if !d.a.Incomplete && !d.b.Incomplete {
		d.time(nil, TimeChange{A: a.Duration, B: b.Duration})
	}
}

// time adds a pair of durations.
func (d *differ) time(path []string, t TimeChange) {
	t.Path = path
	if t.A > 0 {
		t.Ratio = float64(t.B) / float64(t.A)
	}
	low, high := min(t.A, t.B), max(t.A, t.B)
	t.Notable = high-low > NotableAmount && float64(high) > NotableFactor*float64(low)
	d.out.Times = append(d.out.Times, t)
}

// placeText says what kind of place a run had, "" for its machine itself: the level, and the images of the run and its services.
func placeText(env *event.Environment) string {
	if env == nil || env.Level == "none" {
		return ""
	}
	lines := []string{env.Level}
	name := func(what string, i event.Image) {
		lines = append(lines, strings.TrimSpace(what+" "+i.Name+" "+i.Digest))
	}
	if env.Image != nil {
		name("image", *env.Image)
	}
	for _, s := range env.Services {
		name("service", s.Made())
	}
	return strings.Join(lines, "\n")
}

func stopReason(s *Stopping) string {
	if s == nil {
		return ""
	}
	return s.Reason
}

// digests are the secrets of a run as what stands for sensitive values elsewhere.
func digests(secrets map[string]string) map[string]value.Value {
	out := make(map[string]value.Value, len(secrets))
	for name, digest := range secrets {
		out[name] = event.Redacted(digest)
	}
	return out
}

func warningText(t *Trace) string {
	var lines []string
	for _, w := range t.Warnings {
		if !w.Machine {
			lines = append(lines, w.Message)
		}
	}
	slices.Sort(lines) // those of parallel steps come in any order
	return strings.Join(lines, "\n")
}

// step compares two steps that match, and those inside them.
func (d *differ) step(path []string, a, b *Step) {
	s := &StepDifference{Path: path, IDA: a.ID, IDB: b.ID}
	d.steps = append(d.steps, s)
	f := &fields{d: d, path: path}
	if a.Title == "" || a.Title != b.Title { // else the name was made from the step's place
		f.text("name", a.Name, b.Name)
	}
	f.text("title", a.Title, b.Title)
	f.text("status", string(a.Status), string(b.Status))
	f.text("allowed", yes(a.Allowed), yes(b.Allowed))
	f.text("skip_reason", a.Skipped, b.Skipped)
	f.number("exit_code", a.ExitCode, b.ExitCode)
	f.text("error", errorText(a.Error, errorMessage), errorText(b.Error, errorMessage))
	if a.Status != event.Skipped && b.Status != event.Skipped {
		f.given(a, b)
		f.attempts(a, b)
		d.logOf(s, a, b)
		if a.Status != event.Running && b.Status != event.Running {
			d.time(path, TimeChange{A: a.Duration, B: b.Duration})
		}
		f.values("outputs", a.Outputs, b.Outputs)
		f.texts("exports", a.Exports, b.Exports)
		f.text("annotations", annotationText(a, d.logA), annotationText(b, d.logB))
		f.text("summary", summaryText(a, d.logA), summaryText(b, d.logB))
		f.texts("subjects", subjectTexts(a), subjectTexts(b))
		d.list(path, a.Steps, b.Steps)
	}
	s.Changes = f.changes
}

// programText is a program's path, version and digest, and those of its interpreter.
func programText(plain places, p *event.Program) string {
	text := plain.text(p.Path)
	if p.Version != "" {
		text += " (" + p.Version + ")"
	}
	if text += " " + p.Digest; p.Interpreter != nil {
		text += ", interpreted by " + programText(plain, p.Interpreter)
	}
	return text
}

// imageText is what an image of a step's container was: its content, or where that is not known its name.
func imageText(i *containers.StepImage) string { return strings.TrimSpace(i.Name + " " + i.Digest) }

func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// given compares what a step is and what its caller gave it.
func (f *fields) given(a, b *Step) {
	f.text("kind", string(a.Kind), string(b.Kind))
	f.text("ref", a.Ref, b.Ref)
	var ra, rb Resolved
	if a.Resolved != nil {
		ra = *a.Resolved
	}
	if b.Resolved != nil {
		rb = *b.Resolved
	}
	if ra.Ref != a.Ref || rb.Ref != b.Ref {
		f.text("resolved.ref", ra.Ref, rb.Ref)
	}
	f.text("resolved.file", ra.File, rb.File)
	f.text("resolved.origin", ra.Origin.String(), rb.Origin.String())
	field := "definition"
	if ra.Digest != "" && rb.Digest != "" {
		field = "resolved.digest"
	}
	f.definition(field, ra.Digest, rb.Digest, f.d.a.definition(a), f.d.b.definition(b))
	f.values("inputs", a.Inputs, b.Inputs)
	f.texts("env", a.Env, b.Env)
	f.texts("secrets", set(a.Secrets), set(b.Secrets))
	f.texts("permission", a.Permissions, b.Permissions)
}

// definition returns what the step is made of; nil when it is not in the trace.
func (t *Trace) definition(s *Step) *plan.Component {
	if s.Definition == nil && s.Resolved != nil {
		return t.Components[s.Resolved.Key()]
	}
	return s.Definition
}

// set returns names as a map to nothing, to be compared as variables are.
func set(names []string) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[name] = ""
	}
	return out
}

// attempts compares the processes of a step: as many as there are in both, and how many there are.
func (f *fields) attempts(a, b *Step) {
	na, nb := len(a.Attempts), len(b.Attempts)
	if na != nb {
		f.number("attempts", &na, &nb)
	}
	inherited := map[string]bool{} // what is known of the step's own variables already
	for _, c := range f.changes {
		if c.Field == "env" {
			inherited[c.Name] = true
		}
	}
	for i := range min(na, nb) {
		x, y := a.Attempts[i], b.Attempts[i]
		if max(na, nb) > 1 {
			f.attempt = i + 1
			f.number("exit_code", x.ExitCode, y.ExitCode)
		}
		f.text("command", commandText(f.d.plainA.words(x.Command)), commandText(f.d.plainB.words(y.Command)))
		f.text("work_dir", x.WorkDir, y.WorkDir)
		f.text("signal", x.Signal, y.Signal)
		if x.Program != nil && y.Program != nil { // else one of them is of a version that did not record it
			f.text("program", programText(f.d.plainA, x.Program), programText(f.d.plainB, y.Program))
		}
		if x.Image != nil && y.Image != nil {
			f.text("image", imageText(x.Image), imageText(y.Image))
		}
		f.texts("env", without(f.d.plainA.beyond(x.Env), inherited), without(f.d.plainB.beyond(y.Env), inherited))
		f.texts("unset", set(x.Unset), set(y.Unset))
	}
	f.attempt = 0
}

// words returns a command with the run's folders replaced, before it is quoted.
func (p *places) words(command []string) []string {
	out := make([]string, len(command))
	for i, word := range command {
		out[i] = p.text(word)
	}
	return out
}

func without(texts map[string]string, names map[string]bool) map[string]string {
	out := maps.Clone(texts)
	maps.DeleteFunc(out, func(name, _ string) bool { return names[name] })
	return out
}

// errorText is what an error tells people; "" is none.
func errorText(e *event.Error, text func(*event.Error) string) string {
	switch {
	case e == nil:
		return ""
	case e.Kind == event.ErrorStep:
		return text(e)
	default:
		return fmt.Sprintf("%s (%s)", text(e), e.Kind)
	}
}

// errorMessage is the text of an error without the step that it began in: the difference is shown at a step.
func errorMessage(e *event.Error) string { return e.Message }

// text compares a field for which "" is the same as none.
func (f *fields) text(field, a, b string) {
	var x, y *value.Value
	if a != "" {
		x = textValue(a)
	}
	if b != "" {
		y = textValue(b)
	}
	f.add(field, "", x, y)
}

func textValue(s string) *value.Value {
	v := value.OfString(s)
	return &v
}

func (f *fields) number(field string, a, b *int) {
	var x, y *value.Value
	if a != nil {
		v := value.OfInt(int64(*a))
		x = &v
	}
	if b != nil {
		v := value.OfInt(int64(*b))
		y = &v
	}
	f.add(field, "", x, y)
}

func (f *fields) texts(field string, a, b map[string]string) {
	f.values(field, valuesOf(a), valuesOf(b))
}

func valuesOf(texts map[string]string) map[string]value.Value {
	out := make(map[string]value.Value, len(texts))
	for name, text := range texts {
		out[name] = value.OfString(text)
	}
	return out
}

func (f *fields) values(field string, a, b map[string]value.Value) {
	names := slices.Collect(maps.Keys(a))
	names = slices.AppendSeq(names, maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		var x, y *value.Value
		if v, ok := a[name]; ok {
			x = &v
		}
		if v, ok := b[name]; ok {
			y = &v
		}
		f.add(field, name, x, y)
	}
}

// add compares two values, of which nil is none, and adds what differs.
func (f *fields) add(field, name string, a, b *value.Value) {
	if a != nil && b != nil && (holdsPlaceholder(*a) || holdsPlaceholder(*b)) && f.same(samePlaceholders(*a, *b)) {
		f.d.out.NotCompared = append(f.d.out.NotCompared, NotCompared{Path: f.path, Field: field, Name: name, Placeholder: true})
		return
	}
	if a != nil && b != nil && value.Equal(*a, *b) { // also where it lies in the folders of one run alone
		return
	}
	if a != nil {
		v := f.d.plainA.value(*a)
		a = &v
	}
	if b != nil {
		v := f.d.plainB.value(*b)
		b = &v
	}
	if a == nil && b == nil || a != nil && b != nil && value.Equal(*a, *b) {
		return
	}
	if a != nil && b != nil && !f.d.sameKey && value.Equal(withoutDigests(*a), withoutDigests(*b)) {
		f.d.out.NotCompared = append(f.d.out.NotCompared, NotCompared{Path: f.path, Field: field, Name: name})
		return
	}
	c := Change{Field: field, Name: name, Attempt: f.attempt, A: a, B: b}
	if at, bt := stringOf(a), stringOf(b); strings.Contains(at, "\n") || strings.Contains(bt, "\n") {
		c.Lines = diffLines(splitLines(at), splitLines(bt))
	}
	f.changes = append(f.changes, c)
}

// same reports whether two values are the same as far as their digests can be compared.
func (f *fields) same(a, b value.Value) bool {
	return value.Equal(a, b) || !f.d.sameKey && value.Equal(withoutDigests(a), withoutDigests(b))
}

func stringOf(v *value.Value) string {
	if v == nil {
		return ""
	}
	return v.Str()
}

// withoutDigests makes all stand-ins of sensitive values in v the same.
func withoutDigests(v value.Value) value.Value {
	if _, ok := event.IsRedacted(v); ok {
		return event.Redacted("")
	}
	switch v.Kind() {
	case value.String:
		return value.OfString(hideDigests(v.Str()))
	case value.Array:
		items := make([]value.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = withoutDigests(item)
		}
		return value.OfArray(items)
	case value.Struct:
		fields := make(map[string]value.Value, len(v.Fields()))
		for key, field := range v.Fields() {
			fields[key] = withoutDigests(field)
		}
		return value.OfStruct(fields)
	}
	return v
}

// keyedDigest is a digest of a sensitive value inside a text: of a variable, or of a default in a definition.
var keyedDigest = lazyregexp.New(`(?:\[sensitive )?pbkdf2-sha256:[0-9a-f]+\]?`)

func hideDigests(s string) string {
	if !strings.Contains(s, "pbkdf2-sha256:") {
		return s
	}
	return keyedDigest().ReplaceAllLiteralString(s, sensitiveText)
}

// definition compares definitions, by their digests where both have one, and says which lines of their canonical JSON differ.
func (f *fields) definition(field, digestA, digestB string, a, b *plan.Component) {
	if digestA != "" && digestA == digestB {
		return
	}
	x, y := f.d.plainA.canonical(a), f.d.plainB.canonical(b)
	if x == y && (digestA == "" || digestB == "") {
		return
	}
	if !f.d.sameKey {
		shownX, shownY := hideDigests(x), hideDigests(y)
		if shownX == shownY && x != y && (digestA == "" || digestB == "") {
			f.d.out.NotCompared = append(f.d.out.NotCompared, NotCompared{Path: f.path, Field: field})
			return
		}
		x, y = shownX, shownY
	}
	c := Change{Field: field, Lines: diffLines(splitLines(x), splitLines(y))}
	if digestA != "" {
		c.A = textValue(digestA)
	}
	if digestB != "" {
		c.B = textValue(digestB)
	}
	f.changes = append(f.changes, c)
}

// canonical returns the text of a definition; "" when there is none.
func (p *places) canonical(c *plan.Component) string {
	if c == nil {
		return ""
	}
	text, err := plan.Canonical(c)
	if err != nil {
		return err.Error() + "\n"
	}
	return p.text(string(text))
}
