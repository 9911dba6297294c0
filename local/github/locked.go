package github

import (
	"context"
	"slices"
	"strings"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/diag"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
)

// Unlocked are the images of the jobs that a run with these options refuses, as far as their names are known before the first job runs:
// those of containers, services and actions, also in the workflows that are called. What a name comes to in the end is checked again when
// its job starts, and so are actions behind a condition.
func (p *Project) Unlocked(ctx context.Context, o RunOptions) diag.List {
	if !o.Locked {
		return nil
	}
	u := &unlocked{runner: p.runner(ctx, &o)}
	u.scope(p.root(o.Selection))
	return u.found
}

// unlocked collects images without a digest.
type unlocked struct {
	*runner
	found diag.List
}

func (u *unlocked) scope(s *scope) {
	for _, n := range s.nodes {
		runs, _, err := n.job.Runs(definition.Status{Results: n.before()}, n.contexts())
		if err == nil && !runs && !n.job.AsksForOutputs() {
			continue
		}
		legs, err := u.legs(n)
		if err != nil {
			continue // what it needs is not known yet, or it does not start and tells why
		}
		list := legs.list
		if s.caller == nil {
			list = u.o.Selection.legs(n.job, list)
		}
		for _, l := range list {
			l.node = n
			if l.call != nil {
				l.call.caller = l
				u.scope(l.call)
				continue
			}
			u.containers(l)
		}
		u.actions(n)
	}
}

// containers checks what a leg runs in, and its services. On this machine alone there are none.
func (u *unlocked) containers(l *leg) {
	if u.Isolation == local.IsolateNone || u.unfit(l) != "" {
		return
	}
	of := l.node.scope.Workflow
	if l.Container != nil {
		u.check(of, l.Container.Span, l.Container.Image, local.PinHint)
	} else if runner, _, _ := u.project.Runners.choose(l.RunsOn); runner.Image != "" {
		u.check(of, l.node.job.Span, runner.Image, local.PinHint+", or in "+store.Folder+"/"+RunnersFile)
	}
	for i := range l.Services {
		u.check(of, l.Services[i].Span, l.Services[i].Image, local.PinHint)
	}
}

// actions checks the actions of a job that are images, but for those behind a condition.
func (u *unlocked) actions(n *node) {
	for _, use := range n.job.Actions() {
		if image, is := strings.CutPrefix(use.Ref.Action, plan.ImagePrefix); is && !use.Conditional {
			u.check(n.scope.Workflow, use.Span, image, local.PinHint)
		}
	}
}

func (u *unlocked) check(of *definition.Workflow, at diag.Span, image, hint string) {
	message := local.Unlocked(image, image)
	if message == "" {
		return
	}
	if d := of.Diagnostic(at, hint, message); !slices.Contains(u.found, d) { // other legs have it too
		u.found = append(u.found, d)
	}
}
