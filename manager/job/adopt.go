package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/manager/joblog"
	"github.com/rungci/rung/manager/payload"
)

// Adopt goes on with a job that another process had, from what that process wrote down last. What cannot be gone on with fails, once.
func Adopt(ctx context.Context, kill *session.Kill, r Record, o Options) Ended {
	if r.Handle == nil && r.Final == nil { // nothing of it has run
		r.Runner.Attempt++
		if o.Level != nil {
			r.Level = o.Level.Level()
		}
	}
	p, wrong := payload.New(r.Payload, r.Runner)
	j := newJob(p, o)
	j.record = r
	ctx, end := j.within(ctx, kill)
	defer end()
	if err := j.open(); err != nil {
		return j.unlogged(ctx, err)
	}
	defer j.log.Close()
	if err := bringLog(j); err != nil {
		o.Note(err)
	}
	alive := j.send(ctx)
	switch {
	case o.Refused != nil:
		wrong = o.Refused
	case r.Handle != nil:
		var lost error
		j.env, lost = recoverFrom(j, *r.Handle) // whether or not it is to end: its after_script runs there
		wrong = errors.Join(wrong, lost)
	}
	if o.Adopted != nil {
		o.Adopted()
	}
	switch {
	case !alive:
		if j.env != nil {
			j.removed(session.End(ctx, j.env.Close))
		}
		if r.Final != nil { // GitLab has the end already, that the process before told it
			return j.forget(Ended{Final: *r.Final, Began: r.Began, Prepared: r.Prepared})
		}
		return j.forget(Ended{Gone: true})
	case r.Final != nil: // its log is whole
		return j.report()
	case r.Handle == nil && wrong == nil:
		j.record.Earlier = j.out.again(r.Log)
		if wrong = j.keep(); wrong == nil {
			wrong = j.run(ctx)
		}
	case wrong != nil:
		wrong = fmt.Errorf("the runner ended, and its successor cannot take over the job: %w", wrong)
	default:
		wrong = j.resume(ctx)
	}
	if wrong != nil && j.end == nil {
		j.out.lost(r.Log)
		j.fail(ctx, wrong)
	}
	return j.finish(ctx)
}

// bringLog makes the log of a job of another host what the record has of it. What is not in the record is shown again from the job's events, which give the same bytes.
func bringLog(j *job) error {
	switch r := &j.record; {
	case !j.o.Elsewhere:
		return nil
	case r.Rest != nil && j.log.Size() < r.Rest.Size(): // this host may have had the job before, and not to its end
		return j.log.Bring(*r.Rest)
	case j.log.Size() > 0:
		return nil
	case r.Earlier > 0: // GitLab has it, as no attempt begins before
		return j.log.Bring(joblog.Rest{Offset: r.Earlier})
	}
	return nil
}

// PlaceTime is how long the place of an adopted job may be out of reach: an engine that was restarted with this process needs a moment, as does the
// environment of a process that has just died.
const PlaceTime = time.Minute

// Patiently tries to reach the place of an adopted job until it is reached, is gone for good, or PlaceTime is over. Tell is told why it is tried again.
func Patiently[T any](ctx context.Context, tell func(error), try func() (T, error)) (T, error) {
	for began, told := time.Now(), false; ; {
		got, err := try()
		if err == nil || errors.Is(err, executor.ErrGone) || time.Since(began) > PlaceTime {
			return got, err
		}
		if !told && !errors.Is(err, executor.ErrOwned) {
			tell(fmt.Errorf("an adopted job is not reached yet, and is tried again for %s: %w", PlaceTime, err))
			told = true
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// resume follows the run of an environment that was taken over, or starts it, if that was not yet done. All events of a run are read again, and the
// log goes on where it ended.
func (j *job) resume(ctx context.Context) error {
	compiled, err := j.compiled(ctx)
	if err != nil {
		return err
	}
	for _, e := range j.record.Before {
		j.out.Event(e)
	}
	begun, err := begun(j)
	if err != nil {
		return err
	}
	if !begun {
		if err := j.bring(ctx, compiled); err != nil {
			return err
		}
		return j.steps(ctx, compiled)
	}
	j.admit(compiled)
	outcome := &session.Outcome{}
	err = session.Resume(ctx, j.kill, j.env, session.Position{
		ID: j.EnvironmentID(), Timeout: max(time.Until(j.deadline()), time.Second), Grace: j.o.Grace,
	}, j.listen(outcome))
	return j.ended(ctx, outcome, compiled, err)
}

// takeover bounds how long it takes to take over an environment, or to ask it for the job's run.
const takeover = 2 * time.Minute

// recoverFrom takes over an environment.
func recoverFrom(j *job, handle executor.Handle) (executor.Environment, error) {
	ctx, end := context.WithTimeout(j.life, takeover)
	defer end()
	return Patiently(ctx, j.o.Note, func() (executor.Environment, error) { return j.o.Level.Recover(ctx, handle) })
}

// begun reports whether the job's run has begun in its environment.
func begun(j *job) (bool, error) {
	ctx, end := context.WithTimeout(j.life, takeover)
	defer end()
	return session.Knows(ctx, j.env, j.EnvironmentID())
}
