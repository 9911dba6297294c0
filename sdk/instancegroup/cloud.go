package instancegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// Cloud is what the author of a plugin has to say of a cloud; MainCloud makes a group of it. Requests that are repeated, owners, several machines at once, credentials,
// addresses and readiness are done. What the group can do beyond that, the cloud implements: Connecter, Heartbeater, Suspender, Shutdowner, Watcher, Offerer, Meter, Volumer, Volumeless, Schemer.
type Cloud interface {
	// Open prepares the cloud, as Init does for a group.
	Open(ctx context.Context, log Logger, settings Settings) (ProviderInfo, error)
	// Machines are those that there are, with their labels. Machines without Settings.Owner in OwnerLabel are left alone.
	Machines(ctx context.Context) ([]Machine, error)
	// Create asks for one machine and does not wait until it runs. The labels of the order must be on the machine.
	Create(ctx context.Context, order Order) (id string, err error)
	// Delete asks for one machine to be deleted. ErrNotFound is fine.
	Delete(ctx context.Context, id string) error
}

// Machine is one machine of a cloud.
type Machine struct {
	Instance
	// Addresses are all that it has; those that have a port are used as they are, for want of others.
	Addresses []string
	// Probe is an address, host:port, at which somebody must answer before the machine counts as running; empty: it does as the cloud says.
	Probe    string
	HostKeys []string // "SHA256:…", if they are known
	// Connector is how this machine is reached; nil: as all are, with the credentials of the settings.
	Connector *ConnectorConfig
}

// Connecter is a cloud that has something to do before a machine is connected to, or more to say of how.
type Connecter interface {
	// Connect is called with what ConnectInfo is about to return, which it may change (addresses that only it finds out, another user), and with the line of its key for
	// authorized_keys: empty where it has no key. A machine that another process has made knows that process's key, where keys are generated: this one's is new. Without a
	// Connecter, a generated key is kept for the next process.
	Connect(ctx context.Context, machine Machine, publicKey string, info *ConnectInfo) error
}

// Order is one machine that is asked for.
type Order struct {
	Request
	// Name is the same when the request is repeated, and no other machine's: a name, or a token by which the cloud knows that it was asked already.
	Name string
	// PublicKey is the line for authorized_keys; empty where the credentials have no key.
	PublicKey string
}

// NumberLabel is the label with the number of a machine among those of its request.
const NumberLabel = "rung-number"

// MainCloud is Main for a Cloud.
func MainCloud(c Cloud, version VersionInfo) { Main(Group(c), version) }

// Group is a cloud as a group, for programs that have it in themselves.
func Group(c Cloud) Basic { return &machines{cloud: c} }

// atOnce bounds how many machines are made or deleted at the same time.
const atOnce = 8

// machines is a group of a cloud.
type machines struct {
	cloud       Cloud
	settings    Settings
	credentials Credentials
	ready       Readiness

	mu    sync.Mutex
	asked map[string]*asked // by request
	order []string          // of requests
}

// asked is what this process has made for a request: lists may not have it yet.
type asked struct {
	turn    sync.Mutex
	numbers map[string]string // by id
}

// maxAsked is how many requests are remembered, the latest ones: others are found by their labels.
const maxAsked = 1000

// Init implements Basic.
func (m *machines) Init(ctx context.Context, log Logger, settings Settings) (info ProviderInfo, err error) {
	m.settings, m.asked = settings, map[string]*asked{}
	credentials := keptCredentials
	if _, puts := m.cloud.(Connecter); puts { // the key of this process on machines of another one
		credentials = NewCredentials
	}
	if m.credentials, err = credentials(settings); err != nil {
		return info, err
	}
	return m.cloud.Open(ctx, log, settings)
}

// List implements Lister.
func (m *machines) List(ctx context.Context, update func(Instance)) error {
	all, err := m.owned(ctx)
	_ = together(len(all), func(i int) error {
		if one := &all[i]; one.State == StateRunning && one.Probe != "" {
			one.State = m.ready.State(ctx, one.ID, one.Probe)
		}
		return nil
	})
	for _, one := range all {
		update(one.Instance)
	}
	return err
}

// Update implements Basic.
func (m *machines) Update(ctx context.Context, update func(string, State)) error {
	return m.List(ctx, func(i Instance) { update(i.ID, i.State) })
}

// owned are the machines of this owner.
func (m *machines) owned(ctx context.Context) (out []Machine, err error) {
	all, err := m.cloud.Machines(ctx)
	for _, one := range all {
		if Owned(m.settings, one.Labels) {
			one.Request = cmp.Or(one.Request, one.Labels[RequestLabel])
			out = append(out, one)
		}
	}
	return out, err
}

// Increase implements Basic: the runner makes requests.
func (m *machines) Increase(context.Context, int) (int, error) {
	return 0, &Error{Kind: ErrUnsupported, Message: "machines are made for requests"}
}

// IncreaseShape implements ShapeIncreaser.
func (m *machines) IncreaseShape(ctx context.Context, r Request) (ids []string, err error) {
	request := m.request(r.ID)
	request.turn.Lock()
	defer request.turn.Unlock()
	known := request.numbers
	all, err := m.owned(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.Request == r.ID {
			known[one.ID] = one.Labels[NumberLabel]
		}
	}
	lacking := missing(r, known)
	made := make([]string, len(lacking))
	err = together(len(lacking), func(i int) (err error) {
		made[i], err = m.cloud.Create(ctx, order(r, lacking[i], m.credentials.PublicKey))
		return err
	})
	for i, id := range made {
		if id != "" {
			known[id] = lacking[i]
		}
	}
	return slices.Sorted(maps.Keys(known)), err
}

// missing are the numbers of the machines of a request that were not made.
func missing(r Request, known map[string]string) (out []string) {
	used := map[string]bool{}
	for _, number := range known {
		used[number] = true
	}
	for n := 1; len(out) < r.Count-len(known); n++ {
		if number := strconv.Itoa(n); !used[number] {
			out = append(out, number)
		}
	}
	return out
}

// order is that of one machine of a request.
func order(r Request, number, publicKey string) Order {
	r.Labels = maps.Clone(r.Labels)
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	r.Labels[NumberLabel] = number
	return Order{Request: r, Name: r.ID + "-" + number, PublicKey: publicKey}
}

// request is what was made for a request. The holder of its turn may change it.
func (m *machines) request(id string) *asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.asked[id]; one != nil {
		return one
	}
	if len(m.order) == maxAsked {
		delete(m.asked, m.order[0])
		m.order = m.order[1:]
	}
	m.asked[id] = &asked{numbers: map[string]string{}}
	m.order = append(m.order, id)
	return m.asked[id]
}

// Decrease implements Basic.
func (m *machines) Decrease(ctx context.Context, ids []string) (succeeded []string, err error) {
	var mu sync.Mutex
	err = together(len(ids), func(i int) error {
		if err := m.cloud.Delete(ctx, ids[i]); err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("deleting %s: %w", ids[i], err)
		}
		m.ready.Forget(ids[i])
		mu.Lock()
		defer mu.Unlock()
		succeeded = append(succeeded, ids[i])
		return nil
	})
	return succeeded, err
}

// ConnectInfo implements Basic.
func (m *machines) ConnectInfo(ctx context.Context, id string) (info ConnectInfo, err error) {
	all, err := m.owned(ctx)
	if err != nil {
		return info, err
	}
	for _, one := range all {
		if one.ID != id {
			continue
		}
		info = ConnectInfo{ConnectorConfig: m.credentials.Connector, ID: id, HostKeys: one.HostKeys}
		if one.Connector != nil {
			info.ConnectorConfig = *one.Connector
		}
		if info.InternalAddr, info.ExternalAddr = Addresses(false, one.Addresses...); info.InternalAddr == "" && info.ExternalAddr == "" && len(one.Addresses) > 0 {
			info.InternalAddr = one.Addresses[0]
		}
		if c, ok := m.cloud.(Connecter); ok {
			err = c.Connect(ctx, one, m.credentials.PublicKey, &info)
		}
		if err == nil && info.InternalAddr == "" && info.ExternalAddr == "" {
			err = Transient(0, fmt.Errorf("the machine %s has no address yet", id))
		}
		return info, err
	}
	return info, &Error{Kind: ErrNotFound, Message: "there is no machine " + id}
}

// Owned reports whether an instance with these labels is of the group's owner.
func Owned(settings Settings, labels map[string]string) bool {
	return labels[OwnerLabel] == settings.Owner
}

// together does something n times, several at once, and returns all errors.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
