package machine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/status"
)

const (
	// shownEnded is how many jobs that have ended the table has.
	shownEnded = 10
	// shownDisks is how many other machines' disks are shown, and the rest is counted.
	shownDisks = 10
)

func statusCommand(p *command.Program) *cobra.Command {
	var state string
	var view place.View
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the manager on this machine does",
		Long: `status asks the manager on this machine, the process of ` + "`rung run`" + `, which jobs run, which ended last, and whether GitLab answers its runners. It also
prints the address of the page with the logs of jobs, if listen_address is set.

Exit codes: 0 success · 2 usage · 4 permission denied · 5 internal error · 6 no manager runs with this state folder`,
		Example: `  rung status
  rung status --watch
  rung status --format json | jq '.jobs[].identity.project'`,
		Args: command.Arguments(0, 0, ""),
	}
	cmd.Flags().StringVar(&state, "state", "", "ask the manager with the state folder `DIR` (default: as of run)")
	view.Flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := view.Check(); err != nil {
			return err
		}
		if state == "" {
			var err error
			if state, err = place.StateFolder(p); err != nil {
				return err
			}
		}
		ask := func(ctx context.Context) (*status.Status, error) { return place.Ask(ctx, state) }
		return place.Show(cmd.Context(), p, &view, ask, show)
	}
	return cmd
}

// show prints the table.
func show(to io.Writer, clear string, s *status.Status) error {
	var b strings.Builder
	b.WriteString(clear)
	if s.Waiting != nil {
		fmt.Fprintf(&b, "rung %s, up %s, %s\n", s.Version, time.Since(s.Started).Round(time.Second), cleantext.Line(s.Waiting.String()))
		_, err := io.WriteString(to, b.String())
		return err
	}
	fmt.Fprintf(&b, "rung %s, up %s, %d of %d slots run jobs", s.Version, time.Since(s.Started).Round(time.Second), len(s.Jobs), s.Concurrent)
	if s.Draining {
		b.WriteString(", no more jobs are taken")
	}
	b.WriteString("\n")
	if s.Page != "" {
		fmt.Fprintf(&b, "%s\n", s.Page)
	}
	if r := s.Refused; r != nil {
		fmt.Fprintf(&b, "config: the file was changed and cannot be used (%s ago); the configuration before stays in force:\n", time.Since(r.Since).Round(time.Second))
		for line := range strings.Lines(r.Error) {
			fmt.Fprintf(&b, "        %s\n", cleantext.Line(strings.TrimRight(line, "\n")))
		}
	}
	if s.Disk != nil {
		fmt.Fprintln(&b, "disk: "+diskLine(s.Disk))
	}
	showDisks(&b, s.Disks)
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUNNER\tJOBS\tLEVELS\tGITLAB")
	for _, e := range s.Entries {
		jobs := fmt.Sprint(e.Running)
		if e.Limit > 0 {
			jobs = fmt.Sprintf("%d of %d", e.Running, e.Limit)
		}
		var levels []string
		for _, l := range e.Levels {
			levels = append(levels, string(l))
		}
		health := "not reached yet"
		switch {
		case e.Unable != "":
			health = "cannot run jobs: " + e.Unable
		case !e.Resting.IsZero():
			health = fmt.Sprintf("rests for %s: %s", time.Until(e.Resting).Round(time.Second), e.Trouble)
		case e.Trouble != "":
			health = e.Trouble
		case e.Healthy():
			health = fmt.Sprintf("healthy, %s ago", time.Since(e.Contact).Round(time.Second))
		}
		row(w, fmt.Sprintf("%s (%s)", e.Name, e.Token), jobs, strings.Join(levels, ", "), health)
	}
	for _, e := range s.Removed {
		row(w, fmt.Sprintf("%s (%s)", e.Name, e.Token), fmt.Sprint(e.Running), "", "not in the configuration any more: its jobs are finished, and it asks for no more")
	}
	showMachines(w, s)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "JOB\tPROJECT\tNAME\tLEVEL\tTIME\tSTATE")
	for _, j := range s.Jobs {
		how := "running"
		if j.Adopted {
			how = "running, adopted"
		}
		row(w, fmt.Sprint(j.Job), j.Identity.Project, j.Identity.Job, where(j), time.Since(j.Began).Round(time.Second).String(), how)
	}
	for i, j := range s.Last {
		if i == shownEnded || j.End == nil {
			break
		}
		row(w, fmt.Sprint(j.Running.Job), j.Identity.Project, j.Identity.Job, where(j.Running), j.End.Took.Round(10*time.Millisecond).String(), strings.TrimSpace(string(j.End.State)+" "+j.End.FailureReason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// showMachines prints what the providers of runners have.
func showMachines(w io.Writer, s *status.Status) {
	title := "\nMACHINES OF\tUSED\tRESERVED\tFREE\tREASON"
	for _, e := range slices.Concat(s.Entries, s.Removed) {
		if m := e.Machines; m != nil {
			if title != "" {
				fmt.Fprintln(w, title)
				title = ""
			}
			row(w, fmt.Sprintf("%s (%s)", e.Name, e.Token), fmt.Sprint(m.Used), fmt.Sprint(m.Reserved), fmt.Sprint(m.Free), m.Reason)
		}
	}
}

// where is where a job runs.
func where(j manager.Running) string {
	if j.Machine == "" {
		return string(j.Level)
	}
	return string(j.Level) + " on " + j.Machine
}

// showDisks prints the disks of other machines, those first that have no room.
func showDisks(w io.Writer, all map[string]*disk.Status) {
	full := func(name string) int { return len(all[name].Waiting + all[name].Trouble) }
	names := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(min(full(b), 1), min(full(a), 1)) })
	for i, name := range names {
		if i == shownDisks {
			fmt.Fprintf(w, "disks of %d more machines: see --format json\n", len(names)-i)
			break
		}
		fmt.Fprintf(w, "disk of %s: %s\n", cleantext.Line(name), diskLine(all[name]))
	}
}

// diskLine says how full the disk is with what is stored for later jobs.
func diskLine(d *disk.Status) string {
	line := bytesize.Format(d.Total())
	if d.Budget > 0 {
		line += " of " + bytesize.Format(d.Budget)
	}
	line += " used for later jobs"
	if least, folder := leastFree(d); folder != "" {
		line += fmt.Sprintf(", %s free (%s)", bytesize.Format(least), folder)
	}
	for _, text := range []string{d.Waiting, d.Trouble} {
		if text != "" {
			line += "\n      " + cleantext.Line(strings.ReplaceAll(text, "\n", "; "))
		}
	}
	return line
}

// leastFree is the disk with the least free space.
func leastFree(d *disk.Status) (least int64, folder string) {
	for _, name := range slices.Sorted(maps.Keys(d.Free)) {
		if folder == "" || d.Free[name] < least {
			least, folder = d.Free[name], name
		}
	}
	return least, folder
}

// row writes cells that others chose the text of.
func row(w io.Writer, cells ...string) {
	for i, c := range cells {
		if cells[i] = cleantext.Line(c); c == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}
