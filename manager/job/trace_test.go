//go:build unix

package job_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// traced runs a job whose trace is kept and uploaded. Without one, it returns nil.
func (w *world) traced(from gitlab.Job) (gitlabtest.Result, *trace.Trace, string) {
	w.t.Helper()
	return w.tracedWith(w.options(), from)
}

func (w *world) tracedWith(o job.Options, from gitlab.Job) (gitlabtest.Result, *trace.Trace, string) {
	w.t.Helper()
	return w.tracedWhile(o, from, func(*gitlabtest.Job) {})
}

// tracedWhile does something else while the job runs.
func (w *world) tracedWhile(o job.Options, from gitlab.Job, do func(*gitlabtest.Job)) (gitlabtest.Result, *trace.Trace, string) {
	w.t.Helper()
	kept := filepath.Join(w.dir, "kept.json")
	o.Trace = &job.Tracing{
		Digest: func() string { return "sha256:test" },
		Keep:   func(file string) (string, error) { return kept, trace.HandOver(file, kept) },
		Pack: func(file string, to io.Writer) error {
			text, err := os.ReadFile(file)
			if err == nil {
				_, err = to.Write(text)
			}
			return err
		},
	}
	theirs, ours := w.take(from)
	go do(theirs)
	ended := job.Run(w.t.Context(), nil, ours, w.self(), o)
	w.clean()
	text, err := os.ReadFile(kept)
	if os.IsNotExist(err) {
		return theirs.Result(), nil, ""
	}
	if ended.Trace != kept {
		w.t.Errorf("the trace is said to be in %q", ended.Trace)
	}
	t, err := trace.Read(kept)
	if err != nil {
		w.t.Fatal(err)
	}
	return theirs.Result(), t, string(text)
}

func TestATraceIsOfTheWholeJobWithoutItsSecrets(t *testing.T) {
	w := newWorld(t)
	from := script(`echo "$GREETING, $SECRET"`, `cat "$CERTIFICATE"`)
	from.Info.ProjectFullPath = "group/web"
	from.Variables = append(from.Variables,
		gitlab.Variable{Key: "SECRET", Value: "p4ssw0rd", Masked: true}, gitlab.Variable{Key: "CERTIFICATE", Value: "hidden-file-text", File: true, Masked: true})
	result, got, text := w.traced(from)
	if result.State != gitlab.Success || got == nil {
		t.Fatal(result.Log)
	}
	for _, secret := range []string{"p4ssw0rd", "hidden-file-text", w.runner.Token} {
		if strings.Contains(text, secret) {
			t.Errorf("the trace has %q", secret)
		}
	}
	if got.Incomplete || got.Run.Status != event.Success || got.Run.Identity == nil || got.Run.Identity.Project != "group/web" || got.Run.Environment == nil {
		t.Errorf("the run: %+v", got.Run)
	}
	if got.Runtime.Digest != "sha256:test" {
		t.Errorf("the runtime: %+v", got.Runtime)
	}
	if len(result.Artifacts) != 1 || result.Artifacts[0].Type != "archive" || result.Artifacts[0].Format != "zip" || string(result.Artifacts[0].Data) != text {
		t.Errorf("%d artifacts", len(result.Artifacts))
	}
}

func TestATraceHoldsAFewTimesOfTheLogThatIsAllowed(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.LogLimit = 10_000
	result, got, text := w.tracedWith(o, script(`i=0; while [ $i -lt 50 ]; do i=$((i+1)); head -c 2000 /dev/zero | tr '\0' x; echo; done`))
	if result.State != gitlab.Success || got == nil {
		t.Fatal(result.Log)
	}
	if n := strings.Count(text, "x"); n < 10_000 || n > 45_000 {
		t.Errorf("the trace holds %d bytes of the log", n)
	}
	if !strings.Contains(text, "longer than 4 times output_limit") {
		t.Error("the trace does not say that it is cut")
	}
}

func TestAJobThatFailsHasATrace(t *testing.T) {
	result, got, _ := newWorld(t).traced(script("exit 42"))
	if result.ExitCode != 42 || got == nil || got.Run.Status != event.Failure {
		t.Errorf("%+v\n%s", got, result.Log)
	}
}

func TestTheTraceOfAJobWhoseEnvironmentDiesSaysSo(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	level := &fake.Executor{Run: func(ctx context.Context, r *fake.Run) event.Status {
		r.Event(fake.Step, event.StepStarted{Name: "script", Kind: event.KindExec})
		r.Log("begun\n")
		<-ctx.Done()
		return event.Failure
	}}
	o.Level = level
	from := script("true")
	from.Image = &gitlab.Image{Name: "node:99"}
	result, got, _ := w.tracedWhile(o, from, func(theirs *gitlabtest.Job) {
		if theirs.WaitLog(t.Context(), "begun") == nil {
			level.Environments()[0].Finish(&executor.Gone{Reason: "the machine was taken away"})
		}
	})
	if got == nil || got.Incomplete || got.Run.Status != event.Failure || got.Run.Error.Fault() != event.FaultSystem {
		t.Fatalf("%+v\n%s", got, result.Log)
	}
	if s := got.Steps[0]; s.Status != event.Failure || s.Error.Code != event.CodeEnvironmentGone || got.Run.Counts != (event.Counts{Failure: 1}) {
		t.Errorf("the step ends %+v with %v of %+v", s.Status, s.Error, got.Run.Counts)
	}
}

func TestAJobThatNeverRanHasNoTrace(t *testing.T) {
	from := script("true")
	from.Run = "no list"
	from.Steps = nil
	result, got, _ := newWorld(t).traced(from)
	if result.State != gitlab.Failed || got != nil || len(result.Artifacts) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAJobKeepsItsOwnArtifacts(t *testing.T) {
	from := script("echo made > made.txt")
	from.Artifacts = []gitlab.Artifact{{Name: "own", Paths: []string{"made.txt"}, Type: "archive", Format: "zip"}}
	result, got, _ := newWorld(t).traced(from)
	if got == nil || !strings.Contains(result.Log, "the trace is not uploaded: GitLab takes one archive of a job") {
		t.Error(result.Log)
	}
	names := []string{}
	for _, a := range result.Artifacts {
		names = append(names, a.Filename)
	}
	if slices.Contains(names, "trace.zip") {
		t.Error(names)
	}
}
