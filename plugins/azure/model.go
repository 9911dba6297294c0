package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/rungci/rung/sdk/instancegroup"
)

// newModel is what machines are made like: as the flexible scale set says, or as the options do.
func (m *machines) newModel() (*armcompute.VirtualMachine, error) {
	if m.set == nil {
		return m.ownModel()
	}
	profile := m.set.Properties.VirtualMachineProfile
	if profile == nil || profile.StorageProfile == nil || profile.NetworkProfile == nil || m.set.SKU == nil || value(m.set.SKU.Name) == "" || value(m.set.SKU.Name) == "Mix" {
		return nil, fmt.Errorf("the scale set %q has no model with a size, an image and a network of which machines could be made", m.ScaleSet)
	}
	// A machine's profile has the names of a scale set's.
	p := &armcompute.VirtualMachineProperties{}
	text, err := json.Marshal(profile)
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil {
		return nil, fmt.Errorf("the model of the scale set %q: %w", m.ScaleSet, err)
	}
	p.HardwareProfile = &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(*m.set.SKU.Name))}
	p.VirtualMachineScaleSet = &armcompute.SubResource{ID: m.set.ID}
	p.NetworkProfile.NetworkAPIVersion = to.Ptr(armcompute.NetworkAPIVersionTwoThousandTwenty1101)
	p.TimeCreated = nil
	model := &armcompute.VirtualMachine{Location: m.set.Location, Properties: p, Plan: m.set.Plan, Tags: m.set.Tags}
	if m.set.Identity != nil {
		text, err := json.Marshal(m.set.Identity)
		if err == nil {
			err = json.Unmarshal(text, &model.Identity)
		}
		if err != nil {
			return nil, fmt.Errorf("the identity of the scale set %q: %w", m.ScaleSet, err)
		}
		model.Identity.PrincipalID, model.Identity.TenantID = nil, nil
	}
	if len(m.Zones) == 0 {
		for _, zone := range m.set.Zones {
			m.Zones = append(m.Zones, value(zone))
		}
	}
	if e := profile.ExtensionProfile; e != nil && len(e.Extensions) > 0 {
		m.log.Warn("machines that are created by name do not get the extensions of the scale set's model: install what they do from custom_data, or in the image", "set", m.ScaleSet, "extensions", len(e.Extensions))
	}
	if m.CustomData == "" {
		m.log.Info("Azure does not show the custom data of a scale set's model: if machines need any, set the option custom_data", "set", m.ScaleSet)
	}
	goesWithTheMachine(p)
	return model, nil
}

// ownModel is what the options say.
func (m *machines) ownModel() (*armcompute.VirtualMachine, error) {
	image := &armcompute.ImageReference{ID: &m.Image}
	if !strings.HasPrefix(m.Image, "/") {
		parts := strings.Split(m.Image, ":")
		if len(parts) != 4 || slices.Contains(parts, "") {
			return nil, fmt.Errorf(`the option "image" must be a resource id, or PUBLISHER:OFFER:SKU:VERSION, not %q`, m.Image)
		}
		image = &armcompute.ImageReference{Publisher: &parts[0], Offer: &parts[1], SKU: &parts[2], Version: &parts[3]}
	}
	address := &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{Primary: to.Ptr(true), Subnet: &armcompute.SubResource{ID: &m.Subnet}}
	if m.PublicIP {
		address.PublicIPAddressConfiguration = &armcompute.VirtualMachinePublicIPAddressConfiguration{
			Name: to.Ptr("public"), SKU: &armcompute.PublicIPAddressSKU{Name: to.Ptr(armcompute.PublicIPAddressSKUNameStandard)},
			Properties: &armcompute.VirtualMachinePublicIPAddressConfigurationProperties{PublicIPAllocationMethod: to.Ptr(armcompute.PublicIPAllocationMethodStatic)},
		}
	}
	nic := &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{
		Primary: to.Ptr(true), IPConfigurations: []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{{Name: to.Ptr("address"), Properties: address}},
	}
	if m.SecurityGroup != "" {
		nic.NetworkSecurityGroup = &armcompute.SubResource{ID: &m.SecurityGroup}
	}
	disk := &armcompute.OSDisk{
		CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage), ManagedDisk: &armcompute.ManagedDiskParameters{StorageAccountType: to.Ptr(armcompute.StorageAccountTypes(m.DiskType))},
	}
	if m.DiskSize > 0 {
		disk.DiskSizeGB = &m.DiskSize
	}
	p := &armcompute.VirtualMachineProperties{
		HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(m.Sizes[0].Name))},
		StorageProfile:  &armcompute.StorageProfile{ImageReference: image, OSDisk: disk},
		NetworkProfile: &armcompute.NetworkProfile{
			NetworkAPIVersion:              to.Ptr(armcompute.NetworkAPIVersionTwoThousandTwenty1101),
			NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{{Name: to.Ptr("network"), Properties: nic}},
		},
	}
	goesWithTheMachine(p)
	model := &armcompute.VirtualMachine{Location: &m.Location, Properties: p}
	if len(m.Identities) > 0 {
		model.Identity = &armcompute.VirtualMachineIdentity{Type: to.Ptr(armcompute.ResourceIdentityTypeUserAssigned), UserAssignedIdentities: map[string]*armcompute.UserAssignedIdentitiesValue{}}
		for _, id := range m.Identities {
			model.Identity.UserAssignedIdentities[id] = &armcompute.UserAssignedIdentitiesValue{}
		}
	}
	return model, nil
}

// goesWithTheMachine has what is made for a machine deleted with it.
func goesWithTheMachine(p *armcompute.VirtualMachineProperties) {
	if disk := p.StorageProfile.OSDisk; disk != nil {
		disk.DeleteOption, disk.Name = to.Ptr(armcompute.DiskDeleteOptionTypesDelete), nil
	}
	for _, disk := range p.StorageProfile.DataDisks {
		disk.DeleteOption, disk.Name = to.Ptr(armcompute.DiskDeleteOptionTypesDelete), nil
	}
	for _, nic := range p.NetworkProfile.NetworkInterfaceConfigurations {
		nic.Properties.DeleteOption = to.Ptr(armcompute.DeleteOptionsDelete)
		for _, c := range nic.Properties.IPConfigurations {
			if public := c.Properties.PublicIPAddressConfiguration; public != nil {
				if public.Properties == nil {
					public.Properties = &armcompute.VirtualMachinePublicIPAddressConfigurationProperties{}
				}
				public.Properties.DeleteOption = to.Ptr(armcompute.DeleteOptionsDelete)
			}
		}
	}
}

// body is a machine, as it is asked for.
func (m *machines) body(name, zone string, order instancegroup.Order) (*armcompute.VirtualMachine, error) {
	vm := &armcompute.VirtualMachine{}
	text, err := json.Marshal(m.model)
	if err == nil {
		err = json.Unmarshal(text, vm) // a copy, as what follows changes it
	}
	if err != nil {
		return nil, err
	}
	vm.Tags = tags(m.model.Tags, order.Labels)
	if zone != "" {
		vm.Zones = []*string{&zone}
	}
	p := vm.Properties
	if order.Shape != "" {
		p.HardwareProfile.VMSize = to.Ptr(armcompute.VirtualMachineSizeTypes(order.Shape))
	}
	if order.Spot {
		p.Priority, p.EvictionPolicy = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot), to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDeallocate)
		p.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(-1.0)} // up to the price of a machine that is not evicted
	}
	if p.OSProfile == nil {
		p.OSProfile = &armcompute.OSProfile{}
	}
	if m.CustomData != "" {
		p.OSProfile.CustomData = to.Ptr(base64.StdEncoding.EncodeToString([]byte(m.CustomData)))
	}
	return vm, m.setUser(p.OSProfile, name, order.PublicKey)
}

// maxComputerName is the length of names in Windows.
const maxComputerName = 15

// setUser sets the user of a machine, and what lets him in.
func (m *machines) setUser(p *armcompute.OSProfile, name, publicKey string) error {
	p.ComputerName = &name
	if m.settings.OS == "windows" {
		p.ComputerName = to.Ptr(name[len(name)-maxComputerName:])
	}
	if m.settings.Username != "" {
		p.AdminUsername = &m.settings.Username
	}
	switch {
	case m.settings.UseStaticCredentials && m.settings.Password != "":
		p.AdminPassword = &m.settings.Password
		return nil
	case m.settings.OS == "windows":
		return fmt.Errorf("machines with Windows need a password: set use_static_credentials, username and password in connector_config")
	case publicKey == "":
		return nil
	}
	if p.LinuxConfiguration == nil {
		p.LinuxConfiguration = &armcompute.LinuxConfiguration{}
	}
	p.LinuxConfiguration.DisablePasswordAuthentication = to.Ptr(true)
	p.LinuxConfiguration.SSH = &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
		Path: to.Ptr("/home/" + m.settings.Username + "/.ssh/authorized_keys"), KeyData: to.Ptr(publicKey + " " + keyComment),
	}}}
	return nil
}

// The limits of Azure's tags.
const (
	maxTags     = 50
	maxTagValue = 256
)

// tags are labels as Azure can have them: <>%&\?/ are not in their names.
func tags(model map[string]*string, labels map[string]string) map[string]*string {
	out := maps.Clone(model)
	if out == nil {
		out = map[string]*string{}
	}
	own := []string{instancegroup.OwnerLabel, instancegroup.RequestLabel, instancegroup.NumberLabel}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(key string) bool { return slices.Contains(own, key) })
	for _, key := range append(own, others...) {
		text, ok := labels[key]
		name := strings.Map(func(r rune) rune {
			if strings.ContainsRune(`<>%&\?/`, r) {
				return '_'
			}
			return r
		}, key)
		if ok && name != "" && len(out) < maxTags {
			out[name] = to.Ptr(text[:min(len(text), maxTagValue)])
		}
	}
	return out
}
