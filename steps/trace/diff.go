package trace

import (
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// Difference is what is not the same in two runs. Docs/trace.md lists what it leaves out because it always varies. Paths
// inside the run's own folder are in it as RunFolderText, and where the work directories differ, those as WorkDirText.
type Difference struct {
	// Same says that nothing below differs, but for Times and NotCompared.
	Same bool `json:"same"`
	// Steps that are in both traces, how many of them changed, and how many are in one trace only.
	Compared int `json:"compared"`
	Changed  int `json:"changed"`
	OnlyInA  int `json:"only_in_a"`
	OnlyInB  int `json:"only_in_b"`

	Run   []Change         `json:"run,omitempty"`
	Steps []StepDifference `json:"steps,omitempty"` // only those that differ, in order
	// NotCompared are values known only by digests that were made with different keys, and values that a placeholder stood for in one run: they
	// may differ or not.
	NotCompared []NotCompared `json:"not_compared,omitempty"`
	Times       []TimeChange  `json:"times,omitempty"` // of the run and of every step that ended in both
}

// Change is one field that differs.
type Change struct {
	Field   string `json:"field"`             // its name in the trace: "status", "inputs"
	Name    string `json:"name,omitempty"`    // the key in it, where the field holds many
	Attempt int    `json:"attempt,omitempty"` // counts from 1, where a step was tried more than once
	// A and B are the values; nil where there is none.
	A *value.Value `json:"a,omitempty"`
	B *value.Value `json:"b,omitempty"`
	// Lines are the lines that differ, of texts of several lines and of definitions.
	Lines *LineDiff `json:"lines,omitempty"`
}

// StepDifference is what differs in one step.
type StepDifference struct {
	Path    []string    `json:"path"` // the names of the steps around it and its own, as they are in A, or else in B
	IDA     string      `json:"id_a,omitempty"`
	IDB     string      `json:"id_b,omitempty"`
	Only    string      `json:"only_in,omitempty"` // "a" or "b"; what is inside such a step is not listed
	Changes []Change    `json:"changes,omitempty"`
	Logs    []LogChange `json:"logs,omitempty"` // by stream: how two streams mix differs between runs
}

// NotCompared names a value that cannot be compared. The path of the run itself is empty.
type NotCompared struct {
	Path  []string `json:"path,omitempty"`
	Field string   `json:"field"`
	Name  string   `json:"name,omitempty"`
	// Placeholder says that one of the runs had a placeholder for it.
	Placeholder bool `json:"placeholder,omitempty"`
}

// TimeChange is how long something took. Times always differ, so they make no difference between two runs.
type TimeChange struct {
	Path []string      `json:"path,omitempty"` // empty is the run
	A    time.Duration `json:"a_ns"`
	B    time.Duration `json:"b_ns"`
	// Ratio is B / A; 0 when A took no time.
	Ratio float64 `json:"ratio,omitempty"`
	// Notable says that it changed by more than NotableFactor and by more than NotableAmount.
	Notable bool `json:"notable,omitempty"`
}

// A duration that changed by less is taken for chance.
const (
	NotableFactor = 1.5
	NotableAmount = 500 * time.Millisecond
)

// DiffOptions are how traces are compared.
type DiffOptions struct {
	Logs bool // keep the lines of logs that differ, not only how many they are
	// Normalize takes times and temporary paths in logs for the same; docs/replay.md lists what that is.
	Normalize bool
}

// Diff compares the traces of two runs of one job. Steps are matched by the path of their names, then by position. It reads
// the logs of steps whose logs differ; errors are those of reading them.
func Diff(a, b *Trace, opts DiffOptions) (*Difference, error) {
	d := &differ{
		a: a, b: b, opts: opts, out: &Difference{},
		plainA: placesOf(a), plainB: placesOf(b),
		sameKey: a.Run.DigestKey != "" && a.Run.DigestKey == b.Run.DigestKey,
	}
	if a.Run.WorkDir == b.Run.WorkDir {
		d.plainA.workDir, d.plainB.workDir = "", ""
		d.plainA.parent, d.plainB.parent = "", ""
		d.plainA.mirrored, d.plainB.mirrored = a.Run.WorkDir, b.Run.WorkDir
	}
	if d.plainA.project == d.plainB.project {
		d.plainA.project, d.plainB.project = "", ""
	}
	if opts.Normalize {
		d.logA, d.logB = newNormalizer(a), newNormalizer(b)
	}
	d.run()
	d.list(nil, a.Steps, b.Steps)
	if err := d.logs(); err != nil {
		return nil, err
	}
	d.finish()
	return d.out, nil
}

// differ holds what one comparison needs.
type differ struct {
	a, b           *Trace
	plainA, plainB places
	logA, logB     *normalizer // nil leaves logs as they are
	sameKey        bool
	opts           DiffOptions
	out            *Difference
	steps          []*StepDifference
	pending        []pendingLog
}

// finish leaves out the steps that do not differ, and counts.
func (d *differ) finish() {
	out := d.out
	for _, s := range d.steps {
		switch {
		case s.Only == "a":
			out.OnlyInA++
		case s.Only == "b":
			out.OnlyInB++
		default:
			out.Compared++
			if len(s.Changes)+len(s.Logs) == 0 {
				continue
			}
			out.Changed++
		}
		out.Steps = append(out.Steps, *s)
	}
	out.Same = len(out.Run)+len(out.Steps) == 0
}

// list compares two lists of steps and all that is inside them.
func (d *differ) list(path []string, a, b []*Step) {
	partner := match(a, b)
	listed, place := map[*Step]bool{}, make(map[*Step]int, len(b))
	for _, s := range partner {
		listed[s] = true
	}
	for i, s := range b {
		place[s] = i
	}
	listNew := func(from int) { // the steps that are only in B, up to the next one that is not
		for ; from < len(b) && !listed[b[from]]; from++ {
			listed[b[from]] = true
			d.steps = append(d.steps, &StepDifference{Path: stepPath(path, b[from]), IDB: b[from].ID, Only: "b"})
		}
	}
	listNew(0)
	for _, s := range a {
		other := partner[s]
		if other == nil {
			d.steps = append(d.steps, &StepDifference{Path: stepPath(path, s), IDA: s.ID, Only: "a"})
			continue
		}
		d.step(stepPath(path, s), s, other)
		listNew(place[other] + 1)
	}
	for i := range b { // where the order changed
		listNew(i)
	}
}

// stepPath is path and the step's own name, with its round when its list ran again.
func stepPath(path []string, s *Step) []string {
	return append(slices.Clip(path), s.Name+round(s))
}

// round is what tells a step of a list that ran again from the same one before: " #2" and so on.
func round(s *Step) string {
	if i := strings.IndexByte(s.ID, '#'); i >= 0 {
		return " " + s.ID[i:]
	}
	return ""
}

// match finds for steps of A those of B that are the same step. In turn it goes by name and title, by a title that is there
// once (a step without a name of its own is named by its place, and that moves), by name, and by place: behind steps that
// match, and of the same kind.
func match(a, b []*Step) map[*Step]*Step {
	partner, taken := map[*Step]*Step{}, map[*Step]bool{}
	by := func(key func(*Step) string, unique bool) {
		index, count := map[string][]*Step{}, map[string]int{}
		for _, s := range b {
			if k := key(s); k != "" && !taken[s] {
				index[k] = append(index[k], s)
			}
		}
		for _, s := range a {
			if partner[s] == nil {
				count[key(s)]++
			}
		}
		for _, s := range a {
			k := key(s)
			if partner[s] != nil || len(index[k]) == 0 || unique && (len(index[k]) > 1 || count[k] > 1) {
				continue
			}
			partner[s], taken[index[k][0]] = index[k][0], true
			index[k] = index[k][1:]
		}
	}
	by(func(s *Step) string { return s.Name + "\x00" + s.Title + "\x00" + round(s) }, false)
	by(func(s *Step) string {
		if s.Title == "" {
			return ""
		}
		return s.Title + "\x00" + round(s)
	}, true)
	by(func(s *Step) string { return s.Name + "\x00" + round(s) }, false)

	at := map[*Step]int{}
	for i, s := range b {
		at[s] = i
	}
	for i, s := range a {
		if partner[s] != nil {
			continue
		}
		place := 0
		if i > 0 {
			before := partner[a[i-1]]
			if before == nil {
				continue
			}
			place = at[before] + 1
		}
		if place < len(b) && !taken[b[place]] && round(s) == round(b[place]) && alike(s, b[place]) {
			partner[s], taken[b[place]] = b[place], true
		}
	}
	return partner
}

// alike reports whether two steps of different names may be one that was renamed.
func alike(a, b *Step) bool {
	return a.Kind == b.Kind || a.Status == event.Skipped || b.Status == event.Skipped
}
