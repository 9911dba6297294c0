package trace

import (
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// placeholderText is what a variable is recorded as that holds a placeholder.
const placeholderText = "[sensitive " + event.Placeholder + "]"

// samePlaceholders returns two values with a placeholder wherever one of them has it and the other something sensitive.
func samePlaceholders(a, b value.Value) (value.Value, value.Value) {
	switch {
	case isPlaceholder(a) && isSensitive(b):
		return a, a
	case isPlaceholder(b) && isSensitive(a):
		return b, b
	case a.Kind() != b.Kind():
		return a, b
	case a.Kind() == value.Array && len(a.Items()) == len(b.Items()):
		x, y := make([]value.Value, len(a.Items())), make([]value.Value, len(a.Items()))
		for i := range x {
			x[i], y[i] = samePlaceholders(a.Items()[i], b.Items()[i])
		}
		return value.OfArray(x), value.OfArray(y)
	case a.Kind() == value.Struct:
		x, y := maps.Clone(a.Fields()), maps.Clone(b.Fields())
		for name, field := range x {
			if other, ok := y[name]; ok {
				x[name], y[name] = samePlaceholders(field, other)
			}
		}
		return value.OfStruct(x), value.OfStruct(y)
	}
	return a, b
}

// holdsPlaceholder reports whether a value, or a part of it, is a placeholder.
func holdsPlaceholder(v value.Value) bool {
	switch {
	case isPlaceholder(v):
		return true
	case v.Kind() == value.Array:
		return slices.ContainsFunc(v.Items(), holdsPlaceholder)
	case v.Kind() == value.Struct:
		return slices.ContainsFunc(slices.Collect(maps.Values(v.Fields())), holdsPlaceholder)
	}
	return false
}

func isPlaceholder(v value.Value) bool {
	digest, ok := event.IsRedacted(v)
	return ok && digest == event.Placeholder || v.Kind() == value.String && v.Str() == placeholderText
}

func isSensitive(v value.Value) bool {
	_, ok := event.IsRedacted(v)
	return ok || v.Kind() == value.String && (strings.HasPrefix(v.Str(), "[sensitive ") || strings.Contains(v.Str(), mask.Replacement))
}
