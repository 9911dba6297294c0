package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// Event is something that happened, as far as filters look at it.
type Event struct {
	Name    string // "push", "pull_request", "workflow_dispatch", …
	Action  string // the type of activity: "opened"; empty where the event has none, or it is not known
	Ref     string // "refs/heads/main", "refs/tags/v1"
	BaseRef string // the branch that a pull request goes to, without refs/heads/
	// ChangedFiles are the files that the event changed, from the repository's root, with slashes. Nil is not known: filters of paths then
	// hold, as on GitHub where it cannot tell.
	ChangedFiles []string
	Schedule     string      // the cron line, of a schedule; empty is any
	Workflow     string      // the name of the workflow that ran, of workflow_run; empty is any
	Payload      value.Value // github.event
}

// Matches reports whether the event starts the workflow. The reason says which filter decided, for people: "the branch x is not among those
// of on.push.branches".
func (o *On) Matches(e Event) (matches bool, reason string) {
	i := slices.IndexFunc(o.events, func(f eventFilter) bool { return f.name == e.Name })
	if i < 0 {
		return false, fmt.Sprintf("the workflow runs on %s, not on %s", strings.Join(o.Names(), ", "), e.Name)
	}
	f := o.events[i]
	for _, check := range []func(Event) string{f.activity, f.workflow, o.scheduled, f.ref, f.paths, f.image} {
		if reason = check(e); reason != "" {
			return false, reason
		}
	}
	return true, "on." + e.Name
}

// The checks return why the event does not start the workflow, "" when it does.

func (f *eventFilter) activity(e Event) string {
	types := f.types
	if len(types) == 0 {
		types = strings.Fields(eventKinds[f.name].usual)
	}
	if len(types) == 0 || e.Action == "" || slices.Contains(types, e.Action) {
		return ""
	}
	return fmt.Sprintf("the activity %s is not among those of on.%s: %s", e.Action, f.name, strings.Join(types, ", "))
}

func (f *eventFilter) workflow(e Event) string {
	if len(f.workflows) == 0 || e.Workflow == "" || slices.Contains(f.workflows, e.Workflow) {
		return ""
	}
	return fmt.Sprintf("the workflow %s is not among those of on.%s.workflows", e.Workflow, f.name)
}

func (o *On) scheduled(e Event) string {
	if e.Name != "schedule" || e.Schedule == "" || slices.ContainsFunc(o.schedules, func(s Schedule) bool { return s.Cron == e.Schedule }) {
		return ""
	}
	return fmt.Sprintf("%s is not among the lines of on.schedule", e.Schedule)
}

// ref checks the branch, or tag, that the event is about.
func (f *eventFilter) ref(e Event) string {
	tag, isTag := strings.CutPrefix(e.Ref, "refs/tags/")
	branch := strings.TrimPrefix(e.Ref, "refs/heads/")
	if strings.HasPrefix(f.name, "pull_request") || f.name == "merge_group" && e.BaseRef != "" {
		branch, isTag = strings.TrimPrefix(e.BaseRef, "refs/heads/"), false
	}
	if isTag {
		return f.named(tag, "tag", "tags", "branches")
	}
	return f.named(branch, "branch", "branches", "tags")
}

// named checks a name against the filters of its kind. Where there are only filters of the other kind, it is not meant.
func (f *eventFilter) named(name, kind, key, other string) string {
	only, ignored := f.filters[key], f.filters[key+"-ignore"]
	switch {
	case len(only) > 0 && !picks(only, name):
		return fmt.Sprintf("the %s %s is not among those of on.%s.%s", kind, name, f.name, key)
	case len(ignored) > 0 && picks(ignored, name):
		return fmt.Sprintf("the %s %s is among those of on.%s.%s-ignore", kind, name, f.name, key)
	case len(only)+len(ignored) == 0 && len(f.filters[other])+len(f.filters[other+"-ignore"]) > 0:
		return fmt.Sprintf("on.%s has filters for %s only, and %s is a %s", f.name, other, name, kind)
	}
	return ""
}

// paths checks the changed files. Tags are not asked about theirs.
func (f *eventFilter) paths(e Event) string {
	if e.ChangedFiles == nil || strings.HasPrefix(e.Ref, "refs/tags/") {
		return ""
	}
	if only := f.filters["paths"]; len(only) > 0 && !slices.ContainsFunc(e.ChangedFiles, func(file string) bool { return picks(only, file) }) {
		return fmt.Sprintf("no changed file is among those of on.%s.paths", f.name)
	}
	ignored := f.filters["paths-ignore"]
	if len(ignored) > 0 && len(e.ChangedFiles) > 0 && !slices.ContainsFunc(e.ChangedFiles, func(file string) bool { return !picks(ignored, file) }) {
		return fmt.Sprintf("all changed files are among those of on.%s.paths-ignore", f.name)
	}
	return ""
}

// image checks the name and the version of an image, of image_version.
func (f *eventFilter) image(e Event) string {
	about := e.Payload.Fields()["image_version"].Fields()
	for _, key := range []string{"names", "versions"} {
		name := about[strings.TrimSuffix(key, "s")].Str()
		if only := f.filters[key]; len(only) > 0 && name != "" && !picks(only, name) {
			return fmt.Sprintf("%s is not among those of on.%s.%s", name, f.name, key)
		}
	}
	return ""
}
