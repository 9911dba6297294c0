package compile

import (
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// workDir replaces the folder that a job runs in.
const workDir = "${{ work_dir }}"

// portable returns steps in which the folder of the project is an expression, so that they mean the same wherever they run.
func portable(steps []plan.Step, project string) []plan.Step {
	for i := range steps {
		s := &steps[i]
		s.Inputs, s.Env = portableFields(s.Inputs, project), portableFields(s.Env, project)
	}
	return steps
}

// portableFields returns fields in which a folder is an expression. Steps share their environment, so it is copied.
func portableFields(fields map[string]plan.Field, project string) map[string]plan.Field {
	if fields == nil || project == "" {
		return fields
	}
	out := make(map[string]plan.Field, len(fields))
	for name, f := range fields {
		f.Value = portableValue(f.Value, project)
		out[name] = f
	}
	return out
}

func portableValue(v value.Value, project string) value.Value {
	switch v.Kind() {
	case value.String:
		if text := portableText(v.Str(), project); text != v.Str() {
			return value.OfString(text).Mark(v.Marked())
		}
	case value.Array:
		items := make([]value.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = portableValue(item, project)
		}
		return value.OfArray(items).Mark(v.Marked())
	case value.Struct:
		fields := make(map[string]value.Value, len(v.Fields()))
		for name, field := range v.Fields() {
			fields[name] = portableValue(field, project)
		}
		return value.OfStruct(fields).Mark(v.Marked())
	}
	return v
}

// portableText replaces the folder where it is a whole path: alone, with something below it, or as the folder for temporary files
// beside it. A backslash before it would take the meaning of an expression away.
func portableText(text, project string) string {
	if project == "" || !strings.Contains(text, project) {
		return text
	}
	var b strings.Builder
	for {
		at := strings.Index(text, project)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		before, rest := text[:at], text[at+len(project):]
		b.WriteString(before)
		if endsPath(rest) && !strings.HasSuffix(before, `\`) && !strings.HasPrefix(rest, "}}") {
			b.WriteString(workDir)
		} else {
			b.WriteString(project)
		}
		text = rest
	}
}

// endsPath reports whether the name of a folder ends where the text begins.
func endsPath(rest string) bool {
	if rest == "" || strings.HasPrefix(rest, ".tmp") {
		return true
	}
	c := rest[0]
	letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
	return !letter && !strings.ContainsRune("-_.", rune(c))
}
