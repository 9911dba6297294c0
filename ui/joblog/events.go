package joblog

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
)

// event renders one event.
func (r *Renderer) event(e event.Event) {
	at := e.Time
	switch b := e.Body.(type) {
	case event.Preparing:
		r.preparing(at, b)
	case event.RunStarted:
		r.started(at, b)
	case event.StepStarted:
		r.endPreparation(at)
		r.begin(at, e.Step, b)
	case event.Log:
		r.endPreparation(at)
		r.log(at, e.Step, b)
	case event.StepFinished:
		r.end(at, e.Step, b)
	case event.StepSkipped:
		r.skipped(at, e.Step, b)
	case event.StepRetrying:
		s := r.shown(e.Step)
		r.quiet(s)
		what := ""
		if b.Error != nil {
			what = ": " + plain(b.Error.Message)
		}
		r.warn(at, s, "attempt %d of %d failed%s", b.Attempt, b.Max, what)
	case event.Warning:
		r.warn(at, nil, "%s", plain(b.Message))
	case event.Stopping:
		r.stopping(at, b)
	case event.RunFinished:
		r.finished(at, b)
	}
	// What is left out: StepResolved, StepInputs, ExecStarted, ExecFinished, Progress, Annotation (the output says it), Summary, Subjects,
	// Masked (see the package's comment), Paused and Resumed (a debugger's).
}

// runnerLine says which program this is.
func (r *Renderer) runnerLine(at time.Time, fallback string) {
	if r.introduced {
		return
	}
	r.introduced = true
	name := r.opts.Runner
	if name == "" {
		name = fallback
	}
	first, rest, _ := strings.Cut(name, "\n")
	r.say(at, "Running with "+plain(first)+"\n")
	if rest != "" {
		r.say(at, "  "+plain(strings.TrimSpace(rest))+"\n")
	}
}

// preparing shows what is made for the job, a line for every part that is done.
func (r *Renderer) preparing(at time.Time, b event.Preparing) {
	if !r.prepare {
		r.runnerLine(at, "step-runner")
		r.prepare = true
		r.openSection(at, &step{path: "prepare"}, "prepare_executor", "Preparing the environment", r.opts.CollapseSetup)
	}
	if b.Message != "" {
		r.say(at, plain(b.Message)+"\n")
	}
	if !b.Done {
		return
	}
	text := strings.TrimSpace(string(b.Phase) + " " + plain(b.Subject))
	if b.Total > 0 || b.Current > 0 {
		text += fmt.Sprintf(", %d %s", max(b.Total, b.Current), plain(b.Unit))
	}
	r.say(at, fmt.Sprintf("%s: %s\n", text, b.Duration.Round(time.Millisecond)))
}

// endPreparation ends the section of the preparation.
func (r *Renderer) endPreparation(at time.Time) {
	if r.prepare {
		r.closeAll(at, "prepare")
		r.prepare = false
	}
}

// started shows what the run is and where it is.
func (r *Renderer) started(at time.Time, b event.RunStarted) {
	r.runnerLine(at, fmt.Sprintf("step-runner %s (%s/%s)", plain(b.Runtime.Version), plain(b.Runtime.OS), plain(b.Runtime.Arch)))
	env := b.Environment
	if env == nil {
		r.endPreparation(at)
		return
	}
	if !r.prepare {
		r.prepare = true
		r.openSection(at, &step{path: "prepare"}, "prepare_executor", "Preparing the environment", r.opts.CollapseSetup)
	}
	r.say(at, "Isolation: "+plain(env.Level)+"\n")
	if env.Image != nil {
		r.say(at, image("Using image", *env.Image))
	}
	for _, s := range env.Services {
		r.say(at, image("Using service", s.Made()))
	}
	r.endPreparation(at)
}

// image says which image was taken.
func image(what string, i event.Image) string {
	digest := ""
	if i.Digest != "" {
		digest = " with digest " + plain(i.Digest)
	}
	return what + " " + plain(i.Name) + digest + "\n"
}

// skipped says that a step did not run. Steps that every job has say nothing: most of them are for jobs that failed, or succeeded.
func (r *Renderer) skipped(at time.Time, path string, b event.StepSkipped) {
	if b.Name == "get_sources" && !r.ending { // of a job without sources
		s := &step{path: path}
		known := stages[b.Name]
		r.openSection(at, s, known.section, known.headline, r.opts.CollapseSetup)
		r.say(at, "Skipping Git repository setup\n")
		r.close(at, s)
		return
	}
	if _, isStage := stageOf(b.Name); isStage && parent(path) == "" {
		return
	}
	up := r.steps[parent(path)]
	if up != nil && (up.inner || up.kind == catalogKind) {
		return
	}
	prefix := ""
	if up != nil {
		prefix = up.prefix()
	}
	r.say(at, prefix+"Skipped "+plain(b.Name)+": "+plain(b.Reason)+"\n")
}

// stopping says that the run was asked to stop.
func (r *Renderer) stopping(at time.Time, b event.Stopping) {
	r.ending, r.stopped = true, plain(b.Reason)
	if b.Force {
		r.killed = true
		r.warn(at, nil, "the job is killed: %s", plain(b.Reason))
		return
	}
	r.warn(at, nil, "the job is stopped: %s", plain(b.Reason))
}

// finished ends all that is open and says how the job ended, in gitlab-runner's words.
func (r *Renderer) finished(at time.Time, b event.RunFinished) {
	if r.opts.Runner != "" {
		r.runnerLine(at, "")
	}
	r.endPreparation(at)
	if s := r.steps[""]; s != nil {
		r.quiet(s)
	}
	r.closeAll(at, "")
	if b.Status == event.Success {
		r.say(at, green+"Job succeeded"+reset+"\n")
		return
	}
	said := b.Error == nil || b.Error.Message == r.troubled // by the step
	if !said {
		for _, d := range b.Error.Diagnostics {
			r.say(at, plain(d.Error())+"\n")
		}
	}
	r.say(at, red+"ERROR: Job failed"+failure(b, r.stopped)+"\n"+reset+"\n")
	if !said && b.Error.Hint != "" {
		r.say(at, "hint: "+plain(b.Error.Hint)+"\n")
	}
}

// failure is what follows "Job failed". stopped is why the run was stopped, if it was.
func failure(b event.RunFinished, stopped string) string {
	err := b.Error
	switch {
	case err != nil && err.FailureReason() == event.ReasonInterrupted: // by its runner, and by nobody in GitLab
		return ": aborted: " + cmp.Or(stopped, plain(err.Message))
	case b.Status == event.Cancelled || err != nil && err.Kind == event.ErrorCancelled:
		return ": canceled"
	case err == nil:
		return ""
	case err.Kind == event.ErrorTimeout && err.Timeout != nil && err.Timeout.Of == event.TimeoutRun:
		return fmt.Sprintf(": execution took longer than %s seconds", time.Duration(err.Timeout.Limit))
	case err.Kind == event.ErrorSystem:
		return " (system failure): " + plain(err.Message)
	}
	return ": " + reason(err, b.ExitCode)
}

// reason is the exit code of a process that failed, or else what went wrong: a process that succeeds can leave what cannot be used.
func reason(err *event.Error, code *int) string {
	if err.Kind == event.ErrorStep && code != nil && *code != 0 {
		return fmt.Sprintf("exit code %d", *code)
	}
	return plain(err.Message)
}
