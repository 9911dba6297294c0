package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// New makes the pipeline of a definition. A pipeline that rules leave without jobs is not an error: see Pipeline.Reason.
//
// The error is a diag.List of all for which GitLab would make no pipeline. The definition must not change afterwards.
func New(d *keyword.Definition, facts Facts) (*Pipeline, error) {
	b := &builder{
		d: d, origin: newOrigin(d, facts), rules: map[*keyword.Rule][]when.Rule{}, told: map[string]bool{},
		p: &Pipeline{names: make(map[string]*Job, len(d.Jobs)), groups: make(map[string][]*Job, len(d.Jobs))},
	}
	b.workflow()
	if b.p.Verdict.Added() {
		b.jobs()
	}
	return b.p, b.problems.Err()
}

// builder makes a pipeline.
type builder struct {
	d        *keyword.Definition
	p        *Pipeline
	origin   *origin
	slab     []Job                            // jobs to be, in one piece of memory
	rules    map[*keyword.Rule][]when.Rule    // by their first one: jobs share rules
	resolved map[*keyword.Need]*resolvedNeeds // of the job that is resolved, by their first one
	problems diag.List
	told     map[string]bool
}

// problem reports what is wrong, once.
func (b *builder) problem(n config.Node, hint, message string) {
	if len(b.problems) < config.MaxProblems {
		b.tell(&b.problems, n.Diagnostic(hint, message))
	}
}

// warn reports what is probably not meant, once.
func (b *builder) warn(n config.Node, hint, message string) {
	if len(b.p.Warnings) < config.MaxProblems {
		b.tell(&b.p.Warnings, n.Diagnostic(hint, message))
	}
}

func (b *builder) tell(list *diag.List, d diag.Diagnostic) {
	key := d.Error()
	if !b.told[key] {
		b.told[key] = true
		*list = append(*list, d)
	}
}

// workflow decides whether there is a pipeline, and names it.
func (b *builder) workflow() {
	w := b.d.Workflow
	facts := &known{origin: b.origin}
	v, err := when.Decide(b.decisions(w.Rules), when.Always, facts)
	if err != nil {
		b.undecided(w.Rules, config.Node{}, fmt.Errorf("workflow: %w", err))
		b.p.Verdict.When = when.Never
		return
	}
	b.p.Verdict = v
	if len(v.Notes) > 0 {
		b.notes(w.Rules[0].Node, v.Notes)
	}
	b.origin.setWorkflow(v.Variables)
	defer facts.forget()
	if w.Name == "" || !v.Added() {
		return
	}
	name, err := facts.text(w.Name)
	if err != nil {
		b.problem(config.Node{}, "", "`workflow: name` cannot be expanded: "+err.Error())
		return
	}
	b.p.Name = strings.TrimSpace(name)
}

// decisions returns rules as they are decided. Nil stays nil: there are none, which is something else than an empty list.
func (b *builder) decisions(rules []keyword.Rule) []when.Rule {
	if len(rules) == 0 {
		if rules == nil {
			return nil
		}
		return []when.Rule{}
	}
	if done, ok := b.rules[&rules[0]]; ok && len(done) == len(rules) {
		return done
	}
	out := make([]when.Rule, len(rules))
	for i := range rules {
		out[i] = rules[i].Rule
	}
	b.rules[&rules[0]] = out
	return out
}

// undecided reports that rules cannot be decided, at the rule, or the part of its expression.
func (b *builder) undecided(rules []keyword.Rule, otherwise config.Node, err error) {
	n, hint := otherwise, ""
	var at *when.RuleError
	if errors.As(err, &at) && at.Rule < len(rules) && rules[at.Rule].Node.Exists() {
		n = rules[at.Rule].Node
	}
	var in *rule.Error
	if errors.As(err, &in) {
		hint = in.Hint
		if condition := n.Get("if"); condition.Exists() && len(b.problems) < config.MaxProblems {
			b.tell(&b.problems, condition.DiagnosticAt(condition.At(in.Offset, in.Length), hint, err.Error()))
			return
		}
	}
	b.problem(n, hint, err.Error())
}

func (b *builder) notes(n config.Node, notes []string) {
	for _, note := range notes {
		b.warn(n, "", note)
	}
}

// jobs makes the jobs.
func (b *builder) jobs() {
	total := 0
	for _, k := range b.d.Jobs {
		total += min(count(k.Parallel), MaxCopies)
	}
	b.slab = make([]Job, max(total, 0))
	stages := make(map[string]int, len(b.d.Stages))
	for i, s := range b.d.Stages {
		if _, ok := stages[s]; !ok {
			stages[s] = i
		}
	}
	for _, k := range b.d.Jobs {
		b.p.groups[k.Name] = nil // so that it is known, whatever is wrong with it
		if _, ok := stages[k.Stage]; !ok {
			n := k.Key
			if v := k.Node.Get("stage"); v.Exists() {
				n = v
			}
			hint := "the stages are " + strings.Join(b.d.Stages, ", ")
			if s := diag.Suggest(k.Stage, b.d.Stages); s != "" {
				hint = fmt.Sprintf("did you mean %q?", s)
			}
			b.problem(n, hint, fmt.Sprintf("the job %q is in the stage %q, which is not one of `stages`", k.Name, k.Stage))
			continue
		}
		b.job(k)
	}
	b.order(stages)
	b.edges(stages)
	b.cycles()
	b.artifacts(stages)
}

// job decides about a job of the file, and each of its copies: they differ in their variables.
func (b *builder) job(k *keyword.Job) {
	copies := b.copies(k)
	kept := copies[:0]
	for _, j := range copies {
		if b.checkName(j) {
			b.p.names[j.Name] = j
			kept = append(kept, j)
		}
	}
	b.p.groups[k.Name] = kept
	added := len(b.p.Jobs)
	for _, j := range kept {
		b.decide(j)
		if j.Verdict.Added() {
			b.p.Jobs = append(b.p.Jobs, j)
		}
	}
	b.exclude(kept, len(b.p.Jobs) > added)
}

// exclude notes the copies that are not added. When none is, they are reported of as one.
func (b *builder) exclude(copies []*Job, some bool) {
	if !some && len(copies) > 1 {
		whole := *copies[0]
		whole.Name, whole.NodeIndex, whole.NodeTotal, whole.Matrix = whole.Group, 0, 1, nil
		b.p.Excluded = append(b.p.Excluded, &whole)
		return
	}
	for _, j := range copies {
		if !j.Verdict.Added() {
			b.p.Excluded = append(b.p.Excluded, j)
		}
	}
}

// decide decides whether a job is part of the pipeline, and how it runs.
func (b *builder) decide(j *Job) {
	k := j.Keywords
	if j.When == "" {
		j.When = when.OnSuccess
	}
	own, facts := j.When, &known{origin: b.origin, job: j}
	var v when.Verdict
	var err error
	if k.Rules != nil {
		v, err = when.Decide(b.decisions(k.Rules), own, facts)
	} else {
		legacy := k.Legacy
		legacy.WorkflowRules = b.d.Workflow.Rules != nil
		v, err = when.DecideLegacy(legacy, own, facts)
	}
	facts.forget()
	if err != nil {
		b.undecided(k.Rules, k.Key, fmt.Errorf("the job %q: %w", k.Name, err))
		v = when.Verdict{Rule: when.NoRule, When: when.Never}
	}
	if len(v.Notes) > 0 {
		b.notes(rulesOf(k), v.Notes)
	}
	j.Verdict, j.When = v, v.When
	j.StartIn, j.AllowFailure, j.Interruptible = k.StartIn, k.AllowFailure, k.Interruptible
	if !k.AllowFailure.Set && own == when.Manual {
		j.AllowFailure.Always = true // not so for a job that only a rule makes manual
	}
	if v.Rule == when.NoRule {
		return
	}
	if v.StartIn != "" {
		if j.StartIn, err = keyword.ParseDuration(v.StartIn); err != nil {
			b.problem(rulesOf(k), "", fmt.Sprintf("the job %q: `start_in`: %v", k.Name, err))
		}
	}
	if v.AllowFailure != nil {
		j.AllowFailure = keyword.AllowFailure{Set: true, Always: *v.AllowFailure}
	}
	if v.Interruptible != nil {
		j.Interruptible = *v.Interruptible
	}
}

// rulesOf returns the node of what decides about a job.
func rulesOf(k *keyword.Job) config.Node {
	for _, name := range []string{"rules", "only", "except"} {
		if n := k.Node.Get(name); n.Exists() {
			return n
		}
	}
	return k.Key
}

// edgeStages are the stages that make no pipeline alone.
var edgeStages = []string{".pre", ".post"}

// order puts the jobs into the order of their stages. Jobs of the first and last stage alone are no pipeline.
func (b *builder) order(stages map[string]int) {
	p := b.p
	if !slices.ContainsFunc(p.Jobs, func(j *Job) bool { return !slices.Contains(edgeStages, j.Stage) }) {
		p.none = "no job is part of it: the rules leave all of them out"
		if len(b.d.Jobs) == 0 {
			p.none = "there are no jobs"
		}
		if len(p.Jobs) > 0 {
			p.none = "only jobs of the stages .pre and .post are part of it, and those run with others only"
		}
		for _, j := range p.Jobs {
			j.why = p.none
		}
		p.Excluded = append(p.Excluded, p.Jobs...)
		p.Jobs = nil
	}
	for _, j := range p.Jobs {
		j.index = stages[j.Stage]
	}
	slices.SortStableFunc(p.Jobs, func(a, b *Job) int { return cmp.Compare(a.index, b.index) })
	for i, j := range p.Jobs {
		if i == 0 || j.Stage != p.Jobs[i-1].Stage {
			p.Stages = append(p.Stages, j.Stage)
			p.starts = append(p.starts, i)
		}
		j.index, j.StageIndex = i, len(p.Stages)-1
	}
	p.starts = append(p.starts, len(p.Jobs))
}
