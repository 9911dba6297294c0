package gitlab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// DefaultTimeout is that of a job which says nothing of it, as that of GitLab's projects.
const DefaultTimeout = time.Hour

// unit is what runs of a job.
func (r *runner) unit(j *pipeline.Job) *local.Unit {
	return &local.Unit{
		Admit: func(ctx context.Context) local.Admission { return r.admit(ctx, j) },
		Run:   func(ctx context.Context, slot int) local.Result { return r.run(ctx, j, slot) },
	}
}

// run runs one job, as often as it asks for.
func (r *runner) run(ctx context.Context, j *pipeline.Job, slot int) local.Result {
	vars, err := r.variables(j)
	if err != nil {
		return r.refused(j, asError(ctx, err))
	}
	began := time.Now()
	r.Observer.Started(j.Name)
	r.announce(j, vars)
	for attempts := 1; ; attempts++ {
		a := r.newAttempt(j, slot)
		last := r.Attempt(ctx, a)
		if last.Err == nil || ctx.Err() != nil || !retries(j.Keywords.Retry, attempts, last.Err, last.ExitCode) {
			return r.result(a, last, local.Result{Attempts: attempts, Duration: time.Since(began)})
		}
		r.Observer.Say(j.Name, fmt.Sprintf("attempt %d of %d failed (%s), trying again", attempts, j.Keywords.Retry.Max+1, last.Err.FailureReason()))
	}
}

// refused is the result of a job that cannot start. One that was asked for by its name has failed, even if it may: nothing of it ran.
func (r *runner) refused(j *pipeline.Job, err *event.Error) local.Result {
	status := local.Failed
	switch {
	case err.Kind == event.ErrorCancelled:
		status = local.Cancelled
	case j.AllowFailure.Always && !r.isNamed(j):
		status = local.Allowed
	}
	r.Refuse(j.Name, err)
	return local.Result{Status: status, Error: err, Note: session.OneLine(err.Error())}
}

// result makes the result of a job of how its last attempt ended, and records what is kept of it.
func (r *runner) result(a *attempt, last *local.Ended, out local.Result) local.Result {
	j := a.job
	out.Status, out.Error, out.ExitCode, out.Trace, out.Ignored = local.Success, last.Err, last.ExitCode, last.Trace, last.Ignored
	var notes []string
	if last.Err != nil {
		notes = append(notes, session.OneLine(last.Err.Error()))
		switch {
		case last.Err.Kind == event.ErrorCancelled:
			out.Status = local.Cancelled
		case allowed(j.AllowFailure, last.ExitCode) && (last.Outcome != nil || !r.isNamed(j)):
			out.Status = local.Allowed
		default:
			out.Status = local.Failed
		}
	}
	var left *store.Manifest
	if last.Outcome != nil {
		notes = append(notes, coverageOf(last.Outcome)...)
		if !last.Lost {
			left = a.manifest(last.Outcome)
		}
	}
	r.keep(j, left, out.Status)
	if a.vars != nil && a.layout.Project != "" {
		if note := r.deployed(j, a.vars, left, out.Status); note != "" {
			notes = append(notes, note)
		}
	}
	out.Note = strings.Join(notes, "; ")
	return out
}

// keep makes what a job left the artifacts that later jobs and runs get.
func (r *runner) keep(j *pipeline.Job, left *store.Manifest, status local.Status) {
	if left == nil {
		left = &store.Manifest{Job: j.Name, Run: r.ID}
	}
	left.Job, left.Run, left.Status, left.Finished = j.Name, r.ID, string(status), time.Now().UTC()
	left.Ref, left.SHA = r.project.Facts.Pipeline.Ref, r.project.Repository.SHA()
	left.Expires = expiry(j, left)
	if err := r.project.Store.Keep(left); err != nil {
		r.Observer.Warn(j.Name, fmt.Sprintf("cannot keep its artifacts: %v", err), "")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.manifest[j] = left
}

// expiry is when GitLab would remove what a job left; the zero Time is never, or when the settings of a project say, which are not here.
func expiry(j *pipeline.Job, left *store.Manifest) time.Time {
	a := j.Keywords.Artifacts
	if a == nil || left.Archive == "" && len(left.Reports) == 0 {
		return time.Time{}
	}
	after, err := keyword.ParseDuration(a.ExpireIn)
	if err != nil { // it says nothing, or never: all else was checked
		return time.Time{}
	}
	return left.Finished.Add(after)
}

// admit waits until a job may start, and says what it does that is not to run steps.
func (r *runner) admit(ctx context.Context, j *pipeline.Job) local.Admission {
	ended := func(result local.Result) local.Admission { return local.Admission{Done: &result} }
	vars, err := r.variables(j)
	if err != nil {
		return ended(r.refused(j, asError(ctx, err)))
	}
	release, refusal := r.wait(ctx, j, vars)
	if refusal != nil {
		return ended(r.refused(j, refusal))
	}
	out := local.Admission{}
	if text := r.mirrored(j); text != "" {
		if j.Keywords.Trigger == nil { // such a job has no script
			out.Done = &local.Result{Status: local.Success, Note: text}
		} else {
			r.Observer.Say(j.Name, text)
		}
	}
	if j.Keywords.Trigger != nil {
		out = trigger{r, j}.start(ctx)
	}
	out.Release = release
	return out
}

// wait waits until a job may start: its delay, and its resource group.
func (r *runner) wait(ctx context.Context, j *pipeline.Job, vars *variable.Collection) (release func(), refusal *event.Error) {
	if j.When == when.Delayed && j.StartIn > 0 {
		if err := r.delay(ctx, j); err != nil {
			return nil, asError(ctx, err)
		}
	}
	group := j.Keywords.ResourceGroup
	if group == "" {
		return nil, nil
	}
	name, err := variable.ExpandText(group, vars.Lookup)
	if err != nil {
		return nil, session.Problem(event.ErrorDefinition, "", "cannot expand its resource group: %v", err)
	}
	var began time.Time
	queued := event.Preparing{Phase: event.PhaseQueued, Subject: "resource group " + name}
	release, err = r.project.Store.Lock(ctx, name, func() {
		began = time.Now()
		r.Observer.Prepare(j.Name, queued)
	})
	if err != nil {
		return nil, asError(ctx, err)
	}
	if !began.IsZero() {
		queued.Done, queued.Duration = true, time.Since(began)
		r.Observer.Prepare(j.Name, queued)
	}
	return release, nil
}

// delay waits as long as a delayed job says, or says that nobody waits.
func (r *runner) delay(ctx context.Context, j *pipeline.Job) error {
	if !r.o.WaitDelayed {
		r.Observer.Say(j.Name, fmt.Sprintf("it would start in %s; it starts now; --wait-delayed waits", j.StartIn))
		return nil
	}
	r.Observer.Say(j.Name, fmt.Sprintf("it starts in %s", j.StartIn))
	timer := time.NewTimer(j.StartIn)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
