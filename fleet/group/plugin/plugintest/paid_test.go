//go:build unix

package plugintest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/group/plugin/paid"
	"github.com/rungci/rung/fleet/group/plugin/plugintest"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/plugintrial"
)

// driver is the argument that makes the test binary a program which tries a plugin, for a test that kills it.
const driver = "driver-of-a-suite"

// costly is a group whose machines cost money: "paid KEY=VALUE…". They are in a file of the folder in which it runs the suite, whoever has asked for them.
type costly struct {
	*fake.Group
	how string
}

func (c *costly) is(key string) string {
	for _, field := range strings.Fields(c.how) {
		if value, ok := strings.CutPrefix(field, key+"="); ok {
			return value
		}
	}
	return ""
}

// cloud is the file of the cloud, below the state folder of an owner.
const cloud = "../../../cloud.json"

// Init makes the fake.
func (c *costly) Init(ctx context.Context, log hclog.Logger, settings group.Settings) (group.ProviderInfo, error) {
	file := cloud
	if _, err := os.Stat(filepath.Join(settings.State, "../../../ledger")); err != nil {
		file = "" // it is opened to see whether it can be
	}
	c.Group = fake.New(fake.Options{File: file, Offers: []group.Offer{{Shape: "small", CPUs: 1, Memory: 1, Price: 0.36, Currency: "USD", Minimum: time.Minute}}})
	info, err := c.Group.Init(ctx, log, settings)
	if id := c.is("id"); id != "" {
		info.ID = id
	}
	return info, err
}

// IncreaseShape kills all processes of the test at one of its calls.
func (c *costly) IncreaseShape(ctx context.Context, r group.Request) ([]string, error) {
	calls, n := c.is("calls"), -1
	if calls != "" {
		text, _ := os.ReadFile(calls)
		n = len(text)
		if err := os.WriteFile(calls, append(text, '.'), 0o600); err != nil {
			return nil, err
		}
	}
	if c.is("before") == strconv.Itoa(n) {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
	ids, err := c.Group.IncreaseShape(ctx, r)
	if c.is("after") == strconv.Itoa(n) {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
	return ids, err
}

// List may know nothing of what was made.
func (c *costly) List(ctx context.Context, update func(group.Instance)) error {
	if c.is("lists") == "nothing" {
		return ctx.Err()
	}
	return c.Group.List(ctx, update)
}

// Decrease may not work.
func (c *costly) Decrease(ctx context.Context, ids []string) ([]string, error) {
	if c.is("deletes") == "fail" {
		return nil, errors.New("the API is down")
	}
	return c.Group.Decrease(ctx, ids)
}

// trialOf is one that costs money, with its files in a folder.
func trialOf(folder, how, only string) *plugintest.Trial {
	return &plugintest.Trial{
		Only: only,
		Plugin: plugin.Config{Config: pluginhost.Config{
			Name: "costly", File: os.Args[0], Env: []string{plays + "=paid " + how}, Log: slog.New(slog.DiscardHandler),
		}},
		Paid: &paid.Terms{Folder: filepath.Join(folder, "ledger"), Max: 10, Patience: 30 * time.Second, Pause: 5 * time.Millisecond, Settle: 50 * time.Millisecond},
	}
}

// run runs a trial.
func run(t *testing.T, trial *plugintest.Trial, each func(plugintrial.Result)) (passed bool, bill *paid.Bill, err error) {
	t.Helper()
	if each == nil {
		each = func(r plugintrial.Result) {
			if !r.Passed {
				t.Errorf("%+v", r)
			}
		}
	}
	return trial.RunPaid(t.Context(), []string{os.Args[0], child}, func(b *paid.Bill) { t.Error("an earlier trial has left something:", b) }, each)
}

// machines are those that exist in the cloud of a folder.
func machines(t *testing.T, folder string) (ids []string) {
	t.Helper()
	g := fake.New(fake.Options{File: filepath.Base(cloud)})
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{State: folder}); err != nil {
		t.Fatal(err)
	}
	for _, m := range g.Machines() {
		if m.Exists {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// nothingLeft fails the test if something is left, in the cloud or in the ledger.
func nothingLeft(t *testing.T, folder string, bill *paid.Bill) {
	t.Helper()
	if bill == nil || bill.Left != nil || !strings.HasSuffix(bill.String(), ". Nothing is left.") {
		t.Fatalf("the bill is %v", bill)
	}
	if left := machines(t, folder); len(left) > 0 {
		t.Errorf("there are %v", left)
	}
	text, err := os.ReadFile(filepath.Join(folder, "ledger", "ledger.jsonl"))
	if err != nil || len(text) > 0 {
		t.Errorf("the ledger is not begun anew: %v, %s", err, text)
	}
}

func TestATrialThatCostsMoneySaysWhatItHasCost(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	passed, bill, err := run(t, trialOf(folder, "", ""), nil)
	if err != nil || !passed {
		t.Fatal(passed, err)
	}
	nothingLeft(t, folder, bill)
	const each = 0.36 / 60 // at least
	if bill.Spent < 15*each || bill.Spent > bill.Max || bill.Currency != "USD" || bill.Ended != 0 {
		t.Errorf("the bill is %+v", bill)
	}
}

func TestNoMoreIsSpentThanMayBe(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	trial := trialOf(folder, "", "request")
	trial.Paid.Max = 0.04 // four machines that are held for up to a minute and a half
	var refused []string
	passed, bill, err := run(t, trial, func(r plugintrial.Result) { refused = append(refused, r.Details...) })
	if err != nil || passed || !strings.Contains(strings.Join(refused, "\n"), "it would cost more than --max-cost allows: with ") {
		t.Errorf("%t, %v: %q", passed, err, refused)
	}
	nothingLeft(t, folder, bill)
	if bill.Spent > trial.Paid.Max || bill.Spent == 0 {
		t.Errorf("spent: %v", bill)
	}
}

func TestATrialWithoutPricesIsNotBegun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	trial := trialOf(folder, "", "two requests")
	trial.Plugin.Env = []string{plays + "=right"}
	if _, bill, err := run(t, trial, nil); !errors.Is(err, paid.ErrNoPrice) || bill != nil {
		t.Errorf("%v, %v", bill, err)
	}
	trial = trialOf(folder, "", "two requests")
	trial.Paid.Rates = []paid.Rate{{Price: 1, Step: time.Hour, Minimum: 2 * time.Hour}}
	if passed, bill, err := run(t, trial, nil); err != nil || !passed || bill.Spent != 4 {
		t.Errorf("with a price that somebody has stated: %t, %v, %v", passed, bill, err)
	}
}

func TestAnInterruptedTrialEndsWhatItHasMade(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	_, bill, err := trialOf(folder, "", "").RunPaid(ctx, []string{os.Args[0], child}, nil, func(plugintrial.Result) { interrupt() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	nothingLeft(t, folder, bill)
}

func TestWhatCannotBeEndedIsNamedAndEndedLater(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	trial := trialOf(folder, "deletes=fail", "two requests")
	trial.Paid.Patience = time.Second
	_, bill, err := run(t, trial, func(plugintrial.Result) {})
	if err != nil || bill == nil || bill.Left == nil || !strings.Contains(bill.String(), "Something may be left, which costs money: of suite-") || !strings.Contains(bill.String(), "fake-0, fake-1: they are not gone in time; the API is down") {
		t.Fatalf("%v, %v", bill, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "ledger", "ledger.jsonl")); err != nil || len(machines(t, folder)) != 2 {
		t.Fatal("the test is no test:", err, machines(t, folder))
	}
	other, err := trialOf(folder, "id=another", "").Clean(t.Context())
	if err != nil || !errors.Is(other.Left, paid.ErrOther) || len(machines(t, folder)) != 2 {
		t.Errorf("with the options of another group: %v, %v", other, err)
	}
	bill, err = trialOf(folder, "", "").Clean(t.Context())
	if err != nil || bill.Ended != 2 {
		t.Errorf("%+v, %v", bill, err)
	}
	nothingLeft(t, folder, bill)
	if bill, err := trialOf(folder, "", "").Clean(t.Context()); bill != nil || err != nil {
		t.Errorf("once more: %v, %v", bill, err)
	}
}

func TestWhatNoListHasShownIsNamed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	trial := trialOf(folder, "lists=nothing", "two requests")
	trial.Paid.Patience = time.Second
	var details []string
	_, bill, err := run(t, trial, func(r plugintrial.Result) { details = append(details, r.Details...) })
	if err != nil || bill == nil || bill.Left == nil || !strings.Contains(bill.String(), "fake-0: a request was answered with it, and no list of the plugin has ever had it, as if its label rung-owner were lost") {
		t.Errorf("%v, %v", bill, err)
	}
	if !strings.Contains(strings.Join(details, "\n"), "are labels lost?") {
		t.Errorf("the case says %q", details)
	}
	if bill, err = trialOf(folder, "lists=nothing", "").Clean(t.Context()); err != nil || bill == nil || bill.Left == nil {
		t.Errorf("later: %v, %v", bill, err)
	}
}

// drive is a program that tries a plugin.
func drive() {
	var trial plugintest.Trial
	err := json.Unmarshal([]byte(os.Args[2]), &trial)
	if err == nil {
		_, _, err = trial.RunPaid(context.Background(), []string{os.Args[0], child}, func(*paid.Bill) {}, func(r plugintrial.Result) { fmt.Println(r.Case) })
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestNothingIsLeftWhereverATrialIsKilled kills rung, the suite and the plugin at once, before and after each request has its effect.
func TestNothingIsLeftWhereverATrialIsKilled(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		killed := 0
		for n := 0; ; n++ {
			folder := t.TempDir()
			trial := trialOf(folder, fmt.Sprintf("calls=%s %s=%d", filepath.Join(folder, "calls"), when, n), "request makes")
			text, err := json.Marshal(trial)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], driver, string(text))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := cmd.CombinedOutput()
			if err == nil {
				if killed < 5 {
					t.Errorf("it was killed %d times %s a request: %s", killed, when, bytes.TrimSpace(out))
				}
				break
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s request %d: %v: %s", when, n, err, out)
			}
			killed++
			there := len(machines(t, folder))
			if when == "after" && there == 0 {
				t.Errorf("after request %d nothing is there to be ended", n)
			}
			bill, err := trialOf(folder, "", "").Clean(t.Context())
			if err != nil || bill == nil || bill.Ended != there {
				t.Fatalf("%s request %d: %d were there, %+v, %v", when, n, there, bill, err)
			}
			nothingLeft(t, folder, bill)
		}
	}
}

func TestTheNextTrialEndsWhatAKilledOneHasLeft(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text, err := json.Marshal(trialOf(folder, fmt.Sprintf("calls=%s after=1", filepath.Join(folder, "calls")), "two requests"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], driver, string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if out, err := cmd.CombinedOutput(); err == nil || len(machines(t, folder)) != 2 {
		t.Fatalf("the test is no test: %v, %s", machines(t, folder), out)
	}
	var earlier *paid.Bill
	passed, bill, err := trialOf(folder, "", "two requests").RunPaid(t.Context(), []string{os.Args[0], child}, func(b *paid.Bill) { earlier = b }, func(plugintrial.Result) {})
	if err != nil || !passed || earlier == nil || earlier.Ended != 2 {
		t.Errorf("%t, %v; earlier: %+v", passed, err, earlier)
	}
	nothingLeft(t, folder, bill)
}
