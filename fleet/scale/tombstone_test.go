package scale_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// counting is a group that only counts machines: what it has made is in its lists, with the lowest number that is free.
type counting struct {
	*cloud
	names map[string]string // by request; nobody knows
}

// do carries out what was decided.
func (g *counting) do() {
	g.decide()
	for _, a := range g.asked {
		switch a.Kind {
		case scale.Create:
			taken := map[string]bool{}
			for _, id := range g.names {
				taken[id] = true
			}
			n := 100
			for taken[fmt.Sprint(n)] {
				n++
			}
			g.names[a.Request] = fmt.Sprint(n)
			g.fleet.Created(g.now, a.Request, "")
		case scale.Delete:
			for request, id := range g.names {
				if id == a.Instance {
					delete(g.names, request)
				}
			}
			delete(g.machines, a.Request)
			delete(g.deleting, a.Request)
			g.fleet.Deleted(g.now, a.Request, false)
		}
	}
	g.asked = nil
}

// list tells the fleet what there is, and what there is not any more.
func (g *counting) list(stale ...string) {
	var all []scale.Seen
	for _, id := range g.names {
		all = append(all, scale.Seen{Instance: id, Pool: "small", State: scale.GroupRunning})
	}
	for _, id := range stale {
		all = append(all, scale.Seen{Instance: id, Pool: "small", State: scale.GroupRunning})
	}
	g.fleet.Listed(g.now, all)
}

// reach makes those machines ready that have a name.
func (g *counting) reach() {
	for _, one := range g.fleet.Record().Instances {
		if one.Instance != "" && one.State == scale.Creating {
			g.machines[one.Request].ready = true
			g.fleet.Ready(g.now, one.Request)
		}
	}
}

func newCounting(t *testing.T) *counting {
	p := small()
	p.MaxUses, p.MaxInstances = 1, 1
	g := &counting{newCloud(t, adaptive(), p), map[string]string{}}
	g.hold = true
	return g
}

// run lets a job run, and returns how long it waits for its machine.
func (g *counting) run(key string) time.Duration {
	g.t.Helper()
	began := g.now
	g.ask(key)
	for range 30 {
		g.do()
		g.list()
		g.reach()
		if g.do(); g.jobs[key] != nil {
			g.release(key)
			g.do()
			return g.now.Sub(began)
		}
		g.now = g.now.Add(2 * time.Second)
	}
	g.t.Fatal(g.fleet.ExplainJob(g.now, key))
	return 0
}

func TestAnIDThatIsUsedAgainIsThatOfTheNewMachine(t *testing.T) {
	t.Parallel()
	g := newCounting(t)
	for i := range 5 {
		if took := g.run(fmt.Sprint("job-", i)); took > 15*time.Second {
			t.Errorf("job %d has waited %s for its machine", i, took)
		}
	}
	g.list()
	g.want(5, 5)
}

func TestAListThatIsBehindGivesANewMachineNoNameOfOneThatIsGone(t *testing.T) {
	t.Parallel()
	g := newCounting(t)
	g.run("job")
	g.now = g.now.Add(time.Second)
	g.list() // the machine is gone
	g.do()
	g.names["of another fleet"] = "100" // so that the next is 101
	g.ask("next")
	g.do()
	delete(g.names, "of another fleet")
	g.list("100")
	g.now = g.now.Add(2 * time.Second)
	g.list()
	g.reach()
	g.do()
	if m := g.jobs["next"]; m == nil || g.names[m.request] != "101" {
		t.Errorf("%+v: %s", m, g.fleet.ExplainJob(g.now, "next"))
	}
	g.want(2, 1)
}
