package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/rungci/rung/steps/diag"
)

// place is a part of the text.
type place = unstable.Range

// table reads the keys of a table into a struct, which may be invalid where nothing is used.
func (r *reader) table(t *table, values map[string]any, path string, into reflect.Value) {
	for name, value := range values {
		at := join(path, name)
		n := t.keys[strings.ToLower(name)]
		switch {
		case n != nil:
			r.entry(n, value, at, into)
		case t.any != nil:
			r.report.Ignored++
		default:
			r.unknown(t, name, at)
		}
	}
}

func (r *reader) unknown(t *table, name, at string) {
	if r.report.Ignored++; len(r.report.Problems) >= MaxProblems {
		return // before its hint costs time
	}
	hint := "gitlab-runner ignores it, too: delete it"
	if table := elsewhere(name, at); table != "" {
		hint = "it belongs in " + table
	} else if near := diag.Suggest(name, t.names()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	r.found(warning, "config/unknown-key", at, r.doc.keys, hint, "unknown key %q", name)
}

// elsewhere is the table in which a key has a meaning, and of several the one around the table that it stands in; empty if there is none.
func elsewhere(name, at string) string {
	var tables []string
	for _, k := range Keys() {
		dot := strings.LastIndexByte(k.Name, '.')
		if k.Use == Used && k.Type != "table" && k.Type != "tables" && strings.EqualFold(k.Name[dot+1:], name) {
			tables = append(tables, k.Name[:max(0, dot)])
		}
	}
	if len(tables) > 1 {
		around := numbers.ReplaceAllString(at, "[]")
		tables = slices.DeleteFunc(tables, func(table string) bool { return !strings.HasPrefix(around, table+".") })
	}
	switch {
	case len(tables) != 1:
		return ""
	case tables[0] == "":
		return "the lines above all tables"
	}
	return tableName(tables[0])
}

// tableName is a table as the file has it: [[runners]], [runners.docker].
func tableName(path string) string {
	table := "[" + strings.ReplaceAll(path, "[]", "") + "]"
	if strings.HasSuffix(path, "[]") {
		return "[" + table + "]"
	}
	return table
}

// entry reads one key.
func (r *reader) entry(n *node, value any, at string, into reflect.Value) {
	used := n.Use == Used
	isTable := n.Type == "table" || n.Type == "tables" || n.any != nil
	switch {
	case isTable:
	case used, n.Use == Planned && n.isDefault(value):
		r.used = append(r.used, at) // a default is in force without its key
	default:
		r.report.Ignored++
	}
	switch n.Use {
	case Ignored:
		if !empties(value) {
			r.found(note, "config/ignored", at, r.doc.keys, "", "%q is ignored: %s", n.last(), n.Text)
		}
		if !isTable {
			return // whatever it is
		}
	case Renamed:
		r.found(warning, "config/renamed", at, r.doc.keys, fmt.Sprintf("write %s instead", n.Text), "gitlab-runner has renamed %q, and ignores it", n.last())
		return // gitlab-runner does not look at its value
	case Planned, Refused:
		if isTable && strings.Count(n.Name, ".") == 1 && !empties(value) {
			r.found(note, "config/ignored", at, r.doc.keys, "", "[%s] is not used: %s", strings.ReplaceAll(n.Name, "[]", ""), n.Text)
		}
	}
	field := fieldOf(into, n.last())
	switch n.Type {
	case "table":
		if sub, ok := value.(map[string]any); ok {
			if field.IsValid() && field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem()))
				field = field.Elem()
			}
			r.table(&n.table, sub, at, field)
			return
		}
		r.wrongType(n, at, value)
	case "tables":
		r.tables(n, value, at, field)
	default:
		r.scalar(n, value, at, field)
	}
}

func (r *reader) tables(n *node, value any, at string, field reflect.Value) {
	list, ok := value.([]any)
	if !ok {
		r.wrongType(n, at, value)
		return
	}
	for i, item := range list {
		sub, ok := item.(map[string]any)
		if !ok {
			r.wrongType(n, fmt.Sprintf("%s[%d]", at, i), item)
			continue
		}
		var element reflect.Value
		if field.IsValid() {
			field.Set(reflect.Append(field, reflect.New(field.Type().Elem()).Elem()))
			element = field.Index(i)
		}
		r.table(&n.table, sub, fmt.Sprintf("%s[%d]", at, i), element)
	}
}

// scalar reads a key that is no table of ours.
func (r *reader) scalar(n *node, value any, at string, field reflect.Value) {
	got, err := convert(n.Type, value)
	var wrong *valueError
	switch {
	case errors.As(err, &wrong):
		r.found(problem, "config/value", at, r.doc.vals, wrong.hint, "%s: %s", n.last(), wrong.text)
		return
	case err != nil && r.wrongInside(n, at, value):
		return
	case err != nil:
		r.wrongType(n, at, value)
		return
	}
	if !r.accepted(n, got, at) || !field.IsValid() {
		return
	}
	if n.Use == Planned && !n.isDefault(value) && !inPlanned(n.Name) {
		r.found(warning, "config/planned", at, r.doc.keys, "", "%q has no effect yet", n.last())
	}
	r.negative(n, got, at)
	to := field
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		to = field.Elem()
	}
	to.Set(reflect.ValueOf(got).Convert(to.Type()))
}

// inPlanned reports whether a key is in a table that has no effect as a whole, which is said of the table.
func inPlanned(name string) bool {
	at := schema()
	for _, part := range strings.Split(name, ".") {
		n := at.keys[strings.ToLower(strings.TrimSuffix(part, "[]"))]
		if n == nil || n.Name == name {
			return false
		}
		if n.Use == Planned {
			return true
		}
		at = &n.table
	}
	return false
}

// accepted checks a value against the few that the key has. The empty text is the default everywhere.
func (r *reader) accepted(n *node, got any, at string) bool {
	if n.Values == nil {
		return true
	}
	switch got := got.(type) {
	case string:
		return r.among(n, got, at)
	case []string:
		for i, one := range got {
			where := at
			if _, ok := r.doc.vals[fmt.Sprintf("%s[%d]", at, i)]; ok {
				where = fmt.Sprintf("%s[%d]", at, i)
			}
			if !r.among(n, one, where) {
				return false
			}
		}
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if !r.among(n, got[name], join(at, name)) {
				return false
			}
		}
	case map[string]bool:
		r.withoutEffect(n, got, at)
	}
	return true
}

// among checks one value.
func (r *reader) among(n *node, value, at string) bool {
	if value == "" || slices.ContainsFunc(n.Values, func(v string) bool { return strings.EqualFold(v, value) }) {
		return true
	}
	hint := "write one of " + strings.Join(n.Values, ", ")
	if near := diag.Suggest(value, n.Values); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	r.found(problem, "config/value", at, r.doc.vals, hint, "%s cannot be %q", n.last(), value)
	return false
}

// withoutEffect names the feature flags that are of GitLab's runner alone.
func (r *reader) withoutEffect(n *node, flags map[string]bool, at string) {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if slices.Contains(n.Values, name) {
			continue
		}
		hint := ""
		if near := diag.Suggest(name, n.Values); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		r.found(note, "config/ignored", at+"."+name, r.doc.keys, hint, "the feature flag %q has no effect", name)
	}
}

// insideOf is what the values in a table have to be, by the type of the table.
var insideOf = map[string]string{"map": "string", "flags": "bool", "lists": "list"}

// wrongInside says which values in a table do not have the type of all of them. It reports whether there are any.
func (r *reader) wrongInside(n *node, at string, value any) (found bool) {
	all, _ := value.(map[string]any)
	kind := insideOf[n.Type]
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := convert(kind, all[name]); kind != "" && err != nil {
			r.found(problem, "config/type", join(at, name), r.doc.vals, wanted[kind].hint, "%s: %s must be %s, not %s", n.last(), name, wanted[kind].name, kindOf(all[name]))
			found = true
		}
	}
	return found
}

func (r *reader) wrongType(n *node, at string, value any) {
	kind := kindOf(value)
	if kind == "a list" && slices.Contains([]string{"list", "words", "floats", "ints"}, n.Type) {
		kind = "a list with other values"
	}
	r.found(problem, "config/type", at, r.doc.vals, wanted[n.Type].hint, "%s must be %s, not %s", n.last(), wanted[n.Type].name, kind)
}

// fieldOf is the field of a struct for a key.
func fieldOf(of reflect.Value, key string) reflect.Value {
	if !of.IsValid() {
		return of
	}
	for i := range of.NumField() {
		if of.Type().Field(i).Tag.Get("toml") == key {
			return of.Field(i)
		}
	}
	return reflect.Value{}
}

// wanted says how the types of keys.txt are written.
var wanted = map[string]struct{ name, hint string }{
	"string": {"a text", "write it in quotes"}, "secret": {"a text", "write it in quotes"},
	"size": {"a size", `as in "512m" or "4g"`}, "cpus": {"a number in quotes", `as in "2" or "0.5"`},
	"int": {"a whole number", ""}, "seconds": {"a whole number of seconds", ""}, "kilobytes": {"a whole number of kilobytes", ""},
	"bool": {"true or false", "write true or false, without quotes"}, "float": {"a number", ""},
	"duration": {"a duration", `as in "30s", "10m" or "1h30m"`}, "time": {"a time", "as in 2026-01-31T12:00:00Z, without quotes"},
	"list": {"a list of texts", `as in ["one", "two"]`}, "words": {"a text or a list of texts", ""}, "floats": {"a list of numbers", ""}, "ints": {"a list of whole numbers", ""},
	"map": {"a table of texts", ""}, "lists": {"a table of lists", ""}, "object": {"a table", ""}, "flags": {"a table of true and false", ""},
	"table": {"a table", ""}, "tables": {"an array of tables", "write its heading with two brackets"},
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a text"
	case int64:
		return "a whole number"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date"
}

// empties reports whether a value is what a key has that is not there, and says nothing.
func empties(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			if !empties(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(value).IsZero()
}

// isDefault reports whether a value is that of a key that is not there.
func (n *node) isDefault(value any) bool {
	return empties(value)
}

// valueError says that a value has the right type and no meaning.
type valueError struct{ text, hint string }

func (e *valueError) Error() string { return e.text }

// convert gives a value the Go type of its key's type: string, int64, float64, bool, time.Duration, time.Time, a slice or a map of these. The
// error is a *valueError, or another where the type is wrong.
func convert(kind string, value any) (any, error) {
	switch kind {
	case "any":
		return value, nil
	case "object":
		return as[map[string]any](value)
	case "string", "secret":
		return as[string](value)
	case "int":
		return as[int64](value)
	case "bool":
		return as[bool](value)
	case "seconds":
		n, err := as[int64](value)
		return time.Duration(n) * time.Second, err
	case "kilobytes":
		n, err := as[int64](value)
		return n << 10, err
	case "float":
		if n, ok := value.(int64); ok {
			return float64(n), nil
		}
		return as[float64](value)
	case "cpus":
		text, err := as[string](value)
		if err != nil || text == "" {
			return 0.0, err
		}
		return parseCPUs(text)
	case "size":
		text, err := as[string](value)
		if err != nil || text == "" {
			return int64(0), err
		}
		return ParseSize(text)
	case "duration":
		return duration(value)
	case "time":
		if text, ok := value.(string); ok {
			value, _ = time.Parse(time.RFC3339, text)
		}
		return as[time.Time](value)
	}
	return collection(kind, value)
}

func collection(kind string, value any) (any, error) {
	switch kind {
	case "words":
		if text, ok := value.(string); ok {
			return []string{text}, nil
		}
		return list[string]("string", value)
	case "list":
		return list[string]("string", value)
	case "ints":
		return list[int64]("int", value)
	case "floats":
		return list[float64]("float", value)
	case "map":
		return mapping[string]("string", value)
	case "flags":
		return mapping[bool]("bool", value)
	case "lists":
		return mapping[[]string]("list", value)
	}
	return nil, fmt.Errorf("type %q is unknown", kind)
}

// as is a value of a type.
func as[T any](value any) (T, error) {
	v, ok := value.(T)
	if !ok {
		return v, fmt.Errorf("the value is %s", kindOf(value))
	}
	return v, nil
}

func list[T any](kind string, value any) ([]T, error) {
	all, err := as[[]any](value)
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(all))
	for _, one := range all {
		got, err := convert(kind, one)
		if err != nil {
			return nil, err
		}
		out = append(out, got.(T))
	}
	return out, nil
}

func mapping[T any](kind string, value any) (map[string]T, error) {
	all, err := as[map[string]any](value)
	if err != nil {
		return nil, err
	}
	out := make(map[string]T, len(all))
	for name, one := range all {
		got, err := convert(kind, one)
		if err != nil {
			return nil, err
		}
		out[name] = got.(T)
	}
	return out, nil
}

// duration reads "1h30m", or a number of nanoseconds, as gitlab-runner does.
func duration(value any) (any, error) {
	if n, ok := value.(int64); ok {
		return time.Duration(n), nil
	}
	text, err := as[string](value)
	if err != nil || text == "" {
		return time.Duration(0), err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, &valueError{fmt.Sprintf("%q is not a duration", text), wanted["duration"].hint}
	}
	return d, nil
}

func parseCPUs(text string) (any, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n < 1<<20) {
		return nil, &valueError{fmt.Sprintf("%q is not a number of processors", text), wanted["cpus"].hint}
	}
	return n, nil
}

// ParseSize reads a size as Docker does, in bytes: 512m, 4g, 1.5GiB. Units are powers of 1024.
func ParseSize(text string) (int64, error) {
	wrong := &valueError{fmt.Sprintf("%q is not a size", text), wanted["size"].hint}
	number := strings.TrimRight(text, "bBiIkKmMgGtTpP ")
	unit := strings.ToLower(strings.TrimSpace(text[len(number):]))
	power := 0
	if unit != "" && unit != "b" {
		letter := unit[:1]
		if rest := unit[1:]; rest != "" && rest != "b" && rest != "ib" {
			return 0, wrong
		}
		if power = strings.Index("kmgtp", letter) + 1; power == 0 {
			return 0, wrong
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 {
		return 0, wrong
	}
	bytes := n * float64(int64(1)<<(10*power))
	if !(bytes < 1<<62) {
		return 0, wrong
	}
	return int64(bytes), nil
}

// sort orders what was found by its place: the keys of a table have no order.
func (r *reader) sort() {
	sort.SliceStable(r.report.Problems, func(i, j int) bool {
		a, b := r.report.Problems[i], r.report.Problems[j]
		switch {
		case a.Line != b.Line:
			return a.Line < b.Line
		case a.Column != b.Column:
			return a.Column < b.Column
		}
		return a.Message < b.Message
	})
}
