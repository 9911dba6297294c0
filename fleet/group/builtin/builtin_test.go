package builtin_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rungci/rung/fleet/group/builtin"
	"github.com/rungci/rung/fleet/group/options"
)

func TestKindsAreFoundByName(t *testing.T) {
	for _, name := range []string{"local", "static", "docker-machine"} {
		if k, found := builtin.Find(name); !found || k.Name != name || k.Summary == "" {
			t.Errorf("%s: %+v, %v", name, k, found)
		}
	}
	if _, found := builtin.Find("moon"); found {
		t.Error("there is a kind that nobody has made")
	}
}

func TestWhatAKindLacksOnThisMachine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	machine, _ := builtin.Find("docker-machine")
	if err := machine.Lacks([]byte(`{"driver": "generic", "name": "a-%s"}`)); err == nil || !strings.Contains(err.Error(), "docker-machine was not found") {
		t.Error(err)
	}
	if err := machine.Lacks([]byte(`{"driver": "generic", "name": "a-%s", "program": "/bin/sh"}`)); err != nil {
		t.Error(err)
	}
	if local, _ := builtin.Find("local"); local.Lacks(nil) != nil {
		t.Error("the group local lacks something")
	}
}

func TestEveryOptionIsInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, documents, found := strings.Cut(string(text), "\n## Instance groups that are built in\n")
	if !found {
		t.Fatal("there is no section about them")
	}
	for _, k := range builtin.Kinds() {
		_, section, found := strings.Cut(documents, "\n### `"+k.Name+"`")
		section, _, _ = strings.Cut(section, "\n### ")
		if !found {
			t.Errorf("%s has no section", k.Name)
		}
		for _, name := range names(t, []byte(k.Schema)) {
			if !strings.Contains(section, "`"+name+"`") && !strings.Contains(section, "[]."+name+"`") {
				t.Errorf("the option %s of %s is not there", name, k.Name)
			}
		}
	}
}

// names are those of all properties of a schema that are no lists of others.
func names(t *testing.T, schema []byte) (out []string) {
	t.Helper()
	var s struct {
		Properties           map[string]json.RawMessage
		Items                json.RawMessage
		AdditionalProperties json.RawMessage
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil // true or false
	}
	for name, of := range s.Properties {
		if below := names(t, of); len(below) > 0 && strings.Contains(string(of), `"array"`) {
			out = append(out, below...)
		} else {
			out = append(append(out, name), below...)
		}
	}
	for _, below := range []json.RawMessage{s.Items, s.AdditionalProperties} {
		if len(below) > 0 {
			out = append(out, names(t, below)...)
		}
	}
	return out
}

func TestAMistakeOfOptionsSaysWhere(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"local", ``, ``},
		{"local", `{"max_size": 3, "shapes": {"small": {"cpus": 0.5, "memory": "1GiB"}}}`, ``},
		{"local", `{"max_size": 0, "colour": 1}`, `/colour: there is no such option; /max_size: minimum: got 0, want 1`},
		{"local", `{"shapes": {"small": {"cpus": 1}}}`, `/shapes/small: "memory" is missing`},
		{"local", `{"paths": ["tools"]}`, `/paths/0: 'tools' does not match pattern '^/'`},
		{"local", `[]`, `: got array, want object`},
		{"static", `{"hosts": [{"address": "a:22"}, {"address": "a:22"}]}`, `/hosts/1/address: the list has "a:22" already: give each host a name of its own`},
		{"static", `{"hosts": [{"address": "a", "shape": "s", "cpus": 1, "memory": 1}, {"address": "b", "shape": "s", "cpus": 2, "memory": 1}]}`, `/hosts/1/shape: hosts of the shape "s" must have the same size`},
		{"static", `{}`, `: "hosts" is missing`},
		{"docker-machine", `{"driver": "none", "name": "runner"}`, `/name: 'runner' does not match pattern '^[^%]*%s[^%]*$'`},
	} {
		k, _ := builtin.Find(c.kind)
		_, err := k.New([]byte(c.text))
		var got []string
		var wrong options.Errors
		if errors.As(err, &wrong) {
			for _, one := range wrong {
				got = append(got, one.Pointer+": "+one.Message)
			}
		} else if err != nil {
			got = append(got, "not about options: "+err.Error())
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s with %s:\n got %s\nwant %s", c.kind, c.text, text, c.want)
		}
	}
}
