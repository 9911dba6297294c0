package github

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/expr"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/toolkit/github/hashfiles"
	"github.com/rungci/rung/steps/value"
)

// Functions are what GitHub's expressions are in plans: calls with the text of the expression.
var Functions = map[string]engine.Function{
	ghexpr.TextFunction:      function(ghexpr.TextFunction),
	ghexpr.ValueFunction:     function(ghexpr.ValueFunction),
	ghexpr.ConditionFunction: function(ghexpr.ConditionFunction),
}

func function(name string) engine.Function {
	return func(scope engine.FunctionScope, args []value.Value) (value.Value, error) {
		if len(args) != 1 || args[0].Kind() != value.String {
			return value.Value{}, errors.New("it takes the text of an expression of GitHub's")
		}
		v, err := ghexpr.Call(name, args[0].Str(), contexts{scope})
		var mistake *ghexpr.Error
		if errors.As(err, &mistake) {
			return value.Value{}, &expr.Error{Hint: mistake.Hint, Message: explain(mistake, args[0].Str())}
		}
		return v, err
	}
}

// maxShown is how much of an expression a message shows, in characters.
const maxShown = 60

// explain says where in its expression a mistake is: what surrounds the expression is another language's.
func explain(mistake *ghexpr.Error, source string) string {
	if runes := []rune(source); len(runes) > maxShown {
		from := min(max(0, mistake.Offset-maxShown/2), len(runes)-maxShown)
		source = "…" + string(runes[from:from+maxShown]) + "…"
	}
	return fmt.Sprintf("%s, at character %d of GitHub's expression %s", mistake.Message, mistake.Offset+1, source)
}

// contexts is what an expression sees at a place of a run. It implements ghexpr.Finder.
type contexts struct{ scope engine.FunctionScope }

func (c contexts) given(name string) value.Value {
	v, _ := c.scope.Lookup(name)
	return v
}

func (c contexts) surroundings() surroundings {
	var permissions map[string]string
	if may, known := c.scope.Lookup("permissions"); known {
		permissions = map[string]string{}
		for scope, level := range may.Fields() {
			permissions[scope] = level.Text()
		}
	}
	return surroundings{
		permissions: permissions,

		context:  c.given("context"),
		variable: c.variable,
		workDir:  c.given("work_dir").Str(), actionDir: c.given("func_dir").Str(), tempDir: c.given("temp_dir").Str(),
	}
}

// variable returns an environment variable, or else one of the job.
func (c contexts) variable(name string) value.Value {
	for _, context := range []string{"env", "vars"} {
		if v := field(c.given(context), name); v.Str() != "" {
			return v
		}
	}
	return value.Value{}
}

// Lookup returns a context.
func (c contexts) Lookup(name string) (value.Value, bool) {
	switch name {
	case "github":
		return c.github(), true
	case "runner":
		return c.surroundings().runner(), true
	case "env":
		return c.scope.Lookup("env")
	case "secrets":
		return c.secrets(), true
	case "inputs":
		if own := c.given("inputs"); len(own.Fields()) > 0 {
			return own, true
		}
	case "steps":
		steps := c.given("steps")
		fields := make(map[string]value.Value, len(steps.Fields()))
		for name, step := range steps.Fields() {
			fields[name] = stepContext(step)
		}
		return value.OfStruct(fields).Mark(steps.Marked()), true
	case "job":
		return with(field(c.given("context"), "job"), "status", value.OfString(c.status())), true
	case "strategy":
		if given := field(c.given("context"), "strategy"); !given.IsNull() {
			return given, true
		}
		return value.OfStruct(map[string]value.Value{
			"fail-fast": value.OfBool(true), "job-index": value.OfInt(0), "job-total": value.OfInt(1), "max-parallel": value.OfInt(1),
		}), true
	}
	v, ok := c.given("context").Fields()[name]
	return v, ok
}

// with returns a struct with one more field.
func with(v value.Value, name string, field value.Value) value.Value {
	fields := maps.Clone(v.Fields())
	if fields == nil {
		fields = map[string]value.Value{}
	}
	fields[name] = field
	return value.OfStruct(fields).Mark(v.Marked())
}

// Find returns the fields of the contexts whose names are found in another way: variables, where the system tells upper from lower case,
// and steps, whose ids have no dashes in plans.
func (c contexts) Find(context, name string) (value.Value, bool) {
	switch {
	case context == "github" && strings.EqualFold(name, "token"), context == "secrets" && strings.EqualFold(name, tokenSecret):
		return c.jobToken(), true
	case context == "github" && strings.EqualFold(name, "event_path"):
		return c.eventPath(), true
	case context == "env" && runtime.GOOS != "windows":
		return field(c.given("env"), name), true
	case context == "steps":
		steps := c.given("steps")
		for candidate, step := range steps.Fields() {
			if strings.ToLower(candidate) == stepName(name) {
				return stepContext(step).Mark(steps.Marked()), true
			}
		}
		return value.Value{}, true
	}
	return value.Value{}, false
}

// github is the github context of a step.
func (c contexts) github() value.Value {
	fields := maps.Clone(c.surroundings().github().Fields())
	fields["token"] = c.token()
	fields["action"] = value.OfString(textOr(fields["action"], actionName(c.given("step").Text())))
	origin := c.given("origin")
	fields["action_repository"], fields["action_ref"] = value.OfString(repositoryOf(field(origin, "url").Text())), value.OfString(field(origin, "rev").Text())
	return value.OfStruct(fields)
}

// eventPath is github.event_path, the file of which is made when it is first asked for by name.
func (c contexts) eventPath() value.Value {
	job, err := jobOf(c.scope.Once)
	if err != nil {
		return value.Value{}
	}
	path, err := job.eventFile(c.surroundings())
	if err != nil || path == "" { // a process that needs the file says why it cannot be made
		return value.Value{}
	}
	return value.OfString(path)
}

// secrets are those that can be granted here, and the token.
func (c contexts) secrets() value.Value {
	secrets := c.given("secrets")
	if _, ok := ghexpr.Field(secrets, tokenSecret); ok {
		return secrets
	}
	if token := c.token(); token.Str() != "" {
		return with(secrets, tokenSecret, token)
	}
	return secrets
}

// tokenSecret is the name of the secret that every job of a workflow has.
const tokenSecret = "GITHUB_TOKEN"

// token is github.token: that of the workflow, or else one that the user gave. It is empty where there is none.
func (c contexts) token() value.Value {
	token := field(c.given("context"), "github", "token")
	if token.Str() == "" {
		token, _ = ghexpr.Field(c.given("secrets"), tokenSecret)
	}
	return value.OfString(token.Str()).Mark(token.Str() != "")
}

// jobToken is the token of the job, which is made up when nobody gave one. What asks for it by name gets that: the contexts as a whole
// do not hold it, because the servers that know it start with it.
func (c contexts) jobToken() value.Value {
	token := c.token()
	job, err := jobOf(c.scope.Once)
	if err != nil {
		return token
	}
	text, err := job.token(token.Str(), c.surroundings())
	if err != nil { // an action that needs the servers says why they do not start
		return token
	}
	if token.Str() == "" {
		c.scope.MadeUp(text)
	}
	return value.OfString(text).Mark(text != "")
}

// status is how the steps before went.
func (c contexts) status() string {
	switch failed, cancelled := c.scope.Status(); {
	case cancelled:
		return "cancelled"
	case failed:
		return "failure"
	default:
		return "success"
	}
}

// Call calls a function that knows the run.
func (c contexts) Call(name string, args []value.Value) (value.Value, bool, error) {
	if name == "hashFiles" {
		texts := make([]string, len(args))
		for i, arg := range args {
			texts[i] = ghexpr.Text(arg)
		}
		sum, err := hashfiles.Sum(c.scope.Live(), c.given("work_dir").Str(), texts)
		return value.OfString(sum), true, err
	}
	if len(args) > 0 {
		return value.Value{}, true, errors.New("it takes no parameters in a step")
	}
	switch name {
	case "always":
		return value.OfBool(true), true, nil
	case "success", "failure":
		return value.OfBool(c.status() == name), true, nil
	case "cancelled":
		return value.OfBool(c.status() == name), true, nil
	default:
		return value.Value{}, false, nil
	}
}

// parentFolder is the folder above another one, "" for none.
func parentFolder(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Dir(dir)
}
