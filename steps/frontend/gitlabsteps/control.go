package gitlabsteps

import (
	"strings"
	"time"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// Limits of what controls a step.
const (
	// MaxRetries is how often a step may be tried again.
	MaxRetries = 100
	// MaxParallel is the largest max_parallel.
	MaxParallel = 1000
	// MaxDuration is the longest timeout or delay.
	MaxDuration = 30 * 24 * time.Hour
	// maxExitCode is the largest exit code that a process can have, on Windows.
	maxExitCode = 1<<32 - 1
)

// controlReader reads the keys that decide whether a step runs, how often and for how long.
type controlReader struct{ *reader }

// controlKey reads a key that says when and how often a step runs.
func (p controlReader) controlKey(s *plan.Step, e yamlsource.Entry) {
	switch e.Key.Text {
	case "if":
		s.If = p.condition(e.Value, `"if"`)
	case "when":
		s.When = plan.When(p.word(e.Value, `"when"`, string(plan.OnSuccess), string(plan.OnFailure), string(plan.Always)))
	case "timeout":
		s.Timeout = p.duration(e.Value, "the timeout", false)
	case "time_limit":
		s.TimeLimit = p.minutes(e.Value)
	case "background":
		s.Background = p.boolean(e.Value, `"background"`)
	case "retry":
		s.Retry = p.retry(e.Value)
	case "allow_failure":
		s.AllowFailure = p.allowFailure(e.Value)
	}
}

// condition reads true, false, or an expression with or without ${{ }} around it.
func (p *reader) condition(n *yamlsource.Node, what string) *plan.Field {
	switch n.Kind {
	case yamlsource.Boolean:
	case yamlsource.String:
		if strings.TrimSpace(n.Text) == "" {
			p.report(n.Span, "write a condition, or delete the key", "%s is empty", what)
			break
		}
		_, err := expr.ParseCondition(n.Text)
		p.expressionError(n, err)
	default:
		p.report(n.Span, "", "%s must be a boolean or an expression, not %s", what, n.Kind)
	}
	return &plan.Field{Value: n.Value(), Span: n.Span}
}

// retry reads how often to try again, alone or with a delay and exit codes. No retries are no plan.Retry.
func (p controlReader) retry(n *yamlsource.Node) *plan.Retry {
	if n.Kind == yamlsource.Number {
		if times, ok := p.integer(n, `"retry"`, 0, MaxRetries); ok && times > 0 {
			return &plan.Retry{Max: times}
		}
		return nil
	}
	if n.Kind != yamlsource.Mapping {
		p.report(n.Span, "write `retry: 2`, or a map with max, delay and exit_codes", `"retry" must be a number or a map, not %s`, n.Kind)
		return nil
	}
	p.object(n, `"retry"`, mapKeys["retry"]...)
	r := &plan.Retry{}
	limit := n.Get("max")
	if limit == nil {
		p.report(n.Span, "write how often to try again", `"retry" has no max`)
		return nil
	}
	r.Max, _ = p.integer(limit, `"max"`, 0, MaxRetries)
	if delay := n.Get("delay"); delay != nil {
		r.Delay = p.duration(delay, "the delay", true)
	}
	if codes := n.Get("exit_codes"); codes != nil {
		r.ExitCodes = p.exitCodes(codes)
	}
	if r.Max == 0 {
		return nil
	}
	return r
}

func (p controlReader) allowFailure(n *yamlsource.Node) *plan.AllowFailure {
	switch n.Kind {
	case yamlsource.Boolean:
		if n.Value().Bool() {
			return &plan.AllowFailure{}
		}
		return nil
	case yamlsource.Mapping:
		p.object(n, `"allow_failure"`, mapKeys["allowFailure"]...)
		allow := &plan.AllowFailure{}
		codes, condition := n.Get("exit_codes"), n.Get("if")
		if codes == nil && condition == nil {
			p.report(n.Span, "write true to allow every failure", `"allow_failure" has no exit_codes`)
			return nil
		}
		if codes != nil {
			allow.ExitCodes = p.exitCodes(codes)
		}
		if condition != nil {
			allow.If = p.condition(condition, `"if" of "allow_failure"`)
		}
		return allow
	default:
		p.report(n.Span, "write `true`, or `{exit_codes: [1, 2]}`", `"allow_failure" must be a boolean or a map, not %s`, n.Kind)
		return nil
	}
}

// minutes reads a time limit: a number of minutes, or an expression that gives one.
func (p controlReader) minutes(n *yamlsource.Node) *plan.Field {
	switch {
	case n.Kind == yamlsource.Number:
		if minutes := n.Value().Float(); minutes <= 0 || minutes > MaxDuration.Minutes() {
			p.report(n.Span, "", "the time limit must be more than 0 and at most %d minutes", int(MaxDuration.Minutes()))
		}
	case n.Kind != yamlsource.String || !expr.Has(n.Text):
		p.report(n.Span, "write a duration as `timeout`", "the time limit must be a number of minutes or an expression that gives one")
	}
	field := p.template(n)
	return &field
}

// await reads the names of the background steps that a step waits for, or cancels.
func (p controlReader) await(e yamlsource.Entry) *plan.Await {
	a := &plan.Await{Cancel: e.Key.Text == "cancel"}
	names := []*yamlsource.Node{e.Value}
	switch {
	case e.Value.Kind == yamlsource.String && e.Value.Text == "all":
		return a
	case e.Value.Kind == yamlsource.Sequence:
		names = e.Value.Items
	}
	if len(names) == 0 {
		p.report(e.Value.Span, "write `all`, or name background steps", "%q must name a step", e.Key.Text)
	}
	for _, n := range names {
		if p.name(n, "a step") {
			a.Steps = append(a.Steps, n.Text)
		}
	}
	return a
}

// exitCodes reads one exit code or a list of them. 0 is not among them: it is not a failure.
func (p controlReader) exitCodes(n *yamlsource.Node) []int {
	if n.Kind != yamlsource.Sequence {
		if code, ok := p.integer(n, "an exit code of a failure", 1, maxExitCode); ok {
			return []int{code}
		}
		return nil
	}
	if len(n.Items) == 0 {
		p.report(n.Span, "list the exit codes, or delete the key to mean them all", `"exit_codes" is empty`)
	}
	var codes []int
	for _, item := range n.Items {
		if code, ok := p.integer(item, "an exit code of a failure", 1, maxExitCode); ok {
			codes = append(codes, code)
		}
	}
	return codes
}

// duration reads a number of seconds or a phrase. Only a delay may be zero.
func (p *reader) duration(n *yamlsource.Node, what string, zero bool) plan.Duration {
	var d time.Duration
	ok := false
	switch n.Kind {
	case yamlsource.Number:
		if f := n.Value().Float(); f <= MaxDuration.Seconds() && f >= 0 {
			d, ok = time.Duration(f*float64(time.Second)), true
		} else {
			p.report(n.Span, "", "%s must be between 0 and %d seconds", what, int(MaxDuration.Seconds()))
			return 0
		}
	case yamlsource.String:
		d, ok = parseDuration(n.Text)
	}
	switch {
	case !ok && expr.Has(n.Text):
		p.report(n.Span, "write it out", "%s cannot be an expression", what)
	case !ok:
		p.report(n.Span, "write it like 90, 1m30s, \"90 seconds\" or \"1h 30m\"", "%s is not a duration", what)
	case d < 0 || d == 0 && !zero:
		p.report(n.Span, "", "%s must be more than 0", what)
	case d > MaxDuration:
		p.report(n.Span, "", "%s is longer than 30 days, which is the limit", what)
	default:
		return plan.Duration(d)
	}
	return 0
}
