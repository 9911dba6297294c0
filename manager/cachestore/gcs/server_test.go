package gcs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/cachestore/cachestoretest"
	"github.com/rungci/rung/manager/config"
)

// TestAServerOfSomebodyElse is the suite with fake-gcs-server, which finds objects by their addresses as Google does, and checks no signatures.
func TestAServerOfSomebodyElse(t *testing.T) {
	program := enginetest.FakeGCSServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := strings.Cut(address, ":")
	_ = l.Close()
	var said bytes.Buffer
	server := exec.CommandContext(t.Context(), program, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-public-host", address, "-backend", "memory")
	server.Stdout, server.Stderr, server.WaitDelay = &said, &said, 10*time.Second
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the server says:\n%s", said.String())
		}
	})
	path, _, _ := keyFile(t)
	n := 0
	cachestoretest.Run(t, func(t *testing.T) cachestoretest.Place {
		n++
		bucket := fmt.Sprintf("runner-cache-%d", n)
		makeBucket(t, "http://"+address, bucket)
		s, err := New(config.CacheGCS{CredentialsFile: path, BucketName: bucket}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		s.base = "http://" + address
		return cachestoretest.Place{Signer: s, Believes: true}
	})
	t.Run("metadata arrives", func(t *testing.T) { arrives(t, "http://"+address, path) })
}

// makeBucket makes a bucket once the server answers.
func makeBucket(t *testing.T, base, name string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Post(base+"/storage/v1/b?project=p", "application/json", strings.NewReader(fmt.Sprintf(`{"name": %q}`, name)))
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// arrives puts an object with metadata, and reads that back through the API.
func arrives(t *testing.T, base, key string) {
	makeBucket(t, base, "metadata")
	s, err := New(config.CacheGCS{CredentialsFile: key, BucketName: "metadata"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.base = base
	a, err := s.Put(t.Context(), "project/7/main", cachestore.Metadata{"cachekey": "main"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, a.URL, strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range a.Headers {
		put.Header.Set(name, text)
	}
	resp, err := http.DefaultClient.Do(put)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	resp, err = http.Get(base + "/storage/v1/b/metadata/o/project%2F7%2Fmain")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var object struct {
		Size, ContentType string
		Metadata          map[string]string
	}
	if err := json.NewDecoder(resp.Body).Decode(&object); err != nil {
		t.Fatal(err)
	}
	if object.Size != "7" || object.ContentType != "application/octet-stream" || !hasFold(object.Metadata, "cachekey", "main") {
		t.Errorf("got %+v", object)
	}
}

// hasFold looks for a name that HTTP may have spelled otherwise.
func hasFold(in map[string]string, name, text string) bool {
	for k, v := range in {
		if strings.EqualFold(k, name) {
			return v == text
		}
	}
	return false
}
