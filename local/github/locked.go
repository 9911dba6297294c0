package github

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/executor/session"
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

// NeedsGit reports whether a job of the run is known to copy the project, for which git is asked what belongs to it: its actions/checkout has no
// condition. Workflows that are called are not looked into.
func (p *Project) NeedsGit(o RunOptions) bool {
	return !o.RealCheckout && slices.ContainsFunc(p.root(o.Selection).nodes, func(n *node) bool {
		return slices.ContainsFunc(n.job.Actions(), func(use definition.Use) bool {
			return !use.Conditional && strings.HasPrefix(use.Ref.Action, "actions/checkout@")
		})
	})
}

// Images are the images of the containers and services of all jobs, whether they would run or not, also in the workflows that are called, and
// those of .rung/runners.yml; actions are not among them. What a job gives to others, and what differs with the commit, is not known; unknown
// says of which jobs that leaves out all.
func (p *Project) Images(ctx context.Context) (all []local.Image, unknown diag.List) {
	fixed := *p
	fixed.github = maps.Clone(p.github)
	for _, name := range ofRun {
		fixed.github[name] = definition.Unknown
	}
	o := RunOptions{Options: local.Options{Observer: &local.Notes{}, Isolation: local.IsolateContainer}}
	u := &unlocked{runner: fixed.runner(ctx, &o), all: true}
	u.scope(fixed.root(nil))
	return u.images, u.found
}

// ofRun are the fields of the github context that differ from run to run.
var ofRun = []string{
	"actor", "actor_id", "base_ref", "event", "event_name", "head_ref", "ref", "ref_name", "ref_protected", "ref_type", "run_attempt", "run_id", "run_number", "sha", "triggering_actor",
	"workflow_ref", "workflow_sha",
}

// unlocked collects images: those without a digest, or with all, all that jobs name.
type unlocked struct {
	*runner
	all    bool
	images []local.Image
	found  diag.List
}

func (u *unlocked) scope(s *scope) {
	for _, n := range s.nodes {
		n.unknown = u.all
		runs, _, err := n.job.Runs(definition.Status{Results: n.before()}, n.contexts())
		if err == nil && !runs && !n.job.AsksForOutputs() && !u.all {
			continue
		}
		legs, err := u.legs(n)
		if err != nil {
			if u.all {
				u.found = append(u.found, s.Diagnostic(n.job.Span, "lock them by further arguments: docker://NAME",
					fmt.Sprintf("the images of the job %q cannot be locked: %s", n.job.ID, session.OneLine(err.Error()))))
			}
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
		if !u.all {
			u.actions(n)
		}
	}
}

// containers checks what a leg runs in, and its services. On this machine alone there are none.
func (u *unlocked) containers(l *leg) {
	if u.Isolation == local.IsolateNone || !u.all && u.unfit(l) != "" {
		return
	}
	if l.Container != nil {
		u.check(l.node, l.Container.Span, l.Container.Image, local.PinHint)
	} else {
		for _, image := range u.runnerImages(l.RunsOn) {
			u.check(l.node, l.node.job.Span, image, local.PinHint+", or in "+store.Folder+"/"+RunnersFile)
		}
	}
	for i := range l.Services {
		u.check(l.node, l.Services[i].Span, l.Services[i].Image, local.PinHint)
	}
}

// runnerImages are the images of the runner that a job asks for: of all that there are, if only a run knows which that is.
func (u *unlocked) runnerImages(on definition.RunsOn) (images []string) {
	if slices.ContainsFunc(on.Labels, definition.IsUnknown) {
		for _, label := range slices.Sorted(maps.Keys(u.project.Runners)) {
			images = append(images, u.project.Runners[label].Image)
		}
	} else {
		runner, _, _ := u.project.Runners.choose(on)
		images = append(images, runner.Image)
	}
	return slices.DeleteFunc(images, func(image string) bool { return image == "" })
}

// actions checks the actions of a job that are images, but for those behind a condition.
func (u *unlocked) actions(n *node) {
	for _, use := range n.job.Actions() {
		if image, is := strings.CutPrefix(use.Ref.Action, plan.ImagePrefix); is && !use.Conditional {
			u.check(n, use.Span, image, local.PinHint)
		}
	}
}

func (u *unlocked) check(n *node, at diag.Span, name, hint string) {
	image := local.Image{Written: name, Name: name, Varies: definition.IsUnknown(name), At: n.scope.Diagnostic(at, "", "")}
	if u.all {
		u.images = append(u.images, image)
		return
	}
	message := image.Unlocked(n.scope.lock)
	if message == "" {
		return
	}
	if d := n.scope.Diagnostic(at, hint, message); !slices.Contains(u.found, d) { // other legs have it too
		u.found = append(u.found, d)
	}
}
