package config

import (
	"fmt"
	"time"

	"github.com/rungci/rung/fleet/schedule"
)

// Autoscaler is how many machines an entry of executor docker-autoscaler or instance has. Numbers of 0 are no limit, and durations of 0 the default.
type Autoscaler struct {
	CapacityPerInstance         int                `toml:"capacity_per_instance"` // jobs at once; 0 is one
	MaxUseCount                 int                `toml:"max_use_count"`         // jobs of a machine
	MaxInstances                int                `toml:"max_instances"`         // in every state
	UpdateIntervalWhenExpecting time.Duration      `toml:"update_interval_when_expecting"`
	DeletionRetryInterval       time.Duration      `toml:"deletion_retry_interval"`
	ReservationThrottling       *bool              `toml:"reservation_throttling"` // nil: true
	ScaleThrottle               ScaleThrottle      `toml:"scale_throttle"`
	Policies                    []AutoscalerPolicy `toml:"policy"`
}

// ScaleThrottle is how fast machines are asked for.
type ScaleThrottle struct {
	Limit int `toml:"limit"` // a second; 0 is 100, -1 no limit
	Burst int `toml:"burst"` // 0: MaxInstances, or Limit
}

// AutoscalerPolicy is what is kept ready in some periods.
type AutoscalerPolicy struct {
	Periods          []string      `toml:"periods"` // as cron has them; none is always
	Timezone         string        `toml:"timezone"`
	IdleCount        int           `toml:"idle_count"` // slots
	IdleTime         time.Duration `toml:"idle_time"`
	ScaleFactor      float64       `toml:"scale_factor"`
	ScaleFactorLimit int           `toml:"scale_factor_limit"`
	PreemptiveMode   *bool         `toml:"preemptive_mode"` // nil: if IdleCount is more than 0
}

// Schedule is the policies as the fleet has them. The error is about a period or a time zone.
func (a *Autoscaler) Schedule() (schedule.Policies, error) {
	var all schedule.Policies
	for _, p := range a.Policies {
		periods, err := p.periods()
		if err != nil {
			return nil, err
		}
		one := schedule.Policy{
			Periods: periods, IdleCount: p.IdleCount, IdleTime: p.IdleTime, ScaleFactor: p.ScaleFactor, ScaleFactorLimit: p.ScaleFactorLimit,
			Preemptive: p.IdleCount > 0,
		}
		if p.PreemptiveMode != nil {
			one.Preemptive = *p.PreemptiveMode
		}
		all = append(all, one)
	}
	return all, nil
}

func (p *AutoscalerPolicy) periods() (schedule.Periods, error) {
	if len(p.Periods) == 0 {
		return schedule.Parse(p.Timezone, "* * * * *")
	}
	return schedule.Parse(p.Timezone, p.Periods...)
}

// autoscaler checks the policies of an entry.
func (r *reader) autoscaler(e *Runner, path string) {
	if e.Autoscaler == nil {
		return
	}
	for i, p := range e.Autoscaler.Policies {
		at := fmt.Sprintf("%s.autoscaler.policy[%d]", path, i)
		if _, err := schedule.Zone(p.Timezone); err != nil {
			r.found(problem, "config/value", at+".timezone", r.doc.vals, "write a name such as Europe/Berlin or UTC", "%v", err)
		} else if _, err := p.periods(); err != nil {
			r.found(problem, "config/value", at+".periods", r.doc.vals, `write for example "* 9-17 * * mon-fri": minute, hour, day, month, weekday`, "%v", err)
		}
		if p.IdleTime < 0 {
			r.found(problem, "config/value", at+".idle_time", r.doc.vals, "", "idle_time cannot be less than 0")
		}
	}
}
