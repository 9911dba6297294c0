// Package grouptest is the suite that every instance group passes, in process and over the wire.
//
// A group is tried as callers see it, through group.Adapt. What it cannot do (Abilities) is not asked of it. The suite makes some 20 instances, a few at a time, deletes all that
// it has made, and connects to none.
package grouptest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
)

// Subject is a group as the suite tries it.
type Subject struct {
	// Open makes a group that is not initialised yet. Those with the same Settings.State are processes of one owner, one after the other. The suite shuts them down.
	Open func(t *testing.T) group.Basic
	// Settings are those of the group; the suite sets Owner, and State where it is empty.
	Settings group.Settings
	// Folder is Settings.State for an owner, where that is empty; nil: one that goes with the test.
	Folder func(owner string) (string, error)
	// Pause is that between two looks at the list; 0 is a few milliseconds.
	Pause time.Duration
	// Patience is how long an instance may take to run, or to go; 0 is 30 seconds.
	Patience time.Duration
	// Shared says that groups of other owners see each other's instances: cases are tried one after the other.
	Shared bool
	// Kill kills the process of a group that has one of its own, and starts again by itself; may be nil.
	Kill func(*testing.T, group.Basic)
	// Check is called with the group when a test has ended and all was deleted; may be nil.
	Check func(*testing.T, group.Basic)
}

// defaultPause is that between two looks at the list.
const defaultPause = 5 * time.Millisecond

// callTime bounds every call of the suite.
const callTime = time.Minute

// cases are what a group promises.
var cases = map[string]func(*trial){
	"the group says what it is":                                whatItIs,
	"a group is initialised once":                              initialisedOnce,
	"an instance is made, runs, can be reached, and goes":      wholeLife,
	"a request makes as many instances as it is for":           asMany,
	"a repeated request makes no second instance":              repeated,
	"requests that are repeated at once make no second one":    repeatedAtOnce,
	"two requests make two instances":                          twoRequests,
	"a request that cannot be is refused":                      badRequests,
	"a request for a shape makes a machine of that shape":      shapes,
	"a shape that does not exist is refused":                   badShape,
	"the details of an instance are those that were asked for": details,
	"an instance can be deleted twice":                         deletedTwice,
	"an unknown instance can be deleted":                       unknownDeleted,
	"an instance that is not known cannot be reached":          unknownConnect,
	"an instance that is not known is not well":                unknownHeartbeat,
	"a running instance is well":                               well,
	"an instance is suspended, and runs again":                 suspended,
	"a call whose context has ended has no effect":             endedContext,
	"changes are reported":                                     watched,
	"watching ends with its context":                           watchEnds,
	"a group has volumes, or says why not":                     volumesOrWhy,
	"a volume is on one machine at a time":                     withVolumes(volumeMoves),
	"a call about an earlier attachment comes too late":        withVolumes(volumeEpochs),
	"a volume outlives its machine":                            withVolumes(volumeOutlives),
	"a repeated request makes no second volume":                withVolumes(volumeRepeated),
	"metrics have names that Prometheus takes":                 metrics,
	"printing connection info shows no secret":                 secrets,
	"Shutdown can be called twice, and leaves instances":       shutdown,
}

// Run tries a group.
func Run(t *testing.T, s Subject) {
	for name, try := range cases {
		t.Run(name, func(t *testing.T) {
			if !s.Shared {
				t.Parallel()
			}
			try(begin(t, s))
		})
	}
	if s.Kill != nil {
		t.Run("instances outlive the process of their group", func(t *testing.T) {
			if !s.Shared {
				t.Parallel()
			}
			outlive(begin(t, s))
		})
	}
}

// trial is one group in one test.
type trial struct {
	*testing.T
	Subject
	*group.Group
	basic group.Basic
	made  map[string]bool
}

func begin(t *testing.T, s Subject) *trial {
	t.Helper()
	tr := &trial{T: t, Subject: s, basic: s.Open(t), made: map[string]bool{}}
	tr.Group = group.Adapt(tr.basic)
	tr.Settings.Owner = "suite-" + rand.Text()[:8]
	switch {
	case tr.Settings.State != "":
	case s.Folder == nil:
		tr.Settings.State = t.TempDir()
	default:
		var err error
		if tr.Settings.State, err = s.Folder(tr.Settings.Owner); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tr.Init(tr.within(callTime), hclog.NewNullLogger(), tr.Settings); err != nil {
		t.Fatal("Init:", err)
	}
	t.Cleanup(tr.end)
	return tr
}

// within is a context that ends with the test, and after a time.
func (tr *trial) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), d)
	tr.Cleanup(cancel)
	return ctx
}

// ctx is that of one call.
func (tr *trial) ctx() context.Context { return tr.within(callTime) }

// end deletes all that the test has made, and waits until it is gone.
func (tr *trial) end() {
	var ids []string
	for id := range tr.made {
		ids = append(ids, id)
	}
	tr.retry("deleting what the test has made", func() error {
		_, err := tr.Delete(tr.ctx(), ids)
		return err
	})
	for _, id := range ids {
		tr.await(id, group.StateDeleted)
	}
	if err := tr.Shutdown(tr.ctx()); err != nil {
		tr.Error("Shutdown:", err)
	}
	if tr.Check != nil {
		tr.Check(tr.T, tr.basic)
	}
}

// create makes instances, and returns the ids of those that the list has more.
func (tr *trial) create(r group.Request) []string {
	tr.Helper()
	before := tr.list()
	r.ID = cmp.Or(r.ID, newID())
	created, err := tr.Create(tr.ctx(), r)
	if err != nil || created.Count != r.Count {
		tr.Fatalf("Create(%d) made %d, %v", r.Count, created.Count, err)
	}
	for _, id := range created.Instances {
		tr.made[id] = true
	}
	tr.eventually(fmt.Sprintf("%d new instances are listed (a list has those with the label %s of their request: are labels lost?)", r.Count, group.OwnerLabel), func() bool { return len(tr.since(before)) >= r.Count })
	var ids []string
	for id := range tr.since(before) {
		ids = append(ids, id)
		tr.made[id] = true
	}
	if len(ids) != r.Count {
		tr.Fatalf("Create(%d) made %v", r.Count, ids)
	}
	return ids
}

func newID() string { return "suite-" + rand.Text() }

// list has the instances by id, without those that are deleted.
func (tr *trial) list() map[string]group.Instance {
	tr.Helper()
	out := map[string]group.Instance{}
	tr.retry("the list", func() error {
		all, err := tr.List(tr.ctx())
		for _, i := range all {
			if i.State.Exists() {
				out[i.ID] = i
			}
		}
		return err
	})
	return out
}

// since has those that were not there before.
func (tr *trial) since(before map[string]group.Instance) map[string]group.Instance {
	tr.Helper()
	now := tr.list()
	for id := range before {
		delete(now, id)
	}
	return now
}

// await waits until an instance is in a state. StateDeleted is that it is not listed any more.
func (tr *trial) await(id string, state group.State) {
	tr.Helper()
	last := group.State("")
	tr.eventually(fmt.Sprintf("%s is %s", id, state), func() bool {
		now, there := tr.list()[id]
		if !there {
			now.State = group.StateDeleted
		}
		if last != "" && !last.CanBecome(now.State) {
			tr.Fatalf("%s is %s, after it was %s", id, now.State, last)
		}
		if now.State == group.StateFailed && state != group.StateFailed {
			tr.Fatalf("%s has failed: %s", id, now.Reason)
		}
		last = now.State
		return now.State == state
	})
}

// eventually waits until something is so.
func (tr *trial) eventually(what string, so func() bool) {
	tr.Helper()
	patience, pause := cmp.Or(tr.Patience, 30*time.Second), cmp.Or(tr.Pause, defaultPause)
	for until := time.Now().Add(patience); !so(); time.Sleep(pause) {
		if time.Now().After(until) {
			tr.Fatalf("after %s it is not so that %s", patience, what)
		}
	}
}

// retry makes a call until it does not fail with an error that passes.
func (tr *trial) retry(what string, do func() error) {
	tr.Helper()
	var err error
	tr.eventually(what+" is without errors", func() bool {
		if err = do(); err == nil {
			return true
		}
		if _, later := group.RetryAfter(err); !later {
			tr.Fatalf("%s: %v", what, err)
		}
		return false
	})
}

// wants fails the test when an error is not of a kind.
func (tr *trial) wants(what string, err, kind error) {
	tr.Helper()
	if !errors.Is(err, kind) {
		tr.Errorf("%s: %v, want an error that is %q", what, err, kind)
	}
}
