package yamlsource

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// Kind is what a node is.
type Kind uint8

// The kinds of node.
const (
	Null Kind = iota
	Boolean
	Number
	String
	Sequence
	Mapping
)

// String returns the kind with its article, as messages use it ("a number").
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "a map"}[k]
}

// IsScalar reports whether the kind is neither Sequence nor Mapping.
func (k Kind) IsScalar() bool { return k < Sequence }

// Node is a value in the text. Where the text repeats a value by an alias, the tree holds the same Node again.
type Node struct {
	Kind Kind
	// Tag is the local tag ("!reference") of a node that has one.
	Tag string
	// Text is the text of a scalar, unquoted, with escapes and folding done.
	Text string
	// Items are the items of a Sequence.
	Items []*Node
	// Entries are the entries of a Mapping in the order of the text, those from merge keys last.
	Entries []Entry
	// Span is the place of a scalar on its first line, of a mapping's first key, or of the character that a sequence or a
	// mapping in braces begins with.
	Span diag.Span

	style  style
	shared bool
	start  int // where the content begins in the text, in bytes
	weight weight
}

// style is how a scalar is written.
type style uint8

const (
	plain style = iota
	singleQuoted
	doubleQuoted
	block
)

// Entry is a key of a mapping and its value. The key is a scalar of any kind; Key.Text is its text.
type Entry struct {
	Key, Value *Node
}

// Get returns the value of the key, nil when the mapping does not have it.
func (n *Node) Get(key string) *Node {
	for _, e := range n.Entries {
		if e.Key.Text == key {
			return e.Value
		}
	}
	return nil
}

// IsPlain reports whether a scalar is written without quotes and not as a block.
func (n *Node) IsPlain() bool { return n.style == plain }

// Shared reports whether the tree may hold the node at more than one place, through aliases or merge keys.
func (n *Node) Shared() bool { return n.shared }

// Value returns the node as a value. Keys become field names by their text, whatever kind they are.
func (n *Node) Value() value.Value {
	switch n.Kind {
	case Sequence:
		items := make([]value.Value, len(n.Items))
		for i, item := range n.Items {
			items[i] = item.Value()
		}
		return value.OfArray(items)
	case Mapping:
		fields := make(map[string]value.Value, len(n.Entries))
		for _, e := range n.Entries {
			fields[e.Key.Text] = e.Value.Value()
		}
		return value.OfStruct(fields)
	case String:
		return value.OfString(n.Text)
	case Boolean:
		return value.OfBool(isTrue(n.Text) || isYes(n.Text))
	case Number:
		v, err := number(n.Text)
		if err != nil {
			panic(err) // the builder reports such numbers and makes them strings
		}
		return v
	default:
		return value.Value{}
	}
}

func isTrue(text string) bool { return text == "true" || text == "True" || text == "TRUE" }

func isFalse(text string) bool { return text == "false" || text == "False" || text == "FALSE" }

// isYes and isNo know the booleans that only YAML 1.1 has.
func isYes(text string) bool {
	switch text {
	case "yes", "Yes", "YES", "on", "On", "ON":
		return true
	}
	return false
}

func isNo(text string) bool {
	switch text {
	case "no", "No", "NO", "off", "Off", "OFF":
		return true
	}
	return false
}

func isNull(text string) bool {
	return text == "" || text == "~" || text == "null" || text == "Null" || text == "NULL"
}

// number reads an integer of any base that YAML knows, else a decimal number. Integers of up to 64 bits stay exact.
func number(text string) (value.Value, error) {
	digits := strings.ReplaceAll(text, "_", "")
	if len(digits) <= maxIntegerDigits {
		if i, ok := new(big.Int).SetString(digits, 0); ok {
			return value.OfBig(i), nil
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.ContainsAny(digits, "xXpPiInN") { // Go also knows hexadecimal fractions, infinities and NaN
		return value.Value{}, fmt.Errorf("%s is not a number a step can use", text)
	}
	return value.OfFloat(f), nil
}

// maxIntegerDigits is enough for 64 bits in base 2 with sign and prefix. Longer ones are decimals.
const maxIntegerDigits = 67
