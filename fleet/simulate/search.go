package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
)

// Space is a family of policies: a list of values for each parameter.
type Space struct {
	Name       string
	Parameters []Parameter
	// Usual is where the search begins.
	Usual []int
	// Make makes the policy with the values at some places.
	Make func(at []int) scale.Policy
}

// Parameter is a number of a policy, and the values that it may have, in order.
type Parameter struct {
	Name   string
	Values []string
}

// Choice is a policy of a space, and what it does with a load.
type Choice struct {
	Space  *Space  `json:"-"`
	At     []int   `json:"-"`
	Result *Result `json:"result"`
}

// Policy makes the policy of the choice.
func (c *Choice) Policy() scale.Policy { return c.Space.Make(c.At) }

// String is the parameters with their values.
func (c *Choice) String() string {
	var all []string
	for i, p := range c.Space.Parameters {
		all = append(all, p.Name+"="+p.Values[c.At[i]])
	}
	return strings.Join(all, " ")
}

// Better says whether a result is better than another.
type Better func(a, b *Result) bool

// Cheapest prefers the lowest cost among results whose jobs have all ended and whose 95th percentile of waits is within a limit. While there is none, it
// prefers the one in which the most jobs have ended, and then the shortest wait.
func Cheapest(limit time.Duration) Better {
	return func(a, b *Result) bool {
		aMeets := a.Meets(limit)
		byWait := cmp.Compare(a.Wait.P95, b.Wait.P95)
		switch {
		case aMeets != b.Meets(limit):
			return aMeets
		case !aMeets:
			return cmp.Or(cmp.Compare(a.Unfinished, b.Unfinished), byWait, cmp.Compare(a.Cost, b.Cost)) < 0
		}
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), byWait) < 0
	}
}

// Trial is a load to judge a policy by.
type Trial struct {
	Setup Setup
	Load  []Job
}

// mean runs the trials. The result is that of the first, with the mean cost and waits of all.
func mean(ctx context.Context, trials []Trial, policy func() scale.Policy) (*Result, error) {
	var out *Result
	for i, t := range trials {
		r, err := Run(ctx, t.Setup, t.Load, policy())
		if err != nil {
			return nil, err
		}
		r.Series = nil
		if i == 0 {
			out = r
			continue
		}
		n := float64(i + 1)
		out.Cost += (r.Cost - out.Cost) / n
		out.Unfinished += r.Unfinished
		out.Wait.P95 += (r.Wait.P95 - out.Wait.P95) / n
	}
	return out, nil
}

// Search looks for the best policy of a space, by as many simulations as it may. From one starting point after the other it changes one parameter and
// then the next for as long as that helps. It is the same search for every space, and finds the same each time.
// With several trials, what counts is the mean of their costs and waits, so that no policy is best by one trial's luck.
func Search(ctx context.Context, trials []Trial, space *Space, better Better, simulations int) (*Choice, error) {
	known := map[string]*Choice{}
	try := func(at []int) (*Choice, error) {
		key := fmt.Sprint(at)
		if c := known[key]; c != nil {
			return c, nil
		}
		if len(known) >= simulations {
			return nil, nil
		}
		result, err := mean(ctx, trials, func() scale.Policy { return space.Make(at) })
		if err != nil {
			return nil, err
		}
		known[key] = &Choice{Space: space, At: append([]int(nil), at...), Result: result}
		return known[key], nil
	}
	var best *Choice
	dice := rand.New(rand.NewPCG(1, 1))
	for n := 0; n < maxStarts && len(known) < simulations; n++ {
		here, err := try(space.start(n, dice))
		if err != nil {
			return nil, err
		}
		for moved := here != nil; moved; {
			moved = false
			for i := range space.Parameters {
				next, err := along(here, i, better, try)
				if err != nil {
					return nil, err
				}
				if next != here {
					here, moved = next, true
				}
			}
		}
		if here != nil && (best == nil || better(here.Result, best.Result)) {
			best = here
		}
	}
	return best, nil
}

// along changes one parameter for as long as that helps: by one, and by more, as the next value may make no difference.
func along(here *Choice, i int, better Better, try func([]int) (*Choice, error)) (*Choice, error) {
	for _, step := range []int{1, -1, 2, -2, 4, -4, 8, -8} {
		for {
			at := append([]int(nil), here.At...)
			at[i] += step
			if at[i] < 0 || at[i] >= len(here.Space.Parameters[i].Values) {
				break
			}
			next, err := try(at)
			if err != nil {
				return nil, err
			}
			if next == nil || !better(next.Result, here.Result) {
				break
			}
			here = next
		}
	}
	return here, nil
}

// maxStarts ends a search that has seen all there is.
const maxStarts = 1000

// start is a point to begin at: the usual values, then a quarter, a half and three quarters into all lists, then anywhere.
func (s *Space) start(n int, dice *rand.Rand) []int {
	if n == 0 {
		return s.Usual
	}
	at := make([]int, len(s.Parameters))
	for i, p := range s.Parameters {
		if at[i] = len(p.Values) * n / 4; n > 3 {
			at[i] = dice.IntN(len(p.Values))
		}
	}
	return at
}

// texts are values as people write them.
func texts[T any](values []T) []string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// idleCounts are slots to keep free.
var idleCounts = []int{0, 1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 65, 80, 100}

// WorkingHours is a policy with one idle count, and another from 7:00 to 18:59 UTC on Monday to Friday.
func WorkingHours(of schedule.Policy, outside, inside int) schedule.Policies {
	always, _ := schedule.Parse("UTC", "* * * * *")
	work, _ := schedule.Parse("UTC", "* 7-18 * * mon-fri")
	night, day := of, of
	night.Periods, night.IdleCount = always, outside
	day.Periods, day.IdleCount = work, inside
	return schedule.Policies{night, day}
}

// Adaptive is the space of our policy.
func Adaptive() *Space {
	worth := []float64{0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.012, 0.014, 0.017, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1}
	memory := []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 4 * time.Hour}
	linger := []time.Duration{0, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}
	patience := []float64{0, 0.25, 0.5, 0.75, 1}
	hedge := []float64{0, 0.1, 0.25, 0.5, 0.75, 1, 1.5}
	return &Space{
		Name: "adaptive", Usual: []int{9, 2, 0, 2, 0, 0, 0},
		Parameters: []Parameter{
			{"worth", texts(worth)}, {"memory", texts(memory)}, {"linger", texts(linger)}, {"patience", texts(patience)},
			{"idle_count", texts(idleCounts)}, {"idle_count_working_hours", texts(idleCounts)}, {"hedge", texts(hedge)},
		},
		Make: func(at []int) scale.Policy {
			policies := WorkingHours(schedule.Policy{}, idleCounts[at[4]], idleCounts[at[5]])
			return &scale.Adaptive{Worth: worth[at[0]], Memory: memory[at[1]], Linger: linger[at[2]], Patience: patience[at[3]], Hedge: hedge[at[6]], Policies: policies}
		},
	}
}

// Existing is the space of the policy that gitlab-runner has: the same all week, or with other idle counts in working hours.
func Existing() *Space {
	idleTime := []time.Duration{time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 55 * time.Minute, time.Hour}
	factor := []float64{0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2}
	return &Space{
		Name: "existing", Usual: []int{2, 6, 1, 2, 0},
		Parameters: []Parameter{{"idle_count", texts(idleCounts)}, {"idle_count_working_hours", texts(idleCounts)}, {"idle_time", texts(idleTime)}, {"scale_factor", texts(factor)}, {"rounding", []string{"down", "up"}}},
		Make: func(at []int) scale.Policy {
			policies := WorkingHours(schedule.Policy{IdleTime: idleTime[at[2]], ScaleFactor: factor[at[3]]}, idleCounts[at[0]], idleCounts[at[1]])
			return &scale.Classic{Policies: policies, RoundUp: at[4] == 1}
		},
	}
}
