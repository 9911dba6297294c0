// Package reference lists every feature of GitHub Actions, how it is supported here, and its test: the table in the documents. All of it is
// generated from one file next to this one, features.yml.
package reference

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

//go:embed features.yml
var featuresFile []byte

// Support is how much of a feature there is.
type Support string

// The values of Support.
const (
	Full   Support = "yes"
	Partly Support = "partly"
	Not    Support = "no"
)

// Feature is what there is to know of a feature.
type Feature struct {
	Area    string // "Workflow syntax"
	Name    string // Markdown
	Support Support
	How     string // a line: what is worth knowing, or what is missing
	Test    string // PACKAGE.TEST, or script/NAME
}

// All returns every feature in the order of the file.
func All() ([]Feature, error) {
	file, err := yamlsource.Parse("features.yml", featuresFile)
	if err != nil {
		return nil, err
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	var all []Feature
	for _, area := range file.Documents[0].Entries {
		for _, item := range area.Value.Items {
			f := Feature{Area: area.Key.Text, Support: Full}
			for _, e := range item.Entries {
				switch e.Key.Text {
				case "feature":
					f.Name = e.Value.Text
				case "support":
					f.Support = Support(e.Value.Text)
				case "how":
					f.How = e.Value.Text
				case "test":
					f.Test = e.Value.Text
				default:
					return nil, fmt.Errorf("features.yml:%d: there is no key %q", e.Key.Span.Line, e.Key.Text)
				}
			}
			all = append(all, f)
		}
	}
	return all, nil
}

const head = `# Features of GitHub Actions

What GitHub Actions can do, whether it can be done here, how, and the test of it. [GitHub Actions](actions.md) tells how to use it. This page
is made of ` + "`steps/frontend/actions/reference/features.yml`" + `.
`

// Page returns the features as a page in Markdown: a table for each area.
func Page(all []Feature) string {
	var b strings.Builder
	b.WriteString(head)
	area := ""
	for _, f := range all {
		if f.Area != area {
			area = f.Area
			b.WriteString("\n## " + area + "\n\n| feature | supported | how | test |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", cell(f.Name), f.Support, cell(f.How), f.Test)
	}
	return b.String()
}

// cell is a text in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
