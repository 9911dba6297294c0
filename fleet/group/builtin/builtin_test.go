package builtin_test

import (
	"errors"
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
