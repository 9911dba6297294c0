// Package yamlsource reads YAML text into a tree in which every node knows its position, and collects all mistakes in it.
//
// A frontend parses a text with Parse, walks File.Documents, reports every mistake it meets with File.Report, and returns
// File.Err: one list of all of them, in the order of the text, each with its source line. Aliases and merge keys are already
// resolved in the tree, duplicate keys and impossible scalars already reported.
//
// Scalars follow YAML 1.2's core schema: only true and false are booleans, and dates are strings. Two habits of YAML 1.1 are
// kept because existing files lean on them: a number that begins with 0 is octal (010 is 8), and underscores may separate
// digits (1_000).
package yamlsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/rungci/rung/steps/diag"
)

// Limits. They bound the time and memory that a text can cost, however it is made.
const (
	// MaxSize is the longest text that is read, in bytes.
	MaxSize = 64 << 20
	// MaxDepth is how deep sequences and mappings may nest, aliases followed. It is below value.MaxDepth, so that every tree
	// is also a value.
	MaxDepth = 100
	// MaxNodes is how many scalars, keys, sequences and mappings a text may have in all, each counted as often as aliases
	// and merge keys repeat it.
	MaxNodes = 2_000_000
	// MaxAliasedText is how many bytes of text aliases and merge keys may repeat.
	MaxAliasedText = 64 << 20
	// MaxProblems is how many diagnostics a text gets. The rest is only counted.
	MaxProblems = 100
)

// File is a parsed text and the collector of what is wrong with it.
type File struct {
	// Name is what diagnostics call the file.
	Name string
	// Documents are the roots of the documents. The root of an empty document has the kind Null.
	Documents []*Node
	// Warnings are the keys that Options.LastKeyWins let pass, in the order of the text.
	Warnings diag.List

	text     *text // as it is parsed
	original *text // as it is shown
	found    problems
}

// Parse reads a text that diagnostics call name. Nodes may carry the local tags that are listed ("!reference"); every other
// tag outside the core schema is reported.
//
// A text that is not YAML gives a diag.List with one diagnostic. All else that is wrong is left for File.Err, so that a
// frontend can add what it finds.
func Parse(name string, data []byte, tags ...string) (*File, error) {
	return ParseWith(name, data, Options{Tags: tags})
}

// ParseWith is Parse for a dialect of YAML.
func ParseWith(name string, data []byte, options Options) (*File, error) {
	if len(data) > MaxSize {
		return nil, diag.List{{
			Span:    diag.Span{File: name},
			Message: fmt.Sprintf("the file has %d bytes, more than the limit of %d", len(data), MaxSize),
		}}
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	f := &File{Name: name, original: newText(name, data)}
	f.text = f.original
	if d, bad := f.checkCharacters(); bad {
		return nil, diag.List{d}
	}
	if marks(data) > MaxNodes {
		return nil, diag.List{{
			Span:    diag.Span{File: name},
			Message: fmt.Sprintf("the file may hold more than %d values, which is the limit", MaxNodes),
			Hint:    "split the file",
		}}
	}
	hidden := options.veil(data)
	if len(hidden) != len(data) {
		f.text = newText(name, hidden)
	}
	docs, err := load(hidden)
	if err != nil {
		return nil, diag.List{f.syntaxError(err)}
	}
	b := builder{file: f, options: options, done: map[*yaml.Node]*Node{}}
	for _, doc := range docs {
		root, err := b.document(doc)
		if err != nil {
			return nil, diag.List{*err}
		}
		f.Documents = append(f.Documents, root)
	}
	return f, nil
}

// load parses every document. The library reports impossible input of its own by panicking; no text may take the program
// down, so that becomes an error too.
func load(data []byte) (docs []*yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			docs, err = nil, fmt.Errorf("cannot be read as YAML: %v", p)
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(loaderlimits.New(
		loaderlimits.DepthValue(MaxDepth),
		loaderlimits.AliasNone(), // the builder has a stricter budget
	)))
	if err != nil {
		return nil, err
	}
	for {
		var doc yaml.Node
		if err := loader.Load(&doc); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, &doc)
	}
}

// marks returns an upper bound of half the number of nodes in the data, from the characters that must be before one. The
// check costs a scan; to find out by parsing would cost gigabytes.
func marks(data []byte) int {
	n := 0
	for i, c := range data {
		switch c {
		case '[', '{', ',':
			n++
		case '-', ':', '?':
			if i+1 == len(data) || data[i+1] <= ' ' {
				n++
			}
		}
	}
	return n
}
