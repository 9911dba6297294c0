package service_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/service/client"
)

const threeSteps = "- {name: a, script: echo a}\n- {name: b, script: echo b}\n- {name: c, when: always, script: echo c}\n"

// pausedRequest makes a request that stops before its first step.
func pausedRequest(r *client.Request) { r.Paused = true }

// pause waits until the run is paused and returns the next step.
func (w *world) pause(id string) string {
	w.t.Helper()
	at, waiting, err := w.client.Pause(soon(w.t), id, -1)
	if err != nil || at == nil {
		w.t.Fatalf("%v, %q, %v", at, waiting, err)
	}
	return at.Before
}

func (w *world) resume(id string, step bool) bool {
	w.t.Helper()
	was, err := w.client.Resume(soon(w.t), id, step)
	if err != nil {
		w.t.Fatal(err)
	}
	return was
}

func TestPause(t *testing.T) {
	t.Parallel()
	t.Run("a run is paused and resumed, however often somebody asks", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", threeSteps, pausedRequest)
		w.run("1", threeSteps, pausedRequest) // the same request
		for range 2 {
			if at := w.pause("1"); at != "1" {
				t.Errorf("it stands before step %s", at)
			}
		}
		if st := w.status("1"); st.State != event.Running || st.Paused == nil || st.Paused.Before != "1" {
			t.Errorf("%+v", st)
		}
		if !w.resume("1", true) {
			t.Error("it was not paused")
		}
		if at := w.pause("1"); at != "2" {
			t.Errorf("it stands before step %s", at)
		}
		if !w.resume("1", false) || w.resume("1", false) {
			t.Error("a run is resumed once")
		}
		if st := w.end("1"); st.State != event.Success || st.Paused != nil || w.log("1") != "a\nb\nc\n" {
			t.Errorf("%+v", st)
		}
		if _, _, err := w.client.Pause(soon(t), "1", -1); !errors.Is(err, client.ErrNotPaused) || !strings.Contains(err.Error(), "has ended") {
			t.Error(err)
		}
		if _, err := w.client.State(soon(t), "1", ""); !errors.Is(err, client.ErrNotPaused) {
			t.Error(err)
		}
		if err := w.client.Moved(soon(t), "1"); !errors.Is(err, client.ErrNotPaused) {
			t.Error(err)
		}
	})
	t.Run("the server says what a run waits for, and the request stays", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		marker := filepath.Join(w.dir, "go")
		started := filepath.Join(w.dir, "started")
		w.run("1", "- {name: long, script: 'touch "+started+"; "+waitFor(marker)+"'}\n- script: echo b\n")
		await(t, "the first step", func() bool { return exists(started) })
		at, waiting, err := w.client.Pause(soon(t), "1", 0)
		if err != nil || at != nil || waiting != `step 1 ("long") is running` {
			t.Errorf("%v, %q, %v", at, waiting, err)
		}
		touch(t, marker)
		if at := w.pause("1"); at != "2" {
			t.Errorf("it stands before step %s", at)
		}
		if _, err := w.api.Pause(soon(t), &runnerv1.PauseRequest{Id: "nobody"}); status.Code(err) != codes.NotFound {
			t.Error(err)
		}
	})
	t.Run("a cancel ends the pause, and the run cleans up", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", threeSteps, pausedRequest)
		w.pause("1")
		if err := w.client.Cancel(soon(t), "1", event.Stop{Reason: "enough"}, false); err != nil {
			t.Fatal(err)
		}
		if st := w.end("1"); st.State != event.Cancelled || w.log("1") != "c\n" {
			t.Errorf("%+v: %q", st, w.log("1"))
		}
	})
	t.Run("a forced cancel ends the pause at once", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", threeSteps, pausedRequest)
		w.pause("1")
		if err := w.client.Cancel(soon(t), "1", event.Stop{}, true); err != nil {
			t.Fatal(err)
		}
		if st := w.end("1"); st.State != event.Cancelled || w.log("1") != "" {
			t.Errorf("%+v: %q", st, w.log("1"))
		}
	})
	t.Run("a run stays paused when its client disconnects, until it is abandoned", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.AbandonAfter = 3 * time.Second })
		other, err := client.Dial("unix:" + w.socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Run(soon(t), w.request("1", threeSteps, pausedRequest)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := other.Pause(soon(t), "1", -1); err != nil {
			t.Fatal(err)
		}
		_ = other.Disconnect()
		if st := w.status("1"); st.Paused == nil {
			t.Errorf("%+v", st)
		}
		await(t, "the run is abandoned", func() bool { return w.service.Active() == 0 })
		if st := w.end("1"); st.State != event.Cancelled || st.Error.Code != event.CodeAbandoned {
			t.Errorf("%+v", st)
		}
	})
	t.Run("a run is not paused for ever", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.Pause = 200 * time.Millisecond })
		w.run("1", threeSteps, pausedRequest)
		if st := w.end("1"); st.State != event.Cancelled || st.Error.Code != event.CodePausedTooLong || w.log("1") != "c\n" {
			t.Errorf("%+v", st)
		}
	})
	t.Run("the timeout of the run stands still while it is paused", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", "- script: echo a\n- script: sleep 600\n", pausedRequest, func(r *client.Request) { r.Timeout = 2 * time.Second })
		w.pause("1")
		since := w.status("1").Paused.Since
		await(t, "more time than the run has", func() bool { return time.Since(since) > 2100*time.Millisecond })
		w.resume("1", false)
		if st := w.end("1"); st.Error == nil || st.Error.Code != event.CodeRunTimeout || w.log("1") != "a\n" {
			t.Errorf("%+v: %q", st, w.log("1"))
		}
	})
	t.Run("closing a paused run cancels it", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		marker := filepath.Join(w.dir, "cleaned")
		w.run("1", "- script: echo a\n- {when: always, script: 'touch "+marker+"'}\n", pausedRequest)
		w.pause("1")
		if err := w.client.Close(soon(t), "1"); err != nil || !exists(marker) {
			t.Error(err)
		}
	})
}

func TestMoving(t *testing.T) {
	t.Parallel()
	secret := func(r *client.Request) {
		r.Secrets = map[string]string{"TOKEN": "s3cr3t-value"}
		r.Variables = []client.Variable{{Name: "FILE", Value: "content", File: true}}
	}
	const steps = "- {name: a, script: 'echo ${{ job.FILE }} >where'}\n- {name: b, script: 'cat ${{ job.FILE }}'}\n- {name: c, when: always, script: echo c}\n"
	w := serve(t)
	w.run("1", steps, pausedRequest, secret)
	w.pause("1")
	w.resume("1", true)
	w.pause("1")
	state, err := w.client.State(soon(t), "1", "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.client.State(soon(t), "1", ""); err != nil || !bytes.Equal(again.Document, state.Document) {
		t.Errorf("the state is another one when it is asked for again: %v", err)
	}
	from := func(r *client.Request) { r.From = &client.Origin{State: state} }
	t.Run("a request that does not fit is refused", func(t *testing.T) {
		for want, change := range map[string]func(*client.Request){
			"other steps":                    func(r *client.Request) { r.Text += "- script: more\n" },
			"must be passed again":           func(r *client.Request) { r.Secrets = nil },
			"differs from the run":           func(r *client.Request) { r.Secrets = map[string]string{"TOKEN": "other-value"} },
			"other job variables":            func(r *client.Request) { r.Variables = nil },
			"files or locked components":     func(r *client.Request) { r.Variables[0].Value = "other content" },
			"not in its canonical form":      func(r *client.Request) { r.From.State.Document = append(bytes.Clone(state.Document), ' ') },
			"is not JSON":                    func(r *client.Request) { r.From.State.Document = []byte("x") },
			"is not an absolute path":        func(r *client.Request) { r.From.Folder = "here" },
			"and cannot go on in":            func(r *client.Request) { r.WorkDir = t.TempDir() },
			`the format "<nil>"`:             func(r *client.Request) { r.From.State.Document = []byte("{}") },
			"more than 100000 sensitive":     func(r *client.Request) { r.From.State.Sensitive = make([][]byte, 100_001) },
			"the state is not a JSON object": func(r *client.Request) { r.From.State.Document = []byte("[]") },
		} {
			r := w.request("2", steps, secret, from, change)
			var wrong *client.Definition
			if err := w.client.Run(soon(t), r); !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
	})
	t.Run("it goes on in another server, while the first one ends without another step", func(t *testing.T) {
		other := serve(t)
		if err := w.client.Moved(soon(t), "1"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.Status(soon(t), "1"); !errors.Is(err, client.ErrNoRun) {
			t.Error(err)
		}
		r := w.request("2", steps, secret, from)
		if err := other.client.Run(soon(t), r); err != nil {
			t.Fatal(err)
		}
		if st := other.end("2"); st.State != event.Success || other.log("2") != "contentc\n" {
			t.Errorf("%+v: %q", st, other.log("2"))
		}
	})
}

func TestFollowersOfARunThatMovesSeeItsEnd(t *testing.T) {
	t.Parallel()
	w := serve(t)
	w.run("1", threeSteps, pausedRequest)
	w.pause("1")
	var last event.Body
	done := make(chan error, 1)
	seen := make(chan struct{})
	go func() {
		_, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{}, func(e event.Event) error {
			last = e.Body
			if _, paused := e.Body.(event.Paused); paused {
				close(seen)
			}
			return nil
		})
		done <- err
	}()
	<-seen
	if err := w.client.Moved(soon(t), "1"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil && !errors.Is(err, client.ErrNoRun) {
		t.Error(err)
	}
	if _, paused := last.(event.Paused); !paused {
		t.Errorf("the last event is %T", last)
	}
}
