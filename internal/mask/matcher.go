package mask

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
)

const (
	// prefixSize is how many bytes of a pattern the filter looks at. No pattern is shorter.
	prefixSize = MinLength
	// filterWords is the size of the filter's bitmap: 2^20 bits, 128 KiB, fit the second level cache of any server. Small
	// sets use only the beginning of it.
	filterWords = 1 << 14
	// filterSpread is the least number of bits per prefix, as a power of two: fewer than one position in 2^filterSpread
	// is looked at in vain.
	filterSpread = 6
	// hashFactor is the golden ratio as a fraction of 2^32. It spreads the prefixes evenly over the upper bits.
	hashFactor = 0x9e3779b1
)

// pattern is a sequence of bytes to be masked. Its length is from prefixSize to 2*partSize-1.
type pattern struct {
	text string
	// rest tells that this is not the first part of a long secret: next to a masked part it is not masked again.
	rest bool
}

// matcher finds patterns. It is made once and then only read.
type matcher struct {
	filter      *[filterWords]uint64 // nil where another matcher looks for the patterns of this one
	filterShift uint32
	skip        *skipper // nil where it does not pay

	// prefixes holds the first bytes of all patterns as big-endian numbers, ascending. The tree of the patterns that
	// begin with prefixes[i] has its root in nodes[i]. slots finds i+1 by the hash of the prefix.
	prefixes  []uint32
	slots     []uint32
	slotShift uint32

	nodes  []node
	labels []byte

	// more are matchers of other patterns, which are looked for at the same time. The filter is for theirs as well.
	more []*matcher
}

// join makes one matcher of several, without changing them. before is the one that was made before the last of them, and looks for nothing that
// they do not: its filter counts, if it is not nil. The patterns are those of the first, if it is the only one.
func join(all []*matcher, before *matcher, patterns []pattern) *matcher {
	joined, prefixes := *all[0], 0
	joined.more = all[1:]
	for _, m := range all {
		prefixes += len(m.prefixes)
	}
	joined.filter, joined.filterShift = new([filterWords]uint64), filterShift(prefixes)
	fresh := all
	if before != nil && before.filterShift == joined.filterShift {
		*joined.filter, fresh = *before.filter, all[len(all)-1:]
	}
	for _, m := range fresh {
		joined.admit(m.prefixes)
	}
	if len(all) == 1 { // a skipper knows the patterns of one matcher only
		joined.skip = newSkipper(patterns)
	}
	return &joined
}

// filterShift is that of a filter for so many prefixes.
func filterShift(prefixes int) uint32 {
	const maxFilter = 20 // filterWords has 2^20 bits
	return uint32(32 - min(max(bits.Len(uint(prefixes))+filterSpread, 12), maxFilter))
}

// admit lets prefixes through the filter.
func (m *matcher) admit(prefixes []uint32) {
	for _, key := range prefixes {
		bit := bits.ReverseBytes32(key) * hashFactor >> m.filterShift
		m.filter[bit/64] |= 1 << (bit % 64)
	}
}

// node is a node of a radix tree. Its label is what follows the label of its parent in all patterns below.
type node struct {
	label    uint32 // index in labels
	kids     uint32 // index in nodes of the first child; the children are ordered by their first byte
	count    uint16 // number of children
	size     uint8  // length of the label
	first    byte   // first byte of the label
	end      ending
	shortest uint8 // length of the shortest pattern that ends here or below
}

// ending tells whether a pattern ends at a node.
type ending uint8

const (
	noEnd ending = iota
	restEnd
	fullEnd
)

// compile makes a matcher of patterns as sorted and merge return them. It does not change them.
func compile(patterns []pattern) *matcher {
	b := builder{matcher: new(matcher), patterns: patterns}
	b.storeLabels()
	b.grow()
	b.index()
	return b.matcher
}

// builder is a matcher in the making. The patterns are sorted and unique.
type builder struct {
	*matcher
	patterns []pattern
	shared   []int // bytes that pattern i shares with pattern i-1
	stored   []int // where in labels the rest of pattern i is
}

// storeLabels stores of each pattern what it does not share with the one before it.
func (b *builder) storeLabels() {
	b.shared, b.stored = make([]int, len(b.patterns)), make([]int, len(b.patterns))
	size := 0
	for i, p := range b.patterns {
		if i > 0 {
			b.shared[i] = commonPrefix(b.patterns[i-1].text, p.text)
		}
		size += len(p.text) - b.shared[i]
	}
	b.labels = make([]byte, 0, size)
	for i, p := range b.patterns {
		b.stored[i] = len(b.labels)
		b.labels = append(b.labels, p.text[b.shared[i]:]...)
	}
}

// grow makes one tree per prefix.
func (b *builder) grow() {
	groups := b.groups(0, len(b.patterns), 0, prefixSize)
	b.nodes = make([]node, len(groups), 2*len(b.patterns))
	b.prefixes = make([]uint32, len(groups))
	for i, g := range groups {
		b.prefixes[i] = binary.BigEndian.Uint32([]byte(b.patterns[g.lo].text))
		b.fill(i, g, prefixSize)
	}
	b.nodes = slices.Clip(b.nodes)
}

// group is a range of patterns.
type group struct{ lo, hi int }

// groups divides patterns[lo:hi], which agree up to byte from, by their bytes from:to.
func (b *builder) groups(lo, hi, from, to int) []group {
	var all []group
	for i := lo; i < hi; i++ {
		if i > lo && b.patterns[i].text[from:to] == b.patterns[i-1].text[from:to] {
			all[len(all)-1].hi++
			continue
		}
		all = append(all, group{i, i + 1})
	}
	return all
}

// fill makes node k the tree of the patterns in g, which agree up to byte depth.
func (b *builder) fill(k int, g group, depth int) {
	n := node{label: uint32(b.stored[g.lo] + depth - b.shared[g.lo]), shortest: ^uint8(0)}
	// Sorted as they are, the patterns agree where the first and the last do.
	agreed := len(b.patterns[g.lo].text)
	if g.hi-g.lo > 1 {
		agreed = commonPrefix(b.patterns[g.lo].text, b.patterns[g.hi-1].text)
	}
	n.size = uint8(agreed - depth)
	if n.size > 0 {
		n.first = b.labels[n.label]
	}
	for _, p := range b.patterns[g.lo:g.hi] {
		n.shortest = min(n.shortest, uint8(len(p.text)))
	}
	if p := b.patterns[g.lo]; len(p.text) == agreed {
		n.end = fullEnd
		if p.rest {
			n.end = restEnd
		}
		g.lo++
	}
	if g.lo < g.hi {
		kids := b.groups(g.lo, g.hi, agreed, agreed+1)
		n.kids, n.count = uint32(len(b.nodes)), uint16(len(kids))
		b.nodes = append(b.nodes, make([]node, len(kids))...)
		for i, kid := range kids {
			b.fill(int(n.kids)+i, kid, agreed)
		}
	}
	b.nodes[k] = n
}

// index makes the hash table of the prefixes.
func (b *builder) index() {
	width := bits.Len(uint(len(b.prefixes)))
	b.slotShift = uint32(32 - (width + 1))
	b.slots = make([]uint32, 1<<(width+1))
	for i, key := range b.prefixes {
		hash := bits.ReverseBytes32(key) * hashFactor
		slot := hash >> b.slotShift
		for b.slots[slot] != 0 {
			slot = (slot + 1) % uint32(len(b.slots))
		}
		b.slots[slot] = uint32(i + 1)
	}
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// next returns the first index from i on where a pattern may begin: because the filter says so, or because fewer than
// prefixSize bytes are left. It returns the length of the text when there is none.
func (m *matcher) next(text []byte, i int) int {
	if m.skip != nil {
		var found bool
		if i, found = m.skip.next(m, text, i); found {
			return i
		}
	}
	filter, shift := m.filter, m.filterShift&31
	// Five prefixes fit in eight bytes; four of them are tested with one branch.
	for ; i+8 <= len(text); i += 4 {
		v := binary.LittleEndian.Uint64(text[i:])
		h0 := uint32(v) * hashFactor >> shift
		h1 := uint32(v>>8) * hashFactor >> shift
		h2 := uint32(v>>16) * hashFactor >> shift
		h3 := uint32(v>>24) * hashFactor >> shift
		b0 := filter[h0/64%filterWords] >> (h0 % 64)
		b1 := filter[h1/64%filterWords] >> (h1 % 64)
		b2 := filter[h2/64%filterWords] >> (h2 % 64)
		b3 := filter[h3/64%filterWords] >> (h3 % 64)
		if (b0|b1|b2|b3)&1 != 0 {
			return i + bits.TrailingZeros64(b0&1|b1&1<<1|b2&1<<2|b3&1<<3)
		}
	}
	for ; i+prefixSize <= len(text); i++ {
		if m.mayBegin(text[i:]) {
			return i
		}
	}
	return min(i, len(text))
}

// mayBegin asks the filter whether a pattern begins like the text, of at least prefixSize bytes.
func (m *matcher) mayBegin(text []byte) bool {
	hash := binary.LittleEndian.Uint32(text) * hashFactor >> (m.filterShift & 31)
	return m.filter[hash/64%filterWords]>>(hash%64)&1 != 0
}

// finding is what is known about the beginning of a text.
type finding struct {
	length int  // length of the longest pattern that the text begins with, or 0
	rest   bool // that pattern is only ever the rest of a secret
	// shortest is the length of the shortest pattern that is longer than the text and begins with all of it, or 0.
	shortest int
}

// at tells which patterns the text begins with, and which patterns begin with the text.
func (m *matcher) at(text []byte) finding {
	f := m.own(text)
	for _, other := range m.more {
		f = f.with(other.own(text))
	}
	return f
}

// with is what is known of two sets of patterns together.
func (f finding) with(g finding) finding {
	switch {
	case g.length > f.length:
		f.length, f.rest = g.length, g.rest
	case g.length == f.length:
		f.rest = f.rest && g.rest // one that stands alone is more than the rest of another
	}
	if f.shortest == 0 || g.shortest != 0 && g.shortest < f.shortest {
		f.shortest = g.shortest
	}
	return f
}

// own is at for the matcher's own patterns.
func (m *matcher) own(text []byte) finding {
	if len(text) < prefixSize {
		return finding{shortest: m.begun(text)}
	}
	hash := binary.LittleEndian.Uint32(text) * hashFactor
	key := binary.BigEndian.Uint32(text)
	for slot := hash >> m.slotShift; m.slots[slot] != 0; slot = (slot + 1) % uint32(len(m.slots)) {
		if root := m.slots[slot] - 1; m.prefixes[root] == key {
			return m.walk(root, text)
		}
	}
	return finding{}
}

// walk goes down the tree at root, whose patterns share their prefix with the text.
func (m *matcher) walk(root uint32, text []byte) (f finding) {
	depth := prefixSize
	n := &m.nodes[root]
	for {
		label, left := m.labels[n.label:n.label+uint32(n.size)], text[depth:]
		if len(left) < len(label) {
			if string(left) == string(label[:len(left)]) {
				f.shortest = int(n.shortest)
			}
			return f
		}
		if string(left[:len(label)]) != string(label) {
			return f
		}
		depth += len(label)
		if n.end != noEnd {
			f.length, f.rest = depth, n.end == restEnd
		}
		kids := m.nodes[n.kids : n.kids+uint32(n.count)]
		if depth == len(text) {
			for _, kid := range kids {
				if f.shortest == 0 || int(kid.shortest) < f.shortest {
					f.shortest = int(kid.shortest)
				}
			}
			return f
		}
		if n = child(kids, text[depth]); n == nil {
			return f
		}
	}
}

// child returns the node whose label begins with c, or nil.
func child(kids []node, c byte) *node {
	for len(kids) > 4 {
		half := len(kids) / 2
		if kids[half].first <= c {
			kids = kids[half:]
		} else {
			kids = kids[:half]
		}
	}
	for i := range kids {
		if kids[i].first == c {
			return &kids[i]
		}
	}
	return nil
}

// begun returns the length of the shortest pattern that begins with the text, which is shorter than a prefix, or 0.
func (m *matcher) begun(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	var lo uint32
	for _, c := range text {
		lo = lo<<8 | uint32(c)
	}
	unknown := uint(8 * (prefixSize - len(text)))
	lo <<= unknown
	hi := lo | (1<<unknown - 1)
	i := sort.Search(len(m.prefixes), func(i int) bool { return m.prefixes[i] >= lo })
	shortest := 0
	for ; i < len(m.prefixes) && m.prefixes[i] <= hi; i++ {
		if n := int(m.nodes[i].shortest); shortest == 0 || n < shortest {
			shortest = n
		}
		if shortest <= prefixSize || unknown > 8 {
			// There may be thousands more, and none is shorter than this.
			return min(shortest, prefixSize)
		}
	}
	return shortest
}
