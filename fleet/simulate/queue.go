package simulate

// queue is events in the order in which they happen: a heap of values, as there are millions.
type queue []event

func (q queue) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].number < q[j].number
}

func (q queue) peek() (event, bool) {
	if len(q) == 0 {
		return event{}, false
	}
	return q[0], true
}

func (q *queue) push(e event) {
	*q = append(*q, e)
	for i := len(*q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.before(i, parent) {
			return
		}
		(*q)[i], (*q)[parent] = (*q)[parent], (*q)[i]
		i = parent
	}
}

// pop removes the first event.
func (q *queue) pop() {
	last := len(*q) - 1
	(*q)[0], (*q)[last] = (*q)[last], event{}
	*q = (*q)[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && q.before(child+1, child) {
			child++
		}
		if child >= last || !q.before(child, i) {
			return
		}
		(*q)[i], (*q)[child] = (*q)[child], (*q)[i]
		i = child
	}
}
