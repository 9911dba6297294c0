package group

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// remembered is for how many lists an instance is remembered that none of them has: lists of a cloud lag behind, and show again what is gone. One that was about to
// go is gone with the first list that does not have it: the next with its id may be another one.
const remembered = 10

// seen is what a group has said of its instances.
type seen struct {
	last  map[string]*sight
	lists int
	told  map[string]bool // instances of others, which were logged
}

// sight is the last that was said of an instance.
type sight struct {
	state State
	list  int // the list that had it
}

// List returns the instances of this owner, by id. After an error the list is not complete, and nil.
func (g *Group) List(ctx context.Context) ([]Instance, error) {
	found := map[string]Instance{}
	take := func(i Instance) {
		if i, ok := g.believe(i); ok {
			g.mu.Lock()
			found[i.ID] = i
			g.mu.Unlock()
		}
	}
	var err error
	if g.Can().Details {
		err = g.basic.(Lister).List(ctx, take)
	} else {
		err = g.basic.Update(ctx, func(id string, state State) { take(Instance{ID: id, State: state}) })
	}
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen.lists++
	for id, s := range g.seen.last {
		if missed := g.seen.lists - s.list - 1; missed >= remembered || missed > 0 && s.state.ends() {
			delete(g.seen.last, id)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Instance) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	}), nil
}

// Watch calls update for each instance as it is, and then for each that changes, until ctx ends. It is ErrUnsupported where the group does not hear of changes: callers list.
func (g *Group) Watch(ctx context.Context, update func(Instance)) error {
	if !g.Can().Watch {
		return &Error{Kind: ErrUnsupported, Message: "the group does not hear of changes"}
	}
	return g.basic.(Watcher).Watch(ctx, func(i Instance) {
		if i, ok := g.believe(i); ok {
			update(i)
		}
	})
}

// believe is what is believed of what a group says of an instance; nothing of one that is somebody else's.
//
// A state that goes back is that of a list which lags behind. The last one stays, but for an instance that was deleted: if it is listed, it may
// cost money, and counts as one that is being deleted until it is gone.
func (g *Group) believe(i Instance) (Instance, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i.ID == "" {
		g.log.Warn("the group reports an instance without an id; it is left alone")
		return i, false
	}
	if owner := i.Labels[OwnerLabel]; owner != "" && owner != g.settings.Owner {
		if !g.seen.told[i.ID] {
			g.seen.told = with(g.seen.told, i.ID)
			g.log.Warn("the group reports an instance of another owner; it is left alone", "instance", i.ID, "owner", owner)
		}
		return i, false
	}
	last := g.seen.last[i.ID]
	if last == nil {
		last = &sight{state: StateCreating}
		g.seen.last[i.ID] = last
	}
	said := i.State
	switch {
	case !said.Known():
		i.State = last.state
	case last.state.CanBecome(said):
	case last.state == StateDeleted:
		i.State = StateDeleting
	default:
		i.State = last.state
	}
	if i.State != said {
		i.Reason = fmt.Sprintf("the group says that it is %s, after it was %s", said, last.state)
	}
	if last.state != StateDeleted {
		last.state = i.State
	}
	last.list = g.seen.lists
	return i, true
}

func with(set map[string]bool, id string) map[string]bool {
	if set == nil || len(set) > maxRequests {
		set = map[string]bool{}
	}
	set[id] = true
	return set
}
