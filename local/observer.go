package local

import (
	"sync"

	"github.com/rungci/rung/steps/event"
)

// Observer is told what happens. Its methods are called by several goroutines at once.
type Observer interface {
	// Run returns what takes the events of one run of a job's steps. It is closed when the run has ended.
	Run(job string) Sink
	// Say tells what a person may want to know, Warn what they should know; an empty name is the pipeline.
	Say(job, text string)
	Warn(job, text, hint string)
	// Prepare tells how far the place of a job is.
	Prepare(job string, p event.Preparing)
	Started(job string)
	Finished(Result)
}

// Sink takes the events of a run.
type Sink interface {
	event.Sink
	Close() error
}

// Once remembers what was said, so that it is said once. The zero value is ready to use.
type Once struct {
	mu   sync.Mutex
	keys map[string]bool
}

// First reports whether a key is new.
func (o *Once) First(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys[key] {
		return false
	}
	if o.keys == nil {
		o.keys = map[string]bool{}
	}
	o.keys[key] = true
	return true
}

// Notes is an Observer that keeps what is said, for what is only shown and does not run.
type Notes struct {
	mu    sync.Mutex
	Texts []string
}

// Run implements Observer.
func (*Notes) Run(string) Sink { return discard{} }

// Say implements Observer.
func (n *Notes) Say(_, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Texts = append(n.Texts, text)
}

// Warn implements Observer.
func (n *Notes) Warn(job, text, _ string) { n.Say(job, text) }

// Prepare implements Observer.
func (*Notes) Prepare(string, event.Preparing) {}

// Started implements Observer.
func (*Notes) Started(string) {}

// Finished implements Observer.
func (*Notes) Finished(Result) {}

type discard struct{}

func (discard) Event(event.Event) {}
func (discard) Close() error      { return nil }
