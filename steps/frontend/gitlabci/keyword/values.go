package keyword

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// The functions of this file read a value of one type. name is what messages call the keyword, such as "cache:paths". What has
// another type is reported, and the answer is the zero value.

// values reads values that many keywords have: texts, numbers, lists, maps.
type values struct {
	*reporter
}

// fields are the entries of a map that say something: null is as good as nothing. Keys that it cannot have are reported.
func (r *values) fields(n config.Node, name string, keys []string) iter.Seq2[string, config.Node] {
	return func(yield func(string, config.Node) bool) {
		if n.Kind() != yamlsource.Mapping {
			r.report(n, "write its keys under it: "+strings.Join(keys, ", "), "`%s` must be a map, not %s", name, n.Kind())
			return
		}
		for key, v := range n.Entries() {
			switch {
			case !slices.Contains(keys, key.Text()):
				r.report(key, r.suggest(key.Text(), keys, "delete it, or use one of "+strings.Join(keys, ", ")), "`%s` has no key %q", name, shorten(key.Text()))
			case v.IsNull():
			case !yield(key.Text(), v):
				return
			}
		}
	}
}

// strange reports whether a map has keys that it cannot have: what it lacks is probably misspelt then, and fields has told.
func strange(n config.Node, keys []string) bool {
	for key := range n.Entries() {
		if !slices.Contains(keys, key.Text()) {
			return true
		}
	}
	return false
}

// named are the entries of a map whose keys are names that the file chooses.
func (r *values) named(n config.Node, name, hint string) iter.Seq2[config.Node, config.Node] {
	return func(yield func(config.Node, config.Node) bool) {
		if n.Kind() != yamlsource.Mapping {
			r.report(n, hint, "`%s` must be a map, not %s", name, n.Kind())
			return
		}
		for key, v := range n.Entries() {
			if key.Text() == "" {
				r.report(key, "give it a name", "`%s` holds an empty name", name)
				continue
			}
			if !yield(key, v) {
				return
			}
		}
	}
}

func (r *values) text(n config.Node, name string) string {
	switch n.Kind() {
	case yamlsource.String:
		return n.Text()
	case yamlsource.Number, yamlsource.Boolean:
		r.report(n, "put quotes around it", "`%s` must be a string, not %s", name, n.Kind())
	case yamlsource.Sequence:
		r.report(n, "write one string", "`%s` must be a string, not %s", name, n.Kind())
	default:
		r.report(n, "write a string", "`%s` must be a string, not %s", name, n.Kind())
	}
	return ""
}

// filled is a text that is not blank.
func (r *values) filled(n config.Node, name string) string {
	text := r.text(n, name)
	if n.Kind() == yamlsource.String && strings.TrimSpace(text) == "" {
		r.report(n, "write a string, or delete the keyword", "`%s` is empty", name)
	}
	return text
}

// texts is a list of strings.
func (r *values) texts(n config.Node, name string) []string {
	if n.Kind() != yamlsource.Sequence {
		hint := "write a list"
		if n.Kind() == yamlsource.String {
			hint = "put brackets around it: [" + shorten(n.Text()) + "]"
		}
		r.report(n, hint, "`%s` must be a list of strings, not %s", name, n.Kind())
		return nil
	}
	out := make([]string, 0, n.Len())
	for _, it := range n.Items() {
		if it.Kind() == yamlsource.String {
			out = append(out, it.Text())
		} else {
			r.item(it, name)
		}
	}
	return out
}

// item reports an item of a list of strings that is none.
func (r *values) item(n config.Node, name string) {
	hint := "put quotes around it"
	switch n.Kind() {
	case yamlsource.Sequence:
		hint = "write the items into the list itself; a `!reference` can replace the whole list"
	case yamlsource.Mapping:
		hint = "YAML reads `name: text` as a map: put quotes around the whole item"
	case yamlsource.Null:
		hint = "delete the item, or write a string"
	}
	r.report(n, hint, "`%s` must be a list of strings, not %s", name, n.Kind())
}

// atMost is a list of strings that has a limit.
func (r *values) atMost(n config.Node, name string, limit int) []string {
	out := r.texts(n, name)
	if len(out) > limit {
		r.report(n, "shorten the list", "`%s` has %d items, and the limit is %d", name, len(out), limit)
	}
	return out
}

// textOrTexts is a string or a list of strings.
func (r *values) textOrTexts(n config.Node, name string) []string {
	switch n.Kind() {
	case yamlsource.String:
		return []string{n.Text()}
	case yamlsource.Sequence:
		return r.texts(n, name)
	default:
		r.report(n, "write a string or a list of strings", "`%s` must be a string or a list of strings, not %s", name, n.Kind())
		return nil
	}
}

// isBoolean reports whether a value is true or false, or the text of an input that is read as that.
func isBoolean(n config.Node) bool {
	return n.Kind() == yamlsource.Boolean || n.IsBare() && (n.Text() == "true" || n.Text() == "false")
}

func (r *values) boolean(n config.Node, name string) bool {
	if !isBoolean(n) {
		hint := "write true or false"
		if n.Kind() == yamlsource.String && (n.Text() == "true" || n.Text() == "false") {
			hint = "take the quotes off"
		}
		r.report(n, hint, "`%s` must be a boolean, not %s", name, n.Kind())
		return false
	}
	return n.Text() == "true"
}

// number is the whole number that a value is.
func number(n config.Node) (int, bool) {
	switch {
	case n.Kind() == yamlsource.Number:
		if i, ok := n.Value().Integer(); ok && i.IsInt64() {
			return int(i.Int64()), true
		}
	case n.IsBare():
		if i, err := strconv.Atoi(n.Text()); err == nil {
			return i, true
		}
	}
	return 0, false
}

func (r *values) integer(n config.Node, name string, least, most int) int {
	i, ok := number(n)
	switch {
	case !ok && n.Kind() == yamlsource.Number:
		r.report(n, "write a whole number", "`%s` must be a whole number, not %s", name, shorten(n.Text()))
	case !ok:
		hint := "write a number"
		if _, err := strconv.Atoi(n.Text()); err == nil && n.Kind() == yamlsource.String {
			hint = "take the quotes off"
		}
		r.report(n, hint, "`%s` must be a whole number, not %s", name, n.Kind())
	case i < least || i > most:
		r.report(n, "choose a number in between", "`%s` must be from %d to %d, not %s", name, least, most, shorten(n.Text()))
	default:
		return i
	}
	return least
}

// choice is one of a few words.
func (r *values) choice(n config.Node, name string, options ...string) string {
	text := r.text(n, name)
	if n.Kind() != yamlsource.String || slices.Contains(options, text) {
		return text
	}
	r.report(n, r.suggest(text, options, "choose one of "+strings.Join(options, ", ")), "`%s` cannot be %q", name, shorten(text))
	return ""
}

// choices is one of a few words, or a list of them.
func (r *values) choices(n config.Node, name string, options ...string) []string {
	switch n.Kind() {
	case yamlsource.Sequence:
		out := make([]string, 0, n.Len())
		for _, it := range n.Items() {
			if text := r.choice(it, name, options...); text != "" {
				out = append(out, text)
			}
		}
		return out
	case yamlsource.String:
		return []string{r.choice(n, name, options...)}
	default:
		r.report(n, "choose one or a list of "+strings.Join(options, ", "), "`%s` must be a string or a list of strings, not %s", name, n.Kind())
		return nil
	}
}

// numbers is a whole number or a list of them.
func (r *values) numbers(n config.Node, name string) []int {
	if n.Kind() != yamlsource.Sequence {
		if i, ok := number(n); ok {
			return []int{i}
		}
		r.report(n, "write a number or a list of numbers", "`%s` must be a whole number or a list of them, not %s", name, n.Kind())
		return nil
	}
	out := make([]int, 0, n.Len())
	for _, it := range n.Items() {
		i, ok := number(it)
		if !ok {
			r.report(it, "write a number", "`%s` must be a list of whole numbers, not %s", name, it.Kind())
			continue
		}
		out = append(out, i)
	}
	if n.Len() == 0 {
		r.report(n, "write a number, or delete the keyword", "`%s` is empty", name)
	}
	return out
}

// period says which texts are a duration besides those of ParseDuration.
type period struct {
	limit     time.Duration // 0 is none
	most      string        // the limit in words
	never     bool          // "never" is one
	variables bool          // one with variables is left to GitLab
}

// duration is the text of a duration, checked, and how long it is; 0 for one that nothing is known of.
func (r *values) duration(n config.Node, name string, p period) (string, time.Duration) {
	text := n.Text()
	switch {
	case n.Kind() == yamlsource.Number:
		r.report(n, `write it as a string, in quotes and preferably with a unit: "`+shorten(text)+` seconds"`, "`%s` must be a duration, not a number", name)
		return "", 0
	case n.Kind() != yamlsource.String:
		r.report(n, "write a string such as 1h 30m", "`%s` must be a duration, not %s", name, n.Kind())
		return "", 0
	case p.never && strings.EqualFold(strings.TrimSpace(text), Never):
		return text, 0
	case p.variables && len(variable.References(text)) > 0:
		return text, 0
	}
	d, err := ParseDuration(text)
	if err != nil {
		r.report(n, "write it as in 1h 30m, 2 weeks and 3 days, 90 seconds", "`%s`: %v", name, err)
		return "", 0
	}
	if p.limit > 0 && d > p.limit {
		r.report(n, "shorten it", "`%s` is longer than %s, which is the limit", name, p.most)
		return "", 0
	}
	return text, d
}
