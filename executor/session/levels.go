package session

import (
	"errors"
	"sync"

	"github.com/rungci/rung/executor"
)

// Levels makes levels of isolation when they are needed, each once.
type Levels struct {
	// MakeNone and MakeContainer make the levels. MakeContainer may be nil; its error says why there is no engine.
	MakeNone, MakeContainer func() (executor.Executor, error)

	none, container sync.Once
	opened          struct{ none, container executor.Executor }
	failed          struct{ none, container error }
}

// None returns the level that runs jobs on this machine.
func (l *Levels) None() (executor.Executor, error) {
	l.none.Do(func() { l.opened.none, l.failed.none = l.MakeNone() })
	return l.opened.none, l.failed.none
}

// Container returns the level of containers, or why there is none.
func (l *Levels) Container() (executor.Executor, error) {
	l.container.Do(func() {
		if l.MakeContainer == nil {
			l.failed.container = errors.New("this program has no support for containers")
			return
		}
		l.opened.container, l.failed.container = l.MakeContainer()
	})
	return l.opened.container, l.failed.container
}
