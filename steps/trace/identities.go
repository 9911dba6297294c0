package trace

import (
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// identity is which step of a trace one is. A step that runs again, because the list that it is in does, is another one.
type identity struct {
	id       string
	parent   *identity // nil of the run
	position int
	round    int // how many times the list that the step is in has begun
	rounds   int // the same of the list that the step is
}

// newIdentity is that of a step whose path ends in last. old was at the same path before it, nil when none was.
func newIdentity(parent, old *identity, last string) identity {
	i := identity{parent: parent, round: parent.rounds, rounds: 1}
	i.position, _ = strconv.Atoi(last)
	if old != nil && old.parent == parent && old.round >= i.round {
		i.round = old.round + 1
	}
	if parent.parent != nil {
		i.id = parent.id + "."
	}
	i.id += last
	if i.round > 1 {
		i.id += "#" + strconv.Itoa(i.round)
	}
	return i
}

// cutPath cuts the last element off the path of a step.
func cutPath(path string) (parent, last string) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// identities are those of the steps of a run, by what its events say and nothing else of them.
type identities struct {
	root   identity
	latest map[string]*identity // by event.Event.Step
}

func newIdentities() *identities {
	return &identities{root: identity{rounds: 1}, latest: map[string]*identity{}}
}

// event takes in an event that is not of a log and returns the ID of its step, as a builder has it.
func (s *identities) event(e event.Event) string {
	switch e.Body.(type) {
	case event.StepStarted, event.StepSkipped:
		return s.begin(e.Step).id
	case event.StepRetrying:
		i := s.of(e.Step)
		i.rounds++
		return i.id
	case event.Warning:
		return ""
	}
	return s.of(e.Step).id
}

// of returns the step at the path. What was recorded from its middle on has steps that never began; they are made up.
func (s *identities) of(path string) *identity {
	if i := s.latest[path]; i != nil {
		return i
	}
	return s.begin(path)
}

func (s *identities) begin(path string) *identity {
	if path == "" { // the run's own component is one process
		s.latest[path] = &identity{parent: &s.root, rounds: 1}
		return s.latest[path]
	}
	parent := &s.root
	parentPath, last := cutPath(path)
	if parentPath != "" {
		parent = s.of(parentPath)
	}
	i := newIdentity(parent, s.latest[path], last)
	s.latest[path] = &i
	return &i
}
