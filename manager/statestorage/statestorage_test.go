package statestorage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/statestorage"
	"github.com/rungci/rung/manager/store"
)

func TestWhatIsWrongWithTheConfigurationIsSaid(t *testing.T) {
	short := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(short, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s3 := config.CacheS3{BucketName: "state", ServerAddress: "127.0.0.1:1", AccessKey: "a", SecretKey: "b"}
	key := strings.Repeat("k", 40)
	for name, test := range map[string]struct {
		config config.StateStorage
		key    string
		want   string
	}{
		"no key":          {config.StateStorage{S3: s3}, "", "openssl rand"},
		"a key file":      {config.StateStorage{S3: s3, KeyFile: filepath.Join(t.TempDir(), "missing")}, key, "key_file"},
		"a short key":     {config.StateStorage{S3: s3, KeyFile: short}, key, "has 5 bytes"},
		"two places":      {config.StateStorage{S3: s3, Kubernetes: config.StateKubernetes{Namespace: "n"}}, key, "one place"},
		"no namespace":    {config.StateStorage{Kubernetes: config.StateKubernetes{Context: "c"}}, key, "namespace"},
		"a kubeconfig":    {config.StateStorage{Kubernetes: config.StateKubernetes{Namespace: "n", Kubeconfig: "/nowhere/kubeconfig"}}, key, "/nowhere/kubeconfig"},
		"a prefix":        {config.StateStorage{Prefix: "Rung_1", Kubernetes: config.StateKubernetes{Namespace: "n", Kubeconfig: "testdata/kubeconfig"}}, key, "Rung_1"},
		"no bucket":       {config.StateStorage{Prefix: "p"}, key, "BucketName"},
		"a lease":         {config.StateStorage{S3: s3, Lease: 1}, key, "must be at least 3s"},
		"an address":      {config.StateStorage{S3: config.CacheS3{BucketName: "state", ServerAddress: "http://host", AccessKey: "a", SecretKey: "b"}}, key, "ServerAddress"},
		"an enormous key": {config.StateStorage{S3: s3}, strings.Repeat("k", 5000), "4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := statestorage.Open(t.Context(), statestorage.Options{Config: test.config, Folder: t.TempDir(), Getenv: func(string) string { return test.key }})
			if !errors.Is(err, statestorage.ErrConfiguration) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
			if err != nil && test.key != "" && strings.Contains(err.Error(), test.key) {
				t.Error("the error has the key")
			}
		})
	}
}

func TestOneProcessHasTheFolder(t *testing.T) {
	folder := t.TempDir()
	unlock, err := store.Lock(filepath.Join(folder, "shared.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	c := config.StateStorage{S3: config.CacheS3{BucketName: "state", ServerAddress: "127.0.0.1:1", AccessKey: "a", SecretKey: "b"}}
	_, err = statestorage.Open(t.Context(), statestorage.Options{Config: c, Folder: folder, Getenv: func(string) string { return strings.Repeat("k", 40) }})
	if !errors.Is(err, store.ErrInUse) {
		t.Error(err)
	}
}
