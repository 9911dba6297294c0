package variable

// sort returns the indices of all items, such that an item comes after those that it refers to, and otherwise in their order;
// and the names of the items that refer to each other in circles.
//
// It finds strongly connected components (Tarjan's algorithm), without recursion, since a chain may be as long as the input.
// Items refer to names, and a name leads to all its definitions: names are nodes of the graph as well, so that many references
// to a name with many definitions do not multiply.
func (c *Collection) sort() (order []int, cycles [][]string) {
	g := c.graph()
	s := sorter{graph: g, index: make([]int, len(g.edges)), low: make([]int, len(g.edges)), on: make([]bool, len(g.edges))}
	order = make([]int, 0, len(c.items))
	for i := range c.items {
		if s.index[i] != 0 {
			continue
		}
		s.visit(i, func(component []int) {
			found := component[:0:0]
			for _, n := range component {
				if n < len(c.items) {
					found = append(found, n)
				}
			}
			order = append(order, found...)
			if len(found) > 1 {
				names := make([]string, len(found))
				for j, n := range found {
					names[j] = c.items[n].Name
				}
				cycles = append(cycles, names)
			}
		})
	}
	return order, cycles
}

// graph has a node for every item, and after them one for every name that is referred to.
type graph struct {
	edges [][]int
}

func (c *Collection) graph() graph {
	edges := make([][]int, len(c.items), len(c.items)+len(c.last))
	nodes := map[string]int{}
	for i, v := range c.items {
		if v.Raw || !hasReferences(v.Value) {
			continue
		}
		scan(v.Value, true, func(p piece) {
			if _, defined := c.last[p.name]; p.name == "" || !defined {
				return
			}
			node, ok := nodes[p.name]
			if !ok {
				node = len(edges)
				nodes[p.name] = node
				edges = append(edges, nil)
			}
			edges[i] = append(edges[i], node)
		})
	}
	if len(nodes) > 0 {
		for i, v := range c.items {
			if node, ok := nodes[v.Name]; ok {
				edges[node] = append(edges[node], i)
			}
		}
	}
	return graph{edges}
}

// sorter is the state of the search.
type sorter struct {
	graph
	index, low []int // from 1; 0 for a node that was not visited
	on         []bool
	stack      []int
	count      int
	path       []frame
}

// frame is a node whose edges are being followed.
type frame struct{ node, next int }

// visit follows everything from a node, and reports components, those that others refer to first.
func (s *sorter) visit(start int, report func(component []int)) {
	s.enter(start)
	for len(s.path) > 0 {
		top := &s.path[len(s.path)-1]
		n := top.node
		if top.next < len(s.edges[n]) {
			to := s.edges[n][top.next]
			top.next++
			if s.index[to] == 0 {
				s.enter(to)
			} else if s.on[to] {
				s.low[n] = min(s.low[n], s.index[to])
			}
			continue
		}
		s.path = s.path[:len(s.path)-1]
		if len(s.path) > 0 {
			from := s.path[len(s.path)-1].node
			s.low[from] = min(s.low[from], s.low[n])
		}
		if s.low[n] == s.index[n] {
			report(s.leave(n))
		}
	}
}

func (s *sorter) enter(n int) {
	s.count++
	s.index[n], s.low[n], s.on[n] = s.count, s.count, true
	s.stack = append(s.stack, n)
	s.path = append(s.path, frame{node: n})
}

// leave takes a component from the stack.
func (s *sorter) leave(root int) []int {
	at := len(s.stack) - 1
	for s.stack[at] != root {
		at--
	}
	component := s.stack[at:]
	for _, n := range component {
		s.on[n] = false
	}
	s.stack = s.stack[:at]
	return component
}
