//go:build unix

package plugin_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginhost/handshake"
	"github.com/rungci/rung/internal/pluginhost/rawplugin"
)

// options are those of the fake plugin.
type options map[string]any

func at(call, act string) options { return options{"at": map[string]string{call: act}} }

// each makes every call of a group, by its name in the fake.
var each = map[string]func(context.Context, *plugin.Group) error{
	"List":     func(ctx context.Context, g *plugin.Group) error { return g.List(ctx, func(group.Instance) {}) },
	"Watch":    func(ctx context.Context, g *plugin.Group) error { return g.Watch(ctx, func(group.Instance) {}) },
	"Offers":   func(ctx context.Context, g *plugin.Group) error { _, err := g.Offers(ctx); return err },
	"Increase": func(ctx context.Context, g *plugin.Group) error { _, err := g.Increase(ctx, 1); return err },
	"IncreaseShape": func(ctx context.Context, g *plugin.Group) error {
		_, err := g.IncreaseShape(ctx, group.Request{ID: "r", Count: 1})
		return err
	},
	"Decrease":    func(ctx context.Context, g *plugin.Group) error { _, err := g.Decrease(ctx, []string{"i"}); return err },
	"ConnectInfo": func(ctx context.Context, g *plugin.Group) error { _, err := g.ConnectInfo(ctx, "i"); return err },
	"Heartbeat":   func(ctx context.Context, g *plugin.Group) error { return g.Heartbeat(ctx, "i") },
	"Suspend":     func(ctx context.Context, g *plugin.Group) error { _, err := g.Suspend(ctx, []string{"i"}); return err },
	"Resume":      func(ctx context.Context, g *plugin.Group) error { _, err := g.Resume(ctx, []string{"i"}); return err },
	"Metrics":     func(ctx context.Context, g *plugin.Group) error { _, err := g.Metrics(ctx); return err },
}

// effects are the calls of which nobody knows what they have done when there is no answer.
var effects = map[string]bool{"Increase": true, "IncreaseShape": true, "Decrease": true, "Suspend": true, "Resume": true}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	for act, want := range map[string]error{
		"quota": group.ErrQuota, "not found": group.ErrNotFound, "unauthorised": group.ErrUnauthorised, "transient": group.ErrTransient,
		"unhealthy": group.ErrInstanceUnhealthy, "unsupported": group.ErrUnsupported, "plain": nil,
	} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			g := opened(t, config(t, "fake", everywhere(act)))
			for name, call := range each {
				err := call(t.Context(), g)
				if err == nil || want != nil && !errors.Is(err, want) {
					t.Errorf("%s: %v", name, err)
				}
				for _, other := range []error{group.ErrQuota, group.ErrNotFound, group.ErrUnauthorised, group.ErrTransient, group.ErrUncertain, context.Canceled} {
					if !errors.Is(want, other) && errors.Is(err, other) {
						t.Errorf("%s: %v is %v, too", name, err, other)
					}
				}
				after, _ := group.RetryAfter(err)
				if wait := map[string]time.Duration{"quota": time.Hour, "transient": 3 * time.Second}[act]; after != wait {
					t.Errorf("%s: to be tried again after %s, want %s", name, after, wait)
				}
				if act == "transient" && err.Error() != "it may work later: 429 too many requests" {
					t.Errorf("%s: the text is %q", name, err)
				}
			}
		})
	}
}

// everywhere is an act in all calls.
func everywhere(act string) options {
	all := map[string]string{}
	for name := range each {
		all[name] = act
	}
	return options{"at": all}
}

func TestAPluginThatCrashesInACallFailsItAndIsStartedAgain(t *testing.T) {
	for name, call := range each {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := at(name, "die")
			o["once"] = filepath.Join(t.TempDir(), "once")
			g := opened(t, config(t, "fake", o))
			err := call(t.Context(), g)
			var failure *plugin.Failure
			if !errors.As(err, &failure) || !strings.Contains(err.Error(), `the instance-group plugin "fake" has ended`) || effects[name] != errors.Is(err, group.ErrUncertain) {
				t.Errorf("the error is %v", err)
			}
			if _, err := g.Increase(t.Context(), 1); err != nil {
				t.Error("afterwards:", err)
			}
		})
	}
}

// Plugins of fleeting know no kinds of errors.
func TestAPlainErrorOfHeartbeatSaysThatTheInstanceIsUnhealthy(t *testing.T) {
	for act, unhealthy := range map[string]bool{"plain": true, "unhealthy": true, "transient": false, "unauthorised": false, "not found": false, "panic": false, "die": false} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			g := opened(t, config(t, "fake", everywhere(act)))
			if err := g.Heartbeat(t.Context(), "i"); err == nil || errors.Is(err, group.ErrInstanceUnhealthy) != unhealthy {
				t.Errorf("Heartbeat: %v", err)
			}
			if _, err := g.ConnectInfo(t.Context(), "i"); err == nil || act != "unhealthy" && errors.Is(err, group.ErrInstanceUnhealthy) {
				t.Errorf("another call: %v", err)
			}
		})
	}
}

func TestACallThatPanicsFailsAndOthersGoOn(t *testing.T) {
	g := opened(t, config(t, "fake", everywhere("panic")))
	pid := g.PID()
	for name, call := range each {
		err := call(t.Context(), g)
		if err == nil || !strings.Contains(err.Error(), "the plugin panicked: the fake group was told to panic") || effects[name] != errors.Is(err, group.ErrUncertain) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if g.PID() != pid {
		t.Error("the plugin was started again")
	}
}

func TestAMachineIsMadeOnceAlsoWhenTheAnswerGetsLost(t *testing.T) {
	o := options{"after": map[string]string{"IncreaseShape": "die"}, "once": filepath.Join(t.TempDir(), "once")}
	g := opened(t, config(t, "fake", o))
	r := group.Request{ID: "r", Count: 1}
	if ids, err := g.IncreaseShape(t.Context(), r); len(ids) > 0 || !errors.Is(err, group.ErrUncertain) {
		t.Errorf("%v, %v", ids, err)
	}
	if ids, err := g.IncreaseShape(t.Context(), r); len(ids) != 1 || err != nil {
		t.Errorf("again: %v, %v", ids, err)
	}
	count := 0
	if err := g.List(t.Context(), func(group.Instance) { count++ }); err != nil || count != 1 {
		t.Errorf("%d instances, %v", count, err)
	}
}

func TestACallThatHangsFailsAndOthersGoOn(t *testing.T) {
	c := config(t, "fake", everywhere("stick"))
	c.CallTime = 3 * time.Second // within which it must be opened, too
	g := opened(t, c)
	pid := g.PID()
	var all sync.WaitGroup
	for name, call := range each {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := call(ctx, g)
			if !errors.Is(err, context.DeadlineExceeded) || effects[name] != errors.Is(err, group.ErrUncertain) {
				t.Errorf("%s in a context that ends: %v", name, err)
			}
			if advice := fmt.Sprintf(`: its log may say why; if its process %d hangs, end that, and another one is started`, pid); !strings.Contains(err.Error(), `the instance-group plugin "fake" has not answered for 3`) || !strings.HasSuffix(err.Error(), advice) {
				t.Errorf("%s does not say who is silent, and what to do: %v", name, err)
			}
			if name == "Watch" { // waits for as long as it is wanted
				return
			}
			if err := call(t.Context(), g); err == nil || !strings.Contains(err.Error(), "has not answered for 3s") || effects[name] != errors.Is(err, group.ErrUncertain) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	if g.PID() != pid {
		t.Error("the plugin was started again")
	}
}

func TestAPluginThatIsStoppedIsKilledAndStartedAgain(t *testing.T) {
	c := config(t, "fake", nil)
	c.CallTime = 3 * time.Second
	g := opened(t, c)
	first := g.PID()
	stop(t, first)
	err := g.Heartbeat(t.Context(), "i")
	for errors.Is(err, group.ErrNotFound) { // the signal takes a moment
		err = g.Heartbeat(t.Context(), "i")
	}
	if err == nil || !strings.Contains(err.Error(), "and was ended") {
		t.Errorf("the error is %v", err)
	}
	if err := g.List(t.Context(), func(group.Instance) {}); err != nil || g.PID() == first {
		t.Errorf("afterwards: %v", err)
	}
}

func TestShutdownIsCalledInTimeBeforeThePluginIsStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "down")
	g := opened(t, config(t, "fake", options{"at": map[string]string{"Shutdown": "plain"}, "once": file}))
	if err := g.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "the cloud is broken") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("Shutdown was not called")
	}
	if _, err := g.Increase(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "was shut down") {
		t.Errorf("a call afterwards: %v", err)
	}

	c := config(t, "fake", at("Shutdown", "stick"))
	c.ShutdownTime = 50 * time.Millisecond
	g = opened(t, c)
	if err := g.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "has not shut down within 50ms, and was killed") {
		t.Errorf("the error is %v", err)
	}
	if g.PID() > 0 && alive(g.PID()) {
		t.Error("it still runs")
	}
}

// sender is a log whose lines are read elsewhere.
type sender chan string

// Write implements io.Writer.
func (s sender) Write(p []byte) (int, error) {
	select {
	case s <- string(p):
	default: // nobody reads any more
	}
	return len(p), nil
}

func TestLogsReachTheRunner(t *testing.T) {
	lines := make(chan string, 100)
	c := config(t, "fake", options{"log": "the zone is nearly full"})
	c.Log = slog.New(slog.NewTextHandler(sender(lines), nil))
	opened(t, c)
	for line := range lines {
		if strings.Contains(line, "the zone is nearly full") {
			if !strings.Contains(line, `level=WARN msg="the zone is nearly full" plugin=fake`) || !strings.Contains(line, "region=us") {
				t.Errorf("the line is %s", line)
			}
			return
		}
	}
}

func TestWhatAPluginSaysArrives(t *testing.T) {
	g := opened(t, config(t, "fake", nil))
	offers, err := g.Offers(t.Context())
	want := []group.Offer{{Shape: "small", OS: "linux", Arch: "arm64", CPUs: 2, Memory: 4 << 30, Disk: 1 << 30, GPUs: 1, GPU: "t4", Zone: "a", Spot: true, Price: 0.05, SuspendedPrice: 0.01, Currency: "USD", Minimum: time.Hour, Step: time.Minute}}
	if diff := cmp.Diff(want, offers); diff != "" || err != nil {
		t.Error(diff, err)
	}
	metrics, err := g.Metrics(t.Context())
	if err != nil || len(metrics) == 0 || metrics[0].Name != "fake_calls_total" || !metrics[0].Counter || metrics[0].Value < 1 {
		t.Errorf("%v, %v", metrics, err)
	}
	if can := g.Abilities(); can != (group.Abilities{Details: true, Watch: true, Offers: true, Requests: true, Heartbeat: true, Suspend: true, Metrics: true, Volumes: true}) {
		t.Errorf("it can %+v", can)
	}
}

// initialised is the error of Init.
func initialised(t *testing.T, c plugin.Config) error {
	t.Helper()
	g := plugin.New(c)
	_, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us", State: t.TempDir()})
	if err == nil {
		t.Cleanup(func() { _ = g.Shutdown(context.Background()) })
	}
	return err
}

func TestAPluginThatCannotBeUsedIsRefused(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "group-plugin-script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho hello\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	pinned := config(t, "fake", nil)
	pinned.SHA256 = fmt.Sprintf("%x", sha256.Sum256([]byte("another program")))
	missing, noProgram := config(t, "fake", nil), config(t, "fake", nil)
	missing.File, missing.Name = "", "made-up-name"
	noProgram.File = script
	for name, c := range map[string]struct {
		config plugin.Config
		want   string
	}{
		"another program's plugin":        {config(t, "fleeting", nil), `"fake" does not start: it is one of another program, whose protocol this one does not speak: the protocol of fleeting's plugins is not public`},
		"another version":                 {config(t, "liar version", nil), "does not start: it speaks version 2 of the protocol, and this rung version 1"},
		"another kind of plugin":          {config(t, "liar kind", nil), "is a plugin of another kind"},
		"another file than the pinned":    {pinned, "is not what the configuration pins"},
		"no file":                         {missing, "there is no instance-group plugin group-plugin-made-up-name in PATH"},
		"no plugin":                       {noProgram, "does not start: "},
		"an option that it has not":       {config(t, "fake", options{"regoin": "x"}), `unknown field "regoin"`},
		"an option of another type":       {config(t, "fake", options{"log": 3}), `the option "log" must be string, not number`},
		"options that its schema has not": {config(t, "liar schema", options{"x": 1}), "additional properties 'x' not allowed"},
		"its Init fails":                  {config(t, "fake", at("Init", "unauthorised")), group.ErrUnauthorised.Error()},
		"its Init panics":                 {config(t, "fake", at("Init", "panic")), "the plugin panicked"},
		"its Init ends it":                {config(t, "fake", at("Init", "die")), "has ended"},
		"a group without an id":           {config(t, "liar id", nil), "its group has no id"},
		"a group of a negative size":      {config(t, "liar size", nil), "its group can have -1 instances"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := initialised(t, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestABinaryOfFleetingIsExplainedWhereThePluginIsMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleeting-plugin-aws"), []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	c := config(t, "fake", nil)
	c.File, c.Name = "", "aws"
	if err := initialised(t, c); err == nil || !strings.Contains(err.Error(), "but fleeting-plugin-aws, which is a plugin of another program: the protocol of fleeting's") {
		t.Errorf("the error is %v", err)
	}
}

func TestLiesAreNotBelieved(t *testing.T) {
	g := group.Adapt(plugin.New(config(t, "liar instances", nil)))
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us"}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Shutdown(context.Background()) }()
	list, err := g.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "ours" || list[0].State != group.StateCreating {
		t.Errorf("the list is %v, %v", list, err)
	}
	if done, err := g.Delete(t.Context(), []string{"ours"}); err == nil || len(done) != 0 {
		t.Errorf("deleted: %v, %v", done, err)
	}
	if created, err := g.Create(t.Context(), group.Request{ID: "r", Count: 1}); err == nil || created.Count != 0 {
		t.Errorf("created: %v, %v", created, err)
	}
	if _, err := g.ConnectInfo(t.Context(), "ours"); err == nil || !strings.Contains(err.Error(), `gave the connection of the instance "theirs"`) {
		t.Errorf("the error is %v", err)
	}
	if err := g.Heartbeat(t.Context(), "ours"); err != nil {
		t.Error(err) // it does not say that it can
	}
}

// TestTheOptionsOfAPluginAreCheckedWithoutItsGroup has plugins whose groups cannot be opened: they are not.
func TestTheOptionsOfAPluginAreCheckedWithoutItsGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		config  plugin.Config
		checked bool
		want    string // of the error
	}{
		"what fits":                  {config(t, "liar schema", nil), true, ""},
		"what does not":              {config(t, "liar schema", options{"colour": "red"}), true, "additional properties 'colour' not allowed"},
		"a plugin without a schema":  {config(t, "liar id", options{"colour": "red"}), false, ""},
		"a plugin of another kind":   {config(t, "liar kind", nil), false, "is a plugin of another kind"},
		"another version":            {config(t, "liar version", nil), false, "version"},
		"what is not on the machine": {plugin.Config{Config: pluginhost.Config{Name: "no-such-plugin"}}, false, "there is no instance-group plugin"},
	} {
		checked, err := plugin.Check(t.Context(), &tc.config)
		if checked != tc.checked || tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, %v", name, checked, err)
		}
	}
}

// liar is a plugin that does not use the SDK.
type liar struct {
	fleetv1.UnimplementedInstanceGroupServer
	lie string
}

// lieTo serves a liar.
func lieTo(lie string) {
	versions := []int{handshake.Version, handshake.Version + 1}
	if lie == "version" {
		versions = versions[1:]
	}
	rawplugin.Serve(func(s *grpc.Server) {
		if lie != "kind" {
			fleetv1.RegisterInstanceGroupServer(s, &liar{lie: lie})
		}
	}, versions...)
}

func (l *liar) Describe(context.Context, *fleetv1.DescribeRequest) (*fleetv1.DescribeResponse, error) {
	out := &fleetv1.DescribeResponse{}
	if l.lie == "schema" {
		out.OptionsSchema = `{"type": "object", "additionalProperties": false}`
	}
	return out, nil
}

func (l *liar) Open(_ *fleetv1.OpenRequest, stream grpc.ServerStreamingServer[fleetv1.OpenResponse]) error {
	out := &fleetv1.OpenResponse{Id: "liar", MaxSize: 1, Abilities: []fleetv1.Ability{fleetv1.Ability_ABILITY_DETAILS, 99}}
	switch l.lie {
	case "id":
		out.Id = ""
	case "size":
		out.MaxSize = -1
	}
	if err := stream.Send(out); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (*liar) List(_ *fleetv1.ListRequest, stream grpc.ServerStreamingServer[fleetv1.ListResponse]) error {
	return stream.Send(&fleetv1.ListResponse{Instances: []*fleetv1.Instance{
		{Id: "ours", State: 99}, {Id: "", State: fleetv1.State_STATE_RUNNING}, {Id: "theirs", State: fleetv1.State_STATE_RUNNING, Labels: map[string]string{group.OwnerLabel: "them"}},
	}})
}

func (*liar) Increase(context.Context, *fleetv1.IncreaseRequest) (*fleetv1.IncreaseResponse, error) {
	return &fleetv1.IncreaseResponse{Count: -5}, nil
}

func (*liar) Decrease(context.Context, *fleetv1.DecreaseRequest) (*fleetv1.DecreaseResponse, error) {
	return &fleetv1.DecreaseResponse{Succeeded: []string{"theirs"}}, nil
}

func (*liar) ConnectInfo(context.Context, *fleetv1.ConnectInfoRequest) (*fleetv1.ConnectInfoResponse, error) {
	return &fleetv1.ConnectInfoResponse{Id: "theirs", InternalAddr: "10.0.0.1"}, nil
}

func (*liar) Shutdown(context.Context, *fleetv1.ShutdownRequest) (*fleetv1.ShutdownResponse, error) {
	return &fleetv1.ShutdownResponse{}, nil
}
