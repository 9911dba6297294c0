package convert

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
)

// scope is what names mean in a job.
type scope struct {
	*converter
	job    *workflow.Job
	env    map[string]bool      // variables that are set
	matrix map[string]*variable // by name in lower case, with dots for what is inside: "os", "node.version"
	steps  map[string]*stepName // by id in lower case
}

// variable is a variable of GitLab's.
type variable struct {
	name    string
	always  bool // it is set in every job
	boolean bool // true and false are texts in it
}

// stepName is how a step is called here.
type stepName struct {
	name        string
	conditional bool // it may be skipped, so that its outputs may not be there
}

func (c *converter) newScope(j *workflow.Job) *scope {
	return &scope{converter: c, job: j, env: map[string]bool{}, matrix: map[string]*variable{}, steps: map[string]*stepName{}}
}

// with is the scope with more variables.
func (s *scope) with(env *yamlsource.Node) *scope {
	if env == nil {
		return s
	}
	inner := *s
	inner.env = map[string]bool{}
	for name := range s.env {
		inner.env[name] = true
	}
	for _, e := range env.Entries {
		inner.env[e.Key.Text] = true
	}
	return &inner
}

// setting adds a variable of an `env`, whose name has to be one of a variable here.
func (c *converter) setting(out *mapping, key *yamlsource.Node, text string) {
	name := identifier(key.Text)
	switch {
	case out.has(name):
		out.remark(c.note(key.Span, "the variable %s is left out: another one is already called %s", key.Text, name))
		return
	case name != key.Text:
		c.note(key.Span, "the variable %s is called %s here", key.Text, name)
	}
	out.add(name, text)
}

// known are the fields of contexts that a variable of every job, or of some, has the value of.
var known = map[string]variable{
	"github.sha":                             {name: "CI_COMMIT_SHA", always: true},
	"github.ref_name":                        {name: "CI_COMMIT_REF_NAME", always: true},
	"github.repository":                      {name: "CI_PROJECT_PATH", always: true},
	"github.repository_id":                   {name: "CI_PROJECT_ID", always: true},
	"github.repository_owner":                {name: "CI_PROJECT_NAMESPACE", always: true},
	"github.actor":                           {name: "GITLAB_USER_LOGIN", always: true},
	"github.triggering_actor":                {name: "GITLAB_USER_LOGIN", always: true},
	"github.actor_id":                        {name: "GITLAB_USER_ID", always: true},
	"github.run_id":                          {name: "CI_PIPELINE_ID", always: true},
	"github.run_number":                      {name: "CI_PIPELINE_IID", always: true},
	"github.job":                             {name: "CI_JOB_NAME", always: true},
	"github.server_url":                      {name: "CI_SERVER_URL", always: true},
	"github.event.repository.default_branch": {name: "CI_DEFAULT_BRANCH", always: true},
	"github.event.repository.name":           {name: "CI_PROJECT_NAME", always: true},
	"github.event.head_commit.message":       {name: "CI_COMMIT_MESSAGE", always: true},
	"github.head_ref":                        {name: "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"},
	"github.base_ref":                        {name: "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"},
	"github.event.number":                    {name: "CI_MERGE_REQUEST_IID"},
	"github.event.pull_request.number":       {name: "CI_MERGE_REQUEST_IID"},
	"github.event.pull_request.title":        {name: "CI_MERGE_REQUEST_TITLE"},
	"github.event.pull_request.head.ref":     {name: "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"},
	"github.event.pull_request.base.ref":     {name: "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"},
	"github.event.pull_request.draft":        {name: "CI_MERGE_REQUEST_DRAFT", boolean: true},
}

// elsewhere are the fields that our runner knows in a GitLab job besides.
var elsewhere = []string{"github.ref", "github.ref_type", "github.ref_protected", "github.event_name", "github.run_attempt", "github.workspace",
	"github.workflow", "github.token", "github.api_url", "github.graphql_url", "github.action_path", "job.status"}

// tokenNote is told of GitHub's token.
const tokenNote = "GitLab has no GitHub token: steps that call GitHub need one, as the secret GITHUB_TOKEN; CI_JOB_TOKEN is GitLab's own"

// variable finds the variable that has the value of a context's field.
func (s *scope) variable(path []string, place diag.Span) (variable, bool) {
	key := strings.ToLower(strings.Join(path, "."))
	if v, ok := known[key]; ok {
		return v, true
	}
	if len(path) < 2 {
		return variable{}, false
	}
	if strings.HasPrefix(key, "github.event.inputs.") {
		path = append([]string{"inputs"}, path[3:]...)
	}
	switch path[0] {
	case "matrix":
		if v := s.matrix[strings.ToLower(strings.Join(path[1:], "."))]; v != nil {
			return *v, true
		}
	case "secrets":
		if len(path) == 2 && !strings.EqualFold(path[1], "GITHUB_TOKEN") {
			s.creates(place, path[1], ", masked: it is a secret of GitHub's")
			return variable{name: path[1], always: true}, true
		}
	case "vars":
		if len(path) == 2 {
			s.creates(place, path[1], ": it is a variable of GitHub's settings")
			return variable{name: path[1], always: true}, true
		}
	case "inputs":
		for _, in := range s.w.DispatchInputs() {
			if len(path) == 2 && strings.EqualFold(in.Name, path[1]) {
				return variable{name: identifier(in.Name), always: true, boolean: in.Type == "boolean"}, true
			}
		}
	case "needs":
		if len(path) == 4 && path[2] == "outputs" && s.isChosen(path[1]) && s.outputs(s.w.Job(path[1])).Get(path[3]) != nil {
			return variable{name: outputName(s.w.Job(path[1]).ID, path[3]), always: true}, true
		}
	}
	return variable{}, false
}

// outputs is what the text says of a job's outputs.
func (c *converter) outputs(j *workflow.Job) *yamlsource.Node {
	if n := c.node(j).Get("outputs"); n != nil {
		return n
	}
	return &yamlsource.Node{}
}

// outputName is the variable that has an output of a job.
func outputName(job, output string) string { return identifier(job) + "_" + identifier(output) }

// identifier makes a text the name of a variable or a step: letters, digits and underscores, and no digit first.
func identifier(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	name := b.String()
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// single writes one expression of a text in our language, without ${{ }}.
func (s *scope) single(e *ghexpr.Expr, place diag.Span) string {
	if path, ok := e.Tree().Path(); ok {
		if text, ok := s.reference(path, place); ok {
			return text
		}
	}
	return ghexpr.Quoted(ghexpr.TextFunction, s.left(e, place))
}

// reference writes a context's field in our language, where that is there whatever happens.
func (s *scope) reference(path []string, place diag.Span) (string, bool) {
	if v, ok := s.variable(path, place); ok {
		return "job." + v.name, v.always
	}
	switch {
	case len(path) == 2 && path[0] == "github" && strings.EqualFold(path[1], "workspace"):
		return "work_dir", true
	case len(path) == 2 && path[0] == "env" && s.env[path[1]]:
		return "env." + identifier(path[1]), true
	case len(path) == 4 && path[0] == "steps" && strings.EqualFold(path[2], "outputs"):
		if step := s.steps[strings.ToLower(path[1])]; step != nil && !step.conditional {
			return "steps." + step.name + ".outputs" + field(path[3]), true
		}
	}
	return "", false
}

// field writes the access to a field in our language.
func field(name string) string {
	if identifier(name) == name {
		return "." + name
	}
	return `["` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"]`
}

// left is an expression that stays GitHub's. What only GitHub's jobs have in it becomes what has the value here.
func (s *scope) left(e *ghexpr.Expr, place diag.Span) string {
	source := e.String()
	again, err := ghexpr.Parse(source, nil)
	if err != nil {
		return source
	}
	runes := []rune(source)
	refs := again.References()
	slices.SortFunc(refs, func(a, b ghexpr.Reference) int { return b.Offset - a.Offset })
	missing := false
	for _, r := range refs {
		text := ""
		switch {
		case r.Path[0] == "steps" && len(r.Path) > 1:
			if step := s.steps[strings.ToLower(r.Path[1])]; step != nil && !strings.EqualFold(step.name, identifier(r.Path[1])) {
				text = "steps." + step.name
				for _, name := range r.Path[2:] {
					text += "['" + strings.ReplaceAll(name, "'", "''") + "']"
				}
			}
		case slices.Contains([]string{"matrix", "secrets", "vars", "inputs", "needs"}, r.Path[0]):
			if v, ok := s.variable(r.Path, place); ok {
				text = "env." + v.name
			} else if strings.EqualFold(strings.Join(r.Path, "."), "secrets.GITHUB_TOKEN") {
				s.note(place, tokenNote)
			} else {
				missing = true
				s.note(place, "%s is not known in a GitLab job: it is empty", strings.Join(r.Path, "."))
			}
		case r.Path[0] == "env" && len(r.Path) == 2:
			if name := identifier(r.Path[1]); name != r.Path[1] {
				text = "env." + name
			}
		case r.Path[0] == "strategy", r.Path[0] == "jobs":
			missing = true
			s.note(place, "%s is not known in a GitLab job", strings.Join(r.Path, "."))
		case r.Path[0] == "github" || r.Path[0] == "job":
			key := strings.ToLower(strings.Join(r.Path, "."))
			v, ok := s.variable(r.Path, place)
			switch {
			case ok && strings.HasPrefix(key, "github.event."):
				text = "env." + v.name
			case key == "github.token":
				s.note(place, tokenNote)
			case !ok && !slices.Contains(elsewhere, key):
				missing = true
				s.note(place, "%s is not known in a GitLab job: it is empty", key)
			}
		}
		if text != "" {
			runes = slices.Replace(runes, r.Offset, r.Offset+r.Length, []rune(text)...)
		}
	}
	if !missing {
		s.note(place, "only Rung's runner evaluates GitHub's expression %s", shorten(source))
	}
	return string(runes)
}

// template writes a text of GitHub's as one of our language.
func (s *scope) template(n *yamlsource.Node) string {
	t, err := ghexpr.ParseTemplate(textOf(n), nil)
	if err != nil {
		return textOf(n)
	}
	out, rest := "", t.Field(nil)
	for _, part := range t.Parts() {
		if part.Expr == nil {
			continue
		}
		call := "${{ " + ghexpr.Quoted(ghexpr.TextFunction, part.Expr.String()) + " }}"
		before, after, _ := strings.Cut(rest, call)
		out, rest = out+before+"${{ "+s.single(part.Expr, n.Span)+" }}", after
	}
	return out + rest
}

// dollars writes a text of GitHub's with variables of GitLab's in it. ok is false where an expression is not a variable.
func (s *scope) dollars(n *yamlsource.Node) (text string, ok bool) {
	t, err := ghexpr.ParseTemplate(textOf(n), nil)
	if err != nil {
		return "", false
	}
	parts := t.Parts()
	for i, part := range parts {
		if part.Expr == nil {
			text += strings.ReplaceAll(part.Text, "$", "$$")
			continue
		}
		path, is := part.Expr.Tree().Path()
		name := ""
		switch v, found := s.variable(path, n.Span); {
		case !is:
		case found:
			name = v.name
		case len(path) == 2 && path[0] == "env" && s.env[path[1]]:
			name = identifier(path[1])
		case len(path) == 2 && path[0] == "github" && path[1] == "workspace":
			name = "CI_PROJECT_DIR"
		case len(path) == 2 && path[0] == "github" && path[1] == "workflow":
			name = "CI_PIPELINE_NAME"
		case len(path) == 2 && path[0] == "github" && path[1] == "ref": // as a part of a name, where all that counts is that it differs
			name = "CI_COMMIT_REF_NAME"
		}
		switch {
		case name == "":
			return "", false
		case i+1 < len(parts) && (parts[i+1].Expr != nil || identifier(parts[i+1].Text[:1]) == parts[i+1].Text[:1] || parts[i+1].Text[0]-'0' < 10):
			text += "${" + name + "}"
		default:
			text += "$" + name
		}
	}
	return text, true
}

// textOf is the text of a scalar; that of null is empty.
func textOf(n *yamlsource.Node) string {
	if n == nil || n.Kind == yamlsource.Null {
		return ""
	}
	return n.Text
}

// maxShown is how much of a text a note shows, in characters.
const maxShown = 80

func shorten(text string) string {
	text, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(text); len(runes) > maxShown {
		text, more = string(runes[:maxShown]), true
	}
	if more {
		text += "…"
	}
	return text
}
