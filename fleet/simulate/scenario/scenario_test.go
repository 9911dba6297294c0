package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/fleet/simulate/scenario"
)

const whole = `
start = 2026-03-02T08:00:00+01:00
length = "36h"
seed = 3
poll = "5s"
wait_target = "1m"

[adaptive]
worth = 0.5
memory = "1h"
linger = "2m"
patience = 1
hedge = 1.5

[[pools]]
name = "spot"
cpus = 4.5
memory = "8GiB"
disk = "100GiB"
gpus = 1
arch = "arm64"
os = "linux"
spot = true
price = 0.25
billing = { granularity = "1h", minimum = "24h" }
slots = 2
max_instances = 10
max_use_count = 5
throttle = { limit = 0.5, burst = 4 }
boot_time = "90s"
boot_spread = 0.3
boot_timeout = "5m"
delete_time = "30s"
create_failures = 0.1
boot_failures = 0.2
interruptions = 0.05

[[jobs]]
name = "tests"
rate = 12
hours = [1,1,1,1,1,1,1,1,2,2,2,2,2,2,2,2,2,2,1,1,1,1,1,1]
burst = 3.5
median = "2m"
p95 = "10m"
cpus = 2
memory = "1GiB"
disk = "1GiB"
gpus = 1
arch = "arm64"
os = "linux"
spot = "only"
`

func TestAFileIsReadWhole(t *testing.T) {
	t.Parallel()
	got, err := scenario.Parse("f.toml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	hours := []float64{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1}
	want := &scenario.Scenario{
		Setup: simulate.Setup{Start: time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC), Length: 36 * time.Hour, Seed: 3, Poll: 5 * time.Second, Pools: []simulate.Pool{{
			Pool: scale.Pool{
				Name: "spot", Shape: scale.Shape{CPUs: 4.5, Memory: 8 << 30, Disk: 100 << 30, GPUs: 1, Arch: "arm64", OS: "linux"}, Spot: true, Price: 0.25,
				Billing: scale.Billing{Granularity: time.Hour, Minimum: 24 * time.Hour}, Slots: 2, MaxInstances: 10, MaxUses: 5,
				Throttle: scale.Throttle{Limit: 0.5, Burst: 4}, BootTime: 90 * time.Second, BootTimeout: 5 * time.Minute,
			},
			BootSpread: 0.3, DeleteTime: 30 * time.Second, CreateFailures: 0.1, BootFailures: 0.2, Interruptions: 0.05,
		}}},
		Sources: []simulate.Source{{
			Rate: 12, Hours: hours, Burst: 3.5, Median: 2 * time.Minute, P95: 10 * time.Minute,
			Needs: scale.Needs{Shape: scale.Shape{CPUs: 2, Memory: 1 << 30, Disk: 1 << 30, GPUs: 1, Arch: "arm64", OS: "linux"}, Spot: scale.OnlySpot},
		}},
		Wait:     time.Minute,
		Adaptive: scale.Adaptive{Worth: 0.5, Memory: time.Hour, Linger: 2 * time.Minute, Patience: 1, Hedge: 1.5},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(scale.Adaptive{})); diff != "" {
		t.Error(diff)
	}
}

func TestIdleCountsAreThoseOfWorkingHours(t *testing.T) {
	t.Parallel()
	got, err := scenario.Parse("f.toml", []byte("[adaptive]\nidle_count = 1\nidle_count_working_hours = 5\n[[pools]]\nname = \"a\"\nboot_time = \"1m\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	night, day := time.Date(2026, 3, 2, 6, 59, 0, 0, time.UTC), time.Date(2026, 3, 2, 18, 59, 0, 0, time.UTC)
	if p := got.Adaptive.Policies; p.At(night).IdleCount != 1 || p.At(day).IdleCount != 5 {
		t.Errorf("%+v, %+v", p.At(night), p.At(day))
	}
}

func TestEveryMistakeHasItsPlace(t *testing.T) {
	t.Parallel()
	pool := "[[pools]]\nname = \"a\"\nboot_time = \"1m\"\n"
	for name, c := range map[string]struct{ text, want string }{
		"no pools":           {"", "f.toml: there are no pools"},
		"a misspelt key":     {pool + "prize = 1", `f.toml:4:1: unknown key "prize"`},
		"a duration":         {pool + "delete_time = \"soon\"", `f.toml:4:15: "soon" is not a duration`},
		"a bare duration":    {pool + "delete_time = 3", "f.toml:4:15: 3 must be in quotes"},
		"a negative price":   {pool + "price = -1", "f.toml:4:9: -1 is not a number from 0"},
		"a quoted number":    {pool + "price = \"1\"", `f.toml:4:9: "1" must not be in quotes`},
		"a share above one":  {pool + "boot_failures = 1.5", "f.toml:4:17: 1.5 is not a number from 0 to 1"},
		"half a slot":        {pool + "slots = 1.5", "f.toml:4:9: 1.5 is not a whole number"},
		"a size":             {pool + "memory = \"many\"", `f.toml:4:10: "many" is not a size`},
		"spot":               {pool + "[[jobs]]\nrate = 1\nmedian = \"1m\"\nspot = \"yes\"", `f.toml:7:8: "yes" must be one of any, only, never`},
		"in an inner table":  {pool + "billing = { granularity = \"1x\" }", "f.toml:4:27: "},
		"no name":            {"[[pools]]\nboot_time = \"1m\"", "f.toml:1:1: the pool has no name"},
		"one name twice":     {pool + pool, `f.toml:4:1: there are two pools "a"`},
		"no boot time":       {"[[pools]]\nname = \"a\"", "f.toml:1:1: the pool has no boot_time"},
		"a boot of a year":   {"[[pools]]\nname = \"a\"\nboot_time = \"9000h\"", "f.toml:1:1: boot_time is longer than a day"},
		"no rate":            {pool + "[[jobs]]\nmedian = \"1m\"", "f.toml:4:1: the jobs have no rate"},
		"no duration":        {pool + "[[jobs]]\nrate = 1", "f.toml:4:1: the jobs have no median duration"},
		"p95 below median":   {pool + "[[jobs]]\nrate = 1\nmedian = \"5m\"\np95 = \"1m\"", "f.toml:4:1: p95 is shorter"},
		"hours of no day":    {pool + "[[jobs]]\nrate = 1\nmedian = \"5m\"\nhours = [1, 2]", "f.toml:4:1: hours must have 24 or 168 factors, not 2"},
		"too long":           {"length = \"10000h\"\n" + pool, "length is longer than a year"},
		"no TOML":            {"[[pools", "f.toml:1:"},
		"two mistakes shown": {"[[pools]]\nname = \"a\"\n[[pools]]\n", "the pool has no boot_time\nf.toml:3:1: the pool has no name"},
	} {
		_, err := scenario.Parse("f.toml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

func TestTheExamplesAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../examples/fleet/*.toml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scenario.Parse(file, text); err != nil {
			t.Error(err)
		}
	}
}

func TestARecordedLoadIsRead(t *testing.T) {
	t.Parallel()
	text := `# from a manager
created,seconds,cpus,memory,disk,gpus,arch,os,spot
2026-03-02T10:00:30Z,90.5,2,4GiB,,,amd64,linux,never
2026-03-02T10:00:00.5+01:00,60,,,,,,,
`
	load, start, err := scenario.ParseLoad("l.csv", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []simulate.Job{
		{At: 9*time.Hour + 500*time.Millisecond, Run: time.Minute},
		{At: 10*time.Hour + 30*time.Second, Run: 90500 * time.Millisecond, Needs: scale.Needs{Shape: scale.Shape{CPUs: 2, Memory: 4 << 30, Arch: "amd64", OS: "linux"}, Spot: scale.NoSpot}},
	}
	if diff := cmp.Diff(want, load); diff != "" || !start.Equal(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) {
		t.Error(start, diff)
	}
	load, start, err = scenario.ParseLoad("l.csv", []byte("seconds,created\n60,3.5\n"))
	if err != nil || !start.IsZero() || len(load) != 1 || load[0].At != 3500*time.Millisecond {
		t.Error(load, start, err)
	}
	if again, _, err := scenario.ParseLoad("l.csv", []byte("\ufeffseconds,created\n60,3.5\n")); err != nil || !cmp.Equal(load, again) {
		t.Error("with the mark of Excel:", again, err)
	}
}

func TestWhatIsWrongWithARecordedLoadHasItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "l.csv: the load is empty"},
		"an unknown column": {"created,seconds,ram\n", `l.csv:1:17: unknown column "ram"`},
		"a column twice":    {"created,seconds,cpus,seconds\n3,4,1,5\n", `l.csv:1:22: there are two columns "seconds"`},
		"after a mark":      {"\ufeffcreated,seconds,ram\n", `l.csv:1:17: unknown column "ram"`},
		"a missing column":  {"created,cpus\n", `l.csv:1:1: there is no column "seconds"`},
		"no time":           {"created,seconds\nsoon,3\n", "l.csv:2:1: created: it must be a time"},
		"no duration":       {"created,seconds\n3,\n", "l.csv:2:3: seconds:"},
		"below zero":        {"created,seconds\n3,-4\n", "l.csv:2:3: seconds: -4 is not a number from 0"},
		"no size":           {"created,seconds,memory\n3,4,much\n", `l.csv:2:5: memory: "much" is not a size`},
		"too few fields":    {"created,seconds\n3\n", "l.csv:2:1: this is not valid CSV: wrong number of fields"},
		"both kinds":        {"created,seconds\n3,4\n2026-03-02T10:00:00Z,5\n", "l.csv:3:1: created: some are times"},
	} {
		_, _, err := scenario.ParseLoad("l.csv", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("created,seconds\n3,4\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = scenario.Parse("f.toml", text)
		_, _, _ = scenario.ParseLoad("l.csv", text)
	})
}
