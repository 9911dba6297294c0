package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/steps/diag"
)

const withOptions = `concurrent = 1
[[runners]]
  name = "none"
[[runners]]
  name = "wrapped"
  executor = "plugin"
  [runners.plugin]
    name = "wrap"
    [runners.plugin.options]
      command = ["nice", 3, { deep = "x" }]
      "a/b.c" = 1
      password = "hunter2"
      [runners.plugin.options.hosts]
        one = "10.0.0.1"
`

func TestTheErrorOfAnOptionHasItsPlace(t *testing.T) {
	report := Check("config.toml", []byte(withOptions), func(string) string { return "" })
	if report.Config == nil {
		t.Fatal(report.Err())
	}
	r := &report.Config.Runners[1]
	for about, tc := range map[string]struct {
		at   pluginoption.Error
		want string
	}{
		"a value":                {pluginoption.Error{Pointer: "/command"}, `config.toml:10:7 (command = ["nice", 3, { deep = "x" }])`},
		"an element":             {pluginoption.Error{Pointer: "/command/1"}, `config.toml:10:26 (command = ["nice", 3, { deep = "x" }])`},
		"in an inline table":     {pluginoption.Error{Pointer: "/command/2/deep"}, `config.toml:10:38 (command = ["nice", 3, { deep = "x" }])`},
		"a key":                  {pluginoption.Error{Key: "a/b.c"}, `config.toml:11:7 ("a/b.c" = 1)`},
		"a key with a slash":     {pluginoption.Error{Pointer: "/a~1b.c"}, `config.toml:11:17 ("a/b.c" = 1)`},
		"in a table":             {pluginoption.Error{Pointer: "/hosts/one"}, `config.toml:14:15 (one = "10.0.0.1")`},
		"what is missing":        {pluginoption.Error{Pointer: "/hosts/two"}, `config.toml:13:31 ([runners.plugin.options.hosts])`},
		"the options as a whole": {pluginoption.Error{}, `config.toml:9:21 ([runners.plugin.options])`},
		"a secret":               {pluginoption.Error{Pointer: "/password"}, `config.toml:12:18`},
	} {
		one := tc.at
		one.Err = errors.New("it is wrong")
		err := report.Config.Placed(r, PluginOptions, &pluginoption.Errors{Of: "the plugin", All: []*pluginoption.Error{&one}})
		place, source := tc.want, ""
		for i := range tc.want {
			if tc.want[i] == ' ' {
				place, source = tc.want[:i], tc.want[i:]
				break
			}
		}
		if diff := cmp.Diff("the options of the plugin are wrong: "+place+": it is wrong"+source, err.Error()); diff != "" {
			t.Errorf("%s: %s", about, diff)
		}
		if list := diag.Of(err); len(list) != 1 || list[0].Message != "it is wrong" {
			t.Errorf("%s: the diagnostics are %v", about, list)
		}
	}
}

func TestTheErrorOfAKeyOfAPoolHasItsPlace(t *testing.T) {
	report := Check("config.toml", []byte("[[runners]]\n  executor = \"instance\"\n  [runners.autoscaler]\n    plugin = \"local\"\n  [[runners.fleet.pools]]\n    name = \"a\"\n  [[runners.fleet.pools]]\n    name = \"b\"\n    shape = \"x\"\n"), func(string) string { return "" })
	r := &report.Config.Runners[0]
	err := report.Config.Placed(r, FleetOptions, &pluginoption.Errors{Of: "the plugin", All: []*pluginoption.Error{{Pointer: "/pools/1/shape", Err: errors.New("it is wrong")}}})
	if !strings.Contains(err.Error(), `config.toml:9:13: it is wrong (shape = "x")`) {
		t.Error(err)
	}
	for key, want := range map[string]string{"fleet.pools[1].shape": "config.toml:9:13", "fleet.pools[0].zone": "config.toml:5:19", "docker.image": "config.toml:1:3", "executor": "config.toml:2:14"} {
		if at, _ := report.Config.Place(r, key); at.String() != want {
			t.Errorf("%s is at %s", key, at)
		}
	}
	if at, source := (&Config{Path: "config.toml"}).Place(&Runner{line: 3}, "executor"); at.String() != "config.toml:3:1" || source != "" {
		t.Errorf("without a file: %s, %s", at, source)
	}
	if wrong := (&KeyError{Key: "fleet.pools[1].shape", Err: errors.New("it is wrong")}); wrong.Error() != "runners.fleet.pools.shape: it is wrong" {
		t.Error(wrong)
	}
}

func TestOtherErrorsStayAsTheyAre(t *testing.T) {
	report := Check("config.toml", []byte(withOptions), func(string) string { return "" })
	plain := errors.New("plain")
	if err := report.Config.Placed(&report.Config.Runners[1], PluginOptions, plain); err != plain {
		t.Errorf("%v", err)
	}
	elsewhere := &TableError{Table: PluginOptions, Err: &pluginoption.Errors{Of: "the plugin", All: []*pluginoption.Error{{Pointer: "/command/1", Err: plain}}}}
	if err := report.Config.Placed(&report.Config.Runners[1], ProviderOptions, elsewhere); !strings.Contains(err.Error(), "config.toml:10:26: plain") {
		t.Errorf("an error with a table of its own: %v", err)
	}
	if err := report.Config.Placed(&report.Config.Runners[1], PluginOptions, nil); err != nil {
		t.Errorf("%v", err)
	}
	wrong := &pluginoption.Errors{Of: "the plugin", All: []*pluginoption.Error{{Err: plain}}}
	if err := (&Config{}).Placed(&Runner{}, PluginOptions, wrong); err != error(wrong) {
		t.Errorf("without a file: %v", err)
	}
}

func TestThePluginsOfAConfiguration(t *testing.T) {
	all, err := Plugins("config.toml", []byte(`
[[runners]]
  name = "one"
  [runners.plugin]
    name = "wrap:1"
    sha256 = "abc"
[[runners]]
  name = "two"
  [runners.provider]
    file = "/srv/provider-plugin-x"
[[runners]]
  name = "three"
  [runners.Autoscaler]
    plugin = "aws:0.5"
  [[runners.fleet.pools]]
    plugin = "local"
  [[runners.fleet.pools]]
    plugin = "registry.example.com/ci/azure"
[[runners]]
  name = "four"
  [[runners.provider.hosts]]
    address = "x"
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, use := range all {
		got = append(got, use.Runner+" "+use.Kind+" "+use.Name+use.File)
	}
	if diff := cmp.Diff([]string{"one executor wrap:1", "two provider /srv/provider-plugin-x", "three group aws:0.5", "three group registry.example.com/ci/azure"}, got); diff != "" {
		t.Error(diff)
	}
	if all[0].At.Line != 5 {
		t.Errorf("the first one is at %s", all[0].At)
	}
	if _, err := Plugins("config.toml", []byte("[")); err == nil {
		t.Error("what is no TOML has plugins")
	}
}
