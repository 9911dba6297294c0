package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Values are those of an entry's keys, by the names that follow runners[]: "docker.image". Their types are those that the keys have in TOML:
// string, int64, float64, bool, time.Time, []any and map[string]any.
type Values map[string]any

const entryPrefix = "runners[]."

// EntryKeys are the keys of an entry that have a field in Runner and hold one value, without the tables and what is in arrays of them.
func EntryKeys() []Key {
	entry := schema().keys["runners"]
	return slices.DeleteFunc(slices.Clone(Keys()), func(k Key) bool {
		rest, ok := strings.CutPrefix(k.Name, entryPrefix)
		if !ok {
			return true
		}
		if first, _, nested := strings.Cut(rest, "."); nested && entry.keys[strings.ToLower(first)].Use != Used {
			return true
		}
		return k.Use != Used && k.Use != Planned || strings.Contains(rest, "[]") || k.Type == "table" || k.Type == "tables"
	})
}

// IgnoredEntryKeys are the keys of an entry that gitlab-runner has and that have no meaning here, of those that EntryKeys would have.
func IgnoredEntryKeys() []Key {
	return slices.DeleteFunc(slices.Clone(Keys()), func(k Key) bool {
		return k.Use != Ignored || !strings.HasPrefix(k.Name, entryPrefix) || strings.ContainsAny(k.EntryName(), "[*") || k.Type == "table"
	})
}

// EntryName is the name of an entry's key as Values have it.
func (k Key) EntryName() string { return strings.TrimPrefix(k.Name, entryPrefix) }

// ParseValue makes the value of a key of what a command line or a variable of the environment has for it. Several texts are the parts of a list, or
// of a table as NAME=VALUE; a table may also be a JSON object.
func (k Key) ParseValue(texts []string) (any, error) {
	last := texts[len(texts)-1]
	wrong := fmt.Errorf("must be %s, not %q", wanted[k.Type].name, last)
	switch k.Type {
	case "int", "seconds", "kilobytes":
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			return nil, wrong
		}
		return n, nil
	case "bool":
		b, err := strconv.ParseBool(last)
		if err != nil {
			return nil, wrong
		}
		return b, nil
	case "list", "words":
		out := make([]any, len(texts))
		for i, text := range texts {
			out[i] = text
		}
		return out, nil
	case "map", "flags", "lists", "object":
		return k.parseTable(texts)
	}
	return last, nil
}

func (k Key) parseTable(texts []string) (any, error) {
	out := map[string]any{}
	for _, text := range texts {
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				return nil, fmt.Errorf("%q is not a JSON object", text)
			}
			continue
		}
		end := strings.IndexAny(text, "=:")
		if end <= 0 {
			return nil, fmt.Errorf("must be NAME=VALUE or a JSON object, not %q", text)
		}
		name, value := text[:end], text[end+1:]
		if k.Type != "flags" {
			out[name] = value
			continue
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%s must be true or false, not %q", name, value)
		}
		out[name] = on
	}
	return out, nil
}

// Template reads the values of the first entry of a configuration.
func Template(name string, text []byte) (Values, error) {
	if err := Check(name, text, func(string) string { return "" }).Err(); err != nil {
		return nil, err
	}
	var file struct {
		Runners []map[string]any `toml:"runners"`
	}
	if err := toml.Unmarshal(unmarked(text), &file); err != nil {
		return nil, err
	}
	if len(file.Runners) != 1 {
		return nil, fmt.Errorf("%s must have one entry [[runners]], and has %d", name, len(file.Runners))
	}
	values := Values{}
	values.flatten("", &schema().keys["runners"].table, file.Runners[0])
	return values, nil
}

// flatten adds what is in a table.
func (v Values) flatten(base string, t *table, from map[string]any) {
	for name, value := range from {
		n := t.keys[strings.ToLower(name)]
		if sub, ok := value.(map[string]any); ok && n != nil && n.Type == "table" && n.any == nil {
			v.flatten(join(base, n.last()), &n.table, sub)
			continue
		}
		if n != nil {
			name = n.last()
		}
		v[join(base, name)] = value
	}
}

// Entry writes an entry as TOML, with its keys in the order of the table of keys.
func Entry(values Values) (string, error) {
	order := map[string]int{}
	for i, k := range Keys() {
		order[k.EntryName()] = i + 1
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	tableOf := func(name string) string { return name[:max(strings.LastIndexByte(name, '.'), 0)] }
	rank := func(name string) int {
		if n := order[name]; n > 0 {
			return n
		}
		return len(order) + 1
	}
	slices.SortFunc(names, func(a, b string) int {
		ta, tb := tableOf(a), tableOf(b)
		switch {
		case ta != tb && (ta == "" || tb == ""):
			return len(ta) - len(tb)
		case ta != tb && rank(ta) != rank(tb):
			return rank(ta) - rank(tb)
		case ta == tb && rank(a) != rank(b):
			return rank(a) - rank(b)
		}
		return strings.Compare(a, b)
	})
	var b strings.Builder
	b.WriteString("[[runners]]\n")
	current := ""
	for _, name := range names {
		if t := tableOf(name); t != current {
			current = t
			fmt.Fprintf(&b, "  [runners.%s]\n", t)
		}
		indent := "  "
		if current != "" {
			indent = "    "
		}
		text, err := inline(values[name])
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&b, "%s%s = %s\n", indent, name[strings.LastIndexByte(name, '.')+1:], text)
	}
	return b.String(), nil
}

// inline is a value of TOML on one line.
func inline(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return quote(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return when(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			text, err := inline(one)
			if err != nil {
				return "", err
			}
			parts[i] = text
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case map[string]any:
		parts := make([]string, 0, len(v))
		for name, one := range v {
			text, err := inline(one)
			if err != nil {
				return "", err
			}
			parts = append(parts, quote(name)+" = "+text)
		}
		slices.Sort(parts)
		return "{ " + strings.Join(parts, ", ") + " }", nil
	}
	return "", fmt.Errorf("a value of type %T cannot be written", value)
}

// quote writes a text as a basic string of TOML.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
