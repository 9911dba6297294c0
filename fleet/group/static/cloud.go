package static

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/internal/background"
	"github.com/rungci/rung/internal/sshclient"
	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	defaultResetTimeout = 5 * time.Minute
	// maxSaid bounds what is told of the output of a reset command, in bytes.
	maxSaid = 2000
	// record is what the record of hosts that are in use is called, and leftRecord that of how others were given back.
	record     = "taken"
	leftRecord = "left"
)

// cloud is the list, and who has which host.
type cloud struct {
	options  Options
	log      instancegroup.Logger
	settings instancegroup.Settings
	keys     map[string][]byte // of hosts, by name
	ctx      context.Context   // of reset commands
	stop     context.CancelFunc
	resets   background.Group

	mu    sync.Mutex
	taken map[string]*use // by host
	left  map[string]left // by host
}

// left is how a host was given back the last time, as it is on disk.
type left struct {
	At time.Time `json:"at"`
	// Failed says that nobody has answered there.
	Failed bool `json:"failed,omitempty"`
}

// use is a host in use, as it is on disk.
type use struct {
	ID      string              `json:"id"`
	Order   instancegroup.Order `json:"order"`
	Created time.Time           `json:"created"`
	// Silent says that nobody has answered there yet. Records of versions that did not know have it as false: their hosts count as good ones.
	Silent bool `json:"silent,omitempty"`
	// Leaving says that it is on its way back to the list.
	Leaving bool `json:"leaving,omitempty"`
	// Reason is why it could not be reset.
	Reason string `json:"reason,omitempty"`

	resetting bool
}

// newCloud refuses a list that cannot be.
func newCloud(o Options) (*cloud, error) {
	names, shapes := map[string]bool{}, map[string]Host{}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		h.Name = cmp.Or(h.Name, h.Address)
		if names[h.Name] {
			return nil, options.At(fmt.Sprintf("the list has %q already: give each host a name of its own", h.Name), "hosts", i, "address")
		}
		names[h.Name] = true
		one, known := shapes[h.Shape]
		if known && h.Shape != "" && (one.CPUs != h.CPUs || one.Memory != h.Memory || one.Disk != h.Disk || one.GPUs != h.GPUs || one.OS != h.OS || one.Arch != h.Arch) {
			return nil, options.At(fmt.Sprintf("hosts of the shape %q must have the same size", h.Shape), "hosts", i, "shape")
		}
		if h.Shape != "" && (h.CPUs <= 0 || h.Memory <= 0) {
			return nil, options.At("a host with a shape needs its cpus and memory", "hosts", i, "shape")
		}
		shapes[h.Shape] = *h
	}
	return &cloud{options: o}, nil
}

// Open implements instancegroup.Cloud.
func (c *cloud) Open(_ context.Context, log instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	c.log, c.settings, c.keys, c.taken = log, settings, map[string][]byte{}, map[string]*use{}
	c.left = map[string]left{}
	for i, h := range c.options.Hosts {
		if h.KeyFile == "" {
			continue
		}
		if c.keys[h.Name], err = os.ReadFile(h.KeyFile); err != nil {
			return info, options.At("its key cannot be read: "+err.Error(), "hosts", i, "key_file")
		}
	}
	if err := instancegroup.Load(settings, record, &c.taken); err != nil {
		return info, err
	}
	err = instancegroup.Load(settings, leftRecord, &c.left)
	if err != nil { // it only says which host comes first
		log.Warn("the record of how hosts were given back is ignored: they are taken in the order of the list", "error", err)
	}
	if err != nil || c.left == nil {
		c.left = map[string]left{}
	}
	maps.DeleteFunc(c.left, func(name string, _ left) bool {
		_, listed := c.host(name)
		return !listed
	})
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, u := range c.taken {
		if !u.Leaving {
			continue
		}
		if err := c.leave(name, u); err != nil {
			return info, err
		}
	}
	return instancegroup.ProviderInfo{ID: "static/" + settings.Owner, MaxSize: len(c.options.Hosts)}, nil
}

// host is one of the list; false: it is not there any more.
func (c *cloud) host(name string) (Host, bool) {
	i := slices.IndexFunc(c.options.Hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, false
	}
	return c.options.Hosts[i], true
}

// Machines implements instancegroup.Cloud.
func (c *cloud) Machines(ctx context.Context) (out []instancegroup.Machine, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, u := range c.taken {
		h, listed := c.host(name)
		is := instancegroup.Instance{
			ID: u.ID, State: instancegroup.StateRunning, Reason: u.Reason, Shape: h.Shape, Labels: labels(h, u.Order), Request: u.Order.ID, Created: u.Created,
		}
		switch {
		case u.Leaving:
			is.State = instancegroup.StateDeleting
		case !listed:
			is.State, is.Reason = instancegroup.StateFailed, fmt.Sprintf("the list has no host %q any more", name)
		}
		m := instancegroup.Machine{Instance: is, Connector: c.connector(h)}
		if listed {
			m.Addresses, m.Probe = []string{h.Address}, address(h, m.Connector)
		}
		if h.HostKey != "" {
			m.HostKeys = []string{h.HostKey}
		}
		out = append(out, m)
	}
	return out, nil
}

// labels are those of an order, and the host's below them.
func labels(h Host, order instancegroup.Order) map[string]string {
	all := maps.Clone(h.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, order.Labels)
	return all
}

// connector is how a host is reached.
func (c *cloud) connector(h Host) *instancegroup.ConnectorConfig {
	to := c.settings.ConnectorConfig
	to.OS, to.Arch = cmp.Or(h.OS, to.OS), cmp.Or(h.Arch, to.Arch)
	to.Username = cmp.Or(h.User, to.Username)
	if key := c.keys[h.Name]; key != nil {
		to.Key = key
	}
	return &to
}

// address is that of a host with its port.
func address(h Host, to *instancegroup.ConnectorConfig) string {
	return instancegroup.ConnectInfo{ConnectorConfig: *to, InternalAddr: h.Address}.Addr(false)
}

// Create implements instancegroup.Cloud: it takes a free host of the shape.
func (c *cloud) Create(ctx context.Context, order instancegroup.Order) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.ctx); err != nil { // the record is the next process's
		return "", err
	}
	if order.Zone != "" || order.Spot {
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "the hosts of a list are in no zone, and are not spot machines"}
	}
	fits := c.fitting(order.Shape)
	if len(fits) == 0 {
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the list has no host of the shape %q", order.Shape)}
	}
	i := slices.IndexFunc(fits, func(h Host) bool { return c.taken[h.Name] == nil })
	if i < 0 {
		return "", &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("all %d hosts of the list that could be are in use", len(fits))}
	}
	name := fits[i].Name
	u := &use{ID: name + "-" + strings.ToLower(rand.Text()[:8]), Order: order, Created: time.Now().UTC(), Silent: true}
	c.taken[name] = u
	if err := c.save(); err != nil {
		delete(c.taken, name)
		return "", err
	}
	return u.ID, nil
}

// fitting are the hosts of a shape: those where nobody answered the last time come last, so that a dead host keeps nobody waiting while there are others, and of the rest
// the one that was given back longest ago is first: what else may be wrong with a host is not known here. The caller holds the lock.
func (c *cloud) fitting(shape string) (out []Host) {
	for _, h := range c.options.Hosts {
		if shape == "" || h.Shape == shape {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b Host) int {
		last, next := c.left[a.Name], c.left[b.Name]
		if last.Failed != next.Failed {
			if last.Failed {
				return 1
			}
			return -1
		}
		return last.At.Compare(next.At)
	})
	return out
}

// Connect implements instancegroup.Connecter. The runner connects to hosts that run: somebody has answered there.
func (c *cloud) Connect(ctx context.Context, m instancegroup.Machine, _ string, _ *instancegroup.ConnectInfo) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.taken {
		if u.ID == m.ID && u.Silent && c.ctx.Err() == nil {
			u.Silent = false
			_ = c.save() // it is tried again with the next change, and no reason not to connect
		}
	}
	return context.Cause(ctx)
}

// save writes down who has which host. The caller holds the lock.
func (c *cloud) save() error { return instancegroup.Save(c.settings, record, c.taken) }

// Delete implements instancegroup.Cloud: the host goes back to the list, once it is reset. A reset that failed is tried again.
func (c *cloud) Delete(ctx context.Context, id string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	for name, u := range c.taken {
		if u.ID != id || u.resetting {
			continue
		}
		u.Leaving = true
		if err := c.save(); err != nil {
			return err
		}
		return c.leave(name, u)
	}
	return nil
}

// leave brings a host back to the list. The caller holds the lock.
func (c *cloud) leave(name string, u *use) error {
	h, listed := c.host(name)
	if c.options.Reset == "" || !listed {
		return c.free(name)
	}
	u.resetting = c.resets.Go(func() { // else the next process does it
		err := c.reset(h)
		c.mu.Lock()
		defer c.mu.Unlock()
		u.resetting = false
		write := c.save
		switch {
		case c.ctx.Err() != nil: // the next process begins it again
		case err != nil:
			u.Reason = fmt.Sprintf("the host %q was not reset, and is not used until that is done: %v", name, err)
			c.log.Error("a host was not reset", "host", name, "error", err)
		default:
			write = func() error { return c.free(name) }
		}
		if err := write(); err != nil {
			c.log.Error("the record of hosts in use was not written", "error", err)
		}
	})
	return nil
}

// free says that a host is in the list again. The caller holds the lock.
func (c *cloud) free(name string) error {
	c.left[name] = left{At: time.Now().UTC(), Failed: c.taken[name].Silent}
	delete(c.taken, name)
	return errors.Join(instancegroup.Save(c.settings, leftRecord, c.left), c.save())
}

// reset runs the command that makes a host as it was.
func (c *cloud) reset(h Host) error {
	timeout := defaultResetTimeout
	if c.options.ResetTimeout > 0 {
		timeout = time.Duration(c.options.ResetTimeout) * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, timeout, fmt.Errorf("it took more than %s", timeout))
	defer cancel()
	to := c.connector(h)
	where, port, err := net.SplitHostPort(address(h, to))
	if err != nil {
		return err
	}
	client, err := sshclient.Dial(ctx, &sshclient.Target{
		Host: where, Port: port, User: to.Username, Password: to.Password, KeyText: to.Key, Fingerprint: h.HostKey, Record: h.HostKey == "",
	}, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	said, err := session.CombinedOutput(c.options.Reset)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && len(said) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said[max(0, len(said)-maxSaid):]))
	}
	return err
}

// Offers implements instancegroup.Offerer: the shapes of the list.
func (c *cloud) Offers(ctx context.Context) (out []instancegroup.Offer, err error) {
	known := map[string]bool{"": true}
	for _, h := range c.options.Hosts {
		if known[h.Shape] {
			continue
		}
		known[h.Shape] = true
		out = append(out, instancegroup.Offer{
			Shape: h.Shape, OS: h.OS, Arch: h.Arch, CPUs: h.CPUs, Memory: int64(h.Memory), Disk: int64(h.Disk), GPUs: h.GPUs,
		})
	}
	return out, context.Cause(ctx)
}

// Shutdown implements instancegroup.Shutdowner: hosts stay as they are, and what was being reset is reset by the next process.
func (c *cloud) Shutdown(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	c.mu.Lock()
	c.stop() // nothing else is begun, or written down
	c.mu.Unlock()
	if err := c.resets.EndWithin(ctx); err != nil {
		return errors.Join(errors.New("a reset command has not ended"), err)
	}
	return nil
}
