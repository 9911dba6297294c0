// Package settings reads .rung/variables.yml, which holds for local runs what GitLab keeps in the settings of a project: variables that are
// not in the repository.
//
//	DEPLOY_HOST: staging.example.com
//	DEPLOY_TOKEN: {value: glpat-…, masked: true}
//	KUBECONFIG: {value: "…", file: true, environment_scope: production}
//	API_URL:
//	  - {value: https://example.com, environment_scope: production}
//	  - {value: https://test.example.com}
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// MaxSize is the longest file that is read, in bytes.
const MaxSize = 4 << 20

// Variable is a variable of the project.
type Variable struct {
	variable.Variable
	// Scope is the pattern of the environments that get it, in which * stands for any characters; "*" is every job.
	Scope string
	// Protected variables are for protected branches and tags only.
	Protected bool
}

// Settings are those of a project.
type Settings struct {
	// File is where they were read.
	File      string
	Variables []Variable
}

// Read reads a file of the project in root. One that is not there gives empty settings; what is wrong with it is a diag.List.
func Read(root, path, name string) (*Settings, error) {
	s := &Settings{File: path}
	data, err := projectfile.ReadPath(root, path, MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the project's variables: %w", err)
	}
	s.Variables, err = Parse(name, data)
	return s, err
}

// Parse reads the text of a file that diagnostics call name. No value is part of a diagnostic: its source lines are left out.
func Parse(name string, data []byte) ([]Variable, error) {
	file, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, withoutSource(err)
	}
	r := &reader{file: file}
	for _, doc := range file.Documents {
		r.document(doc)
	}
	return r.variables, withoutSource(file.Err())
}

// withoutSource takes the source lines, which may hold secrets, out of diagnostics.
func withoutSource(err error) error {
	if err == nil {
		return nil
	}
	list := slices.Clone(diag.Of(err))
	if list == nil {
		return err
	}
	for i := range list {
		list[i].Source = ""
	}
	return list
}

// reader makes variables of a tree.
type reader struct {
	file      *yamlsource.File
	variables []Variable
}

var nameForm = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (r *reader) document(doc *yamlsource.Node) {
	switch doc.Kind {
	case yamlsource.Null:
		return
	case yamlsource.Mapping:
	default:
		r.file.Report(doc.Span, "write NAME: VALUE lines", "the file must be a map of variables, not %s", doc.Kind)
		return
	}
	for _, e := range doc.Entries {
		if !nameForm.MatchString(e.Key.Text) {
			r.file.Report(e.Key.Span, "use letters, digits and underscores", "%q is not a variable name", e.Key.Text)
			continue
		}
		if e.Value.Kind == yamlsource.Sequence {
			for _, item := range e.Value.Items {
				r.variable(e.Key.Text, item)
			}
			continue
		}
		r.variable(e.Key.Text, e.Value)
	}
}

var keys = []string{"value", "masked", "file", "raw", "environment_scope", "protected", "description"}

// variable reads one variable: its value, or a map that holds it.
func (r *reader) variable(name string, node *yamlsource.Node) {
	v := Variable{Variable: variable.Variable{Name: name}, Scope: "*"}
	if node.Kind.IsScalar() {
		v.Value = node.Text
		r.add(v, node)
		return
	}
	if node.Kind != yamlsource.Mapping {
		r.file.Report(node.Span, "write a string, or a map with `value:`", "the variable %s must be a string or a map, not %s", name, node.Kind)
		return
	}
	given := false
	for _, e := range node.Entries {
		switch key := e.Key.Text; key {
		case "value", "environment_scope", "description":
			if !e.Value.Kind.IsScalar() {
				r.file.Report(e.Value.Span, "write a string", "%q must be a string, not %s", key, e.Value.Kind)
				continue
			}
			switch key {
			case "value":
				v.Value, given = e.Value.Text, true
			case "environment_scope":
				v.Scope = e.Value.Text
			default:
				v.Description = e.Value.Text
			}
		case "masked":
			v.Masked = r.truth(key, e.Value)
		case "file":
			v.File = r.truth(key, e.Value)
		case "raw":
			v.Raw = r.truth(key, e.Value)
		case "protected":
			v.Protected = r.truth(key, e.Value)
		default:
			hint := "the keys are " + strings.Join(keys, ", ")
			if like := diag.Suggest(key, keys); like != "" {
				hint = "did you mean \"" + like + "\"?"
			}
			r.file.Report(e.Key.Span, hint, "a variable does not support the key %q", key)
		}
	}
	if !given {
		r.file.Report(node.Span, "add `value:`", "the variable %s has no value", name)
		return
	}
	r.add(v, node)
}

func (r *reader) truth(key string, node *yamlsource.Node) bool {
	if node.Kind != yamlsource.Boolean {
		r.file.Report(node.Span, "write true or false", "%q must be true or false, not %s", key, node.Kind)
	}
	return node.Text == "true"
}

// add takes a variable, unless it cannot be kept secret or cannot be set.
func (r *reader) add(v Variable, node *yamlsource.Node) {
	switch {
	case strings.ContainsRune(v.Value, 0):
		r.file.Report(node.Span, "", "the value of %s contains a NUL byte, which environment variables cannot", v.Name)
	case len(v.Value) > variable.MaxValue:
		r.file.Report(node.Span, "", "the value of %s is longer than %d bytes", v.Name, variable.MaxValue)
	case v.Masked && v.Value != "" && len(strings.TrimSpace(v.Value)) < mask.MinLength:
		r.file.Report(node.Span, "", "the value of %s is shorter than %d bytes, too short to be masked in a log", v.Name, mask.MinLength)
	default:
		r.variables = append(r.variables, v)
	}
}

// For returns the variables of a job that deploys to an environment, "" for none. Of several with one name the one with the
// longest scope counts, as the closest. Protected ones are left out unless the ref is protected.
func (s *Settings) For(environment string, protected bool) []variable.Variable {
	var out []variable.Variable
	best := map[string]int{} // the length of the scope that counts
	for _, v := range s.Variables {
		if v.Protected && !protected || !inScope(v.Scope, environment) {
			continue
		}
		if length, there := best[v.Name]; there {
			if len(v.Scope) < length {
				continue
			}
			out = slices.DeleteFunc(out, func(old variable.Variable) bool { return old.Name == v.Name })
		}
		best[v.Name] = len(v.Scope)
		out = append(out, v.Variable)
	}
	return out
}

// Left returns the names of the protected variables that For leaves out for a ref that is not protected.
func (s *Settings) Left() []string {
	var names []string
	for _, v := range s.Variables {
		if v.Protected && !slices.Contains(names, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// Lookup returns a value by its name, whatever its scope; the one for every environment before others.
func (s *Settings) Lookup(name string) (Variable, bool) {
	var found Variable
	var ok bool
	for _, v := range s.Variables {
		if v.Name == name && (!ok || v.Scope == "*") {
			found, ok = v, true
		}
	}
	return found, ok
}

// inScope reports whether a pattern with * matches an environment's name. Jobs without an environment are in the scope * only.
func inScope(scope, environment string) bool {
	if scope == "*" {
		return true
	}
	if environment == "" {
		return false
	}
	parts := strings.Split(scope, "*")
	if len(parts) == 1 {
		return scope == environment
	}
	rest, found := strings.CutPrefix(environment, parts[0])
	if !found {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, last)
}
