package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/nesting/client"
	"github.com/rungci/rung/steps/event"
)

const (
	// createTime bounds the creation of a virtual machine. Hypervisors wait five minutes for its address.
	createTime = 10 * time.Minute
	// bootTime is how long a virtual machine may take until it lets us in, where the configuration does not say.
	bootTime = 2 * time.Minute
	// bootPause is that between two attempts to get in.
	bootPause = 500 * time.Millisecond
)

// vm is a virtual machine of a job.
type vm struct {
	client.VM
	nest *nest
	slot *control.Slot
	life *executor.Life // the job's machine's
}

// within makes the virtual machine of a job, or finds the one that it had in another process, and lets m lead there.
func (h *hosts) within(ctx context.Context, m *provider.Machine, at *seat, slot *control.Slot, report executor.Reporter) error {
	n := h.nest(slot.Request)
	at.nest = n
	n.begin(at.key)
	ctx, cancel := m.Within(ctx)
	defer cancel()
	made, err := at.vm, error(nil)
	if made == nil {
		made, err = h.create(ctx, n, m, slot, report)
	} else {
		err = h.find(ctx, n, made, m, slot)
	}
	if err != nil {
		return err
	}
	if err := h.lead(ctx, m, at, made); err != nil {
		if at.vm == nil {
			h.end(context.WithoutCancel(ctx), made)
		}
		return err
	}
	at.vm = made
	return nil
}

// create makes a virtual machine.
func (h *hosts) create(ctx context.Context, n *nest, m *provider.Machine, slot *control.Slot, report executor.Reporter) (*vm, error) {
	n.making.RLock()
	defer n.making.RUnlock()
	image := h.p.o.Machinery.Autoscaler.VMIsolation.Image
	report.Say(event.PhaseProvisioning, m.Name, fmt.Sprintf("Creating a virtual machine of %s on %s", image, m.Name))
	ctx, cancel := context.WithTimeoutCause(ctx, createTime, fmt.Errorf("it was not created within %s", createTime))
	defer cancel()
	made := &vm{nest: n, slot: slot, life: m.Life}
	err := h.ask(ctx, &slot.Machine, func(c *client.Client) error {
		one, stomped, err := c.Create(ctx, image, slot.Number)
		if err == nil && stomped != "" {
			h.p.o.Log.Info("a virtual machine that an earlier job had left in the slot was deleted", "machine", m.Name, "slot", slot.Number, "vm", stomped)
		}
		made.VM = one
		return err
	})
	if err != nil {
		return nil, err
	}
	n.add(made)
	return made, nil
}

// find finds the virtual machine that a job had in another process. If it cannot be asked for, whoever uses it learns whether it is there.
func (h *hosts) find(ctx context.Context, n *nest, made *vm, m *provider.Machine, slot *control.Slot) error {
	made.nest, made.slot, made.life = n, slot, m.Life
	n.add(made)
	there := true
	err := h.ask(ctx, &slot.Machine, func(c *client.Client) error {
		all, err := c.List(ctx)
		there = err != nil
		for _, one := range all {
			there = there || one.ID == made.ID
		}
		return err
	})
	if err != nil {
		h.p.o.Log.Warn("the virtual machine of a job cannot be looked for", "vm", made.ID, "error", err)
	}
	if !there {
		return made.gone(m.Name)
	}
	return nil
}

// gone says that a virtual machine is not there any more.
func (v *vm) gone(machine string) error {
	return &executor.Gone{Reason: fmt.Sprintf("the virtual machine %s is gone from %s: it has crashed, or was deleted by somebody else", v.ID, machine)}
}

// lead lets a machine lead to a virtual machine within it, once that lets us in.
func (h *hosts) lead(ctx context.Context, m *provider.Machine, at *seat, to *vm) error {
	outer := m.Name
	access, err := h.accessWithin(to)
	if err != nil {
		return err
	}
	m.Name, m.Fresh = outer+"/"+to.ID, true
	if m.Handle, err = json.Marshal(handle{Key: at.key, VM: to.ID, Addr: to.Addr}); err != nil {
		return err
	}
	get := func(ctx context.Context) (*shared, error) {
		return h.join(ctx, vmKey(to), h.bootTime(), func(ctx context.Context) (host.Host, error) { return h.through(ctx, to, access) })
	}
	s, err := get(ctx)
	if err != nil {
		return fmt.Errorf("the virtual machine %s of %s: %w", to.ID, outer, err)
	}
	h.leave(s)
	m.Connect = func(ctx context.Context) (host.Host, error) {
		s, err := get(ctx)
		if err != nil {
			return nil, err
		}
		return &lent{Host: s.host, leave: sync.OnceFunc(func() { h.leave(s) })}, nil
	}
	m.Access = access
	m.Access.Via = func(ctx context.Context, network, address string) (net.Conn, error) {
		s, err := h.get(ctx, &to.slot.Machine)
		if err != nil {
			return nil, err
		}
		defer h.leave(s)
		return s.host.Dial(ctx, network, address)
	}
	return nil
}

// vmKey is that of the connection to a virtual machine. Its ID is somebody else's text.
func vmKey(of *vm) string {
	sum := sha256.Sum256([]byte(of.ID))
	return of.slot.Request + ".vm-" + hex.EncodeToString(sum[:8])
}

func (h *hosts) bootTime() time.Duration {
	return cmp.Or(max(0, h.p.o.Machinery.Autoscaler.VMIsolation.Connector.Timeout), bootTime)
}

// accessWithin is how a virtual machine is reached from its machine.
func (h *hosts) accessWithin(to *vm) (provider.Access, error) {
	c := h.p.o.Machinery.Autoscaler.VMIsolation.Connector
	of := group.ConnectInfo{ConnectorConfig: group.ConnectorConfig{Protocol: group.Protocol(c.Protocol), ProtocolPort: c.ProtocolPort}, InternalAddr: to.Addr}
	out := provider.Access{Protocol: protocols[of.Protocol], Address: of.Addr(false), User: c.Username, Password: c.Password}
	if out.Protocol == provider.SSH {
		out.KnownHosts, out.Record = h.keys(vmKey(to)), true
		if c.KeyPath != "" {
			var err error
			if out.Key, err = os.ReadFile(c.KeyPath); err != nil {
				return out, fmt.Errorf("vm_isolation.connector_config.key_path: %w", err)
			}
		}
	}
	return out, out.Validate()
}

// through connects to a virtual machine through its machine, until it lets us in.
func (h *hosts) through(ctx context.Context, to *vm, access provider.Access) (host.Host, error) {
	ctx, cancel := to.life.Within(ctx)
	defer cancel()
	for last := error(nil); ; {
		inner, err := h.enter(ctx, to, access)
		if err == nil {
			return inner, nil
		}
		if last == nil || ctx.Err() == nil { // and not that the time was over
			last = err
		}
		select {
		case <-ctx.Done():
			if gone := to.life.Err(); gone != nil {
				return nil, gone
			}
			return nil, fmt.Errorf("it could not be reached within %s: %w", h.bootTime(), last)
		case <-time.After(bootPause):
		}
	}
}

// enter makes one attempt to connect to a virtual machine.
func (h *hosts) enter(ctx context.Context, to *vm, access provider.Access) (host.Host, error) {
	s, err := h.get(ctx, &to.slot.Machine)
	if err != nil {
		return nil, err
	}
	access.Via = s.host.Dial
	inner, err := h.p.o.Connect(ctx, access)
	if err != nil {
		h.leave(s)
		return nil, err
	}
	return &inside{Host: inner, leave: sync.OnceFunc(func() { h.leave(s) })}, nil
}

// inside is a connection that goes through another one.
type inside struct {
	host.Host
	leave func()
}

// Close implements host.Host.
func (i *inside) Close() error {
	defer i.leave()
	return i.Host.Close()
}

// end deletes the virtual machine of a job that is over. One that cannot be deleted now is deleted with a later check, or by the next job of its slot.
func (h *hosts) end(ctx context.Context, of *vm) {
	if of.slot == nil { // it was never found
		return
	}
	defer h.forget(vmKey(of))
	select {
	case <-of.slot.Done(): // with its machine
		return
	default:
	}
	err := h.ask(ctx, &of.slot.Machine, func(c *client.Client) error { return c.Delete(ctx, of.ID) })
	if err != nil {
		h.p.o.Log.Warn("the virtual machine of a job could not be deleted; it is deleted later", "vm", of.ID, "error", err)
	}
	of.nest.forget(of.ID)
}
