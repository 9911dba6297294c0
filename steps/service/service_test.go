package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

func TestRun(t *testing.T) {
	t.Parallel()
	t.Run("runs a component that was sent as a plan, with inputs, and gives its outputs", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		component, err := gitlabsteps.ParseFile("step.yml", []byte(`
spec:
  inputs: {count: {type: number}, password: {type: string, sensitive: true}}
  outputs: {next: {type: number}, key: {type: string, sensitive: true}}
---
exec:
  command: [sh, -c, 'echo "{\"name\":\"next\",\"value\":${{ inputs.count + 1 }}}" >"$0"; echo "{\"name\":\"key\",\"value\":\"k-$1\"}" >>"$0"; echo count $1', '${{ output_file }}', '${{ inputs.password }}']
`))
		if err != nil {
			t.Fatal(err)
		}
		request := client.Request{
			ID: "1", Component: component, WorkDir: w.dir,
			Inputs: map[string]value.Value{"count": value.OfInt(9007199254740993), "password": value.OfString("sw0rdfish")},
		}
		var log bytes.Buffer
		st, err := w.client.Execute(soon(t), request, &log)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Outputs["next"]; got.Text() != "9007199254740994" {
			t.Errorf("the output next is %s", got.Text())
		}
		if _, redacted := event.IsRedacted(st.Outputs["key"]); !redacted {
			t.Errorf("the sensitive output is %s", st.Outputs["key"].Text())
		}
		if log.String() != "count [MASKED]\n" {
			t.Errorf("the log is %q", log.String())
		}
	})
	t.Run("tells all that is wrong with steps, and where, and starts nothing", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		err := w.client.Run(soon(t), client.Request{ID: "1", TextName: "job.yml", Text: "- name: a\n  scirpt: echo\n- name: b\n  script: ${{ }}\n"})
		list := diag.Of(err)
		var wrong *client.Definition
		if !errors.As(err, &wrong) || len(list) < 2 {
			t.Fatalf("got %v", err)
		}
		first := list[0]
		if first.File != "job.yml" || first.Line != 2 || first.Column != 3 || first.Length != 6 || first.Source != "  scirpt: echo" || !strings.Contains(first.Hint, "script") {
			t.Errorf("the first is %+v", first)
		}
		if _, err := w.client.Status(soon(t), "1"); !errors.Is(err, client.ErrNoRun) {
			t.Errorf("it has a status: %v", err)
		}
	})
	t.Run("tells what is wrong with a plan", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		for want, component := range map[string]*plan.Component{
			"needs an exec or steps": {},
			"two steps are named":    {Definition: plan.Definition{Steps: []plan.Step{echo("a"), echo("a")}}},
			"at least one word":      {Definition: plan.Definition{Exec: &plan.Exec{}}},
			"needs one of":           {Definition: plan.Definition{Steps: []plan.Step{{Name: "a"}}}},
			"must consist of":        {Definition: plan.Definition{Steps: []plan.Step{echo("a b")}}},
			"no step here is named":  {Definition: plan.Definition{Steps: []plan.Step{echo("a")}, Delegate: "b"}},
			"an exec needs either":   {Definition: plan.Definition{Steps: []plan.Step{echo("a")}, Post: &plan.Hook{Exec: &plan.Exec{}}}},
			"pre.if: ":               {Definition: plan.Definition{Steps: []plan.Step{echo("a")}, Pre: &plan.Hook{Exec: &plan.Exec{Command: []plan.Field{{Value: value.OfString("a")}}}, If: &plan.Field{Value: value.OfString("a ==")}}}},
			`waits for "b"`:          {Definition: plan.Definition{Steps: []plan.Step{echo("b"), {Name: "w", Await: &plan.Await{Steps: []string{"b"}}}}}},
			"nothing to run in":      {Definition: plan.Definition{Steps: []plan.Step{{Name: "w", Background: true, Await: &plan.Await{}}}}},
			"context.x: ":            {Definition: plan.Definition{Steps: []plan.Step{echo("a")}, Context: map[string]plan.Field{"x": {Value: value.OfString("${{ a")}}}},
			"is not closed":          {Definition: plan.Definition{Exec: &plan.Exec{Command: []plan.Field{{Value: value.OfString("${{ a")}}}}},
		} {
			err := w.client.Run(soon(t), client.Request{ID: "1", Component: component})
			if list := diag.Of(err); len(list) == 0 || !strings.Contains(list.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
	})
	t.Run("refuses an id that is taken by another request, through either API", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("echo first"))
		err := w.client.Run(soon(t), w.request("1", script("echo second")))
		if !errors.Is(err, client.ErrIDTaken) || !strings.Contains(err.Error(), "different steps") {
			t.Errorf("other steps: %v", err)
		}
		err = w.client.Run(soon(t), w.request("1", script("echo first"), func(r *client.Request) { r.Secrets = map[string]string{"A": "bbbbbb"} }))
		if !errors.Is(err, client.ErrIDTaken) {
			t.Errorf("another secret: %v", err)
		}
		o := &oldClient{w}
		if _, err := w.old.Run(soon(t), oldRequest("1", w.dir, script("echo first"))); status.Code(err) != codes.AlreadyExists {
			t.Errorf("the same steps through the other API: %v", err)
		}
		if got := o.log("1", 0); got != "first\n" {
			t.Errorf("the log is %q", got)
		}
		o.close("1")
		w.run("1", script("echo second"))
		if got := w.log("1"); got != "second\n" {
			t.Errorf("after it was closed, the log is %q", got)
		}
	})
	t.Run("refuses what cannot be", func(t *testing.T) {
		t.Parallel()
		w := serve(t, func(o *service.Options) { o.Limits.Duration = time.Hour })
		for want, change := range map[string]func(*client.Request){
			"1 to 256 bytes":            func(r *client.Request) { r.ID = strings.Repeat("x", 257) },
			"not an absolute path":      func(r *client.Request) { r.WorkDir = "here" },
			"limit of 1h0m0s":           func(r *client.Request) { r.Timeout = 2 * time.Hour },
			"not be negative":           func(r *client.Request) { r.Timeout = -1 },
			"a grace of":                func(r *client.Request) { r.Grace = time.Hour },
			"environment variable":      func(r *client.Request) { r.Env = map[string]string{"A=B": "c"} },
			"cannot be a file name":     func(r *client.Request) { r.Variables = []client.Variable{{Name: "../x", File: true}} },
			"the job variable \"A\" is": func(r *client.Request) { r.Variables = []client.Variable{{Name: "A"}, {Name: "A"}} },
		} {
			if err := w.client.Run(soon(t), w.request("1", script("true"), change)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
	})
	t.Run("says how a run failed with an error of its own type", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		var step *client.StepFailure
		if _, err := w.client.Execute(soon(t), w.request("1", script("exit 42")), io.Discard); !errors.As(err, &step) || step.ExitCode != 42 {
			t.Errorf("a step that fails: %v", err)
		}
		var missing *client.Missing
		if _, err := w.client.Execute(soon(t), w.request("2", "- {name: a, step: ./nowhere}"), io.Discard); !errors.As(err, &missing) {
			t.Errorf("a step that is not there: %v", err)
		}
		w.write("asks/step.yml", "spec: {secrets: {KEY: {}}}\n---\nexec: {command: ['true']}\n")
		var denied *client.Denied
		if _, err := w.client.Execute(soon(t), w.request("3", "- {name: a, step: ./asks}"), io.Discard); !errors.As(err, &denied) {
			t.Errorf("a secret that was not granted: %v", err)
		}
		var definition *client.Definition
		if _, err := w.client.Execute(soon(t), w.request("4", "- {name: a, script: 'echo ${{ env.NOPE }}'}"), io.Discard); !errors.As(err, &definition) || len(definition.Err.Diagnostics) == 0 || definition.Err.Diagnostics[0].Line != 1 {
			t.Errorf("an expression that cannot be evaluated: %v", err)
		}
	})
	t.Run("says in which step a failure began", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.write("in/step.yml", "spec: {}\n---\nsteps:\n- {name: fine, script: 'true'}\n- {name: deep, script: exit 6}\n")
		for want, steps := range map[string]string{
			"1 a":        "- {name: a, script: exit 1}\n- {name: b, if: always(), script: exit 1}\n",
			"2.2 b/deep": "- {name: a, script: 'true'}\n- {name: b, step: ./in}\n- {name: c, if: always(), script: exit 6}\n",
			"2.1 b/slow": "- {name: a, script: 'true'}\n- {name: b, parallel: [{name: slow, script: sleep 0.1; exit 3}, {name: fast, script: exit 4}]}\n",
			"3 c":        "- {name: a, step: ./in, allow_failure: true}\n- {name: b, script: 'true'}\n- {name: c, script: exit 6}\n",
		} {
			w.run(want, steps)
			e := w.end(want).Error
			if e.Step+" "+e.StepName != want || e.Code != event.CodeExitStatus || e.Kind != event.ErrorStep {
				t.Errorf("it began in %q %q, not in %q: %+v", e.Step, e.StepName, want, e)
			}
		}
		w.run("late", "- {name: a, script: sleep 600, timeout: 50ms}\n")
		if e := w.end("late").Error; e.Code != event.CodeStepTimeout || e.Timeout == nil || *e.Timeout != (event.Timeout{Of: event.TimeoutStep, Limit: plan.Duration(50 * time.Millisecond)}) {
			t.Errorf("a step that exceeds its time limit: %+v", e)
		}
	})
	t.Run("what keeps a run from starting is told by its events, as to all who ask", func(t *testing.T) {
		t.Parallel()
		wrong := event.NewError(event.CodeDefinitionInvalid, "sources.toml:1:3: [[rule]] is not known here")
		wrong.Hint = "begin with [[source]]"
		for name, test := range map[string]struct {
			change func(*service.Options)
			want   *event.Error
		}{
			"sources that say whose fault it is": {func(o *service.Options) {
				o.Sources = func(service.SourcesOf) (source.Source, error) { return nil, fmt.Errorf("opening: %w", wrong) }
			}, wrong},
			"sources that do not": {func(o *service.Options) {
				o.Sources = func(service.SourcesOf) (source.Source, error) { return nil, errors.New("no such disk") }
			}, event.NewError(event.CodeInternalError, "no such disk")},
			"a bug": {func(o *service.Options) { o.Engine = func() engine.Options { panic("a bug") } },
				event.NewError(event.CodeInternalError, "internal error; the server's log has the details")},
		} {
			w := serve(t, test.change)
			w.run("1", script("echo never"))
			var told []event.Event
			if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{Logs: true}, func(e event.Event) error {
				told = append(told, e)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if len(told) != 2 || told[0].Seq != 1 || told[1].Seq != 2 {
				t.Fatalf("%s: the events are %+v, want the first and the last of a run", name, told)
			}
			if _, first := told[0].Body.(event.RunStarted); !first {
				t.Errorf("%s: the first event is %+v", name, told[0])
			}
			end, last := told[1].Body.(event.RunFinished)
			if diff := cmp.Diff(test.want, end.Error); !last || end.Status != event.Failure || diff != "" {
				t.Errorf("%s: the last event is %+v (-want +got):\n%s", name, told[1], diff)
			}
			if got := w.status("1"); got.State != event.Failure || got.Error.Message != test.want.Message {
				t.Errorf("%s: its status is %+v", name, got)
			}
		}
	})
	t.Run("survives a bug in what it stands on", func(t *testing.T) {
		t.Parallel()
		logged := make(chan string, 10)
		w := serve(t, func(o *service.Options) {
			healthy := o.Engine
			calls := 0
			o.Engine = func() engine.Options {
				if calls++; calls == 1 {
					panic("a bug")
				}
				return healthy()
			}
			parse := o.Parse
			o.Parse = func(name string, text []byte) (*plan.Component, error) {
				if string(text) == "panic" {
					panic("another bug")
				}
				return parse(name, text)
			}
			o.Log = func(line string) { logged <- line }
		})
		w.run("1", script("true"))
		var system *client.System
		if err := w.end("1").Err(); !errors.As(err, &system) {
			t.Errorf("the run ends with %v", err)
		}
		if line := <-logged; !strings.Contains(line, "a bug") || !strings.Contains(line, "goroutine") {
			t.Errorf("the server's log has %q", line)
		}
		if err := w.client.Run(soon(t), w.request("2", "panic")); status.Code(err) != codes.Internal {
			t.Errorf("a call that panics: %v", err)
		}
		w.run("3", script("echo fine"))
		if got := w.log("3"); got != "fine\n" {
			t.Errorf("afterwards, the log is %q", got)
		}
	})
}

func echo(name string) plan.Step {
	return plan.Step{Name: name, Inline: &plan.Component{Definition: plan.Definition{Exec: &plan.Exec{Command: []plan.Field{{Value: value.OfString("true")}}}}}}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	t.Run("B07 a log comes byte for byte while it is written", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script(`printf 'a\n\n\r\n\000\377\303'; `+waitFor("go")+`; head -c 3000000 /dev/zero | tr '\0' x; printf '\n\nend'`))
		var got bytes.Buffer
		seen := func(p []byte) (int, error) {
			if got.Len() == 0 { // the step waits until its first words have arrived
				touch(t, filepath.Join(w.dir, "go"))
			}
			return got.Write(p)
		}
		if _, err := w.client.FollowLogs(soon(t), "1", writerFunc(seen), client.LogOptions{}); err != nil {
			t.Fatal(err)
		}
		want := "a\n\n\r\n\x00\xff\xc3" + strings.Repeat("x", 3000000) + "\n\nend"
		if got.String() != want {
			t.Errorf("got %d bytes with digest %s, want %d with %s", got.Len(), digest(got.Bytes()), len(want), digest([]byte(want)))
		}
	})
	t.Run("the log of one step can be followed alone", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", "- {name: a, script: 'echo one; echo two >&2'}\n- {name: b, run: [{name: c, script: echo three}]}\n- {name: d, script: echo four, retry: 1}\n")
		for step, want := range map[string]string{"1": "one\ntwo\n", "2.1": "three\n", "3": "four\n", "9": ""} {
			var b bytes.Buffer
			if _, err := w.client.FollowLogs(soon(t), "1", &b, client.LogOptions{Step: step}); err != nil {
				t.Fatal(err)
			}
			if len(b.String()) != len(want) || step != "1" && b.String() != want {
				t.Errorf("the log of %s is %q", step, b.String())
			}
		}
		var b bytes.Buffer
		if at, err := w.client.FollowLogs(soon(t), "1", &b, client.LogOptions{Step: "2.1", Offset: 2}); err != nil || b.String() != "ree\n" || at != 6 {
			t.Errorf("from 2 on it is %q, %d, %v", b.String(), at, err)
		}
	})
	t.Run("events come in order, whole, and from where they are wanted", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", "- {name: a, script: echo hello}\n- {name: b, script: exit 3}\n")
		var all []event.Event
		last, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{Logs: true}, func(e event.Event) error {
			all = append(all, e)
			return nil
		})
		if err != nil || last != int64(len(all)) {
			t.Fatalf("%d events, the last is %d, %v", len(all), last, err)
		}
		for i, e := range all {
			if e.Seq != int64(i+1) {
				t.Errorf("event %d is in place %d", e.Seq, i+1)
			}
		}
		if _, first := all[0].Body.(event.RunStarted); !first {
			t.Errorf("the first is %T", all[0].Body)
		}
		end, _ := all[len(all)-1].Body.(event.RunFinished)
		if end.Status != event.Failure || end.ExitCode == nil || *end.ExitCode != 3 {
			t.Errorf("the last is %+v", end)
		}
		text := ""
		for _, e := range all {
			if l, ok := e.Body.(event.Log); ok {
				text += fmt.Sprintf("%s %s %d %q", e.Step, l.Stream, l.Offset, l.Data)
			}
		}
		if text != `1 stdout 0 "hello\n"` {
			t.Errorf("the log is %s", text)
		}
		var rest []int64
		if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{After: last - 2}, func(e event.Event) error {
			rest = append(rest, e.Seq)
			return nil
		}); err != nil || len(rest) != 2 || rest[0] != last-1 {
			t.Errorf("after %d come %v, %v", last-2, rest, err)
		}
	})
	t.Run("a lost connection is taken up where it was", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("echo before; "+waitFor("go")+"; echo after"))
		var got bytes.Buffer
		broken := false
		seen := func(p []byte) (int, error) {
			n, _ := got.Write(p)
			if !broken {
				broken = true
				go w.reconnect()
			}
			return n, nil
		}
		if _, err := w.client.FollowLogs(soon(t), "1", writerFunc(seen), client.LogOptions{}); err != nil {
			t.Fatal(err)
		}
		if got.String() != "before\nafter\n" {
			t.Errorf("the log is %q", got.String())
		}
	})
	t.Run("a server that was started anew does not know the run", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("echo before; sleep 600"), func(r *client.Request) { r.Grace = -1 })
		restarted := false
		_, err := w.client.FollowLogs(soon(t), "1", writerFunc(func(p []byte) (int, error) {
			if !restarted {
				restarted = true
				go func() { w.server.Stop(cancelled()); w.service.Close(); w.start() }()
			}
			return len(p), nil
		}), client.LogOptions{})
		if !errors.Is(err, client.ErrNoRun) || !strings.Contains(err.Error(), "server was restarted") {
			t.Errorf("got %v", err)
		}
	})
}

// reconnect cuts every connection, and lets the step go on that waits for it.
func (w *world) reconnect() {
	w.server.Stop(cancelled())
	listener, err := service.ListenUnix(w.socket)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.serveOn(listener)
	touch(w.t, filepath.Join(w.dir, "go"))
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func TestTrace(t *testing.T) {
	t.Parallel()
	w := serve(t)
	w.run("1", "- {name: a, script: 'echo one; printf \"\\377\"; "+waitFor("go")+"'}\n- {name: b, script: echo two}\n")
	await(t, "the first words are in the log", func() bool { return w.status("1").LogBytes > 0 })
	if err := w.client.GetTrace(soon(t), "1", io.Discard, false); !errors.Is(err, client.ErrNotEnded) {
		t.Errorf("of a run that goes on: %v", err)
	}
	read := func(incomplete bool) *trace.Trace {
		t.Helper()
		var b bytes.Buffer
		if err := w.client.GetTrace(soon(t), "1", &b, incomplete); err != nil {
			t.Fatal(err)
		}
		tr, err := trace.Read(w.write("trace.json", b.String()))
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	if tr := read(true); !tr.Incomplete || tr.Run.Status != event.Running || len(tr.Steps) != 1 {
		t.Errorf("the incomplete trace: %+v", tr.Run)
	}
	touch(t, filepath.Join(w.dir, "go"))
	w.end("1")
	tr := read(false)
	if tr.Incomplete || tr.Run.Status != event.Success || len(tr.Steps) != 2 {
		t.Errorf("the trace: %+v", tr.Run)
	}
	logs := ""
	if err := tr.Chunks(func(c trace.Chunk) error { logs += string(c.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	if logs != "one\n\xfftwo\n" {
		t.Errorf("its logs are %q", logs)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	t.Run("is graceful, and then forced", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		steps := "- name: stubborn\n  script: |\n    trap 'touch asked' TERM\n    touch started\n    while :; do sleep 0.05; done\n- {name: clean, when: always, script: touch cleaned}\n"
		w.run("1", steps, func(r *client.Request) { r.Grace = time.Minute })
		await(t, "the step has started", func() bool { return exists(filepath.Join(w.dir, "started")) })
		if err := w.client.Cancel(soon(t), "1", event.Stop{Code: event.CodeExitStatus}, false); err == nil || !strings.Contains(err.Error(), `"exit_status" is not the code`) {
			t.Errorf("with the code of a failure: %v", err)
		}
		if err := w.client.Cancel(soon(t), "1", event.Stop{Code: event.CodeInterrupted, Reason: "no longer needed"}, false); err != nil {
			t.Fatal(err)
		}
		await(t, "the step was asked to end", func() bool { return exists(filepath.Join(w.dir, "asked")) })
		if st := w.status("1"); st.State != event.Running {
			t.Errorf("it has ended: %+v", st)
		}
		if err := w.client.Cancel(soon(t), "1", event.Stop{}, true); err != nil {
			t.Fatal(err)
		}
		var stopped *client.Cancelled
		if err := w.end("1").Err(); !errors.As(err, &stopped) || stopped.Err.Code != event.CodeInterrupted || stopped.Err.Message != "stopped: no longer needed" {
			t.Errorf("it ends with %v", err)
		}
		if exists(filepath.Join(w.dir, "cleaned")) {
			t.Error("what cleans up ran, though everything was to end at once")
		}
		if err := w.client.Cancel(soon(t), "1", event.Stop{}, false); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := w.client.Cancel(soon(t), "2", event.Stop{}, false); !errors.Is(err, client.ErrNoRun) {
			t.Errorf("of another: %v", err)
		}
	})
	t.Run("closing a run that goes on stops it", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("trap 'touch asked; exit' TERM; touch started; while :; do sleep 0.05; done"))
		await(t, "the step has started", func() bool { return exists(filepath.Join(w.dir, "started")) })
		if err := w.client.Close(soon(t), "1"); err != nil {
			t.Fatal(err)
		}
		if !exists(filepath.Join(w.dir, "asked")) || w.service.Active() != 0 {
			t.Error("the run goes on")
		}
		if left := w.service.RunFolders(); len(left) > 0 {
			t.Errorf("%d folders are left", len(left))
		}
	})
	t.Run("a server that ends stops its runs", func(t *testing.T) {
		t.Parallel()
		w := serve(t)
		w.run("1", script("trap 'echo asked; exit 1' TERM; touch started; while :; do sleep 0.05; done"))
		await(t, "the step has started", func() bool { return exists(filepath.Join(w.dir, "started")) })
		w.service.Stop(soon(t))
		if got := w.log("1"); !strings.Contains(got, "asked\n") {
			t.Errorf("the log is %q", got)
		}
		if err := w.client.Run(soon(t), w.request("2", script("true"))); status.Code(err) != codes.Unavailable {
			t.Errorf("it takes another run: %v", err)
		}
		w.stop()
		if exists(w.service.Folder()) {
			t.Error("its folder is left")
		}
	})
}

func TestStatusIsOfOneOrAll(t *testing.T) {
	t.Parallel()
	w := serve(t)
	for _, id := range []string{"b", "a", "c"} {
		w.run(id, script("true"))
		w.end(id)
	}
	list, err := w.client.List(soon(t))
	if err != nil || len(list) != 3 || list[0].ID != "b" || list[2].ID != "c" {
		t.Errorf("got %v, %v", list, err)
	}
	st := list[1]
	if st.State != event.Success || st.Started.IsZero() || st.Finished.Before(st.Started) || st.LastEvent == 0 || st.Err() != nil {
		t.Errorf("a is %+v", st)
	}
	out, err := w.api.Status(soon(t), &runnerv1.StatusRequest{Id: "nobody"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("of nobody: %v, %v", out, err)
	}
}

func TestProgramsAreIdentifiedForATraceOnly(t *testing.T) {
	t.Parallel()
	for _, untraced := range []bool{false, true} {
		w := serve(t, func(o *service.Options) {
			engineOf := o.Engine
			o.Engine = func() engine.Options {
				out := engineOf()
				out.Programs = true
				return out
			}
		})
		w.run("1", script("true"), func(r *client.Request) { r.Untraced = untraced })
		w.end("1")
		var identified bool
		if _, err := w.client.FollowSteps(soon(t), "1", client.StepOptions{}, func(e event.Event) error {
			if end, ok := e.Body.(event.ExecFinished); ok {
				identified = identified || end.Program != nil
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if identified == untraced {
			t.Errorf("untraced is %v, and programs are identified: %v", untraced, identified)
		}
	}
}
