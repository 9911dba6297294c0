// Package stepproto speaks the messages of GitLab's existing step-runner (package proto of its v0.11): it reads step files
// in text form, writes definitions, and makes a StepResult of the trace of a run.
//
// Those messages say less than a plan does. What they have no field for is left out by ToProto and named by Lost; numbers
// in them are doubles, so that integers beyond 2^53 lose digits.
package stepproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"

	"github.com/rungci/rung/internal/lazyregexp"
)

// The messages, by the names that this package's users need.
type (
	// SpecDefinition is what one step file holds.
	SpecDefinition = stepsv0.SpecDefinition
	// StepResult is what came of a step.
	StepResult = stepsv0.StepResult
)

// maxNesting is how deep messages may nest. A value takes two or three levels of messages for each of its own.
const maxNesting = 4 * value.MaxDepth

// ParseText reads a SpecDefinition, or a bare Definition, in protobuf's text form. Errors say line and column where the text
// is wrong, and the path of the field where its meaning is.
func ParseText(data []byte) (*plan.Component, error) {
	options := prototext.UnmarshalOptions{RecursionLimit: maxNesting}
	if !wholeFile().Match(data) {
		var def stepsv0.Definition
		if err := options.Unmarshal(data, &def); err != nil {
			return nil, textError(err, &def)
		}
		if proto.Size(&def) == 0 {
			return nil, errors.New(`the text holds no definition; a step file begins with "spec" and "definition"`)
		}
		return fromBareDefinition(&def)
	}
	var whole SpecDefinition
	if err := options.Unmarshal(data, &whole); err != nil {
		return nil, textError(err, &whole)
	}
	return FromProto(&whole)
}

// wholeFile tells a SpecDefinition from a bare Definition: the two have no field in common.
var wholeFile = lazyregexp.New(`(?m)\A(?:\s|#.*$)*(?:spec|definition)\b`)

// decodeError is the form of prototext's errors, which is not stable: the space after "proto:" changes.
var (
	decodeError  = lazyregexp.New(`^proto:[\s\x{a0}]*(?:syntax error )?\(line (\d+):(\d+)\):[\s\x{a0}]*((?s).*)$`)
	unknownField = lazyregexp.New(`unknown field: ([\w.]+)`)
)

// textError says where a text is wrong, and what was probably meant.
func textError(err error, message proto.Message) error {
	text := err.Error()
	if m := decodeError().FindStringSubmatch(text); m != nil {
		text = fmt.Sprintf("line %s, column %s: %s", m[1], m[2], m[3])
	} else {
		text = strings.TrimLeft(strings.TrimPrefix(text, "proto:"), " \u00a0")
	}
	if m := unknownField().FindStringSubmatch(text); m != nil {
		if meant := diag.Suggest(m[1], fieldNames(message.ProtoReflect().Descriptor(), map[protoreflect.FullName]bool{})); meant != "" {
			text += fmt.Sprintf("; did you mean %q?", meant)
		}
	}
	return errors.New(text)
}

// fieldNames are the names of all fields of a message and of the messages in it.
func fieldNames(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) []string {
	if seen[message.FullName()] {
		return nil
	}
	seen[message.FullName()] = true
	var names []string
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		names = append(names, string(field.Name()))
		if inner := field.Message(); inner != nil {
			names = append(names, fieldNames(inner, seen)...)
		}
	}
	return names
}

// JSON returns a message in protobuf's JSON form, indented, with a newline at the end. The same message always gives the
// same text.
func JSON(m proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the message as JSON: %w", err)
	}
	var out bytes.Buffer // protojson adds spaces at random; Indent places them anew
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, fmt.Errorf("encoding the message as JSON: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Text returns a message in protobuf's text form, a field a line. The same message always gives the same text.
func Text(m proto.Message) ([]byte, error) {
	data, err := prototext.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the message as text: %w", err)
	}
	// prototext adds a second space after a name at random. Strings hold no line ends in this form, so every line begins
	// with a name.
	return extraSpace().ReplaceAll(data, []byte("$1 ")), nil
}

var extraSpace = lazyregexp.New(`(?m)^( *\w+:)  `)
