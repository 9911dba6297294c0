package s3

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/sharedstate/objectstest"
	"github.com/rungci/rung/manager/cachestore/cachestoretest"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/catalog/cache/bucket/buckettest"
)

// gateway starts Versity's S3 gateway, which checks signatures by itself, and makes buckets.
func gateway(t *testing.T) (address string, bucket func(name string) config.CacheS3) {
	t.Helper()
	program := enginetest.Versitygw(t)
	address = free(t)
	var said bytes.Buffer
	gateway := exec.CommandContext(t.Context(), program, "--access", buckettest.AccessKey, "--secret", buckettest.SecretKey, "--region", "eu-central-1", "--port", address, "--quiet", "posix", t.TempDir())
	gateway.Stdout, gateway.Stderr = &said, &said
	gateway.WaitDelay = 10 * time.Second
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = gateway.Process.Kill()
		_ = gateway.Wait()
		if t.Failed() {
			t.Logf("the gateway says:\n%s", said.String())
		}
	})
	await(t, address)
	admin, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(buckettest.AccessKey, buckettest.SecretKey, ""), Region: "eu-central-1"})
	if err != nil {
		t.Fatal(err)
	}
	return address, func(name string) config.CacheS3 {
		if err := admin.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
			t.Fatal(err)
		}
		return config.CacheS3{ServerAddress: address, Insecure: true, AccessKey: buckettest.AccessKey, SecretKey: buckettest.SecretKey, BucketName: name}
	}
}

// TestAServerOfSomebodyElse is the suite of caches with that gateway.
func TestAServerOfSomebodyElse(t *testing.T) {
	_, bucket := gateway(t)
	n := 0
	cachestoretest.Run(t, func(t *testing.T) cachestoretest.Place {
		n++
		c := bucket(fmt.Sprintf("runner-cache-%d", n))
		return cachestoretest.Place{Signer: opened(t, c), Secrets: []string{c.SecretKey}, Headers: true}
	})
}

// TestObjectsOfAServerOfSomebodyElse is the suite of shared state with it.
func TestObjectsOfAServerOfSomebodyElse(t *testing.T) {
	_, bucket := gateway(t)
	n := 0
	objectstest.Run(t, func(t *testing.T) sharedstate.Objects {
		n++
		o, err := NewObjects(bucket(fmt.Sprintf("state-%d", n)), "/rung/linux/")
		if err != nil {
			t.Fatal(err)
		}
		return o
	})
}

// free is an address on this machine that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// await waits until somebody listens on an address.
func await(t *testing.T, address string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
