// Package cachestore gives the caches of jobs an address each in an object store.
//
//	config.toml ──kinds.Open──> Signer: s3, gcs, azure
//	                              │
//	a job's keys ──> Caches ──────┴──> addresses that are signed ──> steps of the job: GET, PUT
//
// The credentials of the store stay here. A job gets one address for each cache that it looks for or saves. Each is good for that object and that
// method alone, and no longer than the job may run. Objects have the names that GitLab's runner gives them (cache/cache.go), so that the caches
// of the one are found by the other.
package cachestore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
)

// Signer signs addresses of objects in a store. It is safe for concurrent use. It may ask for credentials, which takes at most as long as the
// context lives. Errors hold no credentials.
type Signer interface {
	// Get returns the address to get an object from. It holds for life, but for stores that have an upper bound, or for credentials that end earlier.
	Get(ctx context.Context, object string, life time.Duration) (Address, error)
	// Put returns the address to send an object to, and the headers to send along.
	Put(ctx context.Context, object string, meta Metadata, life time.Duration) (Address, error)
}

// Metadata are kept with an object. Names are small letters.
type Metadata map[string]string

// Headers are those of requests that set the metadata, where a store wants a prefix before their names.
func (m Metadata) Headers(prefix string) map[string]string {
	out := map[string]string{}
	for name, text := range m {
		out[prefix+name] = text
	}
	return out
}

// Address is signed. Whoever has it needs no credentials.
type Address struct {
	URL     string
	Headers map[string]string // nil for a GET
}

const (
	// MaxLife is how long signatures of the stores can hold.
	MaxLife = 7 * 24 * time.Hour
	// signing is how long it may take to sign the address of one cache: credentials may have to be fetched.
	signing = 20 * time.Second
)

// Project are the caches of a project in a store.
type Project struct {
	signer   Signer
	location cachekey.Location
	maxSize  int64 // of one archive, in bytes; 0 is any size
}

// Of returns the caches of a project, of which runner is the part of its runner in their names.
func Of(signer Signer, c config.Cache, runner string, project int64) *Project {
	return &Project{
		signer: signer, maxSize: c.MaxUploadedArchiveSize,
		location: cachekey.Location{Path: c.Path, Shared: c.Shared, Runner: runner, Project: strconv.FormatInt(project, 10)},
	}
}

// For returns the caches as one job has them, whose addresses hold for life. note is told why something cannot be signed: the job's log says only
// that, as the reason is the operator's.
func (p *Project) For(ctx context.Context, life time.Duration, note func(error)) *Caches {
	return &Caches{project: p, ctx: ctx, life: life, note: note}
}

// Caches are those of one job. It is a compile.CacheStore.
type Caches struct {
	project *Project
	ctx     context.Context
	life    time.Duration
	note    func(error)
}

// errUnsigned is what people read who see the job's log.
var errUnsigned = errors.New("the runner cannot sign an address for it; the runner's log says why")

// Get implements compile.CacheStore.
func (c *Caches) Get(key compile.CacheKey) (compile.CacheAddress, error) {
	return c.sign(key, c.project.signer.Get)
}

// Put implements compile.CacheStore.
func (c *Caches) Put(key compile.CacheKey) (compile.CacheAddress, error) {
	out, err := c.sign(key, func(ctx context.Context, object string, life time.Duration) (Address, error) {
		return c.project.signer.Put(ctx, object, described(key.Text), life)
	})
	out.MaxSize = c.project.maxSize
	return out, err
}

func (c *Caches) sign(key compile.CacheKey, with func(context.Context, string, time.Duration) (Address, error)) (compile.CacheAddress, error) {
	name := key.Key
	if key.Hashed {
		name = cachekey.Sharded(name)
	}
	object, err := c.project.location.Object(name)
	if err != nil {
		return compile.CacheAddress{}, err
	}
	ctx, end := context.WithTimeout(c.ctx, signing)
	defer end()
	address, err := with(ctx, object, min(c.life, MaxLife))
	if err != nil {
		c.note(fmt.Errorf("signing an address for the cache %s: %w", object, err))
		return compile.CacheAddress{}, errUnsigned
	}
	return compile.CacheAddress{URL: address.URL, Headers: address.Headers}, nil
}

// described keeps the key beside the cache, which has it under its hash, as GitLab's runner does. A key that cannot be in a header is left out.
func described(key string) Metadata {
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(key) != key {
		return nil
	}
	return Metadata{"cachekey": key}
}
