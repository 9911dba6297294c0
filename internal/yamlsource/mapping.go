package yamlsource

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// mapping fills n with the entries of y: first those that are written there, then those of its merge key that are not.
// It returns the first key that is written there.
func (b *builder) mapping(n *Node, y *yaml.Node, level int) (first *Node) {
	keys := &keySet{}
	var overrides overrides
	n.Entries = make([]Entry, 0, len(y.Content)/2)
	var merges []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := b.node(y.Content[i], level+1)
		val := b.node(y.Content[i+1], level+1)
		isMerge := y.Content[i].Tag == "!!merge"
		y.Content[i], y.Content[i+1] = nil, nil // the two trees are never both whole
		if b.fatal != nil {
			return first
		}
		if first == nil {
			first = key
		}
		n.weight.add(key.weight)
		n.weight.add(val.weight)
		if !b.checkKey(key) {
			continue
		}
		if earlier := keys.add(key); earlier != nil && b.options.LastKeyWins {
			if !isMerge {
				b.override(n, overrides.at(n, earlier), key, val)
				continue
			}
		} else if earlier != nil {
			hint := ""
			if isMerge {
				hint = "merge several maps with <<: [*one, *two]"
			}
			b.file.Report(key.Span, hint, "the key %q is already set on line %d", key.Text, earlier.Span.Line)
			continue
		}
		if isMerge {
			merges = append(merges, val)
			continue
		}
		n.Entries = append(n.Entries, Entry{key, val})
	}
	for _, from := range slices.Backward(merges) { // the last one wins, as the last key does
		b.merge(n, from, keys, level)
	}
	return first
}

// overrides finds the entry of a key; it indexes the entries when a key comes twice, which is rare.
type overrides struct{ index map[*Node]int }

func (o *overrides) at(n, key *Node) int {
	if o.index == nil {
		o.index = map[*Node]int{}
	}
	for i := len(o.index); i < len(n.Entries); i++ {
		o.index[n.Entries[i].Key] = i
	}
	return o.index[key]
}

// override lets a key take the place of the entry of its name.
func (b *builder) override(n *Node, at int, key, val *Node) {
	earlier := n.Entries[at].Key
	n.Entries[at].Value = val
	if len(b.file.Warnings) < MaxProblems {
		b.file.Warnings = append(b.file.Warnings, b.file.Diagnostic(key.Span, "keep one of them",
			fmt.Sprintf("the key %q is already set on line %d, and this one replaces it", key.Text, earlier.Span.Line)))
	}
}

// checkKey reports a key that cannot name a field.
func (b *builder) checkKey(key *Node) bool {
	switch {
	case !key.Kind.IsScalar():
		b.file.Report(key.Span, "quote text that begins with { or [", "%s cannot be a key", key.Kind)
	case key.Kind == Null:
		b.file.Report(key.Span, "quote it to make it text", "null cannot be a key")
	default:
		return true
	}
	return false
}

// merge adds the entries of the merged mapping, or of each of a list of mappings, whose keys are not there yet.
func (b *builder) merge(n, from *Node, keys *keySet, level int) {
	sources := []*Node{from}
	if from.Kind == Sequence {
		sources = from.Items
	}
	for _, source := range sources {
		if source.Kind != Mapping {
			b.file.Report(source.Span, "give it an alias of a map (<<: *name)", "<< merges maps, not %s", source.Kind)
			continue
		}
		for _, e := range source.Entries {
			b.repeat(e.Key.Span, e.Key, level+1)
			b.repeat(e.Key.Span, e.Value, level+1)
			if b.fatal != nil {
				return
			}
			if keys.add(e.Key) == nil {
				e.Key.shared, e.Value.shared = true, true
				n.Entries = append(n.Entries, e)
				n.weight.add(e.Key.weight)
				n.weight.add(e.Value.weight)
			}
		}
	}
}

// keySet finds the first key of each name. Most mappings are so small that looking through them beats hashing.
type keySet struct {
	few  []*Node
	many map[string]*Node
}

const fewKeys = 8

// add returns the key of the same name that was added before, or adds this one and returns nil.
func (s *keySet) add(key *Node) *Node {
	if s.many != nil {
		if first := s.many[key.Text]; first != nil {
			return first
		}
		s.many[key.Text] = key
		return nil
	}
	for _, k := range s.few {
		if k.Text == key.Text {
			return k
		}
	}
	s.few = append(s.few, key)
	if len(s.few) > fewKeys {
		s.many = make(map[string]*Node, 2*fewKeys)
		for _, k := range s.few {
			s.many[k.Text] = k
		}
	}
	return nil
}
