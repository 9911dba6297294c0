package scale_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// BenchmarkDecide10000 is a decision for 10,000 machines with 50,000 slots, 49,000 of them busy, after one job has ended and another come. The figure
// that we promise is 10 ms.
func BenchmarkDecide10000(b *testing.B) {
	const machines, slots, busy = 10_000, 5, 49_000
	p := scale.Pool{Name: "p", Shape: scale.Shape{CPUs: 10}, Slots: slots, Throttle: scale.Throttle{Limit: -1}}
	f, err := scale.New(scale.Config{Name: "f", Pools: []scale.Pool{p}}, &scale.Adaptive{})
	if err != nil {
		b.Fatal(err)
	}
	now := start
	for i := range machines * slots {
		_ = f.Ask(now, fmt.Sprint(i), scale.Needs{})
	}
	for _, a := range f.Decide(now).Actions {
		f.Created(now, a.Request, "i"+a.Request)
		f.Ready(now, a.Request)
	}
	f.Decide(now)
	for i := range machines*slots - busy {
		f.Release(now, fmt.Sprint(i))
	}
	next := machines*slots - busy
	for b.Loop() {
		now = now.Add(100 * time.Millisecond)
		f.Release(now, fmt.Sprint(next))
		next++
		_ = f.Ask(now, fmt.Sprint(next+busy), scale.Needs{})
		f.Decide(now)
	}
	if got := len(f.Record().Instances); got < machines*9/10 {
		b.Fatalf("%d machines", got)
	}
}

// BenchmarkListed10000 is a list of 10,000 machines, and the decision after it.
func BenchmarkListed10000(b *testing.B) {
	const machines = 10_000
	f, err := scale.New(scale.Config{Name: "f", Pools: []scale.Pool{{Name: "p", Throttle: scale.Throttle{Limit: -1}}}}, &scale.Adaptive{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range machines {
		_ = f.Ask(start, fmt.Sprint(i), scale.Needs{})
	}
	var list []scale.Seen
	for _, a := range f.Decide(start).Actions {
		f.Created(start, a.Request, "i"+a.Request)
		f.Ready(start, a.Request)
		list = append(list, scale.Seen{Instance: "i" + a.Request, Pool: "p", State: scale.GroupRunning})
	}
	now := start
	for b.Loop() {
		now = now.Add(time.Second)
		f.Listed(now, list)
		f.Decide(now)
	}
}
