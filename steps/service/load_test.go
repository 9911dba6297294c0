package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/service/client"
)

func TestManyClients(t *testing.T) {
	t.Parallel()
	t.Run("1,000 clients with a connection each follow a run while it writes", func(t *testing.T) {
		t.Parallel()
		const clients = 1000
		w := serve(t)
		w.run("1", script("echo begin; "+waitFor("go")+"; echo middle; printf end"))
		var begun, ended sync.WaitGroup
		begun.Add(clients)
		failures := make(chan error, clients)
		for range clients {
			ended.Go(func() {
				once := sync.OnceFunc(begun.Done)
				defer once()
				c, err := client.Dial("unix:" + w.socket)
				if err != nil {
					failures <- err
					return
				}
				defer c.Disconnect()
				var got strings.Builder
				_, err = c.FollowLogs(soon(t), "1", writerFunc(func(p []byte) (int, error) {
					once()
					return got.Write(p)
				}), client.LogOptions{})
				if err == nil && got.String() != "begin\nmiddle\nend" {
					err = fmt.Errorf("a client got %q", got.String())
				}
				if err != nil {
					failures <- err
				}
			})
		}
		begun.Wait()
		touch(t, filepath.Join(w.dir, "go"))
		ended.Wait()
		close(failures)
		for err := range failures {
			t.Error(err)
		}
	})
	t.Run("a client that is killed leaves its run to be taken up by another", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		conn := dial(t, w.socket)
		o := &oldClient{w}
		o.run("1", script("echo before; "+waitFor("go")+"; echo after"))
		stream, err := runnerv1.NewStepRunnerClient(conn).FollowLogs(soon(t), &runnerv1.FollowLogsRequest{Id: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		touch(t, filepath.Join(w.dir, "go"))
		if got := o.log("1", 7); got != "after\n" {
			t.Errorf("the rest of the log is %q", got)
		}
	})
}

// TestAClientThatStopsReading holds up neither the run nor the others, nor the server's memory. It runs by itself: it measures
// the memory of all.
func TestAClientThatStopsReading(t *testing.T) {
	const size = 64 << 20
	w := serve(t)
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	w.run("1", script("echo begin; "+waitFor("go")+fmt.Sprintf("; head -c %d /dev/zero | tr '\\0' x", size)))
	for i := range 20 {
		api := runnerv1.NewStepRunnerClient(dial(t, w.socket))
		if i%2 == 0 {
			stuck, err := api.FollowSteps(ctx, &runnerv1.FollowStepsRequest{Id: "1", Logs: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stuck.Recv(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		stuck, err := api.FollowLogs(ctx, &runnerv1.FollowLogsRequest{Id: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stuck.Recv(); err != nil { // and never again
			t.Fatal(err)
		}
	}
	before := memory()
	touch(t, filepath.Join(w.dir, "go"))
	var n counter
	if _, err := w.client.FollowLogs(soon(t), "1", &n, client.LogOptions{}); err != nil || n != size+6 {
		t.Errorf("another client got %d bytes, %v", n, err)
	}
	if st := w.status("1"); st.State != event.Success {
		t.Errorf("the run ended with %+v", st.Error)
	}
	grown := int64(memory()) - int64(before)
	if t.Logf("memory grew by %d KiB", grown>>10); grown > 30<<20 { // the log alone is 64 MiB, and 21 clients followed it
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestRunsShareNothing lets many runs, each with a secret of its own, go on at once, and looks for the secrets of all in the
// logs, traces, events, statuses and files of all.
func TestRunsShareNothing(t *testing.T) {
	t.Parallel()
	const runs = 20
	w := serve(t)
	secret := func(i int) string { return fmt.Sprintf("secret-of-run-%03d-", i) + strings.Repeat("x", i) + "!" }
	w.write("use/step.yml", "spec: {secrets: {KEY: {}}}\n---\nexec: {command: [sh, -c, 'echo key $KEY; echo $KEY >&2']}\n")
	for i := range runs {
		w.run(fmt.Sprint(i), `
- {name: use, step: ./use, secrets: [KEY]}
- {name: variable, script: 'echo variable ${{ vars.HIDDEN }}'}
- {name: file, script: 'cat ${{ vars.FILE }}; pwd; echo "$HOME $TMPDIR"; ls -A "$TMPDIR"; touch "$TMPDIR/mine"'}
`, func(r *client.Request) {
			r.Secrets = map[string]string{"KEY": secret(i)}
			r.Variables = []client.Variable{{Name: "HIDDEN", Value: secret(i) + "v", Masked: true}, {Name: "FILE", Value: secret(i) + "f\n", Masked: true, File: true}}
		})
	}
	homes := map[string]bool{}
	for i := range runs {
		id := fmt.Sprint(i)
		var all strings.Builder
		log := w.log(id)
		if !strings.Contains(log, "key [MASKED]") || strings.Contains(log, "mine") {
			t.Errorf("the log of %s is %q", id, log)
		}
		lines := strings.Split(strings.TrimSpace(log), "\n")
		homes[lines[len(lines)-1]] = true
		all.WriteString(log)
		if err := w.client.GetTrace(soon(t), id, &all, false); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.FollowSteps(soon(t), id, client.StepOptions{Logs: true}, func(e event.Event) error {
			text, err := e.MarshalJSON()
			all.Write(text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%+v", w.status(id))
		if strings.Contains(all.String(), "secret-of-run") {
			t.Errorf("what is told of %s holds a secret", id)
		}
	}
	if len(homes) != runs {
		t.Errorf("%d runs had %d different folders", runs, len(homes))
	}
	err := filepath.WalkDir(w.service.Folder(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may use %s: %s", path, info.Mode())
		}
		if err == nil && entry.Type().IsRegular() {
			data, rerr := os.ReadFile(path)
			if err = rerr; strings.Contains(string(data), "secret-of-run") {
				t.Errorf("%s holds a secret", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("so many runs go on at once, and no more", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.Runs = 2 })
		for _, id := range []string{"1", "2"} {
			w.run(id, script(waitFor("go")))
		}
		if err := w.client.Run(soon(t), w.request("3", script("true"))); !errors.Is(err, client.ErrBusy) || !strings.Contains(err.Error(), "2 runs are active") {
			t.Errorf("a third one: %v", err)
		}
		touch(t, filepath.Join(w.dir, "go"))
		w.end("1")
		await(t, "there is room again", func() bool { return w.client.Run(soon(t), w.request("3", script("true"))) == nil })
	})
	t.Run("so many clients follow, and no more", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.Followers = 1 })
		w.run("1", script("echo hi; "+waitFor("go")))
		stream, err := w.api.FollowLogs(soon(t), &runnerv1.FollowLogsRequest{Id: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.FollowLogs(soon(t), "1", io.Discard, client.LogOptions{}); !errors.Is(err, client.ErrBusy) {
			t.Errorf("a second one: %v", err)
		}
		touch(t, filepath.Join(w.dir, "go"))
	})
	t.Run("a request is so large, and no larger", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.RequestBytes = 10 << 20 })
		large := "- name: a\n  script: |\n    echo fine\n    # " + strings.Repeat("x", 6<<20) + "\n"
		w.run("1", large)
		if got := w.log("1"); got != "fine\n" {
			t.Errorf("the log is %q", got)
		}
		if err := w.client.Run(soon(t), w.request("2", large+large)); !errors.Is(err, client.ErrBusy) {
			t.Errorf("a larger one: %v", err)
		}
	})
	t.Run("a log is cut at its limit, and the run goes on", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.LogBytes = 1000 })
		w.run("1", "- {name: a, script: head -c 5000 /dev/zero | tr '\\0' x}\n- {name: b, script: touch done}\n")
		var got strings.Builder
		at, err := w.client.FollowLogs(soon(t), "1", &got, client.LogOptions{})
		if !errors.Is(err, client.ErrLogLost) || !strings.Contains(err.Error(), "1000 bytes") || at != 1000 || got.Len() != 1000 {
			t.Errorf("the log ends at %d with %v", at, err)
		}
		o := &oldClient{w}
		if got := o.log("1", 0); !strings.HasPrefix(got, strings.Repeat("x", 1000)+"\nstep-runner: the log ends here") {
			t.Errorf("to an existing client, it ends with %q", got[min(1000, len(got)):])
		}
		if st := w.status("1"); st.State != event.Success || !exists(filepath.Join(w.dir, "done")) {
			t.Errorf("the run ended with %+v", st)
		}
		st, err := w.client.Execute(soon(t), w.request("2", "- {name: a, script: head -c 5000 /dev/zero | tr '\\0' x}\n- {name: b, script: sleep 0.3; touch done2}\n"), io.Discard)
		if !errors.Is(err, client.ErrLogLost) || st == nil || st.State != event.Success || !exists(filepath.Join(w.dir, "done2")) {
			t.Errorf("Execute does not wait for the end: %+v, %v", st, err)
		}
		var tr strings.Builder
		if err := w.client.GetTrace(soon(t), "1", &tr, false); err != nil || !strings.Contains(tr.String(), "the logs are incomplete") {
			t.Errorf("the trace does not say so: %v", err)
		}
	})
	t.Run("a full disk cuts the log, and the run goes on", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("echo first; "+waitFor("go")+"; echo second; touch done"))
		await(t, "the first words are in the log", func() bool { return w.status("1").LogBytes > 0 })
		w.service.FillDisk("1")
		touch(t, filepath.Join(w.dir, "go"))
		await(t, "the step is done", func() bool { return exists(filepath.Join(w.dir, "done")) })
		if _, err := w.client.FollowLogs(soon(t), "1", io.Discard, client.LogOptions{Offset: 6}); !errors.Is(err, client.ErrLogLost) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("a follower gets %v", err)
		}
		if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{}, func(event.Event) error { return nil }); err != nil {
			t.Errorf("the events: %v", err)
		}
		if st := w.status("1"); st.State != event.Success {
			t.Errorf("the run ended with %+v", st)
		}
	})
	t.Run("a finished run expires that nobody closes", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("echo hi"))
		w.end("1")
		w.service.Sweep(time.Now().Add(service.DefaultKeep - time.Minute))
		w.status("1")
		w.service.Sweep(time.Now().Add(service.DefaultKeep + time.Minute))
		if _, err := w.client.Status(soon(t), "1"); !errors.Is(err, client.ErrNoRun) {
			t.Errorf("it is there: %v", err)
		}
		await(t, "its folder is gone", func() bool { return len(w.service.RunFolders()) == 0 })
	})
	t.Run("of too many finished runs the oldest expire", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.Kept = 2 })
		for _, id := range []string{"1", "2", "3"} {
			w.run(id, script("true"))
			w.end(id)
		}
		w.service.Sweep(time.Now())
		if list, err := w.client.List(soon(t)); err != nil || len(list) != 2 || list[0].ID != "2" {
			t.Errorf("left are %v, %v", list, err)
		}
	})
	t.Run("a run is stopped whose client is not heard of, but not while it follows", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("trap 'exit 1' TERM; echo started; while :; do sleep 0.05; done"))
		later := time.Now().Add(service.DefaultAbandonAfter + time.Minute)
		ctx, leave := context.WithCancel(soon(t))
		stream, err := w.api.FollowLogs(ctx, &runnerv1.FollowLogsRequest{Id: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		w.service.Sweep(later)
		if st := w.status("1"); st.State != event.Running {
			t.Fatalf("it was stopped: %+v", st)
		}
		leave()
		await(t, "the run is stopped", func() bool {
			w.service.Sweep(later)
			return w.service.Active() == 0
		})
		var stopped *client.Cancelled
		if err := w.status("1").Err(); !errors.As(err, &stopped) || !strings.Contains(err.Error(), "no client has asked") {
			t.Errorf("it ends with %v", err)
		}
	})
	t.Run("a server that lets one job be followed starts none", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.FollowOnly = true })
		if err := w.client.Run(soon(t), w.request("1", script("true"))); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("got %v", err)
		}
		adopted, err := w.service.Adopt("ci", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		adopted.Event(event.Event{Seq: 1, Time: time.Now(), Body: event.RunStarted{ID: "x"}})
		adopted.Event(event.Event{Seq: 2, Time: time.Now(), Step: "1", Body: event.Log{Stream: event.Stdout, Data: []byte("hello")}})
		if err := w.client.Close(soon(t), "ci"); err != nil {
			t.Error(err)
		}
		if err := w.client.Cancel(soon(t), "ci", event.Stop{Reason: "enough"}, false); err != nil {
			t.Error(err)
		}
		<-adopted.Cancelled()
		if got := adopted.Reason().Error(); !strings.Contains(got, "enough") {
			t.Errorf("the reason is %q", got)
		}
		adopted.Event(event.Event{Seq: 3, Time: time.Now(), Body: event.RunFinished{Status: event.Cancelled, Error: &event.Error{Kind: event.ErrorCancelled, Message: "stopped"}}})
		adopted.Finish()
		if got := w.log("ci"); got != "hello" {
			t.Errorf("the log is %q", got)
		}
		if st := w.status("ci"); st.State != event.Cancelled {
			t.Errorf("the status is %+v", st)
		}
	})
}
