package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/rungci/rung/sdk/instancegroup"
)

// machines are virtual machines that are made by name, alone or in a flexible scale set.
type machines struct {
	*azure
	set    *armcompute.VirtualMachineScaleSet // nil: there is none
	model  *armcompute.VirtualMachine         // which new machines are made like
	prefix string                             // of the names of machines of this owner
	offers []instancegroup.Offer

	mu     sync.Mutex
	made   map[string]time.Time // machines that no list has yet, by name
	ending map[string]time.Time // when machines were asked to end
	short  map[string]time.Time // when there was no capacity, by size, zone and kind
}

const (
	// unseenTime is for how long lists may lag behind.
	unseenTime = 2 * time.Minute
	// shortTime is for how long a zone that had no capacity is tried after the others.
	shortTime = 5 * time.Minute
)

// Open implements instancegroup.Cloud.
func (m *machines) Open(ctx context.Context, _ instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	m.made, m.ending, m.short = map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	hash := sha256.Sum256([]byte(settings.Owner))
	m.prefix = "rung-" + hex.EncodeToString(hash[:4]) + "-"
	if m.model, err = m.newModel(); err != nil {
		return info, err
	}
	if m.offers, err = m.findOffers(ctx); err != nil {
		return info, err
	}
	return instancegroup.ProviderInfo{ID: "azure/" + m.SubscriptionID + "/" + m.ResourceGroup + "/" + cmp.Or(m.ScaleSet, "vms"), MaxSize: m.MaxSize}, nil
}

// name is that of the machine of an order: the same whenever the order is repeated.
func (m *machines) name(order instancegroup.Order) string {
	hash := sha256.Sum256([]byte(m.settings.Owner + "/" + order.Name))
	return m.prefix + hex.EncodeToString(hash[:10])
}

// Machines implements instancegroup.Cloud.
func (m *machines) Machines(ctx context.Context) (out []instancegroup.Machine, err error) {
	found := map[string]*armcompute.VirtualMachine{}
	if err := m.list(ctx, found); err != nil {
		return nil, err
	}
	if err := m.unseen(ctx, found); err != nil {
		return nil, err
	}
	for _, vm := range found {
		out = append(out, m.machine(vm))
	}
	return out, nil
}

// list reads the machines of this owner, by name, with what they are doing.
func (m *machines) list(ctx context.Context, found map[string]*armcompute.VirtualMachine) error {
	add := func(vms []*armcompute.VirtualMachine) {
		for _, vm := range vms {
			if strings.HasPrefix(value(vm.Name), m.prefix) {
				found[*vm.Name] = vm
			}
		}
	}
	const what = "the list of virtual machines"
	if m.set != nil {
		filter := fmt.Sprintf("'virtualMachineScaleSet/id' eq '%s'", value(m.set.ID))
		options := &armcompute.VirtualMachinesClientListOptions{Filter: &filter, Expand: to.Ptr(armcompute.ExpandTypeForListVMsInstanceView)}
		pager := func() *runtime.Pager[armcompute.VirtualMachinesClientListResponse] {
			return m.vms.NewListPager(m.ResourceGroup, options)
		}
		return all(ctx, m.azure, what, pager, func(page armcompute.VirtualMachinesClientListResponse) { add(page.Value) })
	}
	pager := func() *runtime.Pager[armcompute.VirtualMachinesClientListResponse] {
		return m.vms.NewListPager(m.ResourceGroup, nil)
	}
	if err := all(ctx, m.azure, what, pager, func(page armcompute.VirtualMachinesClientListResponse) { add(page.Value) }); err != nil || len(found) == 0 {
		return err
	}
	group := strings.ToLower("/resourceGroups/" + m.ResourceGroup + "/")
	statuses := func() *runtime.Pager[armcompute.VirtualMachinesClientListAllResponse] {
		return m.vms.NewListAllPager(&armcompute.VirtualMachinesClientListAllOptions{StatusOnly: to.Ptr("true")})
	}
	return all(ctx, m.azure, "the states of virtual machines", statuses, func(page armcompute.VirtualMachinesClientListAllResponse) {
		for _, vm := range page.Value {
			if one := found[value(vm.Name)]; one != nil && vm.Properties != nil && strings.Contains(strings.ToLower(value(vm.ID)), group) {
				one.Properties.InstanceView = vm.Properties.InstanceView
			}
		}
	})
}

// unseen adds the machines that were made and that no list has yet.
func (m *machines) unseen(ctx context.Context, found map[string]*armcompute.VirtualMachine) error {
	m.mu.Lock()
	var lacking []string
	for name, at := range m.made {
		switch {
		case found[name] != nil || time.Since(at) > unseenTime:
			delete(m.made, name)
		default:
			lacking = append(lacking, name)
		}
	}
	for name, at := range m.ending {
		if time.Since(at) > unseenTime {
			delete(m.ending, name)
		}
	}
	m.mu.Unlock()
	for _, name := range lacking {
		vm, err := m.get(ctx, name)
		switch {
		case errors.Is(err, instancegroup.ErrNotFound):
			m.mu.Lock()
			delete(m.made, name)
			m.mu.Unlock()
		case err != nil:
			return err
		default:
			found[name] = vm
		}
	}
	return nil
}

// get reads one machine.
func (m *machines) get(ctx context.Context, name string) (*armcompute.VirtualMachine, error) {
	vm, err := do(ctx, m.azure, "the virtual machine "+name, func(ctx context.Context) (armcompute.VirtualMachinesClientGetResponse, error) {
		return m.vms.Get(ctx, m.ResourceGroup, name, &armcompute.VirtualMachinesClientGetOptions{Expand: to.Ptr(armcompute.InstanceViewTypesInstanceView)})
	})
	return &vm.VirtualMachine, err
}

// machine is what is reported of a virtual machine.
func (m *machines) machine(vm *armcompute.VirtualMachine) instancegroup.Machine {
	p := cmp.Or(vm.Properties, &armcompute.VirtualMachineProperties{})
	i := instancegroup.Instance{ID: value(vm.Name), Labels: texts(vm.Tags), Created: value(p.TimeCreated)}
	if p.HardwareProfile != nil {
		i.Shape = string(value(p.HardwareProfile.VMSize))
	}
	if len(vm.Zones) > 0 {
		i.Zone = value(vm.Zones[0])
	}
	m.mu.Lock()
	at, ending := m.ending[i.ID]
	m.mu.Unlock()
	v := view{provisioning: value(p.ProvisioningState), spot: value(p.Priority) == armcompute.VirtualMachinePriorityTypesSpot, ending: ending && time.Since(at) < unseenTime}
	if p.InstanceView != nil {
		v.statuses, v.maintenance = p.InstanceView.Statuses, p.InstanceView.MaintenanceRedeployStatus
	}
	v.set(&i)
	return instancegroup.Machine{Instance: i}
}

// Create implements instancegroup.Cloud. A machine of that name is not made again, and not changed. Zones without capacity are left for the next one.
func (m *machines) Create(ctx context.Context, order instancegroup.Order) (string, error) {
	if order.PublicKey != "" && m.settings.Username == "" {
		return "", errors.New("username of connector_config is not set: it names the user of the machines that the key is for")
	}
	if order.Shape != "" && !m.offered(order.Shape) {
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf(`the size %q is not among those of the option "sizes", or not to be had here`, order.Shape)}
	}
	zones := m.zonesFor(order)
	if len(zones) == 0 {
		return "", &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "machines are not made in the zone " + order.Zone}
	}
	name := m.name(order)
	var lacking error
	for _, zone := range zones {
		err := m.create(ctx, name, zone, order)
		if err == nil || errors.Is(err, errChanged) {
			m.mu.Lock()
			m.made[name] = time.Now()
			m.mu.Unlock()
			return name, nil
		}
		if !errors.Is(err, instancegroup.ErrQuota) {
			return "", err
		}
		m.mu.Lock()
		m.short[order.Shape+"/"+zone] = time.Now()
		m.mu.Unlock()
		lacking = errors.Join(lacking, err)
	}
	return "", lacking
}

// create asks for a machine. That it is there already is an error: its name is of this order alone, so that it was made by an earlier call.
func (m *machines) create(ctx context.Context, name, zone string, order instancegroup.Order) error {
	vm, err := m.body(name, zone, order)
	if err != nil {
		return err
	}
	_, err = do(ctx, m.azure, "making "+name, func(ctx context.Context) (any, error) {
		return m.vms.BeginCreateOrUpdate(ctx, m.ResourceGroup, name, *vm, &armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	})
	return err
}

// zonesFor are the zones in which an order can be made, in the order in which they are tried. The empty one is Azure's choice.
func (m *machines) zonesFor(order instancegroup.Order) (zones []string) {
	zones = m.Zones
	switch {
	case len(zones) == 0 && order.Zone == "":
		return []string{""}
	case order.Zone != "":
		var out []string
		for _, zone := range zones {
			if zone == order.Zone {
				out = append(out, zone)
			}
		}
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var now, last []string
	for _, zone := range zones {
		if at, was := m.short[order.Shape+"/"+zone]; was && time.Since(at) < shortTime {
			last = append(last, zone)
		} else {
			now = append(now, zone)
		}
	}
	return append(now, last...)
}

// Delete implements instancegroup.Cloud. The disk, the network interface and the public address go with the machine.
func (m *machines) Delete(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, m.prefix) {
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: name + " is not a machine of this runner"}
	}
	_, err := do(ctx, m.azure, "deleting "+name, func(ctx context.Context) (any, error) { return m.vms.BeginDelete(ctx, m.ResourceGroup, name, nil) })
	if err != nil {
		return err
	}
	m.pushed.forget(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending[name] = time.Now()
	return nil
}

// Connect implements instancegroup.Connecter.
func (m *machines) Connect(ctx context.Context, machine instancegroup.Machine, publicKey string, info *instancegroup.ConnectInfo) error {
	vm, err := m.get(ctx, machine.ID)
	if err != nil {
		return err
	}
	p := cmp.Or(vm.Properties, &armcompute.VirtualMachineProperties{})
	addresses, err := m.addressesOf(ctx, p.NetworkProfile)
	if err != nil {
		return err
	}
	info.InternalAddr, info.ExternalAddr = instancegroup.Addresses(false, addresses...)
	return m.letIn(ctx, machine.ID, info.Username, p.OSProfile, publicKey, func(ctx context.Context, script armcompute.RunCommandInput) error {
		poller, err := m.vms.BeginRunCommand(ctx, m.ResourceGroup, machine.ID, script, nil)
		if err == nil {
			_, err = poller.PollUntilDone(ctx, nil)
		}
		return err
	})
}
