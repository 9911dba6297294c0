package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group/local/machine"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/internal/background"
	"github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	// maxKeys is how many keys a machine lets in: those of this process, and of the last ones before it, which may still be there.
	maxKeys = 4
	// firstUser and users are the numbers of users that root gives to machines: far from those of people and of containers.
	firstUser, users = 0x70000000, 1 << 24
	private          = 0o700
	recordFile       = "machine.json"
)

// endsWith is a process with which machines end, for tests; nil: with none.
var endsWith *machine.Process

// cloud is the machines of a folder.
type cloud struct {
	storage     *storage
	box         *machine.Box // what machines are made of; nil: processes
	options     Options
	log         instancegroup.Logger
	settings    instancegroup.Settings
	credentials instancegroup.Credentials
	folder      string
	with        *machine.Process // with which machines end; nil: with none
	slirp       string           // the program, where machines have networks by it
	tree        *cgroup.Tree     // nil: nothing bounds machines

	mu       sync.Mutex
	machines map[string]*record // by id
	ending   background.Group
	ctx      context.Context // of what ends machines
	stop     context.CancelFunc
}

// record is what is known of a machine, and is on disk from before it is made.
type record struct {
	ID        string              `json:"id"`
	Order     instancegroup.Order `json:"order"`
	Created   time.Time           `json:"created"`
	UID       int                 `json:"uid"`
	Address   string              `json:"address"`
	Keeper    machine.Process     `json:"keeper"`
	Keys      []string            `json:"keys"` // lines of authorized_keys, the latest first
	Group     *cgroup.Group       `json:"group,omitempty"`
	Suspended bool                `json:"suspended,omitempty"`
	// Leaving says that it is to be removed.
	Leaving bool `json:"leaving,omitempty"`

	removing bool
	reason   string // why it is still there
}

// Connect implements instancegroup.Connecter. Machines have got the key of this process already, so that none is kept.
func (c *cloud) Connect(context.Context, instancegroup.Machine, string, *instancegroup.ConnectInfo) error {
	return nil
}

// Open implements instancegroup.Cloud.
func (c *cloud) Open(ctx context.Context, log instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	c.log, c.settings, c.machines = log, settings, map[string]*record{}
	if !c.options.boxed() {
		if err := machine.Possible(); err != nil {
			return info, err
		}
	}
	if c.with = endsWith; c.options.EndWith > 0 {
		process, err := machine.Of(c.options.EndWith)
		if err != nil {
			return info, options.At(err.Error(), "end_with")
		}
		c.with = &process
	}
	if c.credentials, err = instancegroup.NewCredentials(settings); err != nil {
		return info, err
	}
	if c.credentials.PublicKey == "" {
		return info, errors.New("machines on this host let in keys, and no passwords: give connector_config a key_path, or leave use_static_credentials out")
	}
	to := &c.credentials.Connector
	to.OS, to.Arch, to.Username, to.ProtocolPort = runtime.GOOS, runtime.GOARCH, machine.User, 0
	c.folder = c.options.Folder
	if c.folder == "" && settings.State != "" {
		c.folder = filepath.Join(settings.State, "machines")
	}
	if c.folder == "" {
		return info, options.At("it is needed, as the group has no state folder", "folder")
	}
	if c.folder, err = filepath.Abs(c.folder); err != nil {
		return info, err
	}
	if err := os.MkdirAll(c.folder, private); err != nil {
		return info, options.At(err.Error(), "folder")
	}
	if c.options.boxed() {
		err = c.findBox(ctx)
	} else {
		c.findNetwork()
		c.findLimits()
	}
	if err != nil {
		return info, err
	}
	if err := c.adopt(); err != nil {
		return info, err
	}
	return instancegroup.ProviderInfo{
		ID: "local/" + settings.Owner, MaxSize: c.maxSize(), Capabilities: []instancegroup.Capability{instancegroup.CapabilitySuspendResume},
	}, nil
}

func (c *cloud) maxSize() int { return cmp.Or(c.options.MaxSize, runtime.NumCPU()) }

// findNetwork finds what networks of machines lead on by.
func (c *cloud) findNetwork() {
	if cmp.Or(c.options.Network, NetworkOwn) != NetworkOwn {
		return
	}
	program, err := exec.LookPath("slirp4netns")
	if err != nil {
		c.log.Warn("machines have no network that leads on: install slirp4netns, or set the option network to host or none", "error", err)
		return
	}
	c.slirp = program
}

// findLimits finds where shapes can be held.
func (c *cloud) findLimits() {
	if len(c.options.Shapes) == 0 {
		return
	}
	tree, err := cgroup.Open()
	if err != nil {
		c.log.Warn("nothing keeps machines to the processors and memory of their shapes", "error", err)
		return
	}
	c.tree = tree
}

// adopt finds the machines of processes before this one, and lets this one in.
func (c *cloud) adopt() error {
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return err
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		r := &record{}
		text, err := os.ReadFile(c.path(e.Name(), recordFile))
		if err == nil {
			err = json.Unmarshal(text, r)
		}
		if err != nil || r.ID != e.Name() { // killed before there was a record, and so before there was a machine
			c.log.Warn("a folder of machines holds no machine, and is removed", "folder", c.path(e.Name()), "error", err)
			_ = os.RemoveAll(c.path(e.Name()))
			continue
		}
		if !instancegroup.Owned(c.settings, r.Order.Labels) {
			c.log.Warn("a machine in the folder is another owner's, and is left alone", "machine", r.ID)
			continue
		}
		c.machines[r.ID] = r
		if r.Leaving {
			c.remove(r)
			continue
		}
		others := slices.DeleteFunc(r.Keys, func(key string) bool { return key == c.credentials.PublicKey })
		r.Keys = append([]string{c.credentials.PublicKey}, others[:min(len(others), maxKeys-1)]...)
		if err := errors.Join(c.save(r), machine.Authorize(c.path(r.ID), r.keys())); err != nil {
			c.log.Warn("a machine of before lets nobody in", "machine", r.ID, "error", err)
		}
	}
	return nil
}

func (r *record) keys() string { return strings.Join(r.Keys, "\n") + "\n" }

func (c *cloud) path(names ...string) string {
	return filepath.Join(append([]string{c.folder}, names...)...)
}

// save writes a record down. The caller holds the lock.
func (c *cloud) save(r *record) error {
	const secret = 0o600
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return wholefile.WriteSynced(c.path(r.ID, recordFile), secret, text)
}

// Machines implements instancegroup.Cloud.
func (c *cloud) Machines(ctx context.Context) (out []instancegroup.Machine, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.machines)) {
		r := c.machines[id]
		m := instancegroup.Machine{Addresses: []string{r.Address}, Connector: &c.credentials.Connector, Instance: instancegroup.Instance{
			ID: r.ID, Shape: r.Order.Shape, Labels: r.Order.Labels, Request: r.Order.ID, Created: r.Created,
		}}
		var hostKey string
		m.State, m.Reason, hostKey = c.state(r)
		if hostKey != "" {
			m.HostKeys = []string{hostKey}
		}
		out = append(out, m)
	}
	return out, nil
}

// state is what a machine does. The caller holds the lock.
func (c *cloud) state(r *record) (state instancegroup.State, reason, hostKey string) {
	if r.Leaving {
		return instancegroup.StateDeleting, r.reason, ""
	}
	end, ended, err := machine.ReadEnd(c.path(r.ID))
	status, known, errStatus := machine.ReadStatus(c.path(r.ID))
	switch {
	case err != nil || errStatus != nil:
		return instancegroup.StateFailed, errors.Join(err, errStatus).Error(), ""
	case ended:
		return instancegroup.StateFailed, end.Reason, ""
	case r.Keeper.PID == 0:
		return instancegroup.StateFailed, "the process that was making it has ended", ""
	case !r.Keeper.Lives():
		if end, ended, _ := machine.ReadEnd(c.path(r.ID)); ended { // since it was looked for
			return instancegroup.StateFailed, end.Reason, ""
		}
		return instancegroup.StateFailed, fmt.Sprintf("its keeper (process %d) was killed, or this host has restarted", r.Keeper.PID), ""
	case known && r.Suspended:
		return instancegroup.StateSuspended, "", status.HostKey
	case known && status.HostKey != "":
		return instancegroup.StateRunning, "", status.HostKey
	}
	return instancegroup.StateCreating, "", ""
}

// Create implements instancegroup.Cloud.
func (c *cloud) Create(ctx context.Context, order instancegroup.Order) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if err := c.fits(order); err != nil {
		return "", err
	}
	r := &record{ID: "local-" + strings.ToLower(rand.Text()[:10]), Order: order, Created: time.Now().UTC(), Keys: []string{c.credentials.PublicKey}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.ctx); err != nil { // the next process has found the machines that there are
		return "", err
	}
	if len(c.machines) >= c.maxSize() {
		return "", &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("there are %d machines already, and max_size is %d", len(c.machines), c.maxSize())}
	}
	r.UID = c.freeUser()
	if err := errors.Join(os.Mkdir(c.path(r.ID), private), c.save(r)); err != nil {
		return "", errors.Join(err, os.RemoveAll(c.path(r.ID)))
	}
	c.machines[r.ID] = r
	if err := c.start(r); err != nil {
		r.Leaving = true
		c.remove(r)
		return "", fmt.Errorf("making the machine %s: %w", r.ID, err)
	}
	return r.ID, nil
}

// fits refuses what there is none of.
func (c *cloud) fits(order instancegroup.Order) error {
	if _, known := c.options.Shapes[order.Shape]; !known && order.Shape != "" {
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the options have no shape %q", order.Shape)}
	}
	if order.Zone != "" || order.Spot {
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "machines of this host are in no zone, and are not spot machines"}
	}
	return nil
}

// freeUser is the number of a user that no machine of the folder has: this program's own, but root's, who can be others. The caller holds the lock.
func (c *cloud) freeUser() int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	for {
		var random [4]byte
		_, _ = rand.Read(random[:]) // never fails
		id := firstUser + int(uint32(random[0])<<16|uint32(random[1])<<8|uint32(random[2]))%users
		if !slices.ContainsFunc(slices.Collect(maps.Values(c.machines)), func(r *record) bool { return r.UID == id }) {
			return id
		}
	}
}

// start starts a machine that is on record. The caller holds the lock.
func (c *cloud) start(r *record) error {
	config := machine.Config{
		Name: r.ID, UID: r.UID, GID: r.UID, Alone: c.options.Network != NetworkHost, Leads: c.slirp, Paths: c.options.Paths, With: c.with,
		Box: c.boxFor(r),
	}
	if os.Geteuid() != 0 {
		config.GID = os.Getegid()
	}
	if err := machine.Prepare(c.path(r.ID), config, r.keys()); err != nil {
		return err
	}
	folder, launch, err := c.bound(r)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	r.Address = listener.Addr().String()
	keeper, reap, err := machine.Start(c.path(r.ID), listener.(*net.TCPListener), folder, launch)
	if reap != nil {
		go reap()
	}
	if err != nil {
		return err
	}
	r.Keeper = keeper
	return c.save(r)
}

// bound makes the control group of a machine with a shape, which is on record before it is made.
func (c *cloud) bound(r *record) (folder string, launch func([]string) []string, err error) {
	shape, sized := c.options.Shapes[r.Order.Shape]
	if c.tree == nil || !sized {
		return "", nil, nil
	}
	if r.Group, err = c.tree.Group("", r.ID); err != nil {
		return "", nil, err
	}
	if err := c.save(r); err != nil {
		return "", nil, err
	}
	if err := r.Group.Make(); err != nil {
		return "", nil, err
	}
	if err := r.Group.Limit(cgroup.Limits{CPU: shape.CPUs, Memory: int64(shape.Memory)}); err != nil {
		return "", nil, err
	}
	if folder, is := r.Group.Folder(); is {
		return folder, nil, nil
	}
	return "", r.Group.Launch, nil
}

// Offers implements instancegroup.Offerer: the shapes of the options.
func (c *cloud) Offers(ctx context.Context) (out []instancegroup.Offer, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.options.Shapes)) {
		s := c.options.Shapes[name]
		out = append(out, instancegroup.Offer{Shape: name, OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: s.CPUs, Memory: int64(s.Memory)})
	}
	return out, context.Cause(ctx)
}

// Heartbeat implements instancegroup.Heartbeater.
func (c *cloud) Heartbeat(ctx context.Context, id string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.machines[id]
	if r == nil {
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no machine " + id}
	}
	if state, reason, _ := c.state(r); state != instancegroup.StateRunning {
		return &instancegroup.Error{Kind: instancegroup.ErrInstanceUnhealthy, Message: strings.TrimSuffix(fmt.Sprintf("it is %s: %s", state, reason), ": ")}
	}
	return nil
}

// Shutdown implements instancegroup.Shutdowner: machines stay, and what is being removed is removed by the next process.
func (c *cloud) Shutdown(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	c.mu.Lock()
	c.stop() // nothing else is begun, or written down
	c.mu.Unlock()
	return c.ending.EndWithin(ctx)
}
