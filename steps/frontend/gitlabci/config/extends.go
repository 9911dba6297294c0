package config

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

// extension is what is known of a top-level entry while jobs are extended.
type extension struct {
	tree  *tree
	depth int // levels that it extends
	state uint8
}

// The states of an extension. What is bad has been reported, and so has everything that extends it.
const (
	untouched uint8 = iota
	underway
	good
	bad
)

type extender struct {
	*assembler
	root  *tree
	index keyIndex
	done  []extension
	names []string // made for the first suggestion
	level int
}

// extend gives every job what it extends.
func (r *assembler) extend(root *tree) *tree {
	x := &extender{assembler: r, root: root, index: indexOf(root), done: make([]extension, len(root.entries))}
	out := *root
	out.entries = make([]entry, len(root.entries))
	for i, e := range root.entries {
		out.entries[i] = entry{e.key, x.entry(i).tree, e.via}
	}
	out.weigh()
	return &out
}

func (x *extender) entry(i int) *extension {
	d := &x.done[i]
	if d.state != untouched {
		return d
	}
	e := x.root.entries[i]
	d.tree = e.value
	if globalKeywords[e.key.text] || e.value.kind != yamlsource.Mapping {
		d.state = good
		return d
	}
	extends := e.value.get("extends")
	if extends == nil {
		d.state = good
		return d
	}
	d.state = underway
	if x.level++; x.level > maxRecursion {
		x.report(Node{tree: extends.value}, "break the chain", "more than %d jobs extend each other in a chain, and %d levels are the limit", maxRecursion, MaxExtendsDepth)
		d.state, d.depth = bad, MaxExtendsDepth+1
	}
	defer func() { x.level-- }()
	if d.state == bad {
		x.broken(e.key.text)
		return d
	}
	bases, ok := x.bases(e.key.text, Node{tree: extends.value})
	var merged *tree
	deep := false
	for _, b := range bases {
		base, fine := x.base(e.key.text, b)
		ok = ok && fine
		if base == nil {
			continue
		}
		if base.depth > MaxExtendsDepth {
			deep = true
			continue
		}
		d.depth = max(d.depth, base.depth+1)
		via := &hop{step: Step{By: ByExtends, Name: b.Text(), At: b.Span(), Source: b.Source()}}
		if merged == nil {
			merged = merge(base.tree, via, &tree{kind: yamlsource.Mapping}, nil)
			continue
		}
		merged = merge(merged, nil, base.tree, via)
	}
	if merged != nil {
		d.tree = merge(merged, nil, e.value, nil)
	}
	if deep { // which has been reported
		d.depth = MaxExtendsDepth + 1
	} else if d.depth > MaxExtendsDepth {
		x.report(Node{tree: extends.value}, "extend a job closer to the root, or repeat the keywords", "%q extends more than %d levels of jobs, which is the limit", shorten(e.key.text), MaxExtendsDepth)
		ok = false
	}
	d.state = good
	if !ok {
		d.state = bad
		x.broken(e.key.text)
	}
	return d
}

// bases are the names that an `extends` lists.
func (x *extender) bases(job string, extends Node) (names []Node, ok bool) {
	if extends.tree.refers {
		x.report(extends, "name the jobs here", "`extends` cannot hold a !reference: jobs are extended before references are looked up")
		return nil, false
	}
	ok = true
	for _, n := range extends.Flat() {
		switch {
		case n.Kind() == yamlsource.String || n.Kind() == yamlsource.Number || n.Kind() == yamlsource.Boolean:
			names = append(names, n)
		default:
			x.report(n, "write the names of jobs", "`extends` of %q holds %s", shorten(job), n.Kind())
			ok = false
		}
	}
	return names, ok
}

// base returns what a name stands for, nil when that cannot be extended, and whether it is all that its author meant it to be.
func (x *extender) base(job string, name Node) (*extension, bool) {
	i, found := x.index.find(name.Text())
	if !found {
		if !x.partial {
			x.report(name, x.suggest(name.Text(), x.candidates(), "define it, or include the file that does"), "%q extends %q, which is not defined", shorten(job), shorten(name.Text()))
		}
		return nil, false
	}
	target := x.root.entries[i]
	if target.value.kind != yamlsource.Mapping {
		x.report(name, "extend a job", "%q extends %q, which is %s", shorten(job), shorten(name.Text()), target.value.kind)
		return nil, false
	}
	if x.done[i].state == underway {
		x.report(name, "break the cycle", "%q extends itself%s", shorten(name.Text()), x.cycle(i))
		return nil, false
	}
	base := x.entry(i)
	return base, base.state == good
}

// cycle spells the cycle that leads back to an entry.
func (x *extender) cycle(start int) string {
	if x.full() {
		return ""
	}
	path := []string{x.root.entries[start].key.text}
	visited := map[int]bool{start: true}
	for at := start; ; {
		next := -1
		extends := x.root.entries[at].value.get("extends")
		for _, n := range (Node{tree: extends.value}).Flat() {
			if i, ok := x.index.find(n.Text()); ok && x.done[i].state == underway {
				next = i
				break
			}
		}
		if next < 0 {
			break
		}
		path = append(path, x.root.entries[next].key.text)
		if visited[next] {
			break
		}
		visited[next] = true
		at = next
	}
	return ": " + strings.Join(elide(path), " → ")
}

func (x *extender) candidates() []string {
	if x.names == nil {
		for _, e := range x.root.entries {
			if e.value.kind == yamlsource.Mapping && !globalKeywords[e.key.text] {
				x.names = append(x.names, e.key.text)
			}
		}
	}
	return x.names
}
