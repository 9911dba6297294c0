package stepproto

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rungci/rung/steps/value"
)

// fromValue converts a value of protobuf's struct, whose numbers are doubles.
func fromValue(m *structpb.Value, depth int) (value.Value, error) {
	if depth > value.MaxDepth {
		return value.Value{}, value.ErrTooDeep
	}
	switch k := m.GetKind().(type) {
	case *structpb.Value_NullValue:
		return value.Value{}, nil
	case *structpb.Value_BoolValue:
		return value.OfBool(k.BoolValue), nil
	case *structpb.Value_NumberValue:
		if math.IsInf(k.NumberValue, 0) || math.IsNaN(k.NumberValue) {
			return value.Value{}, errors.New("infinity and NaN are not numbers a step can use")
		}
		return value.OfFloat(k.NumberValue), nil
	case *structpb.Value_StringValue:
		return value.OfString(k.StringValue), nil
	case *structpb.Value_ListValue:
		items := make([]value.Value, len(k.ListValue.GetValues()))
		for i, item := range k.ListValue.GetValues() {
			v, err := fromValue(item, depth+1)
			if err != nil {
				return value.Value{}, err
			}
			items[i] = v
		}
		return value.OfArray(items), nil
	case *structpb.Value_StructValue:
		fields := make(map[string]value.Value, len(k.StructValue.GetFields()))
		for name, field := range sorted(k.StructValue.GetFields()) {
			v, err := fromValue(field, depth+1)
			if err != nil {
				return value.Value{}, err
			}
			fields[name] = v
		}
		return value.OfStruct(fields), nil
	default:
		return value.Value{}, fmt.Errorf("the value is empty; null is written as null_value: NULL_VALUE")
	}
}

// toValue converts a value. Marks are lost, integers beyond 2^53 become the nearest double, and bytes that are not UTF-8,
// which protobuf cannot hold, become U+FFFD.
func toValue(v value.Value) *structpb.Value {
	switch v.Kind() {
	case value.Boolean:
		return structpb.NewBoolValue(v.Bool())
	case value.Number:
		return structpb.NewNumberValue(v.Float())
	case value.String:
		return structpb.NewStringValue(clean(v.Str()))
	case value.Array:
		list := &structpb.ListValue{}
		for _, item := range v.Items() {
			list.Values = append(list.Values, toValue(item))
		}
		return structpb.NewListValue(list)
	case value.Struct:
		return structpb.NewStructValue(&structpb.Struct{Fields: toValues(v.Fields())})
	default:
		return structpb.NewNullValue()
	}
}

func toValues(values map[string]value.Value) map[string]*structpb.Value {
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]*structpb.Value, len(values))
	for name, v := range values {
		out[clean(name)] = toValue(v)
	}
	return out
}

func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func cleanAll(texts map[string]string) map[string]string {
	if len(texts) == 0 {
		return nil
	}
	out := make(map[string]string, len(texts))
	for name, text := range texts {
		out[clean(name)] = clean(text)
	}
	return out
}
