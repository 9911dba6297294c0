package gitlab

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/place"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// announce says what a job asks for that is something else on one machine than on GitLab.
func (r *runner) announce(j *pipeline.Job, vars *variable.Collection) {
	k := j.Keywords
	say := func(format string, args ...any) { r.Observer.Say(j.Name, fmt.Sprintf(format, args...)) }
	expand := r.expander(vars)
	if len(k.Tags) > 0 && r.Verbose {
		say("tags: %s: tags select no runner here; this machine runs the job", strings.Join(k.Tags, ", "))
	}
	if k.Confirmation != "" && j.When == when.Manual {
		say("manual_confirmation: GitLab would ask: %s", expand(k.Confirmation))
	}
	if j.Interruptible && r.Verbose {
		say("interruptible: GitLab would cancel the job when a newer commit is pushed; here, press Ctrl-C")
	}
	if a := k.Artifacts; a != nil && a.ExposeAs != "" {
		say("artifacts: expose_as: %q is shown in merge requests only", a.ExposeAs)
	}
	if a := k.Artifacts; a != nil && r.Verbose && (a.Access != "" || a.Public != nil) {
		say("artifacts: access rules apply on GitLab; here they are files in %s", store.Folder)
	}
	if p := k.Pages; p != nil && p.ExpireIn != "" {
		say("pages: expire_in: GitLab would remove them after %s; here they are kept", expand(p.ExpireIn))
	}
	if e := k.Environment; e != nil {
		if e.AutoStopIn != "" {
			say("environment: auto_stop_in: GitLab would stop it after %s; here it keeps running", expand(e.AutoStopIn))
		}
		name := expand(e.Name)
		say("environment: %s (%s); the deployment is recorded in %s and needs no approval", name, cmp.Or(e.Action, "start"), store.Folder)
		if e.Kubernetes.Exists() {
			say("environment: kubernetes: the agent is part of GitLab; the job has no cluster")
		}
	}
}

// expander expands texts of a job for messages, and hides masked values.
func (r *runner) expander(vars *variable.Collection) func(string) string {
	hide := session.Hiding(place.Masked(vars))
	return func(text string) string {
		out, err := variable.ExpandText(text, vars.Lookup)
		if err != nil {
			return text
		}
		return hide(out)
	}
}

// deployed records a deployment, and says where it is: its address may be in the dotenv report of the job itself, which left is of.
func (r *runner) deployed(j *pipeline.Job, vars *variable.Collection, left *store.Manifest, status local.Status) string {
	e := j.Keywords.Environment
	if e == nil || status == local.Cancelled {
		return ""
	}
	expand := r.expander(vars)
	if left != nil {
		reported, err := r.dotenvOf(j, j.Name, left)
		if err != nil {
			r.Observer.Warn(j.Name, err.Error(), "")
		}
		vars = vars.Clone()
		vars.Add(reported...)
	}
	address := r.expander(vars)(e.URL)
	d := store.Deployment{
		Environment: expand(e.Name), URL: address, Action: cmp.Or(e.Action, "start"), Job: j.Name, OnStop: e.OnStop,
		AutoStopIn: expand(e.AutoStopIn), Ref: r.project.Facts.Pipeline.Ref, SHA: r.project.Repository.SHA(), Status: string(status),
		Finished: time.Now().UTC(),
	}
	d.Tier = cmp.Or(e.DeploymentTier, repository.EnvironmentTier(d.Environment))
	if d.Action == "start" || d.Action == "stop" {
		if err := r.project.Store.Deployed(d); err != nil {
			r.Observer.Warn(j.Name, fmt.Sprintf("cannot record the deployment: %v", err), "")
		}
	}
	if status != local.Success && status != local.Allowed {
		return ""
	}
	note := "environment " + d.Environment
	if d.URL != "" {
		note += " " + d.URL
	}
	if d.OnStop != "" {
		note += fmt.Sprintf(" (--manual %q stops it)", d.OnStop)
	}
	return note
}
