package scale

import "container/heap"

// index is instances in an order, of which the first is found, and any removed, quickly. An instance knows its place in each index that it is in.
type index struct {
	items []*instance
	less  func(a, b *instance) bool
	place func(*instance) *int // 1 for the first; 0: it is not in the index
}

// Len, Less, Swap, Push and Pop are those of container/heap.
func (x *index) Len() int           { return len(x.items) }
func (x *index) Less(i, j int) bool { return x.less(x.items[i], x.items[j]) }
func (x *index) Swap(i, j int) {
	x.items[i], x.items[j] = x.items[j], x.items[i]
	*x.place(x.items[i]), *x.place(x.items[j]) = i+1, j+1
}

// Push is called by container/heap.
func (x *index) Push(one any) {
	m := one.(*instance)
	x.items = append(x.items, m)
	*x.place(m) = len(x.items)
}

// Pop is called by container/heap.
func (x *index) Pop() any {
	last := len(x.items) - 1
	m := x.items[last]
	x.items[last], x.items = nil, x.items[:last]
	*x.place(m) = 0
	return m
}

// first is nil if there is none.
func (x *index) first() *instance {
	if len(x.items) == 0 {
		return nil
	}
	return x.items[0]
}

// put adds an instance, or moves it to where it belongs now.
func (x *index) put(m *instance) {
	if at := *x.place(m); at > 0 {
		heap.Fix(x, at-1)
		return
	}
	heap.Push(x, m)
}

func (x *index) remove(m *instance) {
	if at := *x.place(m); at > 0 {
		heap.Remove(x, at-1)
	}
}

// newTimers makes an index of when something about an instance is due.
func newTimers() *index {
	return &index{place: func(m *instance) *int { return &m.timerAt }, less: func(a, b *instance) bool {
		if !a.due.Equal(b.due) {
			return a.due.Before(b.due)
		}
		return a.number < b.number
	}}
}

// newOpen makes an index of instances with the same number of free slots: the one that was used last comes first, so that others can be idle.
func newOpen() *index {
	return &index{place: func(m *instance) *int { return &m.openAt }, less: func(a, b *instance) bool {
		if (a.volume == nil) != (b.volume == nil) { // whose jobs may come again
			return a.volume == nil
		}
		if a.used == 0 && !a.idleSince.Equal(b.idleSince) {
			return a.idleSince.After(b.idleSince)
		}
		return a.number < b.number
	}}
}

// newIdle makes an index of idle instances in the order in which they go.
func newIdle() *index {
	return &index{place: func(m *instance) *int { return &m.idleAt }, less: func(a, b *instance) bool {
		if !a.order.Equal(b.order) {
			return a.order.Before(b.order)
		}
		return a.number < b.number
	}}
}
