// Package levels is the registry of isolation levels: adding one takes its own package, one line here, and a row in
// docs/executors.md.
package levels

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/cgroup"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/executor/sandbox"
)

// All are the levels of this program, from the weakest to the strongest.
var All = []executor.Definition{
	none.Definition,
	cgroup.Definition,
	container.Definition,
	sandbox.Definition,
}

// Find returns the definition of a level.
func Find(level executor.Level) (executor.Definition, bool) {
	for _, d := range All {
		if d.Level == level {
			return d, true
		}
	}
	return executor.Definition{}, false
}

// Names are the names of all levels, for messages and completion.
func Names() []string {
	names := make([]string, len(All))
	for i, d := range All {
		names[i] = string(d.Level)
	}
	return names
}

// Opener opens levels when they are first needed, each once. Its methods are safe for concurrent use.
type Opener struct {
	// Setup is what a level is made with.
	Setup func(level executor.Level) executor.Setup

	mu     sync.Mutex
	opened map[executor.Level]*opened
}

type opened struct {
	once     sync.Once
	executor executor.Executor
	err      error
}

// Open returns a level. What environments of dead processes have left on it is removed in the background.
func (o *Opener) Open(ctx context.Context, level executor.Level) (executor.Executor, error) {
	definition, known := Find(level)
	if !known {
		return nil, fmt.Errorf("unknown isolation level %q: it must be one of %s", level, strings.Join(Names(), ", "))
	}
	o.mu.Lock()
	if o.opened == nil {
		o.opened = map[executor.Level]*opened{}
	}
	it := o.opened[level]
	if it == nil {
		it = &opened{}
		o.opened[level] = it
	}
	o.mu.Unlock()
	it.once.Do(func() {
		it.executor, it.err = definition.Open(ctx, o.Setup(level))
		if it.err == nil {
			go func() { _ = it.executor.Sweep(context.WithoutCancel(ctx)) }() // what is not removed now is another time
		}
	})
	return it.executor, it.err
}

// Close closes the levels that were opened.
func (o *Opener) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var problems []error
	for _, it := range o.opened {
		if it.executor != nil && it.err == nil { // what was not opened may be a nil pointer in an interface
			problems = append(problems, it.executor.Close())
		}
	}
	return errors.Join(problems...)
}
