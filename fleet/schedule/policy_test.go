package schedule_test

import (
	"testing"

	"github.com/rungci/rung/fleet/schedule"
)

func TestTheLastPolicyWhosePeriodHoldsIsInForce(t *testing.T) {
	t.Parallel()
	policy := func(idle int, expressions ...string) schedule.Policy {
		periods, err := schedule.Parse("UTC", expressions...)
		if err != nil {
			t.Fatal(err)
		}
		return schedule.Policy{Periods: periods, IdleCount: idle}
	}
	always, days, lunch := policy(1, "* * * * *"), policy(5, "* 8-17 * * mon-fri"), policy(3, "* 12 * * *")
	for name, c := range map[string]struct {
		of   schedule.Policies
		at   string
		want int
	}{
		"none":                      {nil, "2026-01-12T12:00:00Z", schedule.Outside.IdleCount},
		"outside of all":            {schedule.Policies{days}, "2026-01-12T20:00:00Z", schedule.Outside.IdleCount},
		"the only one":              {schedule.Policies{always, days, lunch}, "2026-01-12T20:00:00Z", 1},
		"the last of two":           {schedule.Policies{always, days, lunch}, "2026-01-12T09:00:00Z", 5},
		"the last of three":         {schedule.Policies{always, days, lunch}, "2026-01-12T12:59:59Z", 3},
		"the order counts, no more": {schedule.Policies{lunch, days, always}, "2026-01-12T12:30:00Z", 1},
	} {
		if got := c.of.At(at(t, c.at)).IdleCount; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
