package dockermachine

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/internal/background"
	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	// createTime bounds how long docker-machine may take to make a machine, and removeTime to remove one.
	createTime = 30 * time.Minute
	removeTime = 10 * time.Minute
	// listEvery is how often docker-machine is asked which machines it has.
	listEvery = 5 * time.Second
	// atOnce bounds how many machines are made, and how many removed, at the same time.
	atOnce = 8
	// recordName is what the record of machines is called.
	recordName = "machines"
)

// cloud is the machines of one owner in docker-machine's store.
type cloud struct {
	options  Options
	program  *program
	log      instancegroup.Logger
	settings instancegroup.Settings
	prefix   string          // begins the names of this owner's machines
	suffix   string          // ends them
	ctx      context.Context // of what goes on between calls
	stop     context.CancelFunc
	busy     background.Group
	creating chan struct{} // has room for what may be made at once
	removing chan struct{}

	asking   sync.Mutex // held while docker-machine is asked, and not waited for by what makes and removes machines
	mu       sync.Mutex
	machines map[string]*record // by name
	stored   map[string]bool    // the names that docker-machine has
	listed   time.Time          // when it was asked
	changes  int                // how often it has made and removed one since
}

// record is what is known of a machine. It is on disk from before it is made.
type record struct {
	Order   instancegroup.Order `json:"order"`
	Created time.Time           `json:"created"`
	// Making is the number of the process that makes it; 0: none does.
	Making int `json:"making,omitempty"`
	// Made says that it was made.
	Made bool `json:"made,omitempty"`
	// Failed says why it was not.
	Failed string `json:"failed,omitempty"`
	// Leaving says that it is to be removed, and Reason why it is still there.
	Leaving bool   `json:"leaving,omitempty"`
	Reason  string `json:"reason,omitempty"`

	at      *described // how it is reached, once that is known
	leaving bool       // somebody is removing it
}

// Open implements instancegroup.Cloud.
func (c *cloud) Open(ctx context.Context, log instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	c.log, c.settings, c.machines = log, settings, map[string]*record{}
	if c.program, err = find(c.options); err != nil {
		return info, options.At(err.Error(), "program")
	}
	sum := sha256.Sum256([]byte(settings.Owner))
	c.prefix, c.suffix, _ = strings.Cut(c.options.Name, "%s")
	c.prefix += hex.EncodeToString(sum[:4]) + "-"
	if err := instancegroup.Load(settings, recordName, &c.machines); err != nil {
		return info, err
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.creating, c.removing = make(chan struct{}, atOnce), make(chan struct{}, atOnce)
	if err := c.refresh(ctx); err != nil {
		return info, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeOver(ctx)
	return instancegroup.ProviderInfo{ID: "docker-machine/" + c.options.Driver + "/" + settings.Owner, MaxSize: cmp.Or(c.options.MaxSize, DefaultMaxSize)}, c.save()
}

// takeOver goes on with what a process before this one has begun: a machine that it was making is one that has failed. The caller holds the lock.
func (c *cloud) takeOver(ctx context.Context) {
	for name, r := range c.machines {
		if r.Making != 0 {
			c.program.end(ctx, r.Making, name)
			r.Making = 0
		}
		switch {
		case r.Leaving:
			c.remove(name, r)
		case !r.Made && r.Failed == "":
			r.Failed = "the process that was making it has ended"
		}
	}
}

// refresh asks docker-machine which machines it has, and takes over those of this owner that are not on record: they cost money. Then it asks how
// machines are reached that were made.
func (c *cloud) refresh(ctx context.Context) error {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := c.list(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	unknown := map[string]*record{}
	for name, r := range c.machines {
		if r.Made && !r.Leaving && r.at == nil && c.stored[name] {
			unknown[name] = r
		}
	}
	c.mu.Unlock()
	for name, r := range unknown {
		at, err := c.program.inspect(ctx, name)
		if err != nil {
			c.log.Warn("docker-machine does not say how a machine is reached", "machine", name, "error", err)
			continue
		}
		c.mu.Lock()
		r.at = at
		c.mu.Unlock()
	}
	return nil
}

// list asks for the machines, unless that was done lately.
func (c *cloud) list(ctx context.Context) error {
	c.mu.Lock()
	changes, lately := c.changes, time.Since(c.listed) < listEvery
	c.mu.Unlock()
	if lately {
		return nil
	}
	names, err := c.program.list(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != changes { // what was made or removed meanwhile may be in the list, or not
		return nil
	}
	c.stored, c.listed = map[string]bool{}, time.Now()
	for _, name := range names {
		c.stored[name] = true
		if c.machines[name] == nil && strings.HasPrefix(name, c.prefix) && strings.HasSuffix(name, c.suffix) {
			c.log.Warn("docker-machine has a machine of this owner that is not on record", "machine", name)
			owner := map[string]string{instancegroup.OwnerLabel: c.settings.Owner}
			c.machines[name] = &record{Order: instancegroup.Order{Request: instancegroup.Request{Labels: owner}}, Failed: "nobody knows what it was made for: it is not on record"}
		}
	}
	return nil
}

// save writes all records down. The caller holds the lock.
func (c *cloud) save() error { return instancegroup.Save(c.settings, recordName, c.machines) }

// note writes all records down where nobody waits for the answer. The caller holds the lock.
func (c *cloud) note() {
	if err := c.save(); err != nil {
		c.log.Error("the record of machines was not written", "error", err)
	}
}

// Machines implements instancegroup.Cloud.
func (c *cloud) Machines(ctx context.Context) (out []instancegroup.Machine, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, r := range c.machines {
		m := instancegroup.Machine{Instance: instancegroup.Instance{
			ID: name, Labels: r.Order.Labels, Request: r.Order.ID, Created: r.Created, State: instancegroup.StateCreating, Reason: r.Reason,
		}}
		switch {
		case r.Leaving:
			m.State = instancegroup.StateDeleting
		case r.Failed != "":
			m.State, m.Reason = instancegroup.StateFailed, r.Failed
		case r.Made && !c.stored[name]:
			m.State, m.Reason = instancegroup.StateFailed, "docker-machine does not know it any more"
		case r.Made && r.at != nil:
			m.State = instancegroup.StateRunning
			to := r.at.connector(c.settings)
			m.Connector, m.Addresses = &to, []string{r.at.Driver.IPAddress}
			m.Probe = instancegroup.ConnectInfo{ConnectorConfig: to, InternalAddr: r.at.Driver.IPAddress}.Addr(false)
		}
		out = append(out, m)
	}
	return out, nil
}

// Create implements instancegroup.Cloud.
func (c *cloud) Create(ctx context.Context, order instancegroup.Order) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if order.Shape != "" || order.Zone != "" || order.Spot {
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "machines are as machine_options say, and there are no shapes"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.ctx); err != nil {
		return "", err
	}
	if most := cmp.Or(c.options.MaxSize, DefaultMaxSize); len(c.machines) >= most {
		return "", &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("there are %d machines already, and max_size is %d", len(c.machines), most)}
	}
	name := c.prefix + strings.ToLower(rand.Text()[:8]) + c.suffix
	r := &record{Order: order, Created: time.Now().UTC()}
	c.machines[name] = r
	if err := c.save(); err != nil {
		delete(c.machines, name)
		return "", err
	}
	c.busy.Go(func() { c.create(name, r) })
	return name, nil
}

// create makes a machine that is on record.
func (c *cloud) create(name string, r *record) {
	select {
	case c.creating <- struct{}{}:
		defer func() { <-c.creating }()
	case <-c.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, createTime, fmt.Errorf("it took more than %s", createTime))
	defer cancel()
	c.mu.Lock()
	if r.Leaving { // before it was begun
		c.mu.Unlock()
		return
	}
	made, err := c.program.create(ctx, name)
	if err == nil {
		r.Making = made.number()
		c.note()
	}
	c.mu.Unlock()
	if err == nil {
		err = made.wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil { // the next process ends what is left of it
		return
	}
	r.Making = 0
	c.changes++
	c.stored[name] = err == nil
	if err != nil {
		r.Failed = "docker-machine could not make it: " + err.Error()
		c.log.Warn("docker-machine could not make a machine", "machine", name, "error", err)
	} else {
		r.Made = true
	}
	c.note()
}

// Delete implements instancegroup.Cloud. What could not be removed is tried again.
func (c *cloud) Delete(ctx context.Context, name string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	r := c.machines[name]
	if r == nil || r.leaving {
		return nil
	}
	r.Leaving = true
	if err := c.save(); err != nil {
		return err
	}
	c.remove(name, r)
	return nil
}

// remove removes a machine, which takes a while. The caller holds the lock.
func (c *cloud) remove(name string, r *record) {
	making := r.Making
	r.leaving = c.busy.Go(func() { // else the next process does it
		err := c.removeNow(name, making)
		c.mu.Lock()
		defer c.mu.Unlock()
		r.leaving = false
		if c.ctx.Err() != nil { // the next process begins it again
			return
		}
		c.changes++
		if err != nil {
			r.Reason = fmt.Sprintf("docker-machine could not remove it, and will be asked again when it is deleted again (once you know that it is gone: docker-machine rm --force %s): %v", name, err)
			c.log.Error("docker-machine could not remove a machine", "machine", name, "error", err)
		} else {
			delete(c.machines, name)
			delete(c.stored, name)
		}
		c.note()
	})
}

func (c *cloud) removeNow(name string, making int) error {
	select {
	case c.removing <- struct{}{}:
		defer func() { <-c.removing }()
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, removeTime, fmt.Errorf("it took more than %s", removeTime))
	defer cancel()
	if making != 0 {
		c.program.end(ctx, making, name)
	}
	names, err := c.program.list(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return nil
	}
	return c.program.remove(ctx, name)
}

// Heartbeat implements instancegroup.Heartbeater: docker-machine asks the driver.
func (c *cloud) Heartbeat(ctx context.Context, name string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	r := c.machines[name]
	well := r != nil && r.Made && !r.Leaving
	c.mu.Unlock()
	if r == nil {
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no machine " + name}
	}
	if !well {
		return &instancegroup.Error{Kind: instancegroup.ErrInstanceUnhealthy, Message: "it does not run"}
	}
	state, err := c.program.status(ctx, name)
	if err != nil {
		return instancegroup.Transient(0, err)
	}
	if state != running {
		return &instancegroup.Error{Kind: instancegroup.ErrInstanceUnhealthy, Message: "docker-machine says that it is " + state}
	}
	return nil
}

// Shutdown implements instancegroup.Shutdowner. Machines stay; those that are being made have failed for the next process, which removes them.
func (c *cloud) Shutdown(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	c.mu.Lock()
	c.stop() // nothing else is begun, or written down
	c.mu.Unlock()
	if err := c.busy.EndWithin(ctx); err != nil {
		return errors.Join(errors.New("docker-machine has not ended"), err)
	}
	return nil
}

// storePath is where docker-machine keeps machines.
func storePath(o Options) string {
	if path := cmp.Or(o.StoragePath, os.Getenv("MACHINE_STORAGE_PATH")); path != "" {
		return path
	}
	home, _ := os.UserHomeDir()
	return home + "/.docker/machine"
}
