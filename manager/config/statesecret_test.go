package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTheStateSecretIsMadeOnceAndIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	first, err := StateSecret(path)
	if err != nil || len(first) < 20 {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	if again, err := StateSecret(path); err != nil || string(again) != string(first) {
		t.Errorf("the second one is another one: %v", err)
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(path), secretFile)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := StateSecret(filepath.Join(path, "missing", "config.toml")); err == nil {
		t.Error("a secret that cannot be kept is no error")
	}
}

// TestARunnerIsTheSameAfterItWasWrittenAsJSON is about what package manager keeps of a runner.
func TestARunnerIsTheSameAfterItWasWrittenAsJSON(t *testing.T) {
	const text = `
user = "ci"
[[runners]]
name = "all kinds of values"
url = "https://gitlab.example.com"
token = "glrt-aaaaaaaaaaaaaaaaaaaa"
token_expires_at = 2027-01-02T03:04:05Z
executor = "docker"
environment = ["A=b"]
limit = 3
prepare_timeout = 7
safe_directory_checkout = false
clean_git_config = true
[runners.labels]
where = "here"
[runners.feature_flags]
FF_DISABLE_AUTOMATIC_TOKEN_ROTATION = true
[runners.isolation]
default = "container"
allowed = ["sandbox"]
[runners.policy]
memory = "2g"
cpus = "1.5"
[runners.docker]
image = "alpine"
pull_policy = ["always", "if-not-present"]
volumes = ["/cache"]
memory = "512m"
[[runners.docker.services]]
name = "redis"
alias = "db"
[runners.docker.sysctls]
"net.core.somaxconn" = "1024"
[runners.cache]
Type = "s3"
Shared = true
[runners.cache.s3]
BucketName = "caches"
SecretKey = "p4ssw0rd"
`
	report := Check("config.toml", []byte(text), os.Getenv)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	runner := report.Config.Runners[0]
	data, err := json.Marshal(runner)
	if err != nil {
		t.Fatal(err)
	}
	var again Runner
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runner, again, cmpopts.IgnoreUnexported(Runner{})); diff != "" {
		t.Error(diff)
	}
}
