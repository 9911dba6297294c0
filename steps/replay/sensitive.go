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
	needs   *Needs
	key     []byte
	used    map[string]bool
	missing []string // what has to be given, for people
	changed []string // what was given and is not what it was
	known   []string // the names that can be given

	placeholders map[string]string // of what no step names, by name
}

func newGiven(t *trace.Trace, o *Options, p *part) (*given, error) {
	key, err := digestKey(&t.Run)
	if err != nil {
		return nil, err
	}
	return &given{
		opts: o, needs: newNeeds(t, p, o), key: key, used: withheldOutside(t.Run.Environment), placeholders: map[string]string{},
	}, nil
}

// digestKey is the key of a run's digests; nil if there is none.
func digestKey(run *trace.Run) ([]byte, error) {
	key, err := hex.DecodeString(run.DigestKey)
	if err != nil || len(key) > maxKey {
		return nil, wrong("the trace is damaged: its digest_key is not a key")
	}
	if len(key) == 0 {
		return nil, nil
	}
	return key, nil
}

// withheldOutside are the names of what the run's place was made with, which steps need not know.
func withheldOutside(env *event.Environment) map[string]bool {
	names := map[string]bool{}
	if env == nil {
		return names
	}
	for name := range env.Variables {
		names[name] = true
	}
	for i := range env.Services {
		for name := range env.Services[i].Variables {
			names[name] = true
		}
	}
	for _, f := range env.Files {
		names[f.Name] = true
	}
	return names
}

func (g *given) secrets(t *trace.Trace) map[string]string {
	secrets := map[string]string{}
	for _, name := range sortedKeys(t.Run.Secrets) {
		if text, ok := g.takeNamed("secret", name, t.Run.Secrets[name]); ok {
			secrets[name] = text
		}
	}
	return secrets
}

// takeNamed is take for what need not be given where no step names it.
func (g *given) takeNamed(kind, name, digest string) (text string, ok bool) {
	if _, ok := g.needs.Given(name); ok || g.needs.Named(name) {
		return g.take(kind, name, digest)
	}
	return g.placeholder(name), true
}

// placeholder returns what stands for a value that was not given.
func (g *given) placeholder(name string) string {
	name = g.needs.Shown(name)
	g.known = append(g.known, name)
	g.placeholders[name] = Placeholder(name)
	return g.placeholders[name]
}

// take returns the value of something sensitive; false where it has to be given first, or is another. An empty digest can be
// compared with nothing.
func (g *given) take(kind, name, digest string) (text string, ok bool) {
	shown := g.needs.Shown(name)
	g.known = append(g.known, shown)
	g.used[name], g.used[ownName(name)] = true, true
	text, ok = g.needs.Given(name)
	switch {
	case !ok:
		g.missing = append(g.missing, kind+" "+shown)
	case digest == "" || digest == event.Placeholder || g.key == nil || g.opts.OtherSecrets:
	case engine.Digest(g.key, text) != digest:
		g.changed = append(g.changed, kind+" "+shown)
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
				slices.Sort(g.known)
				e.Hint = "it had " + strings.Join(slices.Compact(g.known), ", ")
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
	if digest, ok := sensitiveDigest(recorded); ok {
		text, ok = g.takeNamed(kind, name, digest)
		return text, true, ok
	}
	if !strings.Contains(recorded, mask.Replacement) {
		return recorded, false, true
	}
	if _, ok := g.needs.Given(name); ok || g.needs.Named(name) {
		text, ok = g.take(kind, name, "")
		return text, false, ok
	}
	return strings.ReplaceAll(recorded, mask.Replacement, g.placeholder(name)), false, true
}

// sensitiveDigest returns the digest of a text of the trace that stands for a sensitive one.
func sensitiveDigest(recorded string) (digest string, ok bool) {
	if digest, ok = strings.CutPrefix(recorded, sensitivePrefix); !ok {
		return "", false
	}
	return strings.CutSuffix(digest, sensitiveSuffix)
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
