package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/fleet/simulate/report"
	"github.com/rungci/rung/fleet/simulate/scenario"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/manager/config"
)

// Policies and formats, as flags name them.
const (
	adaptive = "adaptive"
	existing = "existing"
)

var (
	policies = []string{existing, adaptive}
	formats  = []string{"table", "json", "html"}
)

// simulation is the command's flags.
type simulation struct {
	p           *command.Program
	config      *place.File
	load        string
	name        string
	policies    []string
	seed        uint64
	search      bool
	wait        time.Duration
	simulations int
	format      string
	output      string
}

func simulateCommand(p *command.Program) *cobra.Command {
	s := &simulation{p: p}
	cmd := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Show what machines would cost, and how long jobs wait",
		Long: `simulate runs the decisions of the fleet over a load, without machines. FILE describes the machines, with prices and boot times, and the jobs; a
recorded load is read with --load. No cloud and no GitLab is asked, and the same files and seed give the same numbers.

Policy adaptive is Rung's own, and existing that of gitlab-runner as it is documented, with [runners.autoscaler], or [runners.machine], of the
configuration that --config names. With --search, parameters of both are searched for: the cheapest with which 95% of jobs wait no longer than the wait target.

` + exit.ReaderCodesHelp,
		Example: `  rung fleet simulate fleet.toml
  rung fleet simulate fleet.toml --load jobs.csv --config config.toml
  rung fleet simulate fleet.toml --search --wait 20s -f html -o fleet.html`,
		Args: command.Arguments(1, 1, "FILE"),
	}
	s.config = place.Flag(p, cmd)
	f := cmd.Flags()
	f.StringVar(&s.load, "load", "", "use the jobs in `CSV` instead of those that FILE describes")
	f.StringVar(&s.name, "name", "", "use the machines of the entry with this `NAME`")
	f.StringSliceVar(&s.policies, "policy", nil, "simulate `POLICY`: existing, adaptive (default: both, if there is a configuration or a search)")
	f.Uint64Var(&s.seed, "seed", 0, "use another `SEED` than FILE's")
	f.BoolVar(&s.search, "search", false, "search for the cheapest parameters that meet the wait target")
	f.DurationVar(&s.wait, "wait", 0, "use another wait target than FILE's, of the 95th percentile, as `DURATION`")
	f.IntVar(&s.simulations, "simulations", 300, "search with at most `N` simulations of each policy")
	f.StringVarP(&s.format, "format", "f", formats[0], "print `FORMAT`: table, json, html")
	f.StringVarP(&s.output, "output", "o", "", "write to `FILE`")
	command.Complete(cmd, "format", formats...)
	command.Complete(cmd, "policy", policies...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		err := s.run(ctx, cmd.Flags().Changed("seed"), args[0])
		if ctx.Err() != nil {
			return exit.Shown(exit.Interrupted)
		}
		return err
	}
	return cmd
}

func (s *simulation) run(ctx context.Context, seeded bool, path string) error {
	if err := s.valid(); err != nil {
		return err
	}
	name, text, err := s.p.Read(path)
	if err != nil {
		return err
	}
	in, err := scenario.Parse(name, text)
	if err != nil {
		return err
	}
	if seeded {
		in.Setup.Seed = s.seed
	}
	in.Wait = cmp.Or(s.wait, in.Wait)
	jobs, err := s.jobs(in)
	if err != nil {
		return err
	}
	entry, err := s.machinery()
	if err != nil {
		return err
	}
	if entry != nil {
		configure(&in.Setup, entry)
	}
	out := &report.Report{Jobs: len(jobs), Hours: in.Setup.Length.Hours(), Start: in.Setup.Start}
	if s.search {
		out.Target = in.Wait.Seconds()
	}
	for _, policy := range s.chosen(entry != nil) {
		outcome, err := s.simulate(ctx, in, jobs, policy, entry)
		if err != nil {
			return err
		}
		out.Outcomes = append(out.Outcomes, *outcome)
	}
	return s.p.WriteTo(s.output, command.Readable, func(w io.Writer) error { return s.write(w, out) })
}

func (s *simulation) valid() error {
	if err := command.OneOf("--format", s.format, formats...); err != nil {
		return err
	}
	for _, policy := range s.policies {
		if err := command.OneOf("--policy", policy, policies...); err != nil {
			return err
		}
	}
	switch {
	case s.wait < 0:
		return exit.Usage("--wait must be more than 0")
	case s.simulations < 1:
		return exit.Usage("--simulations must be 1 or more")
	}
	return nil
}

// jobs are those of the recorded load, or of the description.
func (s *simulation) jobs(in *scenario.Scenario) ([]simulate.Job, error) {
	if s.load == "" {
		if len(in.Sources) == 0 {
			return nil, exit.Coded(exit.Definition, "there are no jobs").Hinted("write a table [[jobs]], or use --load CSV")
		}
		return simulate.Describe(in.Setup.Start, in.Setup.Length, in.Setup.Seed, in.Sources...), nil
	}
	if info, err := os.Stat(s.load); err != nil {
		return nil, err
	} else if info.Size() > scenario.MaxLoadSize {
		return nil, exit.Coded(exit.Definition, "%s is larger than %d MiB", s.load, scenario.MaxLoadSize>>20)
	}
	text, err := os.ReadFile(s.load)
	if err != nil {
		return nil, err
	}
	jobs, start, err := scenario.ParseLoad(s.load, text)
	if err != nil {
		return nil, err
	}
	if !start.IsZero() {
		in.Setup.Start = start
	}
	in.Setup.Length = 0
	if len(jobs) > 0 {
		in.Setup.Length = (jobs[len(jobs)-1].At + time.Hour).Truncate(time.Hour)
	}
	return jobs, nil
}

// machinery is [runners.autoscaler] or [runners.machine] of the configuration; nil if none was named.
func (s *simulation) machinery() (*config.Machinery, error) {
	if !s.config.Given() {
		return nil, nil
	}
	path := s.config.Path()
	found, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	var out *config.Machinery
	for i := range found.Runners {
		r := &found.Runners[i]
		docker := r.Executor == config.DockerMachineExecutor && r.Machine != nil
		if r.Autoscaler == nil && !docker || s.name != "" && r.Name != s.name {
			continue
		}
		var invalid *config.InvalidError
		if _, err := r.Levels(); errors.As(err, &invalid) {
			return nil, exit.Coded(exit.Definition, "the entry %q of %s is not valid: %v", r.Name, path, invalid).Hinted("run `rung config lint %s`", shellword.Of(path))
		}
		if out != nil {
			return nil, exit.Usage("%s has several entries with [runners.autoscaler] or [runners.machine]", path).Hinted("choose one with --name NAME")
		}
		if out = (&config.Machinery{Autoscaler: r.Autoscaler}); docker {
			out = &config.Machinery{Machine: r.Machine, Limit: r.Limit}
		}
	}
	if out == nil {
		return nil, exit.Coded(exit.NotFound, "%s has no such entry with [runners.autoscaler] or [runners.machine]", path)
	}
	return out, nil
}

// configure gives all pools the numbers of an entry, as each would be a group of its own there.
func configure(setup *simulate.Setup, entry *config.Machinery) {
	a := entry.Autoscaler
	for i := range setup.Pools {
		p := &setup.Pools[i]
		if m := entry.Machine; m != nil {
			p.Slots, p.MaxUses, p.MaxInstances, p.MaxComing = 1, max(0, m.MaxBuilds), max(0, entry.Limit), max(0, m.MaxGrowthRate)
			continue
		}
		p.Slots, p.MaxUses, p.MaxInstances = entry.Slots(config.Pool{}), entry.Uses(config.Pool{}), max(0, a.MaxInstances)
		p.Throttle = scale.Throttle{Limit: float64(a.ScaleThrottle.Limit), Burst: a.ScaleThrottle.Burst}
	}
	if a != nil {
		setup.Poll = cmp.Or(a.UpdateIntervalWhenExpecting, setup.Poll)
	}
}

// chosen are the policies of the flag, or those for which there is enough.
func (s *simulation) chosen(configured bool) []string {
	switch {
	case len(s.policies) > 0:
		return s.policies
	case configured || s.search:
		return policies
	}
	return []string{adaptive}
}

// simulate runs the load on a policy, or on the best of its kind.
func (s *simulation) simulate(ctx context.Context, in *scenario.Scenario, jobs []simulate.Job, name string, entry *config.Machinery) (*report.Outcome, error) {
	if s.search {
		space := simulate.Adaptive()
		if name == existing {
			space = simulate.Existing()
		}
		best, err := simulate.Search(ctx, []simulate.Trial{{Setup: in.Setup, Load: jobs}}, space, simulate.Cheapest(in.Wait), s.simulations)
		if err != nil {
			return nil, exit.Coded(exit.Definition, "%v", err)
		}
		result, err := simulate.Run(ctx, in.Setup, jobs, best.Policy())
		return &report.Outcome{Policy: name, Parameters: best.String(), Result: result}, err
	}
	var policy scale.Policy = &in.Adaptive
	parameters := parametersOf(&in.Adaptive)
	if name == existing {
		if entry == nil {
			return nil, exit.Usage("policy existing needs a configuration").Hinted("use --config FILE, or --search")
		}
		periods, err := entry.Schedule()
		if err != nil {
			return nil, exit.Coded(exit.Definition, "%v", err)
		}
		policy, parameters = &scale.Classic{Policies: periods}, "as in "+s.config.Path()
	}
	result, err := simulate.Run(ctx, in.Setup, jobs, policy)
	if err != nil {
		return nil, exit.Coded(exit.Definition, "%v", err)
	}
	return &report.Outcome{Policy: name, Parameters: parameters, Result: result}, nil
}

func parametersOf(a *scale.Adaptive) string {
	text := fmt.Sprintf("worth=%g memory=%s linger=%s patience=%g", cmp.Or(a.Worth, scale.DefaultWorth), cmp.Or(a.Memory, scale.DefaultMemory), a.Linger, a.Patience)
	if a.Hedge > 0 {
		text += fmt.Sprintf(" hedge=%g", a.Hedge)
	}
	if len(a.Policies) > 0 {
		text += fmt.Sprintf(" idle_count=%d idle_count_working_hours=%d", a.Policies[0].IdleCount, a.Policies[1].IdleCount)
	}
	return text
}

func (s *simulation) write(w io.Writer, r *report.Report) error {
	switch slices.Index(formats, s.format) {
	case 1:
		return command.WriteJSON(w, r)
	case 2:
		return r.Page(w)
	}
	return r.Table(w)
}
