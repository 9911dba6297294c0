package service_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/service/client"
)

// TestExistingClients holds the server against what clients of the existing step-runner, v0.11, expect.
func TestExistingClients(t *testing.T) {
	t.Parallel()
	t.Run("C107 a job runs, succeeds, and nothing is left of it when it is closed", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		o := &oldClient{w}
		o.run("1", script("echo hello; pwd; env"))
		if got := o.log("1", 0); !strings.HasPrefix(got, "hello\n"+w.dir) {
			t.Errorf("the log is %q", got)
		}
		st := o.status("1")
		if st.GetStatus() != stepsv0.StepResult_success || st.GetMessage() != "" || st.GetEndTime() == nil {
			t.Errorf("the status is %v", st)
		}
		o.close("1")
		if left := w.service.RunFolders(); len(left) > 0 {
			t.Errorf("%d folders are left", len(left))
		}
		if _, err := w.old.Status(soon(t), &stepsv0.StatusRequest{Id: "1"}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), `no job with id "1"`) {
			t.Errorf("asking for a closed job gives %v", err)
		}
	})
	t.Run("C108 the same request again does nothing", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		o := &oldClient{w}
		o.run("1", script("echo x >>runs"))
		o.run("1", script("echo x >>runs"))
		o.log("1", 0)
		o.run("1", script("echo x >>runs"))
		if got, _ := os.ReadFile(filepath.Join(w.dir, "runs")); string(got) != "x\n" {
			t.Errorf("it ran %q", got)
		}
	})
	t.Run("C109 closing an id that is not known is fine", func(t *testing.T) {
		t.Parallel()
		o := &oldClient{serve(t)}
		o.close("nobody")
	})
	t.Run("C110 a status has its times, and all are listed", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		o := &oldClient{w}
		o.run("good", script("echo started; "+waitFor("go")))
		if st := o.status("good"); st.GetStatus() != stepsv0.StepResult_running || st.GetStartTime() == nil || st.GetEndTime() != nil {
			t.Errorf("while it runs: %v", st)
		}
		touch(t, filepath.Join(w.dir, "go"))
		o.run("bad", script("exit 3"))
		o.run("ugly", script("touch sleeping; sleep 600"))
		await(t, "the step sleeps", func() bool { return exists(filepath.Join(w.dir, "sleeping")) })
		if err := w.client.Cancel(soon(t), "ugly", event.Stop{}, true); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]stepsv0.StepResult_Status{
			"good": stepsv0.StepResult_success, "bad": stepsv0.StepResult_failure, "ugly": stepsv0.StepResult_cancelled,
		} {
			o.log(id, 0)
			if st := o.status(id); st.GetStatus() != want || st.GetEndTime() == nil {
				t.Errorf("%s: %v", id, st)
			}
		}
		if st := o.status("bad"); !strings.Contains(st.GetMessage(), "exit status 3") {
			t.Errorf("the message of the failure is %q", st.GetMessage())
		}
		if st := o.status("ugly"); !strings.Contains(st.GetMessage(), "context canceled") {
			t.Errorf("the message of the cancelled one is %q", st.GetMessage())
		}
		all, err := w.old.Status(soon(t), &stepsv0.StatusRequest{})
		if err != nil || len(all.GetJobs()) != 3 || all.GetJobs()[0].GetId() != "good" || all.GetJobs()[2].GetId() != "ugly" {
			t.Errorf("the list is %v, %v", all, err)
		}
	})
	t.Run("C111 environment, job variables and file variables reach a script", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		o := &oldClient{w}
		o.start(&stepsv0.RunRequest{
			Id: "1", WorkDir: w.dir, Env: map[string]string{"FROM_ENV": "from the environment"},
			Job: &stepsv0.Job{BuildDir: w.dir, Variables: []*stepsv0.Variable{
				{Key: "PLAIN", Value: "overridden"},
				{Key: "PLAIN", Value: "from the job"},
				{Key: "HIDDEN", Value: "hunter2hunter2", Masked: true},
				{Key: "FILE", Value: "in the file\n", File: true},
				{Key: "HIDDEN_FILE", Value: "swordfish-swordfish", File: true, Masked: true},
			}},
			Steps: "{}\n---\nrun:\n- name: a\n  script: |\n" +
				"    echo \"$FROM_ENV, ${{ job.PLAIN }}, ${{ vars.HIDDEN }}, ${PLAIN-not in the environment}\"\n" +
				"    cat ${{ job.FILE }} ${{ job.HIDDEN_FILE }}; stat -c ' %a' ${{ job.FILE }}; echo ${{ job.FILE }} >path\n",
		})
		want := "from the environment, from the job, [MASKED], not in the environment\nin the file\n[MASKED] 600\n"
		if got := o.log("1", 0); got != want {
			t.Errorf("the log is\n%q, want\n%q", got, want)
		}
		path, _ := os.ReadFile(filepath.Join(w.dir, "path"))
		await(t, "the file is gone with the run", func() bool { return !exists(strings.TrimSpace(string(path))) })
	})
	t.Run("C112 a log is followed to its end", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		o := &oldClient{w}
		o.run("1", script(`printf '0123456789\n\n\nno end'`))
		const all = "0123456789\n\n\nno end"
		for offset, want := range map[int64]string{0: all, 4: all[4:], int64(len(all)): "", 1000: ""} {
			if got := o.log("1", offset); got != want {
				t.Errorf("from %d on it is %q, want %q", offset, got, want)
			}
		}
		stream, err := w.old.FollowLogs(soon(t), &stepsv0.FollowLogsRequest{Id: "1", Offset: -1})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("an offset less than 0 gives %v", err)
		}
		failing := errors.New("the writer fails")
		at, err := w.client.FollowLogs(soon(t), "1", writerFunc(func(p []byte) (int, error) { return 3, failing }), client.LogOptions{})
		if at != 3 || !errors.Is(err, failing) {
			t.Errorf("a writer that fails gives %d, %v", at, err)
		}
	})
	t.Run("C113 a call waits for the server to be ready, until its deadline", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.stop()
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := w.client.Run(short, w.request("1", script("true"))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a server: %v", err)
		}
		ready := make(chan error, 1)
		go func() { ready <- w.client.Run(soon(t), w.request("1", script("true"))) }()
		oldReady := make(chan error, 1)
		go func() {
			_, err := w.old.Run(soon(t), &stepsv0.RunRequest{Id: "2", Steps: script("true")}, grpc.WaitForReady(true))
			oldReady <- err
		}()
		w.start()
		if err := <-ready; err != nil {
			t.Error(err)
		}
		if err := <-oldReady; err != nil {
			t.Error(err)
		}
	})
}

func TestResultsForExistingClients(t *testing.T) {
	t.Parallel()
	code := 7
	for _, test := range []struct {
		name     string
		status   event.Status
		err      *event.Error
		exitCode *int
		want     stepsv0.StepResult_Status
		message  string
	}{
		{"C114 success", event.Success, nil, nil, stepsv0.StepResult_success, ""},
		{"C114 running", event.Running, nil, nil, stepsv0.StepResult_running, ""},
		{"C114 cancelled", event.Cancelled, &event.Error{Kind: event.ErrorCancelled, Message: "stopped: why"}, nil, stepsv0.StepResult_cancelled, "context canceled: stopped: why"},
		{"C114 the run's time was up", event.Failure, event.TimedOut(event.TimeoutRun, plan.Duration(time.Second)), nil, stepsv0.StepResult_cancelled, "context deadline exceeded: the run timed out after 1s"},
		{"C114 a step's time was up", event.Failure, &event.Error{Kind: event.ErrorTimeout, Message: "late"}, nil, stepsv0.StepResult_failure, "late"},
		{"C114 killed from outside is a failure", event.Failure, &event.Error{Kind: event.ErrorStep, Message: "exec: killed by SIGKILL"}, nil, stepsv0.StepResult_failure, "exec: killed by SIGKILL"},
		{"C114 a failure names its step and has its exit code", event.Failure, &event.Error{Code: event.CodeExitStatus, Kind: event.ErrorStep, StepName: "crew/greet", Message: "any"}, &code, stepsv0.StepResult_failure, `step "crew/greet": exec: exit status 7`},
		{"C114 another failure has its exit code in the message", event.Failure, &event.Error{Kind: event.ErrorStep, Message: "the output file is wrong"}, &code, stepsv0.StepResult_failure, "the output file is wrong: exit status 7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, message := service.GitLabResult(test.status, test.err, test.exitCode)
			if got != test.want || message != test.message {
				t.Errorf("got %v, %q", got, message)
			}
		})
	}
	t.Run("C114 a run whose own time was up, from end to end", func(t *testing.T) {
		w := serve(t)
		w.run("1", script("sleep 600"), func(r *client.Request) { r.Timeout, r.Grace = 100*time.Millisecond, -1 })
		o := &oldClient{w}
		o.log("1", 0)
		if st := o.status("1"); st.GetStatus() != stepsv0.StepResult_cancelled || !strings.Contains(st.GetMessage(), "deadline exceeded") {
			t.Errorf("the status is %v", st)
		}
		var late *client.Timeout
		if err := w.status("1").Err(); !errors.As(err, &late) {
			t.Errorf("our own API says %v", err)
		}
	})
}

// oldClient makes the calls that clients of the existing step-runner make.
type oldClient struct{ *world }

func (o *oldClient) run(id, steps string) {
	o.t.Helper()
	o.start(&stepsv0.RunRequest{Id: id, WorkDir: o.dir, Steps: steps})
}

func (o *oldClient) start(r *stepsv0.RunRequest) {
	o.t.Helper()
	if _, err := o.old.Run(soon(o.t), r); err != nil {
		o.t.Fatal(err)
	}
}

func (o *oldClient) log(id string, offset int64) string {
	o.t.Helper()
	stream, err := o.old.FollowLogs(soon(o.t), &stepsv0.FollowLogsRequest{Id: id, Offset: offset})
	if err != nil {
		o.t.Fatal(err)
	}
	var b bytes.Buffer
	for {
		piece, err := stream.Recv()
		if err != nil {
			if err.Error() != "EOF" {
				o.t.Fatal(err)
			}
			return b.String()
		}
		b.Write(piece.GetData())
	}
}

func (o *oldClient) status(id string) *stepsv0.Status {
	o.t.Helper()
	out, err := o.old.Status(soon(o.t), &stepsv0.StatusRequest{Id: id})
	if err != nil {
		o.t.Fatal(err)
	}
	return out.GetJobs()[0]
}

func (o *oldClient) close(id string) {
	o.t.Helper()
	if _, err := o.old.Close(soon(o.t), &stepsv0.CloseRequest{Id: id}); err != nil {
		o.t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func oldRequest(id, dir, steps string) *stepsv0.RunRequest {
	return &stepsv0.RunRequest{Id: id, WorkDir: dir, Steps: steps}
}
