//go:build unix

package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/joblog"
	"github.com/rungci/rung/manager/payload"
	"github.com/rungci/rung/steps/event"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(crashFile); file != "" {
		fmt.Println(owner(file))
		os.Exit(1)
	}
	code := m.Run()
	executortest.RemoveProgram()
	os.Exit(code)
}

// world is a GitLab, a runner of it, and the level none.
type world struct {
	t      *testing.T
	dir    string
	server *gitlabtest.Server
	api    *gitlab.Client
	url    string
	runner gitlab.Runner
	level  executor.Executor
	notes  []error
	// elsewhere is the folder of a second host; empty: there is one host.
	elsewhere string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), server: gitlabtest.New(gitlabtest.Options{})}
	server := httptest.NewServer(w.server)
	t.Cleanup(server.Close)
	if err := w.connect(server.URL); err != nil {
		t.Fatal(err)
	}
	w.runner = gitlab.Runner{Token: w.server.NewRunner(), SystemID: "s_0123456789ab"}
	if err := w.openLevel(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.level.Close() })
	return w
}

func (w *world) connect(url string) (err error) {
	w.url = url
	w.api, err = gitlab.New(gitlab.Options{
		URL: url, Info: gitlab.Info{Features: gitlab.Features{Refspecs: true, TwoPhaseJobCommit: true, CancelGracefully: true}},
	})
	return err
}

// openLevel makes the level, as every process of one owner does.
func (w *world) openLevel(ctx context.Context) (err error) {
	w.level, err = none.New(ctx, executor.Setup{
		Program: func(string, string) (string, error) { return executortest.Program() },
		State:   filepath.Join(w.dir, w.elsewhere, "state"), Temp: w.dir, Lease: executor.Lease{Owner: "manager-1", Keep: time.Minute, Elsewhere: w.elsewhere != ""},
	}, none.Options{})
	return err
}

// take enqueues a job and takes it.
func (w *world) take(from gitlab.Job) (*gitlabtest.Job, *gitlab.Job) {
	w.t.Helper()
	theirs := w.server.Enqueue(from)
	answer, err := w.api.RequestJob(w.t.Context(), gitlab.Ask{Runner: w.runner})
	if err != nil || answer.Job == nil {
		w.t.Fatal(answer, err)
	}
	return theirs, answer.Job
}

func (w *world) self() payload.Runner { return payload.Runner{API: w.api.URL(), ShortToken: "t0_test"} }

func (w *world) options() job.Options {
	return job.Options{
		API: w.api, Level: w.level, Folder: filepath.Join(w.dir, w.elsewhere, "jobs", "1"), Elsewhere: true, Caches: filepath.Join(w.dir, "caches"), Title: "rung test",
		Sender: joblog.SenderOptions{First: 10 * time.Millisecond, Interval: 10 * time.Millisecond, Touch: 50 * time.Millisecond}, Grace: 5 * time.Second,
		Note: func(err error) { w.notes = append(w.notes, err) },
	}
}

// run takes a job and runs it.
func (w *world) run(from gitlab.Job) (gitlabtest.Result, job.Ended) {
	w.t.Helper()
	theirs, ours := w.take(from)
	ended := job.Run(w.t.Context(), nil, ours, w.self(), w.options())
	w.clean()
	return theirs.Result(), ended
}

// clean checks that GitLab has nothing to object to, and that nothing of a job is left.
func (w *world) clean() {
	w.t.Helper()
	for _, v := range w.server.Violations() {
		w.t.Error("GitLab objects:", v)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, "jobs", "*")); len(left) > 0 {
		w.t.Error("left:", left)
	}
}

// script is a job without files.
func script(lines ...string) gitlab.Job {
	return gitlab.Job{
		Info: gitlab.JobInfo{Name: "test", Stage: "test", ProjectID: 7, ProjectName: "project"},
		Variables: []gitlab.Variable{
			{Key: "GIT_STRATEGY", Value: "none"}, {Key: "FF_TIMESTAMPS", Value: "false"}, {Key: "GREETING", Value: "hello"},
			{Key: "SECRET", Value: "s3cret-value", Masked: true}, {Key: "CERTIFICATE", Value: "in a file", File: true},
		},
		Steps: []gitlab.Step{{Name: "script", Script: lines, Timeout: 60, When: "on_success"}},
	}
}

func TestHowJobsEnd(t *testing.T) {
	tests := []struct {
		name   string
		job    gitlab.Job
		state  gitlab.State
		reason string
		exit   int
		log    []string // all of them are in the log
	}{
		{"a script succeeds", script(`echo "$GREETING"`), gitlab.Success, "", 0, []string{"Running with rung test", "$ echo \"$GREETING\"", "\nhello\n", "Job succeeded"}},
		{"a script fails with an exit code of its own", script("exit 3"), gitlab.Failed, "script_failure", 3, []string{"ERROR: Job failed: exit code 3"}},
		{"a masked value is not shown", script(`echo "it is $SECRET"`), gitlab.Success, "", 0, []string{"it is [MASKED]"}},
		{"a file is there", script(`cat "$CERTIFICATE"`), gitlab.Success, "", 0, []string{"in a file"}},
		{"time is over", func() gitlab.Job {
			j := script("sleep 60")
			j.Runner.Timeout = 1
			return j
		}(), gitlab.Failed, "job_execution_timeout", 0, []string{"execution took longer than 1s"}},
		{"services are not started on a host, and it is said", func() gitlab.Job {
			j := script("true")
			j.Services = []gitlab.Image{{Name: "postgres"}}
			return j
		}(), gitlab.Success, "", 0, []string{"WARNING: the services of the job are not started: it runs at level none, which has none"}},
		{"a reason that this GitLab knows", func() gitlab.Job {
			j := script("true")
			j.Run = "[]"
			j.Features.FailureReasons = []string{"runner_configuration_error"}
			return j
		}(), gitlab.Failed, "runner_configuration_error", 0, nil},
		{"a job that cannot be read", func() gitlab.Job {
			j := script("true")
			j.Run = "[]"
			return j
		}(), gitlab.Failed, "script_failure", 0, []string{"a script or `run`, not both"}},
		{"native steps", func() gitlab.Job {
			j := script()
			j.Steps = nil
			j.Run = `[{"name":"greet","script":"echo native ${{ env.GREETING }}"}]`
			return j
		}(), gitlab.Success, "", 0, []string{"native hello"}},
		{"after_script runs after a failure, and knows of it", func() gitlab.Job {
			j := script("exit 1")
			j.Steps = append(j.Steps, gitlab.Step{Name: "after_script", Script: []string{`echo "was $CI_JOB_STATUS"`}, Timeout: 60, When: "always", AllowFailure: true})
			return j
		}(), gitlab.Failed, "script_failure", 1, []string{"was failed"}},
		{"a release is made after the script", func() gitlab.Job {
			j := script("echo first")
			j.Steps = append(j.Steps, gitlab.Step{Name: "release", Script: []string{"echo then a release"}, When: "on_success"})
			return j
		}(), gitlab.Success, "", 0, []string{"then a release"}},
	}
	w := newWorld(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w.t = t
			got, ended := w.run(test.job)
			if got.State != test.state || got.FailureReason != test.reason || got.ExitCode != test.exit {
				t.Errorf("GitLab has %s %s %d, want %s %s %d (%+v)", got.State, got.FailureReason, got.ExitCode, test.state, test.reason, test.exit, ended)
			}
			for _, text := range test.log {
				if !strings.Contains(got.Log, text) {
					t.Errorf("the log has no %q:\n%s", text, got.Log)
				}
			}
			if strings.Contains(got.Log, "s3cret") {
				t.Error("the log has a secret")
			}
		})
	}
}

func TestACancelledJobRunsItsAfterScript(t *testing.T) {
	w := newWorld(t)
	from := script("echo begun; sleep 60")
	from.Steps = append(from.Steps, gitlab.Step{Name: "after_script", Script: []string{`echo "after $CI_JOB_STATUS"`}})
	from.Features.FailureReasons = []string{"job_canceled"}
	theirs, ours := w.take(from)
	go func() {
		if theirs.WaitLog(t.Context(), "begun") == nil {
			theirs.Cancel()
		}
	}()
	job.Run(t.Context(), nil, ours, w.self(), w.options())
	w.clean()
	got := theirs.Result()
	if !strings.Contains(got.Log, "after canceled") || got.FailureReason != "job_canceled" {
		t.Errorf("%s %s\n%s", got.State, got.FailureReason, got.Log)
	}
}

// The acknowledgement of a job is a request like every other. GitLab takes nothing else of the job before it has come.
func TestAJobWhoseAcknowledgementIsLostRuns(t *testing.T) {
	const put = "PUT /jobs/{id}"
	const soon, late = time.Millisecond, time.Hour // when the log is sent first: before the job ends, or then
	for name, c := range map[string]struct {
		first time.Duration
		fail  func(*gitlabtest.Server)
	}{
		"the connection is closed":            {soon, func(s *gitlabtest.Server) { s.Drop(1, put) }},
		"it is refused":                       {soon, func(s *gitlabtest.Server) { s.Fail(1, put, http.StatusBadRequest) }},
		"there is a conflict":                 {soon, func(s *gitlabtest.Server) { s.Fail(1, put, http.StatusConflict) }},
		"GitLab is away":                      {soon, func(s *gitlabtest.Server) { s.Fail(6, put, http.StatusServiceUnavailable) }},
		"it is repeated when the job is over": {late, func(s *gitlabtest.Server) { s.Drop(2, put) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			theirs, ours := w.take(script("echo begun; sleep 0.5; echo over"))
			o := w.options()
			o.Sender.First, o.Sender.Backoff = c.first, 10*time.Millisecond
			c.fail(w.server)
			ended := job.Run(t.Context(), nil, ours, w.self(), o)
			w.clean()
			if got := theirs.Result(); got.State != gitlab.Success || ended.Gone || !strings.Contains(got.Log, "over") {
				t.Errorf("%s %+v\n%s", got.State, ended, got.Log)
			}
		})
	}
}

// longer is what no end of a job takes that waits for nothing: its scripts go on for twice as long, as do the times that it is given.
const longer = 5 * time.Minute

func TestAJobThatGitLabGivesUpEndsAtOnce(t *testing.T) {
	w := newWorld(t)
	from := script("echo begun; sleep 600")
	from.Steps = append(from.Steps, gitlab.Step{Name: "after_script", Script: []string{"sleep 600"}})
	theirs, ours := w.take(from)
	go func() {
		if theirs.WaitLog(t.Context(), "begun") == nil {
			theirs.Abort()
		}
	}()
	began := time.Now()
	ended := job.Run(t.Context(), nil, ours, w.self(), w.options())
	w.clean()
	if !ended.Gone || time.Since(began) > longer {
		t.Errorf("%+v after %s", ended, time.Since(began))
	}
}

func TestAJobIsInterruptedWithItsAfterScript(t *testing.T) {
	w := newWorld(t)
	from := script("echo begun; sleep 60")
	from.Steps = append(from.Steps, gitlab.Step{Name: "after_script", Script: []string{"echo cleaning up"}})
	theirs, ours := w.take(from)
	ctx, stop := context.WithCancelCause(t.Context())
	go func() {
		if theirs.WaitLog(t.Context(), "begun") == nil {
			stop(&event.Stop{Code: event.CodeTerminated, Reason: "the runner ends"})
		}
	}()
	job.Run(ctx, nil, ours, w.self(), w.options())
	w.clean()
	if got := theirs.Result(); !strings.Contains(got.Log, "cleaning up") || got.State != gitlab.Failed || got.FailureReason != "unknown_failure" {
		t.Errorf("%s %s\n%s", got.State, got.FailureReason, got.Log)
	}
}

// crash is where a process that has a job is killed.
type crash struct {
	Write int    // after so many records were written
	Bytes int    // or when there are so many bytes of log
	Text  string // or when this was logged
	// Of the process.
	URL, Dir string
	Payload  *gitlab.Job
}

// crashFile names the environment variable that makes this test binary such a process.
const crashFile = "RUNG_TEST_CRASH"

// owner has a job, until it is killed.
func owner(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c crash
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	w := &world{dir: c.Dir}
	if err := w.connect(c.URL); err != nil {
		return err
	}
	if err := w.openLevel(context.Background()); err != nil {
		return err
	}
	o := w.options()
	writes, written := 0, 0
	o.Keep = func(r job.Record) error {
		data, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(c.Dir, "record"), data, 0o600)
		}
		if writes++; writes == c.Write {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return err
	}
	o.Output = func(log []byte) {
		if written += len(log); c.Bytes > 0 && written >= c.Bytes || c.Text != "" && strings.Contains(string(log), c.Text) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	job.Run(context.Background(), nil, c.Payload, w.self(), o)
	return errors.New("the job ended, and nobody was killed")
}

// killed is what a process wrote down last that had a job, and was killed.
func (w *world) killed(at crash, ours *gitlab.Job) job.Record {
	w.t.Helper()
	at.URL, at.Dir, at.Payload = w.url, w.dir, ours
	data, err := json.Marshal(at)
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.dir, "crash")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	program, err := executortest.Program()
	if err != nil {
		w.t.Fatal(err)
	}
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), crashFile+"="+file, executortest.ProgramVariable+"="+program)
	if out, err := killed.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		w.t.Fatalf("%v: %s", err, out)
	}
	if data, err = os.ReadFile(filepath.Join(w.dir, "record")); err != nil {
		w.t.Fatal(err)
	}
	var record job.Record
	if err := json.Unmarshal(data, &record); err != nil {
		w.t.Fatal(err)
	}
	return record
}

func TestAJobIsAdopted(t *testing.T) {
	text := script(`for i in 1 2 3 4 5 6 7 8 9 10; do echo "line $i of $GREETING"; sleep 0.05; done`)
	whole, _ := newWorld(t).run(text)
	if whole.State != gitlab.Success {
		t.Fatal(whole.Log)
	}
	tests := []struct {
		name   string
		at     crash
		reason string // empty: it goes on, and its log is the same
	}{
		{"before there is an environment", crash{Write: 1}, ""},
		{"before its steps begin", crash{Write: 2}, ""},
		{"with the first byte of its log", crash{Bytes: 1}, ""},
		{"in the middle of a line", crash{Bytes: len(whole.Log) / 3}, ""},
		{"later", crash{Bytes: 2 * len(whole.Log) / 3}, ""},
		{"with the last byte of its log", crash{Bytes: len(whole.Log) - 20}, ""},
		{"before GitLab knows how it ended", crash{Write: 3}, ""},
	}
	for i := range 2 * len(tests) { // on the same host, and on another one
		test, elsewhere := tests[i/2], ""
		if i%2 == 1 {
			test.name, elsewhere = test.name+", on another host", "elsewhere"
		}
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			theirs, ours := w.take(text)
			record := w.killed(test.at, ours)
			if w.elsewhere = elsewhere; elsewhere != "" {
				if err := w.openLevel(t.Context()); err != nil {
					t.Fatal(err)
				}
				first := filepath.Join(w.dir, "jobs")
				if err := os.Rename(first, first+"-of-the-first"); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			ended := job.Adopt(t.Context(), nil, record, w.options())
			w.clean()
			got := theirs.Result()
			if got.FailureReason != test.reason || got.State == gitlab.Success != (test.reason == "") {
				t.Errorf("GitLab has %s %s (%+v)\n%s", got.State, got.FailureReason, ended, got.Log)
			}
			if at := len(got.Log) - len(got.Log[strings.LastIndex(got.Log, "Running with"):]); timeless(got.Log[at:]) != timeless(whole.Log) || at > 0 && at > 100 {
				t.Errorf("the log differs: %s", cmp.Diff(timeless(whole.Log), timeless(got.Log)))
			}
			if err := w.level.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnAdoptedJobThatIsToEndRunsItsAfterScript(t *testing.T) {
	terminated := &event.Stop{Code: event.CodeTerminated, Reason: "the runner ends"}
	for name, c := range map[string]struct {
		cancelled bool  // by somebody, while nobody has the job
		stopped   error // the process that adopts it, before it does
		reason    string
	}{
		"it was cancelled meanwhile": {true, nil, "job_canceled"},
		"its new runner is stopped":  {false, terminated, "unknown_failure"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			from := script("echo begun; sleep 60")
			from.Steps = append(from.Steps, gitlab.Step{Name: "after_script", Script: []string{"echo cleaning up"}})
			from.Features.FailureReasons = []string{"job_canceled"}
			theirs, ours := w.take(from)
			record := w.killed(crash{Text: "begun\n"}, ours)
			if c.cancelled {
				theirs.Cancel()
			}
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			if c.stopped != nil {
				stop(c.stopped)
			}
			job.Adopt(ctx, nil, record, w.options())
			w.clean()
			if got := theirs.Result(); !strings.Contains(got.Log, "cleaning up") || got.FailureReason != c.reason {
				t.Errorf("%s %s\n%s", got.State, got.FailureReason, got.Log)
			}
		})
	}
}

func TestAJobThatEndsNowDoesNotWaitForGitLab(t *testing.T) {
	w := newWorld(t)
	theirs, ours := w.take(script("echo begun; sleep 600"))
	kill, killed := make(chan struct{}), time.Time{}
	go func() {
		if theirs.WaitLog(t.Context(), "begun") == nil {
			w.server.Break(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is seen
				<-r.Context().Done()
				return true
			})
			killed = time.Now()
			close(kill)
		}
	}()
	var last job.Record
	o := w.options()
	o.Keep = func(r job.Record) error { last = r; return nil }
	ended := job.Run(t.Context(), job.KillOn(kill), ours, w.self(), o)
	if took := time.Since(killed); ended.Unreported == nil || took > longer {
		t.Errorf("%+v after %s", ended, took)
	}
	if last.Final == nil || last.Final.State != gitlab.Failed {
		t.Errorf("the next process is to report %+v", last.Final)
	}
	if _, err := os.Stat(filepath.Join(o.Folder, "job.log")); err != nil {
		t.Error(err)
	}
}

// TestAJobThatItsRunnerEnds is stopped at first, and killed when a mark of its log is there. gitlab-runner runs no after_script in either case.
func TestAJobThatItsRunnerEnds(t *testing.T) {
	const stopped, killed = "the job is stopped: the runner is stopped", "the job is killed: shutdown_timeout"
	for _, test := range []struct {
		name, script, after string
		kill                string // the mark; empty is never
		log, not            []string
	}{
		{
			"after_script runs", "echo begun; sleep 600", "echo after", "",
			[]string{stopped, "\nafter\n", "Job failed: aborted: the runner is stopped"}, []string{"killed"},
		},
		{
			"a script that does not listen is killed, and after_script does not run", "trap '' TERM; echo begun; while :; do sleep 0.1; done", "echo after", "job is stopped",
			[]string{stopped, killed, "Job failed: aborted: shutdown_timeout"}, []string{"\nafter\n"},
		},
		{
			"after_script is killed", "echo begun; sleep 600", "echo after; sleep 600; echo late", "\nafter\n",
			[]string{stopped, "\nafter\n", killed, "Job failed: aborted: shutdown_timeout"}, []string{"\nlate\n"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			from := script(test.script)
			from.Steps = append(from.Steps, gitlab.Step{Name: "after_script", Script: []string{test.after}})
			from.Features.FailureReasons = []string{"runner_interrupted"}
			theirs, ours := w.take(from)
			ctx, stop := context.WithCancelCause(t.Context())
			kill, began := job.NewKill(), time.Now()
			go func() {
				if theirs.WaitLog(t.Context(), "begun") != nil {
					return
				}
				began = time.Now()
				stop(&event.Stop{Code: event.CodeTerminated, Reason: "the runner is stopped"})
				if test.kill != "" && theirs.WaitLog(t.Context(), test.kill) == nil {
					kill.Now("shutdown_timeout")
				}
			}()
			o := w.options()
			o.Grace = 2 * longer
			job.Run(ctx, kill, ours, w.self(), o)
			w.clean()
			got := theirs.Result()
			if got.State != gitlab.Failed || got.FailureReason != "runner_interrupted" {
				t.Errorf("%s %s", got.State, got.FailureReason)
			}
			for _, text := range test.log {
				if !strings.Contains(got.Log, text) {
					t.Errorf("the log does not say %q", text)
				}
			}
			for _, text := range test.not {
				if strings.Contains(got.Log, text) {
					t.Errorf("the log says %q", text)
				}
			}
			if t.Failed() {
				t.Log(got.Log)
			}
			if took := time.Since(began); took > longer {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestAJobThatIsEndedBeforeItHasAPlace(t *testing.T) {
	w := newWorld(t)
	from := script("true")
	from.Image = &gitlab.Image{Name: "node:99"}
	from.Features.FailureReasons = []string{"runner_interrupted"}
	theirs, ours := w.take(from)
	ctx, stop := context.WithCancelCause(t.Context())
	o := w.options()
	o.Level = &fake.Executor{At: act(fake.Prepare, func(ctx context.Context) error {
		stop(&event.Stop{Code: event.CodeTerminated, Reason: "the runner is stopped"})
		<-ctx.Done()
		return ctx.Err()
	})}
	job.Run(ctx, nil, ours, w.self(), o)
	w.clean()
	if got := theirs.Result(); got.FailureReason != "runner_interrupted" || !strings.Contains(got.Log, "Job failed: aborted: the runner is stopped") {
		t.Errorf("%s\n%s", got.FailureReason, got.Log)
	}
}

func TestAnEndThatGitLabHasAlreadyStaysWhatItWas(t *testing.T) {
	w := newWorld(t)
	_, ours := w.take(script("echo whole"))
	var last job.Record
	o := w.options()
	o.Keep = func(r job.Record) error { last = r; return nil }
	if ended := job.Run(t.Context(), nil, ours, w.self(), o); ended.Final.State != gitlab.Success {
		t.Fatalf("%+v", ended)
	}
	if ended := job.Adopt(t.Context(), nil, last, w.options()); ended.Gone || ended.Final.State != gitlab.Success { // as after kill -9 in the clean-up
		t.Errorf("the next process says %+v", ended)
	}
}

// timeless is a log without what it takes to make an environment.
func timeless(log string) string {
	return regexp.MustCompile(`starting: [0-9.µms]+`).ReplaceAllString(log, "starting: 1ms")
}
