package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/manager/config"
)

// CheckShape says which machines of the source's pool a group does not make; nil if it makes them. The group need not be initialised if it is part of this program.
func (s *Source) CheckShape(ctx context.Context, made group.Basic) error {
	of := s.pool
	offerer, ok := made.(group.Offerer)
	if !ok || !group.AbilitiesOf(made, group.ProviderInfo{}).Offers {
		for _, asked := range []struct {
			key string
			set bool
		}{{"shape", of.Shape != ""}, {"zone", of.Zone != ""}, {"spot", of.Spot}} {
			if asked.set {
				return s.wrongPool(asked.key, fmt.Errorf("it creates only one kind of machine and supports no shapes, zones or spot machines; remove %s", asked.key))
			}
		}
		return nil
	}
	if of.Shape == "" {
		return nil
	}
	offers, err := offerer.Offers(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(offers, func(o group.Offer) bool { return makes(o, of.Shape, of.Zone, of.Spot) }) {
		return nil
	}
	var names []string
	for _, o := range offers {
		names = append(names, o.Shape)
	}
	if slices.Contains(names, of.Shape) {
		return s.wrongPool("shape", fmt.Errorf("it makes machines of the shape %q, but not with the zone and spot of the pool", of.Shape))
	}
	return s.wrongPool("shape", fmt.Errorf("it %w", noShape(of.Shape, names)))
}

// makes reports whether an offer is one of a shape, in a zone, and spot machines or not.
func makes(o group.Offer, shape, zone string, spot bool) bool {
	return o.Shape == shape && (zone == "" || o.Zone == "" || o.Zone == zone) && o.Spot == spot
}

// noShape says that a group makes others. It goes on a sentence about the group.
func noShape(shape string, makes []string) error {
	if len(makes) == 0 {
		return fmt.Errorf("makes no machines of the shape %q: it has no shapes", shape)
	}
	return fmt.Errorf("makes no machines of the shape %q; it makes %q", shape, makes)
}

// wrongPool is an error about a key of the source's pool.
func (s *Source) wrongPool(key string, err error) error {
	one := &pluginoption.Error{Pointer: options.Pointer("pools", s.number, key), Err: err}
	return &config.TableError{Table: config.FleetOptions, Err: &pluginoption.Errors{Of: s.group(), All: []*pluginoption.Error{one}}}
}
