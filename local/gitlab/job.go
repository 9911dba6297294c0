package gitlab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// DefaultTimeout is that of a job which says nothing of it, as that of GitLab's projects.
const DefaultTimeout = time.Hour

// outcome is how one attempt of a job ended.
type outcome struct {
	err      *event.Error // nil when it succeeded
	exitCode *int
	// notes are what came of it that a person wants to know.
	notes []string
	// left is what it left for other jobs, nil when that is nothing.
	left  *store.Manifest
	trace string
	// vars are the job's variables as the attempt had them; nil when it did not come so far.
	vars *variable.Collection
}

func failed(err *event.Error) outcome { return outcome{err: err} }

// job runs one job, as often as it asks for.
func (r *runner) job(ctx context.Context, j *pipeline.Job) Result {
	vars, err := r.variables(j)
	if err != nil {
		return r.refused(j, asError(ctx, err))
	}
	release, refusal := r.admit(ctx, j, vars)
	if refusal != nil {
		return r.refused(j, refusal)
	}
	defer release()
	if text := r.mirrored(j); text != "" {
		if j.Keywords.Trigger == nil { // such a job has no script
			return Result{Status: Success, Note: text}
		}
		r.o.Observer.Say(j.Name, text)
	}
	if j.Keywords.Trigger != nil {
		return r.trigger(ctx, j)
	}
	var slot int
	select {
	case slot = <-r.slots:
	case <-ctx.Done():
		return Result{Status: Cancelled, Note: context.Cause(ctx).Error()}
	}
	defer func() { r.slots <- slot }()
	if ctx.Err() != nil {
		return Result{Status: Cancelled, Note: context.Cause(ctx).Error()}
	}
	began := time.Now()
	r.o.Observer.Started(j.Name)
	r.announce(j, vars)
	var last outcome
	attempts := 0
	for {
		attempts++
		last = r.attempt(ctx, j, slot, attempts)
		if last.err == nil || ctx.Err() != nil || !retries(j.Keywords.Retry, attempts, last.err, last.exitCode) {
			break
		}
		r.o.Observer.Say(j.Name, fmt.Sprintf("attempt %d of %d failed (%s), trying again", attempts, j.Keywords.Retry.Max+1, failureReason(last.err)))
	}
	return r.result(j, last, attempts, time.Since(began))
}

// refused is the result of a job that cannot start. One that was asked for by its name has failed, even if it may: nothing of it ran.
func (r *runner) refused(j *pipeline.Job, err *event.Error) Result {
	status := Failed
	switch {
	case err.Kind == event.ErrorCancelled:
		status = Cancelled
	case j.AllowFailure.Always && !r.isNamed(j):
		status = Allowed
	}
	for _, d := range err.Diagnostics {
		r.o.Observer.Warn(j.Name, d.Error(), d.Hint)
	}
	if status != Cancelled && err.Diagnostics == nil {
		r.o.Observer.Warn(j.Name, "the job does not start: "+err.Message, err.Hint)
	}
	return Result{Status: status, Error: err, Note: session.OneLine(err.Message)}
}

// result makes the result of a job of how its last attempt ended, and records what is kept of it.
func (r *runner) result(j *pipeline.Job, last outcome, attempts int, took time.Duration) Result {
	out := Result{Status: Success, Error: last.err, ExitCode: last.exitCode, Duration: took, Attempts: attempts, Trace: last.trace}
	if last.err != nil {
		switch {
		case last.err.Kind == event.ErrorCancelled:
			out.Status = Cancelled
		case allowed(j.AllowFailure, last.exitCode) && (last.trace != "" || !r.isNamed(j)):
			out.Status = Allowed
		default:
			out.Status = Failed
		}
		if last.trace == "" && out.Status != Cancelled { // its steps have not said it
			r.o.Observer.Warn(j.Name, "the job does not start: "+last.err.Message, last.err.Hint)
		}
		last.notes = append([]string{session.OneLine(last.err.Message)}, last.notes...)
	}
	out.Note = strings.Join(last.notes, "; ")
	r.keep(j, last.left, out.Status)
	if last.vars != nil {
		if note := r.deployed(j, last.vars, out.Status); note != "" {
			out.Note = strings.TrimPrefix(out.Note+"; "+note, "; ")
		}
	}
	return out
}

// keep makes what a job left the artifacts that later jobs and runs get.
func (r *runner) keep(j *pipeline.Job, left *store.Manifest, status Status) {
	if left == nil {
		left = &store.Manifest{Job: j.Name, Run: r.id}
	}
	left.Job, left.Run, left.Status, left.Finished = j.Name, r.id, string(status), time.Now().UTC()
	left.Ref, left.SHA = r.project.Facts.Pipeline.Ref, r.project.Repository.SHA()
	left.Expires = expiry(j, left)
	if err := r.project.Store.Keep(left); err != nil {
		r.o.Observer.Warn(j.Name, fmt.Sprintf("its artifacts are not kept: %v", err), "")
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

// admit waits until a job may start: its delay, and its resource group.
func (r *runner) admit(ctx context.Context, j *pipeline.Job, vars *variable.Collection) (release func(), refusal *event.Error) {
	if j.When == when.Delayed && j.StartIn > 0 {
		if err := r.delay(ctx, j); err != nil {
			return nil, asError(ctx, err)
		}
	}
	group := j.Keywords.ResourceGroup
	if group == "" {
		return func() {}, nil
	}
	name, err := variable.ExpandText(group, vars.Lookup)
	if err != nil {
		return nil, session.Problem(event.ErrorDefinition, "", "its resource group cannot be expanded: %v", err)
	}
	release, err = r.project.Store.Lock(ctx, name, func() {
		r.o.Observer.Say(j.Name, "waiting for the resource group "+name)
	})
	if err != nil {
		return nil, asError(ctx, err)
	}
	return release, nil
}

// delay waits as long as a delayed job says, or says that nobody waits.
func (r *runner) delay(ctx context.Context, j *pipeline.Job) error {
	if !r.o.WaitDelayed {
		r.o.Observer.Say(j.Name, fmt.Sprintf("it would start in %s; it starts now, as --wait-delayed is not given", j.StartIn))
		return nil
	}
	r.o.Observer.Say(j.Name, fmt.Sprintf("it starts in %s", j.StartIn))
	timer := time.NewTimer(j.StartIn)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
