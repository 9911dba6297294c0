package replay

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

// maxKey bounds the key of a trace's digests, in bytes; ours has 16.
const maxKey = 64

// given matches the values that the user gives with the digests that the trace has in their place.
type given struct {
	opts    *Options
	key     []byte
	secrets map[string]string
	used    map[string]bool
	missing []string // what has to be given, for people
	changed []string // what was given and is not what it was
	known   []string // the names that can be given
}

func newGiven(t *trace.Trace, o *Options) (*given, error) {
	key, err := hex.DecodeString(t.Run.DigestKey)
	if err != nil || len(key) > maxKey {
		return nil, wrong("the trace is damaged: its digest_key is not a key")
	}
	if len(key) == 0 {
		key = nil
	}
	g := &given{opts: o, key: key, secrets: map[string]string{}, used: map[string]bool{}}
	for _, name := range sortedKeys(t.Run.Secrets) {
		if text, ok := g.take("secret", name, t.Run.Secrets[name]); ok {
			g.secrets[name] = text
		}
	}
	return g, nil
}

// take returns the value of something sensitive; false where it has to be given first, or is another. An empty digest can be
// compared with nothing.
func (g *given) take(kind, name, digest string) (text string, ok bool) {
	g.known = append(g.known, name)
	g.used[name] = true
	text, ok = g.opts.Given[name]
	switch {
	case !ok:
		g.missing = append(g.missing, kind+" "+name)
	case digest == "" || g.key == nil || g.opts.OtherSecrets:
	case engine.Digest(g.key, text) != digest:
		g.changed = append(g.changed, kind+" "+name)
		return "", false
	}
	return text, ok
}

// finish is the error of all that is missing or another.
func (g *given) finish() error {
	switch {
	case len(g.missing) > 0:
		slices.Sort(g.missing)
		e := event.NewError(event.CodeSecretNotGranted, "the recorded run had sensitive values, which its trace does not hold: %s", strings.Join(slices.Compact(g.missing), ", "))
		e.Hint = g.missingHint()
		return e
	case len(g.changed) > 0:
		slices.Sort(g.changed)
		verb := " is not the same as in the recorded run"
		if len(slices.Compact(g.changed)) > 1 {
			verb = " are not the same as in the recorded run"
		}
		e := event.NewError(event.CodeDenied, "%s", strings.Join(slices.Compact(g.changed), ", ")+verb)
		e.Hint = "--other-secrets runs with them anyway"
		return e
	}
	for _, name := range sortedKeys(g.opts.Given) {
		if !g.used[name] {
			e := event.NewError(event.CodeNotFound, "the recorded run had nothing sensitive with the name %s", name)
			if near := diag.Suggest(name, g.known); near != "" {
				e.Hint = "did you mean " + near + "?"
			} else if len(g.known) > 0 {
				e.Hint = "it had " + strings.Join(g.known, ", ")
			}
			return e
		}
	}
	return nil
}

func (g *given) missingHint() string {
	hints := []string{}
	if slices.ContainsFunc(g.missing, func(s string) bool { return !strings.HasPrefix(s, environmentKind) }) {
		hints = append(hints, "pass each with --secret NAME, NAME=env:OTHER or NAME=@FILE")
	}
	if slices.ContainsFunc(g.missing, func(s string) bool { return strings.HasPrefix(s, environmentKind) }) {
		hints = append(hints, "give the environment variables, which hold a secret, with --env NAME or NAME=VALUE")
	}
	return strings.Join(hints, "; ")
}

// environmentKind is what variables of the base environment are called; they are given with --env.
const environmentKind = "environment variable"

// Forms of what is in a trace for sensitive text: see engine.
const (
	sensitivePrefix = "[sensitive "
	sensitiveSuffix = "]"
)

// text returns a text of the trace in which something sensitive may have been, which then is taken from what was given.
func (g *given) text(kind, name, recorded string) (text string, sensitive, ok bool) {
	digest, sensitive := strings.CutPrefix(recorded, sensitivePrefix)
	digest, closed := strings.CutSuffix(digest, sensitiveSuffix)
	switch {
	case sensitive && closed:
		text, ok = g.take(kind, name, digest)
		return text, true, ok
	case strings.Contains(recorded, mask.Replacement):
		text, ok = g.take(kind, name, "")
		return text, false, ok
	}
	return recorded, false, true
}

// value does so for a value of the trace.
func (g *given) value(kind, name string, typ value.Kind, recorded value.Value) (value.Value, bool) {
	if !withheld(recorded) {
		return recorded, true
	}
	digest, whole := event.IsRedacted(recorded)
	text, ok := g.take(kind, name, digest)
	if !ok {
		return value.Value{}, false
	}
	v := value.OfString(text)
	if typ != value.String {
		if parsed, err := value.ParseJSON([]byte(text)); err == nil {
			v = parsed
		}
	}
	return v.Mark(whole), true
}

// withheld reports whether a part of a recorded value is not there, because it is sensitive.
func withheld(v value.Value) bool {
	if _, ok := event.IsRedacted(v); ok {
		return true
	}
	switch v.Kind() {
	case value.String:
		return strings.Contains(v.Str(), mask.Replacement)
	case value.Array:
		return slices.ContainsFunc(v.Items(), withheld)
	case value.Struct:
		for name, field := range v.Fields() {
			if strings.Contains(name, mask.Replacement) || withheld(field) {
				return true
			}
		}
	}
	return false
}
