package stepproto

import (
	"cmp"
	"path"
	"slices"
	"strings"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// What the existing step-runner turns `script:` and `action:` into.
const (
	scriptStep   = "script"
	scriptInput  = "script"
	actionURL    = "https://gitlab.com/components/action-runner"
	actionRev    = "main"
	actionInput  = "action"
	actionInputs = "inputs"
)

func hasExpression(text string) bool { return strings.Contains(text, "${{") }

// reference reads what a step runs: usually a reference, but a script and a definition in place are part of the step.
func (r *reader) reference(out *plan.Step, m *stepsv0.Step_Reference, at string) {
	parts := pathParts(m)
	switch m.GetProtocol() {
	case stepsv0.StepReferenceProtocol_local:
		r.local(out, m, parts, at)
	case stepsv0.StepReferenceProtocol_git:
		r.plainPath(m, parts, at)
		if m.GetUrl() == "" || m.GetVersion() == "" {
			r.fail(at+"url", "a git reference has a url and a version")
		}
		out.Ref = &plan.Reference{Kind: plan.RefGit, URL: m.GetUrl(), Rev: m.GetVersion(), Path: parts, File: m.GetFilename()}
	case stepsv0.StepReferenceProtocol_oci:
		r.plainPath(m, parts, at)
		if m.GetRegistry() == "" || m.GetRepository() == "" || m.GetTag() == "" {
			r.fail(at+"registry", "an oci reference has a registry, a repository and a tag")
		}
		out.Ref = &plan.Reference{
			Kind: plan.RefOCI, Registry: m.GetRegistry(), Repository: m.GetRepository(), Tag: m.GetTag(), Path: parts, File: m.GetFilename(),
		}
	case stepsv0.StepReferenceProtocol_dist:
		r.plainPath(m, parts, at)
		if slices.Equal(parts, []string{scriptStep}) {
			r.script(out, at)
			return
		}
		out.Ref = &plan.Reference{Kind: plan.RefBuiltin, Path: parts}
	case stepsv0.StepReferenceProtocol_dynamic:
		if m.GetUrl() == "" {
			r.fail(at+"url", "a dynamic reference has the text of the reference here")
		}
		out.Ref = dynamic(m.GetUrl())
	case stepsv0.StepReferenceProtocol_spec_def:
		r.inline(out, m, at)
		return
	case stepsv0.StepReferenceProtocol_zip:
		r.fail(at+"protocol", "zip was never implemented; use local, git or oci")
	case stepsv0.StepReferenceProtocol_step_reference_protocol_unspecified:
		r.fail(at+"protocol", "missing; it is one of local, git, oci, dist, dynamic and spec_def")
	default:
		r.fail(at+"protocol", "%d is not a protocol that this version knows", m.GetProtocol())
	}
	if out.Ref != nil && out.Ref.Text == "" {
		out.Ref.Text = shortForm(out.Ref)
	}
}

// pathParts are the parts of a reference's path, from the field that has them: "path" is the older of the two.
func pathParts(m *stepsv0.Step_Reference) []string {
	if parts := m.GetPaths().GetParts(); len(parts) > 0 {
		return slices.Clone(parts)
	}
	return slices.Clone(m.GetPath()) //nolint:staticcheck // deprecated there, and written by every version before v0.10
}

// plainPath refuses expressions where only a local path may have them.
func (r *reader) plainPath(m *stepsv0.Step_Reference, parts []string, at string) {
	if m.GetPathExp() != "" || slices.ContainsFunc(parts, hasExpression) {
		r.fail(at+"path_exp", "only a local path can have expressions")
	}
}

// local reads a local reference. One with expressions becomes a dynamic one, as its path is known only when it is reached.
func (r *reader) local(out *plan.Step, m *stepsv0.Step_Reference, parts []string, at string) {
	text := m.GetPathExp()
	if text == "" {
		if len(parts) == 0 {
			r.fail(at+"paths", "a local reference has a path")
			return
		}
		text = localPath(parts)
	}
	if file := m.GetFilename(); file != "" {
		text = strings.TrimSuffix(text, "/") + "/" + file
	}
	if hasExpression(text) {
		out.Ref = dynamic(text)
		return
	}
	if m.GetPathExp() != "" {
		parts = strings.Split(m.GetPathExp(), "/")
		if parts[0] == "" {
			parts[0] = "/"
		}
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	}
	out.Ref = &plan.Reference{Kind: plan.RefLocal, Text: text, Path: parts, File: m.GetFilename()}
}

func dynamic(text string) *plan.Reference {
	field := textField(text)
	return &plan.Reference{Kind: plan.RefDynamic, Text: text, Expr: &field}
}

// script turns a call of the existing step-runner's script step into a script of our own.
func (r *reader) script(out *plan.Step, at string) {
	text, ok := out.Inputs[scriptInput]
	if !ok || text.Value.Kind() != value.String || len(out.Inputs) != 1 {
		r.fail(at+"path", "the script step takes one input, script, which is a string")
	}
	out.Inputs = nil
	out.Inline = &plan.Component{
		Spec:       plan.Spec{AnyOutputs: true},
		Definition: plan.Definition{Exec: &plan.Exec{Script: &plan.Script{Text: text}}},
	}
}

// inline reads a definition that stands in place of a reference.
func (r *reader) inline(out *plan.Step, m *stepsv0.Step_Reference, at string) {
	whole := m.GetSpecDef()
	if whole.GetDefinition() == nil {
		r.fail(at+"specDef", "a spec_def reference has a definition here")
		return
	}
	if len(out.Inputs) > 0 || len(whole.GetSpec().GetSpec().GetInputs()) > 0 {
		r.fail(at+"specDef", "a definition in place takes no inputs: it sees those of the list that it is in")
	}
	out.Inline = r.component(whole, at+"specDef.")
}

// localPath joins the parts of a local path as a reference is written: it begins with a dot or a slash.
func localPath(parts []string) string {
	joined := strings.Join(parts, "/")
	switch {
	case parts[0] == "/":
		return "/" + strings.Join(parts[1:], "/")
	case parts[0] == "." || parts[0] == ".." || hasExpression(parts[0]):
		return joined
	default:
		return "./" + joined
	}
}

// shortForm writes a reference for people.
func shortForm(ref *plan.Reference) string {
	inside := path.Join(append(slices.Clone(ref.Path), ref.File)...)
	switch ref.Kind {
	case plan.RefGit:
		if inside == "" {
			return ref.URL + "@" + ref.Rev
		}
		return ref.URL + "/-/" + inside + "@" + ref.Rev
	case plan.RefOCI:
		return strings.TrimSpace(ref.Registry + "/" + ref.Repository + ":" + ref.Tag + " " + inside)
	default:
		return "builtin://" + inside
	}
}

// toReference converts a reference. An action becomes a call of the existing step-runner's action step, and changes the
// inputs with it.
func toReference(ref *plan.Reference, step *stepsv0.Step) *stepsv0.Step_Reference {
	out := &stepsv0.Step_Reference{Filename: cmp.Or(ref.File, plan.FallbackFile)}
	switch ref.Kind {
	case plan.RefLocal:
		out.Protocol = stepsv0.StepReferenceProtocol_local
	case plan.RefGit:
		out.Protocol, out.Url, out.Version = stepsv0.StepReferenceProtocol_git, ref.URL, ref.Rev
	case plan.RefOCI:
		out.Protocol = stepsv0.StepReferenceProtocol_oci
		out.Registry, out.Repository, out.Tag = ref.Registry, ref.Repository, ref.Tag
	case plan.RefArchive:
		out.Protocol, out.Url, out.Version = stepsv0.StepReferenceProtocol_zip, ref.URL, ref.SHA256
	case plan.RefBuiltin:
		out.Protocol = stepsv0.StepReferenceProtocol_dist
	case plan.RefDynamic:
		out.Protocol, out.Url, out.Filename = stepsv0.StepReferenceProtocol_dynamic, ref.Text, ""
		if ref.Expr != nil {
			out.Url = ref.Expr.Value.Text()
		}
	case plan.RefAction:
		out.Protocol, out.Url, out.Version = stepsv0.StepReferenceProtocol_git, actionURL, actionRev
		step.Inputs = actionCall(ref.Action, step)
	}
	if len(ref.Path) > 0 {
		out.StepPath = &stepsv0.Step_Reference_Paths{Paths: &stepsv0.PathParts{Parts: slices.Clone(ref.Path)}}
	}
	return out
}
