package house

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestImportRules(t *testing.T) {
	for system, packages := range packages(t) {
		t.Run("on "+system, func(t *testing.T) {
			for _, p := range packages {
				for _, path := range p.Imports {
					if wrong := checkImport(p.Folder(), path, false); wrong != "" {
						t.Error(wrong)
					}
				}
				for _, path := range append(p.TestImports, p.XTestImports...) {
					if wrong := checkImport(p.Folder(), path, true); wrong != "" {
						t.Error(wrong)
					}
				}
			}
		})
	}
}

// checkImport says what is wrong with an import of the package in the folder from, "" when nothing is.
func checkImport(from, path string, test bool) string {
	to, own := ours(path)
	switch {
	case standard(path) || own && test || test && moduleOf(path, testModules) != "":
		return ""
	case own:
		return checkOwn(from, to)
	}
	module := moduleOf(path, slices.Collect(maps.Keys(thirdParty)))
	switch {
	case module == "":
		return fmt.Sprintf("%s imports %s, of a module that nobody may import: add it to thirdParty in rules.go, with the packages that need it", from, path)
	case !matchesAny(thirdParty[module], from):
		return fmt.Sprintf("%s imports %s: only %v may import %s (rules.go: thirdParty)", from, path, thirdParty[module], module)
	}
	return ""
}

func checkOwn(from, to string) string {
	for _, rule := range importRules {
		if !matches(rule.packages, from) {
			continue
		}
		if rule.only != nil && !matchesAny(rule.only, to) || matchesAny(rule.never, to) {
			return fmt.Sprintf("%s imports %s: %s (rules.go: %s)", from, to, rule.why, rule.packages)
		}
	}
	return ""
}

func TestEveryModuleInTheTableIsUsed(t *testing.T) {
	used := map[string]bool{}
	for _, packages := range packages(t) {
		for _, p := range packages {
			for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				used[moduleOf(path, slices.Collect(maps.Keys(thirdParty)))] = true
			}
		}
	}
	for module := range thirdParty {
		if !used[module] {
			t.Errorf("nobody imports %s: remove its row from thirdParty in rules.go", module)
		}
	}
}

func TestEveryPackageHasARule(t *testing.T) {
	for _, p := range packages(t)["linux"] {
		if !slices.ContainsFunc(importRules, func(r importRule) bool { return matches(r.packages, p.Folder()) }) {
			t.Errorf("no rule says what %s may import: add a row to importRules in rules.go", p.Folder())
		}
	}
}

// braces is a list of alternatives in a name of the table of folders: a/{b,c}.
var braces = regexp.MustCompile(`^(.*)\{([^{}]*)\}(.*)$`)

// folders are the patterns that a name in the table of folders stands for.
func folders(name string) (all []string) {
	m := braces.FindStringSubmatch(strings.Replace(name, "…/", "cmd/step-runner/", 1))
	if m == nil {
		return []string{strings.Replace(name, "…/", "cmd/step-runner/", 1)}
	}
	for part := range strings.SplitSeq(m[2], ",") {
		all = append(all, folders(m[1]+part+m[3])...)
	}
	return all
}

func TestEveryPackageIsInTheTableOfFolders(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Folders\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var patterns []string
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) > 1 && len(cells) != 5 {
			t.Errorf("ARCHITECTURE.md: a row of the table of folders has %d cells, want 3: %s", len(cells)-2, line)
		}
		if len(cells) == 5 {
			for i, name := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					patterns = append(patterns, folders(name)...)
				}
			}
		}
	}
	for _, pattern := range patterns {
		if found, err := filepath.Glob(filepath.Join(root(), strings.TrimSuffix(pattern, "/..."))); err != nil || len(found) == 0 {
			t.Errorf("ARCHITECTURE.md: the table of folders has %s, which does not exist", pattern)
		}
	}
	for _, p := range packages(t)["linux"] {
		if !matchesAny(patterns, p.Folder()) {
			t.Errorf("%s is not in the table of folders of ARCHITECTURE.md: add a row", p.Folder())
		}
	}
}

func TestTheRulesThemselves(t *testing.T) {
	for _, c := range []struct {
		from, path string
		test       bool
		want       string // "" when the import is fine
	}{
		{"steps/plan", modulePath + "/steps/engine", false, "the plan is data"},
		{"steps/plan", modulePath + "/steps/value", false, ""},
		{"steps/value", modulePath + "/steps/diag", false, "ground floor"},
		{"steps/plan", modulePath + "/steps/engine", true, ""},
		{"steps/frontend/gitlabsteps", modulePath + "/steps/engine", false, "it runs nothing"},
		{"steps/engine", modulePath + "/ui/plain", false, "knows no syntax"},
		{"internal/mask", modulePath + "/steps/plan", false, "leaves"},
		{"steps/engine", "encoding/json", false, ""},
		{"steps/engine", "google.golang.org/protobuf/proto", false, "only [api/... steps/plan/planpb steps/stepproto steps/service/... executor/fake executor/plugin/... fleet/group/... internal/pluginhost/... sdk/executor sdk/provider sdk/instancegroup sdk/internal/pluginserver]"},
		{"steps/stepproto", "google.golang.org/protobuf/proto", false, ""},
		{"steps/engine", "github.com/google/uuid", false, "nobody may import"},
		{"steps/engine", "github.com/google/go-cmp/cmp", true, ""},
	} {
		if got := checkImport(c.from, c.path, c.test); got == "" && c.want != "" || !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s imports %s (test: %v): got %q, want %q", c.from, c.path, c.test, got, c.want)
		}
	}
	for _, c := range []struct {
		pattern, folder string
		want            bool
	}{
		{"ui/...", "ui", true},
		{"ui/...", "ui/plain", true},
		{"ui/...", "uikit", false},
		{"steps/plan", "steps/plan/planpb", false},
	} {
		if got := matches(c.pattern, c.folder); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.pattern, c.folder, got)
		}
	}
}
