// Package gitlabsteps compiles GitLab's step definitions to the baseline definition: step.yml and func.yml files, the steps
// of a job, and references to components in short form.
//
// Both of GitLab's vocabularies are read (step and func), and the older spelling of the founding design (type, steps). They
// compile to the same plan. Reading is strict: every unknown key, wrong type, impossible value and broken expression of a
// file is reported at once, each with its place. The package runs nothing, and reads no files but the text it is given.
//
// docs/steps.md describes the syntax.
package gitlabsteps

import (
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
)

// ParseFile compiles a step file, which has two documents: the spec and the definition. name is what diagnostics call the
// file. The error is a diag.List of all that is wrong with it.
func ParseFile(name string, data []byte) (*plan.Component, error) {
	return parse(name, data, (*parser).file)
}

// ParseSteps compiles the steps of a job: a list of steps; or one document with `run` and what else a definition may have;
// or two documents, as a file has. A job without a spec may have any outputs. The error is a diag.List.
func ParseSteps(name string, data []byte) (*plan.Component, error) {
	return parse(name, data, (*parser).job)
}

func parse(name string, data []byte, read func(*parser) *plan.Component) (*plan.Component, error) {
	source, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, err
	}
	component := read(newParser(&reader{source: source, called: name}, source.Documents))
	if err := source.Err(); err != nil {
		return nil, err
	}
	return component, nil
}

// Text is what a tree of nodes was made from: it knows the places of it, and collects what is wrong with it.
type Text interface {
	// Report adds a problem at a place.
	Report(place diag.Span, hint, format string, args ...any)
	// At returns the place of length characters of a scalar's text, from the one at offset on.
	At(n *yamlsource.Node, offset, length int) diag.Span
	// Lines are the places of the lines of a scalar's text.
	Lines(n *yamlsource.Node) []diag.SourceLine
	// Full reports whether there are more problems than anybody will read.
	Full() bool
	// Err returns what was reported, nil when nothing was.
	Err() error
}

// ParseNode compiles the steps of a job that are in a larger text, such as those of `run:` in a .gitlab-ci.yml. name is what
// diagnostics call that text when they mean all of it. The error is that of the text.
func ParseNode(name string, steps *yamlsource.Node, text Text) (*plan.Component, error) {
	component := newParser(&reader{source: text, called: name}, []*yamlsource.Node{steps}).job()
	if err := text.Err(); err != nil {
		return nil, err
	}
	return component, nil
}

// parser compiles one text.
type parser struct {
	*reader
	docs  []*yamlsource.Node
	specs specReader
	steps stepReader
}

func newParser(r *reader, docs []*yamlsource.Node) *parser {
	steps := stepReader{reader: r, controls: controlReader{r}, references: referenceReader{r}, processes: processReader{r}}
	return &parser{reader: r, docs: docs, specs: specReader{r}, steps: steps}
}

func (p *parser) file() *plan.Component {
	docs := p.docs
	switch len(docs) {
	case 0:
		p.report(p.start(), "begin with `spec: {}`, then `---`, then `run:` or `exec:`", "a step file has two documents, and this one is empty")
		return nil
	case 1:
		p.oneDocument(docs[0])
		return nil
	}
	if looksLikeDefinition(docs[0]) && !looksLikeDefinition(docs[1]) {
		p.report(docs[0].Span, "put `spec:` first, then `---`, then `run:` or `exec:`", "the spec must come before the definition")
		return nil
	}
	for _, extra := range docs[2:] {
		p.report(extra.Span, "delete it, or move it to a file of its own", "a step file has two documents, and this one begins another")
	}
	c := &plan.Component{Spec: p.specs.spec(docs[0])}
	c.Definition = p.steps.definition(docs[1])
	p.checkOutputs(c, docs[0], docs[1])
	return c
}

// oneDocument says which document of a step file is missing, and what is wrong with the other.
func (p *parser) oneDocument(doc *yamlsource.Node) {
	if looksLikeDefinition(doc) {
		p.report(doc.Span, "begin the file with `spec: {}` and a line `---`", "the spec is missing: a step file has two documents")
		p.steps.definition(doc)
		return
	}
	p.report(doc.Span, "add a line `---`, then `run:` or `exec:`", "the definition is missing: a step file has two documents")
	p.specs.spec(doc)
}

func looksLikeDefinition(doc *yamlsource.Node) bool {
	for _, key := range []string{"run", "exec", "steps"} {
		if doc.Get(key) != nil {
			return true
		}
	}
	return false
}

func (p *parser) job() *plan.Component {
	docs := p.docs
	c := &plan.Component{Spec: plan.Spec{AnyOutputs: true}}
	switch {
	case len(docs) == 0:
		p.report(p.start(), "begin each step with `- `", "there are no steps")
	case len(docs) > 1:
		return p.file()
	case docs[0].Kind == yamlsource.Sequence:
		c.Definition.Span = docs[0].Span
		c.Definition.Steps = p.steps.list(docs[0])
	case docs[0].Kind != yamlsource.Mapping:
		p.report(docs[0].Span, "begin each step with `- `", "steps are a list, not %s", docs[0].Kind)
	case isStep(docs[0]):
		p.report(docs[0].Span, "begin the step with `- `", "steps are a list, not a single step")
	default:
		c.Definition = p.steps.definition(docs[0])
		if c.Definition.Exec == nil {
			p.steps.checkDelegate(&c.Definition, docs[0])
		}
	}
	return c
}

// isStep reports whether a mapping is one step rather than a definition.
func isStep(n *yamlsource.Node) bool {
	for _, key := range []string{"name", "step", "func", "script", "action", "parallel", "wait", "cancel"} {
		if n.Get(key) != nil {
			return true
		}
	}
	return false
}

// shorten returns the first line of a text, cut to a length that a message can hold.
func shorten(text string) string { return yamlsource.Shorten(text) }

// nameHint is for what is not a string where a name should be.
func nameHint(n *yamlsource.Node) string {
	if n.Kind == yamlsource.Boolean {
		return quoteHint(n)
	}
	return ""
}
