package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
)

// Needs says which sensitive values a replay has to be given: those whose names are in the texts of the steps that run. The others get
// placeholders.
//
// A job gets every variable in its environment, so that being there is not a use: such an entry counts where a step names the variable. A
// program that reads its environment by itself names nothing; whoever replays it is told of the placeholder.
type Needs struct {
	part    *part
	given   map[string]string
	all     bool
	again   bool            // steps that were skipped may run
	ran     map[string]bool // IDs, without rounds, of steps that were not skipped
	words   map[string]bool
	anyCase bool                    // words are in upper case
	passed  []map[string]plan.Field // what steps are given because every step of the job is
	same    map[string][]string     // by name, the names of all that had the value of that one
}

// NewNeeds finds out what a replay needs. The error is that of a step that o names and that does not exist.
func NewNeeds(recorded *trace.Trace, o *Options) (*Needs, error) {
	p, err := newPart(recorded, o.From, o.Until)
	if err != nil {
		return nil, err
	}
	return newNeeds(recorded, p, o), nil
}

func newNeeds(t *trace.Trace, p *part, o *Options) *Needs {
	digests := digestsOf(&t.Run)
	n := &Needs{
		part: p, given: recognized(o.Given, &t.Run, digests), all: o.AllSecrets, again: o.Changed,
		ran: map[string]bool{}, words: map[string]bool{}, anyCase: t.Runtime.OS == "windows", same: sameValues(digests),
	}
	t.Walk(func(s *trace.Step, _ int) {
		if s.Status != event.Skipped {
			n.ran[trace.WithoutRounds(s.ID)] = true
		}
	})
	known := map[string]bool{} // components without steps, which say the same wherever they are called
	t.Walk(func(s *trace.Step, _ int) {
		id := trace.WithoutRounds(s.ID)
		if s.Resolved == nil || !p.runs(id) {
			return
		}
		key := s.Resolved.Key()
		if c := t.Components[key]; c != nil && !known[key] {
			n.component(id, c)
			known[key] = len(c.Definition.Steps) == 0
		}
	})
	if c := t.Run.Component; c != nil {
		n.own(c)
		n.all = n.all || hasHoles(c)
	}
	return n
}

// own adds what the run's own component says.
func (n *Needs) own(c *plan.Component) {
	n.component("", c)
	n.passedOn()
}

// Named reports whether a value has to be given.
func (n *Needs) Named(name string) bool {
	return n.all || slices.ContainsFunc(n.names(name), func(name string) bool { return n.words[n.word(name)] })
}

// Given returns what was given for a value: by its name, or by another one of the same value.
func (n *Needs) Given(name string) (text string, ok bool) {
	if text, ok = n.given[name]; ok {
		return text, true
	}
	for _, name := range n.names(name) {
		if text, ok = n.given[name]; ok {
			return text, true
		}
	}
	return "", false
}

// Missing are the names of the secrets and job variables that have to be given and were not, in order.
func (n *Needs) Missing() (missing []string) {
	for name := range n.same {
		if _, given := n.Given(name); !given && n.Named(name) {
			missing = append(missing, n.Shown(name))
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// HasSecret reports whether a run, and not only the place that was made for it, had a secret or a job variable of the name.
func HasSecret(run *trace.Run, name string) bool {
	_, secret := run.Secrets[name]
	_, variable := run.Job[name]
	_, content := run.Job[contentPrefix+name]
	return secret || variable || content
}

// Shown is the name by which a value is asked for: the shortest of those that it has. GitLab's token of a job is CI_JOB_TOKEN, whichever of its
// variables a step was given.
func (n *Needs) Shown(name string) string {
	return slices.MinFunc(n.names(name), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
}

// Placeholder is what stands for the value of a name: nobody takes it for a real one.
func Placeholder(name string) string { return "placeholder-of-replay-for-" + name }

// names are all names of the value of that name.
func (n *Needs) names(name string) []string {
	if names := n.same[name]; names != nil {
		return names
	}
	return []string{ownName(name)}
}

// contentPrefix begins the names of job variables that are the texts of files, see gitlabci/compile: the variable itself is the file's path.
const contentPrefix = "RUNG_CONTENT_OF_"

func ownName(name string) string { return strings.TrimPrefix(name, contentPrefix) }

// digestsOf are the digests of secrets and job variables that are known, by name.
func digestsOf(run *trace.Run) map[string]string {
	digests := map[string]string{}
	maps.Copy(digests, run.Secrets)
	for name, text := range run.Job {
		if digest, ok := sensitiveDigest(text); ok {
			digests[name] = digest
		}
	}
	maps.DeleteFunc(digests, func(_, digest string) bool { return digest == "" || digest == event.Placeholder })
	return digests
}

// recognized returns what was given, with what the digests tell of it: a secret that is read from a file has lost its line end, and a variable of
// a service may have the value of one of the job.
func recognized(given map[string]string, run *trace.Run, digests map[string]string) map[string]string {
	key, err := digestKey(run)
	if err != nil || key == nil {
		return given
	}
	names := map[string]string{}
	for name, digest := range digests {
		names[digest] = name
	}
	out := maps.Clone(given)
	for name, text := range given {
		for _, text := range []string{text, text + "\n"} {
			known, ok := names[engine.Digest(key, text)]
			if !ok {
				continue
			}
			if out[name] = text; given[known] == "" {
				out[known] = text
			}
			break
		}
	}
	return out
}

// sameValues finds the names that stand for one value, by its digest.
func sameValues(digests map[string]string) map[string][]string {
	by := map[string][]string{}
	for _, name := range sortedKeys(digests) {
		by[digests[name]] = append(by[digests[name]], ownName(name))
	}
	same := map[string][]string{}
	for name, digest := range digests {
		same[name], same[ownName(name)] = by[digest], by[digest]
	}
	return same
}

// component adds what a component says, whose steps have IDs below the given one.
func (n *Needs) component(id string, c *plan.Component) {
	for name := range c.Spec.Env { // no pattern stands for a sensitive one
		n.words[n.word(name)] = true
	}
	for name := range c.Spec.Secrets {
		n.words[n.word(name)] = true
	}
	for _, in := range c.Spec.Inputs {
		n.add(in.Computed)
	}
	d := c.Definition
	n.list(id, d.Steps)
	d.Steps = nil
	n.add(d)
}

// jobStatus is the variable that every step has that is given all variables of a job, and no other step, see gitlabci/compile.
const jobStatus = "CI_JOB_STATUS"

func (n *Needs) list(prefix string, steps []plan.Step) {
	for i := range steps {
		st, id := steps[i], strings.TrimPrefix(fmt.Sprintf("%s.%d", prefix, i+1), ".")
		inner, members := st.Inline, st.Parallel
		switch {
		case !n.part.runs(id):
			continue
		case n.skipped(id):
			n.add(st.If) // that is why
			continue
		case st.Env[jobStatus].Value.Str() != "":
			n.passed, st.Env = append(n.passed, st.Env), nil
		}
		st.Inline, st.Parallel = nil, nil
		n.add(st)
		if inner != nil {
			n.component(id, inner)
		}
		n.list(id, members)
	}
}

// skipped reports whether a step was skipped in the recorded run, so that one that goes the same way skips it.
func (n *Needs) skipped(id string) bool {
	return !n.again && n.part.latest[id] != nil && !n.ran[id]
}

// passedOn adds the values of variables that all steps of a job have, where one is named: they may be made of others.
func (n *Needs) passedOn() {
	for again := true; again; {
		again = false
		for _, env := range n.passed {
			for name, field := range env {
				if n.words[n.word(name)] {
					again = n.add(field.Value) || again
				}
			}
		}
	}
}

// names are what a text may name a variable by.
var names = lazyregexp.New(`[A-Za-z_][A-Za-z0-9_]*`)

// word is a name as words has it: on Windows, variables have names in any case.
func (n *Needs) word(name string) string {
	if n.anyCase {
		return strings.ToUpper(name)
	}
	return name
}

// add adds the words of all texts in what has a form in JSON. It reports whether there was one that was not known.
func (n *Needs) add(v any) (more bool) {
	data, err := json.Marshal(v)
	if err != nil {
		return false // what cannot be written was not read from a trace
	}
	texts := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := texts.Token()
		if err != nil {
			return more
		}
		text, _ := token.(string)
		for _, name := range names().FindAllString(text, -1) {
			name = n.word(name)
			more = more || !n.words[name]
			n.words[name] = true
		}
	}
}

// hasHoles reports whether a secret stood in the text of a recorded component as it is: nothing says which.
func hasHoles(c *plan.Component) bool {
	text, err := plan.Canonical(c)
	return err == nil && bytes.Contains(urlPassword().ReplaceAll(text, nil), []byte(mask.Replacement))
}
