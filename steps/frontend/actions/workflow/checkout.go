package workflow

import (
	"path"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/expr"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Inputs of actions/checkout. Those that say how to get in, or how much history to fetch, change nothing about a copy of the work tree, which
// has all of its history.
var (
	checkoutNeedless = []string{"token", "ssh-key", "ssh-known-hosts", "ssh-strict", "ssh-user", "persist-credentials", "set-safe-directory",
		"show-progress", "github-server-url", "fetch-depth", "fetch-tags", "filter", "lfs", "allow-unsafe-pr-checkout"}
	checkoutRefused = []string{"sparse-checkout", "sparse-checkout-cone-mode"}
)

// checkout answers actions/checkout from the work tree, and reports whether it could.
func (k *compiler) checkout(s *plan.Step, n *yamlsource.Node) bool {
	if k.options.WorkTree == "" {
		return false
	}
	with := map[string]string{}
	for _, e := range entries(n.Get("with")) {
		name := strings.ToLower(e.Key.Text)
		if slices.Contains(checkoutNeedless, name) {
			continue
		}
		if k.dynamic(e.Value) {
			k.note("actions/checkout runs as it is: its input %q is known only at run time", name)
			return false
		}
		if text := strings.TrimSpace(k.string(e.Value)); text != "" {
			with[name] = text
		}
	}
	if repository := formatText(k.github("repository")); with["repository"] != "" && !strings.EqualFold(with["repository"], repository) {
		return false // another repository
	}
	if ref := with["ref"]; ref != "" && !k.isOwnRef(ref) {
		return false // another commit
	}
	for _, name := range slices.Concat(checkoutRefused, []string{"clean"}) {
		if text, ok := with[name]; ok && !(name == "clean" && strings.EqualFold(text, "true")) {
			k.note("actions/checkout runs as it is: a copy of the work tree does not support its input %q", name)
			return false
		}
	}
	folder := path.Clean(strings.ReplaceAll(with["path"], `\`, "/"))
	if path.IsAbs(folder) || folder == ".." || strings.HasPrefix(folder, "../") {
		return false // which the action refuses
	}
	k.answer(s, folder, with["submodules"])
	return true
}

// answer puts the built-in step in the place of the action.
func (k *compiler) answer(s *plan.Step, folder, submodules string) {
	text := func(t string) plan.Field { return plan.Field{Value: value.OfString(expr.Escape(t)), Span: s.Span} }
	inputs := map[string]plan.Field{}
	inputs["work_tree"] = text(k.options.WorkTree)
	if k.options.ExcludesFile != "" {
		inputs["excludes_file"] = text(k.options.ExcludesFile)
	}
	if k.options.Delivered {
		inputs["ignored"] = plan.Field{Value: value.OfBool(true), Span: s.Span}
	}
	if branch, is := strings.CutPrefix(formatText(k.github("ref")), "refs/heads/"); is {
		inputs["tracking"] = text(branch)
	}
	if folder != "." {
		inputs["path"] = text(folder)
	}
	switch strings.ToLower(submodules) {
	case "true":
		inputs["submodules"] = text("normal")
	case "recursive":
		inputs["submodules"] = text("recursive")
	}
	if s.Title == s.Ref.Text { // not the author's own
		s.Title = "Check out the work tree"
	}
	builtin := plan.Step{Name: "checkout", Inputs: inputs, Span: s.Span,
		Ref: &plan.Reference{Kind: plan.RefBuiltin, Text: "builtin://git/checkout", Path: []string{"git", "checkout"}, Span: s.Ref.Span}}
	s.Ref, s.Inputs = nil, nil
	s.Inline = &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{
		Steps: []plan.Step{builtin},
		Outputs: map[string]plan.Field{
			"commit": {Value: value.OfString("${{ steps.checkout.outputs.sha }}")},
			"ref":    text(formatText(k.github("ref"))),
		},
	}}
	k.out.Checkout = true
	k.note("actions/checkout of this repository is a copy of the work tree, with its whole history")
}

// github is a field of the github context.
func (k *compiler) github(name string) value.Value {
	v, _ := ghexpr.Field(k.contexts["github"], name)
	return v
}

// isOwnRef reports whether a ref is the commit that the run is for.
func (k *compiler) isOwnRef(ref string) bool {
	for _, name := range []string{"ref", "sha", "ref_name", "head_ref"} {
		if own := formatText(k.github(name)); own != "" && own == ref {
			return true
		}
	}
	return false
}

// dynamic reports whether a value depends on what only the run knows.
func (k *compiler) dynamic(n *yamlsource.Node) bool {
	t, err := ghexpr.ParseTemplate(n.Text, nil)
	if err != nil || !n.Kind.IsScalar() {
		return true
	}
	for _, part := range t.Parts() {
		if part.Expr == nil {
			continue
		}
		if part.Expr.Calls("hashFiles") || slices.ContainsFunc(part.Expr.References(), func(r ghexpr.Reference) bool {
			return slices.Contains([]string{"steps", "env", "job", "runner", "secrets"}, r.Path[0])
		}) {
			return true
		}
	}
	return false
}
