// Package storertest is the suite that every executor.Storer passes.
package storertest

import (
	"errors"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/usage"
)

// Case is what the suite tries.
type Case struct {
	// Storer is one whose things are those of this test alone.
	Storer executor.Storer
	Kind   string // of the things
	// Use lets a job have the thing of a number, which is made if it is not there. The job has it until done is called.
	Use func(number int) (done func())
	// Foreign makes something of the kind that is somebody else's, and returns what it would be listed as, and whether it is still there.
	Foreign func() (what executor.Stored, there func() bool)
}

// Run tries it.
func Run(t *testing.T, c Case) {
	list := func() []executor.Stored {
		t.Helper()
		stock, err := c.Storer.Stored(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stock.Things
	}
	foreign, there := c.Foreign()
	if all := list(); len(all) > 0 {
		t.Fatalf("before the first job %+v is listed", all)
	}
	if err := c.Storer.Discard(t.Context(), foreign); err != nil && !errors.Is(err, usage.ErrInUse) {
		t.Error(err)
	}
	if !there() {
		t.Fatal("what somebody else has made is removed")
	}

	began := time.Now().Add(-time.Second) // clocks of file systems are behind
	done := c.Use(1)
	all := list()
	if len(all) != 1 {
		t.Fatalf("%+v is listed while a job has one thing", all)
	}
	first := all[0]
	if first.Kind != c.Kind || first.Place == "" || first.ID == "" || first.Name == "" || first.Size <= 0 || first.Used.Before(began) || !first.InUse {
		t.Errorf("what a job has is %+v", first)
	}
	if err := c.Storer.Discard(t.Context(), first); !errors.Is(err, usage.ErrInUse) {
		t.Errorf("what a job has is removed: %v", err)
	}
	if len(list()) != 1 {
		t.Fatal("what a job has is gone")
	}
	done()
	c.Use(2)()
	time.Sleep(10 * time.Millisecond)
	c.Use(1)()
	all = list()
	if len(all) != 2 {
		t.Fatalf("%+v is listed after jobs had two things", all)
	}
	used := map[string]time.Time{}
	for _, it := range all {
		used[it.ID] = it.Used
		if it.InUse {
			t.Errorf("%+v is in use, and no job runs", it)
		}
	}
	for id, at := range used {
		if id != first.ID && !at.Before(used[first.ID]) {
			t.Errorf("what a job had last was used at %s, and the other thing at %s", used[first.ID], at)
		}
	}
	for range 2 { // what is not there is no error
		if err := c.Storer.Discard(t.Context(), first); err != nil {
			t.Errorf("removing %+v: %v", first, err)
		}
	}
	if all = list(); len(all) != 1 || all[0].ID == first.ID {
		t.Errorf("%+v is left when one of two was removed", all)
	}
	c.Use(1)() // it is made again
	if len(list()) != 2 {
		t.Errorf("%+v is listed after it was made again", list())
	}
	if !there() {
		t.Error("what somebody else has made is removed")
	}
}
