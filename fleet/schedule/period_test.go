package schedule_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/schedule"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	got, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAPeriodIsASetOfMinutes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		period, zone, at string
		want             bool
	}{
		"every minute":                         {"* * * * *", "UTC", "2026-01-12T10:30:59Z", true},
		"one minute":                           {"30 10 * * *", "UTC", "2026-01-12T10:30:59Z", true},
		"the minute after":                     {"30 10 * * *", "UTC", "2026-01-12T10:31:00Z", false},
		"a range of hours, its last minute":    {"* 9-17 * * *", "UTC", "2026-01-12T17:59:59Z", true},
		"after a range of hours":               {"* 9-17 * * *", "UTC", "2026-01-12T18:00:00Z", false},
		"a step":                               {"*/15 * * * *", "UTC", "2026-01-12T10:45:00Z", true},
		"between steps":                        {"*/15 * * * *", "UTC", "2026-01-12T10:46:00Z", false},
		"a step in a range":                    {"0-30/10 * * * *", "UTC", "2026-01-12T10:40:00Z", false},
		"a list":                               {"* 8,12,16 * * *", "UTC", "2026-01-12T12:00:00Z", true},
		"names of days":                        {"* * * * MON-FRI", "UTC", "2026-01-12T00:00:00Z", true},
		"a day that is not named":              {"* * * * mon-fri", "UTC", "2026-01-11T23:59:59Z", false},
		"names of months":                      {"* * * jan,MAR *", "UTC", "2026-03-12T10:30:00Z", true},
		"Sunday is 0":                          {"* * * * 0", "UTC", "2026-01-11T10:00:00Z", true},
		"Sunday is 7":                          {"* * * * 7", "UTC", "2026-01-11T10:00:00Z", true},
		"until Sunday, on Sunday":              {"* * * * fri-sun", "UTC", "2026-01-11T10:00:00Z", true},
		"until Sunday, on Saturday":            {"* * * * 5-7", "UTC", "2026-01-10T10:00:00Z", true},
		"until Sunday, on Thursday":            {"* * * * 5-7", "UTC", "2026-01-08T10:00:00Z", false},
		"all week":                             {"* * * * mon-sun", "UTC", "2026-01-11T10:00:00Z", true},
		"either day is enough":                 {"* * 1 * mon", "UTC", "2026-01-12T10:00:00Z", true},
		"in another time zone":                 {"* 11 * * *", "Europe/Berlin", "2026-01-12T10:30:00Z", true},
		"another date there":                   {"* * 13 * *", "Asia/Tokyo", "2026-01-12T20:00:00Z", true},
		"a zone of half an hour":               {"0 16 * * *", "Asia/Kolkata", "2026-01-12T10:30:00Z", true},
		"a year":                               {"* * * * * 2025", "UTC", "2026-01-12T10:30:00Z", false},
		"a second":                             {"15 * * * * * *", "UTC", "2026-01-12T10:30:15Z", true},
		"another second":                       {"15 * * * * * *", "UTC", "2026-01-12T10:30:16Z", false},
		"clocks go back: the first 02:30":      {"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", true},
		"clocks go back: the second 02:30":     {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:30:00Z", true},
		"clocks go back: 03:00 comes once":     {"0 3 * * *", "Europe/Berlin", "2026-10-25T02:00:00Z", true},
		"clocks go forward: 01:59":             {"* 1 * * *", "Europe/Berlin", "2026-03-29T00:59:00Z", true},
		"clocks go forward: 03:00 follows":     {"0 3 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", true},
		"clocks go forward: there is no 02:30": {"30 2 * * *", "Europe/Berlin", "2026-03-29T01:30:00Z", false},
		"a zone whose midnight is skipped":     {"* 1 * * *", "Asia/Beirut", "2026-03-28T22:00:00Z", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			periods, err := schedule.Parse(c.zone, c.period)
			if err != nil {
				t.Fatal(err)
			}
			if got := periods.Contains(at(t, c.at)); got != c.want {
				t.Errorf("%q in %s contains %s: %v, want %v", c.period, c.zone, c.at, got, c.want)
			}
		})
	}
}

func TestOneOfSeveralExpressionsIsEnough(t *testing.T) {
	t.Parallel()
	periods, err := schedule.Parse("UTC", "* 8 * * *", "* 10 * * *")
	if err != nil {
		t.Fatal(err)
	}
	if !periods.Contains(at(t, "2026-01-12T10:30:00Z")) || periods.Contains(at(t, "2026-01-12T09:30:00Z")) {
		t.Error("the second expression does not count, or another hour does")
	}
	if (schedule.Periods{}).Contains(at(t, "2026-01-12T10:30:00Z")) {
		t.Error("no expression holds a time")
	}
}

func TestWhatIsNoPeriodIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ zone, period, want string }{
		"words":            {"UTC", "always", `"always" has 1 fields`},
		"an alias":         {"UTC", "@daily", "fields"},
		"too many fields":  {"UTC", "* * * * * * * *", "has 8 fields"},
		"an hour too late": {"UTC", "* 24 * * *", `"* 24 * * *" is not an expression of cron`},
		"no such zone":     {"Mars/Olympus", "* * * * *", `there is no time zone "Mars/Olympus"`},
	} {
		if _, err := schedule.Parse(c.zone, c.period); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

func TestPeriodsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	periods, err := schedule.Parse("UTC", "* * 1-20 * *")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for day := range 28 {
		all.Go(func() {
			when := time.Date(2026, 2, day+1, 12, 0, 0, 0, time.UTC)
			if got, want := periods.Contains(when), day < 20; got != want {
				t.Errorf("day %d: %v, want %v", day+1, got, want)
			}
		})
	}
	all.Wait()
}
