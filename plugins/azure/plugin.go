package main

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/sdk/instancegroup"
)

// plugin is the group that the options ask for: that of a uniform scale set, which is asked for a number of machines, or one whose machines are made one by one.
type plugin struct {
	Options
	group group.Basic
	can   group.Abilities
}

//go:embed schema.json
var schema string

// OptionsSchema implements instancegroup.Schemer.
func (p *plugin) OptionsSchema() string { return schema }

// Init implements group.Basic.
func (p *plugin) Init(ctx context.Context, log instancegroup.Logger, settings instancegroup.Settings) (info instancegroup.ProviderInfo, err error) {
	if err := p.check(); err != nil {
		return info, err
	}
	a, err := connect(p.Options, log)
	if err != nil {
		return info, err
	}
	a.settings = settings
	var set *armcompute.VirtualMachineScaleSet
	if p.ScaleSet != "" {
		if set, err = a.scaleSet(ctx); err != nil {
			return info, err
		}
		if err := refuse(p.ScaleSet, set); err != nil {
			return info, err
		}
	}
	if set != nil && *set.Properties.OrchestrationMode == armcompute.OrchestrationModeUniform {
		if p.CustomData != "" {
			return info, fmt.Errorf(`the scale set %q is uniform, and the custom data of its machines is that of its model: remove "custom_data"`, p.ScaleSet)
		}
		if len(p.Sizes) > 0 || len(p.Zones) > 0 {
			return info, fmt.Errorf(`the scale set %q is uniform, and its model says the size and the zones of its machines: remove "sizes" and "zones"`, p.ScaleSet)
		}
		p.group = &uniform{azure: a}
	} else {
		p.group = instancegroup.Group(&machines{azure: a, set: set})
	}
	info, err = p.group.Init(ctx, log, settings)
	p.can = group.AbilitiesOf(p.group, info)
	return info, err
}

// refuse refuses a scale set that removes or replaces machines by itself: it knows nothing of jobs.
func refuse(name string, set *armcompute.VirtualMachineScaleSet) error {
	p := set.Properties
	what := fmt.Sprintf("the scale set %q", name)
	switch {
	case p == nil || p.OrchestrationMode == nil:
		return fmt.Errorf("%s does not say its orchestration mode", what)
	case value(p.Overprovision):
		return fmt.Errorf("%s makes more machines than it is asked for, and deletes some that jobs may have: set its overprovision to false", what)
	case p.UpgradePolicy != nil && p.UpgradePolicy.Mode != nil && *p.UpgradePolicy.Mode != armcompute.UpgradeModeManual:
		return fmt.Errorf("%s replaces busy machines when its model changes: set the mode of its upgrade policy to Manual", what)
	case p.UpgradePolicy != nil && p.UpgradePolicy.AutomaticOSUpgradePolicy != nil && value(p.UpgradePolicy.AutomaticOSUpgradePolicy.EnableAutomaticOSUpgrade):
		return fmt.Errorf("%s replaces the disks of busy machines when there is a new image: disable its automatic OS upgrades", what)
	case p.SpotRestorePolicy != nil && value(p.SpotRestorePolicy.Enabled):
		return fmt.Errorf("%s makes evicted machines again by itself: disable its spot restore policy", what)
	}
	return nil
}

// value is what a pointer points to; nil: the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Abilities implements group.Abler.
func (p *plugin) Abilities() group.Abilities { return p.can }

// Update implements group.Basic.
func (p *plugin) Update(ctx context.Context, update func(string, group.State)) error {
	return p.group.Update(ctx, update)
}

// Increase implements group.Basic.
func (p *plugin) Increase(ctx context.Context, n int) (int, error) { return p.group.Increase(ctx, n) }

// Decrease implements group.Basic.
func (p *plugin) Decrease(ctx context.Context, ids []string) ([]string, error) {
	return p.group.Decrease(ctx, ids)
}

// ConnectInfo implements group.Basic.
func (p *plugin) ConnectInfo(ctx context.Context, id string) (group.ConnectInfo, error) {
	return p.group.ConnectInfo(ctx, id)
}

// What follows is called where the group can.

// List implements group.Lister.
func (p *plugin) List(ctx context.Context, update func(group.Instance)) error {
	return p.group.(group.Lister).List(ctx, update)
}

// IncreaseShape implements group.ShapeIncreaser.
func (p *plugin) IncreaseShape(ctx context.Context, r group.Request) ([]string, error) {
	return p.group.(group.ShapeIncreaser).IncreaseShape(ctx, r)
}

// Offers implements group.Offerer.
func (p *plugin) Offers(ctx context.Context) ([]group.Offer, error) {
	return p.group.(group.Offerer).Offers(ctx)
}

// Metrics implements group.Meter.
func (p *plugin) Metrics(ctx context.Context) ([]group.Metric, error) {
	return p.group.(group.Meter).Metrics(ctx)
}
