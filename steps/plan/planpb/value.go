package planpb

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	"github.com/rungci/rung/steps/value"
)

// ToValue converts a value with all its marks.
func ToValue(v value.Value) (*planv1.Value, error) { return toValue(v, 0) }

func toValue(v value.Value, depth int) (*planv1.Value, error) {
	if depth > value.MaxDepth {
		return nil, value.ErrTooDeep
	}
	out := &planv1.Value{Sensitive: v.Marked()}
	switch v.Kind() {
	case value.Boolean:
		out.Kind = &planv1.Value_Boolean{Boolean: v.Bool()}
	case value.Number:
		return out, setNumber(out, v)
	case value.String:
		if utf8.ValidString(v.Str()) {
			out.Kind = &planv1.Value_String_{String_: v.Str()}
		} else {
			out.Kind = &planv1.Value_Bytes{Bytes: []byte(v.Str())}
		}
	case value.Array:
		items, err := convertSlice("", v.Items(), func(item value.Value) (*planv1.Value, error) { return toValue(item, depth+1) })
		out.Kind = &planv1.Value_Array{Array: &planv1.Array{Items: items}}
		return out, err
	case value.Struct:
		fields, err := convertMap("", v.Fields(), func(field value.Value) (*planv1.Value, error) { return toValue(field, depth+1) })
		out.Kind = &planv1.Value_Struct{Struct: &planv1.Struct{Fields: fields}}
		return out, err
	default:
		out.Kind = &planv1.Value_Null{Null: structpb.NullValue_NULL_VALUE}
	}
	return out, nil
}

func setNumber(out *planv1.Value, v value.Value) error {
	integer, exact := v.Integer()
	switch {
	case !exact:
		if f := v.Float(); math.IsInf(f, 0) || math.IsNaN(f) {
			return errNotFinite
		}
		out.Kind = &planv1.Value_Number{Number: v.Float()}
	case integer.IsInt64():
		out.Kind = &planv1.Value_Integer{Integer: integer.Int64()}
	case integer.IsUint64():
		out.Kind = &planv1.Value_Large{Large: integer.Uint64()}
	default: // value keeps no integer whose magnitude has more than 64 bits
		out.Kind = &planv1.Value_LargeNegative{LargeNegative: new(big.Int).Neg(integer).Uint64()}
	}
	return nil
}

var errNotFinite = errors.New("infinity and NaN are not numbers a step can use")

// FromValue converts a value with all its marks.
func FromValue(v *planv1.Value) (value.Value, error) { return fromValue(v, 0) }

func fromValue(v *planv1.Value, depth int) (value.Value, error) {
	if depth > value.MaxDepth {
		return value.Value{}, value.ErrTooDeep
	}
	out, err := fromKind(v, depth)
	return out.Mark(v.GetSensitive()), err
}

func fromKind(v *planv1.Value, depth int) (value.Value, error) {
	switch k := v.GetKind().(type) {
	case *planv1.Value_Null:
		return value.Value{}, nil
	case *planv1.Value_Boolean:
		return value.OfBool(k.Boolean), nil
	case *planv1.Value_Integer:
		return value.OfInt(k.Integer), nil
	case *planv1.Value_Large:
		return value.OfBig(new(big.Int).SetUint64(k.Large)), nil
	case *planv1.Value_LargeNegative:
		magnitude := new(big.Int).SetUint64(k.LargeNegative)
		return value.OfBig(magnitude.Neg(magnitude)), nil
	case *planv1.Value_Number:
		if math.IsInf(k.Number, 0) || math.IsNaN(k.Number) {
			return value.Value{}, errNotFinite
		}
		return value.OfFloat(k.Number), nil
	case *planv1.Value_String_:
		return value.OfString(k.String_), nil
	case *planv1.Value_Bytes:
		return value.OfString(string(k.Bytes)), nil
	case *planv1.Value_Array:
		items, err := convertSlice("", k.Array.GetItems(), func(item *planv1.Value) (value.Value, error) { return fromValue(item, depth+1) })
		return value.OfArray(items), err
	case *planv1.Value_Struct:
		fields, err := convertMap("", k.Struct.GetFields(), func(f *planv1.Value) (value.Value, error) { return fromValue(f, depth+1) })
		return value.OfStruct(fields), err
	default:
		return value.Value{}, fmt.Errorf("the value has no kind that this version knows; null is said with %q", "null")
	}
}
