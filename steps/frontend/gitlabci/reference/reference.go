// Package reference describes every keyword of a .gitlab-ci.yml: for `step-runner explain`, for editors as a JSON schema, and for the table
// in the documents. All of it is generated from two files next to this one: keywords.yml describes them, schema.json defines their form.
package reference

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

//go:embed keywords.yml
var keywordsFile []byte

// Support is how `step-runner local` treats a keyword.
type Support string

// The ways of support.
const (
	// Full is as on GitLab.
	Full Support = "full"
	// Simulated is the same with what is on this machine.
	Simulated Support = "simulated"
	// Named cannot be done on one machine; the output says so.
	Named Support = "named"
)

// Keyword is what there is to know of a keyword.
type Keyword struct {
	// Name has colons between keys: artifacts:reports:dotenv.
	Name string `json:"name"`
	// Where it are allowed: top, header, job, default.
	Where []string `json:"where"`
	// Form is what its value looks like, in words.
	Form string `json:"form"`
	// Text says what it does, and Local what `step-runner local` makes of it, where that needs a word.
	Text    string  `json:"text"`
	Local   string  `json:"local,omitempty"`
	Support Support `json:"support"`
	// Test is the test of it, as PACKAGE.TEST.
	Test    string `json:"test,omitempty"`
	Example string `json:"example,omitempty"`
}

// All returns every keyword in the order of the documents.
func All() ([]Keyword, error) {
	file, err := yamlsource.Parse("keywords.yml", keywordsFile)
	if err != nil {
		return nil, err
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	var all []Keyword
	for _, item := range file.Documents[0].Items {
		k := Keyword{Support: Full}
		for _, e := range item.Entries {
			text := e.Value.Text
			switch e.Key.Text {
			case "keyword":
				k.Name = text
			case "where":
				k.Where = strings.Split(text, ", ")
			case "form":
				k.Form = text
			case "text":
				k.Text = text
			case "local":
				k.Local = text
			case "support":
				k.Support = Support(text)
			case "test":
				k.Test = text
			case "example":
				k.Example = text
			default:
				return nil, fmt.Errorf("keywords.yml:%d: there is no key %q", e.Key.Span.Line, e.Key.Text)
			}
		}
		all = append(all, k)
	}
	return all, nil
}

// Find returns a keyword and those below it. A name may be written with dots or colons, in the way it is in a file or not at all
// whole: "reports:dotenv" finds artifacts:reports:dotenv. Without one, keyword is nil and near are the names that are most like it.
func Find(all []Keyword, name string) (keyword *Keyword, below []Keyword, near []string) {
	name = strings.ToLower(strings.TrimSuffix(name, ":"))
	at := index(all, name)
	if at < 0 {
		name = strings.Trim(strings.NewReplacer(".", ":", " ", "").Replace(name), ":")
		at = index(all, name)
	}
	if at < 0 {
		return nil, nil, nearest(all, name)
	}
	for _, k := range all {
		if strings.HasPrefix(k.Name, all[at].Name+":") {
			below = append(below, k)
		}
	}
	return &all[at], below, nil
}

// index returns the place of the keyword with the name, or of the first one whose name ends in it; -1 when there is none.
func index(all []Keyword, name string) int {
	at := slices.IndexFunc(all, func(k Keyword) bool { return strings.ToLower(k.Name) == name })
	if at < 0 {
		at = slices.IndexFunc(all, func(k Keyword) bool { return strings.HasSuffix(strings.ToLower(k.Name), ":"+name) })
	}
	return at
}

// maxNear is how many names are suggested.
const maxNear = 8

// nearest returns the names that hold the name, or else the one that it may be a slip of the pen of.
func nearest(all []Keyword, name string) (near []string) {
	var names, last []string
	whole := map[string]string{} // by the last word of a name
	for _, k := range all {
		names = append(names, k.Name)
		word := k.Name[strings.LastIndex(k.Name, ":")+1:]
		last = append(last, word)
		whole[word] = cmp.Or(whole[word], k.Name)
		if strings.Contains(strings.ToLower(k.Name), name) {
			near = append(near, k.Name)
		}
	}
	if len(near) == 0 {
		if like := cmp.Or(diag.Suggest(name, names), whole[diag.Suggest(name, last)]); like != "" {
			near = []string{like}
		}
	}
	return near[:min(len(near), maxNear)]
}
