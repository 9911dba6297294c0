package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

// readTemplate reads the instance template of a URL, or of a partial one.
func (c *cloud) readTemplate(ctx context.Context, url string) (*compute.InstanceProperties, error) {
	_, region, regional := strings.Cut(url, "regions/")
	region, _, _ = strings.Cut(region, "/")
	template, err := do(ctx, c, fmt.Sprintf("the instance template %q", short(url)), func(ctx context.Context) (*compute.InstanceTemplate, error) {
		if regional {
			return c.api.RegionInstanceTemplates.Get(c.Project, region, short(url)).Context(ctx).Do()
		}
		return c.api.InstanceTemplates.Get(c.Project, short(url)).Context(ctx).Do()
	})
	if err != nil {
		return nil, err
	}
	if template.Properties == nil {
		return nil, fmt.Errorf("the instance template %q has no properties", short(url))
	}
	return template.Properties, nil
}

// Offers implements instancegroup.Offerer.
func (c *cloud) Offers(context.Context) ([]instancegroup.Offer, error) {
	return slices.Clone(c.offers), nil
}

func (c *cloud) offered(shape string) bool {
	return slices.ContainsFunc(c.offers, func(o instancegroup.Offer) bool { return o.Shape == shape })
}

// findOffers are the shapes that can be asked for. A group makes those of its template, in a zone that it chooses.
func (c *cloud) findOffers(ctx context.Context) (offers []instancegroup.Offer, err error) {
	own := MachineType{Name: short(c.template.MachineType)}
	onlySpot := c.template.Scheduling != nil && c.template.Scheduling.ProvisioningModel == "SPOT"
	types, zones := c.MachineTypes, c.zones
	if len(types) == 0 {
		types = []MachineType{own}
	}
	if c.Region != "" {
		zones = zones[:1]
	}
	for _, t := range types {
		for _, zone := range zones {
			found, err := do(ctx, c, fmt.Sprintf("the machine type %q of %s", t.Name, zone), func(ctx context.Context) (*compute.MachineType, error) {
				return c.api.MachineTypes.Get(c.Project, zone, t.Name).Context(ctx).Do()
			})
			if errors.Is(err, instancegroup.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			offer := c.offer(t, found)
			if offer.Zone = zone; c.Region != "" {
				offer.Zone = ""
			}
			if offer.Spot = onlySpot; onlySpot {
				offer.Price = t.SpotPrice
			}
			offers = append(offers, offer)
			if t.Spot && !onlySpot {
				offer.Spot, offer.Price = true, t.SpotPrice
				offers = append(offers, offer)
			}
		}
		if !slices.ContainsFunc(offers, func(o instancegroup.Offer) bool { return o.Shape == t.Name }) {
			return nil, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("none of the zones %s has the machine type %q", strings.Join(zones, ", "), t.Name)}
		}
	}
	return offers, nil
}

func (c *cloud) offer(t MachineType, found *compute.MachineType) instancegroup.Offer {
	offer := instancegroup.Offer{
		Shape: t.Name, OS: c.settings.OS, Arch: map[string]string{"ARM64": "arm64", "X86_64": "amd64"}[found.Architecture],
		CPUs: float64(found.GuestCpus), Memory: found.MemoryMb * mebibyte, Price: t.Price, SuspendedPrice: t.SuspendedPrice, Currency: t.Currency,
	}
	if offer.Arch == "" {
		offer.Arch = c.settings.Arch
	}
	for _, a := range found.Accelerators {
		offer.GPU, offer.GPUs = a.GuestAcceleratorType, offer.GPUs+int(a.GuestAcceleratorCount)
	}
	for _, d := range c.template.Disks {
		if d.Boot && d.InitializeParams != nil {
			offer.Disk = d.InitializeParams.DiskSizeGb * gibibyte
		}
	}
	return offer
}

// maxLabel is the length of keys and values of Google Cloud's labels, and maxLabels how many a resource has.
const (
	maxLabel  = 63
	maxLabels = 64
)

// cloudLabels are labels for the bill: the template's, and those of an order as Google Cloud can have them. The true ones are in the metadata.
func cloudLabels(template, labels map[string]string) map[string]string {
	out := maps.Clone(template)
	if out == nil {
		out = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if k := strings.TrimLeft(label(key), "0123456789-_"); k != "" && len(out) < maxLabels {
			out[k] = label(labels[key])
		}
	}
	return out
}

// label is a text with nothing in it but what a label may have.
func label(text string) string {
	text = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(text))
	return text[:min(len(text), maxLabel)]
}
