// Package when decides whether a job, a pipeline or an included file is part of what runs, and how: by `rules`, or by the older
// `only` and `except`. It decides from facts that it is given, does nothing else, and can say why.
package when

import (
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// When is what `when:` says: the moment at which a job runs.
type When string

// What `when:` can say.
const (
	OnSuccess When = "on_success"
	OnFailure When = "on_failure"
	Always    When = "always"
	Manual    When = "manual"
	Delayed   When = "delayed"
	Never     When = "never"
)

// Kind is what a pipeline runs for.
type Kind string

// The kinds of pipelines.
const (
	Branch       Kind = "branch"
	Tag          Kind = "tag"
	MergeRequest Kind = "merge request"
)

// Pipeline is what `only` and `except` ask of a pipeline.
type Pipeline struct {
	Kind Kind
	// Ref is the name of the branch or tag.
	Ref string
	// Source is what started the pipeline, as in CI_PIPELINE_SOURCE: push, web, schedule, merge_request_event …
	Source string
	// Project is the full path of the project.
	Project string
	// Kubernetes says that the project has an active cluster.
	Kubernetes bool
}

// Answer is what facts say of files.
type Answer struct {
	Yes bool
	// Why says it for people, such as "docs/index.md was changed"; it may be empty.
	Why string
}

// Facts are what is known about a pipeline.
type Facts interface {
	// Lookup returns the value of a variable as it is written: GitLab does not expand the variables of `if`.
	Lookup(name string) (value string, ok bool)
	// IsMasked reports whether the value of a variable must not be shown.
	IsMasked(name string) bool
	// Changed says whether files were changed that a pattern matches. GitLab says yes when there is nothing to compare with,
	// such as in a pipeline for a tag or a schedule. Variables in patterns are not expanded yet: see variable.ExpandKnown.
	Changed(Changes) (Answer, error)
	// Exists says whether files exist that a pattern matches. Variables in patterns are not expanded yet.
	Exists(Exists) (Answer, error)
	// Pipeline returns what `only` and `except` are about.
	Pipeline() Pipeline
}

// Changes is what `changes:` asks for.
type Changes struct {
	// Paths are patterns.
	Paths []string
	// Regexp stands instead of them: see CompilePaths.
	Regexp string
	// CompareTo is a ref to compare with; empty for what the pipeline itself compares with.
	CompareTo string
}

// Exists is what `exists:` asks for.
type Exists struct {
	// Paths are patterns. One that ends with a slash stands for a folder.
	Paths []string
	// Regexp stands instead of them: see CompilePaths.
	Regexp string
	// Project and Ref say where to look; both may be empty.
	Project, Ref string
}

// Rule is one of `rules`. All of its conditions must hold; without one it always applies.
type Rule struct {
	If      *rule.Expression
	Changes *Changes
	Exists  *Exists

	// When is empty for the job's own.
	When    When
	StartIn string
	// AllowFailure and Interruptible are nil for the job's own.
	AllowFailure  *bool
	Interruptible *bool
	Variables     []variable.Variable
}

// NoRule is the index of no rule.
const NoRule = -1

// Verdict is a decision.
type Verdict struct {
	// Rule is the index of the rule that applied, for what else it says, such as its needs; NoRule when none did, or when
	// rules did not decide.
	Rule int
	// When is Never for what is not added.
	When When
	// StartIn, AllowFailure, Interruptible and Variables are those of the rule; they are empty when it says nothing of them.
	StartIn       string
	AllowFailure  *bool
	Interruptible *bool
	Variables     []variable.Variable
	// Notes say what in the conditions is probably not meant.
	Notes []string

	reason func() string
	why    func() string // of a single rule, without its number
}

// Added reports whether what was decided about is part of what runs.
func (v Verdict) Added() bool { return v.When != Never }

// Why says why a single rule applies or does not, for people; "" where there are more rules, or none.
func (v Verdict) Why() string {
	if v.why == nil {
		return ""
	}
	return v.why()
}

// Reason says why, for people: one line. It is made when it is asked for.
func (v Verdict) Reason() string {
	if v.reason == nil {
		return ""
	}
	return v.reason()
}
