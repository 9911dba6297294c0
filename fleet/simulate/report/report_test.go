package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/fleet/simulate/report"
)

func example() *report.Report {
	result := func(cost float64) *simulate.Result {
		return &simulate.Result{
			Jobs: 10, Cost: cost, Wait: simulate.Wait{P50: 0, P95: 29.96, P99: 754}, Utilization: 0.254, Creates: 12, Peak: 7, Lost: 1, Refused: 2,
			Pools:  []simulate.Cost{{Pool: "linux <b>", Hours: 3, Cost: cost}},
			Series: []simulate.Point{{Seconds: 0, Machines: 1}, {Seconds: 86400, Machines: 7, Busy: 3, Waiting: 4}},
		}
	}
	return &report.Report{Jobs: 10, Hours: 24, Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Target: 30, Outcomes: []report.Outcome{
		{Policy: "existing", Parameters: "idle_count=3", Result: result(1234.5)}, {Policy: "adaptive", Parameters: "worth=0.02", Result: late(result(7))},
	}}
}

func late(r *simulate.Result) *simulate.Result {
	r.Wait.P95 = 31
	return r
}

func TestTheTableIsAligned(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := example().Table(&out); err != nil {
		t.Fatal(err)
	}
	want := `10 jobs in 24 h from Mon 2026-03-02 00:00 UTC; the cheapest of each kind with a p95 wait of at most 30s

policy       cost  wait p50  p95  p99  in use  most machines  created  jobs lost  refused  not ended
existing  1234.50        0s  30s  13m     25%              7       12          1        2          0
adaptive     7.00        0s  31s  13m     25%              7       12          1        2          0

existing: idle_count=3
adaptive: worth=0.02 (does not meet the target; it is the best that was found)
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}

func TestJobsThatNeverEndedAreSaid(t *testing.T) {
	t.Parallel()
	r := example()
	r.Jobs, r.Outcomes = 1, r.Outcomes[:1]
	r.Outcomes[0].Unfinished, r.Outcomes[0].Stalled = 1, 90000
	var table, page bytes.Buffer
	if err := errors.Join(r.Table(&table), r.Page(&page)); err != nil {
		t.Fatal(err)
	}
	const note = "1 job had not ended when the simulation stopped, 25h0m after the last one that came or ended; waits until then count"
	for _, want := range []string{"1 job in 24 h", "         1\n", "existing: idle_count=3 (does not meet the target; it is the best that was found) (" + note + ")\n"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("there is no %q in\n%s", want, table.String())
		}
	}
	if !strings.Contains(page.String(), "<p>"+note+".</p>") {
		t.Errorf("the page does not say so")
	}
}

func TestThePageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := example().Page(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, outside := range []string{"http:", "https:", "<script", "src=", "href=", "@import", "url("} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	for _, want := range []string{"1234.50", "idle_count=3", "linux &lt;b&gt;", `points="0.0,154.3 900.0,154.3 900.0,0.0"`, "Tue 3 Mar"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page, "<polyline"); n != 6 {
		t.Errorf("%d lines, want 3 for each policy", n)
	}
	svg := page[strings.Index(page, "<svg"):]
	decoder := xml.NewDecoder(strings.NewReader(svg[:strings.Index(svg, "</svg>")+len("</svg>")]))
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
