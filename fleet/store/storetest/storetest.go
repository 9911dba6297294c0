// Package storetest is the suite that every store of fleets passes.
package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// Place is where a store is.
type Place interface {
	// Open opens the store as a process does. What it returns besides ends that process: what it has not written then is lost.
	Open(t *testing.T) (store.Store, func())
}

// Start is the time at which machines of the suite were made.
var Start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// Run runs the suite. make makes an empty place.
func Run(t *testing.T, make func(t *testing.T) Place) {
	cases := map[string]func(t *testing.T, p Place){
		"a new store is empty":                        empty,
		"what was committed is there for the next":    committed,
		"a process that is killed loses nothing":      killed,
		"whatever is committed, the next has the sum": random,
		"a store that is closed takes nothing":        closed,
		"the history is in order":                     history,
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

func loaded(t *testing.T, p Place) (store.Store, store.State, func()) {
	t.Helper()
	s, end := p.Open(t)
	state, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s, state, end
}

func commit(t *testing.T, s store.Store, changes ...store.Change) {
	t.Helper()
	for _, c := range changes {
		if err := s.Commit(c); err != nil {
			t.Fatal(err)
		}
	}
}

// Machine is one that jobs are on.
func Machine(n int, jobs ...string) scale.InstanceRecord {
	return scale.InstanceRecord{Request: fmt.Sprint("f-", n), Instance: fmt.Sprint("i-", n), Pool: "small", State: scale.Ready, Created: Start, Jobs: jobs}
}

// Job is one on the first machine.
func Job(n int) store.Job {
	return store.Job{Key: fmt.Sprint("job-", n), ID: fmt.Sprint(n), Project: "group/project", Request: "f-1", Asked: Start, Placed: Start.Add(time.Minute), Needs: scale.Needs{Spot: scale.NoSpot}}
}

// Volume is one that is on the first machine.
func Volume(n int, users ...string) scale.VolumeRecord {
	return scale.VolumeRecord{
		Name: fmt.Sprint("group/project-", n), Request: fmt.Sprint("f-v", n), ID: fmt.Sprint("vol-", n), State: scale.VolumeAttached, Epoch: 7, Machine: "f-1", Instance: "i-1",
		Folder: fmt.Sprint("/volumes/vol-", n), Created: Start, Used: Start, Users: users,
	}
}

// Fill commits changes, and returns the state after them.
func Fill(t *testing.T, s store.Store) store.State {
	t.Helper()
	commit(t, s,
		store.Change{Name: "f", Created: 2, Machines: []scale.InstanceRecord{Machine(1, ""), Machine(2, "")}, Volumes: []scale.VolumeRecord{Volume(1), Volume(2)}},
		store.Change{Created: 2, Machines: []scale.InstanceRecord{Machine(1, "job-1")}, Jobs: []store.Job{Job(1)}, Volumes: []scale.VolumeRecord{Volume(1, "job-1")}, Lost: []string{Volume(2).Name}},
		store.Change{Created: 3, Machines: []scale.InstanceRecord{Machine(3, "job-2")}, Jobs: []store.Job{Job(2)}, Gone: []string{"f-2"}},
		store.Change{Created: 3, Machines: []scale.InstanceRecord{Machine(3, "")}, Over: []string{"job-2"}},
	)
	return store.State{
		Fleet: scale.Record{Name: "f", Created: 3, Instances: []scale.InstanceRecord{Machine(1, "job-1"), Machine(3, "")}, Volumes: []scale.VolumeRecord{Volume(1, "job-1")}},
		Jobs:  map[string]store.Job{"job-1": Job(1)},
	}
}

func empty(t *testing.T, p Place) {
	_, got, end := loaded(t, p)
	defer end()
	if len(got.Fleet.Instances)+len(got.Jobs) > 0 || got.Lost != "" || got.Fleet.Name != "" {
		t.Errorf("it has %+v", got)
	}
}

func committed(t *testing.T, p Place) {
	s, _, end := loaded(t, p)
	want := Fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	end()
	for range 2 {
		next, got, end := loaded(t, p)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		_ = next.Close()
		end()
	}
}

func killed(t *testing.T, p Place) {
	s, _, end := loaded(t, p)
	want := Fill(t, s)
	end()
	_, got, end := loaded(t, p)
	defer end()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// random commits what nobody has thought of, with processes that end in between.
func random(t *testing.T, p Place) {
	const changes, machines = 300, 12
	dice := rand.New(rand.NewPCG(1, 1))
	instances, jobs, volumes := map[string]scale.InstanceRecord{}, map[string]store.Job{}, map[string]scale.VolumeRecord{}
	s, _, end := loaded(t, p)
	for i := range changes {
		var c store.Change
		for range dice.IntN(4) {
			m, j, v := Machine(dice.IntN(machines), fmt.Sprint("at ", i)), Job(dice.IntN(machines)), Volume(dice.IntN(machines), fmt.Sprint("at ", i))
			if dice.IntN(3) == 0 {
				delete(instances, m.Request)
				delete(jobs, j.Key)
				delete(volumes, v.Name)
				c.Gone, c.Over, c.Lost = append(c.Gone, m.Request), append(c.Over, j.Key), append(c.Lost, v.Name)
				break // one that goes is not in the same change another time
			}
			instances[m.Request], jobs[j.Key], volumes[v.Name] = m, j, v
			c.Machines, c.Jobs, c.Volumes = append(c.Machines, m), append(c.Jobs, j), append(c.Volumes, v)
		}
		c.Created = uint64(i)
		for _, gone := range c.Gone {
			c.Machines = without(c.Machines, func(m scale.InstanceRecord) bool { return m.Request == gone })
		}
		for _, over := range c.Over {
			c.Jobs = without(c.Jobs, func(j store.Job) bool { return j.Key == over })
		}
		for _, lost := range c.Lost {
			c.Volumes = without(c.Volumes, func(v scale.VolumeRecord) bool { return v.Name == lost })
		}
		commit(t, s, c)
		if dice.IntN(40) > 0 {
			continue
		}
		end()
		var got store.State
		s, got, end = loaded(t, p)
		found := map[string]scale.InstanceRecord{}
		for _, m := range got.Fleet.Instances {
			found[m.Request] = m
		}
		kept := map[string]scale.VolumeRecord{}
		for _, v := range got.Fleet.Volumes {
			kept[v.Name] = v
		}
		if diff := cmp.Diff(instances, found) + cmp.Diff(jobs, got.Jobs) + cmp.Diff(volumes, kept); diff != "" || got.Fleet.Created != uint64(i) {
			t.Fatalf("after %d changes, %d: %s", i, got.Fleet.Created, diff)
		}
	}
	end()
}

func without[T any](all []T, is func(T) bool) (left []T) {
	for _, one := range all {
		if !is(one) {
			left = append(left, one)
		}
	}
	return left
}

func closed(t *testing.T, p Place) {
	s, _, end := loaded(t, p)
	defer end()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(store.Change{Created: 4}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a commit: %v", err)
	}
	if err := s.Append(store.Entry{At: Start}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("an entry: %v", err)
	}
}

func history(t *testing.T, p Place) {
	s, _, end := loaded(t, p)
	for hour := range 5 {
		if err := s.Append(store.Entry{At: Start.Add(time.Duration(hour) * time.Hour), Kind: store.Create, Why: fmt.Sprint(hour)}); err != nil {
			t.Fatal(err)
		}
	}
	end()
	s, _, end = loaded(t, p)
	defer end()
	var whys []string
	err := s.History(Start.Add(time.Hour), Start.Add(4*time.Hour), func(e store.Entry) bool {
		whys = append(whys, e.Why)
		return len(whys) < 2
	})
	if got := strings.Join(whys, " "); err != nil || got != "1 2" {
		t.Errorf("%q, %v", got, err)
	}
}
