package config_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/value"
)

var update = flag.Bool("update", false, "write what the tests want anew")

// outcome are the parts of an archive that a test makes: the full configuration, the jobs with what they inherit, what is wrong.
var outcome = []string{"full configuration", "jobs", "errors", "warnings"}

// TestGolden resolves the archives in testdata. The first file of each is the configuration, the others are what it may include.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("no archives", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := resolveArchive(t, archive)
			want := map[string]string{}
			kept := archive.Files[:0]
			for _, f := range archive.Files {
				if isOutcome(f.Name) {
					want[f.Name] = string(f.Data)
				} else {
					kept = append(kept, f)
				}
			}
			if *update {
				archive.Files = kept
				for _, part := range outcome {
					if got[part] != "" {
						archive.Files = append(archive.Files, txtar.File{Name: part, Data: []byte(got[part])})
					}
				}
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func isOutcome(name string) bool {
	for _, part := range outcome {
		if name == part {
			return true
		}
	}
	return false
}

func resolveArchive(t *testing.T, archive *txtar.Archive) map[string]string {
	t.Helper()
	loader := files{}
	options := facts(loader)
	var first *txtar.File
	for i, f := range archive.Files {
		switch {
		case isOutcome(f.Name):
		case f.Name == "inputs":
			v, err := yamlsource.Value(f.Name, f.Data)
			if err != nil {
				t.Fatal(err)
			}
			options.Inputs = v.Fields()
		default:
			if first == nil {
				first = &archive.Files[i]
			}
			loader[f.Name] = string(f.Data)
		}
	}
	c, err := config.Resolve(t.Context(), first.Name, first.Data, options)
	got := map[string]string{}
	if err != nil {
		got["errors"] = tell(err)
	}
	if c == nil {
		return got
	}
	if len(c.Warnings) > 0 {
		got["warnings"] = tell(c.Warnings)
	}
	if err != nil {
		return got
	}
	got["full configuration"] = yamlOf(t, c.Root)
	var jobs strings.Builder
	for _, job := range c.Jobs {
		fmt.Fprintf(&jobs, "%s", job.Name)
		if job.Trigger {
			jobs.WriteString(" (trigger)")
		}
		if !job.Variables.All {
			fmt.Fprintf(&jobs, " variables %q", job.Variables.Names)
		}
		jobs.WriteString(": " + job.Key.History() + "\n")
		for key, v := range job.Body.Entries() {
			if len(key.Via()) > 0 || len(v.Via()) > 0 {
				fmt.Fprintf(&jobs, "  %s: %s\n", key.Text(), v.History())
			}
			for i, it := range v.Items() {
				if len(it.Via()) > len(v.Via()) {
					fmt.Fprintf(&jobs, "    %d: %s\n", i, it.History())
				}
			}
			for k, it := range v.Entries() {
				if len(it.Via()) > len(v.Via()) {
					fmt.Fprintf(&jobs, "    %s: %s\n", k.Text(), it.History())
				}
			}
		}
	}
	got["jobs"] = jobs.String()
	return got
}

// facts are options whose rules are as simple as can be: an `if` is $NAME == "value", and holds when it is spelled so in facts.
func facts(loader config.Loader) config.Options {
	variables := map[string]string{"REF": "main", "DIR": "ci", "URL": "https://example.com/remote.yml", "EMPTY": ""}
	expand := func(text string) string {
		return os.Expand(text, func(name string) string { return variables[name] })
	}
	return config.Options{
		Place:  config.Place{Path: ".gitlab-ci.yml"},
		Loader: loader,
		Expand: expand,
		ExpandInput: func(text string) (string, error) {
			if strings.Contains(text, "$MASKED") {
				return "", errors.New("MASKED is masked")
			}
			return expand(text), nil
		},
		Rule: func(rule config.Node) (bool, error) {
			condition := rule.Get("if")
			if strings.Contains(condition.Text(), "!!") {
				return false, diag.List{rule.Diagnostic("", "this is not a condition")}
			}
			left, right, _ := strings.Cut(condition.Text(), " == ")
			return !condition.Exists() || expand(left) == strings.Trim(right, `"`), nil
		},
		InputRule: func(condition string, inputs func(string) (value.Value, bool)) (bool, error) {
			for _, part := range strings.Split(condition, " && ") {
				left, right, _ := strings.Cut(part, " == ")
				name := strings.TrimSuffix(strings.TrimPrefix(left, "$[[ inputs."), " ]]")
				v, ok := inputs(name)
				if !ok || v.Text() != strings.Trim(right, "'") {
					return false, nil
				}
			}
			return true, nil
		},
	}
}

// tell is a list of diagnostics with their hints.
func tell(err error) string {
	var b strings.Builder
	for _, d := range diag.Of(err) {
		b.WriteString(d.Error() + "\n")
		if d.Hint != "" {
			b.WriteString("  hint: " + d.Hint + "\n")
		}
	}
	return b.String()
}

func yamlOf(t *testing.T, n config.Node) string {
	t.Helper()
	data, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yamlsource.FromJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
