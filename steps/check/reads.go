package check

import (
	"reflect"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// EnvReads are the variables that the expressions of a definition name: ${{ env.NAME }}. They count as requests of it.
func EnvReads(c *plan.Component) []string {
	var r reads
	r.walk(reflect.ValueOf(c).Elem(), false)
	return r
}

// reads are names of variables.
type reads []string

var (
	fieldType = reflect.TypeFor[plan.Field]()
	valueType = reflect.TypeFor[value.Value]()
)

// walk looks for expressions in a part of a definition. A condition is one without its marks.
func (r *reads) walk(v reflect.Value, condition bool) {
	switch {
	case v.Type() == fieldType:
		r.value(v.Interface().(plan.Field).Value, condition)
		return
	case v.Type() == valueType:
		return // data
	}
	switch v.Kind() {
	case reflect.String:
		r.text(v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			r.walk(v.Elem(), condition)
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.walk(v.Index(i), false)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			r.walk(entries.Key(), false)
			r.walk(entries.Value(), false)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Span" {
				r.walk(v.Field(i), f.Name == "If")
			}
		}
	}
}

func (r *reads) value(v value.Value, condition bool) {
	switch v.Kind() {
	case value.String:
		if !condition || expr.Has(v.Str()) {
			r.text(v.Str())
		} else if parsed, err := expr.ParseCondition(v.Str()); err == nil {
			*r = append(*r, parsed.Reads("env")...)
		}
	case value.Array:
		for _, item := range v.Items() {
			r.value(item, false)
		}
	case value.Struct:
		for name, field := range v.Fields() {
			r.text(name)
			r.value(field, false)
		}
	}
}

func (r *reads) text(text string) {
	if !expr.Has(text) {
		return
	}
	tmpl, err := expr.ParseTemplate(text)
	if err != nil {
		return // whoever evaluates it says so
	}
	for _, part := range tmpl.Parts() {
		if part.Expr != nil {
			*r = append(*r, part.Expr.Reads("env")...)
		}
	}
}
