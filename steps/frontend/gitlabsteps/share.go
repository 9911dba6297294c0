package gitlabsteps

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// minShared is how many variables an environment must have in common with another one to be written by an alias of it.
const minShared = 3

// sharedEnv is an environment on its way into YAML, and how it is written.
type sharedEnv struct {
	env    map[string]plan.Field
	anchor string // its own name, when others repeat it
	from   *sharedEnv
	whole  bool            // it is the same as from; else it has all the names of from, and own of its own
	own    map[string]bool // with values that differ, or that from has not got
}

// addEnv adds an environment to a step or definition.
func (w *writer) addEnv(n *node, env map[string]plan.Field) {
	if len(env) == 0 {
		return
	}
	e := &sharedEnv{env: env}
	w.envs = append(w.envs, e)
	n.add("env", node{env: e})
}

// share finds environments that repeat earlier ones, wholly or for the most part.
func (w *writer) share() {
	anchors := 0
	for i, e := range w.envs {
		for _, earlier := range w.envs[:i] {
			if own, ok := e.beyond(earlier); ok && (e.from == nil || len(own) < len(e.own)) {
				e.from, e.own, e.whole = earlier, own, len(own) == 0 && len(e.env) == len(earlier.env)
			}
		}
		if e.from == nil {
			continue
		}
		for e.from.whole { // an alias has no name of its own
			e.from = e.from.from
		}
		if e.from.anchor == "" {
			anchors++
			e.from.anchor = "variables"
			if anchors > 1 {
				e.from.anchor = fmt.Sprintf("variables_%d", anchors)
			}
		}
	}
}

// beyond returns the names that the environment has to say itself when it repeats an earlier one. It is not ok when the earlier one
// has a name that this one lacks, or when little is gained.
func (e *sharedEnv) beyond(earlier *sharedEnv) (own map[string]bool, ok bool) {
	own = map[string]bool{}
	for name, field := range e.env {
		if same, ok := earlier.env[name]; !ok || !value.Equal(same.Value, field.Value) {
			own[name] = true
		}
	}
	for name := range earlier.env {
		if _, ok := e.env[name]; !ok {
			return nil, false
		}
	}
	return own, len(e.env)-len(own) >= minShared
}

// resolve puts environments where they belong, once it is known which of them share.
func (w *writer) resolve(n *node) {
	if e := n.env; e != nil {
		*n = e.node()
		return
	}
	for i := range n.items {
		w.resolve(&n.items[i])
	}
	for i := range n.keys {
		w.resolve(&n.keys[i].value)
	}
}

func (e *sharedEnv) node() node {
	if e.whole {
		return node{alias: e.from.anchor}
	}
	n := node{object: true, anchor: e.anchor}
	if e.from != nil {
		n.merge = e.from.anchor
	}
	for _, name := range slices.Sorted(maps.Keys(e.env)) {
		if e.from == nil || e.own[name] {
			n.add(name, fieldNode(e.env[name]))
		}
	}
	return n
}
