package github

import (
	"bytes"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// begun is a session, and what came of it.
type begun struct {
	*Session
	masked []string
	events []event.Body
	log    bytes.Buffer
}

// world is what the processes of a run share, as the engine keeps it.
type world map[string]io.Closer

func (w world) once(name string, create func() (io.Closer, error)) (io.Closer, error) {
	if made, ok := w[name]; ok {
		return made, nil
	}
	made, err := create()
	if err == nil {
		w[name] = made
	}
	return made, err
}

// beginIn begins a session with a process of a run. change may say more of it than is usual.
func beginIn(t testing.TB, w world, env map[string]string, change func(*engine.ToolkitProcess)) *begun {
	t.Helper()
	b := &begun{}
	p := engine.ToolkitProcess{
		Toolkit: plan.ToolkitGitHub,
		TempDir: t.TempDir(), WorkDir: t.TempDir(), ActionDir: "/action-dir", Step: "build/compile",
		Getenv: func(name string) string { return env[name] },
		HasEnv: func(name string) bool { _, ok := env[name]; return ok },
		Mask: func(secret string) {
			if !slices.Contains(b.masked, secret) {
				b.masked = append(b.masked, secret)
			}
		},
		MadeUp: func(secret string) {
			if !slices.Contains(b.masked, secret) {
				b.masked = append(b.masked, secret)
			}
		},
		Emit: func(body event.Body) { b.events = append(b.events, body) },
		Live: t.Context(),
		Once: w.once,
	}
	if change != nil {
		change(&p)
	}
	session, err := Begin(p)
	if err != nil {
		t.Fatal(err)
	}
	b.Session = session.(*Session)
	return b
}

func begin(t testing.TB, env map[string]string) *begun {
	t.Helper()
	return beginIn(t, world{}, env, nil)
}

// prints plays what the process prints to one of its streams, in pieces of the given size.
func (b *begun) prints(t testing.TB, output string, size int) {
	t.Helper()
	w := b.Output(&b.log)
	for rest := output; rest != ""; {
		n := min(size, len(rest))
		if _, err := w.Write([]byte(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
}

// told returns the annotations that the session told of.
func (b *begun) told() []event.Annotation {
	var all []event.Annotation
	for _, body := range b.events {
		if a, ok := body.(event.Annotation); ok {
			all = append(all, a)
		}
	}
	return all
}

// writes puts text into one of the session's files, as the process would.
func (b *begun) writes(t testing.TB, variable, text string) {
	t.Helper()
	if err := os.WriteFile(b.Env()[variable], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func texts(outputs map[string]value.Value) map[string]string {
	out := map[string]string{}
	for name, v := range outputs {
		out[name] = v.Str()
	}
	return out
}

// MadeUp implements engine.FunctionScope.
func (fakeScope) MadeUp(string) {}

// Once implements engine.FunctionScope: a function that is tried alone has nothing to share.
func (fakeScope) Once(_ string, create func() (io.Closer, error)) (io.Closer, error) {
	return create()
}
