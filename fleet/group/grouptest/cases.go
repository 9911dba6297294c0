package grouptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
)

// unknown is the id of no instance.
const unknown = "made-up-instance"

func whatItIs(tr *trial) {
	info := tr.Info()
	if info.ID == "" || info.MaxSize < 1 {
		tr.Errorf("the group is %q and has at most %d instances", info.ID, info.MaxSize)
	}
}

func initialisedOnce(tr *trial) {
	if _, err := tr.Init(tr.ctx(), hclog.NewNullLogger(), tr.Settings); err == nil {
		tr.Error("Init works a second time")
	}
}

func wholeLife(tr *trial) {
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	info := tr.connect(id)
	if info.Addr(true) == "" || info.Addr(false) == "" {
		tr.Errorf("there is no address: %v", info)
	}
	if info.Expires != nil && info.Expires.Before(time.Now()) {
		tr.Errorf("the credentials have expired at %s", info.Expires)
	}
	done, err := tr.Delete(tr.ctx(), []string{id})
	if err != nil || len(done) != 1 {
		tr.Errorf("Delete: %v, %v", done, err)
	}
	tr.await(id, group.StateDeleted)
	_, err = tr.ConnectInfo(tr.ctx(), id)
	tr.wants("connecting to one that is deleted", err, group.ErrNotFound)
}

// connect is how to reach an instance that has just begun to run.
func (tr *trial) connect(id string) (info group.ConnectInfo) {
	tr.Helper()
	tr.retry("ConnectInfo", func() (err error) {
		info, err = tr.ConnectInfo(tr.ctx(), id)
		return err
	})
	return info
}

func asMany(tr *trial) {
	if ids := tr.create(group.Request{Count: 2}); len(ids) != 2 {
		tr.Errorf("made: %v", ids)
	}
}

func repeated(tr *trial) {
	r := group.Request{ID: newID(), Count: 1}
	ids := tr.create(r)
	for range 3 {
		again, err := tr.Create(tr.ctx(), r)
		if err != nil || again.Count != 1 || again.Instances != nil && (len(again.Instances) != 1 || again.Instances[0] != ids[0]) {
			tr.Errorf("again: %+v, %v; first: %v", again, err, ids)
		}
	}
	tr.await(ids[0], group.StateRunning)
	tr.onlyMade()
}

// onlyMade fails when there are instances that the test has not made.
func (tr *trial) onlyMade() {
	tr.Helper()
	for id, i := range tr.list() {
		if !tr.made[id] {
			tr.Errorf("there is one more: %s, %s", id, i.State)
			tr.made[id] = true // it goes with the others
		}
	}
}

func repeatedAtOnce(tr *trial) {
	before := tr.list()
	r := group.Request{ID: newID(), Count: 1}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := tr.Create(tr.ctx(), r); err != nil {
				tr.Error(err)
			}
		})
	}
	all.Wait()
	tr.eventually("it is listed", func() bool { return len(tr.since(before)) > 0 })
	for id := range tr.since(before) {
		tr.made[id] = true
		tr.await(id, group.StateRunning)
	}
	if len(tr.since(before)) != 1 {
		tr.Errorf("made: %v", tr.since(before))
	}
}

func twoRequests(tr *trial) {
	first := tr.create(group.Request{Count: 1})
	second := tr.create(group.Request{Count: 1})
	if first[0] == second[0] {
		tr.Errorf("both are %s", first[0])
	}
}

func badRequests(tr *trial) {
	for _, r := range []group.Request{{ID: "", Count: 1}, {ID: "a b", Count: 1}, {ID: strings.Repeat("x", 100), Count: 1}, {ID: newID()}, {ID: newID(), Count: -1}} {
		if created, err := tr.Create(tr.ctx(), r); err == nil || created.Count != 0 {
			tr.Errorf("%+v: %+v, %v", r, created, err)
		}
	}
	tr.onlyMade()
}

func shapes(tr *trial) {
	offers, err := tr.Offers(tr.ctx())
	if err != nil {
		tr.Fatal("Offers:", err)
	}
	if !tr.Can().Requests || len(offers) == 0 {
		return
	}
	for _, o := range offers {
		if o.Shape == "" || o.CPUs <= 0 || o.Memory <= 0 || o.Price < 0 || o.SuspendedPrice < 0 || o.Price > 0 && o.Currency == "" {
			tr.Errorf("an offer says too little: %+v", o)
		}
	}
	want := offers[0]
	id := tr.create(group.Request{Count: 1, Shape: want.Shape, Zone: want.Zone, Spot: want.Spot})[0]
	if got := tr.list()[id]; tr.Can().Details && got.Shape != want.Shape {
		tr.Errorf("the shape is %q, want %q", got.Shape, want.Shape)
	}
}

func badShape(tr *trial) {
	created, err := tr.Create(tr.ctx(), group.Request{ID: newID(), Count: 1, Shape: "made-up-shape"})
	if err == nil || created.Count != 0 {
		tr.Errorf("made: %+v", created)
	}
	if !errors.Is(err, group.ErrNotFound) && !errors.Is(err, group.ErrUnsupported) {
		tr.Errorf("the error is %v, want %q or %q", err, group.ErrNotFound, group.ErrUnsupported)
	}
}

func details(tr *trial) {
	r := group.Request{ID: newID(), Count: 1, Labels: map[string]string{"project": "a-project"}}
	id := tr.create(r)[0]
	got := tr.list()[id]
	if can := tr.Can(); !can.Details || !can.Requests {
		return
	}
	if got.Request != r.ID || got.Labels["project"] != "a-project" || got.Labels[group.OwnerLabel] != tr.Settings.Owner {
		tr.Errorf("the instance is %+v", got)
	}
}

func deletedTwice(tr *trial) {
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	for range 2 {
		if _, err := tr.Delete(tr.ctx(), []string{id, id}); err != nil {
			tr.Error("at once:", err)
		}
	}
	tr.await(id, group.StateDeleted)
	if _, err := tr.Delete(tr.ctx(), []string{id}); err != nil {
		tr.Error("when it is gone:", err)
	}
}

func unknownDeleted(tr *trial) {
	if done, err := tr.Delete(tr.ctx(), []string{unknown}); err != nil {
		tr.Errorf("%v, %v", done, err)
	}
	if done, err := tr.Delete(tr.ctx(), nil); err != nil || len(done) > 0 {
		tr.Errorf("nothing: %v, %v", done, err)
	}
}

func unknownConnect(tr *trial) {
	_, err := tr.ConnectInfo(tr.ctx(), unknown)
	tr.wants("ConnectInfo", err, group.ErrNotFound)
}

func unknownHeartbeat(tr *trial) {
	if err := tr.Heartbeat(tr.ctx(), unknown); tr.Can().Heartbeat && err == nil {
		tr.Error("it is well")
	}
}

func well(tr *trial) {
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	tr.retry("Heartbeat", func() error { return tr.Heartbeat(tr.ctx(), id) })
}

func suspended(tr *trial) {
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	done, err := tr.Suspend(tr.ctx(), []string{id})
	if !tr.Can().Suspend {
		tr.wants("Suspend", err, group.ErrSuspendResumeNotSupported)
		return
	}
	if err != nil || len(done) != 1 {
		tr.Fatalf("Suspend: %v, %v", done, err)
	}
	tr.await(id, group.StateSuspended)
	if done, err = tr.Resume(tr.ctx(), []string{id}); err != nil || len(done) != 1 {
		tr.Fatalf("Resume: %v, %v", done, err)
	}
	tr.await(id, group.StateRunning)
}

func endedContext(tr *trial) {
	ended, cancel := context.WithCancel(tr.ctx())
	cancel()
	before := tr.list()
	if _, err := tr.Create(ended, group.Request{ID: newID(), Count: 1}); err == nil {
		tr.Error("Create works")
	}
	if _, err := tr.List(ended); err == nil {
		tr.Error("List works")
	}
	if _, err := tr.Delete(ended, []string{unknown}); err == nil {
		tr.Error("Delete works")
	}
	if _, err := tr.ConnectInfo(ended, unknown); err == nil || errors.Is(err, group.ErrNotFound) {
		tr.Error("ConnectInfo:", err)
	}
	if more := tr.since(before); len(more) > 0 {
		tr.Errorf("made: %v", more)
	}
}

func watched(tr *trial) {
	ctx, cancel := context.WithCancel(tr.ctx())
	defer cancel()
	if !tr.Can().Watch {
		tr.wants("Watch", tr.Watch(ctx, func(group.Instance) {}), group.ErrUnsupported)
		return
	}
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	told := make(chan group.State, 100)
	over := make(chan error, 1)
	go func() {
		over <- tr.Watch(ctx, func(i group.Instance) {
			if i.ID == id {
				told <- i.State
			}
		})
	}()
	wait := func(states ...group.State) {
		tr.Helper()
		patience := time.After(callTime)
		for {
			select {
			case state := <-told:
				if slices.Contains(states, state) {
					return
				}
			case err := <-over:
				tr.Fatalf("Watch has ended before it reported one of %q: %v", states, err)
			case <-patience:
				tr.Fatalf("Watch has not reported one of %q", states)
			}
		}
	}
	wait(group.StateRunning)
	if _, err := tr.Delete(tr.ctx(), []string{id}); err != nil {
		tr.Fatal(err)
	}
	wait(group.StateDeleting, group.StateDeleted)
}

func watchEnds(tr *trial) {
	if !tr.Can().Watch {
		return
	}
	ctx, cancel := context.WithCancel(tr.ctx())
	over := make(chan error, 1)
	go func() { over <- tr.Watch(ctx, func(group.Instance) {}) }()
	cancel()
	select {
	case err := <-over:
		tr.wants("Watch", err, context.Canceled)
	case <-time.After(callTime):
		tr.Error("it goes on")
	}
}

var metricName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func metrics(tr *trial) {
	tr.list()
	all, err := tr.Metrics(tr.ctx())
	if err != nil {
		tr.Error(err)
	}
	for _, m := range all {
		if !metricName.MatchString(m.Name) {
			tr.Errorf("there is one called %q", m.Name)
		}
		for label := range m.Labels {
			if !metricName.MatchString(label) {
				tr.Errorf("the label %q of %s is none", label, m.Name)
			}
		}
	}
}

func secrets(tr *trial) {
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	info := tr.connect(id)
	for _, text := range []string{fmt.Sprintf("%v", info), fmt.Sprintf("%+v", info), fmt.Sprintf("%#v", info)} {
		if info.Password != "" && strings.Contains(text, info.Password) || len(info.Key) > 0 && strings.Contains(text, string(info.Key)) {
			tr.Error("it is shown")
		}
	}
}

func shutdown(tr *trial) {
	id := tr.create(group.Request{Count: 1})[0]
	tr.await(id, group.StateRunning)
	for range 2 {
		tr.retry("Shutdown", func() error { return tr.Shutdown(tr.ctx()) })
	}
	tr.basic = tr.Open(tr.T)
	tr.Group = group.Adapt(tr.basic)
	if _, err := tr.Init(tr.ctx(), hclog.NewNullLogger(), tr.Settings); err != nil {
		tr.Fatal("the next group:", err)
	}
	if tr.list()[id].State != group.StateRunning {
		tr.Errorf("the next group has %v", tr.list())
	}
}

func outlive(tr *trial) {
	r := group.Request{ID: newID(), Count: 1}
	id := tr.create(r)[0]
	tr.await(id, group.StateRunning)
	tr.Kill(tr.T, tr.basic)
	tr.eventually("the instance is listed again", func() bool {
		all, err := tr.List(tr.ctx())
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			tr.Log("while it starts again:", err)
		}
		for _, i := range all {
			if i.ID == id && i.State == group.StateRunning {
				return true
			}
		}
		return false
	})
	again, err := tr.Create(tr.ctx(), r)
	if err != nil || again.Count != 1 {
		tr.Errorf("the request again: %+v, %v", again, err)
	}
	tr.onlyMade()
}
