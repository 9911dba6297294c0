package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// builder makes a trace from the events of a run. Of the logs it keeps a summary only.
type builder struct {
	trace *Trace
	nodes map[string]*node // by event.Event.Step; the latest where a step ran more than once
	root  node
	last  time.Time // of the latest event
	ended bool
}

// node is a step with what is needed to take in more events of it.
type node struct {
	*Step
	identity
	parent   *node
	list     []plan.Step // what Steps come from, where that is known
	hash     hash.Hash   // of the log, nil while there is none
	bytes    int64
	newlines int64
	lastByte byte
}

func newBuilder() *builder {
	b := &builder{trace: &Trace{Format: Format, Steps: []*Step{}}, nodes: map[string]*node{}}
	b.root.rounds = 1
	return b
}

// log takes in a piece of a step's log.
func (b *builder) log(path string, at time.Time, data []byte) {
	n := b.node(path, at)
	if n.hash == nil {
		n.hash = sha256.New()
	}
	n.hash.Write(data)
	n.bytes += int64(len(data))
	n.newlines += int64(bytes.Count(data, []byte{'\n'}))
	if len(data) > 0 {
		n.lastByte = data[len(data)-1]
	}
	b.last = at
}

// event takes in any event.
func (b *builder) event(e event.Event) {
	b.last = e.Time
	switch body := e.Body.(type) {
	case event.RunStarted:
		b.runStarted(e.Time, body)
	case event.StepStarted:
		n := b.begin(e.Step, e.Time)
		n.Name, n.Title, n.Kind, n.Span, n.Ref = body.Name, body.Title, body.Kind, body.Span, body.Ref
	case event.StepSkipped:
		n := b.begin(e.Step, e.Time)
		n.Name, n.Title, n.Span = body.Name, body.Title, body.Span
		n.Status, n.Skipped, n.Kind, n.Definition = event.Skipped, body.Reason, "", nil
	case event.StepResolved:
		b.resolved(b.node(e.Step, e.Time), body)
	case event.StepInputs:
		n := b.node(e.Step, e.Time)
		n.Inputs, n.Env, n.Secrets, n.Permissions = body.Inputs, body.Env, body.Secrets, body.Permissions
	case event.ExecStarted:
		n := b.node(e.Step, e.Time)
		n.Attempts = append(n.Attempts, Attempt{Command: body.Command, WorkDir: body.WorkDir, Env: body.Env, Unset: body.Unset,
			LogHeld: body.LogHeld, Confined: body.Confined, Started: e.Time})
	case event.Log:
		b.log(e.Step, e.Time, body.Data)
	case event.ExecFinished:
		if a := b.node(e.Step, e.Time).attempt(); a != nil {
			code := body.ExitCode
			a.ExitCode, a.Signal, a.Program, a.Image, a.Duration = &code, body.Signal, body.Program, body.Image, e.Time.Sub(a.Started)
		}
	case event.StepRetrying:
		n := b.node(e.Step, e.Time)
		n.rounds++
		n.Summary, n.Subjects = "", nil
		if a := n.attempt(); a != nil {
			a.Error = body.Error
		}
	case event.StepFinished:
		n := b.node(e.Step, e.Time)
		n.Status, n.Allowed, n.ExitCode, n.Error = body.Status, body.Allowed, body.ExitCode, body.Error
		n.Outputs, n.Exports, n.Duration = body.Outputs, body.Exports, body.Duration
		n.summarize()
		n.hash = nil
	case event.Annotation:
		b.node(e.Step, e.Time).annotate(body)
	case event.Summary:
		b.node(e.Step, e.Time).Summary = body.Markdown
	case event.Subjects:
		n := b.node(e.Step, e.Time)
		n.Subjects = append(n.Subjects, body.Subjects...)
	case event.Warning:
		b.trace.Warnings = append(b.trace.Warnings, Warning{Step: b.id(e.Step), Message: body.Message, Diagnostic: body.Diagnostic, Machine: body.Machine, Time: e.Time})
	case event.Stopping:
		b.trace.Run.Stopping = &Stopping{Time: e.Time, Code: body.Code, Reason: body.Reason, Force: body.Force}
	case event.Paused:
		b.trace.Run.Pauses = append(b.trace.Run.Pauses, Pause{Before: body.Before, Time: e.Time})
	case event.Resumed:
		if pauses := b.trace.Run.Pauses; len(pauses) > 0 {
			pauses[len(pauses)-1].Resumed = e.Time
		}
	case event.RunFinished:
		r := &b.trace.Run
		r.Status, r.Outputs, r.Error, r.ExitCode = body.Status, body.Outputs, body.Error, body.ExitCode
		r.Duration, r.Counts = body.Duration, body.Counts
		b.ended = true
		if n := b.nodes[""]; n != nil && n.Status == event.Running {
			n.Status, n.Error, n.ExitCode, n.Duration = body.Status, body.Error, body.ExitCode, body.Duration
			n.summarize()
		}
	}
}

func (b *builder) runStarted(at time.Time, s event.RunStarted) {
	b.trace.Runtime = Runtime{Version: s.Runtime.Version, OS: s.Runtime.OS, Arch: s.Runtime.Arch}
	b.trace.Run = Run{
		ID: s.ID, Status: event.Running, Started: at, Inputs: s.Inputs, WorkDir: s.WorkDir, FreshWorkDir: s.FreshWorkDir, Environment: s.Environment, Identity: s.Identity,
		Env: s.Env, InheritEnv: s.InheritEnv, Confine: s.Confine, Job: s.Job,
		Secrets: s.Secrets, DigestKey: s.DigestKey, Source: s.Source, Component: s.Component, Continues: s.Continues,
	}
	if s.Component != nil {
		b.root.list = s.Component.Definition.Steps
	}
}

func (b *builder) resolved(n *node, r event.StepResolved) {
	n.Resolved = &Resolved{Ref: r.Ref, Dir: r.Dir, File: r.File, Digest: r.Digest, Origin: r.Origin}
	component := r.Component
	switch {
	case r.Digest == "":
		n.Definition = r.Component
	case r.Component == nil:
		component = b.trace.Components[r.Key()]
	default:
		if b.trace.Components == nil {
			b.trace.Components = map[string]*plan.Component{}
		}
		b.trace.Components[r.Key()] = r.Component
	}
	if component != nil {
		n.list = component.Definition.Steps
	}
}

// node returns the step at the path. What was recorded from its middle on has steps that never began; they are made up.
func (b *builder) node(path string, at time.Time) *node {
	if n := b.nodes[path]; n != nil {
		return n
	}
	return b.begin(path, at)
}

// id returns the ID of the step at the path, "" for the run.
func (b *builder) id(path string) string {
	if n := b.nodes[path]; n != nil {
		return n.ID
	}
	return path
}

// begin adds a step.
func (b *builder) begin(path string, at time.Time) *node {
	n := &node{Step: &Step{Status: event.Running, Started: at, Name: path}, parent: &b.root}
	if path == "" { // the run's own component is one process
		n.identity = identity{parent: &b.root.identity, rounds: 1}
		n.Name, n.Kind = "run", event.KindExec
		b.trace.Steps = slices.Insert(b.trace.Steps, 0, n.Step)
		b.nodes[path] = n
		return n
	}
	parentPath, last := cutPath(path)
	if parentPath != "" {
		n.parent = b.node(parentPath, at)
	}
	var old *identity
	if before := b.nodes[path]; before != nil {
		old = &before.identity
	}
	n.identity = newIdentity(&n.parent.identity, old, last)
	n.ID = n.id
	n.define()
	b.insert(n)
	b.nodes[path] = n
	return n
}

// insert puts the step among its siblings by position, however parallel steps came to begin.
func (b *builder) insert(n *node) {
	siblings := &b.trace.Steps
	if n.parent.Step != nil {
		siblings = &n.parent.Steps
	}
	i := len(*siblings)
	for i > 0 && after((*siblings)[i-1].ID, n) {
		i--
	}
	*siblings = slices.Insert(*siblings, i, n.Step)
}

// placeOf returns what the last element of an ID says: the position in the list, and the round of the list.
func placeOf(id string) (position, round int) {
	last, again, _ := strings.Cut(id[strings.LastIndexByte(id, '.')+1:], "#")
	position, _ = strconv.Atoi(last)
	round, _ = strconv.Atoi(again)
	return position, max(round, 1)
}

// after reports whether the sibling with the ID comes after n.
func after(id string, n *node) bool {
	position, round := placeOf(id)
	return round > n.round || round == n.round && position > n.position
}

// define finds what the list that the step is in says of it.
func (n *node) define() {
	if n.position < 1 || n.position > len(n.parent.list) {
		return
	}
	step := n.parent.list[n.position-1]
	n.list = step.Parallel
	if n.Definition = step.Inline; step.Inline != nil && step.Inline.Definition.Steps != nil {
		own := *step.Inline
		n.list, own.Definition.Steps = own.Definition.Steps, nil
		n.Definition = &own
	}
}

// annotate takes in what the step said about a place, as far as there is room.
func (n *node) annotate(a event.Annotation) {
	if len(n.Annotations) == MaxAnnotations {
		n.AnnotationsLeftOut++
		return
	}
	if len(a.Message) > maxAnnotationText {
		a.Message = strings.ToValidUTF8(a.Message[:maxAnnotationText], "") + "…"
	}
	n.Annotations = append(n.Annotations, a)
}

// attempt returns the latest process of the step, nil when there is none.
func (n *node) attempt() *Attempt {
	if len(n.Attempts) == 0 {
		return nil
	}
	return &n.Attempts[len(n.Attempts)-1]
}

// summarize brings the summary of the log up to date.
func (n *node) summarize() {
	if n.hash == nil {
		return
	}
	lines := n.newlines
	if n.bytes > 0 && n.lastByte != '\n' {
		lines++
	}
	n.Log = &LogSummary{Bytes: n.bytes, SHA256: hex.EncodeToString(n.hash.Sum(nil)), Lines: lines}
}

// finish returns the trace. Of a run that has not ended, what still runs lasts until the latest event.
func (b *builder) finish() *Trace {
	if b.ended {
		return b.trace
	}
	b.trace.Incomplete = true
	b.trace.Run.Duration = b.last.Sub(b.trace.Run.Started)
	for _, path := range slices.Sorted(maps.Keys(b.nodes)) {
		if n := b.nodes[path]; n.Status == event.Running {
			n.Duration = b.last.Sub(n.Started)
			n.summarize()
		}
	}
	b.trace.Run.Counts = count(b.trace)
	return b.trace
}

// count counts how the steps of a run that has not ended stand, as event.Counts says.
func count(t *Trace) event.Counts {
	var c event.Counts
	t.Walk(func(s *Step, _ int) {
		if len(s.Steps) > 0 || s.Kind == event.KindSteps || s.Kind == event.KindParallel {
			return
		}
		switch {
		case s.Status == event.Success:
			c.Success++
		case s.Status == event.Failure && s.Allowed:
			c.Allowed++
		case s.Status == event.Failure:
			c.Failure++
		case s.Status == event.Cancelled:
			c.Cancelled++
		case s.Status == event.Skipped:
			c.Skipped++
		}
	})
	return c
}

// WithoutRounds is the ID that the engine has for a step.
func WithoutRounds(id string) string {
	if !strings.Contains(id, "#") {
		return id
	}
	elements := strings.Split(id, ".")
	for i := range elements {
		elements[i], _, _ = strings.Cut(elements[i], "#")
	}
	return strings.Join(elements, ".")
}
