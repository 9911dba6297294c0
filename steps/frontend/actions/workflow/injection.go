package workflow

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag/rules"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// untrusted are the fields that anybody can write who may open an issue or a pull request.
// Source: https://docs.github.com/en/actions/concepts/security/script-injections and https://securitylab.github.com/resources/github-actions-untrusted-input
var untrusted = paths(
	"github.head_ref",
	"github.event.issue.title", "github.event.issue.body",
	"github.event.pull_request.title", "github.event.pull_request.body",
	"github.event.pull_request.head.ref", "github.event.pull_request.head.label", "github.event.pull_request.head.repo.default_branch",
	"github.event.comment.body", "github.event.review.body", "github.event.review_comment.body",
	"github.event.discussion.title", "github.event.discussion.body",
	"github.event.pages.*.page_name",
	"github.event.commits.*.message", "github.event.commits.*.author.email", "github.event.commits.*.author.name",
	"github.event.head_commit.message", "github.event.head_commit.author.email", "github.event.head_commit.author.name",
	"github.event.workflow_run.head_branch", "github.event.workflow_run.display_title", "github.event.workflow_run.head_commit.message",
	"github.event.workflow_run.head_commit.author.email", "github.event.workflow_run.head_commit.author.name",
	"github.event.workflow_run.pull_requests.*.head.ref",
	"github.event.merge_group.head_commit.message",
)

func paths(names ...string) [][]string {
	out := make([][]string, len(names))
	for i, name := range names {
		out[i] = strings.Split(name, ".")
	}
	return out
}

// injection finds text that others write in the code of a step. GitHub puts it there before a shell reads the code, and with it what is
// written in quotes and backticks. In a run of ours it would be the value of a variable, but the file is GitHub's.
func (c *checker) injection(n *yamlsource.Node, e *ghexpr.Expr, refs []ghexpr.Reference) {
	path := flows(e.Tree(), false)
	if path == nil {
		return
	}
	place := n.Span
	for _, ref := range refs {
		if isPrefix(ref.Path, path) {
			place = c.source.At(n, ref.Offset, ref.Length)
		}
	}
	c.report(rules.ScriptInjection, place, "put it into a variable with `env`, and use that: \"$NAME\" in a shell, process.env.NAME in JavaScript",
		"anybody can write %s, and here it becomes part of the code", strings.Join(path, "."))
}

// flows returns the untrusted field that an expression may come to, nil if it is none. In JSON, an object around one is enough.
func flows(t ghexpr.Tree, whole bool) []string {
	switch t.Kind {
	case ghexpr.Context, ghexpr.Index:
		path := pathOf(t)
		for _, pattern := range untrusted {
			if matchesPath(pattern, path) || whole && path != nil && isPrefix(path, pattern) {
				return path
			}
		}
		return nil
	case ghexpr.And:
		return flows(t.Args[len(t.Args)-1], whole)
	case ghexpr.Or:
		return anyFlows(t.Args, whole)
	case ghexpr.FunctionOf:
		switch strings.ToLower(t.Text) {
		case "tojson":
			return anyFlows(t.Args, true)
		case "format", "join", "fromjson":
			return anyFlows(t.Args, whole)
		case "case":
			return anyFlows(t.Args[min(1, len(t.Args)):], whole)
		}
	}
	return nil
}

func anyFlows(all []ghexpr.Tree, whole bool) []string {
	for _, t := range all {
		if path := flows(t, whole); path != nil {
			return path
		}
	}
	return nil
}

// pathOf is what an expression refers to, with * for all items and for one of them; nil where it is computed.
func pathOf(t ghexpr.Tree) []string {
	switch {
	case t.Kind == ghexpr.Context:
		return []string{t.Text}
	case t.Kind != ghexpr.Index:
		return nil
	}
	path := pathOf(t.Args[0])
	if path == nil {
		return nil
	}
	if len(t.Args) == 2 && t.Args[1].Kind == ghexpr.Literal && t.Args[1].Value.Kind() == value.String {
		return append(path, t.Args[1].Value.Str())
	}
	return append(path, "*")
}
