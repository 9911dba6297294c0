package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/rungci/rung/sdk/instancegroup"
)

// uniform is a uniform scale set. It is asked for a number of machines, and all of them are this runner's. A create that is repeated is not known again by the cloud, so that the
// runner does not repeat one whose answer did not come; one that the plugin repeats is: each sets a number that is counted from the set as it was read, and only if it is that still.
type uniform struct {
	*azure
	credentials instancegroup.Credentials

	sizing sync.Mutex // held while the capacity is changed

	mu     sync.Mutex
	ending map[string]time.Time // when machines were asked to end
}

// maxChanges is how often the capacity is read again because it has changed in between.
const maxChanges = 10

// Init implements instancegroup.Basic.
func (u *uniform) Init(_ context.Context, _ instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	u.ending = map[string]time.Time{}
	u.credentials, err = instancegroup.NewCredentials(settings)
	return instancegroup.ProviderInfo{ID: "azure/" + u.SubscriptionID + "/" + u.ResourceGroup + "/" + u.ScaleSet, MaxSize: u.MaxSize}, err
}

// list reads the machines of the set, by name.
func (u *uniform) list(ctx context.Context) (map[string]*armcompute.VirtualMachineScaleSetVM, error) {
	out := map[string]*armcompute.VirtualMachineScaleSetVM{}
	pager := func() *runtime.Pager[armcompute.VirtualMachineScaleSetVMsClientListResponse] {
		return u.members.NewListPager(u.ResourceGroup, u.ScaleSet, &armcompute.VirtualMachineScaleSetVMsClientListOptions{Expand: to.Ptr("instanceView")})
	}
	err := all(ctx, u.azure, "the machines of the scale set "+u.ScaleSet, pager, func(page armcompute.VirtualMachineScaleSetVMsClientListResponse) {
		for _, vm := range page.Value {
			if vm.Properties == nil {
				vm.Properties = &armcompute.VirtualMachineScaleSetVMProperties{}
			}
			out[value(vm.Name)] = vm
		}
	})
	return out, err
}

// List implements instancegroup.Lister.
func (u *uniform) List(ctx context.Context, update func(instancegroup.Instance)) error {
	set, err := u.scaleSet(ctx)
	if err != nil {
		return err
	}
	profile := set.Properties.VirtualMachineProfile
	spot := profile != nil && value(profile.Priority) == armcompute.VirtualMachinePriorityTypesSpot
	vms, err := u.list(ctx)
	for name, vm := range vms {
		i := instancegroup.Instance{ID: name, Labels: texts(vm.Tags), Created: value(vm.Properties.TimeCreated)}
		if vm.SKU != nil {
			i.Shape = value(vm.SKU.Name)
		}
		if len(vm.Zones) > 0 {
			i.Zone = value(vm.Zones[0])
		}
		v := view{provisioning: value(vm.Properties.ProvisioningState), spot: spot, ending: u.isEnding(name)}
		if is := vm.Properties.InstanceView; is != nil {
			v.statuses, v.maintenance = is.Statuses, is.MaintenanceRedeployStatus
		}
		v.set(&i)
		update(i)
	}
	return err
}

// Update implements instancegroup.Basic.
func (u *uniform) Update(ctx context.Context, update func(string, instancegroup.State)) error {
	return u.List(ctx, func(i instancegroup.Instance) { update(i.ID, i.State) })
}

func (u *uniform) isEnding(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, asked := u.ending[name]
	if asked && time.Since(at) > unseenTime {
		delete(u.ending, name)
		return false
	}
	return asked
}

// Increase implements instancegroup.Basic.
func (u *uniform) Increase(ctx context.Context, n int) (int, error) {
	u.sizing.Lock()
	defer u.sizing.Unlock()
	var asked int64 // what the last try has set, if it arrived
	var full error  // if that is less than n more
	var more int
	for range maxChanges {
		set, err := u.scaleSet(ctx)
		if err != nil {
			return 0, err
		}
		if set.SKU == nil {
			return 0, fmt.Errorf("the scale set %q does not say its capacity", u.ScaleSet)
		}
		if asked > 0 && value(set.SKU.Capacity) == asked {
			return more, full // the answer to it was lost
		}
		size, err := u.size(ctx, set)
		if err != nil {
			return 0, err
		}
		more, full = min(n, max(0, u.MaxSize-int(size))), nil
		if more < n {
			full = &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf(`the scale set has %d machines, and may have %d by "max_size"`, size, u.MaxSize)}
		}
		if more == 0 {
			return 0, full
		}
		asked = size + int64(more)
		_, err = do(ctx, u.azure, "the capacity of the scale set "+u.ScaleSet, func(ctx context.Context) (any, error) {
			body := armcompute.VirtualMachineScaleSetUpdate{SKU: &armcompute.SKU{Name: set.SKU.Name, Tier: set.SKU.Tier, Capacity: &asked}}
			return u.sets.BeginUpdate(ctx, u.ResourceGroup, u.ScaleSet, body, &armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{IfMatch: set.Etag})
		})
		switch {
		case errors.Is(err, errChanged):
			continue
		case errors.Is(err, instancegroup.ErrTransient):
			if more, err = u.settle(ctx, more, asked, err); err == nil {
				err = full
			}
			return more, err
		case err != nil:
			return 0, err
		}
		return more, full
	}
	return 0, instancegroup.Transient(0, fmt.Errorf("somebody else changes the scale set %s all the time", u.ScaleSet))
}

// settle finds out whether a change had an effect whose answer did not come.
func (u *uniform) settle(ctx context.Context, n int, asked int64, lost error) (int, error) {
	set, err := u.scaleSet(ctx)
	switch {
	case err != nil || set.SKU == nil:
		return 0, &instancegroup.Error{Kind: instancegroup.ErrUncertain, Message: lost.Error(), Err: lost}
	case value(set.SKU.Capacity) == asked:
		return n, nil
	}
	return 0, lost
}

// size is how many machines the set has, which a new capacity is counted from. When it has failed to make machines, its capacity counts those, and asking for more would make
// them as well. It is never less than there are machines: Azure would delete some.
func (u *uniform) size(ctx context.Context, set *armcompute.VirtualMachineScaleSet) (int64, error) {
	capacity := value(set.SKU.Capacity)
	if state := value(set.Properties.ProvisioningState); state != "Failed" && state != "Canceled" {
		return capacity, nil
	}
	vms, err := u.list(ctx)
	return int64(len(vms)), err
}

// Decrease implements instancegroup.Basic. Machines that are in no list are gone.
func (u *uniform) Decrease(ctx context.Context, names []string) ([]string, error) {
	vms, err := u.list(ctx)
	if err != nil {
		return nil, err
	}
	var ids []*string
	for _, name := range names {
		if vm := vms[name]; vm != nil && vm.InstanceID != nil && value(vm.Properties.ProvisioningState) != "Deleting" {
			ids = append(ids, vm.InstanceID)
		}
	}
	if len(ids) > 0 {
		_, err = do(ctx, u.azure, "deleting machines of the scale set "+u.ScaleSet, func(ctx context.Context) (any, error) {
			return u.sets.BeginDeleteInstances(ctx, u.ResourceGroup, u.ScaleSet, armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: ids}, nil)
		})
	}
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range names {
		u.pushed.forget(name)
		u.ending[name] = time.Now()
	}
	return slices.Clone(names), nil
}

// ConnectInfo implements instancegroup.Basic.
func (u *uniform) ConnectInfo(ctx context.Context, name string) (info instancegroup.ConnectInfo, err error) {
	vms, err := u.list(ctx)
	if err != nil {
		return info, err
	}
	vm := vms[name]
	if vm == nil {
		return info, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the scale set %s has no machine %s", u.ScaleSet, name)}
	}
	addresses, err := u.addresses(ctx, value(vm.InstanceID))
	if err != nil {
		return info, err
	}
	info = instancegroup.ConnectInfo{ConnectorConfig: u.credentials.Connector, ID: name}
	if vm.Properties.OSProfile != nil {
		info.Username = cmp.Or(info.Username, value(vm.Properties.OSProfile.AdminUsername))
	}
	if info.InternalAddr, info.ExternalAddr = instancegroup.Addresses(false, addresses...); len(addresses) == 0 {
		return info, instancegroup.Transient(0, fmt.Errorf("the machine %s has no address yet", name))
	}
	return info, u.letIn(ctx, name, info.Username, vm.Properties.OSProfile, u.credentials.PublicKey, func(ctx context.Context, script armcompute.RunCommandInput) error {
		poller, err := u.members.BeginRunCommand(ctx, u.ResourceGroup, u.ScaleSet, value(vm.InstanceID), script, nil)
		if err == nil {
			_, err = poller.PollUntilDone(ctx, nil)
		}
		return err
	})
}

// addresses are those of a machine of the set, whose network interfaces are parts of it.
func (u *uniform) addresses(ctx context.Context, id string) (out []string, err error) {
	what := "the addresses of the machine " + id
	var nics []*armnetwork.Interface
	interfaces := func() *runtime.Pager[armnetwork.InterfacesClientListVirtualMachineScaleSetVMNetworkInterfacesResponse] {
		return u.nics.NewListVirtualMachineScaleSetVMNetworkInterfacesPager(u.ResourceGroup, u.ScaleSet, id, nil)
	}
	err = all(ctx, u.azure, what, interfaces,
		func(page armnetwork.InterfacesClientListVirtualMachineScaleSetVMNetworkInterfacesResponse) {
			nics = append(nics, page.Value...)
		})
	if err != nil {
		return nil, err
	}
	for _, nic := range nics {
		for _, c := range configurations(nic) {
			out = append(out, value(c.Properties.PrivateIPAddress))
			if c.Properties.PublicIPAddress == nil {
				continue
			}
			pager := func() *runtime.Pager[armnetwork.PublicIPAddressesClientListVirtualMachineScaleSetVMPublicIPAddressesResponse] {
				return u.public.NewListVirtualMachineScaleSetVMPublicIPAddressesPager(u.ResourceGroup, u.ScaleSet, id, value(nic.Name), value(c.Name), nil)
			}
			err := all(ctx, u.azure, what, pager, func(page armnetwork.PublicIPAddressesClientListVirtualMachineScaleSetVMPublicIPAddressesResponse) {
				for _, address := range page.Value {
					if address.Properties != nil {
						out = append(out, value(address.Properties.IPAddress))
					}
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(out, func(a string) bool { return strings.TrimSpace(a) == "" }), nil
}
