package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/manager/config"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	all := config.Cache{S3: config.CacheS3{BucketName: "b"}, GCS: config.CacheGCS{BucketName: "b"}, Azure: config.CacheAzure{AccountName: "a", ContainerName: "c"}}
	for kind, want := range map[string]string{"": "<nil>", "s3": "*s3.Store", "s3v2": "*s3.Store", "gcs": "*gcs.Store", "gcsv2": "*gcs.Store", "azure": "*azure.Store"} {
		c := all
		c.Type = kind
		if got, err := Open(c); err != nil || fmt.Sprintf("%T", got) != want {
			t.Errorf("%q: got %T, %v", kind, got, err)
		}
	}
	for kind, want := range map[string]string{
		"s3": "[runners.cache.s3]: BucketName is missing", "gcsv2": "[runners.cache.gcs]: BucketName is missing", "azure": "[runners.cache.azure]: AccountName is missing",
		"ftp": `Type is "ftp"; it can be s3, s3v2, gcs, gcsv2 or azure`,
	} {
		if got, err := Open(config.Cache{Type: kind}); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v", kind, got, err)
		}
	}
}
