package step

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/plan"
)

// usesHint says what uses can hold.
const usesHint = "write owner/repository@version, owner/repository/folder@version, ./folder, $/folder or docker://image"

func (r *Reader) uses(s *plan.Step, n, uses *yamlsource.Node) {
	with := map[string]plan.Field(nil)
	if node := n.Get("with"); node != nil {
		with = r.Fields(node, `"with"`, "the input ", r.contexts())
	}
	text, ok := r.Filled(uses, `"uses"`)
	if !ok {
		return
	}
	if HasExpression(text) {
		r.Report(uses.Span, "write the action out", `"uses" cannot hold expressions`)
		return
	}
	action, err := plan.ParseAction(text)
	switch {
	case err != nil:
		r.Report(uses.Span, usesHint, "%q is not an action: %v", Shorten(text), err)
	case action.Folder != "" && !action.Own && !strings.HasPrefix(text, "./"):
		r.Report(uses.Span, "write ./ and the folder as the work directory has it", "%q is not an action: local ones begin with ./", Shorten(text))
	default:
		s.Ref = &plan.Reference{Kind: plan.RefAction, Text: text, Action: text, Span: uses.Span}
		if rest, local := strings.CutPrefix(text, "./"); local { // GitHub finds local ones from the workspace, whoever uses them
			s.Ref.Action = plan.WorkDirPrefix + rest
		}
		s.Inputs = with
	}
	s.Title = text
}

// DockerExec makes the process of an action that is a container. The program docker/action takes
//
//	--image NAME | --dockerfile FILE   what to run; the folder of FILE is what it is built from
//	--entrypoint PROGRAM               in the place of the image's own; empty is that
//	--env NAME=VALUE                   a variable of the container; may be repeated
//	--args TEXT                        arguments in one text, as `with.args` has them, if none follow --
//	-- ARG…                            arguments as they are
//
// and gives the container its own environment besides, but for what belongs to this machine.
func DockerExec(options []plan.Field) *plan.Exec {
	command := []plan.Field{text("step-runner"), text("builtin"), text("docker/action")}
	return &plan.Exec{Command: append(command, options...), Toolkit: plan.ToolkitGitHubAction}
}

// InputPrefix begins the variables that an action finds its inputs in.
const InputPrefix = "INPUT_"
