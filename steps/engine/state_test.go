package engine

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// answers say of every field that lives longer than a step how it gets to another process. Whoever adds a field adds its answer here, and
// the code and the test for it where it moves.
var answers = map[reflect.Type]map[string]string{
	reflect.TypeFor[run](): {
		"opts": "given again", "out": "masks, made-up secrets and the key move", "base": "moves", "dirs": "made again; files are copied", "shells": "found again",
		"places": "read again", "jobAll": "given again", "jobOpen": "given again", "services": "move if they are Movable", "hooks": "move",
		"id": "a new one", "from": "of this process", "clock": "what is left moves", "moved": "of this process",
		"components": "announced again", "report": "of this process", "recording": "of replays, which do not move", "confinement": "said again",
	},
	reflect.TypeFor[components](): {
		"out": "-", "places": "-", "keep": "of this process", "mu": "-", "seen": "announced again", "loaded": "looked at before the first step", "reads": "computed again", "encounters": "those of hooks move",
	},
	reflect.TypeFor[listRun](): {
		"run": "-", "ctx": "of this process", "scope": "moves", "prefix": "of the run's own list", "state": "moves", "cleanup": "no boundary while it is set",
		"background": "those that have ended move", "slots": "free at a boundary",
	},
	reflect.TypeFor[listState](): {
		"failed": "moves", "cancelled": "moves", "first": "moves", "cut": "moves", "counts": "moves", "live": "of this process",
	},
	reflect.TypeFor[scope](): {
		"view": "moves", "parent": "found again", "secrets": "moves", "barrier": "of a step under way", "depth": "moves", "call": "found again",
	},
	reflect.TypeFor[view](): {
		"run": "-", "dir": "found again", "workDir": "given again", "inputs": "moves", "env": "moves", "own": "moves", "known": "moves",
		"may": "computed again", "granted": "while the env of a step is evaluated",
		"list": "set where it is used", "steps": "moves", "files": "of a process", "top": "moves", "path": "moves", "origin": "found again", "context": "moves",
	},
	reflect.TypeFor[hooks](): {
		"expected": "only for Pre, which has run", "top": "found again", "names": "moves", "told": "moves", "early": "moves", "mu": "-", "posts": "moves",
	},
	reflect.TypeFor[hook](): {"scope": "moves", "over": "moves", "inv": "moves", "early": "moves"},
	reflect.TypeFor[invocation](): {
		"id": "moves", "step": "found again", "spec": "found again", "def": "found again", "found": "loaded again", "given": "moves", "state": "moves",
		"attempt": "of a step under way", "log": "of a step under way", "stacked": "of a step under way", "apart": "of a step under way", "path": "of a step under way",
	},
	reflect.TypeFor[outcome](): {
		"status": "moves", "allowed": "moves", "outputs": "moves", "exports": "moves", "exitCode": "moves", "err": "moves", "counts": "moves", "cut": "moves", "late": "moves",
	},
	reflect.TypeFor[background](): {
		"id": "moves", "step": "found again", "cancel": "-", "barrier": "its exports move", "done": "closed at a boundary", "outcome": "moves", "bug": "none at a boundary",
		"asked": "moves", "settled": "moves",
	},
	reflect.TypeFor[emitter](): {
		"sink": "given again", "mask": "made again", "key": "moves", "mu": "-", "seq": "begins with 1", "ended": "of this process", "secretsMu": "-", "secrets": "moves",
		"given": "given again", "placeholders": "given again", "digests": "computed again", "madeUp": "moves", "maskMu": "-", "told": "begins with 0",
	},
}

func TestEveryFieldThatOutlivesAStepHasAnAnswerAtABoundary(t *testing.T) {
	t.Parallel()
	for typ, fields := range answers {
		there := map[string]bool{}
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			there[name] = true
			if fields[name] == "" {
				t.Errorf("%s.%s is new: how does it get to the process in which the run goes on?", typ.Name(), name)
			}
		}
		for name := range fields {
			if !there[name] {
				t.Errorf("%s.%s is gone", typ.Name(), name)
			}
		}
	}
}

// awkward is a document with texts and values of all sorts.
func awkward() *document {
	five := 5
	fields := map[string]value.Value{
		"null": {}, "int": value.OfInt(math.MaxInt64), "float": value.OfFloat(1.5e300), "bool": value.OfBool(true), "text": value.OfString("a\x00b\u2028<&>\"\\"),
		"bytes": value.OfString("\xff\xfe"), "$secret": value.OfString("a key like ours"), "empty": value.OfStruct(nil), "none": value.OfArray(nil),
		"list":  value.OfArray([]value.Value{value.OfInt(1), value.OfStruct(map[string]value.Value{"fields": value.OfArray(nil), "marked": value.OfString("x")})}),
		"short": value.OfString("pw").Mark(true), "flag": value.OfBool(false).Mark(true), "nothing": value.Value{}.Mark(true), "raw": value.OfString("\xff").Mark(true),
		"holder":   value.OfStruct(map[string]value.Value{"in": value.OfString("inner-secret").Mark(true), "out": value.OfInt(2)}),
		"whole":    value.OfStruct(map[string]value.Value{"in": value.OfString("deep-secret").Mark(true)}).Mark(true),
		"folder":   value.OfString("/old/folder/tmp:/old/folder-2:/old/folder"),
		"a secret": value.OfString("the-token-itself"),
		"derived":  value.OfString("Bearer the-token-itself"),
	}
	return &document{
		Format: StateFormat, Run: "r", Before: "3", DigestKey: strings.Repeat("0", 2*digestKeySize), Folder: "/old/folder", WorkDir: text{string: "/w"},
		Base: encodedVariables(map[string]variable{"HOME": {text: "/old/folder/home"}, "BYTES": {text: "\xff"}}),
		Env:  encodedVariables(map[string]variable{"PW": {"pw", true}, "TOKEN": {"the-token-itself", true}, "$sensitive": {text: "1"}}),
		List: encodedList{Failed: true, First: &encodedOutcome{
			Status: event.Failure, ExitCode: &five, Error: event.NewError(event.CodeExitStatus, "it said the-token-itself"), Outputs: encodedFields(fields),
		}},
		Steps: encodedFields(fields),
		Masks: []text{{"derived-mask", true}},
	}
}

func seal(t *testing.T, d *document) *State {
	t.Helper()
	out := newEmitter(nil, make([]byte, digestKeySize))
	for _, secret := range []string{"the-token-itself", "inner-secret", "deep-secret", "derived-mask"} {
		out.addSecret(secret)
	}
	s, err := d.seal(out, map[string]string{"TOKEN": "the-token-itself"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStateReadsBackAsItWas(t *testing.T) {
	t.Parallel()
	s := seal(t, awkward())
	for _, secret := range []string{"the-token-itself", "inner-secret", "deep-secret", "derived-mask", `"pw"`} {
		if bytes.Contains(s.Document, []byte(secret)) {
			t.Errorf("%s is in the document", secret)
		}
	}
	d, err := s.open(func(name string) (string, error) { return map[string]string{"TOKEN": "the-token-itself"}[name], nil }, "/new")
	if err != nil {
		t.Fatal(err)
	}
	want := fields(awkward().Steps)
	want["folder"] = value.OfString("/new/tmp:/old/folder-2:/new")
	// What is in a value that is marked as a whole needs no mark of its own.
	want["whole"] = value.OfStruct(map[string]value.Value{"in": value.OfString("deep-secret")}).Mark(true)
	same := cmp.Comparer(func(a, b value.Value) bool { return reflect.DeepEqual(shape(a), shape(b)) })
	if diff := cmp.Diff(want, fields(d.Steps), same); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, d.List.First.outcome().outputs, same); diff != "" {
		t.Error(diff)
	}
	wantEnv := map[string]variable{"PW": {"pw", true}, "TOKEN": {"the-token-itself", true}, "$sensitive": {text: "1"}}
	if got := variables(d.Env); !reflect.DeepEqual(got, wantEnv) {
		t.Errorf("%v", got)
	}
	if got := variables(d.Base); !reflect.DeepEqual(got, map[string]variable{"HOME": {text: "/new/home"}, "BYTES": {text: "\xff"}}) {
		t.Errorf("%v", got)
	}
	if o := d.List.First.outcome(); *o.exitCode != 5 || o.err.Message != "it said the-token-itself" || o.err.Code != event.CodeExitStatus {
		t.Errorf("%+v", o)
	}
	if d.Masks[0].string != "derived-mask" || d.Folder != "/old/folder" {
		t.Errorf("%+v", d)
	}
}

// shape is a value with its marks.
func shape(v value.Value) any {
	switch v.Kind() {
	case value.Array:
		out := []any{v.Marked()}
		for _, item := range v.Items() {
			out = append(out, shape(item))
		}
		return out
	case value.Struct:
		out := map[string]any{"": v.Marked()}
		for name, field := range v.Fields() {
			out["."+name] = shape(field)
		}
		return out
	default:
		return []any{v.Kind(), v.Marked(), v.Text()}
	}
}

func TestTheSameStateIsTheSameText(t *testing.T) {
	t.Parallel()
	a, b := seal(t, awkward()), seal(t, awkward())
	if !bytes.Equal(a.Document, b.Document) || !reflect.DeepEqual(a.Sensitive, b.Sensitive) {
		t.Error("it differs")
	}
	if !json.Valid(a.Document) || bytes.Contains(a.Document, []byte("\n")) {
		t.Errorf("%s", a.Document)
	}
}

func FuzzParseState(f *testing.F) {
	d := awkward()
	data, err := json.Marshal(d)
	if err != nil {
		f.Fatal(err)
	}
	tree, err := parseTree(data)
	if err != nil {
		f.Fatal(err)
	}
	h := &hider{masked: func(string) bool { return false }, found: map[string]int{}}
	if tree, err = h.hide(tree); err != nil {
		f.Fatal(err)
	}
	document, err := canonicalJSON(tree)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := ParseState(document, h.list); err != nil {
		f.Fatal(err)
	}
	f.Add(document, []byte(`{"fields":[]}`))
	f.Add([]byte(`{"format":"rung.state/v1"}`), []byte("x"))
	f.Fuzz(func(t *testing.T, document, sensitive []byte) {
		all := append([][]byte{sensitive}, h.list...)
		s, err := ParseState(document, all)
		if err != nil {
			return
		}
		d, err := s.open(func(string) (string, error) { return "secret", nil }, "/elsewhere")
		if err != nil {
			t.Fatalf("what was accepted once is not again: %v", err)
		}
		// What is read is what can be written: the run could be moved on.
		if again, err := d.seal(newEmitter(nil, make([]byte, digestKeySize)), nil); err != nil {
			t.Fatalf("what was read cannot be written: %v\n%v", err, again)
		}
	})
}

// BenchmarkBoundary is what a boundary costs a step of a run that can be paused and is not.
func BenchmarkBoundary(b *testing.B) {
	l := &listRun{run: &run{opts: Options{Control: &Control{}}}}
	for b.Loop() {
		l.boundary("1", "step")
	}
}
