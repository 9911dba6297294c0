package paid

import (
	"slices"
	"time"
)

// The kinds of entries.
const (
	opened = "opened" // a group of an owner is open; nothing was made
	create = "create" // instances are about to be asked for
	failed = "failed" // they were refused, and none was made
	answer = "answer" // a request was answered with instances, which no list has shown yet
	seen   = "seen"   // instances exist: a list has them
	gone   = "gone"   // an instance does not exist any more
	over   = "over"   // nothing is left of an owner
)

// Entry is a line of the ledger. It holds no options, which may be secret.
type Entry struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Owner string    `json:"owner"`
	// Group is the ID of the group, and Before are the instances that it had, which are somebody else's: of opened.
	Group  string   `json:"group,omitempty"`
	Before []string `json:"before,omitempty"`
	// Request, Count and Rate are those of create; Request is that of failed.
	Request string `json:"request,omitempty"`
	Count   int    `json:"count,omitempty"`
	Rate    *Rate  `json:"rate,omitempty"`
	// Instances are those of answer, seen and gone.
	Instances []string `json:"instances,omitempty"`
}

// book is what a ledger says.
type book struct {
	owners []*owner
	known  map[string]*owner
}

// owner is whom the instances of one case belong to.
type owner struct {
	name, group string
	before      []string
	creates     []*asked
	instances   map[string]*instance
	over        time.Time // zero: it is not
}

// asked is a request: those of its instances that nobody has seen.
type asked struct {
	request string
	at      time.Time
	rate    Rate
	unseen  int
	failed  bool // it made none, so that the same request is a new one
}

// instance is one that was made or seen.
type instance struct {
	rate   Rate
	since  time.Time
	until  time.Time // zero: it exists
	listed bool      // a list has had it
}

// apply adds an entry.
func (b *book) apply(e Entry) {
	o := b.known[e.Owner]
	if o == nil {
		o = &owner{name: e.Owner, group: e.Group, before: e.Before, instances: map[string]*instance{}}
		if b.known == nil {
			b.known = map[string]*owner{}
		}
		b.known[e.Owner], b.owners = o, append(b.owners, o)
	}
	switch e.Kind {
	case create:
		if e.Rate != nil {
			o.creates = append(o.creates, &asked{request: e.Request, at: e.At, rate: *e.Rate, unseen: e.Count})
		}
	case failed:
		for _, one := range o.creates {
			if one.request == e.Request {
				one.unseen, one.failed = 0, true
			}
		}
	case answer, seen:
		for _, id := range e.Instances {
			o.see(id, e.At).listed = e.Kind == seen || o.instances[id].listed
		}
	case gone:
		for _, id := range e.Instances {
			if i := o.instances[id]; i != nil && i.until.IsZero() {
				i.until = e.At
			}
		}
	case over:
		o.over = e.At
	}
}

// see adds an instance, which exists since the oldest request that it can be of.
func (o *owner) see(id string, at time.Time) *instance {
	if i := o.instances[id]; i != nil {
		return i
	}
	i := &instance{since: at}
	for _, one := range o.creates {
		i.since, i.rate = one.at, one.rate // of the last one, where there are more instances than were asked for
		if one.unseen > 0 {
			one.unseen--
			break
		}
	}
	o.instances[id] = i
	return i
}

// unlisted are the instances that a request was answered with and no list has shown.
func (o *owner) unlisted() (ids []string) {
	for id, i := range o.instances {
		if !i.listed && i.until.IsZero() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// asks is the request with an ID that has not failed; nil: there is none.
func (o *owner) asks(request string) *asked {
	for _, one := range o.creates {
		if request != "" && one.request == request && !one.failed {
			return one
		}
	}
	return nil
}

// uncertain reports whether there may be instances that nobody has seen.
func (o *owner) uncertain() bool {
	return slices.ContainsFunc(o.creates, func(one *asked) bool { return one.unseen > 0 })
}

// cost is what all has cost at most, if what may exist at a time exists until then.
func (b *book) cost(at time.Time) (sum float64) {
	for _, o := range b.owners {
		end := at
		if !o.over.IsZero() {
			end = o.over
		}
		for _, one := range o.creates {
			sum += float64(one.unseen) * one.rate.Cost(end.Sub(one.at))
		}
		for _, one := range o.instances {
			until := one.until
			if until.IsZero() {
				until = end
			}
			sum += one.rate.Cost(until.Sub(one.since))
		}
	}
	return sum
}

// left are the owners of whom something may be left.
func (b *book) left() (all []*owner) {
	for _, o := range b.owners {
		if o.over.IsZero() {
			all = append(all, o)
		}
	}
	return all
}
