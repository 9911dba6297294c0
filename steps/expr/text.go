package expr

import (
	"strings"

	"github.com/rungci/rung/steps/value"
)

const tooMuchText = "the text would be longer than %d bytes"

// minSecret is how long a secret must be, in bytes without white space, for what is around it to be shown: shorter ones are not masked (mask.MinLength).
const minSecret = 4

// textBuilder joins values as text, up to MaxText. What it makes is sensitive when any of the values is, for the secrets in it alone.
type textBuilder struct {
	text    strings.Builder
	secrets []string
	whole   bool // no part of it may be shown
}

// add appends a value; it returns false when the text would become too long.
func (b *textBuilder) add(v value.Value) bool {
	budget := MaxText - b.text.Len()
	if !fits(v, &budget) {
		return false
	}
	if v.Sensitive() {
		known := len(b.secrets)
		v.Secrets(func(text string) {
			b.secrets = append(b.secrets, text)
			b.whole = b.whole || len(strings.Join(strings.Fields(text), "")) < minSecret
		})
		b.whole = b.whole || len(b.secrets) == known
	}
	b.text.WriteString(v.Text())
	return b.text.Len() <= MaxText
}

func (b *textBuilder) value() value.Value {
	return value.OfString(b.text.String()).MarkFor(b.secrets).Mark(b.whole)
}

// fits takes the size of the value's text off the budget, and reports whether that is enough. It is an estimate from below,
// and cheap: an array of a million times the same long string takes little memory until it becomes text.
func fits(v value.Value, budget *int) bool {
	*budget -= len(v.Str())
	for _, item := range v.Items() {
		*budget--
		if *budget < 0 || !fits(item, budget) {
			return false
		}
	}
	for key, item := range v.Fields() {
		*budget -= len(key) + 1
		if *budget < 0 || !fits(item, budget) {
			return false
		}
	}
	return *budget >= 0
}
