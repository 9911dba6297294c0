package config

import "github.com/rungci/rung/internal/yamlsource"

// merge puts a map over another one: maps are merged at any depth, everything else of the upper one replaces what is below.
// The hops are the ways of the two to where the result stands; what is taken from one keeps its way.
func merge(below *tree, belowVia *hop, above *tree, aboveVia *hop) *tree {
	if len(below.entries) == 0 && aboveVia == nil {
		return above
	}
	t := &tree{raw: above.raw, source: above.source, kind: yamlsource.Mapping}
	t.entries = make([]entry, 0, len(below.entries)+len(above.entries))
	index := indexOf(above)
	taken := make([]bool, len(above.entries))
	for _, e := range below.entries {
		via := e.via.then(belowVia)
		at, both := index.find(e.key.text)
		if !both {
			t.entries = append(t.entries, entry{e.key, e.value, via})
			continue
		}
		taken[at] = true
		t.entries = append(t.entries, overlay(e, via, above.entries[at], aboveVia))
	}
	for i, o := range above.entries {
		if !taken[i] {
			t.entries = append(t.entries, entry{o.key, o.value, o.via.then(aboveVia)})
		}
	}
	t.weigh()
	return t
}

// overlay is the entry that two entries of one key become.
func overlay(below entry, belowVia *hop, above entry, aboveVia *hop) entry {
	via := above.via.then(aboveVia)
	if below.value.kind != yamlsource.Mapping || above.value.kind != yamlsource.Mapping {
		return entry{above.key, above.value, via}
	}
	return entry{above.key, merge(below.value, belowVia, above.value, via), nil}
}

// keyIndex finds an entry by its key. Most maps are so small that looking through them beats hashing.
type keyIndex struct {
	of   *tree
	many map[string]int
}

func indexOf(t *tree) keyIndex {
	const few = 8
	if len(t.entries) <= few {
		return keyIndex{of: t}
	}
	many := make(map[string]int, len(t.entries))
	for i := range t.entries {
		many[t.entries[i].key.text] = i
	}
	return keyIndex{t, many}
}

func (k keyIndex) find(key string) (int, bool) {
	if k.many != nil {
		i, ok := k.many[key]
		return i, ok
	}
	for i := range k.of.entries {
		if k.of.entries[i].key.text == key {
			return i, true
		}
	}
	return 0, false
}

// without is a map without a key.
func (t *tree) without(key string) *tree {
	if t.get(key) == nil {
		return t
	}
	out := *t
	out.entries = make([]entry, 0, len(t.entries))
	for _, e := range t.entries {
		if e.key.text != key {
			out.entries = append(out.entries, e)
		}
	}
	out.weigh()
	return &out
}
