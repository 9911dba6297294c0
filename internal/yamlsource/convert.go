package yamlsource

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// Value reads YAML that holds one document as a value. Its errors are a diag.List.
func Value(name string, data []byte) (value.Value, error) {
	file, err := Parse(name, data)
	if err != nil {
		return value.Value{}, err
	}
	if err := file.Err(); err != nil {
		return value.Value{}, err
	}
	switch len(file.Documents) {
	case 0:
		return value.Value{}, nil
	case 1:
		v := file.Documents[0].Value()
		return v, file.Err()
	default:
		return value.Value{}, diag.List{file.Diagnostic(file.Documents[1].Span, "", "expected a single document")}
	}
}

// FromJSON writes JSON as YAML in block style, keys in the same order.
func FromJSON(data []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil { // JSON is YAML
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("reading JSON: there is no value")
	}
	toBlockStyle(&doc)
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return cleantext.YAML(buf.Bytes()), nil
}

// toBlockStyle clears the style that JSON gave every node; what must be quoted still will be, and what has to be escaped is.
func toBlockStyle(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && strings.ContainsFunc(n.Value, func(r rune) bool { return r >= 0x7f && cleantext.Harmful(r) }) {
		n.Style = yaml.DoubleQuotedStyle
	} else if n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode || n.Tag == "!!str" {
		n.Style = 0
	}
	for _, child := range n.Content {
		toBlockStyle(child)
	}
}
