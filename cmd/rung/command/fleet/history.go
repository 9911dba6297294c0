package fleet

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/fleet/store"
)

// during is a time of the history.
type during struct {
	since, until string
	from, to     time.Time
}

func (d *during) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.since, "since", "", "from `TIME` on: 2026-03-02, 2026-03-02T15:04:05Z, or how long ago, as 36h (default: all there is)")
	cmd.Flags().StringVar(&d.until, "until", "", "up to `TIME` (default: now)")
}

// parse reads the flags.
func (d *during) parse(now time.Time) error {
	d.to = now
	for _, f := range []struct {
		name, text string
		to         *time.Time
	}{{"--since", d.since, &d.from}, {"--until", d.until, &d.to}} {
		if f.text == "" {
			continue
		}
		at, err := timeOf(f.text, now)
		if err != nil {
			return exit.Usage("%s: %q is neither a time nor how long ago", f.name, f.text).Hinted("write 2026-03-02, 2026-03-02T15:04:05Z or 36h")
		}
		*f.to = at
	}
	return nil
}

func timeOf(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return at, nil
	}
	return time.Parse(time.RFC3339, text)
}

// The ways to share out a bill.
var shares = []string{"project", "runner", "pool"}

// share is what something has cost.
type share struct {
	Of    string        `json:"of"` // empty: slots without a job
	Jobs  int           `json:"jobs"`
	Busy  time.Duration `json:"-"`
	Hours float64       `json:"slot_hours"`
	Cost  float64       `json:"cost"`
}

func costCommand(p *command.Program) *cobra.Command {
	w := &where{p: p}
	var d during
	var by, format string
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Say what machines have cost, and for whom",
		Long: `cost shares out what machines have cost by the time that their slots had jobs: by project, by runner or by pool. Prices are those of pools, and what a
machine costs follows its billing. Time in which slots had no job has a line of its own.

` + codes,
		Example: `  rung fleet cost
  rung fleet cost --by pool --since 168h`,
		Args: command.Arguments(0, 0, ""),
	}
	w.flags(cmd)
	d.flags(cmd)
	cmd.Flags().StringVar(&by, "by", shares[0], "share it out by `WHAT`: project, runner, pool")
	cmd.Flags().StringVarP(&format, "format", "f", "text", "print `FORMAT`: text, json")
	command.Complete(cmd, "by", shares...)
	command.Complete(cmd, "format", "text", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := cmp.Or(command.OneOf("--by", by, shares...), command.OneOf("--format", format, "text", "json"), d.parse(time.Now()), w.complete()); err != nil {
			return err
		}
		all, err := w.bill(by, d)
		switch {
		case err != nil:
			return err
		case format == "json":
			return command.WriteJSON(p.Stdout, all)
		}
		return showCost(p.Stdout, by, all)
	}
	return cmd
}

// bill shares out what the fleets have cost.
func (w *where) bill(by string, d during) ([]share, error) {
	folders, err := w.folders()
	if err != nil {
		return nil, err
	}
	sums := map[string]share{}
	add := func(of string, c store.Cost) {
		s := sums[of]
		sums[of] = share{of, s.Jobs + c.Jobs, s.Busy + c.Busy, 0, s.Cost + c.Cost}
	}
	for _, f := range folders {
		bills := map[string]*store.Bill{} // by pool, or one
		pools := map[string]string{}      // of machines
		read := func(e store.Entry) bool {
			pool := ""
			if by == "pool" {
				pool = cmp.Or(e.Pool, pools[e.Request])
				pools[e.Request] = pool
			}
			if bills[pool] == nil {
				bills[pool] = &store.Bill{}
			}
			return bills[pool].Add(e)
		}
		if err := store.ReadHistory(f.History, time.Time{}, d.to, read); err != nil {
			return nil, err
		}
		for pool, b := range bills {
			for _, c := range b.Costs(d.from, d.to) {
				switch by {
				case "project":
					add(c.Project, c)
				case "runner":
					add(f.Runner, c)
				default:
					add(pool, c)
				}
			}
		}
	}
	all := slices.Collect(maps.Values(sums))
	for i := range all {
		all[i].Hours = all[i].Busy.Hours()
	}
	slices.SortFunc(all, func(a, b share) int {
		return cmp.Or(cmp.Compare(empty(a.Of), empty(b.Of)), cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.Of, b.Of))
	})
	return all, nil
}

func empty(text string) int {
	if text == "" {
		return 1
	}
	return 0
}

func showCost(to io.Writer, by string, all []share) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tJOBS\tSLOT HOURS\tCOST\t\n", strings.ToUpper(by))
	var sum share
	for _, s := range all {
		name := s.Of
		if name == "" {
			name = "(no job)"
		}
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.4f\t\n", name, s.Jobs, s.Hours, s.Cost)
		sum.Jobs, sum.Hours, sum.Cost = sum.Jobs+s.Jobs, sum.Hours+s.Hours, sum.Cost+s.Cost
	}
	fmt.Fprintf(w, "all\t%d\t%.2f\t%.4f\t\n", sum.Jobs, sum.Hours, sum.Cost)
	return w.Flush()
}

func recordCommand(p *command.Program) *cobra.Command {
	w := &where{p: p}
	var d during
	var output string
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Export the jobs that fleets have run, for rung fleet simulate",
		Long: `record writes the jobs that fleets have run as CSV: when each came, how long it ran, and what it needed. ` + "`rung fleet simulate --load`" + ` reads it.

` + codes,
		Example: `  rung fleet record -o jobs.csv
  rung fleet simulate fleet.toml --load jobs.csv --search`,
		Args: command.Arguments(0, 0, ""),
	}
	w.flags(cmd)
	d.flags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := cmp.Or(d.parse(time.Now()), w.complete()); err != nil {
			return err
		}
		folders, err := w.folders()
		if err != nil {
			return err
		}
		n, gaveUp := 0, 0
		err = p.WriteTo(output, command.Readable, func(to io.Writer) error {
			l := store.NewLoadWriter(to)
			for _, f := range folders {
				if err := store.ReadHistory(f.History, d.from, d.to, l.Add); err != nil {
					return err
				}
			}
			gaveUp = l.GaveUp
			n, err = l.Flush()
			return err
		})
		if err == nil && output != "" {
			what := "jobs are"
			if n == 1 {
				what = "job is"
			}
			p.Tell(fmt.Sprintf("%d %s in %s", n, what, output))
		}
		if err == nil && gaveUp > 0 {
			p.Tell(fmt.Sprintf("left out: %d that never had a machine, as nobody knows how long they would have run", gaveUp))
		}
		return err
	}
	return cmd
}
