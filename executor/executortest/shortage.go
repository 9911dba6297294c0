package executortest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
)

// Failure runs a script in a folder of an environment and returns the error that the run ends with: that of its step, or else why the
// environment failed.
func Failure(t *testing.T, env executor.Environment, dir, script string) *event.Error {
	t.Helper()
	j := &job{Environment: env}
	request := j.request("failure", script)
	request.WorkDir = dir
	events := &collected{}
	if err := session.Run(t.Context(), nil, env, request, events); err != nil {
		return session.AsError(context.WithoutCancel(t.Context()), err)
	}
	if events.failure == nil {
		t.Fatalf("it ends with %q, and its log is:\n%s", events.status(), events.log.String())
	}
	return events.failure
}

// Script runs a script in the project of an environment, and returns its log and why it failed: its step, or else the environment.
func Script(t *testing.T, env executor.Environment, script string) (string, *event.Error) {
	t.Helper()
	events := &collected{}
	if err := session.Run(t.Context(), nil, env, (&job{Environment: env}).request("script-"+rand.Text(), script), events); err != nil {
		return events.log.String(), session.AsError(context.WithoutCancel(t.Context()), err)
	}
	return events.log.String(), events.failure
}

// FirstLine runs a script in the project of an environment, and returns the first line of its log while it goes on; "" if it has none.
func FirstLine(ctx context.Context, env executor.Environment, script string) string {
	first := make(chan string, 1)
	events := &collected{seen: func(text string) {
		if line, _, whole := strings.Cut(text, "\n"); whole {
			select {
			case first <- line:
			default:
			}
		}
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = session.Run(ctx, nil, env, (&job{Environment: env}).request("line-"+rand.Text(), script), events)
	}()
	select {
	case line := <-first:
		return line
	case <-ended:
		return ""
	}
}

// RunFullDisk holds an environment against what is promised of full disks: disk is a folder of it on a small one, which is filled.
func RunFullDisk(t *testing.T, env executor.Environment, disk string) {
	t.Run("a script that fails on it is not the script's fault", func(t *testing.T) {
		if err := Failure(t, env, disk, "cat /dev/zero >big"); err.Code != event.CodeDiskFull || err.Step == "" || err.Hint == "" {
			t.Errorf("the error is %+v", err)
		}
	})
	t.Run("files that do not fit on it are refused for that", func(t *testing.T) {
		much := pack(t, []entry{{'0', "big", "", 0o644, string(make([]byte, 2<<20))}})
		err := session.Unpack(t.Context(), env, disk+"/in", much)
		if e := session.AsError(t.Context(), err); e == nil || e.Code != event.CodeDiskFull {
			t.Errorf("the error is %+v (%v)", e, err)
		}
	})
}
