package plan_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/plan"
)

func TestVariablesThatTakeOverLaterPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONUSERPATH", "NODE_OPTIONS", "GIT_SSH_COMMAND", "PERL5OPT", "RUBYOPT",
		"JAVA_TOOL_OPTIONS", "BASH_FUNC_ls%%", "HOME", "https_proxy", "Node_Options", "LUA_PATH_5_4",
	} {
		if !plan.IsTakeoverVariable(name) {
			t.Errorf("%s is not guarded", name)
		}
	}
	for _, name := range []string{"PATH", "ENVIRONMENT", "GITHUB_TOKEN", "NODE_ENV", "PYTHONUNBUFFERED", "JAVA_HOME", "VERSION", "LDFLAGS"} {
		if plan.IsTakeoverVariable(name) {
			t.Errorf("%s is guarded", name)
		}
	}
}

func TestPatternsOfVariables(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"A", "A", true}, {"A", "AB", false}, {"*", "", true}, {"*", "ANY", true}, {"CI_*", "CI_", true}, {"CI_*", "CI", false},
		{"*_TOKEN", "A_TOKEN", true}, {"*_TOKEN", "A_TOKENS", false}, {"A*B*C", "AxBxBxC", true}, {"A*B*C", "AxC", false}, {"A*A", "A", false},
	} {
		if got := plan.MatchesVariable([]string{test.pattern}, test.name); got != test.want {
			t.Errorf("%s matches %s: %v, want %v", test.pattern, test.name, got, test.want)
		}
	}
	if !plan.IsBaseVariable("LC_ALL") || !plan.IsBaseVariable("XDG_CACHE_HOME") || plan.IsBaseVariable("CI_JOB_ID") {
		t.Error("the base variables are not those that every process has")
	}
}

func TestTheListsOfVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	sees, changes, _ := strings.Cut(string(text), "## What a step can change")
	check := func(document string, names []string) {
		for _, name := range names {
			if name == strings.ToLower(name) {
				continue // in upper case, "in upper and lower case"
			}
			if !strings.Contains(document, "`"+strings.ReplaceAll(name, "*", "…")+"`") {
				t.Errorf("docs/security.md does not have %s", name)
			}
		}
	}
	check(sees, plan.BaseVariables)
	check(changes, plan.TakeoverVariables)
}
