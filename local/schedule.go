package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
)

// Job is a job as its file has it. The schedule calls its methods from one goroutine.
type Job interface {
	// Name is what people know it by.
	Name() string
	// Decide says what becomes of it, as other jobs stand. It is asked again after each of them, until it does not wait.
	Decide() Decision
	// Units makes what runs of it: one, or one for each combination of its matrix. None is a job that nobody asked for.
	Units() (Units, *event.Error)
	// Concluded is told how its units ended, in the order in which they did, or how the job ended without them; nil is a job that nobody asked for.
	Concluded([]Result)
}

// Decision is what becomes of a job: it waits, it ends with a result, or it runs. The zero value is to run.
type Decision struct {
	Wait bool
	// Status is how it ends without running; Note and Error say why.
	Status Status
	Note   string
	Error  *event.Error
}

// Units are what runs of a job.
type Units struct {
	List []*Unit
	// FailFast cancels the others when one fails.
	FailFast bool
	// MaxParallel is how many run at a time; 0 is all.
	MaxParallel int
}

// Unit is one job that runs.
type Unit struct {
	Name  string
	Stage string
	// Forgiven says that its failure does not count.
	Forgiven bool
	Group    Group
	// Admit waits, in a goroutine of its own and without a slot, until the unit may run. It may be nil.
	Admit func(context.Context) Admission
	// Run runs it. The slot is a number that no other unit has at the same time, below Schedule.Slots.
	Run func(ctx context.Context, slot int) Result
	// Call is a pipeline that runs in the unit's place; nil runs Run.
	Call *Call

	node   *node
	state  state
	ctx    context.Context
	cancel context.CancelCauseFunc // ends it, also while it waits
	admit  Admission
	call   *running
	slot   int
	result Result
}

// Group is a concurrency group, of which one unit runs at a time. The zero value is none.
type Group struct {
	Name string
	// Cancel ends the one that runs, Queue keeps all that wait and not the last only.
	Cancel, Queue bool
}

// Admission is how a unit may run.
type Admission struct {
	// Release is called when it has ended; it may be nil.
	Release func()
	// Done is how it ended without running.
	Done *Result
	// Call is a pipeline that runs in its place.
	Call *Call
}

// Pipeline is a list of jobs that wait for each other.
type Pipeline struct {
	Jobs []Job
	// Stop cancels all of them. It is set when the pipeline starts.
	Stop context.CancelCauseFunc
}

// Call is a pipeline that a unit starts.
type Call struct {
	*Pipeline
	// Beside ends the unit at once with a result, while the pipeline runs; nil waits for the pipeline.
	Beside *Result
	// Ended is the result of the unit, all of whose jobs have ended.
	Ended func([]Result) Result
}

// Schedule runs jobs, each when what it waits for has ended. One goroutine decides; units run in goroutines of their own and tell it when
// they have ended, so nothing here needs a lock.
type Schedule struct {
	// Slots is how many units run at a time.
	Slots int
	// Report is told of every unit that ended, and of every job that does not run.
	Report func(Result)

	free   []int
	groups map[string]*queue
	inbox  chan func()
}

// running is a pipeline on its way.
type running struct {
	*Call
	nodes []*node
}

// node is a job on its way.
type node struct {
	Job
	Units
	ctx    context.Context
	caller *Unit // nil for the pipeline of the file
	state  state
	ended  []Result
	single *Result // of a job without units
}

type state uint8

const (
	waiting   state = iota
	admitting       // Admit runs
	admitted        // it needs a slot
	active
	done
)

// queue is a concurrency group: who has it, and who gets it next.
type queue struct {
	holder *Unit
	next   []*Unit
}

// Run runs a pipeline and returns how its jobs ended, in their order. Cancelling ctx cancels what runs and ends what waits.
func (s *Schedule) Run(ctx context.Context, p *Pipeline) []Result {
	s.groups, s.inbox, s.free = map[string]*queue{}, make(chan func()), nil
	for i := range s.Slots {
		s.free = append(s.free, i)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	root := s.begin(ctx, &Call{Pipeline: p}, nil)
	stop := ctx.Done()
	for s.settle(ctx, root) {
		select {
		case tell := <-s.inbox:
			tell()
		case <-stop: // what waits ends now
			stop = nil
		}
	}
	return results(root.nodes)
}

// begin starts a pipeline.
func (s *Schedule) begin(ctx context.Context, call *Call, caller *Unit) *running {
	r := &running{Call: call}
	ctx, call.Stop = context.WithCancelCause(ctx)
	for _, j := range call.Jobs {
		r.nodes = append(r.nodes, &node{Job: j, ctx: ctx, caller: caller})
	}
	return r
}

func results(nodes []*node) []Result {
	var out []Result
	for _, n := range nodes {
		if n.single != nil {
			out = append(out, *n.single)
		}
		for _, u := range n.List {
			if u.call != nil {
				u.result.Children = results(u.call.nodes)
			}
			out = append(out, u.result)
		}
	}
	return out
}

// settle starts and ends all that can be, and reports whether anything is left.
func (s *Schedule) settle(ctx context.Context, root *running) (left bool) {
	for changed := true; changed; {
		changed, left = s.pass(ctx, root)
	}
	return left
}

// pass looks at all jobs once.
func (s *Schedule) pass(ctx context.Context, p *running) (changed, left bool) {
	for _, n := range p.nodes {
		if n.state == waiting {
			changed = s.start(n) || changed
		}
		if n.state == active {
			changed = s.advance(ctx, n) || changed
		}
		left = left || n.state != done
		for _, u := range n.List {
			if u.call != nil {
				c, l := s.pass(ctx, u.call)
				changed, left = changed || c, left || l
			}
		}
	}
	return changed, left
}

// start decides what becomes of a job; false is that it waits.
func (s *Schedule) start(n *node) bool {
	if cause := context.Cause(n.ctx); cause != nil {
		s.single(n, Result{Status: Cancelled, Note: "the pipeline was stopped before it began: " + cause.Error()})
		return true
	}
	d := n.Decide()
	switch {
	case d.Wait:
		return false
	case d.Status != "":
		s.single(n, Result{Status: d.Status, Note: d.Note, Error: d.Error})
		return true
	}
	units, err := n.Job.Units()
	if err != nil {
		s.single(n, Result{Status: Failed, Error: err, Note: session.OneLine(err.Error())})
		return true
	}
	if len(units.List) == 0 {
		n.state, n.single = done, &Result{Name: n.Name(), Status: Skipped, Note: "none of its matrix jobs was asked for"}
		n.Concluded(nil)
		s.Report(*n.single)
		return true
	}
	n.state, n.Units = active, units
	for _, u := range n.List {
		u.node = n
		u.ctx, u.cancel = context.WithCancelCause(n.ctx)
		s.enqueue(u)
	}
	return true
}

// single ends a job that has no units.
func (s *Schedule) single(n *node, r Result) {
	r.Name = n.Name()
	if staged, ok := n.Job.(interface{ Stage() string }); ok {
		r.Stage = staged.Stage()
	}
	n.state, n.single = done, &r
	n.Concluded([]Result{r})
	s.Report(r)
}

// advance takes the units of a job one step further, and ends the job when all of them have ended.
func (s *Schedule) advance(ctx context.Context, n *node) (changed bool) {
	under, open := 0, 0
	for _, u := range n.List {
		if u.state != waiting && u.state != done {
			under++
		}
	}
	for _, u := range n.List {
		before := u.state
		if u.state == waiting && (u.ctx.Err() != nil || n.MaxParallel == 0 || under < n.MaxParallel) {
			if s.leave(u); u.state != waiting {
				under++
			}
		}
		if u.state == admitted {
			s.enter(ctx, u)
		}
		if u.state == active && u.call != nil && !slices.ContainsFunc(u.call.nodes, func(n *node) bool { return n.state != done }) {
			u.result = u.call.Ended(results(u.call.nodes))
			s.finish(u)
		}
		changed = changed || u.state != before
		if u.state != done {
			open++
		}
	}
	if open == 0 {
		n.state = done
		n.Concluded(n.ended)
		return true
	}
	return changed
}

// leave ends a unit's waiting for others, if it can.
func (s *Schedule) leave(u *Unit) {
	if u.ctx.Err() != nil {
		s.drop(u)
		return
	}
	if q := s.groups[u.Group.Name]; q != nil && q.holder != u {
		return
	}
	if u.Admit == nil {
		u.state, u.admit = admitted, Admission{Call: u.Call}
		return
	}
	u.state = admitting
	go func() {
		admission := u.Admit(u.ctx)
		s.inbox <- func() { u.state, u.admit = admitted, admission }
	}()
}

// enter runs a unit that may, when there is a slot for it.
func (s *Schedule) enter(ctx context.Context, u *Unit) {
	switch a := u.admit; {
	case a.Done != nil:
		u.result = *a.Done
		s.finish(u)
	case u.ctx.Err() != nil:
		s.drop(u)
	case a.Call != nil && a.Call.Beside != nil:
		u.call, u.result = s.begin(ctx, a.Call, u), *a.Call.Beside
		s.finish(u)
	case a.Call != nil:
		u.state, u.call = active, s.begin(u.ctx, a.Call, u)
	case len(s.free) > 0:
		u.state, u.slot = active, s.free[0]
		s.free = s.free[1:]
		go func() {
			result := u.Run(u.ctx, u.slot)
			s.inbox <- func() {
				u.result = result
				s.free = append(s.free, u.slot)
				s.finish(u)
			}
		}()
	}
}

// drop ends a unit that has not begun.
func (s *Schedule) drop(u *Unit) {
	u.result = Result{Status: Cancelled, Note: context.Cause(u.ctx).Error()}
	s.finish(u)
}

// finish takes how a unit ended.
func (s *Schedule) finish(u *Unit) {
	u.result.Name, u.result.Stage = u.Name, u.Stage
	if u.result.Status == Failed && u.Forgiven {
		u.result.Status = Allowed
	}
	u.state = done
	u.cancel(nil)
	if u.admit.Release != nil {
		u.admit.Release()
	}
	if q := s.groups[u.Group.Name]; q != nil {
		q.leave(u)
	}
	n := u.node
	n.ended = append(n.ended, u.result)
	s.Report(u.result)
	if u.result.Status == Failed && n.FailFast {
		for _, other := range n.List {
			if other.state != done {
				other.cancel(fmt.Errorf("%s failed, and `fail-fast` is on", u.Name))
			}
		}
	}
}

// errReplaced is why one that waits in a concurrency group does not run.
var errReplaced = errors.New("a later job replaced it in the queue of its concurrency group")

// enqueue asks for the concurrency group of a unit. Of those that wait for one, the last stays, unless they queue.
func (s *Schedule) enqueue(u *Unit) {
	if u.Group.Name == "" {
		return
	}
	q := s.groups[u.Group.Name]
	if q == nil {
		q = &queue{}
		s.groups[u.Group.Name] = q
	}
	if q.holder == nil {
		q.holder = u
		return
	}
	for c := u.node.caller; c != nil; c = c.node.caller {
		if c == q.holder {
			u.cancel(fmt.Errorf("its caller, %s, already holds the concurrency group %s", c.Name, u.Group.Name))
			return
		}
	}
	if !u.Group.Queue {
		for _, other := range q.next {
			other.cancel(errReplaced)
		}
	}
	q.next = append(q.next, u)
	if u.Group.Cancel {
		q.holder.cancel(fmt.Errorf("%s cancels running jobs in the concurrency group %s", u.Name, u.Group.Name))
	}
}

// leave passes the group on when its holder has ended, and forgets one that waited for it.
func (q *queue) leave(u *Unit) {
	q.next = slices.DeleteFunc(q.next, func(other *Unit) bool { return other == u })
	if q.holder != u {
		return
	}
	q.holder = nil
	if len(q.next) > 0 {
		q.holder, q.next = q.next[0], q.next[1:]
	}
}
