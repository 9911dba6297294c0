// Package kinds opens the stores of caches that a configuration can name.
package kinds

import (
	"fmt"

	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/cachestore/azure"
	"github.com/rungci/rung/manager/cachestore/gcs"
	"github.com/rungci/rung/manager/cachestore/s3"
	"github.com/rungci/rung/manager/config"
)

// Open opens the store of a configuration; nil where caches are in a folder of this machine. It makes no request.
func Open(c config.Cache) (cachestore.Signer, error) {
	var store cachestore.Signer
	var err error
	table := ""
	switch c.Type {
	case "":
		return nil, nil
	case "s3", "s3v2":
		table = "s3"
		store, err = s3.New(c.S3)
	case "gcs", "gcsv2":
		table = "gcs"
		store, err = gcs.New(c.GCS, c.MaxUploadedArchiveSize)
	case "azure":
		table = "azure"
		store, err = azure.New(c.Azure)
	default:
		return nil, fmt.Errorf("[runners.cache] Type is %q; it can be s3, s3v2, gcs, gcsv2 or azure", c.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("[runners.cache.%s]: %w", table, err)
	}
	return store, nil
}
