package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/rungci/rung/sdk/instancegroup"
)

const gibibyte = 1 << 30

// Offers implements instancegroup.Offerer.
func (m *machines) Offers(context.Context) ([]instancegroup.Offer, error) {
	return slices.Clone(m.offers), nil
}

func (m *machines) offered(shape string) bool {
	return slices.ContainsFunc(m.offers, func(o instancegroup.Offer) bool { return o.Shape == shape })
}

// findOffers are the sizes that can be asked for: those of the options, in the zones that have them.
func (m *machines) findOffers(ctx context.Context) (offers []instancegroup.Offer, err error) {
	sizes := m.Sizes
	if len(sizes) == 0 {
		sizes = []Size{{Name: string(*m.model.Properties.HardwareProfile.VMSize)}}
	}
	location := value(m.model.Location)
	found := map[string]*armcompute.ResourceSKU{}
	filter := fmt.Sprintf("location eq '%s'", location)
	pager := func() *runtime.Pager[armcompute.ResourceSKUsClientListResponse] {
		return m.skus.NewListPager(&armcompute.ResourceSKUsClientListOptions{Filter: &filter})
	}
	err = all(ctx, m.azure, "the sizes of "+location, pager, func(page armcompute.ResourceSKUsClientListResponse) {
		for _, sku := range page.Value {
			if value(sku.ResourceType) == "virtualMachines" && slices.ContainsFunc(sizes, func(s Size) bool { return s.Name == value(sku.Name) }) {
				found[*sku.Name] = sku
			}
		}
	})
	if err != nil {
		return nil, err
	}
	onlySpot := value(m.model.Properties.Priority) == armcompute.VirtualMachinePriorityTypesSpot
	for _, size := range sizes {
		sku := found[size.Name]
		zones := m.zonesOf(sku)
		if len(zones) == 0 {
			return nil, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the size %q is not to be had by the subscription in %s %s", size.Name, location, strings.Join(m.Zones, ", "))}
		}
		for _, zone := range zones {
			offer := m.offer(size, sku)
			offer.Zone = zone
			if offer.Spot = onlySpot; onlySpot {
				offer.Price = size.SpotPrice
			}
			offers = append(offers, offer)
			if size.Spot && !onlySpot {
				offer.Spot, offer.Price = true, size.SpotPrice
				offers = append(offers, offer)
			}
		}
	}
	return offers, nil
}

// zonesOf are the zones in which a size can be had; the empty one is Azure's choice.
func (m *machines) zonesOf(sku *armcompute.ResourceSKU) (zones []string) {
	if sku == nil {
		return nil
	}
	var not []*string
	for _, r := range sku.Restrictions {
		if value(r.Type) == armcompute.ResourceSKURestrictionsTypeLocation {
			return nil
		}
		if r.RestrictionInfo != nil {
			not = append(not, r.RestrictionInfo.Zones...)
		}
	}
	if len(m.Zones) == 0 {
		return []string{""}
	}
	has := func(list []*string, zone string) bool {
		return slices.ContainsFunc(list, func(one *string) bool { return value(one) == zone })
	}
	for _, zone := range m.Zones {
		for _, info := range sku.LocationInfo {
			if has(info.Zones, zone) && !has(not, zone) {
				zones = append(zones, zone)
			}
		}
	}
	return zones
}

// architectures are Azure's names of them, as GOARCH has them.
var architectures = map[string]string{"x64": "amd64", "Arm64": "arm64"}

func (m *machines) offer(size Size, sku *armcompute.ResourceSKU) instancegroup.Offer {
	can := map[string]string{}
	for _, c := range sku.Capabilities {
		can[value(c.Name)] = value(c.Value)
	}
	number := func(name string) float64 {
		n, _ := strconv.ParseFloat(can[name], 64)
		return n
	}
	cpus := number("vCPUsAvailable")
	if cpus == 0 {
		cpus = number("vCPUs")
	}
	offer := instancegroup.Offer{
		Shape: size.Name, OS: m.settings.OS, Arch: architectures[can["CpuArchitectureType"]], CPUs: cpus, Memory: int64(number("MemoryGB") * gibibyte),
		GPUs: int(number("GPUs")), Price: size.Price, Currency: size.Currency, Disk: int64(m.DiskSize) * gibibyte,
	}
	if disk := m.model.Properties.StorageProfile.OSDisk; disk != nil && disk.DiskSizeGB != nil {
		offer.Disk = int64(*disk.DiskSizeGB) * gibibyte
	}
	if offer.GPUs > 0 {
		offer.GPU = value(sku.Family)
	}
	return offer
}
