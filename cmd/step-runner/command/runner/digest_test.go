package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheDigestOfAFileIsRemembered(t *testing.T) {
	t.Parallel()
	dir, cache := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "program")
	write := func(text string, modified time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now().Add(-time.Hour).Truncate(time.Second)
	write("one", start)
	first := fileDigest(path, cache)
	if want := ComputeDigest(path); first != want || want == "" {
		t.Fatalf("the digest is %q, want %q", first, want)
	}
	if again := fileDigest(path, cache); again != first {
		t.Errorf("the second time it is %q, want %q", again, first)
	}
	write("two", start.Add(time.Second))
	if changed := fileDigest(path, cache); changed != ComputeDigest(path) || changed == first {
		t.Errorf("after a change it is %q, want %q", changed, ComputeDigest(path))
	}
	if err := os.WriteFile(filepath.Join(cache, "step-runner", "program.json"), []byte("{garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := fileDigest(path, cache); got != ComputeDigest(path) {
		t.Errorf("with a damaged cache it is %q, want %q", got, ComputeDigest(path))
	}
	missing := filepath.Join(dir, "no-cache")
	if got := fileDigest(path, missing); got != ComputeDigest(path) {
		t.Errorf("without a cache it is %q", got)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a cache folder that did not exist was made")
	}
}
