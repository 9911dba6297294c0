package expr

import (
	"strings"

	"github.com/rungci/rung/steps/value"
)

const tooMuchText = "the text would be longer than %d bytes"

// textBuilder joins values as text, up to MaxText. What it makes is sensitive when any of the values is.
type textBuilder struct {
	text      strings.Builder
	sensitive bool
}

// add appends a value; it returns false when the text would become too long.
func (b *textBuilder) add(v value.Value) bool {
	budget := MaxText - b.text.Len()
	if !fits(v, &budget) {
		return false
	}
	b.sensitive = b.sensitive || v.Sensitive()
	b.text.WriteString(v.Text())
	return b.text.Len() <= MaxText
}

func (b *textBuilder) value() value.Value { return value.OfString(b.text.String()).Mark(b.sensitive) }

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
