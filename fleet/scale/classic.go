package scale

import (
	"fmt"
	"math"
	"time"

	"github.com/rungci/rung/fleet/schedule"
)

// Classic is the policy of gitlab-runner's autoscaler, as it is documented. What is not documented has an option, so that a simulation can try both.
//
// Source: GitLab's documentation of [runners.autoscaler], its runbooks, and the fields of the log line "required scaling change".
type Classic struct {
	Policies schedule.Policies
	// RoundUp counts all slots of machines of which only some are of use, as jobs have taken the others for good.
	RoundUp bool

	force inForce
}

func (c *Classic) at(now time.Time) *schedule.Policy { return c.force.at(now, c.Policies) }

// Plan is the documented formula, but that slots which are reserved are not in demand. Whether they are beside those to keep idle is not documented; with either, a
// question to GitLab makes a machine that nobody may need, and questions that follow one another keep it for ever.
//
// A machine that takes no more jobs is in neither side of it, and one that takes fewer than it has slots has only these. Where some slots of machines are not there, only
// the difference may be rounded: rounded by itself, each side makes a machine that no job needs.
func (c *Classic) Plan(now time.Time, v *View) Plan {
	policy, slots := c.at(now), v.Pool.Slots
	p := Plan{Spare: policy.IdleCount}
	if policy.ScaleFactor > 0 {
		scaled := int(math.Ceil(policy.ScaleFactor * float64(v.Busy)))
		if policy.ScaleFactorLimit > 0 {
			scaled = min(scaled, policy.ScaleFactorLimit)
		}
		p.Spare = max(p.Spare, scaled)
	}
	demand, have := v.Busy-v.Draining+v.Waiting+p.Spare, c.slots(v)
	if p.Surplus = have - demand; p.Surplus > 0 {
		p.Change = -v.Idle
		return p
	}
	if c.RoundUp {
		have = (have + slots - 1) / slots * slots
	}
	p.Change = (max(0, demand-have) + slots - 1) / slots
	return p
}

// slots are those that jobs have and can have, now or soon.
func (c *Classic) slots(v *View) int { return v.Busy - v.Draining + v.Free + v.Coming }

// Sentence says what the formula was about.
func (c *Classic) Sentence(v *View, p Plan) string {
	return fmt.Sprintf("pool %s has %s for %s, %s and %d to keep idle", v.Pool.Name,
		count(c.slots(v), "slot"), count(v.Busy-v.Draining, "running job"), count(v.Waiting, "waiting job"), p.Spare)
}

// Order is that of being idle.
func (c *Classic) Order(_ time.Time, _ *Pool, _, idleSince time.Time) time.Time { return idleSince }

// Hold keeps a machine for the idle time.
func (c *Classic) Hold(now time.Time, _ *Pool, _, idleSince time.Time) time.Time {
	return idleSince.Add(c.at(now).IdleTime)
}

// Preemptive is that of the policy in force.
func (c *Classic) Preemptive(now time.Time) bool { return c.at(now).Preemptive }

// Next is the next minute, if there are policies.
func (c *Classic) Next(now time.Time) time.Time { return nextMinute(now, c.Policies) }

// inForce is the policy in force in a minute, so that it is not looked for with every decision.
type inForce struct {
	minute  time.Time
	current schedule.Policy
}

func (f *inForce) at(now time.Time, all schedule.Policies) *schedule.Policy {
	if minute := now.Truncate(time.Minute); !minute.Equal(f.minute) {
		f.minute, f.current = minute, all.At(now)
	}
	return &f.current
}

// nextMinute is when another policy may be in force; never if there is none.
func nextMinute(now time.Time, all schedule.Policies) time.Time {
	if len(all) == 0 {
		return time.Time{}
	}
	return now.Truncate(time.Minute).Add(time.Minute)
}
