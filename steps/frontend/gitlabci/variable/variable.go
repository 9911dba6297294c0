// Package variable holds CI/CD variables: what overrides what, and how values that refer to other variables are expanded.
//
// There are two expansions, and a value meets both. GitLab expands before a job is sent: in the order of dependencies, through
// any number of steps ([Collection.Expand]). The runner expands what it is sent once more, in one pass, which is also the only
// time that `$$` becomes `$` ([Collection.ExpandForJob]). Other texts, such as a path in `rules: changes`, are expanded with
// [ExpandText] and [ExpandKnown].
//
// A variable that is raw (`expand: false`) is never expanded, and one that is a file stands for its path in the job. Neither is
// put into others by GitLab when it prepares a job: the runner does that, because it knows paths, and because what was raw
// would be expanded once it is part of something that is not.
//
// Expansion takes time linear in what goes in and comes out, does not recurse, and is bounded in what comes out.
package variable

import (
	"iter"
	"strings"
)

// Limits on values and their expansion.
const (
	// MaxValue is how long a value may be, and become, in bytes.
	MaxValue = 1 << 20
	// MaxExpanded is how much all values of a collection together may become, in bytes.
	MaxExpanded = 32 << 20
)

// Variable is a CI/CD variable.
type Variable struct {
	Name  string
	Value string
	// Raw says that $ and % have no meaning in the value: `expand: false`.
	Raw bool
	// File says that the job gets a file with the value, and its path in the environment.
	File bool
	// Masked says that the value must not appear in logs or messages.
	Masked bool
	// Private says that services do not get it by themselves: GitLab's `public: false`.
	Private bool
	// Description and Options are for whoever starts a pipeline by hand.
	Description string
	Options     []string
}

// Collection is variables in the order of their definition. Of several with the same name the last one counts. The zero
// Collection is empty and ready for use.
type Collection struct {
	items []Variable
	last  map[string]int // name to index
}

// New returns a collection of the variables.
func New(variables ...Variable) *Collection {
	c := &Collection{}
	c.Add(variables...)
	return c
}

// Add adds variables, which override those with their names.
func (c *Collection) Add(variables ...Variable) {
	if c.last == nil {
		c.last = make(map[string]int, len(variables))
	}
	for _, v := range variables {
		c.last[v.Name] = len(c.items)
		c.items = append(c.items, v)
	}
}

// Set adds a plain variable.
func (c *Collection) Set(name, value string) { c.Add(Variable{Name: name, Value: value}) }

// Len returns how many definitions there are, overridden ones included.
func (c *Collection) Len() int { return len(c.items) }

// All returns every definition in order, overridden ones included.
func (c *Collection) All() iter.Seq[Variable] {
	return func(yield func(Variable) bool) {
		for _, v := range c.items {
			if !yield(v) {
				return
			}
		}
	}
}

// Effective returns the definitions that count, one for each name, in order.
func (c *Collection) Effective() []Variable {
	effective := make([]Variable, 0, len(c.last))
	for i, v := range c.items {
		if c.last[v.Name] == i {
			effective = append(effective, v)
		}
	}
	return effective
}

// Get returns the definition that counts for the name.
func (c *Collection) Get(name string) (Variable, bool) {
	i, ok := c.last[name]
	if !ok {
		return Variable{}, false
	}
	return c.items[i], true
}

// Lookup returns the value of the name: of a file its content.
func (c *Collection) Lookup(name string) (value string, ok bool) {
	v, ok := c.Get(name)
	return v.Value, ok
}

// IsMasked reports whether the value of the name must not be shown.
func (c *Collection) IsMasked(name string) bool {
	v, _ := c.Get(name)
	return v.Masked
}

// Bool reports whether the value of the name is true as the runner sees it: the word true in any case, or 1.
func (c *Collection) Bool(name string) bool {
	value, _ := c.Lookup(name)
	return value == "1" || strings.EqualFold(value, "true")
}

// Clone returns a copy.
func (c *Collection) Clone() *Collection { return New(c.items...) }
