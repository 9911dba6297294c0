// Package objectstest has what tests of shared state need: a store in memory in which everything may fail, and the suite that every store passes.
package objectstest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/internal/sharedstate"
)

// Memory is a store in memory. Its methods are safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	objects map[string]object
	count   int
}

type object struct {
	content []byte
	tag     string
}

// Get implements sharedstate.Objects.
func (m *Memory) Get(ctx context.Context, name string) ([]byte, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return nil, "", err
	}
	o, ok := m.objects[name]
	if !ok {
		return nil, "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return slices.Clone(o.content), o.tag, nil
}

// Put implements sharedstate.Objects.
func (m *Memory) Put(ctx context.Context, name string, content []byte, when sharedstate.Condition) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	o, ok := m.objects[name]
	if when.Absent && ok || when.Tag != "" && o.tag != when.Tag {
		return "", fmt.Errorf("%s: %w", name, sharedstate.ErrCondition)
	}
	if m.objects == nil {
		m.objects = map[string]object{}
	}
	m.count++
	o = object{slices.Clone(content), fmt.Sprint("tag-", m.count)}
	m.objects[name] = o
	return o.tag, nil
}

// List implements sharedstate.Objects.
func (m *Memory) List(ctx context.Context, prefix string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.objects {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, context.Cause(ctx)
}

// Delete implements sharedstate.Objects.
func (m *Memory) Delete(ctx context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return context.Cause(ctx)
}

// Content is all that any object holds, for tests that look for secrets.
func (m *Memory) Content() (all []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, o := range m.objects {
		all = append(append(all, name...), o.content...)
	}
	return all
}

// Fault is what becomes of a call.
type Fault int

// The faults.
const (
	None     Fault = iota
	Refused        // it has no effect, and fails
	Lost           // it has its effect, and fails
	Late           // it fails, and has its effect some time later
	Repeated       // it has its effect, and again some time later
	Silent         // it has no effect, and no answer
)

// Faulty is a store as one process reaches it.
type Faulty struct {
	sharedstate.Objects
	// Fault says what becomes of a call: "get", "put", "list" or "delete".
	Fault func(call, name string) Fault
	// Later is how long Late and Repeated take.
	Later func() time.Duration
}

var errFault = errors.New("503 the store is busy")

// call makes one call.
func call[T any](ctx context.Context, f *Faulty, kind, name string, do func(context.Context) (T, error)) (got T, err error) {
	again := func() {
		time.AfterFunc(f.Later(), func() { _, _ = do(context.Background()) })
	}
	switch f.Fault(kind, name) {
	case Refused:
		return got, errFault
	case Lost:
		_, _ = do(ctx)
		return got, errFault
	case Late:
		again()
		return got, errFault
	case Repeated:
		again()
	case Silent:
		<-ctx.Done()
		return got, context.Cause(ctx)
	}
	return do(ctx)
}

// read is an object with its tag.
type read struct {
	content []byte
	tag     string
}

// Get implements sharedstate.Objects.
func (f *Faulty) Get(ctx context.Context, name string) ([]byte, string, error) {
	r, err := call(ctx, f, "get", name, func(ctx context.Context) (r read, err error) {
		r.content, r.tag, err = f.Objects.Get(ctx, name)
		return r, err
	})
	return r.content, r.tag, err
}

// Put implements sharedstate.Objects.
func (f *Faulty) Put(ctx context.Context, name string, content []byte, when sharedstate.Condition) (string, error) {
	return call(ctx, f, "put", name, func(ctx context.Context) (string, error) { return f.Objects.Put(ctx, name, content, when) })
}

// List implements sharedstate.Objects.
func (f *Faulty) List(ctx context.Context, prefix string) ([]string, error) {
	return call(ctx, f, "list", prefix, func(ctx context.Context) ([]string, error) { return f.Objects.List(ctx, prefix) })
}

// Delete implements sharedstate.Objects.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	_, err := call(ctx, f, "delete", name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.Objects.Delete(ctx, name) })
	return err
}
