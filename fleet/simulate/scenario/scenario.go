// Package scenario reads what is simulated: a file of TOML with pools and described loads, and recorded loads as CSV.
package scenario

import (
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/internal/placed"
)

// Scenario is a file.
type Scenario struct {
	Setup   simulate.Setup
	Sources []simulate.Source
	// Wait is what the 95th percentile of waits may be, where the cheapest policy is searched for.
	Wait time.Duration
	// Adaptive is our policy, as the file sets it.
	Adaptive scale.Adaptive
}

// Limits of a scenario.
const (
	MaxFileSize = 1 << 20
	maxLength   = 366 * 24 * time.Hour
)

// Defaults of a scenario.
const (
	defaultLength = 7 * 24 * time.Hour
	defaultWait   = 30 * time.Second
)

// file is the file's keys.
type file struct {
	Start      time.Time `toml:"start"`
	Length     duration  `toml:"length"`
	Seed       count     `toml:"seed"`
	Poll       duration  `toml:"poll"`
	WaitTarget duration  `toml:"wait_target"`
	Pools      []pool    `toml:"pools"`
	Jobs       []jobs    `toml:"jobs"`
	Adaptive   struct {
		Worth    share    `toml:"worth"`
		Memory   duration `toml:"memory"`
		Linger   duration `toml:"linger"`
		Patience share    `toml:"patience"`
		Hedge    amount   `toml:"hedge"`
		Idle     count    `toml:"idle_count"`
		IdleWork count    `toml:"idle_count_working_hours"`
	} `toml:"adaptive"`
}

type pool struct {
	Name    string  `toml:"name"`
	CPUs    amount  `toml:"cpus"`
	Memory  size    `toml:"memory"`
	Disk    size    `toml:"disk"`
	GPUs    count   `toml:"gpus"`
	Arch    string  `toml:"arch"`
	OS      string  `toml:"os"`
	Spot    bool    `toml:"spot"`
	Price   amount  `toml:"price"`
	Billing billing `toml:"billing"`

	SuspendedPrice amount   `toml:"suspended_price"`
	Suspend        count    `toml:"suspend"`
	ResumeTime     duration `toml:"resume_time"`

	Slots        count `toml:"slots"`
	MaxInstances count `toml:"max_instances"`
	MaxUseCount  count `toml:"max_use_count"`
	Throttle     struct {
		Limit amount `toml:"limit"`
		Burst count  `toml:"burst"`
	} `toml:"throttle"`

	BootTime       duration `toml:"boot_time"`
	BootSpread     share    `toml:"boot_spread"`
	BootTimeout    duration `toml:"boot_timeout"`
	DeleteTime     duration `toml:"delete_time"`
	CreateFailures share    `toml:"create_failures"`
	BootFailures   share    `toml:"boot_failures"`
	Interruptions  amount   `toml:"interruptions"`
}

type billing struct {
	Granularity duration `toml:"granularity"`
	Minimum     duration `toml:"minimum"`
}

type jobs struct {
	Name   string   `toml:"name"`
	Rate   amount   `toml:"rate"`
	Hours  []amount `toml:"hours"`
	Burst  amount   `toml:"burst"`
	Median duration `toml:"median"`
	P95    duration `toml:"p95"`
	CPUs   amount   `toml:"cpus"`
	Memory size     `toml:"memory"`
	Disk   size     `toml:"disk"`
	GPUs   count    `toml:"gpus"`
	Arch   string   `toml:"arch"`
	OS     string   `toml:"os"`
	Spot   spot     `toml:"spot"`
}

// Parse reads a file. The error shows all places that are wrong.
func Parse(name string, text []byte) (*Scenario, error) {
	in := placed.Text{Name: name, Text: text}
	if len(text) > MaxFileSize {
		return nil, in.At(0, 0, "", "the file is larger than %d KiB", MaxFileSize>>10)
	}
	var f file
	if err := in.TOML(&f); err != nil {
		return nil, err
	}
	if err := f.check(in).Err(); err != nil {
		return nil, err
	}
	s := &Scenario{
		Setup: simulate.Setup{Start: f.Start, Length: or(f.Length, defaultLength), Seed: uint64(f.Seed), Poll: time.Duration(f.Poll)},
		Wait:  or(f.WaitTarget, defaultWait),
		Adaptive: scale.Adaptive{
			Worth: float64(f.Adaptive.Worth), Memory: time.Duration(f.Adaptive.Memory), Linger: time.Duration(f.Adaptive.Linger), Patience: float64(f.Adaptive.Patience),
			Hedge: float64(f.Adaptive.Hedge),
		},
	}
	if a := f.Adaptive; a.Idle > 0 || a.IdleWork > 0 {
		s.Adaptive.Policies = simulate.WorkingHours(schedule.Policy{}, int(a.Idle), int(a.IdleWork))
	}
	if s.Setup.Start.IsZero() {
		s.Setup.Start = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday
	}
	for _, p := range f.Pools {
		s.Setup.Pools = append(s.Setup.Pools, p.made())
	}
	for _, j := range f.Jobs {
		s.Sources = append(s.Sources, j.source())
	}
	return s, nil
}

func or(d duration, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}

// check finds what is wrong with tables as a whole.
func (f *file) check(in placed.Text) (all placed.Errors) {
	if len(f.Pools) == 0 {
		all = append(all, in.At(0, 0, "write a table [[pools]] with name, price and boot_time", "there are no pools")...)
	}
	if time.Duration(f.Length) > maxLength {
		all = append(all, in.At(0, 0, "", "length is longer than a year")...)
	}
	names := map[string]bool{}
	for i, p := range f.Pools {
		switch {
		case p.Name == "":
			all = append(all, in.Table("pools", i, `write name = "linux"`, "the pool has no name")...)
		case names[p.Name]:
			all = append(all, in.Table("pools", i, "", "there are two pools %q", p.Name)...)
		case p.BootTime == 0:
			all = append(all, in.Table("pools", i, `write boot_time = "60s"`, "the pool has no boot_time")...)
		case time.Duration(p.BootTime) > simulate.MaxBootTime:
			all = append(all, in.Table("pools", i, "", "boot_time is longer than a day")...)
		}
		names[p.Name] = true
	}
	for i, j := range f.Jobs {
		switch {
		case j.Rate == 0:
			all = append(all, in.Table("jobs", i, "write rate = 20, the number of pipelines in an hour", "the jobs have no rate")...)
		case j.Median == 0:
			all = append(all, in.Table("jobs", i, `write median = "2m"`, "the jobs have no median duration")...)
		case j.P95 != 0 && j.P95 < j.Median:
			all = append(all, in.Table("jobs", i, "", "p95 is shorter than the median")...)
		case len(j.Hours) != 0 && len(j.Hours) != 24 && len(j.Hours) != 168:
			all = append(all, in.Table("jobs", i, "write 24 factors for the hours of a day, or 168 for those of a week, from Monday", "hours must have 24 or 168 factors, not %d", len(j.Hours))...)
		}
	}
	return all
}

func (p *pool) made() simulate.Pool {
	return simulate.Pool{
		Pool: scale.Pool{
			Name:  p.Name,
			Shape: scale.Shape{CPUs: float64(p.CPUs), Memory: int64(p.Memory), Disk: int64(p.Disk), GPUs: int(p.GPUs), Arch: p.Arch, OS: p.OS},
			Spot:  p.Spot, Price: float64(p.Price), SuspendedPrice: float64(p.SuspendedPrice), Suspend: int(p.Suspend),
			Billing: scale.Billing{Granularity: time.Duration(p.Billing.Granularity), Minimum: time.Duration(p.Billing.Minimum)},
			Slots:   max(1, int(p.Slots)), MaxInstances: int(p.MaxInstances), MaxUses: int(p.MaxUseCount),
			Throttle: scale.Throttle{Limit: float64(p.Throttle.Limit), Burst: int(p.Throttle.Burst)},
			BootTime: time.Duration(p.BootTime), BootTimeout: time.Duration(p.BootTimeout),
		},
		BootSpread: float64(p.BootSpread), CreateFailures: float64(p.CreateFailures), BootFailures: float64(p.BootFailures),
		Interruptions: float64(p.Interruptions), DeleteTime: time.Duration(p.DeleteTime), ResumeTime: time.Duration(p.ResumeTime),
	}
}

func (j *jobs) source() simulate.Source {
	s := simulate.Source{
		Rate: float64(j.Rate), Burst: float64(j.Burst), Median: time.Duration(j.Median), P95: time.Duration(j.P95),
		Needs: scale.Needs{
			Shape: scale.Shape{CPUs: float64(j.CPUs), Memory: int64(j.Memory), Disk: int64(j.Disk), GPUs: int(j.GPUs), Arch: j.Arch, OS: j.OS},
			Spot:  scale.Spot(j.Spot),
		},
	}
	for _, h := range j.Hours {
		s.Hours = append(s.Hours, float64(h))
	}
	return s
}
