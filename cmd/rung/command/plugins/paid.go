package plugins

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/fleet/group/plugin/paid"
	grouptrial "github.com/rungci/rung/fleet/group/plugin/plugintest"
	"github.com/rungci/rung/internal/plugintrial"
)

// Defaults of tests that cost money: clouds are slower than fakes, and their lists behind what is.
const (
	defaultPatience = 10 * time.Minute
	defaultSettle   = 2 * time.Minute
	listPause       = 2 * time.Second
	// statedStep is what a stated price is counted in.
	statedStep = time.Hour
)

// paidFlags are the flags of a test that costs money.
type paidFlags struct {
	max, price       float64
	minimum          time.Duration
	patience, settle time.Duration
	ledger           string
	clean            bool
}

func (f *paidFlags) add(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&f.max, "max-cost", 0, "spend no more than this `SUM`, in the currency of the plugin's prices")
	cmd.Flags().Float64Var(&f.price, "price", 0, "with --max-cost: each instance costs this `PRICE` an hour, and each hour begun counts, whatever the plugin says")
	cmd.Flags().DurationVar(&f.minimum, "billing-minimum", 0, "with --price: an instance is paid for at least this long, such as 24h")
	cmd.Flags().DurationVar(&f.patience, "patience", defaultPatience, "with --max-cost: how long an instance may take to run, or to go")
	cmd.Flags().DurationVar(&f.settle, "settle", defaultSettle, "how long an instance of a request that had no answer may take to be listed")
	cmd.Flags().StringVar(&f.ledger, "ledger", "", "keep the ledger in this `FOLDER`, which is else plugin-tests/NAME of rung's state folder")
	cmd.Flags().BoolVar(&f.clean, "clean", false, "end what earlier tests with --max-cost have left, and try nothing")
}

// set reports whether the test is one of these.
func (f *paidFlags) set() bool { return f.max > 0 || f.clean }

// check refuses flags that do not go together.
func (f *paidFlags) check(cmd *cobra.Command, dry bool) error {
	given := cmd.Flags().Changed
	switch {
	case given("max-cost") && !positive(f.max):
		return exit.Usage("--max-cost must be more than 0, such as 1.50")
	case given("price") && !positive(f.price):
		return exit.Usage("--price must be more than 0, such as 0.10")
	case f.minimum < 0 || f.settle < 0 || f.patience <= 0:
		return exit.Usage("--billing-minimum and --settle must not be negative, and --patience must be more than 0")
	case dry && f.set(), f.clean && given("max-cost"):
		return exit.Usage("only one of --dry, --max-cost and --clean can be given")
	case given("price") && !given("max-cost"), given("billing-minimum") && !given("price"):
		return exit.Usage("--price needs --max-cost, and --billing-minimum needs --price")
	}
	return nil
}

// positive reports whether a number is one of money: also not NaN or infinite, which nothing is ever above.
func positive(n float64) bool { return n > 0 && !math.IsInf(n, 1) }

// run tries a plugin whose instances cost money, or ends what others have left.
func (f *paidFlags) run(ctx context.Context, p *command.Program, t *grouptrial.Trial, again []string, each func(plugintrial.Result)) (passed bool, err error) {
	folder := f.ledger
	if folder == "" {
		state, err := place.StateFolder(p)
		if err != nil {
			return false, err
		}
		folder = filepath.Join(state, "plugin-tests", t.Plugin.Name)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return false, err
	}
	t.Paid = &paid.Terms{Folder: folder, Max: f.max, Patience: f.patience, Pause: min(listPause, f.patience/10), Settle: f.settle}
	if f.price > 0 {
		t.Paid.Rates = []paid.Rate{{Price: f.price, Step: statedStep, Minimum: f.minimum}}
	}
	if f.clean {
		bill, err := t.Clean(ctx)
		switch {
		case err == nil && bill == nil:
			fmt.Fprintln(p.Stdout, "Nothing is left.")
		case bill != nil:
			f.show(p, bill)
		}
		return bill == nil || bill.Left == nil, err
	}
	earlier := func(bill *paid.Bill) {
		fmt.Fprintf(p.Stdout, "An earlier test was not cleaned up: %d instances were ended. %s\n", bill.Ended, bill)
	}
	passed, bill, err := t.RunPaid(ctx, again, earlier, each)
	if errors.Is(err, paid.ErrNoPrice) {
		return false, exit.Coded(exit.System, "%v", err).Hinted("say what an instance costs an hour with --price")
	}
	if bill != nil {
		f.show(p, bill)
	}
	return passed && (bill == nil || bill.Left == nil), err
}

// show writes the last line.
func (f *paidFlags) show(p *command.Program, bill *paid.Bill) {
	fmt.Fprintln(p.Stdout, bill)
	if bill.Left != nil {
		fmt.Fprintln(p.Stderr, "End it with the same options and --clean in place of --max-cost, or in the cloud.")
	}
}
