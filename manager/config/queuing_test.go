package config_test

import (
	"testing"
	"time"

	"github.com/rungci/rung/manager/config"
)

func TestAJobIsLateWhereAThresholdApplies(t *testing.T) {
	t.Parallel()
	// A Monday, 10:30:15 in UTC: 11:30 in Berlin.
	at := time.Date(2026, 1, 12, 10, 30, 15, 0, time.UTC)
	threshold := func(period, zone, running string) config.JobQueuingDuration {
		return config.JobQueuingDuration{Periods: []string{period}, Timezone: zone, Threshold: time.Minute, JobsRunningForProject: running}
	}
	always := threshold("* * * * * * *", "UTC", "")
	for name, c := range map[string]struct {
		of      []config.JobQueuingDuration
		waited  time.Duration
		running string
		want    bool
	}{
		"none":                       {nil, time.Hour, "0", false},
		"waited longer":              {[]config.JobQueuingDuration{always}, 61 * time.Second, "0", true},
		"waited as long":             {[]config.JobQueuingDuration{always}, time.Minute, "0", false},
		"in the hours of the work":   {[]config.JobQueuingDuration{threshold("* * 9-17 * * mon-fri *", "UTC", "")}, time.Hour, "0", true},
		"before them":                {[]config.JobQueuingDuration{threshold("* * 11-17 * * mon-fri *", "UTC", "")}, time.Hour, "0", false},
		"in another time zone":       {[]config.JobQueuingDuration{threshold("* * 11-17 * * mon-fri *", "Europe/Berlin", "")}, time.Hour, "0", true},
		"on another day":             {[]config.JobQueuingDuration{threshold("* * * * * sat,sun *", "UTC", "")}, time.Hour, "0", false},
		"five fields, whole minutes": {[]config.JobQueuingDuration{threshold("30 10 * * *", "UTC", "")}, time.Hour, "0", true},
		"six fields":                 {[]config.JobQueuingDuration{threshold("* 10 * * * 2025", "UTC", "")}, time.Hour, "0", false},
		"few jobs":                   {[]config.JobQueuingDuration{threshold("* * * * * * *", "UTC", "^[0-4]$")}, time.Hour, "4", true},
		"many jobs":                  {[]config.JobQueuingDuration{threshold("* * * * * * *", "UTC", "^[0-4]$")}, time.Hour, "5+", false},
		"the last one counts":        {[]config.JobQueuingDuration{always, {Periods: always.Periods, Timezone: "UTC", Threshold: 2 * time.Hour}}, time.Hour, "0", false},
		"a threshold of nothing":     {[]config.JobQueuingDuration{{Periods: always.Periods, Timezone: "UTC"}}, time.Hour, "0", false},
	} {
		if got := (config.Monitoring{JobQueuingDurations: c.of}).Late(at, c.waited, c.running); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
