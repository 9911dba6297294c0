// Package builtin has the instance groups that are part of rung: those that need no program of their own.
package builtin

import (
	"encoding/json"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/dockermachine"
	"github.com/rungci/rung/fleet/group/local"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/fleet/group/static"
)

// Kind is one kind of group.
type Kind struct {
	// Name is what the configuration calls it: plugin = "local".
	Name string
	// Summary says in a line what its machines are.
	Summary string
	// Schema is the JSON schema of its options.
	Schema string

	make  func(text json.RawMessage) (group.Basic, error)
	lacks func(text json.RawMessage) error // nil: it needs nothing
}

// Kinds are all of them, by name.
func Kinds() []Kind {
	return []Kind{
		dockerMachine(),
		kind("local", "machines on this host: processes, containers or sandboxes", local.Schema, local.New),
		kind("static", "hosts of a list", static.Schema, static.New),
	}
}

// kind is one whose options are a struct.
func kind[Options any](name, summary, schema string, construct func(Options) (group.Basic, error)) Kind {
	return Kind{Name: name, Summary: summary, Schema: schema, make: func(text json.RawMessage) (group.Basic, error) {
		var o Options
		if err := options.Decode(schema, text, &o); err != nil {
			return nil, err
		}
		return construct(o)
	}}
}

// dockerMachine is the kind that needs a program of somebody else.
func dockerMachine() Kind {
	k := kind("docker-machine", "machines that docker-machine makes with its drivers", dockermachine.Schema, dockermachine.New)
	k.lacks = func(text json.RawMessage) error {
		var o dockermachine.Options
		if err := options.Decode(dockermachine.Schema, text, &o); err != nil {
			return err
		}
		return dockermachine.Lacks(o)
	}
	return k
}

// Find is the kind of a name.
func Find(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// New makes a group, which is not initialised yet, of options: an object of JSON; nil is an empty one. It touches nothing. An error about options is
// options.Errors, whose pointers lead to them.
func (k Kind) New(text json.RawMessage) (group.Basic, error) { return k.make(text) }

// Lacks says what a group of options needs of this machine that is not there; nil if nothing is known to be missing. It touches nothing.
func (k Kind) Lacks(text json.RawMessage) error {
	if k.lacks == nil {
		return nil
	}
	return k.lacks(text)
}
