package include_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source/sourcetest"
)

func TestComponent(t *testing.T) {
	t.Parallel()
	w := newWorld(t).serve(sourcetest.GitOptions{})
	commits := map[string]string{}
	for _, version := range []string{"1.0.0", "1.2.0", "1.2.5", "1.10.0", "2.0.0-rc.1"} {
		r, commit := w.push("tools/parts", map[string]string{"templates/build.yml": version, "templates/deep/template.yml": "deep", "templates/deep/x.yml": "", "inner.yml": "inner " + version})
		w.tag(r, commit, version)
		commits[version] = commit
	}
	r, tip := w.push("tools/parts", map[string]string{"templates/build.yml": "tip", "templates/test.yml": "t"})
	w.tag(r, tip, "nightly")
	if err := r.Set("refs/heads/7", tip); err != nil {
		t.Fatal(err)
	}

	l := w.loader()
	for version, want := range map[string]struct{ data, version, sha string }{
		"1.0.0":          {"1.0.0", "1.0.0", commits["1.0.0"]},
		"1":              {"1.10.0", "1.10.0", commits["1.10.0"]},
		"1.2":            {"1.2.5", "1.2.5", commits["1.2.5"]},
		"~latest":        {"1.10.0", "1.10.0", commits["1.10.0"]},
		"2.0.0-rc.1":     {"2.0.0-rc.1", "2.0.0-rc.1", commits["2.0.0-rc.1"]},
		"main":           {"tip", "", tip},
		"nightly":        {"tip", "", tip},
		"7":              {"tip", "", tip},
		commits["1.0.0"]: {"1.0.0", "", commits["1.0.0"]},
	} {
		f := w.load(l, component(w.host+"/tools/parts/build@"+version))
		wanted := &config.Component{Name: "build", SHA: want.sha, Version: want.version, Reference: version}
		if diff := cmp.Diff(wanted, f.Component); diff != "" || string(f.Data) != want.data {
			t.Errorf("%s: got %q %s", version, f.Data, diff)
		}
		if diff := cmp.Diff(project("tools/parts", want.sha, "templates/build.yml"), f.Place); diff != "" {
			t.Error(diff)
		}
	}
	f := w.load(l, component(w.host+"/tools/parts/deep@1.0.0"))
	if string(f.Data) != "deep" || f.Place.Path != "templates/deep/template.yml" {
		t.Errorf("got %+v", f)
	}
	t.Run("what a component includes by local is of its own project and commit", func(t *testing.T) {
		inner := w.load(l, project(f.Place.Project, f.Place.Ref, "inner.yml"))
		if string(inner.Data) != "inner 1.0.0" {
			t.Errorf("got %q", inner.Data)
		}
	})
	t.Run("a later run keeps to the release that was found", func(t *testing.T) {
		w.save(l)
		_, commit := w.push("tools/parts", map[string]string{"templates/build.yml": "3.0.0"})
		w.tag(r, commit, "3.0.0")
		if f := w.load(w.loader(offline), component(w.host+"/tools/parts/build@~latest")); f.Component.Version != "1.10.0" {
			t.Errorf("got %+v", f.Component)
		}
		if f := w.load(w.loader(refresh), component(w.host+"/tools/parts/build@~latest")); f.Component.Version != "3.0.0" {
			t.Errorf("got %+v", f.Component)
		}
	})
	t.Run("a component that is not there", func(t *testing.T) {
		w.fails(l, component(w.host+"/tools/parts/biuld@1.0.0"), `did you mean "build"`, "build, deep")
		w.fails(l, component(w.host+"/tools/parts/template@1.0.0"), "no component")
		w.fails(l, component(w.host+"/tools/parts/build@9"), "tools/parts@9")
		w.fails(l, component(w.host+"/tools/none/build@1"), "tools/none")
	})
	t.Run("a project without releases has no latest one", func(t *testing.T) {
		w.push("tools/new", map[string]string{"templates/a.yml": ""})
		w.fails(l, component(w.host+"/tools/new/a@~latest"), "no release")
	})
	t.Run("addresses that are none", func(t *testing.T) {
		for _, text := range []string{"build@1", "host/build@1", "host/group/build", "host/group/build@", "host/group/build@-x", "host/group/b.yml@1",
			"host/../x/b@1", "host/a/b@1@2", "/@1", "h/a b/c@1", "u:p@h/a/b@1"} {
			w.fails(l, component(text))
		}
	})
	t.Run("another server's component works, with a note", func(t *testing.T) {
		w.o.Rules.(*rules).places = map[string]string{"https://other.example.com": w.http.URL}
		l := w.loader()
		f := w.load(l, component("other.example.com/tools/parts/build@1.0.0"))
		if inner := w.load(l, project(f.Place.Project, f.Place.Ref, "inner.yml")); string(inner.Data) != "inner 1.0.0" {
			t.Errorf("got %q", inner.Data)
		}
		if !slices.ContainsFunc(l.Notes(), func(n string) bool { return strings.Contains(n, "other.example.com") }) {
			t.Errorf("notes = %q", l.Notes())
		}
	})
	t.Run("the own project's components are those of the work tree", func(t *testing.T) {
		w.write("templates/mine.yml", "mine")
		w.o.Repository.Branch = "feature"
		f := w.load(w.loader(), component(w.host+"/group/project/mine@feature"))
		if string(f.Data) != "mine" || f.Place.Kind != config.Local || f.Component.SHA == "" {
			t.Errorf("got %+v", f)
		}
	})
}
