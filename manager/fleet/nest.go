package fleet

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/nesting/client"
)

// clearTime bounds an attempt to delete the virtual machines that nobody knows.
const clearTime = 2 * time.Minute

// nest is the virtual machines of one machine.
type nest struct {
	// making is held for reading while a virtual machine is being made, which is listed before we know it, and for writing while those that nobody knows are deleted.
	making sync.RWMutex

	mu   sync.Mutex
	vms  map[string]*vm  // by ID: those of jobs
	jobs map[string]bool // whose keys this process knows
}

// nest is that of a machine.
func (h *hosts) nest(request string) *nest {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nests[request]
	if n == nil {
		n = &nest{vms: map[string]*vm{}, jobs: map[string]bool{}}
		h.nests[request] = n
	}
	return n
}

// tend looks after the virtual machines of a machine: jobs learn that theirs are gone, and those that nobody knows are deleted in the background. A service that
// does not answer is an error only while no job has a virtual machine, which goes on.
func (h *hosts) tend(ctx context.Context, m *control.Machine) error {
	if !isolated(h.p.o.Machinery) {
		return nil
	}
	n := h.nest(m.Request)
	known := n.known()
	strange := false
	err := h.ask(ctx, m, func(c *client.Client) error {
		all, err := c.List(ctx)
		if err != nil {
			return err
		}
		for _, one := range all {
			delete(known, one.ID)
			strange = strange || n.of(one.ID) == nil
		}
		return nil
	})
	if err != nil {
		if len(known) == 0 {
			return err
		}
		h.p.o.Log.Warn("the virtual machines of jobs cannot be listed", "error", err)
		return nil
	}
	for _, one := range known {
		one.life.Finish(one.gone(nameOf(m)))
	}
	if strange && n.making.TryLock() {
		machine := *m
		begun := h.p.busy.Go(func() {
			defer n.making.Unlock()
			ctx, cancel := context.WithTimeout(h.p.life, clearTime)
			defer cancel()
			if err := h.sweep(ctx, n, &machine); err != nil && h.p.life.Err() == nil {
				h.p.o.Log.Warn("virtual machines that no job has could not be deleted", "error", err)
			}
		})
		if !begun {
			n.making.Unlock()
		}
	}
	return nil
}

// clear deletes the virtual machines that nobody knows, of a machine that is to get its first job.
func (h *hosts) clear(ctx context.Context, m *control.Machine) error {
	if !isolated(h.p.o.Machinery) {
		return nil
	}
	n := h.nest(m.Request)
	n.making.Lock()
	defer n.making.Unlock()
	return h.sweep(ctx, n, m)
}

// sweep deletes the virtual machines that nobody knows, unless a job may have one that this process does not know. The caller holds n.making.
func (h *hosts) sweep(ctx context.Context, n *nest, m *control.Machine) error {
	if !h.knowsJobs(n, m.Request) {
		return nil
	}
	return h.ask(ctx, m, func(c *client.Client) error {
		all, err := c.List(ctx)
		for _, one := range all {
			if n.of(one.ID) != nil {
				continue
			}
			h.p.o.Log.Info("a virtual machine that no job has is deleted", "machine", nameOf(m), "vm", one.ID)
			err = errors.Join(err, c.Delete(ctx, one.ID))
		}
		return err
	})
}

// knowsJobs reports whether this process knows the virtual machines of all jobs of a machine: those of an earlier one may still be recovered.
func (h *hosts) knowsJobs(n *nest, request string) bool {
	select {
	case <-h.p.begun:
	case <-h.p.life.Done():
		return false
	}
	for _, m := range h.p.control.Status().Machines {
		if m.Request != request {
			continue
		}
		for _, key := range m.Jobs {
			if key != "" && !n.knows(key) {
				return false
			}
		}
	}
	return true
}

// begin says that a job is known; over says that it is over.
func (n *nest) begin(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs[key] = true
}

func (n *nest) over(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.jobs, key)
}

// add adds the virtual machine of a job; forget says that the job has none any more.
func (n *nest) add(one *vm) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.vms[one.ID] = one
}

func (n *nest) forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.vms, id)
}

func (n *nest) knows(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.jobs[key]
}

// of is the virtual machine of a job that has an ID; nil is none.
func (n *nest) of(id string) *vm {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.vms[id]
}

// known are the virtual machines of jobs.
func (n *nest) known() map[string]*vm {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.vms)
}
