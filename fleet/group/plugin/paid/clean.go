package paid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/plugin"
)

// callTime bounds each call.
const callTime = time.Minute

// Bill is what a test has cost, and what it has left.
type Bill struct {
	// Spent is the most that it can be, of Max.
	Spent, Max float64
	Currency   string
	// Ended is how many instances were there that no case has ended.
	Ended int
	// Left says what may be left, and why; nil: nothing is.
	Left error
}

// String is one sentence.
func (b *Bill) String() string {
	out := "Spent at most " + Money(b.Spent, b.Currency)
	if b.Max > 0 {
		out += " of " + Money(b.Max, b.Currency)
	}
	if b.Left != nil {
		return out + ". Something may be left, which costs money: " + strings.ReplaceAll(b.Left.Error(), "\n", "; ")
	}
	return out + ". Nothing is left."
}

// Clean ends all that the ledger says may be left, with a plugin whose options are those that it was made with.
func Clean(ctx context.Context, config plugin.Config, terms *Terms, l *Ledger) *Bill {
	bill := &Bill{Max: terms.Max, Currency: terms.Currency()}
	l.mu.Lock()
	left := l.book.left()
	for _, o := range l.book.owners {
		for _, one := range o.creates {
			bill.Currency = cmp.Or(bill.Currency, one.rate.Currency)
		}
	}
	l.mu.Unlock()
	for _, o := range left {
		ended, err := clean(ctx, config, terms, l, o)
		bill.Ended += ended
		if err != nil {
			bill.Left = errors.Join(bill.Left, fmt.Errorf("of %s in the group %s: %w", o.name, o.group, err))
		}
	}
	bill.Spent = l.Cost(0)
	return bill
}

// clean ends what is left of one owner.
func clean(ctx context.Context, config plugin.Config, terms *Terms, l *Ledger, o *owner) (ended int, err error) {
	state, err := l.State(o.name)
	if err != nil {
		return 0, err
	}
	g := New(config, terms, l)
	opening, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	info, err := g.Init(opening, hclog.NewNullLogger(), group.Settings{Owner: o.name, State: state, ConnectorConfig: group.ConnectorConfig{Username: "ci"}})
	if err != nil {
		return 0, err
	}
	if info.ID != o.group {
		err = fmt.Errorf("%w: %s", ErrOther, info.ID)
	} else {
		ended, err = g.end(ctx, o)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if err = errors.Join(err, g.Shutdown(closing)); err != nil {
		return ended, err
	}
	return ended, errors.Join(l.add(Entry{Kind: over, Owner: o.name}), os.RemoveAll(state))
}

// end deletes the instances of an owner until lists have none.
func (g *Group) end(ctx context.Context, o *owner) (ended int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.terms.Patience+g.terms.Settle, errors.New("they are not gone in time"))
	defer cancel()
	met := map[string]bool{}
	var last []string
	var why error
	empty := time.Time{} // since when lists have none
	for {
		ids, err := g.exist(ctx)
		g.ledger.mu.Lock()
		uncertain, unlisted := o.uncertain(), o.unlisted()
		g.ledger.mu.Unlock()
		switch {
		case err != nil:
		case len(ids) == 0 && empty.IsZero() && len(unlisted) > 0:
			if err = g.remove(ctx, unlisted); err == nil { // which may end them, and is no proof of it
				empty = time.Now()
			}
		case len(ids) == 0:
			if empty.IsZero() {
				empty = time.Now()
			}
			switch settled := time.Since(empty) >= g.terms.Settle; {
			case settled && len(unlisted) > 0:
				return len(met), fmt.Errorf("%s: a request was answered with it, and no list of the plugin has ever had it, as if its label %s were lost; look for it in the cloud, and then remove the file %s",
					strings.Join(unlisted, ", "), group.OwnerLabel, filepath.Join(g.terms.Folder, ledgerFile))
			case settled || !uncertain && len(unlisted) == 0:
				return len(met), nil
			}
		default:
			empty, last = time.Time{}, ids
			for _, id := range ids {
				met[id] = true
			}
			err = g.remove(ctx, ids)
		}
		if err != nil && ctx.Err() == nil { // and not that the time is over
			why = err
		}
		select {
		case <-time.After(g.terms.Pause):
		case <-ctx.Done():
			return len(met), errors.Join(fmt.Errorf("%s: %w", cmp.Or(strings.Join(last, ", "), "what may be there"), context.Cause(ctx)), why)
		}
	}
}

// exist are the instances of the owner.
func (g *Group) exist(ctx context.Context) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = g.List(ctx, func(i group.Instance) {
		if i.State.Exists() && g.ledger.mine(g.owner, i) {
			ids = append(ids, i.ID)
		}
	})
	slices.Sort(ids)
	return ids, err
}

func (g *Group) remove(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := g.Decrease(ctx, ids)
	return err
}
