package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/fleet/simulate"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Size of a plot, in the units of its drawing.
const (
	plotWidth  = 900.0
	plotHeight = 180.0
)

// plot is what a policy did over time.
type plot struct {
	Outcome
	Notes  []string
	Lines  []line
	Days   []mark // where days begin
	Levels []mark
}

type line struct {
	Name, Class string
	Points      string
}

type mark struct {
	At   float64
	Text string
}

// Page writes the report as one page of HTML, with its drawings in it.
func (r *Report) Page(w io.Writer) error {
	most, last := 1.0, 1.0
	for _, o := range r.Outcomes {
		for _, p := range o.Series {
			most = max(most, float64(p.Machines), float64(p.Busy), float64(p.Waiting))
			last = max(last, p.Seconds)
		}
	}
	var plots []plot
	for _, o := range r.Outcomes {
		p := plot{Outcome: o, Notes: r.notes(o), Lines: []line{
			{"machines", "machines", points(o.Series, last, most, func(p simulate.Point) int { return p.Machines })},
			{"jobs that run", "busy", points(o.Series, last, most, func(p simulate.Point) int { return p.Busy })},
			{"jobs that wait", "waiting", points(o.Series, last, most, func(p simulate.Point) int { return p.Waiting })},
		}}
		for _, share := range []float64{0, 0.5, 1} {
			p.Levels = append(p.Levels, mark{plotHeight * (1 - share), fmt.Sprintf("%.3g", most*share)})
		}
		p.Days = r.days(last)
		plots = append(plots, p)
	}
	var rows [][]string
	for _, o := range r.Outcomes {
		rows = append(rows, row(o))
	}
	return page.Execute(w, map[string]any{"Report": r, "Plots": plots, "Header": header, "Rows": rows, "Width": plotWidth, "Height": plotHeight})
}

// days are the midnights of a plot, at most about ten.
func (r *Report) days(last float64) (all []mark) {
	step := 24 * time.Hour * time.Duration(1+int(last/(24*3600))/10)
	for at := r.Start.Truncate(24 * time.Hour); at.Sub(r.Start).Seconds() <= last; at = at.Add(step) {
		if !at.Before(r.Start) {
			all = append(all, mark{at.Sub(r.Start).Seconds() / last * plotWidth, at.Format("Mon 2 Jan")})
		}
	}
	return all
}

// points is a line through a series, in steps.
func points(series []simulate.Point, last, most float64, of func(simulate.Point) int) string {
	var b strings.Builder
	before := 0.0
	for i, p := range series {
		x, y := p.Seconds/last*plotWidth, plotHeight*(1-float64(of(p))/most)
		if i > 0 && y != before {
			fmt.Fprintf(&b, "%.1f,%.1f ", x, before)
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
		before = y
	}
	return strings.TrimSpace(b.String())
}
