package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/diag"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// Event is what starts a workflow. The zero Event is a push of the branch that is checked out.
type Event struct {
	// Name is GitHub's name of the event; "" is push, and "tag" a push of a tag.
	Name string
	// File holds a payload in JSON: what it says is taken over what is made of the repository. "" is none.
	File string
	// Branch is the branch that it is about, and the head of a pull request; "" is the one that is checked out.
	Branch string
	// Tag makes it an event of a tag.
	Tag string
	// Target is the base branch of a pull request; "" is the default branch.
	Target string
	// Since is the commit that changes are counted from; "" is what GitHub would take.
	Since string
	// Inputs are those of workflow_dispatch and workflow_call, as text.
	Inputs map[string]string
}

// EventError says that there is no such event as was asked for.
type EventError struct {
	Message string
	Hint    string
}

func (e *EventError) Error() string { return e.Message }

// Names of events that mean something here.
const (
	push            = "push"
	pullRequest     = "pull_request"
	pullRequestBase = "pull_request_target"
	dispatch        = "workflow_dispatch"
	call            = "workflow_call"
	timer           = "schedule"
	release         = "release"
	tagPush         = "tag" // ours, for a push of one
)

// events are all that start workflows.
var events = []string{
	push, pullRequest, pullRequestBase, dispatch, call, timer, "branch_protection_rule", "check_run", "check_suite", "create", "delete",
	"deployment", "deployment_status", "discussion", "discussion_comment", "fork", "gollum", "image_version", "issue_comment", "issues", "label",
	"merge_group", "milestone", "page_build", "public", "pull_request_review", "pull_request_review_comment", "registry_package", "release",
	"repository_dispatch", "status", "watch", "workflow_run",
}

// maxPayload bounds the file of a payload, in bytes.
const maxPayload = 25 << 20

// facts are what is known of the event and its repository.
type facts struct {
	name       string // of the event
	repository *repository.Repository
	base       string // the commit that changes are counted from; "" is none
	baseRef    string // the target branch of a pull request
	headRef    string // its own
	ref        string // refs/heads/main
	sha        string
	payload    value.Value
	notes      []string
}

// openFacts finds out what the event is. What the workflow adds to a payload stands in also.
func openFacts(ctx context.Context, r *repository.Repository, e Event, also object) (*facts, error) {
	f := &facts{name: e.Name, repository: r, sha: r.SHA()}
	switch {
	case f.name == "":
		f.name = push
	case f.name == tagPush, f.name == release:
		if e.Tag == "" {
			if e.Tag = r.Tag(); e.Tag == "" {
				return nil, &EventError{fmt.Sprintf("the checked-out commit has no tag, so there is no event %q", f.name), "create one with git tag NAME, or pass --tag NAME"}
			}
		}
		if f.name == tagPush {
			f.name = push
		}
	case f.name == "merge_request":
		return nil, &EventError{`GitHub has no event "merge_request"`, "GitHub calls it pull_request"}
	case !slices.Contains(events, f.name):
		hint := "GitHub's documentation lists the events that trigger workflows"
		if like := diag.Suggest(f.name, events); like != "" {
			hint = fmt.Sprintf("did you mean %q?", like)
		}
		return nil, &EventError{fmt.Sprintf("there is no event %q", f.name), hint}
	}
	given, err := readPayload(r.Root, e.File)
	if err != nil {
		return nil, err
	}
	if err := f.compare(ctx, e); err != nil {
		return nil, &EventError{Message: err.Error()}
	}
	made, err := f.made(ctx, also)
	if err != nil {
		return nil, err
	}
	f.payload = over(made, given)
	f.fromPayload(given)
	return f, nil
}

// readPayload reads the file of a payload; the value is null where there is none. It may be a pipe, <(gh api …), but for one of the project.
func readPayload(root, file string) (value.Value, error) {
	if file == "" {
		return value.Value{}, nil
	}
	text, err := projectfile.ReadPath(root, file, maxPayload)
	var refused *projectfile.Error
	switch {
	case errors.As(err, &refused) && refused.Err == nil:
		return value.Value{}, &EventError{Message: "--event-file: " + err.Error()}
	case err != nil:
		return value.Value{}, fmt.Errorf("--event-file: %w", err)
	}
	v, err := value.ParseJSON(text)
	if err == nil && v.Kind() != value.Struct {
		err = fmt.Errorf("it holds %s", v.Kind().WithArticle())
	}
	if err != nil {
		return value.Value{}, &EventError{fmt.Sprintf("--event-file: %s is not a payload: %v", file, err), "a payload is a JSON object"}
	}
	return v, nil
}

// over lays one value over another: structs field by field, all else whole.
func over(below, above value.Value) value.Value {
	if above.IsNull() && below.Kind() == value.Struct {
		return below
	}
	if below.Kind() != value.Struct || above.Kind() != value.Struct {
		return above
	}
	fields := make(map[string]value.Value, len(below.Fields()))
	for name, v := range below.Fields() {
		fields[name] = v
	}
	for name, v := range above.Fields() {
		if old, there := fields[name]; there && !v.IsNull() {
			v = over(old, v)
		}
		fields[name] = v
	}
	return value.OfStruct(fields)
}

// compare finds the ref, and the commit that changes are counted from.
func (f *facts) compare(ctx context.Context, e Event) error {
	source := map[string]string{push: "push", pullRequest: "merge_request", pullRequestBase: "merge_request", timer: "schedule", dispatch: "web"}[f.name]
	if source == "" {
		source = "api"
	}
	known, err := f.repository.Facts(ctx, repository.Event{Source: source, Ref: e.Branch, Tag: e.Tag, TargetBranch: e.Target, Since: e.Since})
	if err != nil {
		return err
	}
	f.base, f.notes = known.Base, known.Notes
	branch := known.Pipeline.Ref
	f.ref = "refs/heads/" + branch
	switch {
	case e.Tag != "":
		f.ref = "refs/tags/" + e.Tag
	case source == "merge_request":
		f.headRef, f.baseRef = branch, e.Target
		if f.baseRef == "" {
			f.baseRef = f.repository.DefaultBranch
		}
		f.ref = "refs/pull/1/merge"
		if f.name == pullRequestBase {
			f.ref = "refs/heads/" + f.baseRef
		}
	}
	return nil
}

// fromPayload takes over what somebody's payload says of the ref and the commit.
func (f *facts) fromPayload(given value.Value) {
	if given.IsNull() {
		return
	}
	text := func(path ...string) string {
		v := given
		for _, name := range path {
			v = v.Fields()[name]
		}
		return v.Str()
	}
	set := func(to *string, text string) {
		if text != "" {
			*to = text
		}
	}
	switch f.name {
	case push:
		set(&f.ref, text("ref"))
		set(&f.sha, text("after"))
		set(&f.base, text("before"))
		if strings.Trim(f.base, "0") == "" {
			f.base = ""
		}
	case pullRequest, pullRequestBase:
		set(&f.headRef, text("pull_request", "head", "ref"))
		set(&f.baseRef, text("pull_request", "base", "ref"))
		set(&f.base, text("pull_request", "base", "sha"))
		if f.name == pullRequestBase {
			f.ref = "refs/heads/" + f.baseRef
			return
		}
		set(&f.sha, text("pull_request", "head", "sha"))
		number := f.payload.Fields()["number"]
		if n := given.Fields()["pull_request"].Fields()["number"]; !n.IsNull() {
			number = n
		}
		f.ref = "refs/pull/" + number.Text() + "/merge"
	case dispatch:
		set(&f.ref, text("ref"))
	case release:
		if tag := text("release", "tag_name"); tag != "" {
			f.ref = "refs/tags/" + tag
		}
	}
}

// changed are the files that the event changed; nil where that is not known.
func (f *facts) changed(ctx context.Context) []string {
	if f.base == "" {
		return nil
	}
	files, err := f.repository.Changed(ctx, f.base)
	if err != nil {
		f.notes = append(f.notes, "the changed files are unknown, so path filters match: "+err.Error())
		return nil
	}
	if files == nil {
		files = []string{}
	}
	return files
}

// filtered is the event as the filters of `on` see it.
func (f *facts) filtered(ctx context.Context, withFiles bool) definition.Event {
	e := definition.Event{Name: f.name, Ref: f.ref, BaseRef: f.baseRef, Payload: f.payload}
	e.Action = f.payload.Fields()["action"].Str()
	e.Workflow = f.payload.Fields()["workflow_run"].Fields()["name"].Str()
	e.Schedule = f.payload.Fields()["schedule"].Str()
	if withFiles {
		e.ChangedFiles = f.changed(ctx)
	}
	return e
}
