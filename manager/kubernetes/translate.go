package kubernetes

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rungci/rung/manager/config"
)

// translated is a table of the configuration as an object of the cluster's API, whose fields have the same names in other letters: match_expressions is
// matchExpressions. It is nil where nothing is set.
func translated[T any](r *reader, key string, table any) *T {
	value := tree(reflect.ValueOf(table))
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	out := new(T)
	if err == nil {
		in := json.NewDecoder(bytes.NewReader(text))
		in.DisallowUnknownFields()
		err = in.Decode(out)
	}
	if err != nil {
		r.say(key, "%v", err)
	}
	return out
}

// apart are keys that have no field of their name in the API.
var apart = map[string]bool{"selinux_type": true, "proc_mount": true}

// tree is a value of the configuration for JSON; nil where nothing is set. A table that is there and empty is an empty object: a selector of
// everything is one.
func tree(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if inner := tree(v.Elem()); inner != nil || v.Elem().Kind() != reflect.Struct {
			if inner == nil {
				return v.Elem().Interface() // false and 0 were written, too
			}
			return inner
		}
		return map[string]any{}
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("toml")
			if value := tree(v.Field(i)); value != nil && !apart[name] {
				out[camel(name)] = value
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case reflect.Slice:
		var out []any
		for i := range v.Len() {
			item := tree(v.Index(i))
			if item == nil {
				item = map[string]any{}
				if v.Type().Elem().Kind() != reflect.Struct {
					item = v.Index(i).Interface()
				}
			}
			out = append(out, item)
		}
		if out == nil {
			return nil
		}
		return out
	}
	if v.IsZero() {
		return nil
	}
	return v.Interface()
}

// camel is a key in the letters of the API.
func camel(key string) string {
	parts := strings.Split(key, "_")
	for i, part := range parts[1:] {
		parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
	}
	return strings.Join(parts, "")
}

// quantities are what a kind of container may use, and how much of it jobs may ask for.
type quantities struct {
	prefix string // of the keys
	all    []quantity
}

type quantity struct {
	key        string
	limit      bool // else a request
	of         corev1.ResourceName
	value, max string
}

// quantitiesOf are those of the keys with a prefix: "", "service_", "helper_" or "pod_".
func quantitiesOf(k *config.Kubernetes, prefix string) quantities {
	texts := map[string]string{}
	v := reflect.ValueOf(*k)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.String {
			texts[v.Type().Field(i).Tag.Get("toml")] = v.Field(i).String()
		}
	}
	out := quantities{prefix: prefix}
	for _, of := range []struct {
		word string
		name corev1.ResourceName
	}{{"cpu", corev1.ResourceCPU}, {"memory", corev1.ResourceMemory}, {"ephemeral_storage", corev1.ResourceEphemeralStorage}} {
		for _, kind := range []string{"limit", "request"} {
			key := prefix + of.word + "_" + kind
			if _, is := texts[key]; is {
				out.all = append(out.all, quantity{key, kind == "limit", of.name, texts[key], texts[key+"_overwrite_max_allowed"]})
			}
		}
	}
	return out
}

// resources are those of a kind of container.
func (r *reader) resources(q quantities) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{}
	for _, one := range q.all {
		if value := r.quantity(one.key, one.value); value != nil {
			put(&out, one, *value)
		}
		_ = r.quantity(one.key+"_overwrite_max_allowed", one.max)
	}
	return out
}
