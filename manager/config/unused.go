package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// ownTables are the tables of an entry that only some executors read.
var ownTables = []struct {
	name      string
	executors []string
	machines  bool // it says where machines come from
}{
	{"autoscaler", []string{InstanceExecutor, DockerAutoscalerExecutor}, true},
	{"machine", []string{DockerMachineExecutor}, true},
	{"fleet", []string{InstanceExecutor, DockerAutoscalerExecutor, DockerMachineExecutor}, true},
	{"kubernetes", []string{KubernetesExecutor}, false},
	{"ssh", []string{"ssh"}, false},
	{"custom", []string{"custom"}, false},
}

// unused names the tables of an entry that say something and that nothing reads: of another executor, or of a second source of machines.
func (r *reader) unused(e *Runner, path string) {
	if of, known := executors[e.Executor]; !known || of.why != "" && of.why != needsMachines {
		return // nothing of it is used
	}
	for _, t := range ownTables {
		if !says(fieldOf(reflect.ValueOf(e).Elem(), t.name)) {
			continue
		}
		at := path + "." + t.name
		switch {
		case !slices.Contains(t.executors, e.Executor):
			quoted := make([]string, len(t.executors))
			for i, name := range t.executors {
				quoted[i] = fmt.Sprintf("%q", name)
			}
			r.found(warning, "config/unused", at, r.doc.keys, "delete it, or write executor = "+strings.Join(quoted, " or "), "[runners.%s] is not used by executor %q", t.name, e.Executor)
		case t.machines && e.provided():
			r.found(warning, "config/unused", at, r.doc.keys, "delete one of them", "[runners.%s] is not used: the machines of this entry come from [runners.provider]", t.name)
		default:
			continue
		}
		r.ignore(at)
	}
}

// says reports whether a table of an entry is there and has a value.
func says(table reflect.Value) bool {
	if table.Kind() == reflect.Pointer {
		return !table.IsNil() && !table.Elem().IsZero()
	}
	return !table.IsZero()
}

// ignore counts the keys of a table as not used.
func (r *reader) ignore(table string) {
	table = strings.ToLower(table)
	left := slices.DeleteFunc(slices.Clone(r.used), func(at string) bool {
		rest, inside := strings.CutPrefix(strings.ToLower(at), table)
		return inside && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
	})
	r.report.Ignored += len(r.used) - len(left)
	r.used = left
}
