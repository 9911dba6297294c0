package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/status"
)

const (
	// refresh is how often --watch asks.
	refresh = time.Second
	// answerTime bounds a question to the manager.
	answerTime = 10 * time.Second
	// maxStatus bounds its answer, in bytes.
	maxStatus = 64 << 20
	// shownEnded is how many jobs that have ended the table has.
	shownEnded = 10
)

func statusCommand(p *command.Program) *cobra.Command {
	var state, format string
	var watch bool
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
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "ask the manager with the state folder `DIR` (default: as of run)")
	f.StringVarP(&format, "format", "f", "text", "print `FORMAT`: text, json")
	f.BoolVarP(&watch, "watch", "w", false, "show it again every second, until Ctrl-C")
	command.Complete(cmd, "format", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := command.OneOf("--format", format, "text", "json"); err != nil {
			return err
		}
		if state == "" {
			var err error
			if state, err = place.StateFolder(p); err != nil {
				return err
			}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		clear := ""
		if watch && format == "text" && term.IsTerminal(int(p.Stdout.Fd())) {
			clear = "\x1b[H\x1b[2J"
		}
		for {
			s, err := ask(ctx, state)
			if err != nil {
				return err
			}
			if format == "json" {
				err = json.NewEncoder(p.Stdout).Encode(s)
			} else {
				err = show(p.Stdout, clear, s)
			}
			if err != nil || !watch {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(refresh):
			}
		}
	}
	return cmd
}

// ask asks the manager with a state folder.
func ask(ctx context.Context, state string) (*status.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", place.Socket(state))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://manager/status", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(req)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.Coded(exit.Denied, "the manager with the state folder %s is another user's", state).Hinted("run this command as that user")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, exit.Coded(exit.NotFound, "no manager runs with the state folder %s", state).Hinted("start `rung run`, or name its folder with --state")
	case err != nil:
		return nil, exit.Coded(exit.System, "the manager does not answer: %v", err)
	}
	defer answer.Body.Close()
	var s status.Status
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&s); err != nil {
		return nil, exit.Coded(exit.System, "the answer of the manager cannot be read: %v", err).Hinted("the manager may be another version of rung: use the same version")
	}
	return &s, nil
}

// show prints the table.
func show(to io.Writer, clear string, s *status.Status) error {
	var b strings.Builder
	b.WriteString(clear)
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
		fmt.Fprintln(&b, diskLine(s.Disk))
	}
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
	for _, e := range s.Entries {
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

// diskLine says how full the disk is with what is stored for later jobs.
func diskLine(d *disk.Status) string {
	line := "disk: " + bytesize.Format(d.Total())
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
