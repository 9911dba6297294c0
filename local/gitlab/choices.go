package gitlab

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/value"
)

// JobInput is a value for one of the `inputs:` of a job.
type JobInput struct {
	Job, Name string
	Text      string // the input's type says how it reads: a string as it is, anything else as JSON
}

// GivenError says that what was given by hand does not fit the definition. It shows no values of variables.
type GivenError struct{ Message, Hint string }

func (e *GivenError) Error() string { return e.Message }

// checkGiven compares what was given by hand with what the definition takes.
func (p *Project) checkGiven() error {
	if err := p.checkOptions(); err != nil {
		return err
	}
	for _, in := range p.options.JobInputs {
		v, err := p.jobInput(in)
		if err != nil {
			return err
		}
		if p.inputs == nil {
			p.inputs = map[string]map[string]value.Value{}
		}
		if p.inputs[in.Job] == nil {
			p.inputs[in.Job] = map[string]value.Value{}
		}
		p.inputs[in.Job][in.Name] = v
	}
	return nil
}

// checkOptions refuses values of variables that are none of their options.
func (p *Project) checkOptions() error {
	for _, v := range p.Definition.Variables {
		if len(v.Options) == 0 {
			continue
		}
		fits := func(given variable.Variable) bool {
			return given.Name != v.Name || slices.Contains(v.Options, given.Value)
		}
		hint := "it can be " + strings.Join(v.Options, ", ")
		for _, given := range p.options.Variables {
			if !fits(given) {
				return &GivenError{fmt.Sprintf("the variable %s was set to a value that is not one of its options", v.Name), hint}
			}
		}
		for _, given := range p.Settings.Variables {
			if !fits(given.Variable) {
				return diag.List{{
					Span:    diag.Span{File: store.Folder + "/" + store.VariablesFile},
					Message: fmt.Sprintf("the variable %s has a value that is not one of its options", v.Name), Hint: hint,
				}}
			}
		}
	}
	return nil
}

// jobInput reads the value for an input of a job.
func (p *Project) jobInput(in JobInput) (value.Value, error) {
	wrong := func(hint, format string, args ...any) (value.Value, error) {
		return value.Value{}, &GivenError{fmt.Sprintf("the input %s of the job %q: ", in.Name, in.Job) + fmt.Sprintf(format, args...), hint}
	}
	at := slices.IndexFunc(p.Definition.Jobs, func(j *keyword.Job) bool { return j.Name == in.Job })
	if at < 0 {
		hint := "--list --all shows the jobs"
		if like := diag.Suggest(in.Job, p.Names()); like != "" {
			hint = fmt.Sprintf("did you mean %q?", like)
		}
		return wrong(hint, "the job does not exist")
	}
	declared := p.Definition.Jobs[at].Inputs
	names := make([]string, len(declared))
	for i, d := range declared {
		names[i] = d.Name
	}
	which := slices.Index(names, in.Name)
	switch {
	case len(names) == 0:
		return wrong("pass values for spec:inputs without a job: NAME=VALUE", "the job has no inputs")
	case which < 0:
		return wrong("its inputs are "+strings.Join(names, ", "), "the job does not have this input")
	}
	d := declared[which]
	v, ok := typed(d.Type, in.Text)
	if !ok {
		return wrong(inputForms[d.Type], "its type is %s, and %q does not match", d.Type, in.Text)
	}
	if len(d.Options) > 0 && !slices.ContainsFunc(d.Options, func(n config.Node) bool { return value.Equal(n.Value(), v) }) {
		options := make([]string, len(d.Options))
		for i, n := range d.Options {
			options[i] = n.Text()
		}
		return wrong("it can be "+strings.Join(options, ", "), "%q is not one of its options", in.Text)
	}
	if d.Regex != "" {
		pattern, err := regexp.Compile(bare(d.Regex))
		if err != nil || !pattern.MatchString(in.Text) {
			return wrong("", "%q does not match the regex %s", in.Text, d.Regex)
		}
	}
	return v, nil
}

// bare is a pattern without the slashes around it.
func bare(pattern string) string {
	if len(pattern) > 1 && strings.HasPrefix(pattern, "/") && strings.HasSuffix(pattern, "/") {
		return pattern[1 : len(pattern)-1]
	}
	return pattern
}

// inputForms say what the values of a type look like.
var inputForms = map[string]string{
	"number": "a number looks like 42 or 1.5", "boolean": "a boolean is true or false", "array": `an array looks like '["a", "b"]'`,
}

// typed reads a text as a value of a type.
func typed(kind, text string) (value.Value, bool) {
	if kind == "string" {
		return value.OfString(text), true
	}
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		return v, false
	}
	switch kind {
	case "number":
		return v, v.Kind() == value.Number
	case "boolean":
		return v, v.Kind() == value.Boolean
	default:
		return v, v.Kind() == value.Array
	}
}

// Choice is a variable that a person who starts a pipeline by hand is told of.
type Choice struct {
	Name        string   `json:"name"`
	Value       string   `json:"value"`
	Description string   `json:"description,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// Choices are the file's variables that have a description or options.
func (p *Project) Choices() []Choice {
	var out []Choice
	for _, v := range p.Definition.Variables {
		if v.Description != "" || len(v.Options) > 0 {
			out = append(out, Choice{v.Name, v.Value, v.Description, v.Options})
		}
	}
	return out
}

// IncludeRule is a rule of an include, as it was decided.
type IncludeRule struct {
	Place string `json:"place"` // file:line:column
	Holds bool   `json:"holds"`
	Why   string `json:"why"`
}

// IncludeRules are the rules of includes in the order in which they were decided: those behind one that holds are not.
func (p *Project) IncludeRules() []IncludeRule { return p.rules }
