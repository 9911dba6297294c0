package local

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/local/github"
)

// workflowOutput is what --list --json prints of a workflow.
type workflowOutput struct {
	Name   string       `json:"name"`
	File   string       `json:"file"`
	Starts bool         `json:"starts"`
	Why    string       `json:"why,omitempty"` // why the event starts it, or not
	Jobs   []github.Row `json:"jobs"`
}

// printWorkflow prints the jobs of a workflow as a table, or as JSON.
func (o *localFlags) printWorkflow(p *github.Project, chosen *github.Selection) error {
	rows := p.List(chosen)
	if o.asJSON {
		return o.writeList(workflowOutput{Name: p.Title, File: p.File, Starts: p.Starts, Why: p.Why, Jobs: rows})
	}
	w := bufio.NewWriter(o.app.Stdout)
	title := oneLine(p.Title)
	if o.named && p.File != p.Title {
		title = p.File + ": " + title
	}
	fmt.Fprintf(w, "%s\n\n", cleantext.Line(title))
	if !p.Starts {
		fmt.Fprintf(w, "GitHub would not run it: %s\n\n", cleantext.Line(p.Why))
	}
	table(w, []string{"JOB", "NEEDS", "MATRIX", "RUNS-ON", "RUNS", "WHY"}, len(rows), func(i int) []string {
		r := &rows[i]
		runs := "no"
		if r.Runs {
			runs = "yes"
		}
		return []string{r.ID, strings.Join(r.Needs, ", "), r.LegsText(), strings.Join(r.RunsOn, "; "), runs, oneLine(r.Why)}
	})
	return w.Flush()
}

// printWorkflowPlan shows what would run, with the steps of each leg.
func (o *localFlags) printWorkflowPlan(ctx context.Context, p *github.Project, chosen *github.Selection) error {
	legs, err := p.Plan(ctx, chosen, o.realCheckout)
	if err != nil {
		return err
	}
	var out []planOutput
	for _, l := range legs {
		entry := planOutput{Job: l.Name, When: l.Why, Notes: l.Notes()}
		if !l.Runs {
			entry.When = "skipped: " + l.Why
		}
		for _, s := range l.Steps() {
			s.Name = cmp.Or(s.Title, s.Name)
			entry.Steps = append(entry.Steps, stepText(s))
		}
		if l.Calls != "" {
			entry.Steps = []string{"the workflow " + l.Calls}
		}
		out = append(out, entry)
	}
	if o.asJSON {
		return command.WriteJSON(o.app.Stdout, out)
	}
	w := bufio.NewWriter(o.app.Stdout)
	for _, e := range out {
		fmt.Fprint(w, cleantext.Line(e.Job))
		if e.When != "" {
			fmt.Fprintf(w, "  (%s)", oneLine(e.When))
		}
		fmt.Fprintln(w)
		for _, s := range e.Steps {
			fmt.Fprintf(w, "  %s\n", cleantext.Line(s))
		}
		for _, n := range e.Notes {
			fmt.Fprintf(w, "  note: %s\n", cleantext.Line(n))
		}
	}
	return w.Flush()
}
