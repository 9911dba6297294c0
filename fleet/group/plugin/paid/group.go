package paid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/plugin"
)

// Terms are what a test may cost.
type Terms struct {
	// Folder is that of the ledger.
	Folder string `json:"folder"`
	// Max is what may be spent in all, in the currency of Rates.
	Max   float64 `json:"max"`
	Rates []Rate  `json:"rates"`
	// Patience is how long an instance may take to run, or to go, and Pause that between two looks at the list.
	Patience time.Duration `json:"patience"`
	Pause    time.Duration `json:"pause"`
	// Settle is how long instances of a request without an answer may take to be listed.
	Settle time.Duration `json:"settle"`
}

// hold is how long a new instance is expected to exist at most.
func (t *Terms) hold() time.Duration { return t.Patience + time.Minute }

// Currency is that of the rates; empty: whoever has stated the price knows.
func (t *Terms) Currency() string {
	if len(t.Rates) == 0 {
		return ""
	}
	return t.Rates[0].Currency
}

// Group is a plugin whose instances are in a ledger.
type Group struct {
	*plugin.Group
	terms  *Terms
	ledger *Ledger
	owner  string
}

// New makes a group of a plugin.
func New(config plugin.Config, terms *Terms, ledger *Ledger) *Group {
	return &Group{Group: plugin.New(config), terms: terms, ledger: ledger}
}

// Init implements group.Basic. What the group has already is somebody else's.
func (g *Group) Init(ctx context.Context, log hclog.Logger, settings group.Settings) (group.ProviderInfo, error) {
	info, err := g.Group.Init(ctx, log, settings)
	if err != nil {
		return info, err
	}
	g.owner = settings.Owner
	if g.ledger.of(g.owner) != nil { // another process of the same owner
		return info, nil
	}
	var before []string
	err = g.Group.List(ctx, func(i group.Instance) { before = append(before, i.ID) })
	if err == nil {
		err = g.ledger.add(Entry{Kind: opened, Owner: g.owner, Group: info.ID, Before: before})
	}
	if err != nil {
		return info, errors.Join(err, g.Shutdown(context.WithoutCancel(ctx)))
	}
	return info, nil
}

// Increase implements group.Basic.
func (g *Group) Increase(ctx context.Context, n int) (int, error) {
	made, err := 0, g.ask(ctx, group.Request{Count: n})
	if err == nil {
		made, err = g.Group.Increase(ctx, n)
		err = g.answered("", made, nil, err)
	}
	return made, err
}

// IncreaseShape implements group.ShapeIncreaser.
func (g *Group) IncreaseShape(ctx context.Context, r group.Request) (ids []string, err error) {
	if err = g.ask(ctx, r); err == nil {
		ids, err = g.Group.IncreaseShape(ctx, r)
		err = g.answered(r.ID, len(ids), ids, err)
	}
	return ids, err
}

// ask writes down what is asked for, unless it would cost too much.
func (g *Group) ask(ctx context.Context, r group.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l := g.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.book.known[g.owner]; o != nil && o.asks(r.ID) != nil {
		return nil // a request that is repeated makes no more
	}
	hold := g.terms.hold()
	rate := rateOf(g.terms.Rates, r, hold)
	bound := l.book.cost(time.Now().Add(hold)) + float64(max(1, r.Count))*rate.Cost(hold)
	if bound > g.terms.Max {
		return fmt.Errorf("%w: with %d more for up to %s it would be %s, and %s are allowed", ErrCap, r.Count, hold, Money(bound, g.terms.Currency()), Money(g.terms.Max, g.terms.Currency()))
	}
	return l.write(Entry{Kind: create, Owner: g.owner, Request: r.ID, Count: max(1, r.Count), Rate: &rate})
}

// answered writes down what is known of a request.
func (g *Group) answered(request string, made int, ids []string, err error) error {
	var e Entry
	switch {
	case len(ids) > 0:
		e = Entry{Kind: answer, Owner: g.owner, Instances: ids}
	case made == 0 && err != nil && request != "" && !errors.Is(err, group.ErrUncertain) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		e = Entry{Kind: failed, Owner: g.owner, Request: request}
	default:
		return err
	}
	return errors.Join(err, g.ledger.add(e))
}

// Update implements group.Basic.
func (g *Group) Update(ctx context.Context, update func(string, group.State)) error {
	return g.List(ctx, func(i group.Instance) { update(i.ID, i.State) })
}

// List implements group.Lister.
func (g *Group) List(ctx context.Context, update func(group.Instance)) error {
	there := map[string]bool{}
	err := g.Group.List(ctx, func(i group.Instance) {
		if i.State.Exists() && g.ledger.mine(g.owner, i) {
			there[i.ID] = true
		}
		update(i)
	})
	if err != nil {
		return err
	}
	return g.ledger.listed(g.owner, there)
}

// of is what is known of an owner; nil: nothing is.
func (l *Ledger) of(name string) *owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.known[name]
}

// mine reports whether an instance is one of an owner's.
func (l *Ledger) mine(name string, i group.Instance) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, label := l.book.known[name], i.Labels[group.OwnerLabel]
	return o != nil && (label == name || label == "" && !slices.Contains(o.before, i.ID))
}

// listed writes down which instances of an owner exist.
func (l *Ledger) listed(name string, there map[string]bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.book.known[name]
	if o == nil {
		return nil
	}
	var more, fewer []string
	for id := range there {
		if i := o.instances[id]; i == nil || !i.listed {
			more = append(more, id)
		}
	}
	for id, i := range o.instances {
		if i.listed && i.until.IsZero() && !there[id] { // a list may be behind what was made
			fewer = append(fewer, id)
		}
	}
	var err error
	if len(more) > 0 {
		err = l.write(Entry{Kind: seen, Owner: name, Instances: more})
	}
	if len(fewer) > 0 {
		err = errors.Join(err, l.write(Entry{Kind: gone, Owner: name, Instances: fewer}))
	}
	return err
}

// Money is a sum for people.
func Money(sum float64, currency string) string {
	text := fmt.Sprintf("%.4f", sum)
	if currency != "" {
		text += " " + currency
	}
	return text
}
