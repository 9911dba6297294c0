// Package planpb converts between the baseline definition (steps/plan) and its protobuf messages (api/rung/plan/v1).
//
// The conversion loses nothing: FromProto of ToProto gives an equal component. The one thing that is not told apart is an
// empty map from no map, which mean the same.
package planpb

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// MaxNesting is how deep steps written inline or in parallel groups may nest. Deeper input is refused, so that nothing
// that walks a component can run out of stack.
const MaxNesting = 200

// Marshal returns the component in protobuf's binary form. The same component always gives the same bytes.
func Marshal(c *plan.Component) ([]byte, error) {
	message, err := ToProto(c)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(message)
}

// Unmarshal reads what Marshal writes.
func Unmarshal(data []byte) (*plan.Component, error) {
	var message planv1.Component
	if err := proto.Unmarshal(data, &message); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	return FromProto(&message)
}

// at puts the name of a field before an error, so that the whole reads as a path.
func at(field string, err error) error {
	var inner *fieldError
	if errors.As(err, &inner) {
		dot := "."
		if field == "" || strings.HasPrefix(inner.path, "[") {
			dot = ""
		}
		return &fieldError{path: field + dot + inner.path, err: inner.err}
	}
	return &fieldError{path: field, err: err}
}

type fieldError struct {
	path string
	err  error
}

func (e *fieldError) Error() string { return e.path + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// convertMap converts every value of a map, in the order of its keys. An empty map becomes nil.
func convertMap[A, B any](field string, in map[string]A, convert func(A) (B, error)) (map[string]B, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[string]B, len(in))
	for _, key := range slices.Sorted(maps.Keys(in)) {
		v, err := convert(in[key])
		if err != nil {
			return nil, at(fmt.Sprintf("%s[%q]", field, key), err)
		}
		if !utf8.ValidString(key) {
			return nil, at(field, fmt.Errorf("the name %q is not UTF-8", key))
		}
		out[key] = v
	}
	return out, nil
}

// convertSlice converts every item of a slice. An empty slice stays empty, and nil stays nil.
func convertSlice[A, B any](field string, in []A, convert func(A) (B, error)) ([]B, error) {
	if in == nil {
		return nil, nil
	}
	out := make([]B, len(in))
	for i, item := range in {
		v, err := convert(item)
		if err != nil {
			return nil, at(fmt.Sprintf("%s[%d]", field, i), err)
		}
		out[i] = v
	}
	return out, nil
}

func toSpan(s diag.Span) *planv1.Span {
	if s.IsZero() {
		return nil
	}
	return &planv1.Span{File: s.File, Line: int64(s.Line), Column: int64(s.Column), Length: int64(s.Length)}
}

func fromSpan(s *planv1.Span) diag.Span {
	return diag.Span{File: s.GetFile(), Line: int(s.GetLine()), Column: int(s.GetColumn()), Length: int(s.GetLength())}
}

func toDuration(d plan.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(time.Duration(d))
}

func fromDuration(d *durationpb.Duration) (plan.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, err
	}
	// AsDuration saturates where a Go duration ends, at 292 years.
	converted := d.AsDuration()
	if back := durationpb.New(converted); back.Seconds != d.Seconds || back.Nanos != d.Nanos {
		return 0, fmt.Errorf("%ds is longer than the longest duration, 292 years", d.Seconds)
	}
	return plan.Duration(converted), nil
}

func toInts(in []int) []int64 {
	var out []int64
	for _, i := range in {
		out = append(out, int64(i))
	}
	return out
}

func fromInts(in []int64) []int {
	var out []int
	for _, i := range in {
		out = append(out, int(i))
	}
	return out
}

// kinds pairs the types of the two worlds.
var kinds = map[value.Kind]planv1.Type{
	value.String:  planv1.Type_TYPE_STRING,
	value.Number:  planv1.Type_TYPE_NUMBER,
	value.Boolean: planv1.Type_TYPE_BOOLEAN,
	value.Struct:  planv1.Type_TYPE_STRUCT,
	value.Array:   planv1.Type_TYPE_ARRAY,
}

var whens = map[plan.When]planv1.When{
	"":             planv1.When_WHEN_UNSPECIFIED,
	plan.OnSuccess: planv1.When_WHEN_ON_SUCCESS,
	plan.OnFailure: planv1.When_WHEN_ON_FAILURE,
	plan.Always:    planv1.When_WHEN_ALWAYS,
}

var refKinds = map[plan.RefKind]planv1.Reference_Kind{
	plan.RefLocal:   planv1.Reference_KIND_LOCAL,
	plan.RefGit:     planv1.Reference_KIND_GIT,
	plan.RefOCI:     planv1.Reference_KIND_OCI,
	plan.RefBuiltin: planv1.Reference_KIND_BUILTIN,
	plan.RefDynamic: planv1.Reference_KIND_DYNAMIC,
	plan.RefAction:  planv1.Reference_KIND_ACTION,
	plan.RefArchive: planv1.Reference_KIND_ARCHIVE,
}

// lookup finds the partner of a constant of ours.
func lookup[A ~string | ~uint8, B any](table map[A]B, what string, key A) (B, error) {
	found, ok := table[key]
	if !ok {
		return found, fmt.Errorf("%v is not a %s", key, what)
	}
	return found, nil
}

// reverse finds the partner of a constant of theirs.
func reverse[A, B comparable](table map[A]B, what string, key B) (A, error) {
	for a, b := range table {
		if b == key {
			return a, nil
		}
	}
	var none A
	return none, fmt.Errorf("%v is not a %s that this version knows", key, what)
}
