package github

import (
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// format is format(text, …): {0} stands for the first of the other parameters, {{ and }} for braces. What the text does not name is not
// evaluated.
func (ev *evaluation) format(n *node) (result, error) {
	text, err := ev.eval(n.args[0])
	if err != nil {
		return result{}, err
	}
	var b strings.Builder
	rest, sensitive := Text(text.Value), isScalar(text.Value) && text.Marked()
	given := map[int]value.Value{}
	for {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		brace := rest[i]
		rest = rest[i+1:]
		if rest != "" && rest[0] == brace {
			b.WriteByte(brace)
			rest = rest[1:]
			continue
		}
		number, after, closed := strings.Cut(rest, "}")
		if brace == '}' || !closed || !allDigits(number) {
			return result{}, ev.fail(n.args[0], "write {0} for the first parameter after the text, and {{ or }} for a brace", "format: the text has an unmatched brace")
		}
		index, err := strconv.Atoi(number)
		if err != nil || index > len(n.args)-2 {
			return result{}, ev.fail(n.args[0], "{0} is the first parameter after the text", "format: the text names {%s}, and there are %d parameters after it", number, len(n.args)-1)
		}
		if _, ok := given[index]; !ok {
			r, err := ev.eval(n.args[index+1])
			if err != nil {
				return result{}, err
			}
			given[index] = r.Value
		}
		b.WriteString(Text(given[index]))
		sensitive = sensitive || isScalar(given[index]) && given[index].Marked()
		rest = after
		if ev.made+b.Len() > MaxText {
			break
		}
	}
	return of(value.OfString(b.String()).Mark(sensitive)), ev.grow(n, b.Len())
}
