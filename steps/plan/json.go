package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// fieldJSON is the form of a Field that carries its span. Its keys cannot be taken for those of a value that is a struct.
type fieldJSON struct {
	Value *value.Value        `json:"$value"`
	Span  *diag.Span          `json:"$span"`
	Lines [][]diag.SourceLine `json:"$lines,omitempty"`
}

// MarshalJSON writes the bare value, or the value with its span where there is one.
func (f Field) MarshalJSON() ([]byte, error) {
	if f.Span.IsZero() && f.Lines == nil {
		return f.Value.MarshalJSON()
	}
	return json.Marshal(fieldJSON{&f.Value, &f.Span, f.Lines})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Field) UnmarshalJSON(data []byte) error {
	*f = Field{}
	var spanned fieldJSON
	if bytes.Contains(data, []byte(`"$span"`)) && json.Unmarshal(data, &spanned) == nil && spanned.Value != nil && spanned.Span != nil {
		f.Value, f.Span, f.Lines = *spanned.Value, *spanned.Span, spanned.Lines
		return nil
	}
	return f.Value.UnmarshalJSON(data)
}

// MarshalText writes the duration as Go does ("1m30s").
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Canonical returns the component as indented JSON that depends on its meaning alone: keys in a fixed order, no spans, a
// newline at the end. The same text always parses back to an equal component.
func Canonical(c *Component) ([]byte, error) { return encode(Bare(c)) }

// Bare returns the component without the places of what is in it, as records have it: a field with a place does not read back as the same
// field. Its values are those of c. Nil stays nil.
func Bare(c *Component) *Component {
	if c == nil {
		return nil
	}
	bare := *c
	bare.stripSpans()
	return &bare
}

// WithSpans returns the component as Canonical does, with the place of everything in it.
func WithSpans(c *Component) ([]byte, error) { return encode(c) }

func encode(c *Component) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("encoding the plan: %w", err)
	}
	return buf.Bytes(), nil
}

// Parse reads what Canonical writes.
func Parse(data []byte) (*Component, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var c Component
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	return &c, nil
}

// stripSpans replaces every part that holds a span by a copy without it; what it shares with other components stays as it is.
func (c *Component) stripSpans() {
	c.Spec.Inputs = mapped(c.Spec.Inputs, func(in Input) Input {
		in.Span, in.Computed = diag.Span{}, bareFieldPointer(in.Computed)
		return in
	})
	c.Spec.Outputs = mapped(c.Spec.Outputs, func(out Output) Output { out.Span = diag.Span{}; return out })
	c.Spec.Env = mapped(c.Spec.Env, func(e EnvRequest) EnvRequest { e.Span = diag.Span{}; return e })
	c.Spec.Secrets = mapped(c.Spec.Secrets, func(s SecretRequest) SecretRequest { s.Span = diag.Span{}; return s })
	d := &c.Definition
	d.Span = diag.Span{}
	d.Env = mapped(d.Env, bareField)
	d.Outputs = mapped(d.Outputs, bareField)
	d.Context = mapped(d.Context, bareField)
	d.Exec = d.Exec.bare()
	d.Pre, d.Post = d.Pre.bare(), d.Post.bare()
	d.Steps = bareSteps(d.Steps)
}

func (h *Hook) bare() *Hook {
	if h == nil {
		return nil
	}
	return &Hook{Exec: h.Exec.bare(), If: bareFieldPointer(h.If)}
}

func bareField(f Field) Field { return Field{Value: f.Value} }

func bareFieldPointer(f *Field) *Field {
	if f == nil {
		return nil
	}
	return &Field{Value: f.Value}
}

func (e *Exec) bare() *Exec {
	if e == nil {
		return nil
	}
	out := *e
	out.Command = nil
	for _, arg := range e.Command {
		out.Command = append(out.Command, bareField(arg))
	}
	if e.Script != nil {
		out.Script = &Script{Text: bareField(e.Script.Text), Shell: e.Script.Shell}
	}
	out.WorkDir, out.LogFile = bareFieldPointer(e.WorkDir), bareFieldPointer(e.LogFile)
	return &out
}

func bareSteps(steps []Step) []Step {
	if steps == nil {
		return nil
	}
	out := make([]Step, len(steps))
	for i, s := range steps {
		s.Span = diag.Span{}
		s.Inputs, s.Env = mapped(s.Inputs, bareField), mapped(s.Env, bareField)
		s.If, s.TimeLimit = bareFieldPointer(s.If), bareFieldPointer(s.TimeLimit)
		if s.AllowFailure != nil {
			s.AllowFailure = &AllowFailure{If: bareFieldPointer(s.AllowFailure.If), ExitCodes: s.AllowFailure.ExitCodes}
		}
		s.Parallel = bareSteps(s.Parallel)
		if s.Ref != nil {
			ref := *s.Ref
			ref.Span, ref.Expr = diag.Span{}, bareFieldPointer(ref.Expr)
			s.Ref = &ref
		}
		if s.Inline != nil {
			inline := *s.Inline
			inline.stripSpans()
			s.Inline = &inline
		}
		out[i] = s
	}
	return out
}

func mapped[V any](in map[string]V, f func(V) V) map[string]V {
	if in == nil {
		return nil
	}
	out := make(map[string]V, len(in))
	for k, v := range in {
		out[k] = f(v)
	}
	return out
}
