package replay

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
)

// relocation is where the folders that were made or found for the recorded run are now: those of its variables' files, its work directory, if
// it had one to itself, the project that its files were copied from, and the folder of its step-runner. The run's steps know them by their paths.
type relocation struct {
	moved  [][2]string // from, to; what is in another comes before that
	parent [2]string   // the folder around the work directory, which counts as a whole
}

func (r *Replay) relocation() *relocation {
	run, out := &r.recorded.Run, &relocation{}
	add := func(from, to string) {
		if filepath.IsAbs(from) && filepath.Dir(from) != from && to != "" && from != to {
			out.moved = append(out.moved, [2]string{from, to})
		}
	}
	if env := run.Environment; env != nil {
		add(env.VariableFolder(), r.opts.VariableFiles)
	}
	if run.FreshWorkDir {
		before := len(out.moved)
		if add(run.WorkDir, r.opts.WorkDir); len(out.moved) > before {
			out.parent = [2]string{filepath.Dir(run.WorkDir), filepath.Dir(r.opts.WorkDir)}
		}
	}
	if env := run.Environment; env != nil {
		add(env.Programs, r.opts.Programs)
		add(env.Project, r.opts.Project)
	}
	return out
}

// text returns a text with paths as they are now.
func (l *relocation) text(text string) string {
	if text != "" && text == l.parent[0] {
		return l.parent[1]
	}
	for i, place := range l.moved { // in two steps: what one is now may be what another was
		text = trace.ReplacePath(text, place[0], placeholder(i))
	}
	for i, place := range l.moved {
		text = strings.ReplaceAll(text, placeholder(i), place[1])
	}
	return text
}

// placeholder stands for a path in texts, none of which can hold it.
func placeholder(i int) string { return "\x00" + string(rune('a'+i)) + "\x00" }

// component returns a component in which all texts have paths as they are now.
func (l *relocation) component(c *plan.Component) (*plan.Component, error) {
	if len(l.moved) == 0 {
		return c, nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, wrong("the recorded steps cannot be read: %v", err)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var all any
	if err := in.Decode(&all); err != nil {
		return nil, wrong("the recorded steps cannot be read: %v", err)
	}
	if text, err = json.Marshal(l.any(all)); err != nil {
		return nil, wrong("the recorded steps cannot be read: %v", err)
	}
	var out plan.Component
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, wrong("the recorded steps cannot be read: %v", err)
	}
	return &out, nil
}

// any does so for a value of JSON.
func (l *relocation) any(v any) any {
	switch v := v.(type) {
	case string:
		return l.text(v)
	case []any:
		for i := range v {
			v[i] = l.any(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = l.any(v[key])
		}
	}
	return v
}

// home notes a home folder that does not exist.
func (r *Replay) home(name string) {
	home, ok := r.env[name]
	if _, other := r.opts.Env[name]; !ok || other || !r.hostHome {
		return
	}
	if info, err := os.Stat(home); err != nil || !info.IsDir() || !filepath.IsAbs(home) {
		r.note("the recorded run used the home folder %s, which is not here; --env %s=DIR gives another", home, name)
	}
}
