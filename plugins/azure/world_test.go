package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
)

const (
	subscription = "00000000-0000-0000-0000-000000000001"
	resources    = "runners-group"
	scope        = "/subscriptions/" + subscription + "/resourceGroups/" + resources + "/providers/"
	subnet       = scope + "Microsoft.Network/virtualNetworks/net/subnets/ci"
)

// world is what there is in Azure: a resource group with a uniform and a flexible scale set. What takes time goes on by one step whenever somebody looks.
type world struct {
	next    int64
	sets    map[string]*armcompute.VirtualMachineScaleSet
	members map[string]*armcompute.VirtualMachineScaleSetVM // of the uniform set, by instance id
	vms     map[string]*armcompute.VirtualMachine           // by name
	steps   map[string][]func()                             // what happens to a machine, by name
	scripts map[string][]string                             // that were run on machines

	refuses map[string]string // zones in which machines are refused, and why
	fails   string            // why machines cannot be made, although they were accepted
	public  bool
}

func newWorld() *world {
	w := &world{
		sets: map[string]*armcompute.VirtualMachineScaleSet{}, members: map[string]*armcompute.VirtualMachineScaleSetVM{}, vms: map[string]*armcompute.VirtualMachine{},
		steps: map[string][]func(){}, scripts: map[string][]string{}, refuses: map[string]string{}, public: true,
	}
	profile := func() *armcompute.VirtualMachineScaleSetVMProfile {
		return &armcompute.VirtualMachineScaleSetVMProfile{
			TimeCreated: to.Ptr(time.Now()),
			OSProfile: &armcompute.VirtualMachineScaleSetOSProfile{ComputerNamePrefix: to.Ptr("ci"), AdminUsername: to.Ptr("ci"), LinuxConfiguration: &armcompute.LinuxConfiguration{
				SSH: &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{Path: to.Ptr("/home/ci/.ssh/authorized_keys"), KeyData: to.Ptr("ssh-ed25519 AAAA admin")}}},
			}},
			StorageProfile: &armcompute.VirtualMachineScaleSetStorageProfile{
				ImageReference: &armcompute.ImageReference{Publisher: to.Ptr("p"), Offer: to.Ptr("o"), SKU: to.Ptr("s"), Version: to.Ptr("latest")},
				OSDisk:         &armcompute.VirtualMachineScaleSetOSDisk{CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage), DiskSizeGB: to.Ptr(int32(64))},
			},
			NetworkProfile: &armcompute.VirtualMachineScaleSetNetworkProfile{NetworkInterfaceConfigurations: []*armcompute.VirtualMachineScaleSetNetworkConfiguration{{
				Name: to.Ptr("nic"), Properties: &armcompute.VirtualMachineScaleSetNetworkConfigurationProperties{
					Primary: to.Ptr(true), IPConfigurations: []*armcompute.VirtualMachineScaleSetIPConfiguration{{
						Name: to.Ptr("ip"), Properties: &armcompute.VirtualMachineScaleSetIPConfigurationProperties{
							Subnet: &armcompute.APIEntityReference{ID: to.Ptr(subnet)}, PublicIPAddressConfiguration: &armcompute.VirtualMachineScaleSetPublicIPAddressConfiguration{Name: to.Ptr("pip")},
						},
					}},
				},
			}}},
		}
	}
	withUserData := profile()
	withUserData.UserData = to.Ptr("dXNlcg==")
	for name, mode := range map[string]armcompute.OrchestrationMode{"uniform": armcompute.OrchestrationModeUniform, "flexible": armcompute.OrchestrationModeFlexible} {
		w.sets[name] = &armcompute.VirtualMachineScaleSet{
			Name: &name, ID: to.Ptr(scope + "Microsoft.Compute/virtualMachineScaleSets/" + name), Location: to.Ptr("westeurope"), Tags: map[string]*string{"team": to.Ptr("ci")}, Etag: to.Ptr(`"0"`),
			SKU: &armcompute.SKU{Name: to.Ptr("Standard_D2s_v5"), Tier: to.Ptr("Standard"), Capacity: to.Ptr(int64(0))},
			Properties: &armcompute.VirtualMachineScaleSetProperties{
				OrchestrationMode: to.Ptr(mode), ProvisioningState: to.Ptr("Succeeded"), Overprovision: to.Ptr(false), UpgradePolicy: &armcompute.UpgradePolicy{Mode: to.Ptr(armcompute.UpgradeModeManual)},
				VirtualMachineProfile: copyOf(withUserData),
			},
		}
	}
	return w
}

// look is that somebody looks: everything goes on.
func (w *world) look() {
	for _, name := range slices.Sorted(maps.Keys(w.steps)) {
		if steps := w.steps[name]; len(steps) > 0 {
			w.steps[name] = steps[1:]
			steps[0]()
		}
	}
	set := w.sets["uniform"]
	if *set.Properties.ProvisioningState == "Failed" {
		return // until the set is changed
	}
	if len(w.members) >= int(*set.SKU.Capacity) || w.fails != "" {
		if w.fails != "" && len(w.members) < int(*set.SKU.Capacity) {
			set.Properties.ProvisioningState = to.Ptr("Failed")
		}
		return
	}
	for len(w.members) < int(*set.SKU.Capacity) {
		w.join()
	}
	set.Properties.ProvisioningState = to.Ptr("Succeeded")
}

// states are the steps by which a machine begins to run.
func states(set func(provisioning string, statuses ...*armcompute.InstanceViewStatus)) []func() {
	set("Creating")
	return []func(){
		func() { set("Creating", status("PowerState/starting", "")) },
		func() { set("Creating", status("PowerState/running", "")) },
		func() { set("Succeeded", status("ProvisioningState/succeeded", ""), status("PowerState/running", "")) },
	}
}

func status(code, message string) *armcompute.InstanceViewStatus {
	return &armcompute.InstanceViewStatus{Code: &code, Message: &message}
}

// join makes a machine of the uniform set.
func (w *world) join() {
	id := strconv.FormatInt(w.next, 10)
	w.next++
	name := "uniform_" + id
	p := w.sets["uniform"].Properties.VirtualMachineProfile.OSProfile
	one := &armcompute.VirtualMachineScaleSetVM{
		InstanceID: &id, Name: &name, SKU: &armcompute.SKU{Name: to.Ptr("Standard_D2s_v5")}, Zones: []*string{to.Ptr("1")}, Tags: map[string]*string{"team": to.Ptr("ci")},
		Properties: &armcompute.VirtualMachineScaleSetVMProperties{TimeCreated: to.Ptr(time.Now()), OSProfile: &armcompute.OSProfile{AdminUsername: p.AdminUsername, LinuxConfiguration: p.LinuxConfiguration}},
	}
	w.members[id] = one
	w.steps[name] = states(w.setMember(one))
}

func (w *world) setMember(one *armcompute.VirtualMachineScaleSetVM) func(string, ...*armcompute.InstanceViewStatus) {
	return func(provisioning string, statuses ...*armcompute.InstanceViewStatus) {
		one.Properties.ProvisioningState, one.Properties.InstanceView = &provisioning, &armcompute.VirtualMachineScaleSetVMInstanceView{Statuses: statuses}
	}
}

// leave deletes a machine of the uniform set.
func (w *world) leave(id string) {
	one := w.members[id]
	if *one.Properties.ProvisioningState == "Deleting" {
		return
	}
	w.setMember(one)("Deleting", status("PowerState/stopping", ""))
	set := w.sets["uniform"]
	w.steps[*one.Name] = []func(){func() {}, func() {
		delete(w.members, id)
		*set.SKU.Capacity--
		w.change(set)
	}}
}

// change gives a set another etag.
func (w *world) change(set *armcompute.VirtualMachineScaleSet) {
	w.next++
	set.Etag = to.Ptr(fmt.Sprintf("%q", strconv.FormatInt(w.next, 10)))
}

// make makes a virtual machine, with a network interface.
func (w *world) make(name string, vm armcompute.VirtualMachine) {
	w.next++
	vm.Name, vm.ID = &name, to.Ptr(scope+"Microsoft.Compute/virtualMachines/"+name)
	vm.Properties.TimeCreated = to.Ptr(time.Now())
	vm.Properties.NetworkProfile.NetworkInterfaces = []*armcompute.NetworkInterfaceReference{{ID: to.Ptr(scope + "Microsoft.Network/networkInterfaces/nic-" + name)}}
	w.vms[name] = &vm
	set := w.setVM(&vm)
	if w.fails != "" {
		set("Creating")
		w.steps[name] = []func(){func() {
			set("Failed", status("ProvisioningState/failed/"+w.fails, "Allocation failed. We do not have sufficient capacity."))
		}}
		return
	}
	w.steps[name] = states(set)
}

func (w *world) setVM(vm *armcompute.VirtualMachine) func(string, ...*armcompute.InstanceViewStatus) {
	return func(provisioning string, statuses ...*armcompute.InstanceViewStatus) {
		vm.Properties.ProvisioningState, vm.Properties.InstanceView = &provisioning, &armcompute.VirtualMachineInstanceView{Statuses: statuses}
	}
}

func (w *world) remove(name string) {
	vm := w.vms[name]
	w.setVM(vm)("Deleting", status("PowerState/stopping", ""))
	w.steps[name] = []func(){func() {}, func() { delete(w.vms, name) }}
}

// nic is the network interface of a machine, whose number is in its addresses.
func (w *world) nic(name, owner string) armnetwork.Interface {
	i := &armnetwork.InterfaceIPConfiguration{Name: to.Ptr("ip"), Properties: &armnetwork.InterfaceIPConfigurationPropertiesFormat{PrivateIPAddress: to.Ptr("10.1.0." + strconv.Itoa(len(owner)))}}
	if w.public {
		i.Properties.PublicIPAddress = &armnetwork.PublicIPAddress{ID: to.Ptr(scope + "Microsoft.Network/publicIPAddresses/pip-" + owner)}
	}
	return armnetwork.Interface{Name: &name, Properties: &armnetwork.InterfacePropertiesFormat{IPConfigurations: []*armnetwork.InterfaceIPConfiguration{i}}}
}

func address(owner string) *armnetwork.PublicIPAddress {
	return &armnetwork.PublicIPAddress{Name: to.Ptr("pip-" + owner), Properties: &armnetwork.PublicIPAddressPropertiesFormat{IPAddress: to.Ptr("203.0.113." + strconv.Itoa(len(owner)))}}
}

// skus are the sizes of the region.
func skus() (out []*armcompute.ResourceSKU) {
	for name, can := range map[string]string{
		"Standard_D2s_v5": "vCPUs=2 MemoryGB=8 CpuArchitectureType=x64", "Standard_D8ps_v5": "vCPUs=8 vCPUsAvailable=4 MemoryGB=32 CpuArchitectureType=Arm64",
		"Standard_NC4": "vCPUs=4 MemoryGB=28 CpuArchitectureType=x64 GPUs=1", "Standard_Gone": "vCPUs=4 MemoryGB=28",
	} {
		sku := &armcompute.ResourceSKU{Name: &name, Family: to.Ptr("family" + name), ResourceType: to.Ptr("virtualMachines"), LocationInfo: []*armcompute.ResourceSKULocationInfo{{Zones: []*string{to.Ptr("1"), to.Ptr("2")}}}}
		for _, one := range strings.Fields(can) {
			key, text, _ := strings.Cut(one, "=")
			sku.Capabilities = append(sku.Capabilities, &armcompute.ResourceSKUCapabilities{Name: &key, Value: &text})
		}
		switch name {
		case "Standard_Gone":
			sku.Restrictions = []*armcompute.ResourceSKURestrictions{{Type: to.Ptr(armcompute.ResourceSKURestrictionsTypeLocation)}}
		case "Standard_NC4":
			sku.Restrictions = []*armcompute.ResourceSKURestrictions{{
				Type: to.Ptr(armcompute.ResourceSKURestrictionsTypeZone), RestrictionInfo: &armcompute.ResourceSKURestrictionInfo{Zones: []*string{to.Ptr("2")}},
			}}
		}
		out = append(out, sku, &armcompute.ResourceSKU{Name: &name, ResourceType: to.Ptr("disks")})
	}
	return out
}

// only is the only virtual machine that there is.
func (w *world) only(t *testing.T) *armcompute.VirtualMachine {
	t.Helper()
	if len(w.vms) != 1 {
		t.Fatalf("there are %d virtual machines", len(w.vms))
	}
	for _, vm := range w.vms {
		return vm
	}
	return nil
}
