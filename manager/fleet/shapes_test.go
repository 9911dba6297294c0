package fleet

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/rungci/rung/fleet/group/builtin"
	"github.com/rungci/rung/internal/pluginoption"
)

func TestAShapeThatAGroupDoesNotMakeIsToldBeforeItIsNeeded(t *testing.T) {
	t.Parallel()
	const local = "executor = \"instance\"\n[runners.autoscaler]\nplugin = \"local\"\nplugin_config.shapes = { s = { cpus = 1, memory = \"1GiB\" } }\n"
	const static = "executor = \"instance\"\n[runners.autoscaler]\nplugin = \"static\"\nplugin_config.hosts = [{ address = \"10.0.0.1\", shape = \"mac\", cpus = 1, memory = \"1GiB\" }]\n"
	const machine = "executor = \"docker+machine\"\n[runners.machine]\nMachineDriver = \"generic\"\n"
	for name, tc := range map[string]struct{ text, pointer, want string }{
		"one of the options":      {local + "[[runners.fleet.pools]]\nname = \"a\"\nshape = \"s\"\n", "", ""},
		"no pools":                {local, "", ""},
		"another one":             {local + "[[runners.fleet.pools]]\nname = \"a\"\nshape = \"x\"\n", "/pools/0/shape", `it makes no machines of the shape "x"; it makes ["s"]`},
		"spot machines":           {local + "[[runners.fleet.pools]]\nname = \"a\"\nshape = \"s\"\nspot = true\n", "/pools/0/shape", `it makes machines of the shape "s", but not with the zone and spot of the pool`},
		"one of a list":           {static + "[[runners.fleet.pools]]\nname = \"a\"\nshape = \"mac\"\n", "", ""},
		"none of a list":          {static + "[[runners.fleet.pools]]\nname = \"a\"\nshape = \"x\"\n", "/pools/0/shape", `it makes no machines of the shape "x"; it makes ["mac"]`},
		"a group without shapes":  {machine + "[[runners.fleet.pools]]\nname = \"a\"\nshape = \"x\"\n", "/pools/0/shape", `it creates only one kind of machine and supports no shapes, zones or spot machines; remove shape`},
		"a group without zones":   {machine + "[[runners.fleet.pools]]\nname = \"a\"\nzone = \"x\"\n", "/pools/0/zone", `it creates only one kind of machine and supports no shapes, zones or spot machines; remove zone`},
		"a group of one kind":     {machine + "[[runners.fleet.pools]]\nname = \"a\"\n", "", ""},
		"options without a shape": {"executor = \"instance\"\n[runners.autoscaler]\nplugin = \"local\"\n[[runners.fleet.pools]]\nname = \"a\"\nshape = \"x\"\n", "/pools/0/shape", `it makes no machines of the shape "x": it has no shapes`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := Sources(entry(t, tc.text))[0]
			kind, _ := builtin.Find(from.Plugin)
			text, err := json.Marshal(from.Options)
			if err != nil {
				t.Fatal(err)
			}
			made, err := kind.New(text)
			if err != nil {
				t.Fatal(err)
			}
			err = from.CheckShape(t.Context(), made)
			var wrong *pluginoption.Errors
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.As(err, &wrong) || wrong.All[0].Pointer != tc.pointer || wrong.All[0].Error() != tc.want):
				t.Errorf("%v", err)
			}
		})
	}
}
