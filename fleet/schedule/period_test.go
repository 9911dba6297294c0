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
		"through the night, at 23":             {"* 22-6 * * *", "UTC", "2026-01-12T23:10:00Z", true},
		"through the night, at 6":              {"* 22-6 * * *", "UTC", "2026-01-12T06:59:59Z", true},
		"through the night, at 12":             {"* 22-6 * * *", "UTC", "2026-01-12T12:00:00Z", false},
		"nights of days, the morning":          {"* 18-8 * * mon-fri", "UTC", "2026-01-10T06:00:00Z", false},
		"nights of days, Monday":               {"* 18-8 * * mon-fri", "UTC", "2026-01-12T06:00:00Z", true},
		"over the hour":                        {"50-10 * * * *", "UTC", "2026-01-12T10:05:00Z", true},
		"over the hour, at half past":          {"50-10 * * * *", "UTC", "2026-01-12T10:30:00Z", false},
		"over the minute":                      {"50-10 * * * * * *", "UTC", "2026-01-12T10:30:05Z", true},
		"over the year":                        {"* * * nov-feb *", "UTC", "2026-01-12T10:00:00Z", true},
		"over the year, in March":              {"* * * nov-feb *", "UTC", "2026-03-12T10:00:00Z", false},
		"over the month":                       {"* * 28-3 * *", "UTC", "2026-03-02T10:00:00Z", true},
		"over the month, in its middle":        {"* * 28-3 * *", "UTC", "2026-03-12T10:00:00Z", false},
		"over the week, on Sunday":             {"* * * * fri-mon", "UTC", "2026-01-11T10:00:00Z", true},
		"over the week, on Monday":             {"* * * * sat-mon", "UTC", "2026-01-12T10:00:00Z", true},
		"over the week, on Tuesday":            {"* * * * fri-mon", "UTC", "2026-01-13T10:00:00Z", false},
		"a step goes on over the end":          {"* 22-6/2 * * *", "UTC", "2026-01-12T04:00:00Z", true},
		"a step goes over what is between":     {"* 22-6/2 * * *", "UTC", "2026-01-12T05:00:00Z", false},
		"both Sundays":                         {"* * * * 0-7", "UTC", "2026-01-14T10:00:00Z", true},
		"from Sunday":                          {"* * * * 7-2", "UTC", "2026-01-13T10:00:00Z", true},
		"from Sunday, on Wednesday":            {"* * * * sun-tue", "UTC", "2026-01-14T10:00:00Z", false},
		"Sunday alone, as a range":             {"* * * * 7-7", "UTC", "2026-01-12T10:00:00Z", false},
		"until Sunday in steps":                {"* * * * mon-sun/2", "UTC", "2026-01-11T10:00:00Z", true},
		"until Sunday in steps, on Tuesday":    {"* * * * mon-sun/2", "UTC", "2026-01-13T10:00:00Z", false},
		"until Sunday in steps of one":         {"* * * * 5-7/1", "UTC", "2026-01-11T10:00:00Z", true},
		"until Sunday, in a list":              {"* * * * fri-sun,tue", "UTC", "2026-01-11T10:00:00Z", true},
		"a day with a zero before it":          {"* * * * 01", "UTC", "2026-01-12T10:00:00Z", true},
		"a month with a zero before it":        {"* * * 01 *", "UTC", "2026-01-12T10:00:00Z", true},
		"whole names":                          {"* * * April-june Friday", "UTC", "2026-05-15T10:00:00Z", true},
		"the second Friday":                    {"* * * * fri#2", "UTC", "2026-05-08T10:00:00Z", true},
		"the last Friday":                      {"* * * * 5L", "UTC", "2026-05-29T10:00:00Z", true},
		"the last day":                         {"* * L * *", "UTC", "2026-05-31T10:00:00Z", true},
		"the working day next to the 16th":     {"* * 16W * ?", "UTC", "2026-05-15T10:00:00Z", true},
		"all days and the first":               {"* * 1,* * mon", "UTC", "2026-01-12T10:00:00Z", true},
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
		"words":            {"UTC", "always", `"always" has 1 field`},
		"an alias":         {"UTC", "@daily", `"@daily" has 1 field`},
		"too many fields":  {"UTC", "* * * * * * * *", "has 8 fields"},
		"an hour too late": {"UTC", "* 24 * * *", `"* 24 * * *" is not an expression of cron`},
		"an alias inside":  {"UTC", "@daily * * * *", `the minute "@daily" is not *, a number, or a range such as 0-1`},
		"a day of 8":       {"UTC", "* * * * 8", `the day of the week "8" is not from 0 to 7`},
		"a month of 0":     {"UTC", "* * * 0 *", `the month "0" is not from 1 to 12`},
		"a word":           {"UTC", "* * * * mon-fry", `the day of the week "fry" is not from 0 to 7`},
		"a step of 0":      {"UTC", "*/0 * * * *", `"*/0" has a step that is not from 1 to 59`},
		"a huge step":      {"UTC", "*/99999999999999999999 * * * *", "has a step that is not"},
		"a huge number":    {"UTC", "99999999999999999999 * * * *", "is not from 0 to 59"},
		"nothing":          {"UTC", "* , * * *", `the hour "," is empty`},
		"years backwards":  {"UTC", "* * * * * 2027-2025", `the range "2027-2025" of years ends before it begins`},
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

func TestAPeriodThatNeverHoldsIsKnown(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]bool{
		"* * 31 2 *": true, "* * 30-31 feb *": true, "* * 29 2 * 2027": true, "* * 31 4,6,9,11 *": true,
		"* * 29 2 *": false, "* * 31 2 mon": false, "* * * * *": false, "* 22-6 * * *": false, "* * 28-3 2 *": false, "always": false, "* * * * * 1970": false,
	} {
		if got := schedule.Never(expression); got != want {
			t.Errorf("%q never holds: %v, want %v", expression, got, want)
		}
	}
}

// FuzzParse looks for expressions that are accepted, and on which something panics later.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* 22-6 * * *", "50-10 * * * *", "* * 28-3 * *", "* * * nov-feb *", "* * * * fri-mon", "* * L * 5L", "* * 15W,LW * fri#2", "* * 31 2 *", "* * * * * * 2027-2025", "1,,2 ? 7/3 */2 0-7/2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		periods, err := schedule.Parse("UTC", expression)
		if err != nil {
			return
		}
		holds := false
		for _, start := range []string{"1970-01-01T00:00:00Z", "2026-12-31T22:59:59Z", "2028-02-29T00:00:00Z", "2099-12-31T23:59:59Z", "2199-12-31T23:59:59Z"} {
			for hour := range 49 {
				holds = periods.Contains(at(t, start).Add(time.Duration(hour)*time.Hour)) || holds
			}
		}
		if never := schedule.Never(expression); never && holds {
			t.Errorf("%q never holds, and does", expression)
		}
	})
}
