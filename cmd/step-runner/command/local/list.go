package local

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/plan"
)

// listOutput is what --list --json prints.
type listOutput struct {
	Name   string       `json:"name,omitempty"`
	Source string       `json:"source"`
	Ref    string       `json:"ref"`
	Stages []string     `json:"stages"`
	Reason string       `json:"reason,omitempty"` // why there are no jobs
	Jobs   []gitlab.Row `json:"jobs"`

	Variables    []gitlab.Choice      `json:"variables,omitempty"`
	IncludeRules []gitlab.IncludeRule `json:"include_rules,omitempty"`
}

// printList prints the jobs as a table, or as JSON.
func (o *localFlags) printList(p *gitlab.Project, jobs []*pipeline.Job, all bool) error {
	rows := p.List(jobs, all)
	if o.asJSON {
		return o.writeList(listOutput{
			Name: p.Pipeline.Name, Source: p.Facts.Pipeline.Source, Ref: p.Facts.Pipeline.Ref, Stages: append([]string{}, p.Pipeline.Stages...),
			Reason: p.Pipeline.Reason(), Jobs: rows, Variables: p.Choices(), IncludeRules: p.IncludeRules(),
		})
	}
	w := bufio.NewWriter(o.app.Stdout)
	if p.Pipeline.Name != "" {
		fmt.Fprintf(w, "%s\n\n", oneLine(p.Pipeline.Name))
	}
	if reason := p.Pipeline.Reason(); reason != "" {
		fmt.Fprintf(w, "there is nothing to run: %s\n", cleantext.Line(reason))
	}
	if len(rows) > 0 {
		table(w, []string{"JOB", "STAGE", "WHEN", "NEEDS", "WHY"}, len(rows), func(i int) []string {
			r := &rows[i]
			when := r.When
			switch {
			case r.Excluded:
				when = "-"
			case r.AllowFailure:
				when += ", may fail"
			}
			return []string{r.Name, r.Stage, when, r.NeedsText(), r.Why}
		})
	}
	if n := len(p.Pipeline.Excluded); n > 0 && !all && len(jobs) == len(p.Pipeline.Jobs) {
		fmt.Fprintf(w, "\n%s not in this pipeline; --all shows why\n", isOrAre(n))
	}
	if o.Verbose > 0 {
		printChoices(w, p.Choices())
		printIncludeRules(w, p.IncludeRules())
	}
	return w.Flush()
}

// writeList prints the list of a file as JSON. Of one of several files it is kept for the array of all.
func (o *localFlags) writeList(list any) error {
	if o.named {
		o.lists = append(o.lists, list)
		return nil
	}
	return command.WriteJSON(o.app.Stdout, list)
}

// printChoices prints the variables that the file describes.
func printChoices(w *bufio.Writer, choices []gitlab.Choice) {
	if len(choices) == 0 {
		return
	}
	w.WriteByte('\n')
	table(w, []string{"VARIABLE", "VALUE", "OPTIONS", "DESCRIPTION"}, len(choices), func(i int) []string {
		c := &choices[i]
		return []string{c.Name, oneLine(c.Value), oneLine(strings.Join(c.Options, ", ")), oneLine(c.Description)}
	})
}

// printIncludeRules prints why includes with rules are in or out.
func printIncludeRules(w *bufio.Writer, rules []gitlab.IncludeRule) {
	if len(rules) == 0 {
		return
	}
	w.WriteByte('\n')
	table(w, []string{"RULE OF AN INCLUDE", "HOLDS", "WHY"}, len(rules), func(i int) []string {
		holds := "no"
		if rules[i].Holds {
			holds = "yes"
		}
		return []string{rules[i].Place, holds, oneLine(rules[i].Why)}
	})
}

// oneLine makes a text one line.
func oneLine(text string) string { return cleantext.Line(strings.Join(strings.Fields(text), " ")) }

func isOrAre(n int) string {
	if n == 1 {
		return "1 job is"
	}
	return fmt.Sprintf("%d jobs are", n)
}

// maxColumn bounds all columns but the last, in characters.
const maxColumn = 60

// table prints rows in columns. It asks for every row twice, and keeps none.
func table(w *bufio.Writer, head []string, n int, row func(int) []string) {
	widths := make([]int, len(head))
	measure := func(cells []string) {
		for i, c := range cells {
			c = cleantext.Line(c)
			widths[i] = max(widths[i], min(utf8.RuneCountInString(c), maxColumn))
		}
	}
	measure(head)
	for i := range n {
		measure(row(i))
	}
	print := func(cells []string) {
		last := len(cells) - 1
		for last > 0 && cells[last] == "" {
			last--
		}
		for i, c := range cells[:last+1] {
			c = cleantext.Line(c)
			w.WriteString(c)
			if i < last {
				w.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c))+2))
			}
		}
		w.WriteByte('\n')
	}
	print(head)
	for i := range n {
		print(row(i))
	}
}

// planOutput is a job of --dry-run --json.
type planOutput struct {
	Job   string   `json:"job"`
	Stage string   `json:"stage"`
	When  string   `json:"when"`
	Steps []string `json:"steps"`
	Notes []string `json:"notes,omitempty"`
}

// printPlan shows what would run, in order, with the steps of each job.
func (o *localFlags) printPlan(ctx context.Context, p *gitlab.Project, jobs []*pipeline.Job) error {
	secrets, err := values.ReadSecrets(o.secrets, o.app.LookupEnv)
	if err != nil {
		return err
	}
	var out []planOutput
	var wrong diag.List // shown after the plan, which other jobs have
	for _, j := range jobs {
		entry := planOutput{Job: j.Name, Stage: j.Stage, When: string(j.When)}
		if j.Keywords.Trigger != nil {
			entry.Steps = []string{"another pipeline"}
		} else {
			component, notes, err := project.CompileJob(ctx, p, j, secrets, jobs...)
			switch found := diag.Of(err); {
			case found != nil:
				wrong = append(wrong, found...)
				notes = []string{"it has mistakes, and would fail"}
			case err != nil:
				return err
			default:
				for _, s := range component.Definition.Steps {
					entry.Steps = append(entry.Steps, stepText(s))
				}
			}
			entry.Notes = notes
		}
		out = append(out, entry)
	}
	if o.asJSON {
		return cmp.Or(command.WriteJSON(o.app.Stdout, out), wrong.Err())
	}
	w := bufio.NewWriter(o.app.Stdout)
	stage := ""
	for _, e := range out {
		if e.Stage != stage {
			stage = e.Stage
			fmt.Fprintf(w, "stage %s\n", cleantext.Line(stage))
		}
		fmt.Fprintf(w, "  %s  (%s)\n", cleantext.Line(e.Job), e.When)
		for _, s := range e.Steps {
			fmt.Fprintf(w, "    %s\n", cleantext.Line(s))
		}
		for _, n := range e.Notes {
			fmt.Fprintf(w, "    note: %s\n", cleantext.Line(n))
		}
	}
	return cmp.Or(w.Flush(), wrong.Err())
}

// stepText is a step in one line.
func stepText(s plan.Step) string {
	text := s.Name
	if s.Ref != nil {
		text += "  " + s.Ref.Text
	}
	if s.If != nil {
		text += "  if " + s.If.Value.Text()
	}
	if s.When == plan.Always {
		text += "  always"
	}
	return text
}
