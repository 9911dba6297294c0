package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/manager/fleet"
)

// where is which manager a command is about, and which of its fleets.
type where struct {
	p     *command.Program
	state string
	name  string
}

func (w *where) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.state, "state", "", "ask the manager with the state folder `DIR` (default: as of run)")
	cmd.Flags().StringVar(&w.name, "name", "", "only the fleet of the entry with this `NAME`")
}

// complete finds the state folder.
func (w *where) complete() (err error) {
	if w.state == "" {
		w.state, err = place.StateFolder(w.p)
	}
	return err
}

// one is the fleet of an entry.
type one struct {
	Runner string `json:"runner"`
	// Removed says that the entry is not in the configuration any more.
	Removed bool `json:"removed,omitempty"`
	*fleet.Status
}

// live are the fleets of the manager now.
func (w *where) live(ctx context.Context) ([]one, error) {
	s, err := place.Ask(ctx, w.state)
	if err != nil {
		return nil, err
	}
	if s.Waiting != nil {
		return nil, exit.Coded(exit.NotFound, "this manager is %s", s.Waiting).Hinted("ask on the host of the manager that holds the lease")
	}
	var all []one
	for i, e := range slices.Concat(s.Entries, s.Removed) {
		if e.Machines != nil && e.Machines.Fleet != nil && (w.name == "" || w.name == e.Name) {
			all = append(all, one{e.Name, i >= len(s.Entries), e.Machines.Fleet})
		}
	}
	if len(all) == 0 {
		return nil, w.none()
	}
	return all, nil
}

// none says that there is no such fleet.
func (w *where) none() error {
	if w.name != "" {
		return exit.Coded(exit.NotFound, "there is no fleet of a runner %q", w.name).Hinted("`rung fleet status` without --name lists all")
	}
	return exit.Coded(exit.NotFound, "no runner of the manager with the state folder %s has a fleet", w.state).Hinted("write [runners.autoscaler] in an entry with executor \"instance\" or \"docker-autoscaler\"")
}

// folders are what is kept of fleets.
func (w *where) folders() ([]fleet.Folder, error) {
	all, err := fleet.Folders(w.state)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f fleet.Folder) bool { return w.name != "" && f.Runner != w.name })
	if len(all) == 0 {
		return nil, w.none()
	}
	return all, nil
}

const codes = "Exit codes: 0 success · 2 usage · 4 permission denied · 5 internal error · 6 no manager runs with this state folder, or there is no such fleet"

func statusCommand(p *command.Program) *cobra.Command {
	w := &where{p: p}
	var view place.View
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the machines that there are, and why",
		Long: `status asks the manager on this machine, the process of ` + "`rung run`" + `, which machines its fleets have, what they do, and which jobs wait.

` + codes,
		Example: `  rung fleet status
  rung fleet status --watch
  rung fleet status --format json | jq '.[].machines[].state'`,
		Args: command.Arguments(0, 0, ""),
	}
	w.flags(cmd)
	view.Flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := view.Check(); err != nil {
			return err
		}
		if err := w.complete(); err != nil {
			return err
		}
		return place.Show(cmd.Context(), p, &view, w.live, show)
	}
	return cmd
}

// show prints the tables.
func show(to io.Writer, clear string, all []one) error {
	var b strings.Builder
	b.WriteString(clear)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUNNER\tPOOL\tMACHINES\tMOST\tSLOTS\tPRICE\tWHY")
	for _, f := range all {
		for _, p := range f.Pools {
			row(w, f.Runner, p.Name, counts(p.Instances), limit(p.Most), strconv.Itoa(p.Slots), price(p.Price), p.Why)
		}
		for _, text := range f.notes() {
			row(w, f.Runner, "", "", "", "", "", text)
		}
	}
	fmt.Fprintln(w, "\nMACHINE\tPOOL\tSTATE\tFOR\tSLOTS\tJOBS HAD\tWHY")
	for _, f := range all {
		for _, m := range f.Machines {
			row(w, m.Name(), m.Pool, m.State, brief(time.Since(m.Since)), m.Slots(), strconv.Itoa(m.Uses), m.Why)
		}
	}
	fmt.Fprintln(w, "\nJOB\tPROJECT\tSTATE\tFOR\tWHY")
	for _, f := range all {
		for _, j := range f.Jobs {
			if j.Job != "" {
				row(w, j.Job, j.Project, j.State, brief(time.Since(j.Since)), j.Why)
			}
		}
	}
	volumes(w, all)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// notes are what holds for the fleet as a whole, other than as usual.
func (f *one) notes() (all []string) {
	if f.Removed {
		all = append(all, "the runner is not in the configuration any more: its machines finish their jobs, and are ended")
	}
	switch {
	case f.Closed:
		all = append(all, "no machine is made or ended, and this is what was recorded last: "+f.Trouble)
	case f.Trouble != "":
		all = append(all, "nothing is decided: "+f.Trouble)
	}
	return all
}

// volumes prints the table of volumes, if there are some.
func volumes(w io.Writer, all []one) {
	if !slices.ContainsFunc(all, func(f one) bool { return len(f.Volumes) > 0 }) {
		return
	}
	fmt.Fprintln(w, "\nVOLUME\tSTATE\tMACHINE\tUSED\tJOBS\tID\tWHY")
	for _, f := range all {
		for _, v := range f.Volumes {
			row(w, v.Name, v.State, orNone(v.Machine), brief(time.Since(v.Used))+" ago", orNone(strings.Join(v.Jobs, ", ")), v.ID, v.Why)
		}
	}
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// row prints a line of a table, whatever is in its cells.
func row(w io.Writer, cells ...string) {
	for i, cell := range cells {
		cells[i] = cleantext.Line(cell)
	}
	fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func counts(of map[string]int) string {
	var parts []string
	for _, state := range []string{"requested", "creating", "ready", "draining", "suspended", "failed", "deleting"} {
		if of[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of[state], state))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

func limit(n int) string {
	if n == 0 {
		return "any"
	}
	return strconv.Itoa(n)
}

func price(p float64) string {
	if p == 0 {
		return "-"
	}
	return strconv.FormatFloat(p, 'g', -1, 64)
}

func brief(d time.Duration) string { return d.Round(time.Second).String() }

func explainCommand(p *command.Program) *cobra.Command {
	w := &where{p: p}
	cmd := &cobra.Command{
		Use:   "explain [MACHINE|JOB]",
		Short: "Say why machines exist, and what happened to one or to a job",
		Long: `explain says of each pool why it has as many machines as it has and which of them goes next, and of each job that waits why it does. Of a MACHINE,
or a JOB by its number in GitLab, it says what it does now and all that was decided about it, in the order in which it happened. The history is
there without a manager, too.

` + codes,
		Example: `  rung fleet explain
  rung fleet explain i-0123456789
  rung fleet explain 4711`,
		Args: command.Arguments(0, 1, "a machine or a job"),
	}
	w.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := w.complete(); err != nil {
			return err
		}
		all, err := w.live(cmd.Context())
		if len(args) == 0 {
			if err != nil {
				return err
			}
			return explain(p.Stdout, all)
		}
		var coded *exit.Error
		if err != nil && !(errors.As(err, &coded) && coded.Code == exit.NotFound) {
			return err
		}
		return w.trace(p.Stdout, all, args[0])
	}
	return cmd
}

// explain says why there are as many machines as there are.
func explain(to io.Writer, all []one) error {
	var b strings.Builder
	for _, f := range all {
		for _, text := range f.notes() {
			fmt.Fprintf(&b, "%s: %s\n", f.Runner, text)
		}
		for _, p := range f.Pools {
			fmt.Fprintf(&b, "%s, pool %s: %s\n", f.Runner, p.Name, counts(p.Instances))
			if p.Why != "" {
				fmt.Fprintf(&b, "  why: %s\n", p.Why)
			}
			if p.Next != "" {
				fmt.Fprintf(&b, "  next: %s\n", p.Next)
			}
		}
		for _, j := range f.Jobs {
			if j.State == "waiting" {
				fmt.Fprintf(&b, "%s\n", j.Why)
			}
		}
	}
	return clean(to, b.String())
}

func clean(to io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(to, cleantext.Line(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// trace says what happened to a machine or a job.
func (w *where) trace(to io.Writer, all []one, name string) error {
	folders, err := w.folders()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range folders {
		requests := map[string]bool{} // of machines with the name, which the group gives them after they were asked for
		keys := map[string]bool{}
		find := func(e store.Entry) bool {
			if e.Instance == name || e.Request == name {
				requests[e.Request] = true
			}
			if e.JobID == name {
				keys[e.Key] = true
			}
			return true
		}
		if err := store.ReadHistory(f.History, time.Time{}, time.Time{}, find); err != nil {
			return err
		}
		tell := func(e store.Entry) bool {
			if e.Request != "" && requests[e.Request] || e.Key != "" && keys[e.Key] {
				fmt.Fprintf(&b, "%s  %s\n", e.At.Local().Format(time.DateTime), sentence(e))
			}
			return true
		}
		if err := store.ReadHistory(f.History, time.Time{}, time.Time{}, tell); err != nil {
			return err
		}
	}
	for _, f := range all {
		for _, m := range f.Machines {
			if m.Instance == name || m.Request == name {
				fmt.Fprintf(&b, "now: %s is %s in pool %s, %s slots with jobs%s\n", m.Name(), m.State, m.Pool, m.Slots(), because(m.Why))
			}
		}
		for _, j := range f.Jobs {
			if j.Job == name {
				fmt.Fprintf(&b, "now: %s\n", j.Why)
			}
		}
	}
	if b.Len() == 0 {
		return exit.Coded(exit.NotFound, "no fleet knows a machine or a job %q", name).Hinted("`rung fleet status` lists them")
	}
	return clean(to, b.String())
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// sentence is what an entry of the history says.
func sentence(e store.Entry) string {
	machine := e.Instance
	if machine == "" {
		machine = e.Request
	}
	job := "job " + e.JobID
	if e.JobID == "" {
		job = "job " + e.Key
	}
	took := ""
	if !e.Began.IsZero() {
		took = " after " + e.At.Sub(e.Began).Round(time.Millisecond).String()
	}
	text := ""
	switch e.Kind {
	case store.Create:
		text = machine + " is asked for in pool " + e.Pool
	case store.Ready:
		text = machine + " is ready" + took
	case store.Place:
		text = fmt.Sprintf("%s gets slot %d of %s%s", job, e.Slot, machine, took)
	case store.Over:
		text = job + " is done on " + machine + took
	case store.GaveUp:
		text = job + " ends without a machine" + took
	case store.Ended:
		text = job + " has lost " + machine + took
	case store.Drain:
		text = machine + " takes no more jobs"
	case store.Suspend:
		text = machine + " is suspended"
	case store.Resume:
		text = machine + " is resumed"
	case store.Delete:
		text = machine + " is deleted"
	case store.Gone:
		text = machine + " is gone" + took
	case store.CreateVolume:
		text = "volume " + e.Volume + " is asked for in pool " + e.Pool
	case store.AttachVolume:
		text = "volume " + e.Volume + " is attached to " + machine
	case store.DetachVolume:
		text = "volume " + e.Volume + " is detached from " + machine
	case store.DeleteVolume:
		text = "volume " + e.Volume + " is deleted"
	default:
		text = strings.TrimSpace(machine + " " + string(e.Kind))
	}
	return text + because(e.Why)
}
