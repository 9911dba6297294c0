package github

import (
	"testing"

	"github.com/rungci/rung/steps/toolkit/github/service"
)

func TestAJobMovesToAnotherProcess(t *testing.T) {
	t.Parallel()
	matchers, _, err := parseMatchers([]byte(`{"problemMatcher":[{"owner":"one","pattern":[{"regexp":"^(.*)$","message":1}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	was := newJob()
	if err := was.changeMatchers(nil, matchers); err != nil {
		t.Fatal(err)
	}
	if _, err := was.declare([]declaration{{subject: subject{Name: "a.txt", Digest: "sha256:12", Kind: "file"}}}); err != nil {
		t.Fatal(err)
	}
	was.first("one", "warning")
	was.note("a note")
	if was.server, err = service.Start(service.Options{Artifacts: t.TempDir(), Cache: t.TempDir(), Temp: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	saved, err := was.Save()
	if err != nil {
		t.Fatal(err)
	}
	if err := was.Close(); err != nil {
		t.Fatal(err)
	}
	is := newJob()
	if err := is.Restore(saved); err != nil {
		t.Fatal(err)
	}
	list, err := is.subjectList()
	if before, _ := was.subjectList(); err != nil || string(list) != string(before) {
		t.Errorf("the subjects are %s, %v", list, err)
	}
	if now := is.matchersNow(); len(now) != 1 || now[0].Owner != "one" || now[0].Patterns[0].compiled == nil {
		t.Errorf("the matchers are %v", now)
	}
	if is.first("one", "warning") || !is.serving() {
		t.Error("what was said is said again, or the services are forgotten")
	}
	again, err := is.Save() // before anything has asked for the services
	if err != nil || string(again) != string(saved) {
		t.Errorf("it is saved as\n%s, %v, and not as\n%s", again, err, saved)
	}
	for name, wrong := range map[string]string{
		"nothing": "", "a field more": `{"sets":0,"more":1}`, "no sets": `{"sets":-1}`, "a matcher without a pattern": `{"sets":0,"matchers":[{"owner":"x"}]}`,
		"null": `{"sets":0,"matchers":[null]}`, "null in a matcher": `{"sets":0,"matchers":[{"owner":"x","pattern":[null]}]}`,
	} {
		if err := newJob().Restore([]byte(wrong)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
