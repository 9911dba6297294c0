package keyword

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Lint says what is valid but probably a mistake, in the order of the files: what GitLab itself warns of, and what it leaves to be found
// out. Every one is a warning; those of config.Config.Warnings are not repeated. It expects a definition that Read found no mistake in,
// and does what it can with others.
func Lint(d *Definition, c *config.Config) diag.List {
	l := &linter{definition: d, config: c, seen: map[problem]bool{}}
	l.stages()
	l.workflow()
	l.legacy()
	for _, v := range d.Variables {
		l.variableName(v)
	}
	for _, j := range d.Jobs {
		l.job(j)
	}
	l.hidden()
	l.scripts()
	return inOrder(c, l.found)
}

type linter struct {
	definition *Definition
	config     *config.Config
	found      []diag.Diagnostic
	seen       map[problem]bool
}

func (l *linter) warn(rule string, n config.Node, hint, format string, args ...any) {
	l.warnAt(rule, n, n.Span(), hint, format, args...)
}

// warnAt is warn about a part of a node.
func (l *linter) warnAt(rule string, n config.Node, place diag.Span, hint, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	key := problem{place, message}
	if l.seen[key] || len(l.found) >= config.MaxProblems {
		return
	}
	l.seen[key] = true
	d := n.DiagnosticAt(place, hint, message)
	d.Code = rule
	l.found = append(l.found, d)
}

// stages warns of stages that are named twice or stay empty.
func (l *linter) stages() {
	used := map[string]bool{}
	edges := len(l.definition.Jobs) > 0
	for _, j := range l.definition.Jobs {
		used[j.Stage] = true
		edges = edges && (j.Stage == PreStage || j.Stage == PostStage)
	}
	if edges {
		l.warn(rules.NoPipeline, l.definition.Jobs[0].Key, "add a job of another stage", "all jobs are in %s or %s: GitLab makes no pipeline of them", PreStage, PostStage)
	}
	seen := map[string]bool{}
	for _, it := range l.config.Stages.Flat() {
		switch name := it.Text(); {
		case seen[name]:
			l.warn(rules.DuplicateStage, it, "delete one of them", "the stage %q is named twice", shorten(name))
		case !used[name] && name != PreStage && name != PostStage && l.isOwn(it) && !l.config.Partial && !l.config.Skipped:
			l.warn(rules.UnusedStage, it, "delete it, or give it a job", "the stage %q has no job", shorten(name))
		}
		seen[it.Text()] = true
	}
}

// isOwn reports whether a value is written in the first file: what included files have for others is not theirs to tidy.
func (l *linter) isOwn(n config.Node) bool { return n.Source() != nil && n.Source().Parent == nil }

// workflow warns of rules by which one push makes two pipelines.
func (l *linter) workflow() {
	all := l.definition.Workflow.Rules
	l.unreachable(all, "workflow")
	var forBranches *Rule
	forRequests := false
	for i := range all {
		e := all[i].If
		if e != nil && slices.Contains(e.Variables(), "CI_OPEN_MERGE_REQUESTS") {
			return
		}
		switch {
		case all[i].When == when.Never:
		case isForRequests(e):
			forRequests = true
		case e == nil || e.String() == "$CI_COMMIT_BRANCH" || e.String() == `$CI_PIPELINE_SOURCE == "push"`:
			if forBranches == nil && all[i].Changes == nil && all[i].Exists == nil {
				forBranches = &all[i]
			}
		}
	}
	if forRequests && forBranches != nil {
		l.warn(rules.DuplicatePipelines, forBranches.Node, "put `- if: $CI_COMMIT_BRANCH && $CI_OPEN_MERGE_REQUESTS` with `when: never` before it", "a push to a branch with a merge request makes two pipelines: one for the merge request, one by this rule")
	}
}

// isForRequests reports whether a condition lets pipelines for merge requests be.
func isForRequests(e *rule.Expression) bool {
	return e != nil && (e.String() == `$CI_PIPELINE_SOURCE == "merge_request_event"` || e.String() == "$CI_MERGE_REQUEST_IID" || e.String() == "$CI_MERGE_REQUEST_ID")
}

// unreachable warns of rules behind one that always applies.
func (l *linter) unreachable(all []Rule, of string) {
	for i := range all {
		if i+1 < len(all) && all[i].If == nil && all[i].Changes == nil && all[i].Exists == nil {
			l.warn(rules.UnreachableRule, all[i+1].Node, "move the rule without a condition to the end", "this rule of the %s never applies: the one before it always does", of)
			return
		}
	}
}

// legacy tells once of `only` and `except`.
func (l *linter) legacy() {
	count := 0
	var first config.Node
	for _, j := range l.definition.Jobs {
		for _, name := range []string{"only", "except"} {
			if key, v := j.Node.Entry(name); !v.IsNull() {
				count++
				if !first.Exists() {
					first = key
				}
				break
			}
		}
	}
	switch {
	case count == 1:
		l.warn(rules.DeprecatedKeyword, first, "write `rules:`", "`only` and `except` are deprecated")
	case count > 1:
		l.warn(rules.DeprecatedKeyword, first, "write `rules:`", "`only` and `except` are deprecated: %d jobs have them, this is the first", count)
	}
}

func (l *linter) variableName(v Variable) {
	if !isShellName(v.Name) {
		l.warn(rules.VariableName, v.Node, "use letters, digits and _, not starting with a digit", "no shell can read a variable called %q", shorten(v.Name))
	}
}

func isShellName(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// steps warns of what GitLab, which checks the file before any runner sees it, does not take in a step.
func (l *linter) steps(run config.Node) {
	for _, step := range run.Items() {
		for key := range step.Entries() {
			if slices.Contains(rungKeys, key.Text()) {
				l.warn(rules.UnsupportedKey, key, "it is fine for step-runner local", "GitLab refuses `%s` in a step of `run`", key.Text())
			}
		}
	}
}

// job warns of what one job says.
func (l *linter) job(j *Job) {
	for _, v := range j.Variables {
		l.variableName(v)
	}
	l.unreachable(j.Rules, "job")
	if last := len(j.Rules) - 1; last >= 0 && !l.definition.Workflow.hasRules() && !l.config.Partial {
		if w := j.Rules[last].When; w != "" && w != when.Never && j.Rules[last].Node.Len() == 1 {
			if at := (problem{place: j.Rules[last].Node.Span()}); !l.seen[at] { // once, for the first of the jobs that share the rule
				l.seen[at] = true
				l.warn(rules.DuplicatePipelines, j.Rules[last].Node, "add `workflow:` with rules, or end with `when: never`", "the job %q may run in two pipelines for one push: its last rule always applies, and there are no `workflow:rules`", shorten(j.Name))
			}
		}
	}
	l.matrixName(j)
	l.policies(j)
	l.files(j)
	if key, v := j.Node.Entry("manual_confirmation"); !v.IsNull() && j.When != when.Manual && !slices.ContainsFunc(j.Rules, func(r Rule) bool { return r.When == when.Manual }) {
		l.warn(rules.UnneededConfirmation, key, "add `when: manual`, or delete it", "no confirmation is asked for: the job is not manual")
	}
	if j.Run.Exists() {
		l.steps(j.Run)
		for _, name := range []string{"before_script", "after_script"} {
			if key, v := j.Node.Entry(name); !v.IsNull() && byDefault(key) {
				l.warn(rules.SkippedScript, j.Node.Get("run"), "turn it into a step, or set `inherit: {default: false}`", "the default `%s` does not run in a job with `run`", name)
			}
		}
	}
}

// matrixName warns of a job whose copies would have names that are too long: GitLab makes them where a value is shorter than it seems here.
func (l *linter) matrixName(j *Job) {
	if j.Parallel == nil {
		return
	}
	longest := 0
	for _, entry := range j.Parallel.Matrix {
		size := 2 * (len(entry) - 1)
		for _, v := range entry {
			most := 0
			for _, value := range v.Values {
				most = max(most, len([]rune(value)))
			}
			size += most
		}
		longest = max(longest, size)
	}
	if size := len([]rune(j.Name)) + len(": []") + longest; size > config.MaxJobName {
		l.warn(rules.LongJobName, j.Parallel.Node, "use shorter values, or variables for them", "with the values of its matrix, the name of the job is up to %d characters long, and the limit is %d", size, config.MaxJobName)
	}
}

// policies warns of entries of `only` and `except` that match nothing.
func (l *linter) policies(j *Job) {
	for _, name := range []string{"only", "except"} {
		list := j.Node.Get(name)
		if refs := list.Get("refs"); refs.Exists() {
			list = refs
		}
		for _, it := range list.Items() {
			if ref, err := when.ParseRef(it.Text()); err == nil && ref.Note() != "" {
				l.warn(rules.UnmatchedRef, it, "", "%s", ref.Note())
			}
		}
	}
}

// files warns of caches and artifacts that hold nothing, or something that is not the project's.
func (l *linter) files(j *Job) {
	for _, c := range j.Cache {
		if len(c.Paths) == 0 && !c.Untracked {
			l.warn(rules.EmptyCache, c.Node, "add `paths:`", "the cache keeps nothing: it has neither paths nor untracked")
		}
		l.outside(c.Node.Get("paths"), "cached")
	}
	if a := j.Artifacts; a != nil {
		if len(a.Paths) == 0 && !a.Untracked && len(a.Reports) == 0 && j.Pages == nil {
			l.warn(rules.EmptyArtifacts, a.Node, "add `paths:`", "the artifacts are empty: add paths, untracked or reports")
		}
		l.outside(a.Node.Get("paths"), "kept")
	}
	if j.Needs != nil {
		return
	}
	stage := slices.Index(l.definition.Stages, j.Stage)
	for _, it := range j.Node.Get("dependencies").Items() {
		job := l.config.Job(it.Text())
		if job == nil {
			continue
		}
		of := job.Body.Get("stage").Text()
		if of == "" {
			of = DefaultStage
		}
		switch {
		case slices.Index(l.definition.Stages, of) == stage:
			l.warn(rules.DependencyOrder, it, "add `needs:`, or move one of them to another stage", "the job %q is in the same stage, and has not ended when this one begins", shorten(it.Text()))
		case job.Body.Get("artifacts").IsNull() && job.Body.Get("trigger").IsNull():
			l.warn(rules.EmptyDependency, it, "delete it, or give that job artifacts", "the job %q has no artifacts", shorten(it.Text()))
		}
	}
}

// outside warns of paths that are not in the project.
func (l *linter) outside(paths config.Node, verb string) {
	for _, it := range paths.Items() {
		text := it.Text()
		if strings.HasPrefix(text, "/") || text == ".." || strings.HasPrefix(text, "../") {
			l.warn(rules.OutsideProject, it, "copy the files into the project first", "%s is not in the project, and only files in it are %s", shorten(text), verb)
		}
	}
}

// block is where a hidden job of the first file is written.
type block struct {
	key      config.Node
	from, to int // lines; to is the one behind it
	used     bool
}

// hidden warns of hidden jobs that nothing uses. What extends, references, anchors or merges a part of one has values that are written
// in it; so the places of all values tell which are used.
func (l *linter) hidden() {
	var blocks []*block
	file := ""
	var keys []config.Node
	for key := range l.config.Root.Entries() {
		if l.isOwn(key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b config.Node) int { return a.Span().Line - b.Span().Line })
	for i, key := range keys {
		if !strings.HasPrefix(key.Text(), ".") {
			continue
		}
		file = key.Span().File
		b := &block{key: key, from: key.Span().Line, to: 1 << 30}
		if i+1 < len(keys) {
			b.to = keys[i+1].Span().Line
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 || l.config.Partial || l.config.Skipped {
		return
	}
	byName := make(map[string]*block, len(blocks))
	for _, b := range blocks {
		byName[b.key.Text()] = b
	}
	var within *block // the hidden job whose value is walked: what it says itself is no use of it
	use := func(line int) {
		at, found := slices.BinarySearchFunc(blocks, line, func(b *block, line int) int {
			switch {
			case line < b.from:
				return 1
			case line >= b.to:
				return -1
			}
			return 0
		})
		if found && blocks[at] != within {
			blocks[at].used = true
		}
	}
	extended := map[string]bool{}
	var walk func(n config.Node)
	walk = func(n config.Node) {
		if s := n.Span(); s.File == file && s.Line > 0 {
			use(s.Line)
		}
		for _, it := range n.Items() {
			walk(it)
		}
		for key, it := range n.Entries() {
			if s := key.Span(); s.File == file && s.Line > 0 { // the value may be from elsewhere
				use(s.Line)
			}
			walk(it)
		}
	}
	for key, v := range l.config.Root.Entries() { // hidden jobs use each other too
		within = byName[key.Text()]
		walk(v)
		for _, it := range v.Get("extends").Flat() {
			extended[it.Text()] = true
		}
	}
	for _, b := range blocks {
		if !b.used && !extended[b.key.Text()] {
			l.warn(rules.UnusedJob, b.key, "delete it, or extend it", "nothing uses the hidden job %q", shorten(b.key.Text()))
		}
	}
}
