package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// boundaries are the jobs that are stopped at every boundary.
var boundaries = map[string]job{
	"outputs, exports and failures": {steps: `
- {name: make, step: ./make, inputs: {n: 3}}
- name: use
  script: |
    echo "got ${{ steps.make.outputs.text }} and $MADE"
    echo '{"name":"MORE","value":"yes"}' >${{ export_file }}
    echo kept >$HOME/kept; ln -s $HOME/kept $TMPDIR/link
- {name: same, parallel: [{name: left, script: 'cat $TMPDIR/link'}, {name: right, script: 'echo $MORE; exit 3'}]}
- {name: never, script: echo never}
- {name: always, when: always, script: 'echo ${{ steps.left.status }} ${{ steps.right.status }} ${{ steps.never.status }}'}
`, files: map[string]string{"make/func.yml": `
spec: {inputs: {n: {type: number}}, outputs: {text: {type: string}}, exports: [MADE]}
---
env: {INSIDE: "yes"}
run:
- {name: inner, script: 'echo "{\"name\":\"MADE\",\"value\":\"by ${{ inputs.n }}\"}" >${{ export_file }}'}
outputs: {text: "made ${{ inputs.n }}"}
`}},
	"secrets": {steps: `
- name: derive
  step: ./derive
  secrets: [TOKEN]
- {script: 'echo ${{ steps.derive.outputs.key }} $AUTH x${{ job.PASSWORD }}'}
- {name: pin, script: 'echo pin ${{ steps.derive.outputs.pin }}'}
`, files: map[string]string{"derive/func.yml": `
spec: {secrets: {TOKEN: {}}, outputs: {key: {type: struct, sensitive: true}, pin: {type: number, sensitive: true}}, exports: [AUTH]}
---
exec: {script: 'echo "{\"name\":\"key\",\"value\":{\"a\":\"derived-from-$TOKEN\"}}" >${{ output_file }}; echo "{\"name\":\"pin\",\"value\":42}" >>${{ output_file }}; echo "{\"name\":\"AUTH\",\"value\":\"Bearer $TOKEN\"}" >${{ export_file }}'}
`}, opts: engine.Options{
		Secrets: map[string]string{"TOKEN": "s3cr3t-value", "OTHER": "0ther-secret"},
		Job:     map[string]engine.Variable{"PASSWORD": {Value: "pa55word-x", Sensitive: true}, "CI": {Value: "yes"}},
	}},
	"background": {steps: `
- {name: quick, background: true, script: 'touch quick; echo "{\"name\":\"Q\",\"value\":\"1\"}" >${{ export_file }}'}
- {name: look, script: 'while ! test -e quick; do sleep 0.02; done; echo "[$Q]"'}
- {name: bad, background: true, script: exit 4}
- {name: sleep, script: 'echo "[$Q]"'}
- {name: sync, wait: quick}
- {name: after, script: 'echo "[$Q] ${{ steps.quick.status }}"'}
- {name: rest, wait: bad}
- {name: end, when: always, script: 'echo ${{ steps.bad.status }}'}
- {name: last, when: always, script: echo last}
`},
	"hooks": {steps: `
- {script: echo begin $PREPARED}
- {name: a, title: Do A, action: owner/one@v1, inputs: {who: a}}
- {name: b, func: ./both, env: {SHARED: "mine"}}
- {script: 'echo "{\"name\":\"SHARED\",\"value\":\"late\"}" >${{ export_file }}'}
- {name: p, parallel: [{name: c, func: ./local}, {name: d, action: owner/one@v1, inputs: {who: d}}]}
- {name: f, func: ./fails}
- {name: g, func: ./deep}
- {name: h, run: [{name: i, func: ./fails}]}
- {script: "echo end; exit 1"}
- {script: echo always, when: always}
`, files: withDeep(hookedFiles), opts: engine.Options{Env: map[string]string{"SHARED": "early"}}},
	"allowed failures, timeouts and retries": {steps: `
context: {github: {ref: main}, who: "${{ env.WHO }}"}
env: {WHO: me, HERE: "${{ work_dir }}"}
run:
- {name: slow, script: sleep 600, timeout: 50ms, allow_failure: true}
- {name: again, retry: 1, script: 'test -e once && echo ok; touch once'}
- {name: change, script: 'echo "{\"name\":\"WHO\",\"value\":\"other\"}" >${{ export_file }}'}
- {name: told, if: "steps.slow.allowed", script: 'echo ${{ steps.slow.timeout }} ${{ context.who }} $WHO'}
`, opts: engine.Options{Env: map[string]string{"WHO": "first"}}},
}

// withDeep adds a component whose step's Post fails.
func withDeep(files map[string]string) map[string]string {
	all := maps.Clone(files)
	all["deep/func.yml"] = "spec: {}\n---\nrun:\n- {name: fails, func: ./../fails}\n"
	return all
}

func TestARunThatMovesAtEveryBoundaryLeavesTheTraceOfOneThatStays(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	for name, j := range boundaries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, stayed := recorded(t, j)
			if r.Error != nil && r.Error.Kind != event.ErrorStep {
				t.Fatal(r.Error, r.Error.Diagnostics)
			}
			moved, positions := moving(t, j)
			if len(positions) < 3 {
				t.Fatalf("it stood before %q only", positions)
			}
			if diff := cmp.Diff(comparable(t, stayed), comparable(t, moved)); diff != "" {
				t.Errorf("stopped before %q:\n%s", positions, diff)
			}
			if len(moved.Run.Parts) != len(positions) {
				t.Errorf("%d parts, moved at %q", len(moved.Run.Parts), positions)
			}
		})
	}
}

// comparable is the form of a trace that is the same for two runs of a job.
func comparable(t *testing.T, tr *trace.Trace) string {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Export(&b, "comparable", tr); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// recorded runs the job and reads its trace.
func recorded(t *testing.T, j job) (*ran, *trace.Trace) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.json")
	rec, err := trace.NewRecorder(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, _, _ = j.talking(t)
	j.opts.Sink = rec
	r := j.run(t)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := trace.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range r.events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
	}
	return r, tr
}

// moving runs the job in as many engines as there are boundaries, and joins the traces. It returns where it stopped.
func moving(t *testing.T, j job) (*trace.Trace, []string) {
	t.Helper()
	j.dir = t.TempDir()
	writeFiles(t, j.dir, j.files)
	var parts []*trace.Trace
	var positions []string
	for len(parts) < 50 {
		c := &engine.Control{}
		j.opts.Control = c
		c.Pause()
		next := make(chan *engine.State, 1)
		folder := filepath.Join(t.TempDir(), "files")
		first := j.opts.From == nil
		go func() {
			at, err := c.Await(t.Context())
			if err == nil && !first { // where the last one left
				c.Resume(true)
				at, err = c.Await(t.Context())
			}
			if errors.Is(err, engine.ErrEnded) {
				next <- nil
				return
			}
			state, serr := c.State(folder)
			if err := errors.Join(err, serr, c.Leave()); err != nil {
				t.Error(err)
				c.Resume(false)
			}
			positions = append(positions, at.Before)
			next <- state
		}()
		_, part := recorded(t, j)
		parts = append(parts, part)
		state := <-next
		if state == nil {
			break
		}
		j.opts.From, j.opts.Files = readBack(t, state), folder
	}
	slices.Reverse(parts)
	whole, err := trace.Join(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return whole, append(positions, "the end")
}

// readBack is the state as another process gets it.
func readBack(t *testing.T, s *engine.State) *engine.State {
	t.Helper()
	read, err := engine.ParseState(bytes.Clone(s.Document), s.Sensitive)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// paused runs the job until it stands at the boundary before a step, does something there, and returns how it ended.
func paused(t *testing.T, j job, before string, do func(*engine.Control)) *ran {
	t.Helper()
	c := &engine.Control{}
	j, _, _ = j.talking(t)
	j.opts.Control = c
	c.Pause()
	go func() {
		for {
			at, err := c.Await(t.Context())
			if err != nil {
				t.Errorf("the run does not stop before step %s: %v", before, err)
				return
			}
			if at.Before == before {
				do(c)
				return
			}
			c.Resume(true)
		}
	}()
	return j.run(t)
}

// stateAt returns the state of the job before a step, and the folder with its files.
func stateAt(t *testing.T, j job, before string) (*engine.State, string) {
	t.Helper()
	var state *engine.State
	folder := filepath.Join(t.TempDir(), "files")
	paused(t, j, before, func(c *engine.Control) {
		var err error
		if state, err = c.State(folder); err != nil {
			t.Error(err)
		}
		if err := c.Leave(); err != nil {
			t.Error(err)
		}
	})
	if state == nil {
		t.FailNow()
	}
	return state, folder
}

func TestABackgroundStepThatHasEndedMovesWithItsOutcome(t *testing.T) {
	t.Parallel()
	j := job{dir: t.TempDir(), steps: `
- {name: back, background: true, script: 'echo "{\"name\":\"B\",\"value\":\"1\"}" >${{ export_file }}; exit 0'}
- {name: hold, script: 'while ! test -e ended; do sleep 0.02; done'}
- {name: before, script: 'echo "[$B]"'}
- {name: sync, wait: back}
- {name: after, script: 'echo "[$B] ${{ steps.back.status }}"'}
`}
	j.opts.Sink = sinkFunc(func(e event.Event) {
		if _, ended := e.Body.(event.StepFinished); ended && e.Step == "1" {
			if err := os.WriteFile(filepath.Join(j.dir, "ended"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	var state *engine.State
	c := &engine.Control{}
	stopping := j
	stopping.opts.Control = c
	c.Pause()
	go func() {
		for {
			at, err := c.Await(t.Context())
			if err != nil {
				return
			}
			if at.Before == "1" || at.Before == "2" {
				c.Resume(true)
				continue
			}
			if state, err = c.State(""); err != nil || at.Before != "3" {
				t.Errorf("before step %s: %v", at.Before, err)
			}
			if err := c.Leave(); err != nil {
				t.Error(err)
			}
			if err := c.Leave(); err != nil {
				t.Errorf("again: %v", err)
			}
			return
		}
	}()
	stopping.run(t)
	if state == nil {
		t.Fatal("it did not stop")
	}
	j.opts.From = readBack(t, state)
	j.run(t).succeeds().logs("[]\n[1] success\n")
}

func TestAStateHoldsNoSecretInItsDocument(t *testing.T) {
	t.Parallel()
	j := boundaries["secrets"]
	s, _ := stateAt(t, j, "3")
	var sensitive []string
	for _, text := range s.Sensitive {
		sensitive = append(sensitive, string(text))
	}
	for _, secret := range []string{"s3cr3t-value", "0ther-secret", "pa55word-x"} {
		if bytes.Contains(s.Document, []byte(secret)) {
			t.Errorf("%s stands in the document:\n%s", secret, s.Document)
		}
		if slices.Contains(sensitive, secret) {
			t.Errorf("%s stands among the sensitive texts, and not as a name: %q", secret, sensitive)
		}
	}
	if !strings.Contains(strings.Join(sensitive, "\n"), "derived-from-s3cr3t-value") || !slices.Contains(sensitive, "42") {
		t.Errorf("what came of secrets is missing: %q", sensitive)
	}
}

func TestAStateFitsItsOwnRunOnly(t *testing.T) {
	t.Parallel()
	j := boundaries["secrets"]
	j.dir = t.TempDir()
	writeFiles(t, j.dir, j.files)
	s, _ := stateAt(t, j, "3")
	for want, change := range map[string]func(j *job){
		"other steps":                             func(j *job) { j.steps += "- {script: echo more}\n" },
		"other job variables":                     func(j *job) { j.opts.Job = nil },
		`the secret "TOKEN" must be passed again`: func(j *job) { j.opts.Secrets = map[string]string{"OTHER": "0ther-secret"} },
		`the secret "OTHER" differs from`: func(j *job) {
			j.opts.Secrets = map[string]string{"TOKEN": "s3cr3t-value", "OTHER": "changed-secret"}
		},
		"cannot go on in": func(j *job) { j.dir = t.TempDir() },
		"user's home":     func(j *job) { j.opts.HostHome = true },
	} {
		other := j
		other.opts.From = s
		change(&other)
		other.run(t).fails(event.ErrorDefinition, want)
	}
	j.opts.From = s
	j.run(t).succeeds()
}

func TestAStateWithFilesIsNotResumedWithoutThem(t *testing.T) {
	t.Parallel()
	j := boundaries["outputs, exports and failures"]
	j.dir = t.TempDir()
	writeFiles(t, j.dir, j.files)
	j.opts.From, _ = stateAt(t, j, "3")
	j.run(t).fails(event.ErrorDefinition, "the run left files in its own folders")
}

func TestAComponentThatChangedIsRefused(t *testing.T) {
	t.Parallel()
	j := boundaries["hooks"]
	j.dir = t.TempDir()
	writeFiles(t, j.dir, j.files)
	j, _, _ = j.talking(t)
	j.opts.From, j.opts.Files = stateAt(t, j, "4")
	writeFiles(t, j.dir, map[string]string{"one/func.yml": hooked + "# changed\n"})
	j.run(t).fails(event.ErrorDefinition, "is not the one that it was")
}

func TestPause(t *testing.T) {
	t.Parallel()
	steps := job{steps: "- {name: a, script: echo a}\n- {name: b, script: echo b}\n- {name: c, when: always, script: echo c}\n"}
	t.Run("stops between two steps, and the run goes on where it was", func(t *testing.T) {
		t.Parallel()
		r := paused(t, steps, "2", func(c *engine.Control) {
			if at, is := c.Standing(); !is || at.Before != "2" {
				t.Errorf("it stands before %q", at.Before)
			}
			c.Pause() // again
			if _, err := c.Await(t.Context()); err != nil {
				t.Error(err)
			}
			if !c.Resume(false) || c.Resume(false) {
				t.Error("a run is resumed once")
			}
		}).succeeds().logs("a\nb\nc\n")
		pauses, resumed := bodies[event.Paused](r), bodies[event.Resumed](r)
		if len(pauses) != 2 || len(resumed) != 2 || pauses[1].Before != "2" || resumed[1].Before != "2" {
			t.Errorf("%v, %v", pauses, resumed)
		}
	})
	t.Run("says what it waits for", func(t *testing.T) {
		t.Parallel()
		c := &engine.Control{}
		j := job{steps: "- {name: first, script: 'while ! test -e go; do sleep 0.02; done'}\n- script: echo two\n", dir: t.TempDir()}
		j.opts.Control = c
		now, cancel := context.WithCancel(t.Context())
		cancel()
		j.opts.Sink = sinkFunc(func(e event.Event) {
			if _, ok := e.Body.(event.ExecStarted); !ok || e.Step != "1" {
				return
			}
			c.Pause()
			var waiting *engine.WaitingError
			if _, err := c.Await(now); !errors.As(err, &waiting) || waiting.For != `step 1 ("first") is running` {
				t.Errorf("it waits for %v", err)
			}
			if _, err := c.State(""); !errors.Is(err, engine.ErrNotPaused) {
				t.Error(err)
			}
			if err := c.Leave(); !errors.Is(err, engine.ErrNotPaused) {
				t.Error(err)
			}
			c.Resume(false) // takes it back
			if err := os.WriteFile(filepath.Join(j.dir, "go"), nil, 0o600); err != nil {
				t.Error(err)
			}
		})
		if r := j.run(t).succeeds(); len(bodies[event.Paused](r)) != 0 {
			t.Error("it paused")
		}
	})
	t.Run("waits for background steps", func(t *testing.T) {
		t.Parallel()
		r := paused(t, job{steps: `
- {name: server, background: true, script: 'touch up; while ! test -e down; do sleep 0.02; done'}
- {name: a, script: 'while ! test -e up; do sleep 0.02; done'}
- {name: b, script: touch down}
- {name: wait, wait: server}
- {name: c, script: echo end}
`}, "5", func(c *engine.Control) { c.Resume(false) }).succeeds()
		if got := bodies[event.Paused](r); !slices.Equal(got, []event.Paused{{Before: "1"}, {Before: "5"}}) && len(got) != 3 {
			t.Errorf("it stopped at %v", got)
		}
	})
	t.Run("ends when the run is cancelled, which then cleans up and pauses no more", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		j := steps
		j.ctx = ctx
		paused(t, j, "2", func(c *engine.Control) {
			c.Pause()
			cancel(errors.New("enough"))
			for {
				if _, err := c.Await(t.Context()); errors.Is(err, engine.ErrStopping) || errors.Is(err, engine.ErrEnded) {
					return
				}
			}
		}).fails(event.ErrorCancelled, "enough").logs("a\nc\n")
	})
	t.Run("ends when everything is killed", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		kill := make(chan struct{})
		j := steps
		j.ctx, j.opts.Kill = ctx, kill
		paused(t, j, "2", func(*engine.Control) {
			cancel(errors.New("enough"))
			close(kill)
		}).fails(event.ErrorCancelled)
	})
	t.Run("stops the clock of the run", func(t *testing.T) {
		t.Parallel()
		j := job{steps: "- {name: a, script: echo a}\n- {name: b, script: sleep 600}\n- {name: c, when: always, script: echo c}\n"}
		const timeout, longer = 2 * time.Second, 2100 * time.Millisecond
		j.opts.Timeout = timeout
		var at time.Time
		r := paused(t, j, "2", func(c *engine.Control) {
			at = time.Now()
			<-time.After(longer) // than the run has
			c.Resume(false)
		}).fails(event.ErrorTimeout, "the run timed out after 2s").logs("a\nc\n")
		if r.finished("b").Duration == 0 || time.Since(at) < longer {
			t.Error("the step did not run after the pause")
		}
	})
	t.Run("is over when the run has ended", func(t *testing.T) {
		t.Parallel()
		c := &engine.Control{}
		j := steps
		j.opts.Control = c
		j.run(t).succeeds()
		c.Pause()
		if _, err := c.Await(t.Context()); !errors.Is(err, engine.ErrEnded) {
			t.Error(err)
		}
	})
}

func TestTheTimeThatIsLeftMovesWithTheRun(t *testing.T) {
	t.Parallel()
	j := job{steps: "- {name: a, script: echo a}\n- {name: b, script: sleep 600}\n", dir: t.TempDir()}
	j.opts.Timeout = 3 * time.Second
	j.opts.From, _ = stateAt(t, j, "2")
	j.opts.Timeout = time.Hour
	j.run(t).fails(event.ErrorTimeout, "the run timed out after 3s")
}

func TestAStateThatWasChangedIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := stateAt(t, boundaries["hooks"], "13")
	document := string(s.Document)
	for name, changed := range map[string]string{
		"blanks":          strings.Replace(document, ",", ", ", 1),
		"cut":             document[:len(document)-1],
		"another format":  strings.Replace(document, engine.StateFormat, "rung.state/v9", 1),
		"a field more":    strings.Replace(document, `{"base"`, `{"aaa":1,"base"`, 1),
		"a key twice":     strings.Replace(document, `{"base"`, `{"base":[],"base"`, 1),
		"no position":     strings.Replace(document, `"before":"13"`, `"before":"0"`, 1),
		"a loose number":  strings.Replace(document, `"before":"13"`, `"before":{"$sensitive":12345}`, 1),
		"a missing list":  strings.Replace(document, `"list":{"`, `"list":null,"lost":{"`, 1),
		"a null":          strings.Replace(document, `"files":true`, `"files":null`, 1),
		"an absent flag":  strings.Replace(document, `"failed":true`, `"failed":false`, 1),
		"a wrong status":  strings.Replace(document, `"status":"failure"`, `"status":"fine"`, 1),
		"posts elsewhere": strings.Replace(document, `"posts":[`, `"posts":[77,`, 1),
		"not JSON":        "hello",
		"nothing":         "",
	} {
		if name != "not JSON" && name != "nothing" && changed == document {
			t.Fatalf("%s: the test changes nothing in\n%s", name, document)
		}
		if _, err := engine.ParseState([]byte(changed), s.Sensitive); err == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
	if _, err := engine.ParseState(make([]byte, engine.MaxState+1), nil); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}

func TestARunFromAStateThatSomebodyMadeUpEnds(t *testing.T) {
	t.Parallel()
	j := boundaries["hooks"]
	j.dir = t.TempDir()
	writeFiles(t, j.dir, j.files)
	state, folder := stateAt(t, j, "18") // the last of them
	var tree any
	if err := json.Unmarshal(state.Document, &tree); err != nil {
		t.Fatal(err)
	}
	ran := 0
	mutate(tree, func() {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(tree); err != nil {
			t.Fatal(err)
		}
		changed, err := engine.ParseState(bytes.TrimSuffix(b.Bytes(), []byte("\n")), state.Sensitive)
		if err != nil {
			return
		}
		ran++
		made := j
		made, _, _ = made.talking(t)
		made.opts.From, made.opts.Files = changed, folder
		r := made.run(t) // to its end, without a panic
		if last, ok := r.events[len(r.events)-1].Body.(event.RunFinished); !ok || last.Status != r.Status {
			t.Errorf("the last event is %+v", last)
		}
	})
	if ran < 10 {
		t.Errorf("only %d changed states have the right form", ran)
	}
}

// mutate replaces everything in a tree in turn by something small, and calls try each time.
func mutate(node any, try func()) {
	switch n := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			was := n[key]
			n[key] = smaller(was)
			try()
			n[key] = was
			mutate(was, try)
		}
	case []any:
		for i, was := range n {
			if i == maxMutated {
				return
			}
			n[i] = smaller(was)
			try()
			n[i] = was
			mutate(was, try)
		}
	}
}

// maxMutated is how many items of a list are replaced: they are alike.
const maxMutated = 2

// smaller is a value of the same type that says nothing.
func smaller(v any) any {
	switch v.(type) {
	case string:
		return "1"
	case float64:
		return 0
	case bool:
		return false
	case []any:
		return []any{}
	default:
		return nil
	}
}
