// Package report shows what simulations came to: as a table, as data, and as a page that needs nothing else.
package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/fleet/simulate"
)

// Report is one load on some policies.
type Report struct {
	Jobs     int       `json:"jobs"`
	Hours    float64   `json:"hours"` // that were simulated at least
	Start    time.Time `json:"start"`
	Target   float64   `json:"wait_target,omitempty"` // of the 95th percentile, in seconds, if it was searched for; else 0
	Outcomes []Outcome `json:"policies"`
}

// Outcome is a policy, and what it did.
type Outcome struct {
	Policy     string `json:"policy"`
	Parameters string `json:"parameters"`
	*simulate.Result
}

// seconds shows a wait.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= 10*time.Minute:
		return d.Round(time.Minute).String()[:len(d.Round(time.Minute).String())-2]
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// header and row are the cells of the table.
var header = []string{"policy", "cost", "wait p50", "p95", "p99", "in use", "most machines", "created", "jobs lost", "refused", "not ended"}

func row(o Outcome) []string {
	return []string{
		o.Policy, fmt.Sprintf("%.2f", o.Cost), seconds(o.Wait.P50), seconds(o.Wait.P95), seconds(o.Wait.P99), fmt.Sprintf("%.0f%%", 100*o.Utilization),
		fmt.Sprint(o.Peak), fmt.Sprint(o.Creates), fmt.Sprint(o.Lost), fmt.Sprint(o.Refused), fmt.Sprint(o.Unfinished),
	}
}

// Summary is the load in a sentence.
func (r *Report) Summary() string {
	text := fmt.Sprintf("%s in %s from %s", jobs(r.Jobs), hours(r.Hours), r.Start.Format("Mon 2006-01-02 15:04 MST"))
	if r.Target > 0 {
		text += fmt.Sprintf("; the cheapest of each kind with a p95 wait of at most %s", seconds(r.Target))
	}
	return text
}

// notes are what makes an outcome other than it was asked for.
func (r *Report) notes(o Outcome) (all []string) {
	if r.Target > 0 && !o.Meets(time.Duration(r.Target*float64(time.Second))) {
		all = append(all, "does not meet the target; it is the best that was found")
	}
	if o.Unfinished > 0 {
		all = append(all, fmt.Sprintf("%s had not ended when the simulation stopped, %s after the last one that came or ended; waits until then count", jobs(o.Unfinished), seconds(o.Stalled)))
	}
	return all
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

func hours(h float64) string { return fmt.Sprintf("%g h", h) }

// Table writes the report as text.
func (r *Report) Table(w io.Writer) error {
	rows := [][]string{header}
	for _, o := range r.Outcomes {
		rows = append(rows, row(o))
	}
	width := make([]int, len(header))
	for _, cells := range rows {
		for i, cell := range cells {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	b.WriteString(r.Summary() + "\n\n")
	for _, cells := range rows {
		fmt.Fprintf(&b, "%-*s", width[0], cells[0])
		for i, cell := range cells[1:] {
			fmt.Fprintf(&b, "  %*s", width[i+1], cell)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, o := range r.Outcomes {
		fmt.Fprintf(&b, "%s: %s", o.Policy, o.Parameters)
		for _, note := range r.notes(o) {
			fmt.Fprintf(&b, " (%s)", note)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
