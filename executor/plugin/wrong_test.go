//go:build unix

package plugin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/internal/pluginhost/handshake"
	"github.com/rungci/rung/internal/pluginhost/rawplugin"
	sdk "github.com/rungci/rung/sdk/executor"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// soon bounds how long a job may go on when its plugin does not work. The limits of calls make it 30 seconds; a machine that others use gets
// more.
const soon = 2 * time.Minute

// wrongs is what the plugin "fake" does wrong: options.
type wrongs struct {
	// At are names of acts by call.
	At map[fake.Call]string `json:"at,omitempty"`
	// Lie is a lie about the environment.
	Lie string `json:"lie,omitempty"`
	// Once is a file: what is wrong is so only as long as it does not exist.
	Once string `json:"once,omitempty"`
}

var acts = map[string]fake.Act{
	"stick": fake.Stick, "panic": fake.Panic, "die": fake.Die,
	"user":    fake.Fail(&executor.UserError{Message: "no such image", Hint: "name another", Err: &executor.PullError{Image: "nowhere", Err: errors.New("404")}}),
	"refuse":  fake.Fail(&executor.Refusal{Level: "fake", What: "that", Could: executor.VM}),
	"gone":    fake.Fail(&executor.Gone{Reason: "it ran out of memory", Err: executor.ErrOutOfMemory}),
	"missing": fake.Fail(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}),
	"owned":   fake.Fail(fmt.Errorf("%w: x", executor.ErrOwned)),
}

var lies = map[string]func(*executor.Handle, *executor.Layout){
	"another level":   func(h *executor.Handle, _ *executor.Layout) { h.Level = "vm" },
	"no id":           func(h *executor.Handle, _ *executor.Layout) { h.ID = "" },
	"no state":        func(h *executor.Handle, _ *executor.Layout) { h.State = json.RawMessage("{") },
	"a relative path": func(_ *executor.Handle, l *executor.Layout) { l.Project = "builds" },
	"no folder":       func(_ *executor.Handle, l *executor.Layout) { l.Bin = "" },
	"a variable":      func(_ *executor.Handle, l *executor.Layout) { l.Env = map[string]string{"A=B": "c"} },
	"too much a state": func(h *executor.Handle, _ *executor.Layout) {
		h.State = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	},
}

func init() {
	plugins["fake"] = sdk.Plugin{
		Name: "fake", Level: "fake", Rank: "container", Schema: `{"type":"object","properties":{"at":{"type":"object"},"lie":{"type":"string"},"once":{"type":"string"}},"additionalProperties":false}`,
		Open: func(_ context.Context, setup sdk.Setup, options json.RawMessage) (sdk.Executor, error) {
			var w wrongs
			if err := json.Unmarshal(options, &w); err != nil {
				return nil, err
			}
			e := &fake.Executor{At: map[fake.Call]fake.Act{}, Lease: setup.Lease, Run: func(_ context.Context, r *fake.Run) event.Status {
				r.Log("hello\n")
				return event.Success
			}}
			if _, err := os.Stat(w.Once); w.Once != "" && err == nil {
				return e, nil
			}
			if w.Once != "" {
				if err := os.WriteFile(w.Once, nil, 0o600); err != nil {
					return nil, err
				}
			}
			for call, name := range w.At {
				e.At[call] = acts[name]
			}
			e.Lie = lies[w.Lie]
			return e, nil
		},
	}
}

func options(t *testing.T, w wrongs) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// open opens the plugin "fake".
func open(t *testing.T, w wrongs) *plugin.Executor {
	t.Helper()
	c := config("fake")
	c.Options = options(t, w)
	e, err := plugin.Open(t.Context(), c, executor.Setup{Lease: executor.Lease{Owner: "test", Keep: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func job(id string) *executor.Job { return &executor.Job{ID: id, ProjectName: "shop"} }

// calls are what a session does, each as far as it gets.
var calls = map[fake.Call]func(ctx context.Context, e *plugin.Executor, env executor.Environment) error{
	fake.Check: func(ctx context.Context, _ *plugin.Executor, env executor.Environment) error { return env.Check(ctx) },
	fake.Connect: func(ctx context.Context, _ *plugin.Executor, env executor.Environment) error {
		_, err := env.Connect(ctx)
		return err
	},
	fake.Send: func(ctx context.Context, _ *plugin.Executor, env executor.Environment) error {
		return session.SendText(ctx, env, "/builds/shop/file", "text")
	},
	fake.Fetch: func(ctx context.Context, _ *plugin.Executor, env executor.Environment) error {
		return env.Fetch(ctx, "/builds/shop", io.Discard)
	},
	fake.Detach: func(_ context.Context, _ *plugin.Executor, env executor.Environment) error { return env.Detach() },
	fake.Close:  func(ctx context.Context, _ *plugin.Executor, env executor.Environment) error { return env.Close(ctx) },
	fake.Recover: func(ctx context.Context, e *plugin.Executor, env executor.Environment) error {
		_, err := e.Recover(ctx, env.Handle())
		return err
	},
	fake.CloseExecutor: func(_ context.Context, e *plugin.Executor, _ executor.Environment) error { return e.Close() },
}

// wantSoon holds that a call of a plugin that does not work ends in time with a sentence about it.
func wantSoon(t *testing.T, began time.Time, err error) {
	t.Helper()
	if took := time.Since(began); took > soon {
		t.Errorf("it took %s", took)
	}
	var failure *plugin.Failure
	if !errors.As(err, &failure) || failure.Plugin != "fake" || !strings.Contains(err.Error(), `the executor plugin "fake"`) {
		t.Errorf("the error is %v", err)
	}
	if e := session.AsError(context.Background(), err); err != nil && e.Kind != event.ErrorSystem {
		t.Errorf("it is an error of the kind %s, and not an internal one", e.Kind)
	}
}

func TestAPluginThatHangsEndsTheJobSoon(t *testing.T) {
	t.Run("Prepare", func(t *testing.T) {
		t.Parallel()
		e, began := open(t, wrongs{At: map[fake.Call]string{fake.Prepare: "stick"}}), time.Now()
		_, err := e.Prepare(t.Context(), job("one"), nil)
		if took := time.Since(began); took > 2*soon { // its clean-up is waited for, too
			t.Errorf("it took %s", took)
		}
		wantSoon(t, time.Now(), err)
	})
	for call, do := range calls {
		t.Run(string(call), func(t *testing.T) {
			t.Parallel()
			e := open(t, wrongs{At: map[fake.Call]string{call: "stick"}})
			env, err := e.Prepare(t.Context(), job("one"), nil)
			if err != nil {
				t.Fatal(err)
			}
			other, err := e.Prepare(t.Context(), job("two"), nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			wantSoon(t, began, do(t.Context(), e, env))
			if call != fake.CloseExecutor && other.Err() != nil {
				t.Errorf("the job beside it has ended, too: %v", other.Err())
			}
		})
	}
}

func TestAPluginThatDiesEndsTheJobAndIsThereForTheNext(t *testing.T) {
	for call, do := range calls {
		if call == fake.CloseExecutor {
			continue // nothing is left to do
		}
		t.Run(string(call), func(t *testing.T) {
			t.Parallel()
			beside := open(t, wrongs{})
			untouched, err := beside.Prepare(t.Context(), job("beside"), nil)
			if err != nil {
				t.Fatal(err)
			}
			e := open(t, wrongs{At: map[fake.Call]string{call: "die"}, Once: filepath.Join(t.TempDir(), "once")})
			env, err := e.Prepare(t.Context(), job("one"), nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := do(t.Context(), e, env); call != fake.Close { // which another process of the plugin then does
				wantSoon(t, began, err)
			}
			select {
			case <-env.Done():
			case <-time.After(soon):
			}
			if !errors.Is(env.Err(), executor.ErrGone) {
				t.Errorf("the environment's end is %v", env.Err())
			}
			if err := env.Close(t.Context()); err != nil {
				t.Errorf("closing what is gone: %v", err)
			}
			wantWorks(t, e)
			if err := untouched.Check(t.Context()); err != nil {
				t.Errorf("the job of another plugin: %v", err)
			}
		})
	}
	t.Run("Prepare", func(t *testing.T) {
		t.Parallel()
		e := open(t, wrongs{At: map[fake.Call]string{fake.Prepare: "die"}, Once: filepath.Join(t.TempDir(), "once")})
		began := time.Now()
		_, err := e.Prepare(t.Context(), job("one"), nil)
		wantSoon(t, began, err)
		wantWorks(t, e)
	})
}

// wantWorks runs a job.
func wantWorks(t *testing.T, e executor.Executor) {
	t.Helper()
	env, err := e.Prepare(t.Context(), job("next"), nil)
	if err != nil {
		t.Fatalf("the next job: %v", err)
	}
	log := &text{}
	if err := session.Run(t.Context(), nil, env, client.Request{ID: "run", Text: "[]"}, log); err != nil || log.String() != "hello\n" {
		t.Errorf("the next job: %v, %q", err, log.String())
	}
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// text is the log of a run.
type text struct{ bytes.Buffer }

// Event implements event.Sink.
func (t *text) Event(e event.Event) {
	if l, ok := e.Body.(event.Log); ok {
		t.Write(l.Data)
	}
}

func TestAPluginThatPanicsFailsThatCallOnly(t *testing.T) {
	for call, do := range calls {
		t.Run(string(call), func(t *testing.T) {
			t.Parallel()
			e := open(t, wrongs{At: map[fake.Call]string{call: "panic"}})
			env, err := e.Prepare(t.Context(), job("one"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := do(t.Context(), e, env); err == nil || !strings.Contains(err.Error(), "panicked") {
				t.Errorf("the error is %v", err)
			}
			if err := env.Err(); call != fake.Close && call != fake.CloseExecutor && err != nil {
				t.Errorf("the environment has ended: %v", err)
			}
		})
	}
}

func TestAPluginThatLiesAboutAnEnvironmentIsNotBelieved(t *testing.T) {
	for lie := range lies {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := open(t, wrongs{Lie: lie}).Prepare(t.Context(), job("one"), nil)
			wantSoon(t, began, err)
			if !strings.Contains(fmt.Sprint(err), "says what cannot be") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	prepare := func(act string) error {
		_, err := open(t, wrongs{At: map[fake.Call]string{fake.Prepare: act}}).Prepare(t.Context(), job("one"), nil)
		return err
	}
	var user *executor.UserError
	var pull *executor.PullError
	if err := prepare("user"); !errors.As(err, &user) || user.Hint != "name another" || !errors.As(err, &pull) || pull.Image != "nowhere" {
		t.Errorf("of the job's mistake: %#v", err)
	}
	var refusal *executor.Refusal
	if err := prepare("refuse"); !errors.As(err, &refusal) || *refusal != (executor.Refusal{Level: "fake", What: "that", Could: executor.VM}) {
		t.Errorf("of a refusal: %#v", err)
	}
	for act, want := range map[string]error{"gone": executor.ErrOutOfMemory, "missing": fs.ErrNotExist, "owned": executor.ErrOwned} {
		if err := prepare(act); !errors.Is(err, want) {
			t.Errorf("%s: %#v", act, err)
		}
	}
}

func TestOptionsAreHeldAgainstTheSchemaOfThePlugin(t *testing.T) {
	for given, want := range map[string]string{
		`{"other": 1}`: `additional properties 'other' not allowed`,
		`{"lie": 1}`:   `at '/lie': got number, want string`,
		`{`:            "are not JSON",
	} {
		c := config("fake")
		c.Options = json.RawMessage(given)
		if _, err := plugin.Open(t.Context(), c, executor.Setup{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", given, err)
		}
	}
	c := config("none")
	c.Options = json.RawMessage(`{"a":1}`)
	if _, err := plugin.Open(t.Context(), c, executor.Setup{}); err == nil || !strings.Contains(err.Error(), "takes no options") {
		t.Errorf("options of a plugin that has none: %v", err)
	}
}

func TestTheRankIsWhatThePluginDeclares(t *testing.T) {
	if e := open(t, wrongs{}); executor.RankOf(e) != executor.Container.Rank() || e.Level() != "fake" {
		t.Errorf("level %q has rank %d", e.Level(), executor.RankOf(e))
	}
}

// program writes a script that is no plugin.
func program(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), plugin.Prefix+"script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWhatIsNotAPluginIsNamed(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":     "does not start: it ends, or closes its output, before it says where it listens",
		"echo hello": `does not start: it prints "hello", and not where it listens`,
		"echo 'ModuleNotFoundError: nosuch' >&2; exit 1": "before it says where it listens; it says:\nModuleNotFoundError: nosuch",
		"echo '1|9|unix|x'":                          "it speaks version 9 of the protocol, and this rung version 1; it needs a newer rung, or an older version of the plugin",
		"echo '1|1|tcp|127.0.0.1:1|netrpc'; sleep 5": "unsupported plugin protocol",
	} {
		_, err := plugin.Open(t.Context(), plugin.Config{Name: "script", File: program(t, script)}, executor.Setup{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `plugin "script"`) {
			t.Errorf("%s: %v", script, err)
		}
	}
	for _, name := range []string{"", "../x", "a b"} {
		if _, err := plugin.Open(t.Context(), plugin.Config{Name: name}, executor.Setup{}); err == nil || !strings.Contains(err.Error(), "names no plugin") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := plugin.Open(t.Context(), plugin.Config{Name: "made-up-name", Folder: t.TempDir()}, executor.Setup{}); err == nil || !strings.Contains(err.Error(), "executor-plugin-made-up-name") {
		t.Errorf("one that is nowhere: %v", err)
	}
}

func TestOnlyThePinnedFileRuns(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	file := program(t, "touch "+mark)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := plugin.Config{Name: "script", File: file, SHA256: strings.Repeat("0", 64)}
	if _, err := plugin.Open(t.Context(), c, executor.Setup{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%x", sha256.Sum256(content))) {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("what is not pinned has run")
	}
	c.SHA256 = "sha256:abc"
	if _, err := plugin.Open(t.Context(), c, executor.Setup{}); err == nil || !strings.Contains(err.Error(), "must be a SHA-256") {
		t.Errorf("the error is %v", err)
	}
	// A plugin is started again from what was verified, whatever its file is then.
	own := config("fake")
	own.File = filepath.Join(t.TempDir(), plugin.Prefix+"fake")
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own.File, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	own.SHA256 = fmt.Sprintf("%X", sha256.Sum256(binary))
	own.Options = options(t, wrongs{At: map[fake.Call]string{fake.Check: "die"}, Once: filepath.Join(t.TempDir(), "once")})
	e, err := plugin.Open(t.Context(), own, executor.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := os.WriteFile(own.File, content, 0o700); err != nil {
		t.Fatal(err)
	}
	env, err := e.Prepare(t.Context(), job("one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = env.Check(t.Context())
	wantWorks(t, e)
	if _, err := os.Stat(mark); err == nil {
		t.Error("what was put in its place has run")
	}
}

func TestAPluginGetsNothingOfTheRunnersEnvironment(t *testing.T) {
	t.Setenv("RUNG_TEST_SECRET", "hidden")
	seen := filepath.Join(t.TempDir(), "seen")
	_, _ = plugin.Open(t.Context(), plugin.Config{Name: "script", File: program(t, "env >"+seen), Env: []string{"MINE=yours"}}, executor.Setup{})
	env, err := os.ReadFile(seen)
	if err != nil || bytes.Contains(env, []byte("hidden")) || !bytes.Contains(env, []byte("MINE=yours")) {
		t.Errorf("it gets %q, %v", env, err)
	}
}

// liar is a plugin that does not use the SDK.
type liar struct {
	executorv1.UnimplementedExecutorServer
	lie string
}

func (l *liar) Describe(context.Context, *executorv1.DescribeRequest) (*executorv1.DescribeResponse, error) {
	out := &executorv1.DescribeResponse{Level: "liar"}
	switch l.lie {
	case "level":
		out.Level = "../x"
	case "rank":
		out.Rank = "strongest"
	case "schema":
		out.OptionsSchema = "{"
	case "remote schema":
		out.OptionsSchema = `{"$ref": "file:///etc/passwd"}`
	}
	return out, nil
}

func (l *liar) Open(_ *executorv1.OpenRequest, stream grpc.ServerStreamingServer[executorv1.OpenResponse]) error {
	if err := stream.Send(&executorv1.OpenResponse{}); err != nil || l.lie == "open" {
		return err
	}
	<-stream.Context().Done()
	os.Exit(0)
	return nil
}

func (l *liar) Prepare(_ *executorv1.PrepareRequest, stream grpc.ServerStreamingServer[executorv1.PrepareResponse]) error {
	switch l.lie {
	case "nothing":
		return nil
	case "empty":
		return stream.Send(&executorv1.PrepareResponse{Content: &executorv1.PrepareResponse_Environment{}})
	case "untyped":
		return errors.New("some text")
	}
	return stream.Send(&executorv1.PrepareResponse{Content: &executorv1.PrepareResponse_Environment{Environment: &executorv1.Environment{
		Handle: &executorv1.Handle{Level: "liar", Id: "x"}, Layout: &executorv1.Layout{Project: "/p", Temp: "/t", Bin: "/b"},
	}}})
}

func (*liar) Watch(_ *executorv1.WatchRequest, stream grpc.ServerStreamingServer[executorv1.WatchResponse]) error {
	<-stream.Context().Done()
	return nil
}

func (*liar) Cleanup(context.Context, *executorv1.CleanupRequest) (*executorv1.CleanupResponse, error) {
	return &executorv1.CleanupResponse{}, nil
}

// lieTo serves a liar.
func lieTo(lie string) {
	rawplugin.Serve(func(s *grpc.Server) { executorv1.RegisterExecutorServer(s, &liar{lie: lie}) }, handshake.Version, handshake.Version+1)
}

func TestAPluginThatSaysWhatCannotBeIsRefused(t *testing.T) {
	for lie, want := range map[string]string{
		"level": "a level must be", "rank": "must be one of Rung's own levels", "schema": "schema of options that is none", "remote schema": "schema of options that is none",
		"nothing": "without an environment", "empty": "says what cannot be", "untyped": "has failed", "open": "cannot be used any more",
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			c := plugin.Config{Name: "liar", File: os.Args[0], Env: []string{plays + "=liar " + lie}}
			e, err := plugin.Open(t.Context(), c, executor.Setup{})
			if err == nil {
				defer e.Close()
				if lie == "open" {
					time.Sleep(4 * time.Second)
				}
				var env executor.Environment
				if env, err = e.Prepare(t.Context(), job("one"), nil); lie == "open" && err == nil {
					time.Sleep(4 * time.Second)
					err = env.Err()
				}
			}
			var failure *plugin.Failure
			if !errors.As(err, &failure) || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestCallsThatAPluginDoesNotHaveAreUnsupported(t *testing.T) {
	e, err := plugin.Open(t.Context(), plugin.Config{Name: "liar", File: os.Args[0], Env: []string{plays + "=liar ok"}}, executor.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	env, err := e.Prepare(t.Context(), job("one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Shell(t.Context(), &executor.Shell{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the error is %v", err)
	}
	if kept, err := e.Kept(t.Context()); err != nil || kept != nil {
		t.Errorf("what it keeps: %v, %v", kept, err)
	}
}
