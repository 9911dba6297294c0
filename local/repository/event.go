package repository

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Event is what would have started the pipeline. The zero Event is a push of the branch that is checked out.
type Event struct {
	// Source is push, merge_request, schedule, tag, web, api, trigger, pipeline or parent_pipeline, or a value of
	// CI_PIPELINE_SOURCE; "" is push.
	Source string
	// Ref is the branch that the pipeline runs for, and the source branch of a merge request; "" is the one that is checked out.
	Ref string
	// Tag makes it a pipeline for a tag. For the source tag, "" is the one that the commit has.
	Tag string
	// TargetBranch is that of a merge request; "" is the default branch.
	TargetBranch string
	// Since is the commit that changes are counted from, any name that Git knows; "" is what GitLab would take.
	Since string
	// Title is that of the merge request; "" is the commit's.
	Title string
	// Schedule is the description of the schedule.
	Schedule string
	// ConfigPath is the file that the pipeline is defined in, from the root; "" is .gitlab-ci.yml.
	ConfigPath string
	// PipelineID is CI_PIPELINE_ID; 0 is 1.
	PipelineID int
	// Time is when the pipeline was made; the zero Time is now.
	Time time.Time
	// Token is CI_JOB_TOKEN; "" is one that nobody knows, and that opens nothing.
	Token string
}

// Sources are the names that an Event's Source can have, without those that only GitLab has.
var Sources = []string{"push", "merge_request", "schedule", "tag", "web", "api", "trigger", "pipeline", "parent_pipeline"}

// gitLabSources are further values of CI_PIPELINE_SOURCE.
var gitLabSources = []string{"merge_request_event", "webide", "chat", "external"}

// Facts are what is known of one pipeline. They do not change; their methods are safe for concurrent use.
type Facts struct {
	// Pipeline is what `only` and `except` ask about.
	Pipeline when.Pipeline
	// Variables are the predefined ones that exist before there are jobs: rules and includes see them.
	Variables []variable.Variable
	// Base is the commit that changes are counted from; "" where GitLab has none, and says that everything changed.
	Base string
	// BaseWhy says for people which commit that is, or why there is none.
	BaseWhy string
	// Token is CI_JOB_TOKEN, a secret.
	Token string
	// PipelineID is CI_PIPELINE_ID.
	PipelineID int
	// Notes say what was assumed, a sentence each, without a stop.
	Notes []string
	// ProjectFiles lists the files of other projects, for rules:exists:project; ref is "" for the default branch. Nil makes such
	// rules an error.
	ProjectFiles func(ctx context.Context, project, ref string) ([]string, error)

	repository *Repository
	event      Event
	protected  bool
	parent     *Facts // of a child pipeline
}

// Facts says what the pipeline is that an event would start. The error says what is wrong with the event, or is that of ctx.
func (r *Repository) Facts(ctx context.Context, e Event) (*Facts, error) {
	f := &Facts{repository: r, event: e, Token: e.Token, PipelineID: max(e.PipelineID, 1)}
	if f.event.Time.IsZero() {
		f.event.Time = time.Now()
	}
	if f.Token == "" {
		f.Token = newToken()
	}
	f.Pipeline = when.Pipeline{Kind: when.Branch, Source: orElse(e.Source, "push"), Project: string(r.Project)}
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	if err := f.compare(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.Variables = f.predefined(ctx)
	return f, nil
}

// tokenPrefix begins the tokens of jobs, by which they are known and masked.
const tokenPrefix = "glcbt-"

func newToken() string {
	var b [20]byte
	rand.Read(b[:])
	return tokenPrefix + "local-" + hex.EncodeToString(b[:])
}

// start finds out what kind of pipeline it is, and its ref.
func (f *Facts) start(ctx context.Context) error {
	p, e := &f.Pipeline, &f.event
	switch p.Source {
	case "merge_request", "merge_request_event":
		p.Kind, p.Source = when.MergeRequest, "merge_request_event"
		if e.Tag != "" {
			return fmt.Errorf("a merge request has no tag: use either --event %s or a tag", "merge_request")
		}
	case "tag":
		p.Source = "push"
		if e.Tag == "" {
			if e.Tag = f.repository.Tag(); e.Tag == "" {
				return fmt.Errorf("the checked-out commit has no tag, so there is no event %q: create one with git tag NAME, or name a tag to assume", "tag")
			}
		}
	default:
		if !slices.Contains(Sources, p.Source) && !slices.Contains(gitLabSources, p.Source) {
			return fmt.Errorf("unknown event %q: it must be one of %s", p.Source, strings.Join(Sources, ", "))
		}
	}
	if e.Tag != "" {
		p.Kind, p.Ref = when.Tag, e.Tag
		if !slices.Contains(f.repository.Tags, e.Tag) {
			f.note(fmt.Sprintf("assuming that the tag %s points to the checked-out commit", e.Tag))
		}
		return nil
	}
	p.Ref = orElse(e.Ref, f.repository.Branch)
	if p.Ref == "" {
		p.Ref = f.detached(ctx)
	}
	f.protected = f.repository.Protected(p.Ref)
	if p.Kind == when.MergeRequest {
		e.TargetBranch = orElse(e.TargetBranch, f.repository.DefaultBranch)
		if e.TargetBranch == p.Ref {
			f.note(fmt.Sprintf("the merge request would be from %s to itself: check out a branch or choose another target", p.Ref))
		}
	}
	return nil
}

// detached finds a branch for a HEAD that is on none: one that is at the same commit.
func (f *Facts) detached(ctx context.Context) string {
	r := f.repository
	var found []string
	if r.Commit != nil {
		list, _ := r.question(ctx, "for-each-ref", "--points-at=HEAD", "--format=%(refname)", "refs/heads", "refs/remotes/"+orElse(r.Remote, "origin"))
		for _, name := range strings.Fields(list) {
			branch := strings.TrimPrefix(strings.TrimPrefix(name, "refs/heads/"), "refs/remotes/"+r.Remote+"/")
			if branch != "HEAD" && !slices.Contains(found, branch) {
				found = append(found, branch)
			}
		}
	}
	switch {
	case slices.Contains(found, r.DefaultBranch):
		f.note("HEAD is detached, at the same commit as " + r.DefaultBranch + ": the pipeline runs for that branch")
		return r.DefaultBranch
	case len(found) == 1:
		f.note("HEAD is detached, at the same commit as " + found[0] + ": the pipeline runs for that branch")
		return found[0]
	}
	f.note("HEAD is detached: the pipeline runs for a branch named HEAD")
	return "HEAD"
}

func (f *Facts) note(text string) { f.Notes = append(f.Notes, text) }

// compare finds the commit that changes are counted from.
func (f *Facts) compare(ctx context.Context) error {
	r := f.repository
	switch {
	case f.event.Since != "":
		commit, err := r.resolve(ctx, f.event.Since)
		if err != nil {
			return err
		}
		f.Base, f.BaseWhy = commit, "since "+f.event.Since
	case !r.Git || r.Commit == nil:
		f.BaseWhy = "there is no commit to compare with"
	case f.Pipeline.Kind == when.Tag:
		f.BaseWhy = "pipelines for tags have nothing to compare with"
	case f.Pipeline.Kind == when.MergeRequest:
		return f.compareTarget(ctx)
	case f.Pipeline.Source == "push":
		return f.comparePushed(ctx)
	default:
		f.BaseWhy = fmt.Sprintf("pipelines started by %s have nothing to compare with", f.Pipeline.Source)
	}
	return nil
}

// compareTarget compares with where a merge request's branch left its target.
func (f *Facts) compareTarget(ctx context.Context) error {
	target := f.event.TargetBranch
	commit, err := f.repository.branch(ctx, target)
	if err != nil {
		return err
	}
	if commit == "" {
		f.BaseWhy = fmt.Sprintf("the target branch %s is not in this repository", target)
		f.note(f.BaseWhy + ": `changes` counts as true (run git fetch)")
		return nil
	}
	base, err := f.repository.question(ctx, "merge-base", "HEAD", commit)
	if err != nil {
		return err
	}
	if base == "" {
		f.BaseWhy = fmt.Sprintf("the branch has no known common ancestor with %s", target)
		f.note(f.BaseWhy + ": `changes` counts as true")
		return nil
	}
	f.Base, f.BaseWhy = base, "since it left "+target
	return nil
}

// comparePushed compares with what was pushed before. What is not yet pushed is the push; where everything is, the last commit was.
func (f *Facts) comparePushed(ctx context.Context) error {
	r := f.repository
	pushed := ""
	if r.upstream && r.Branch == f.Pipeline.Ref {
		var err error
		if pushed, err = r.question(ctx, "merge-base", "HEAD", "@{upstream}"); err != nil {
			return err
		}
	}
	switch {
	case pushed != "" && pushed != r.Commit.SHA:
		f.Base, f.BaseWhy = pushed, "since the last push"
	case pushed == "" && !r.Protected(f.Pipeline.Ref):
		f.BaseWhy = fmt.Sprintf("the branch %s has not been pushed, and the first pipeline of a branch has nothing to compare with", f.Pipeline.Ref)
	case r.Commit.Parent == "":
		f.BaseWhy = "there is no commit before this one"
	default:
		f.Base, f.BaseWhy = r.Commit.Parent, "since the commit before"
	}
	return nil
}

// Child returns the facts of a child pipeline that a job of this one triggers.
func (f *Facts) Child(ctx context.Context, pipelineID int, configPath string) *Facts {
	child := *f
	child.parent, child.PipelineID = f, pipelineID
	child.Pipeline.Source = "parent_pipeline"
	child.event.ConfigPath = configPath
	child.Variables = child.predefined(ctx)
	return &child
}
