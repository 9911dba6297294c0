package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"
)

// world is what there is in Google Cloud: a project with a template, machine types, a zonal and a regional group. What takes time goes on by one step whenever somebody looks.
type world struct {
	mu        sync.Mutex
	next      uint64
	vms       map[string]*vm // by zone/name
	groups    map[string]*compute.InstanceGroupManager
	members   map[string]map[string]*member // of each group, by name
	templates map[string]*compute.InstanceProperties
	types     map[string]*compute.MachineType // by zone/name
	ops       map[string]*operation
	requests  map[string]string // the operations of request ids
	logins    map[string]string // keys of the OS Login profile, by fingerprint
	hostKeys  bool              // guest agents publish host keys

	disks     map[string]*volumeDisk // by zone/name
	diskTypes map[string]string      // the sizes that are valid, by zone/name

	exhausted   map[string]string // zones in which instances cannot be made ("disks": disks cannot be), and why
	unreachable []string          // what the list of disks lacks
	held        bool              // operations do not end
}

// vm is an instance, and the states that it goes through.
type vm struct {
	compute.Instance
	path []string
}

// member is an instance of a group.
type member struct {
	zone   string
	meta   map[string]string
	action string
	vm     *vm
	errors []*compute.ManagedInstanceLastAttemptErrorsErrors
}

// operation is one that ends when it was looked at, and what it does then.
type operation struct {
	compute.Operation
	looks int
	do    func() *compute.OperationErrorErrors
}

const (
	project  = "a-project"
	zonal    = "zones/eu-a/runners"
	regional = "regions/eu/runners"
)

func newWorld() *world {
	w := &world{
		vms: map[string]*vm{}, groups: map[string]*compute.InstanceGroupManager{}, members: map[string]map[string]*member{}, ops: map[string]*operation{}, requests: map[string]string{},
		templates: map[string]*compute.InstanceProperties{}, types: map[string]*compute.MachineType{}, logins: map[string]string{}, exhausted: map[string]string{}, hostKeys: true,
		disks: map[string]*volumeDisk{}, diskTypes: map[string]string{"eu-a/pd-balanced": "10GB-64TB", "eu-b/pd-balanced": "10GB-64TB", "eu-a/hyperdisk-balanced": "4GB-65536GB"},
	}
	startup, keys := "#!/bin/sh", "admin:ssh-ed25519 AAAA admin"
	w.templates["global/ci"] = &compute.InstanceProperties{
		MachineType: "n2-small", Labels: map[string]string{"team": "ci"}, Disks: []*compute.AttachedDisk{{Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{DiskSizeGb: 50}}},
		Metadata: &compute.Metadata{Items: []*compute.MetadataItems{{Key: "startup-script", Value: &startup}, {Key: "ssh-keys", Value: &keys}}},
	}
	w.templates["eu/ci"] = w.templates["global/ci"]
	for _, zone := range []string{"eu-a", "eu-b"} {
		w.types[zone+"/n2-small"] = &compute.MachineType{Name: "n2-small", GuestCpus: 2, MemoryMb: 8192, Architecture: "X86_64"}
		w.types[zone+"/n2-large"] = &compute.MachineType{Name: "n2-large", GuestCpus: 16, MemoryMb: 65536, Architecture: "X86_64"}
	}
	w.types["eu-b/t2a-small"] = &compute.MachineType{
		Name: "t2a-small", GuestCpus: 1, MemoryMb: 4096, Architecture: "ARM64",
		Accelerators: []*compute.MachineTypeAccelerators{{GuestAcceleratorType: "nvidia-x", GuestAcceleratorCount: 2}},
	}
	w.groups[zonal] = &compute.InstanceGroupManager{
		Name: "runners", InstanceTemplate: "https://www.googleapis.com/compute/v1/projects/a-project/global/instanceTemplates/ci", Status: &compute.InstanceGroupManagerStatus{},
	}
	w.groups[regional] = &compute.InstanceGroupManager{
		Name: "runners", InstanceTemplate: "https://www.googleapis.com/compute/v1/projects/a-project/regions/eu/instanceTemplates/ci", Status: &compute.InstanceGroupManagerStatus{},
		UpdatePolicy: &compute.InstanceGroupManagerUpdatePolicy{Type: "OPPORTUNISTIC", InstanceRedistributionType: "NONE"},
		DistributionPolicy: &compute.DistributionPolicy{Zones: []*compute.DistributionPolicyZoneConfiguration{
			{Zone: "https://www.googleapis.com/compute/v1/projects/a-project/zones/eu-a"}, {Zone: "https://www.googleapis.com/compute/v1/projects/a-project/zones/eu-b"},
		}},
	}
	w.members[zonal], w.members[regional] = map[string]*member{}, map[string]*member{}
	return w
}

// begin begins an operation, or returns that of a request id that is known.
func (w *world) begin(kind, scope, request string, do func() *compute.OperationErrorErrors) *compute.Operation {
	if name := w.requests[request]; request != "" && name != "" {
		op := w.ops[name].Operation
		return &op
	}
	w.next++
	op := &operation{do: do, looks: 2, Operation: compute.Operation{
		Name: "operation-" + strconv.FormatUint(w.next, 10), Id: w.next, OperationType: kind, Status: "RUNNING", InsertTime: time.Now().Format(time.RFC3339Nano), ClientOperationId: request,
	}}
	url := "https://www.googleapis.com/compute/v1/projects/" + project + "/" + scope
	if strings.HasPrefix(scope, "zones/") {
		op.Zone = url
	} else {
		op.Region = url
	}
	w.ops[op.Name], w.requests[request] = op, op.Name
	answer := op.Operation
	return &answer
}

// look is that somebody looks: everything goes on.
func (w *world) look() {
	for _, name := range slices.Sorted(maps.Keys(w.ops)) {
		op := w.ops[name]
		if op.Status == "DONE" || w.held {
			continue
		}
		if op.looks--; op.looks > 0 {
			continue
		}
		op.Status = "DONE"
		if failed := op.do(); failed != nil {
			op.Error, op.HttpErrorStatusCode, op.HttpErrorMessage = &compute.OperationError{Errors: []*compute.OperationErrorErrors{failed}}, 503, "SERVICE UNAVAILABLE"
		}
	}
	for key, one := range w.vms {
		if len(one.path) > 0 {
			one.Status, one.path = one.path[0], one.path[1:]
		}
		if one.Status == "gone" {
			w.letGo(one)
			delete(w.vms, key)
		}
	}
	for _, all := range w.members {
		for name, m := range all {
			w.step(name, m)
			if m.action == "gone" {
				delete(all, name)
			}
		}
	}
}

// step lets a group go on with one of its instances.
func (w *world) step(name string, m *member) {
	there := m.vm != nil && w.vms[m.zone+"/"+name] == m.vm
	switch {
	case m.action == "DELETING" && !there:
		m.action = "gone"
	case m.action == "CREATING" && m.vm == nil && w.exhausted[m.zone] != "":
		m.errors = []*compute.ManagedInstanceLastAttemptErrorsErrors{{Code: w.exhausted[m.zone], Message: "no capacity in " + m.zone}}
	case m.action == "CREATING" && m.vm == nil:
		m.vm = w.make(m.zone, name, w.merge(&compute.Instance{Name: name}, w.templates["global/ci"]))
		for key, value := range m.meta {
			m.vm.Metadata.Items = set(m.vm.Metadata.Items, key, value)
		}
	case m.action != "" && m.action != "DELETING" && there && len(m.vm.path) == 0 && (m.vm.Status == "RUNNING" || m.vm.Status == "SUSPENDED"):
		m.action = ""
	}
}

// merge is an instance as a template and a request make it (RFC 7396).
func (w *world) merge(i *compute.Instance, p *compute.InstanceProperties) *compute.Instance {
	i.MachineType = cmp.Or(i.MachineType, p.MachineType)
	labels := maps.Clone(p.Labels)
	maps.Copy(labels, i.Labels)
	i.Labels = labels
	if i.Metadata == nil {
		i.Metadata = &compute.Metadata{Items: slices.Clone(p.Metadata.Items)}
	}
	if i.Scheduling == nil {
		i.Scheduling = p.Scheduling
	}
	return i
}

// make makes an instance.
func (w *world) make(zone, name string, i *compute.Instance) *vm {
	w.next++
	one := &vm{Instance: *i, path: []string{"STAGING", "RUNNING"}}
	one.Id, one.Status, one.CreationTimestamp = w.next, "PROVISIONING", time.Now().Format(time.RFC3339)
	one.Zone = "https://www.googleapis.com/compute/v1/projects/" + project + "/zones/" + zone
	one.MachineType = one.Zone + "/machineTypes/" + short(i.MachineType)
	one.Metadata.Fingerprint = "Zm9v"
	one.NetworkInterfaces = []*compute.NetworkInterface{{NetworkIP: fmt.Sprintf("10.0.0.%d", w.next%200+1), AccessConfigs: []*compute.AccessConfig{{NatIP: fmt.Sprintf("203.0.113.%d", w.next%200+1)}}}}
	w.vms[zone+"/"+name] = one
	w.boot(zone, one)
	return one
}

// insert is instances.insert.
func (w *world) insert(zone, template, request string, i *compute.Instance) (*compute.Operation, *refusal) {
	if name := w.requests[request]; name != "" {
		return w.begin("", "", request, nil), nil
	}
	scope, _ := strings.CutPrefix(template, "projects/"+project+"/")
	p := w.templates[strings.Replace(strings.Replace(scope, "instanceTemplates/", "", 1), "regions/", "", 1)]
	switch {
	case p == nil:
		return nil, &refusal{404, "notFound", "there is no template " + template}
	case w.vms[zone+"/"+i.Name] != nil:
		return nil, &refusal{409, "alreadyExists", "the instance exists already"}
	case w.exhausted[zone] == "quotaExceeded":
		return nil, &refusal{403, "quotaExceeded", "Quota 'CPUS' exceeded. Limit: 24.0 in region eu."}
	case i.MachineType != "" && w.types[zone+"/"+short(i.MachineType)] == nil:
		return nil, &refusal{400, "invalid", "there is no machine type " + i.MachineType}
	}
	return w.begin("insert", "zones/"+zone, request, func() *compute.OperationErrorErrors {
		if code := w.exhausted[zone]; code != "" {
			return &compute.OperationErrorErrors{Code: code, Message: "the zone " + zone + " does not have enough resources"}
		}
		if w.vms[zone+"/"+i.Name] != nil {
			return &compute.OperationErrorErrors{Code: "RESOURCE_ALREADY_EXISTS", Message: "the instance exists already"}
		}
		w.make(zone, i.Name, w.merge(i, p))
		return nil
	}), nil
}

// stop lets an instance go through states, and records the operation by which it does.
func (w *world) stop(one *vm, kind, message string, path ...string) {
	one.path = path
	op := w.begin(kind, "zones/"+short(one.Zone), "", func() *compute.OperationErrorErrors { return nil })
	w.ops[op.Name].TargetId, w.ops[op.Name].StatusMessage, w.ops[op.Name].User = one.Id, message, "somebody@example.com"
}

// remove is instances.delete.
func (w *world) remove(one *vm) *compute.Operation {
	if one.Status != "STOPPING" {
		one.Status, one.path = "STOPPING", []string{"STOPPING", "gone"}
	}
	return w.begin("delete", "zones/"+short(one.Zone), "", func() *compute.OperationErrorErrors { return nil })
}

// createInstances is that of groups.
func (w *world) createInstances(group, request string, configs []*compute.PerInstanceConfig) (*compute.Operation, *refusal) {
	if name := w.requests[request]; name != "" {
		return w.begin("", "", request, nil), nil
	}
	for _, c := range configs {
		if w.members[group][c.Name] != nil {
			return nil, &refusal{400, "invalid", "the group has an instance " + c.Name}
		}
	}
	scope := strings.TrimSuffix(group, "/runners")
	return w.begin("createInstances", scope, request, func() *compute.OperationErrorErrors {
		for _, c := range configs {
			zone := short(scope)
			if strings.HasPrefix(scope, "regions/") {
				zone += []string{"-a", "-b"}[len(w.members[group])%2]
			}
			w.members[group][c.Name] = &member{zone: zone, meta: c.PreservedState.Metadata, action: "CREATING"}
		}
		return nil
	}), nil
}

// instanceURL is how groups are told of an instance.
var instanceURL = regexp.MustCompile(`^zones/([a-z-]+)/instances/([a-z0-9-]+)$`)

// act is one of the calls of groups that are for some of its instances.
func (w *world) act(group, action string, urls []string, skip bool) (*compute.Operation, *refusal) {
	for _, url := range urls {
		parts := instanceURL.FindStringSubmatch(url)
		if parts == nil {
			return nil, &refusal{400, "invalid", "no URL of an instance: " + url}
		}
		m := w.members[group][parts[2]]
		switch {
		case m == nil || m.zone != parts[1]:
			if !skip {
				return nil, &refusal{400, "invalid", "no instance of the group: " + url}
			}
			continue
		case m.action == "DELETING" && !skip:
			return nil, &refusal{400, "invalid", "the instance is being deleted: " + url}
		}
		m.action = action
		if m.vm == nil {
			continue
		}
		switch action {
		case "DELETING":
			w.remove(m.vm)
		case "SUSPENDING":
			m.vm.path = []string{"SUSPENDING", "SUSPENDED"}
		case "RESUMING":
			m.vm.path = []string{"SUSPENDED", "PROVISIONING", "STAGING", "RUNNING"}
		}
	}
	return w.begin(strings.ToLower(action), strings.TrimSuffix(group, "/runners"), "", func() *compute.OperationErrorErrors { return nil }), nil
}

// managedList are the instances of a group, as it says.
func (w *world) managedList(group string) (out []*compute.ManagedInstance) {
	for _, name := range slices.Sorted(maps.Keys(w.members[group])) {
		m := w.members[group][name]
		one := &compute.ManagedInstance{
			Name: name, CurrentAction: cmp.Or(m.action, "NONE"), PreservedStateFromConfig: &compute.PreservedState{Metadata: m.meta},
			Instance: "https://www.googleapis.com/compute/v1/projects/" + project + "/zones/" + m.zone + "/instances/" + name,
		}
		if m.vm != nil {
			one.Id, one.InstanceStatus = m.vm.Id, m.vm.Status
		}
		if m.errors != nil {
			one.LastAttempt = &compute.ManagedInstanceLastAttempt{Errors: &compute.ManagedInstanceLastAttemptErrors{Errors: m.errors}}
		}
		out = append(out, one)
	}
	return out
}

// instances are those of a zone whose names match.
func (w *world) instances(zone, filter string) (out []*compute.Instance) {
	expression, _ := strings.CutPrefix(filter, "name eq ")
	match := regexp.MustCompile("^(?:" + expression + ")$")
	for _, key := range slices.Sorted(maps.Keys(w.vms)) {
		if one := w.vms[key]; strings.HasPrefix(key, zone+"/") && match.MatchString(one.Name) {
			i := one.Instance
			out = append(out, &i)
		}
	}
	return out
}

// change does something with the world.
func (w *world) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// only is the only instance that there is.
func (w *world) only(t *testing.T) *vm {
	t.Helper()
	if len(w.vms) != 1 {
		t.Fatalf("there are %d instances", len(w.vms))
	}
	for _, one := range w.vms {
		return one
	}
	return nil
}

// refusal is a request that the API refuses.
type refusal struct {
	status          int
	reason, message string
}

func (r *refusal) body() []byte {
	text, _ := json.Marshal(map[string]any{"error": map[string]any{
		"code": r.status, "message": r.message, "errors": []any{map[string]any{"reason": r.reason, "message": r.message, "domain": "global"}},
	}})
	return text
}
