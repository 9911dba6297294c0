package scale

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/bytesize"
)

// String says what a job needs: only what it asks for.
func (n Needs) String() string {
	var all []string
	for _, one := range n.amounts(Shape{}) {
		if one.asks {
			all = append(all, one.text(one.needs))
		}
	}
	for _, name := range []string{n.OS, n.Arch} {
		if name != "" {
			all = append(all, name)
		}
	}
	switch n.Spot {
	case OnlySpot:
		all = append(all, "on spot")
	case NoSpot:
		all = append(all, "not on spot")
	}
	if len(all) == 0 {
		return "it needs any machine"
	}
	return "it needs " + strings.Join(all, ", ")
}

// amount is something of which a job needs so much, and a machine has so much.
type amount struct {
	key        string // of a pool in the configuration
	needs, has float64
	asks       bool
	text       func(float64) string
}

func (n Needs) amounts(has Shape) []amount {
	size := func(of string) func(float64) string {
		return func(v float64) string { return bytesize.Format(int64(v)) + " of " + of }
	}
	number := func(thing string) func(float64) string {
		return func(v float64) string {
			if v == 1 {
				return "1 " + thing
			}
			return strconv.FormatFloat(v, 'g', 4, 64) + " " + thing + "s"
		}
	}
	return []amount{
		{"cpus", n.CPUs, has.CPUs, n.CPUs > 0, number("CPU")},
		{"memory", float64(n.Memory), float64(has.Memory), n.Memory > 0, size("memory")},
		{"disk", float64(n.Disk), float64(has.Disk), n.Disk > 0, size("disk")},
		{"gpus", float64(n.GPUs), float64(has.GPUs), n.GPUs > 0, number("GPU")},
	}
}

// lacks says of a pool of which a slot is not enough what it does not have.
func (p *Pool) lacks(n Needs) string {
	for _, one := range []struct{ key, needs, has string }{{"os", n.OS, p.Shape.OS}, {"arch", n.Arch, p.Shape.Arch}} {
		switch {
		case one.needs == "" || one.needs == one.has:
		case one.has == "":
			return fmt.Sprintf("pool %s does not say which it has (its key %s)", p.Name, one.key)
		default:
			return fmt.Sprintf("pool %s has %s", p.Name, one.has)
		}
	}
	switch {
	case n.Spot == OnlySpot && !p.Spot:
		return fmt.Sprintf("pool %s is not on spot", p.Name)
	case n.Spot == NoSpot && p.Spot:
		return fmt.Sprintf("pool %s is on spot", p.Name)
	}
	for _, one := range n.amounts(p.Shape) {
		switch slots := float64(max(1, p.Slots)); {
		case one.needs*slots <= one.has+1e-9:
		case one.has == 0 && one.key != "gpus":
			return fmt.Sprintf("pool %s does not say how much it has (its key %s)", p.Name, one.key)
		case one.has == 0:
			return fmt.Sprintf("pool %s has none (its key %s)", p.Name, one.key)
		case slots > 1:
			return fmt.Sprintf("pool %s has %s for each of its %d slots", p.Name, one.text(one.has/slots), p.Slots)
		default:
			return fmt.Sprintf("pool %s has %s", p.Name, one.text(one.has))
		}
	}
	return ""
}

// maxUnfit is how many pools are listed that are not enough.
const maxUnfit = 5

// unfit says that no pool is enough for a job, and why each is not.
func unfit(pools []*pool, n Needs) error {
	var why []string
	more := 0
	for _, p := range pools {
		switch {
		case p.bit == 0:
		case len(why) == maxUnfit:
			more++
		default:
			why = append(why, p.lacks(n))
		}
	}
	if more > 0 {
		why = append(why, fmt.Sprintf("and %d more", more))
	}
	if len(why) == 0 {
		return fmt.Errorf("%w: there is no pool", ErrUnfit)
	}
	return fmt.Errorf("%w: %s; %s", ErrUnfit, n, strings.Join(why, "; "))
}
