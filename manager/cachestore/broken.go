package cachestore

import (
	"context"
	"time"
)

// Broken is a store that cannot be used: jobs run without caches.
type Broken struct{ Err error }

// Get implements Signer.
func (b Broken) Get(context.Context, string, time.Duration) (Address, error) {
	return Address{}, b.Err
}

// Put implements Signer.
func (b Broken) Put(context.Context, string, Metadata, time.Duration) (Address, error) {
	return Address{}, b.Err
}
