package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// goTypes are the Go types of the fields for a type of keys.txt.
var goTypes = map[string][]reflect.Type{
	"string": {reflect.TypeFor[string]()}, "secret": {reflect.TypeFor[string]()},
	"int":     {reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[*int](), reflect.TypeFor[*int64]()},
	"seconds": {reflect.TypeFor[time.Duration]()}, "duration": {reflect.TypeFor[time.Duration]()}, "time": {reflect.TypeFor[time.Time]()},
	"kilobytes": {reflect.TypeFor[int64]()}, "size": {reflect.TypeFor[int64]()}, "cpus": {reflect.TypeFor[float64]()}, "float": {reflect.TypeFor[float64]()},
	"bool": {reflect.TypeFor[bool](), reflect.TypeFor[*bool]()},
	"list": {reflect.TypeFor[[]string]()}, "words": {reflect.TypeFor[[]string]()},
	"ints": {reflect.TypeFor[[]int64]()},
	"map":  {reflect.TypeFor[map[string]string]()}, "lists": {reflect.TypeFor[map[string][]string]()}, "flags": {reflect.TypeFor[map[string]bool]()},
	"floats": {reflect.TypeFor[[]float64]()},
	"object": {reflect.TypeFor[map[string]any]()},
}

func TestWhatIsUsedHasAField(t *testing.T) {
	t.Parallel()
	fields := map[string]reflect.Type{}
	collect(fields, "", reflect.TypeFor[Config]())
	for _, k := range Keys() {
		name := strings.ReplaceAll(k.Name, "[]", "")
		field, ok := fields[name]
		delete(fields, name)
		if k.Use == Used && !ok || ok && k.Use != Used && k.Use != Planned {
			t.Errorf("%s is %s, and has a field: %v", k.Name, k.Use, ok)
		} else if ok && k.Type != "table" && k.Type != "tables" && !slices.Contains(goTypes[k.Type], field) {
			t.Errorf("%s is a %s, and its field a %s", k.Name, k.Type, field)
		}
	}
	for name := range fields {
		t.Errorf("%s has a field and is not in keys.txt", name)
	}
}

func collect(fields map[string]reflect.Type, base string, of reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		tag := f.Tag.Get("toml")
		if tag == "" {
			continue
		}
		fields[join(base, tag)] = f.Type
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			collect(fields, join(base, tag), inner)
		}
	}
}

func TestTheTableOfKeysIsWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range Keys() {
		if seen[k.Name] {
			t.Errorf("%s is there twice", k.Name)
		}
		seen[k.Name] = true
		if k.Text == "" || !slices.Contains([]Use{Used, Ignored, Planned, Refused, Renamed}, k.Use) {
			t.Errorf("%s: use %q, text %q", k.Name, k.Use, k.Text)
		}
		if _, ok := wanted[k.Type]; !ok && k.Type != "any" {
			t.Errorf("%s has the type %q, which is unknown", k.Name, k.Type)
		}
		if k.Use == Renamed && !seen[k.Text] && !seen[strings.Replace("runners[]."+k.Text, "runners[].runners.", "runners[].", 1)] {
			t.Errorf("%s is renamed to %s, which no key before it is called", k.Name, k.Text)
		}
	}
}
