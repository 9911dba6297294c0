package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/value"
)

// schedule runs jobs in the order that GitHub runs them in: a job when all that it needs has ended, and its legs side by side.
//
// One goroutine decides; legs run in goroutines of their own and tell it when they have ended. So nothing here needs a lock.
type schedule struct {
	// slots is how many legs run at a time.
	slots int
	// decide says whether a job runs whose needs have ended, and why it does not.
	decide func(*node) (runs bool, why string, err *event.Error)
	// expand makes the legs of a job that runs.
	expand func(*node) (*legs, *event.Error)
	// run runs the steps of one leg.
	run func(context.Context, *leg) local.Result
	// called says what a called workflow gives, all of whose jobs have ended.
	called func(*leg) (map[string]value.Value, *event.Error)
	// report is told of every leg that ended, and of every job that does not run.
	report func(local.Result)

	nodes   []*node
	running int
	groups  map[string]*queue
	ended   chan *leg
}

// node is a job on its way.
type node struct {
	job   *definition.Job
	scope *scope
	state state
	// conclusion is what `needs` says of the job, when it is done.
	conclusion definition.Result
	outputs    map[string]value.Value
	legs
	single *local.Result // of a job that has no legs
}

// legs are what becomes of a job.
type legs struct {
	list        []*leg
	failFast    bool
	maxParallel int // 0 is all
}

// leg is a job with one combination of its matrix: what runs.
type leg struct {
	*definition.Leg
	*definition.Settings
	name  string // for people, with those of the jobs that call it
	node  *node
	call  *scope // the workflow that it calls; nil runs steps
	state state
	// cancel ends it, also while it waits.
	cancel  context.CancelCauseFunc
	ctx     context.Context
	outputs map[string]value.Value
	result  local.Result
}

type state uint8

const (
	waiting state = iota
	running
	done
)

// queue is a concurrency group: who has it, and who gets it next.
type queue struct {
	holder *leg
	next   []*leg
}

// scope is a workflow whose jobs run: the one of the file, or one that a job calls.
type scope struct {
	*definition.Workflow
	caller   *leg // nil for the one of the file
	nodes    []*node
	contexts definition.Contexts
	source   *definition.Source      // the repository that it was fetched from; nil is the project
	lock     *lock.File              // what its actions, and the workflows that it calls, are locked to; nil locks nothing
	most     *definition.Permissions // of its caller; nil for the one of the file
	depth    int                     // how many workflows call each other up to it, 1 for the one of the file
}

// node returns a job by its id.
func (s *scope) node(id string) *node {
	for _, n := range s.nodes {
		if n.job.ID == id {
			return n
		}
	}
	return nil
}

// all runs the jobs of a workflow and returns how each ended, in order.
func (s *schedule) all(ctx context.Context, root *scope) []local.Result {
	s.groups, s.ended = map[string]*queue{}, make(chan *leg)
	s.nodes = append(s.nodes, root.nodes...)
	stop := ctx.Done()
	for s.settle(ctx) {
		select {
		case l := <-s.ended:
			s.running--
			s.finish(l)
		case <-stop: // what waits ends now
			stop = nil
		}
	}
	return results(root.nodes)
}

func results(nodes []*node) []local.Result {
	var out []local.Result
	for _, n := range nodes {
		if n.single != nil {
			out = append(out, *n.single)
		}
		for _, l := range n.list {
			if l.call != nil {
				l.result.Children = results(l.call.nodes)
			}
			out = append(out, l.result)
		}
	}
	return out
}

// settle starts and ends all that can be, and reports whether anything is left.
func (s *schedule) settle(ctx context.Context) (left bool) {
	for changed := true; changed; {
		changed, left = false, false
		for _, n := range slices.Clone(s.nodes) { // calls add to it
			if n.state == waiting && s.ready(n) {
				s.begin(ctx, n)
				changed = true
			}
			if n.state == running && s.advance(n) {
				changed = true
			}
			left = left || n.state != done
		}
	}
	return left
}

// ready reports whether all that a job needs has ended.
func (s *schedule) ready(n *node) bool {
	for _, id := range n.job.Needs {
		if before := n.scope.node(id); before != nil && before.state != done {
			return false
		}
	}
	return true
}

// begin decides what becomes of a job whose needs have ended.
func (s *schedule) begin(ctx context.Context, n *node) {
	parent := ctx
	if caller := n.scope.caller; caller != nil {
		parent = caller.ctx
	}
	if cause := context.Cause(parent); cause != nil {
		s.single(n, definition.Cancelled, local.Result{Status: local.Cancelled, Note: "the run was stopped before it began: " + cause.Error()})
		return
	}
	runs, why, err := s.decide(n)
	if err == nil && !runs {
		s.single(n, definition.Skipped, local.Result{Status: local.Skipped, Note: why})
		return
	}
	var made *legs
	if err == nil {
		made, err = s.expand(n)
	}
	if err != nil {
		s.single(n, definition.Failure, local.Result{Status: local.Failed, Error: err, Note: session.OneLine(err.Message)})
		return
	}
	if len(made.list) == 0 { // as a job that was not chosen
		s.single(n, definition.Success, local.Result{Status: local.Skipped, Note: "none of its legs was asked for"})
		return
	}
	n.state, n.legs = running, *made
	for _, l := range n.list {
		l.node = n
		l.ctx, l.cancel = context.WithCancelCause(parent)
		s.enqueue(l)
	}
}

// single ends a job that has no legs.
func (s *schedule) single(n *node, conclusion definition.Result, r local.Result) {
	r.Name = n.scope.prefix() + n.job.ID
	n.state, n.conclusion, n.single = done, conclusion, &r
	s.report(r)
}

// prefix stands before the names of the jobs of a called workflow.
func (s *scope) prefix() string {
	if s.caller == nil {
		return ""
	}
	return s.caller.name + " / "
}

// advance starts the legs of a job that can be, and ends the job when all of them have.
func (s *schedule) advance(n *node) (changed bool) {
	active, open := 0, 0
	for _, l := range n.list {
		if l.state == running {
			active++
		}
	}
	for _, l := range n.list {
		switch {
		case l.state == waiting && l.ctx.Err() != nil:
			s.drop(l)
			changed = true
		case l.state == waiting && (n.maxParallel == 0 || active < n.maxParallel) && s.start(l):
			active++
			changed = true
		case l.state == running && l.call != nil && l.call.ended():
			s.finishCall(l)
			changed = true
		}
		if l.state != done {
			open++
		}
	}
	if open == 0 {
		n.conclude()
		return true
	}
	return changed
}

// start runs a leg when there is a place for it.
func (s *schedule) start(l *leg) bool {
	if q := s.groups[l.group()]; q != nil && q.holder != l {
		return false
	}
	if l.call == nil && s.running >= s.slots {
		return false
	}
	l.state = running
	if l.call != nil {
		l.call.caller = l
		at := slices.Index(s.nodes, l.node) + 1
		s.nodes = slices.Insert(s.nodes, at+s.below(at, l.node), l.call.nodes...)
		return true
	}
	s.running++
	go func() {
		l.result = s.run(l.ctx, l)
		s.ended <- l
	}()
	return true
}

// below counts the nodes from a place on that other legs of a job have called.
func (s *schedule) below(at int, n *node) int {
	count := 0
	for _, other := range s.nodes[at:] {
		inside := false
		for c := other.scope.caller; c != nil; c = c.node.scope.caller {
			inside = inside || c.node == n
		}
		if !inside {
			break
		}
		count++
	}
	return count
}

// drop ends a leg that has not begun.
func (s *schedule) drop(l *leg) {
	l.result = local.Result{Status: local.Cancelled, Note: context.Cause(l.ctx).Error()}
	s.finish(l)
}

// finishCall ends a leg whose called workflow has ended.
func (s *schedule) finishCall(l *leg) {
	l.result = local.Result{Status: local.Success}
	for _, n := range l.call.nodes {
		switch n.conclusion {
		case definition.Failure:
			l.result.Status, l.result.Note = local.Failed, n.job.ID+" failed"
		case definition.Cancelled:
			if l.result.Status == local.Success {
				l.result.Status, l.result.Note = local.Cancelled, n.job.ID+" was cancelled"
			}
		}
	}
	if l.result.Status == local.Success {
		outputs, err := s.called(l)
		if l.outputs = outputs; err != nil {
			l.result.Status, l.result.Error, l.result.Note = local.Failed, err, session.OneLine(err.Message)
		}
	}
	s.finish(l)
}

// ended reports whether all jobs of a workflow have.
func (s *scope) ended() bool {
	return !slices.ContainsFunc(s.nodes, func(n *node) bool { return n.state != done })
}

// finish takes how a leg ended.
func (s *schedule) finish(l *leg) {
	l.result.Name = l.name
	if l.result.Status == local.Failed && l.ContinueOnError {
		l.result.Status = local.Allowed
	}
	l.state = done
	l.cancel(nil)
	if q := s.groups[l.group()]; q != nil {
		q.leave(l)
	}
	if l.outputs == nil {
		l.outputs = l.result.Outputs
	}
	for name, v := range l.outputs { // of several legs the last one that says something
		if _, there := l.node.outputs[name]; !there || v.Text() != "" {
			if l.node.outputs == nil {
				l.node.outputs = map[string]value.Value{}
			}
			l.node.outputs[name] = v
		}
	}
	s.report(l.result)
	if l.result.Status == local.Failed && l.node.failFast {
		for _, other := range l.node.list {
			if other.state != done {
				other.cancel(fmt.Errorf("%s failed, and `fail-fast` is on", l.name))
			}
		}
	}
}

// conclude ends a job all of whose legs have.
func (n *node) conclude() {
	n.state, n.conclusion = done, definition.Success
	skipped := 0
	for _, l := range n.list {
		switch l.result.Status {
		case local.Skipped:
			skipped++
		case local.Failed:
			n.conclusion = definition.Failure
		case local.Cancelled:
			if n.conclusion != definition.Failure {
				n.conclusion = definition.Cancelled
			}
		}
	}
	if skipped > 0 && skipped == len(n.list) {
		n.conclusion = definition.Skipped
	}
}

// errReplaced is why one that waits in a concurrency group does not run.
var errReplaced = errors.New("a later job waits for the same concurrency group, which keeps one")

// group is the concurrency group of a leg; "" is none. Upper and lower case are the same.
func (l *leg) group() string {
	if l.Settings == nil || l.Concurrency == nil {
		return ""
	}
	return strings.ToLower(l.Concurrency.Group)
}

// enqueue asks for the concurrency group of a leg. Of those that wait for one, the last stays, unless they queue.
func (s *schedule) enqueue(l *leg) {
	name := l.group()
	if name == "" {
		return
	}
	q := s.groups[name]
	if q == nil {
		q = &queue{}
		s.groups[name] = q
	}
	if q.holder == nil {
		q.holder = l
		return
	}
	for c := l.node.scope.caller; c != nil; c = c.node.scope.caller {
		if c == q.holder {
			l.cancel(fmt.Errorf("the job that calls it, %s, holds the concurrency group %s itself", c.name, l.Concurrency.Group))
			return
		}
	}
	if !l.Concurrency.Queue {
		for _, other := range q.next {
			other.cancel(errReplaced)
		}
	}
	q.next = append(q.next, l)
	if l.Concurrency.Cancel {
		q.holder.cancel(fmt.Errorf("%s cancels what is in progress in the concurrency group %s", l.name, l.Concurrency.Group))
	}
}

// leave gives the group on when its holder has ended, and forgets one that waited for it.
func (q *queue) leave(l *leg) {
	q.next = slices.DeleteFunc(q.next, func(other *leg) bool { return other == l })
	if q.holder != l {
		return
	}
	q.holder = nil
	if len(q.next) > 0 {
		q.holder, q.next = q.next[0], q.next[1:]
	}
}

// before are the results of the jobs that a job waits for, of those that they wait for too.
func (n *node) before() map[string]definition.Result {
	out := map[string]definition.Result{}
	for _, id := range n.scope.Ancestors(n.job) {
		if before := n.scope.node(id); before != nil {
			out[id] = before.conclusion
		} else {
			out[id] = definition.Success // not chosen
		}
	}
	return out
}
