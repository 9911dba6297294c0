package group

import (
	"context"
	"errors"
	"fmt"
)

// maxRequests is how many requests are known again, the latest ones.
const maxRequests = 10_000

// requests are those of a group that does not know them itself.
type requests struct {
	known map[string]*request
	order []string
}

// request is what has become of one.
type request struct {
	turn      chan struct{} // holds a token while nobody is at it
	count     int
	made      int
	uncertain error
}

// get is the request of an id, which is begun if it is not known.
func (r *requests) get(id string, count int) *request {
	if one := r.known[id]; one != nil {
		return one
	}
	if len(r.order) == maxRequests {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	one := &request{turn: make(chan struct{}, 1), count: count}
	one.turn <- struct{}{}
	r.known[id] = one
	r.order = append(r.order, id)
	return one
}

// increase makes what a request lacks, of a group that can only be asked for a number.
func (g *Group) increase(ctx context.Context, r Request) (Created, error) {
	g.mu.Lock()
	one := g.requests.get(r.ID, r.Count)
	g.mu.Unlock()
	select {
	case <-one.turn:
	case <-ctx.Done():
		return Created{}, context.Cause(ctx)
	}
	defer func() { one.turn <- struct{}{} }()
	switch {
	case one.count != r.Count:
		return Created{Count: one.made}, fmt.Errorf("the request %s was for %d instances, and is now for %d", r.ID, one.count, r.Count)
	case one.uncertain != nil || one.made >= one.count:
		return Created{Count: one.made}, one.uncertain
	case ctx.Err() != nil:
		return Created{Count: one.made}, context.Cause(ctx)
	}
	n, err := g.basic.Increase(ctx, one.count-one.made)
	if n < 0 {
		n, err = 0, errors.Join(err, fmt.Errorf("the group says that it has made %d instances", n))
	}
	one.made += n
	if err != nil && (ctx.Err() != nil || errors.Is(err, ErrUncertain)) {
		one.uncertain = &Error{Kind: ErrUncertain, Message: fmt.Sprintf("the request %s: %v", r.ID, err), Err: err}
		err = one.uncertain
	}
	return Created{Count: one.made}, err
}
