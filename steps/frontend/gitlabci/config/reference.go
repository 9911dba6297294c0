package config

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

// referrer replaces every !reference by what it names.
type referrer struct {
	*assembler
	root  *tree
	index keyIndex
	done  map[*tree]resolved
	open  map[*tree]bool // what is being resolved: met again, it refers to itself
	job   string
	names []string
	level int
}

// resolved is a tree without references, and how many of them led to each other in it. The tree is nil when one of them names
// nothing, which has been reported.
type resolved struct {
	tree  *tree
	via   *hop // the way from what a reference names to the place of the reference
	depth int
}

// references replaces every !reference below the root.
func (r *assembler) references(root *tree) *tree {
	if !root.refers {
		return root
	}
	f := &referrer{assembler: r, root: root, index: indexOf(root), done: map[*tree]resolved{}, open: map[*tree]bool{}}
	out := *root
	out.entries = make([]entry, len(root.entries))
	for i, e := range root.entries {
		f.job = e.key.text
		v := f.resolve(e.value)
		if v.tree == nil {
			v.tree = &tree{raw: e.value.raw, source: e.value.source, kind: yamlsource.Null, nodes: 1, depth: 1}
		}
		out.entries[i] = entry{e.key, v.tree, v.via.then(e.via)}
	}
	out.weigh()
	return &out
}

func (f *referrer) resolve(t *tree) resolved {
	if !t.refers {
		return resolved{tree: t}
	}
	if d, ok := f.done[t]; ok {
		if d.tree == nil {
			f.broken(f.job)
		}
		return d
	}
	if f.open[t] {
		f.report(Node{tree: t}, "break the cycle", "the value refers to itself")
		f.broken(f.job)
		return resolved{}
	}
	f.open[t] = true
	var d resolved
	if t.reference {
		d = f.follow(t)
	} else {
		d = f.children(t)
	}
	delete(f.open, t)
	f.done[t] = d
	return d
}

// children resolves what a list or a map holds. What names nothing is left out.
func (f *referrer) children(t *tree) resolved {
	out := *t
	depth := 0
	if t.items != nil {
		out.items = make([]item, 0, len(t.items))
		for _, it := range t.items {
			if v := f.resolve(it.value); v.tree != nil {
				depth = max(depth, v.depth)
				out.items = append(out.items, item{v.tree, v.via.then(it.via)})
			}
		}
	}
	if t.entries != nil {
		out.entries = make([]entry, 0, len(t.entries))
		for _, e := range t.entries {
			if v := f.resolve(e.value); v.tree != nil {
				depth = max(depth, v.depth)
				out.entries = append(out.entries, entry{e.key, v.tree, v.via.then(e.via)})
			}
		}
	}
	out.weigh()
	if !f.bounded(Node{tree: t}, &out) {
		return resolved{}
	}
	return resolved{tree: &out, depth: depth}
}

// bounded reports whether a tree that was made is small enough; if not, it says so.
func (r *problems) bounded(n Node, t *tree) bool {
	switch {
	case t.nodes > MaxExpandedNodes:
		r.report(n, "repeat less", "with all that is repeated in it, this holds more than %d values, which is the limit", MaxExpandedNodes)
	case int(t.depth) > yamlsource.MaxDepth:
		r.report(n, "nest less", "with all that is repeated in it, this nests deeper than %d levels, which is the limit", yamlsource.MaxDepth)
	default:
		return true
	}
	return false
}

// follow returns what a reference names.
func (f *referrer) follow(t *tree) resolved {
	n := Node{tree: t}
	path, ok := f.path(n)
	if !ok {
		f.broken(f.job)
		return resolved{}
	}
	written := "[" + strings.Join(path, ", ") + "]"
	via := &hop{step: Step{By: ByReference, Name: shorten(written), At: n.Span(), Source: t.source}}
	if f.level++; f.level > maxRecursion {
		f.level--
		f.report(n, "break the chain", "more than %d !reference lead to each other in a chain, and %d are the limit", maxRecursion, MaxReferenceDepth)
		f.broken(f.job)
		return resolved{}
	}
	defer func() { f.level-- }()
	found, way, ok := f.find(n, path)
	if !ok {
		f.broken(f.job)
		return resolved{}
	}
	v := f.resolve(found)
	switch {
	case v.tree == nil:
		f.broken(f.job)
		return resolved{}
	case v.tree.kind == yamlsource.Null:
		f.report(n, "refer to something that has a value", "!reference %s is empty", shorten(written))
		f.broken(f.job)
		return resolved{}
	case v.depth+1 > MaxReferenceDepth:
		f.report(n, "refer directly to the last of them", "more than %d !reference lead to each other here, which is the limit", MaxReferenceDepth)
		f.broken(f.job)
		return resolved{}
	}
	return resolved{tree: v.tree, via: v.via.then(way).then(via), depth: v.depth + 1}
}

// path is what a reference lists.
func (f *referrer) path(n Node) (path []string, ok bool) {
	const hint = "write !reference [job, keyword]"
	if n.Kind() != yamlsource.Sequence {
		f.report(n, hint, "!reference is applied to %s, but needs a list", n.Kind())
		return nil, false
	}
	for _, key := range n.Items() {
		if !key.Kind().IsScalar() || key.IsNull() || key.tree.reference {
			f.report(key, hint, "!reference holds %s, and wants names", key.Kind())
			return nil, false
		}
		if raw := key.tree.raw; raw != nil && !key.tree.made {
			path = append(path, raw.Text) // as keys are called
		} else {
			path = append(path, key.Text())
		}
	}
	if len(path) == 0 {
		f.report(n, hint, "!reference names nothing")
		return nil, false
	}
	return path, true
}

// find goes the path from the root. The hops are the way of what it finds to the top level.
func (f *referrer) find(n Node, path []string) (*tree, *hop, bool) {
	i, ok := f.index.find(path[0])
	if !ok {
		if !f.partial {
			f.missing(n, path, 0, f.candidates())
		}
		return nil, nil, false
	}
	at := f.root.entries[i].value
	via := f.root.entries[i].via
	for level, key := range path[1:] {
		if at.reference { // what it stands for has the key
			v := f.resolve(at)
			if v.tree == nil {
				return nil, nil, false
			}
			at, via = v.tree, v.via.then(via)
		}
		e := at.get(key)
		if e == nil {
			if !f.lacking[path[0]] && !f.partial {
				f.missing(n, path, level+1, keysOf(at))
			}
			return nil, nil, false
		}
		at, via = e.value, e.via.then(via)
	}
	return at, via, true
}

// missing reports that a key of a path is not there.
func (f *referrer) missing(n Node, path []string, level int, candidates []string) {
	key := Node{tree: n.tree.items[level].value}
	if level == 0 {
		f.report(key, f.suggest(path[0], candidates, "define it, or include the file that does"), "!reference names %q, which is not defined", shorten(path[0]))
		return
	}
	f.report(key, f.suggest(path[level], candidates, "name a keyword that it has"), "!reference names %q, but %q has no such key", shorten(path[level]), shorten(strings.Join(path[:level], ", ")))
}

func (f *referrer) candidates() []string {
	if f.names == nil {
		f.names = keysOf(f.root)
	}
	return f.names
}

func keysOf(t *tree) []string {
	keys := make([]string, len(t.entries))
	for i := range t.entries {
		keys[i] = t.entries[i].key.text
	}
	return keys
}
