package variable

import "strings"

// Options say how GitLab expands the values of a collection.
type Options struct {
	// KeepUndefined leaves references to variables that are not set as they are; otherwise they are removed.
	KeepUndefined bool
	// KeepFiles leaves references to files to the runner, which puts in their paths; otherwise they become their content.
	KeepFiles bool
	// KeepRaw leaves references to raw variables to the runner; otherwise they become their value.
	KeepRaw bool
}

var (
	// ForRunner is how GitLab expands variables before it sends a job to a runner.
	ForRunner = Options{KeepUndefined: true, KeepFiles: true, KeepRaw: true}
	// ForRules is how GitLab expands the variables that paths in rules refer to. Note that `rules: if` sees values that are
	// not expanded at all.
	ForRules = Options{}
)

// CycleError says that variables refer to each other in a circle. GitLab does not create a pipeline then.
type CycleError struct {
	// Cycles are the names of every circle.
	Cycles [][]string
}

// maxShownCycles bounds an error's text.
const maxShownCycles, maxShownNames = 5, 10

// Error names the variables.
func (e *CycleError) Error() string {
	shown := make([]string, 0, maxShownCycles)
	for _, cycle := range e.Cycles[:min(len(e.Cycles), maxShownCycles)] {
		names := strings.Join(cycle[:min(len(cycle), maxShownNames)], ", ")
		if len(cycle) > maxShownNames {
			names += ", …"
		}
		shown = append(shown, "["+names+"]")
	}
	text := strings.Join(shown, " and ")
	if len(e.Cycles) > maxShownCycles {
		text += " and more"
	}
	return "variables refer to each other in a circle: " + text
}

// Expand returns the collection with its values expanded as GitLab does it: a value is expanded when those that it refers to
// are. So variables come out in the order of their dependencies. Escapes stay as they are.
//
// When variables refer to each other in a circle, nothing is expanded: the collection comes back as it is, with a *CycleError.
// A variable that refers to nothing but itself is not a circle: the reference is to one that is not set. The error can be a
// *SizeError as well; the collection is nil then.
func (c *Collection) Expand(o Options) (*Collection, error) {
	order, cycles := c.sort()
	if len(cycles) > 0 {
		return c.Clone(), &CycleError{Cycles: cycles}
	}
	expanded := &Collection{items: make([]Variable, 0, len(c.items)), last: make(map[string]int, len(c.last))}
	total := 0
	for _, i := range order {
		v := c.items[i]
		if !v.Raw && hasReferences(v.Value) {
			var b builder
			scan(v.Value, true, func(p piece) { b.add(expanded.replacement(p, o)) })
			if b.full {
				return nil, &SizeError{Name: v.Name, Limit: MaxValue}
			}
			v.Value = b.String()
			if total += len(v.Value); total > MaxExpanded {
				return nil, &SizeError{Name: v.Name, Limit: MaxExpanded, All: true}
			}
		}
		expanded.Add(v)
	}
	return expanded, nil
}

// replacement returns what stands for a piece of a value.
func (c *Collection) replacement(p piece, o Options) string {
	if p.name == "" {
		return p.text
	}
	v, ok := c.Get(p.name)
	switch {
	case !ok && o.KeepUndefined, ok && v.File && o.KeepFiles, ok && !v.File && v.Raw && o.KeepRaw:
		return p.text
	default:
		return v.Value
	}
}

// ExpandForJob returns the collection with its values expanded as the runner does it: in one pass, so that what is put in is not
// looked at again, and with what the collection held before. `$$` becomes `$`, variables that are not set become empty, and a
// file becomes its path, which path returns. The error is a *SizeError.
func (c *Collection) ExpandForJob(path func(name string) string) (*Collection, error) {
	expanded := &Collection{items: make([]Variable, 0, len(c.items)), last: make(map[string]int, len(c.last))}
	total := 0
	for _, v := range c.items {
		if !v.Raw && strings.Contains(v.Value, "$") {
			value, err := c.ExpandInJob(v.Value, path)
			if err != nil {
				return nil, &SizeError{Name: v.Name, Limit: MaxValue}
			}
			if total += len(value); total > MaxExpanded {
				return nil, &SizeError{Name: v.Name, Limit: MaxExpanded, All: true}
			}
			v.Value = value
		}
		expanded.Add(v)
	}
	return expanded, nil
}

// ExpandInJob expands a text as the runner does: see ExpandForJob.
func (c *Collection) ExpandInJob(text string, path func(name string) string) (string, error) {
	if !strings.Contains(text, "$") {
		return text, nil
	}
	var b builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.add(before)
		if !found {
			break
		}
		name, size := shellName(after)
		switch {
		case name != "":
			b.add(c.inJob(name, path))
		case size == 0:
			b.add("$") // nothing that could be a name follows
		}
		text = after[size:]
	}
	if b.full {
		return "", &SizeError{Limit: MaxValue}
	}
	return b.String(), nil
}

// inJob returns what a name stands for in a job.
func (c *Collection) inJob(name string, path func(name string) string) string {
	if name == "$" {
		return "$"
	}
	if len(name) == 1 && isSpecial(name[0]) {
		return "" // a shell's own variables, which mean nothing outside of it
	}
	v, _ := c.Get(name)
	if v.File && path != nil {
		return path(name)
	}
	return v.Value
}

// shellName returns the name that follows a $, as os.Expand reads it: in braces anything that is not a brace, a special
// character alone, or letters, digits and underscores. Without a name, size is how much is bad syntax and to be dropped.
func shellName(text string) (name string, size int) {
	if text == "" {
		return "", 0
	}
	if text[0] != '{' {
		if isSpecial(text[0]) {
			return text[:1], 1
		}
		n := 0
		for n < len(text) && (text[n] == '_' || text[n] >= '0' && text[n] <= '9' || text[n] >= 'a' && text[n] <= 'z' || text[n] >= 'A' && text[n] <= 'Z') {
			n++
		}
		return text[:n], n
	}
	if len(text) > 2 && isSpecial(text[1]) && text[2] == '}' {
		return text[1:2], 3
	}
	switch end := strings.IndexByte(text, '}'); end {
	case -1:
		return "", 1 // the brace has no end
	case 1:
		return "", 2
	default:
		return text[1:end], end + 1
	}
}

// isSpecial reports whether a character is the name of one of a shell's own variables.
func isSpecial(c byte) bool { return strings.IndexByte("*#$@!?-0123456789", c) >= 0 }
