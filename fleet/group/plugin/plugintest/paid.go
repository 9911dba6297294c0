package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin/paid"
	"github.com/rungci/rung/internal/plugintrial"
)

// capCode is the exit code of a suite that ends because of what it costs.
const capCode = 3

// watchPause is how often a suite that costs money looks at what it costs.
const watchPause = time.Second

// RunPaid is Run for a plugin whose instances cost money, by trial.Paid; rates that it does not have are those of the plugin's offers. What an earlier trial has left is
// ended before, and told to earlier; what this one has left after it, however it ends, also when ctx has ended. The bill is nil where nothing was begun.
func (trial *Trial) RunPaid(ctx context.Context, args []string, earlier func(*paid.Bill), each func(plugintrial.Result)) (passed bool, bill *paid.Bill, err error) {
	offers, err := trial.open(ctx)
	if err == nil && len(trial.Paid.Rates) == 0 {
		trial.Paid.Rates, err = paid.Rates(offers)
	}
	if err != nil {
		return false, nil, err
	}
	if before, err := trial.Clean(ctx); before != nil && before.Left != nil || err != nil {
		return false, before, err
	} else if before != nil {
		earlier(before)
	}
	passed, err = trial.suite(ctx, args, each)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == capCode {
		err = paid.ErrCap
	}
	bill, wrong := trial.Clean(context.WithoutCancel(ctx))
	if bill == nil && wrong == nil { // no case has begun
		bill = &paid.Bill{Max: trial.Paid.Max, Currency: trial.Paid.Currency()}
	}
	return passed, bill, errors.Join(err, wrong)
}

// Clean ends what trials have left, and begins the ledger anew if nothing is. The bill is nil where the ledger is empty.
func (trial *Trial) Clean(ctx context.Context) (*paid.Bill, error) {
	l, err := paid.Open(ctx, trial.Paid.Folder)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if l.Empty() {
		return nil, nil
	}
	bill := paid.Clean(ctx, trial.Plugin, trial.Paid, l)
	if bill.Left == nil {
		err = l.Reset()
	}
	return bill, err
}

// charge lets a subject of this process be in the ledger. The process ends with the one that has started it, and before more is spent than may be.
func (trial *Trial) charge(subject *grouptest.Subject) error {
	l, err := paid.Open(context.Background(), trial.Paid.Folder)
	if err != nil {
		return err
	}
	subject.Open = func(*testing.T) group.Basic { return paid.New(trial.Plugin, trial.Paid, l) }
	subject.Folder, subject.Patience, subject.Pause = l.State, trial.Paid.Patience, trial.Paid.Pause
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	go func() {
		for range time.Tick(watchPause) {
			if cost := l.Cost(2 * watchPause); cost > trial.Paid.Max {
				fmt.Fprintln(os.Stderr, "the suite ends, as it has cost", paid.Money(cost, trial.Paid.Currency()))
				os.Exit(capCode)
			}
		}
	}()
	return nil
}
