package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"
	"google.golang.org/api/oslogin/v1"

	"github.com/rungci/rung/sdk/instancegroup"
)

// cloud is a project of Google Cloud, with one source of machines.
type cloud struct {
	Options

	settings instancegroup.Settings
	log      instancegroup.Logger
	api      *compute.Service
	logins   *oslogin.Service
	calls    instancegroup.Limiter
	source   source
	template *compute.InstanceProperties
	offers   []instancegroup.Offer
	prefix   string   // of the names of instances of this owner
	zones    []string // those in which instances can be
	login    login
	hostKeys remembered[[]string]
	reasons  remembered[event]
	expiries remembered[time.Time] // of the keys of new instances, by order

	volumePrefix string              // of the names of the disks of this owner's volumes
	turns        instancegroup.Turns // at volumes
	touched      recent              // ids of volumes
	usedUp       remembered[int]     // how many request ids were used up for a call about a disk
	diskSizes    remembered[string]  // of the volume type, by zone

	mu      sync.Mutex
	key     string            // that was put into the metadata of an instance
	where   map[string]string // the zones of instances, by name
	asked   map[string]int    // how many request ids were used up, by what they ask for
	pending map[string]*insert
	ending  map[string]time.Time // when instances were asked to end
}

// source makes and ends machines: a managed instance group, or the zones of single instances.
type source interface {
	// open checks the source, and returns the zones that its instances can be in and the URL of their template.
	open(ctx context.Context) (zones []string, template string, err error)
	// list corrects and completes what the lists of instances say, by name.
	list(ctx context.Context, found map[string]*instancegroup.Machine) error
	create(ctx context.Context, name string, order instancegroup.Order) error
	remove(ctx context.Context, zone, name string) error
	suspend(ctx context.Context, zone, name string) error
	resume(ctx context.Context, zone, name string) error
	// path names the source within the project.
	path() string
}

// Open implements instancegroup.Cloud.
func (c *cloud) Open(ctx context.Context, log instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	c.log, c.settings = log, settings
	if err := c.check(); err != nil {
		return info, err
	}
	c.calls.PerSecond = c.CallsPerSecond
	c.where, c.asked, c.pending, c.ending = map[string]string{}, map[string]int{}, map[string]*insert{}, map[string]time.Time{}
	hash := sha256.Sum256([]byte(settings.Owner))
	c.prefix = "rung-" + hex.EncodeToString(hash[:4]) + "-"
	c.volumePrefix = "rung-volume-" + hex.EncodeToString(hash[:4]) + "-" // boot disks have the names of their instances
	if err := c.connect(ctx); err != nil {
		return info, err
	}
	if c.Name != "" {
		c.source = &managed{cloud: c}
	} else {
		c.source = &single{cloud: c, short: map[string]time.Time{}}
	}
	url := ""
	if c.zones, url, err = c.source.open(ctx); err != nil {
		return info, err
	}
	if c.template, err = c.readTemplate(ctx, url); err != nil {
		return info, err
	}
	if c.offers, err = c.findOffers(ctx); err != nil {
		return info, err
	}
	if err := c.checkVolumeType(ctx); err != nil {
		return info, err
	}
	return instancegroup.ProviderInfo{
		ID: "googlecloud/" + c.Project + "/" + c.source.path(), MaxSize: c.MaxSize, Capabilities: []instancegroup.Capability{instancegroup.CapabilitySuspendResume},
	}, c.openLogin(ctx)
}

// connect makes the clients of the APIs.
func (c *cloud) connect(ctx context.Context) error {
	auth, err := c.credentials()
	if err != nil {
		return err
	}
	with := func(endpoint string) []option.ClientOption {
		options := append([]option.ClientOption{option.WithUserAgent("rung-group-plugin-googlecloud")}, auth...)
		if endpoint != "" {
			options = append(options, option.WithEndpoint(endpoint))
		}
		return options
	}
	if c.api, err = compute.NewService(ctx, with(c.Endpoint)...); err == nil && c.OSLogin {
		c.logins, err = oslogin.NewService(ctx, with(c.OSLoginEndpoint)...)
	}
	if err != nil {
		return &instancegroup.Error{Kind: instancegroup.ErrUnauthorised, Message: fmt.Sprintf(`no credentials for Google Cloud: %v; set "credentials_file", or run on a machine with a service account`, err), Err: err}
	}
	return nil
}

// do makes one call of the API, in its turn, and again if that may help.
func do[T any](ctx context.Context, c *cloud, what string, call func(ctx context.Context) (T, error)) (out T, err error) {
	err = c.calls.Do(ctx, func(ctx context.Context) (err error) {
		out, err = call(ctx)
		return failure(ctx, what, err)
	})
	return out, err
}

// name is that of the instance of an order: the same whenever the order is repeated.
func (c *cloud) name(order instancegroup.Order) string {
	hash := sha256.Sum256([]byte(c.settings.Owner + "/" + order.Name))
	return c.prefix + hex.EncodeToString(hash[:10])
}

// Machines implements instancegroup.Cloud.
func (c *cloud) Machines(ctx context.Context) ([]instancegroup.Machine, error) {
	found, err := c.instances(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.source.list(ctx, found); err != nil {
		return nil, err
	}
	if err := c.awaited(ctx, found); err != nil {
		return nil, err
	}
	out := make([]instancegroup.Machine, 0, len(found))
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range found {
		if m.Zone != "" && c.pending[name] == nil {
			c.where[name] = m.Zone
		}
		out = append(out, *m)
	}
	for name := range c.where {
		if found[name] == nil {
			delete(c.where, name)
		}
	}
	for name, at := range c.ending {
		if time.Since(at) > endingTime {
			delete(c.ending, name)
		}
	}
	return out, nil
}

// instances are those of this owner in all zones, by name.
func (c *cloud) instances(ctx context.Context) (map[string]*instancegroup.Machine, error) {
	found := map[string]*instancegroup.Machine{}
	var mu sync.Mutex
	var all sync.WaitGroup
	errs := make([]error, len(c.zones))
	for i, zone := range c.zones {
		all.Go(func() {
			page := func(token string) (next string, err error) {
				list, err := do(ctx, c, "the instances of "+zone, func(ctx context.Context) (*compute.InstanceList, error) {
					return c.api.Instances.List(c.Project, zone).Filter("name eq " + c.prefix + ".*").PageToken(token).Context(ctx).Do()
				})
				if err != nil {
					return "", err
				}
				for _, i := range list.Items {
					m, ours, err := c.machine(ctx, i)
					if err != nil {
						return "", err
					}
					if ours {
						mu.Lock()
						found[i.Name] = m
						mu.Unlock()
					}
				}
				return list.NextPageToken, nil
			}
			errs[i] = pages(page)
		})
	}
	all.Wait()
	return found, errors.Join(errs...)
}

// pages reads all pages of a list.
func pages(page func(token string) (next string, err error)) error {
	for token := ""; ; {
		next, err := page(token)
		if err != nil || next == "" {
			return err
		}
		token = next
	}
}

// Create implements instancegroup.Cloud.
func (c *cloud) Create(ctx context.Context, order instancegroup.Order) (string, error) {
	if order.PublicKey != "" && c.settings.Username == "" && !c.OSLogin && !c.settings.UseStaticCredentials {
		return "", errors.New("username of connector_config is not set: it names the user of the instances that the key is for")
	}
	if order.Shape != "" && !c.offered(order.Shape) {
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf(`the machine type %q is not among those of the option "machine_types", or in none of the zones`, order.Shape)}
	}
	name := c.name(order)
	if err := c.source.create(ctx, name, order); err != nil {
		return "", err
	}
	return name, nil
}

// Delete implements instancegroup.Cloud.
func (c *cloud) Delete(ctx context.Context, name string) error {
	zone, err := c.zone(ctx, name)
	if c.dropFailed(name) {
		return nil
	}
	if err == nil {
		err = c.source.remove(ctx, zone, name)
	}
	if err != nil {
		return err
	}
	c.hostKeys.forget(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending[name] = time.Now()
	return nil
}

// zone is where an instance is; empty, where its group has not chosen yet.
func (c *cloud) zone(ctx context.Context, name string) (string, error) {
	c.mu.Lock()
	zone := c.where[name]
	c.mu.Unlock()
	if zone != "" {
		return zone, nil
	}
	all, err := c.Machines(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[name] != nil {
		return "", instancegroup.Transient(0, fmt.Errorf("the instance %s is being made, and is in no list yet", name))
	}
	for _, m := range all {
		if m.ID == name {
			return m.Zone, nil
		}
	}
	return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "there is no instance " + name}
}

// endingTime is for how long an instance that was asked to end counts as one that does, whatever a list says.
const endingTime = 2 * time.Minute

// isEnding reports whether an instance was asked to end a short while ago.
func (c *cloud) isEnding(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, asked := c.ending[name]
	return asked && time.Since(at) <= endingTime
}

// Suspend implements instancegroup.Suspender.
func (c *cloud) Suspend(ctx context.Context, names []string) ([]string, error) {
	return c.each(ctx, "suspending", names, c.source.suspend)
}

// Resume implements instancegroup.Suspender.
func (c *cloud) Resume(ctx context.Context, names []string) ([]string, error) {
	return c.each(ctx, "resuming", names, c.source.resume)
}

// each does something with each instance, and returns those with which it worked.
func (c *cloud) each(ctx context.Context, what string, names []string, act func(ctx context.Context, zone, name string) error) (done []string, err error) {
	for _, name := range names {
		zone, failed := c.zone(ctx, name)
		if failed == nil {
			failed = act(ctx, zone, name)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s %s: %w", what, name, failed))
			continue
		}
		done = append(done, name)
	}
	return done, err
}

// Metrics implements instancegroup.Meter.
func (c *cloud) Metrics(context.Context) ([]instancegroup.Metric, error) {
	return c.calls.Metrics(), nil
}

// labelsItem is the item of an instance's metadata that has its labels, as they were asked for: labels of Google Cloud have no upper case.
const labelsItem = "rung-labels"

// labelsOf are the labels that an instance was made with; nil: it is not ours.
func labelsOf(items []*compute.MetadataItems) (labels map[string]string) {
	text := item(items, labelsItem)
	if text == "" || json.Unmarshal([]byte(text), &labels) != nil {
		return nil
	}
	return labels
}
