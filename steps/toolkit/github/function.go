package github

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// Functions are what steps/frontend/actions compiles GitHub's expressions to where our language means something else.
var Functions = map[string]func(lookup func(name string) (value.Value, bool), args []value.Value) (value.Value, error){
	"github_get":     get,
	"github_compare": compareFunction,
	"github_runner":  runner,
}

// get follows names, from a top-level one on: what is not there is empty. Below `steps`, upper and lower case are the same.
func get(lookup func(name string) (value.Value, bool), args []value.Value) (value.Value, error) {
	v := value.Value{}
	for i, arg := range args {
		marked := v.Marked()
		if i == 0 {
			v, _ = lookup(arg.Str())
			continue
		}
		field, ok := v.Fields()[arg.Str()]
		for _, key := range v.Keys() {
			if !ok && args[0].Str() == "steps" && strings.EqualFold(key, arg.Str()) {
				field, ok = v.Fields()[key], true
			}
		}
		v = field.Mark(marked)
	}
	if v.IsNull() {
		return value.OfString("").Mark(v.Marked()), nil
	}
	return v, nil
}

// runner returns what is known of the machine.
func runner(_ func(name string) (value.Value, bool), args []value.Value) (value.Value, error) {
	if len(args) == 1 && args[0].Str() == "arch" {
		return value.OfString(runnerArch()), nil
	}
	return value.OfString(runnerOS()), nil
}

// compareFunction is github_compare(operator, a, b).
func compareFunction(_ func(name string) (value.Value, bool), args []value.Value) (value.Value, error) {
	if len(args) != 3 {
		return value.Value{}, errors.New("it takes an operator and two values")
	}
	order, comparable := compare(args[1], args[2])
	holds := false
	switch operator := args[0].Str(); operator {
	case "==":
		holds = comparable && order == 0
	case "!=":
		holds = !comparable || order != 0
	case "<":
		holds = comparable && order < 0
	case "<=":
		holds = comparable && order <= 0
	case ">":
		holds = comparable && order > 0
	case ">=":
		holds = comparable && order >= 0
	default:
		return value.Value{}, fmt.Errorf("%q is not an operator", operator)
	}
	return value.OfBool(holds), nil
}

// compare orders two values as GitHub does: texts without regard to case, and values of different kinds as numbers. What is
// no number is not comparable.
func compare(a, b value.Value) (order int, comparable bool) {
	if a.Kind() == value.String && b.Kind() == value.String {
		return strings.Compare(strings.ToUpper(a.Str()), strings.ToUpper(b.Str())), true
	}
	x, y := number(a), number(b)
	switch {
	case math.IsNaN(x) || math.IsNaN(y):
		return 0, false
	case x < y:
		return -1, true
	case x > y:
		return 1, true
	default:
		return 0, true
	}
}

var (
	decimalPattern = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	integerPattern = regexp.MustCompile(`^0(x[0-9a-fA-F]+|o[0-7]+)$`)
)

// number returns what a value counts as, NaN where it is no number.
func number(v value.Value) float64 {
	switch v.Kind() {
	case value.Null:
		return 0
	case value.Boolean:
		if v.Bool() {
			return 1
		}
		return 0
	case value.Number:
		return v.Float()
	case value.String:
		text := strings.TrimSpace(v.Str())
		if text == "" {
			return 0
		}
		if decimalPattern.MatchString(text) {
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				return f
			}
		}
		if integerPattern.MatchString(text) {
			if i, err := strconv.ParseInt(text, 0, 64); err == nil {
				return float64(i)
			}
		}
	}
	return math.NaN()
}
