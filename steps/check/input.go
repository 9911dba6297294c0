package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Describe says what an input takes.
func Describe(in plan.Input) string {
	if in.Description == "" {
		return "it takes " + in.Type.WithArticle()
	}
	return fmt.Sprintf("it takes %s: %s", in.Type.WithArticle(), in.Description)
}

// Refuses says what is wrong with a value of the input's type, and what to do: it is not an option, or does not match the pattern. what is ""
// where nothing is. It shows no value that is sensitive.
func Refuses(in plan.Input, v value.Value) (what, hint string) {
	shown := ""
	if !in.Sensitive && !v.Sensitive() {
		shown = ": " + Short(v)
	}
	if len(in.Options) > 0 && !slices.ContainsFunc(in.Options, func(o value.Value) bool { return value.Equal(o, v) }) {
		options := make([]string, len(in.Options))
		for i, o := range in.Options {
			options[i] = string(o.AppendJSON(nil))
		}
		return "is not one of its options" + shown, "the options are " + strings.Join(options, ", ")
	}
	if in.Match == "" {
		return "", ""
	}
	re, err := regexp.Compile(`^(?:` + in.Match + `)$`)
	if err != nil {
		return fmt.Sprintf("has a pattern that is not a regular expression: %v", err), ""
	}
	if !re.MatchString(v.Str()) {
		return "does not match its pattern" + shown, "the pattern is " + in.Match
	}
	return "", ""
}

// Short returns a value as an error shows it.
func Short(v value.Value) string {
	if v.Sensitive() {
		return "(sensitive)"
	}
	text := []rune(string(v.AppendJSON(nil)))
	if len(text) > 60 {
		return string(text[:60]) + "…"
	}
	return string(text)
}
