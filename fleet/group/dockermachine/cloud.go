package dockermachine

import (
	"context"
	"errors"

	"github.com/rungci/rung/sdk/instancegroup"
)

// cloud is the group's machines.
type cloud struct {
	options Options
}

// Open implements instancegroup.Cloud.
func (c *cloud) Open(context.Context, instancegroup.Logger, instancegroup.Settings) (instancegroup.ProviderInfo, error) {
	return instancegroup.ProviderInfo{}, errors.ErrUnsupported
}

// Machines implements instancegroup.Cloud.
func (c *cloud) Machines(context.Context) ([]instancegroup.Machine, error) {
	return nil, errors.ErrUnsupported
}

// Create implements instancegroup.Cloud.
func (c *cloud) Create(context.Context, instancegroup.Order) (string, error) {
	return "", errors.ErrUnsupported
}

// Delete implements instancegroup.Cloud.
func (c *cloud) Delete(context.Context, string) error { return errors.ErrUnsupported }
