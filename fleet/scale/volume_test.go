package scale_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// disks are the volumes of a cloud. They check what must always hold of volumes: each is on one machine at a time, is not taken from a job that has it, and
// is out of reach of every other tenant's.
type disks struct {
	all     map[string]*disk // by id
	made    int
	using   map[string]string          // the volume's id by the job's key
	tenants map[string]string          // of jobs, by key
	ran     map[string]map[string]bool // tenants whose jobs have run on a machine, by request
	calls   []scale.VolumeRecord       // that were not carried out, while the cloud holds
	shared  bool
}

type disk struct {
	id, request, on string
	tenant          string
	epoch, fence    uint64 // of the attachment; attachments up to the second come too late
}

func newDisks() disks {
	return disks{all: map[string]*disk{}, using: map[string]string{}, tenants: map[string]string{}, ran: map[string]map[string]bool{}}
}

// disk carries out what is to be done to a volume, or keeps it for later.
func (c *cloud) disk(a scale.Action) {
	c.t.Helper()
	if a.Why == "" {
		c.t.Fatalf("%s without a reason", a.Kind)
	}
	for _, rec := range c.fleet.VolumeRecords() {
		if rec.Name != a.Volume {
			continue
		}
		if a.Kind != scale.CreateVolume && a.Kind != scale.AttachVolume {
			for key, id := range c.using {
				if id == rec.ID {
					c.t.Fatalf("%s of %s, which %s has", a.Kind, rec.Name, key)
				}
			}
		}
		if c.hold {
			c.calls = append(c.calls, rec)
		} else {
			c.disks.apply(c, rec)
		}
	}
}

// apply carries out a call, as it was made, and answers.
func (d *disks) apply(c *cloud, rec scale.VolumeRecord) {
	c.t.Helper()
	one := d.all[rec.ID]
	if one == nil && rec.State != scale.VolumeCreating {
		c.fleet.VolumeFailed(c.now, rec, scale.Failure{Kind: scale.NotFound})
		return
	}
	switch rec.State {
	case scale.VolumeCreating:
		for _, other := range d.all {
			if other.request == rec.Request {
				one = other
			}
		}
		if one == nil {
			d.made++
			one = &disk{id: fmt.Sprint("vol-", d.made), request: rec.Request, tenant: rec.Name}
			d.all[one.id] = one
		}
		c.fleet.VolumeCreated(c.now, rec.Name, rec.Request, one.id, "")
	case scale.VolumeAttaching:
		d.attach(c, one, rec)
	case scale.VolumeDetaching:
		if one.epoch <= rec.Epoch { // else it is about an earlier attachment
			one.on, one.fence = "", max(one.fence, rec.Epoch)
		}
		c.fleet.VolumeDetached(c.now, rec)
	case scale.VolumeDeleting:
		if one.on != "" {
			c.fleet.VolumeFailed(c.now, rec, scale.Failure{})
			return
		}
		delete(d.all, one.id)
		c.fleet.VolumeDeleted(c.now, rec)
	}
}

func (d *disks) attach(c *cloud, one *disk, rec scale.VolumeRecord) {
	c.t.Helper()
	m := c.machines[rec.Machine]
	switch {
	case m == nil || m.id == "":
		c.fleet.VolumeFailed(c.now, rec, scale.Failure{Kind: scale.NotFound})
	case rec.Epoch <= one.fence:
		c.fleet.VolumeFailed(c.now, rec, scale.Failure{Kind: scale.Unauthorized})
	case one.on != "" && one.on != rec.Machine:
		c.t.Fatalf("%s is to be attached to %s, and is on %s", one.id, rec.Machine, one.on)
	default:
		for tenant := range d.ran[rec.Machine] {
			if tenant != rec.Name && !c.pools[m.pool].Apart {
				c.t.Fatalf("%s of %s comes to %s, where a job of %s has run", one.id, rec.Name, rec.Machine, tenant)
			}
		}
		one.on, one.epoch = rec.Machine, rec.Epoch
		c.fleet.VolumeAttached(c.now, rec, "/volumes/"+rec.ID)
	}
}

// begins is a job that begins on a machine.
func (c *cloud) begins(a scale.Action) {
	c.t.Helper()
	tenant := c.tenants[a.Key]
	if c.ran[a.Request] == nil {
		c.ran[a.Request] = map[string]bool{}
	}
	c.ran[a.Request][tenant] = true
	records := map[string]scale.VolumeRecord{}
	for _, rec := range c.fleet.VolumeRecords() {
		records[rec.ID] = rec
	}
	for _, one := range c.all {
		if one.on == a.Request && !c.pools[a.Pool].Apart && records[one.id].Name != tenant {
			c.t.Fatalf("%s of %s begins on %s, which has %s of %s", a.Key, tenant, a.Request, one.id, records[one.id].Name)
		}
		if a.Volume == "" || records[one.id].Name != a.Volume {
			continue
		}
		if a.Volume != tenant || one.on != a.Request {
			c.t.Fatalf("%s of %s begins on %s with %s of %s, which is on %q", a.Key, tenant, a.Request, one.id, a.Volume, one.on)
		}
		if other := slices.Collect(maps.Values(c.using)); slices.Contains(other, one.id) && !c.shared {
			c.t.Fatalf("%s has %s, which another job has", a.Key, one.id)
		}
		c.using[a.Key] = one.id
	}
	if a.Volume != "" && c.using[a.Key] == "" {
		c.t.Fatalf("%s begins with the volume of %s, which does not exist", a.Key, a.Volume)
	}
}

// gone is a machine that its cloud has ended, which frees its volumes.
func (d *disks) gone(request string) {
	for _, one := range d.all {
		if one.on == request {
			one.on = ""
		}
	}
	for key := range d.ran {
		if key == request {
			delete(d.ran, key)
		}
	}
}

// listDisks tells the fleet all volumes, as they are.
func (c *cloud) listDisks() {
	var list []scale.SeenVolume
	for _, id := range slices.Sorted(maps.Keys(c.all)) {
		s := scale.SeenVolume{ID: id, Request: c.all[id].request, Tenant: c.all[id].tenant}
		if m := c.machines[c.all[id].on]; m != nil {
			s.Instance = m.id
		}
		list = append(list, s)
	}
	c.fleet.VolumesListed(c.now, "", "small", list)
}

// answerDisk carries out a call about a volume, late or twice or not at all, or fails it.
func (r *random) answerDisk() {
	if len(r.calls) == 0 {
		return
	}
	i := r.dice.IntN(len(r.calls))
	call := r.calls[i]
	if r.dice.IntN(8) > 0 { // else it comes again
		r.calls = append(r.calls[:i], r.calls[i+1:]...)
	}
	switch r.dice.IntN(5) {
	case 0: // nobody hears of it
	case 1:
		r.fleet.VolumeFailed(r.now, call, scale.Failure{Kind: scale.FailureKind(r.dice.IntN(4))})
	default:
		r.disks.apply(r.cloud, call)
	}
}

// world is a cloud with volumes for at most two tenants.
func world(t *testing.T, change func(*scale.Config)) *cloud {
	t.Helper()
	pool := small()
	pool.Volumes = true
	config := scale.Config{Name: "f", Pools: []scale.Pool{pool}, Volumes: scale.Volumes{Max: 2, Idle: time.Hour}}
	if change != nil {
		change(&config)
	}
	c := newCloud(t, &scale.Adaptive{Worth: 1, Linger: 10 * time.Minute}, config.Pools...)
	var err error
	if c.fleet, err = scale.New(config, &scale.Adaptive{Worth: 1, Linger: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	return c
}

// of asks for a machine for a job of a tenant, and its volume.
func (c *cloud) of(key, tenant string) {
	c.t.Helper()
	c.tenants[key] = tenant
	c.ask(key, scale.Needs{Tenant: tenant, Volume: true})
	c.pass(0)
	c.boot()
	c.pass(time.Second)
}

// where is the machine of a job that runs.
func (c *cloud) where(key string) string {
	c.t.Helper()
	if c.jobs[key] == nil {
		c.t.Fatalf("%s does not run: %s", key, c.fleet.ExplainJob(c.now, key))
	}
	return c.jobs[key].request
}

func (c *cloud) explains(key, want string) {
	c.t.Helper()
	if got := c.fleet.ExplainJob(c.now, key); !strings.Contains(got, want) {
		c.t.Errorf("%s: %q does not say %q", key, got, want)
	}
}

func TestAJobPrefersTheMachineThatHasItsVolume(t *testing.T) {
	t.Parallel()
	c := world(t, nil)
	c.of("a", "web")
	c.of("b", "app")
	a, b := c.where("a"), c.where("b")
	c.release("a")
	c.pass(time.Second)
	c.release("b") // whose machine was used last, and would be the next
	c.pass(time.Second)
	c.of("again", "web")
	if c.where("again") != a || c.using["again"] == "" {
		t.Errorf("it runs on %s with %q, and its volume is on %s", c.where("again"), c.using["again"], a)
	}
	c.explains("again", "with volume web")
	c.of("other", "app")
	if c.where("other") != b || c.count(scale.AttachVolume) != 2 {
		t.Errorf("it runs on %s, not on %s, after %d attachments", c.where("other"), b, c.count(scale.AttachVolume))
	}
}

func TestASecondJobRunsWithoutTheVolumeOrSharesIt(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		c := world(t, func(config *scale.Config) {
			config.Volumes.Shared = shared
			config.Pools[0].Slots, config.Pools[0].Apart = 2, true
		})
		c.shared = shared
		c.of("a", "web")
		c.of("b", "web")
		if got := c.using["b"] != ""; got != shared || c.where("a") != c.where("b") {
			t.Errorf("shared %t: the second has the volume: %t", shared, got)
		}
		if !shared {
			c.explains("b", "without its volume: another job has it")
		}
	}
}

func TestAVolumeIsTakenFromAMachineBeforeAnotherProjectsJobBegins(t *testing.T) {
	t.Parallel()
	c := world(t, func(config *scale.Config) { config.Pools[0].MaxInstances = 1 })
	c.of("a", "web")
	c.release("a")
	c.hold = true
	c.tenants["b"] = "app"
	c.ask("b", scale.Needs{Tenant: "app", Volume: true})
	c.pass(time.Second)
	if c.jobs["b"] != nil {
		t.Fatal("it begins beside the volume of another project")
	}
	c.explains("b", "the volume web of another project is detached first")
	c.hold = false
	for _, call := range c.calls {
		c.disks.apply(c, call)
	}
	c.decide()
	c.pass(time.Second)
	c.where("b")
	c.explains("b", "without a volume")
}

func TestAMachineThatKeepsAnothersVolumeGoes(t *testing.T) {
	t.Parallel()
	c := world(t, func(config *scale.Config) { config.Pools[0].MaxInstances = 1 })
	c.of("a", "web")
	first := c.where("a")
	c.release("a")
	c.hold = true // the volume cannot be detached
	c.tenants["b"] = "app"
	c.ask("b", scale.Needs{Tenant: "app"})
	c.pass(2 * time.Minute)
	if !c.deleting[first] {
		t.Fatal("the job starves")
	}
}

func TestAJobWaitsForItsVolumeOnlySoLong(t *testing.T) {
	t.Parallel()
	c := world(t, nil)
	c.tenants["a"] = "web"
	c.ask("a", scale.Needs{Tenant: "web", Volume: true})
	c.pass(0)
	c.boot()
	c.hold = true
	c.pass(30 * time.Second)
	c.explains("a", "its volume web is creating")
	c.pass(time.Minute)
	c.where("a")
	c.explains("a", "without its volume: it was not attached in time")
}

func TestAVolumeOfALostMachineStaysThereUntilItsGroupSaysOtherwise(t *testing.T) {
	t.Parallel()
	c := world(t, nil)
	c.of("a", "web")
	c.hold = true
	c.fleet.Failed(c.now, c.where("a"), "it does not answer")
	c.pass(time.Second)
	c.tenants["b"] = "web"
	c.ask("b", scale.Needs{Tenant: "web", Volume: true})
	c.pass(time.Second)
	c.hold = false
	for _, a := range c.asked {
		if a.Kind == scale.Create {
			c.carryOut(a)
		}
	}
	c.hold = true
	c.boot()
	c.pass(10 * time.Second)
	if got := c.count(scale.AttachVolume); got != 1 {
		t.Fatalf("%d attachments, and the first machine may still have the volume", got)
	}
	c.hold = false
	c.pass(10 * time.Second) // the detach is asked for again
	if c.where("b"); c.using["b"] == "" {
		t.Error("it runs without its volume: " + c.fleet.ExplainJob(c.now, "b"))
	}
}

func TestAVolumeThatNobodyUsesIsDeletedInItsTime(t *testing.T) {
	t.Parallel()
	c := world(t, nil)
	c.of("a", "web")
	c.release("a")
	c.pass(59 * time.Minute)
	if len(c.all) != 1 {
		t.Fatal("it is deleted before its time")
	}
	c.pass(2 * time.Minute)
	if len(c.all) != 0 || len(c.fleet.VolumeRecords()) != 0 {
		t.Errorf("there are still %v", c.fleet.VolumeRecords())
	}
}

func TestThereAreNoMoreVolumesThanAllowed(t *testing.T) {
	t.Parallel()
	c := world(t, nil)
	for _, tenant := range []string{"one", "two", "three"} {
		c.of(tenant, tenant)
		c.where(tenant)
	}
	c.explains("three", "without a volume: there are 2, and no more are allowed")
}
