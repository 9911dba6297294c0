package engine

import "maps"

// scope is one place of a run: what expressions can see there, what the processes started there are given, and where that leads.
//
// Scopes form a chain, from a step outwards. A component's scope shares nothing with its caller's but the environment; the
// scope of an inline step shows its caller's inputs and steps.
type scope struct {
	view
	parent  *scope
	secrets map[string]string // what the step can grant to its children
	barrier *barrier          // set in a member of a parallel group: exports wait there
	depth   int               // of components calling components
	call    *call             // of the component that it is in; nil in the run's own
}

// child returns a scope inside s for another step, which begins as a copy.
func (s *scope) child() *scope {
	c := *s
	c.parent, c.own, c.barrier, c.files = s, nil, nil, nil
	return &c
}

// export sets variables for every later step, whatever its depth: in this scope and in all around it, up to the member of
// a parallel group, whose exports wait until the group ends.
func (s *scope) export(vars map[string]variable) {
	if len(vars) == 0 {
		return
	}
	for at := s; at != nil; at = at.parent {
		maps.Copy(at.env.vars, vars)
		if at.barrier != nil {
			at.barrier.add(vars)
			return
		}
	}
}

// barrier collects the exports of a member of a parallel group, or of a background step.
type barrier struct {
	exports map[string]variable
	before  *environ // of the list around it, as it was then
}

func (b *barrier) add(vars map[string]variable) {
	if b.exports == nil {
		b.exports = map[string]variable{}
	}
	maps.Copy(b.exports, vars)
}
