package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
)

// answers has the fake servers answer for the world.
func (j *judge) answers() {
	j.answerSets()
	j.answerMachines()
	j.answerNetwork()
}

// refused is an answer with an error.
func refused(status int, code string) (e azfake.ErrorResponder) {
	e.SetResponseError(status, code)
	return e
}

func (j *judge) answerSets() {
	sets := &j.compute.VirtualMachineScaleSetsServer
	sets.Get = func(_ context.Context, group, name string, o *armcompute.VirtualMachineScaleSetsClientGetOptions) (ok azfake.Responder[armcompute.VirtualMachineScaleSetsClientGetResponse], e azfake.ErrorResponder) {
		set := j.sets[name]
		switch {
		case group != resources:
			return ok, refused(http.StatusForbidden, "AuthorizationFailed")
		case set == nil:
			return ok, refused(http.StatusNotFound, "ResourceNotFound")
		}
		set = copyOf(set)
		if p := set.Properties.VirtualMachineProfile; p != nil && (o == nil || value(o.Expand) != armcompute.ExpandTypesForGetVMScaleSetsUserData) {
			p.UserData = nil
		}
		ok.SetResponse(http.StatusOK, armcompute.VirtualMachineScaleSetsClientGetResponse{VirtualMachineScaleSet: *set}, nil)
		return ok, e
	}
	sets.BeginUpdate = func(_ context.Context, _, name string, body armcompute.VirtualMachineScaleSetUpdate, o *armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions) (ok azfake.PollerResponder[armcompute.VirtualMachineScaleSetsClientUpdateResponse], e azfake.ErrorResponder) {
		set := j.sets[name]
		switch {
		case o == nil || o.IfMatch == nil:
			j.object("the capacity is set whatever it is")
		case *o.IfMatch != *set.Etag:
			return ok, refused(http.StatusPreconditionFailed, "PreconditionFailed")
		case j.refuses["set"] != "":
			return ok, refused(http.StatusConflict, j.refuses["set"])
		case *body.SKU.Capacity < int64(len(j.members)):
			j.object("a capacity of %d deletes some of the %d machines", *body.SKU.Capacity, len(j.members))
		}
		*set.SKU.Capacity, set.Properties.ProvisioningState = *body.SKU.Capacity, &updating
		j.world.change(set)
		ok.AddNonTerminalResponse(http.StatusOK, nil)
		ok.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachineScaleSetsClientUpdateResponse{}, nil)
		return ok, e
	}
	sets.BeginDeleteInstances = func(_ context.Context, _, _ string, body armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs, _ *armcompute.VirtualMachineScaleSetsClientBeginDeleteInstancesOptions) (ok azfake.PollerResponder[armcompute.VirtualMachineScaleSetsClientDeleteInstancesResponse], e azfake.ErrorResponder) {
		for _, id := range body.InstanceIDs {
			if j.members[*id] == nil {
				return ok, refused(http.StatusBadRequest, "InvalidParameter")
			}
		}
		for _, id := range body.InstanceIDs {
			j.leave(*id)
		}
		ok.AddNonTerminalResponse(http.StatusAccepted, nil)
		ok.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachineScaleSetsClientDeleteInstancesResponse{}, nil)
		return ok, e
	}
	members := &j.compute.VirtualMachineScaleSetVMsServer
	members.NewListPager = func(_, _ string, o *armcompute.VirtualMachineScaleSetVMsClientListOptions) (ok azfake.PagerResponder[armcompute.VirtualMachineScaleSetVMsClientListResponse]) {
		if o == nil || value(o.Expand) != "instanceView" {
			j.object("a list without states")
		}
		paged(&ok, j.lists.members, func(all []*armcompute.VirtualMachineScaleSetVM) (r armcompute.VirtualMachineScaleSetVMsClientListResponse) {
			r.Value = all
			return r
		})
		return ok
	}
	members.BeginRunCommand = func(_ context.Context, _, _, id string, body armcompute.RunCommandInput, _ *armcompute.VirtualMachineScaleSetVMsClientBeginRunCommandOptions) (ok azfake.PollerResponder[armcompute.VirtualMachineScaleSetVMsClientRunCommandResponse], e azfake.ErrorResponder) {
		j.run(*j.members[id].Name, body)
		ok.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachineScaleSetVMsClientRunCommandResponse{}, nil)
		return ok, e
	}
}

var updating = "Updating"

// run records a script that is run on a machine.
func (j *judge) run(name string, body armcompute.RunCommandInput) {
	if value(body.CommandID) != "RunShellScript" {
		j.object("there is no command %q", value(body.CommandID))
	}
	var lines []string
	for _, line := range body.Script {
		lines = append(lines, *line)
	}
	j.scripts[name] = append(j.scripts[name], strings.Join(lines, "\n"))
}

func (j *judge) answerMachines() {
	vms := &j.compute.VirtualMachinesServer
	vms.NewListPager = func(_ string, o *armcompute.VirtualMachinesClientListOptions) (ok azfake.PagerResponder[armcompute.VirtualMachinesClientListResponse]) {
		set, inSet := "", o != nil && o.Filter != nil
		if inSet {
			set = regexp.MustCompile(`^'virtualMachineScaleSet/id' eq '(.+)'$`).ReplaceAllString(*o.Filter, "$1")
		}
		var found []*armcompute.VirtualMachine
		for _, vm := range j.lists.vms {
			vm = copyOf(vm)
			if of := vm.Properties.VirtualMachineScaleSet; inSet && (of == nil || *of.ID != set) {
				continue
			}
			if o == nil || o.Expand == nil || !inSet {
				vm.Properties.InstanceView = nil
			}
			found = append(found, vm)
		}
		paged(&ok, found, func(all []*armcompute.VirtualMachine) (r armcompute.VirtualMachinesClientListResponse) {
			r.Value = all
			return r
		})
		return ok
	}
	vms.NewListAllPager = func(o *armcompute.VirtualMachinesClientListAllOptions) (ok azfake.PagerResponder[armcompute.VirtualMachinesClientListAllResponse]) {
		if o == nil || value(o.StatusOnly) != "true" {
			j.object("a list of all machines without their states")
		}
		var states []*armcompute.VirtualMachine
		for _, vm := range j.lists.vms {
			upper := strings.ToUpper(*vm.ID)
			states = append(states, &armcompute.VirtualMachine{Name: vm.Name, ID: &upper, Properties: &armcompute.VirtualMachineProperties{InstanceView: vm.Properties.InstanceView}})
		}
		paged(&ok, states, func(all []*armcompute.VirtualMachine) (r armcompute.VirtualMachinesClientListAllResponse) {
			r.Value = all
			return r
		})
		return ok
	}
	vms.Get = func(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientGetOptions) (ok azfake.Responder[armcompute.VirtualMachinesClientGetResponse], e azfake.ErrorResponder) {
		if j.vms[name] == nil {
			return ok, refused(http.StatusNotFound, "ResourceNotFound")
		}
		ok.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: *copyOf(j.vms[name])}, nil)
		return ok, e
	}
	vms.BeginCreateOrUpdate = func(_ context.Context, _, name string, vm armcompute.VirtualMachine, o *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (ok azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], e azfake.ErrorResponder) {
		zone := ""
		if len(vm.Zones) > 0 {
			zone = *vm.Zones[0]
		}
		switch {
		case o == nil || value(o.IfNoneMatch) != "*":
			j.object("a machine that is there would be changed")
		case j.vms[name] != nil:
			return ok, refused(http.StatusPreconditionFailed, "PreconditionFailed")
		case j.refuses[zone] != "":
			return ok, refused(http.StatusConflict, j.refuses[zone])
		}
		for _, wrong := range mistakes(name, &vm) {
			j.object("the machine %s: %s", name, wrong)
		}
		j.make(name, vm)
		ok.AddNonTerminalResponse(http.StatusCreated, nil)
		ok.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientCreateOrUpdateResponse{}, nil)
		return ok, e
	}
	vms.BeginDelete = func(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientBeginDeleteOptions) (ok azfake.PollerResponder[armcompute.VirtualMachinesClientDeleteResponse], e azfake.ErrorResponder) {
		if j.vms[name] == nil {
			ok.SetTerminalResponse(http.StatusNoContent, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
			return ok, e
		}
		j.remove(name)
		ok.AddNonTerminalResponse(http.StatusAccepted, nil)
		ok.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
		return ok, e
	}
	vms.BeginRunCommand = func(_ context.Context, _, name string, body armcompute.RunCommandInput, _ *armcompute.VirtualMachinesClientBeginRunCommandOptions) (ok azfake.PollerResponder[armcompute.VirtualMachinesClientRunCommandResponse], e azfake.ErrorResponder) {
		j.run(name, body)
		ok.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientRunCommandResponse{}, nil)
		return ok, e
	}
	j.compute.ResourceSKUsServer.NewListPager = func(o *armcompute.ResourceSKUsClientListOptions) (ok azfake.PagerResponder[armcompute.ResourceSKUsClientListResponse]) {
		if o == nil || value(o.Filter) != "location eq 'westeurope'" {
			j.object("the sizes of all regions")
		}
		paged(&ok, j.lists.skus, func(all []*armcompute.ResourceSKU) (r armcompute.ResourceSKUsClientListResponse) {
			r.Value = all
			return r
		})
		return ok
	}
}

// mistakes are what Azure would refuse of a machine, by its documentation, and what would be left behind by it.
func mistakes(name string, vm *armcompute.VirtualMachine) (out []string) {
	need := func(ok bool, what string) {
		if !ok {
			out = append(out, what)
		}
	}
	p := vm.Properties
	need(value(vm.Location) != "", "it has no location")
	need(len(name) <= 64 && len(value(p.OSProfile.ComputerName)) <= 64, "its name is too long")
	need(p.HardwareProfile != nil && p.HardwareProfile.VMSize != nil, "it has no size")
	need(p.StorageProfile.ImageReference != nil && value(p.StorageProfile.OSDisk.CreateOption) == armcompute.DiskCreateOptionTypesFromImage, "it has no image")
	need(value(p.StorageProfile.OSDisk.DeleteOption) == armcompute.DiskDeleteOptionTypesDelete, "its disk stays")
	need(value(p.NetworkProfile.NetworkAPIVersion) != "" && len(p.NetworkProfile.NetworkInterfaces) == 0, "its network interface cannot be made")
	for _, nic := range p.NetworkProfile.NetworkInterfaceConfigurations {
		need(value(nic.Properties.DeleteOption) == armcompute.DeleteOptionsDelete, "its network interface stays")
		for _, c := range nic.Properties.IPConfigurations {
			need(c.Properties.Subnet != nil && value(c.Properties.Subnet.ID) == subnet, "it has no subnet")
			if public := c.Properties.PublicIPAddressConfiguration; public != nil {
				need(value(public.Properties.DeleteOption) == armcompute.DeleteOptionsDelete, "its public address stays")
			}
		}
	}
	need(vm.Name == nil && vm.ID == nil && p.ProvisioningState == nil && p.InstanceView == nil && p.VMID == nil && p.TimeCreated == nil, "it has what is for output only")
	need(len(vm.Tags) <= 50, "it has too many tags")
	spot := value(p.Priority) == armcompute.VirtualMachinePriorityTypesSpot
	need(spot == (p.EvictionPolicy != nil), "an eviction policy is of spot machines")
	if linux := p.OSProfile.LinuxConfiguration; linux != nil && linux.SSH != nil {
		for _, key := range linux.SSH.PublicKeys {
			need(value(key.Path) == fmt.Sprintf("/home/%s/.ssh/authorized_keys", value(p.OSProfile.AdminUsername)), "its key is not the user's")
		}
	} else {
		need(value(p.OSProfile.AdminPassword) != "", "nobody can log in")
	}
	return out
}

func (j *judge) answerNetwork() {
	nics := &j.network.InterfacesServer
	nics.Get = func(_ context.Context, _, name string, _ *armnetwork.InterfacesClientGetOptions) (ok azfake.Responder[armnetwork.InterfacesClientGetResponse], e azfake.ErrorResponder) {
		ok.SetResponse(http.StatusOK, armnetwork.InterfacesClientGetResponse{Interface: j.nic(name, strings.TrimPrefix(name, "nic-"))}, nil)
		return ok, e
	}
	nics.NewListVirtualMachineScaleSetVMNetworkInterfacesPager = func(_, _, id string, _ *armnetwork.InterfacesClientListVirtualMachineScaleSetVMNetworkInterfacesOptions) (ok azfake.PagerResponder[armnetwork.InterfacesClientListVirtualMachineScaleSetVMNetworkInterfacesResponse]) {
		if j.members[id] == nil {
			ok.AddResponseError(http.StatusNotFound, "NotFound")
			return ok
		}
		nic := j.nic("nic", "uniform_"+id)
		var page armnetwork.InterfacesClientListVirtualMachineScaleSetVMNetworkInterfacesResponse
		page.Value = []*armnetwork.Interface{&nic}
		ok.AddPage(http.StatusOK, page, nil)
		return ok
	}
	public := &j.network.PublicIPAddressesServer
	public.Get = func(_ context.Context, _, name string, _ *armnetwork.PublicIPAddressesClientGetOptions) (ok azfake.Responder[armnetwork.PublicIPAddressesClientGetResponse], e azfake.ErrorResponder) {
		ok.SetResponse(http.StatusOK, armnetwork.PublicIPAddressesClientGetResponse{PublicIPAddress: *address(strings.TrimPrefix(name, "pip-"))}, nil)
		return ok, e
	}
	public.NewListVirtualMachineScaleSetVMPublicIPAddressesPager = func(_, _, id, _, _ string, _ *armnetwork.PublicIPAddressesClientListVirtualMachineScaleSetVMPublicIPAddressesOptions) (ok azfake.PagerResponder[armnetwork.PublicIPAddressesClientListVirtualMachineScaleSetVMPublicIPAddressesResponse]) {
		var page armnetwork.PublicIPAddressesClientListVirtualMachineScaleSetVMPublicIPAddressesResponse
		page.Value = []*armnetwork.PublicIPAddress{address("uniform_" + id)}
		ok.AddPage(http.StatusOK, page, nil)
		return ok
	}
}
