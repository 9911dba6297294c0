package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rungci/rung/manager/config"
)

func TestAnEntryIsWrittenSoThatItReadsTheSame(t *testing.T) {
	t.Parallel()
	values := config.Values{
		"docker.image": "a\"b\\c\n\x01é", "docker.volumes": []any{"/cache", "/x"}, "name": "n", "url": "https://gitlab.example.com", "token": "glrt-x", "id": int64(7),
		"executor": "docker", "isolation.default": "sandbox", "docker.sysctls": map[string]any{"net.core.somaxconn": "1"},
		"feature_flags": map[string]any{"FF_X": true}, "token_obtained_at": time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), "token_expires_at": time.Time{},
		"docker.services": []any{map[string]any{"name": "redis"}}, "cache.s3.BucketName": "b", "cache.Type": "s3", "docker.privileged": true,
	}
	text, err := config.Entry(values)
	if err != nil {
		t.Fatal(err)
	}
	want := `[[runners]]
  name = "n"
  url = "https://gitlab.example.com"
  id = 7
  token = "glrt-x"
  token_obtained_at = 2026-01-02T03:04:05Z
  token_expires_at = 0001-01-01T00:00:00Z
  executor = "docker"
  feature_flags = { "FF_X" = true }
  [runners.isolation]
    default = "sandbox"
  [runners.cache]
    Type = "s3"
  [runners.cache.s3]
    BucketName = "b"
  [runners.docker]
    image = "a\"b\\c\n\u0001é"
    privileged = true
    volumes = ["/cache", "/x"]
    services = [{ "name" = "redis" }]
    sysctls = { "net.core.somaxconn" = "1" }
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	back, err := config.Template("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	values["token_obtained_at"] = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if diff := cmp.Diff(values, back, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Error(diff)
	}
	if r := config.Check("x", []byte(text), none); r.Err() != nil {
		t.Error(r.Err())
	}
}

func TestTemplatesHaveOneEntry(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "has 0", entry + entry: "has 2", "[[runners]]\nlimit = \"x\"": "whole number"} {
		if _, err := config.Template("t.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTextsBecomeValues(t *testing.T) {
	t.Parallel()
	keys := map[string]config.Key{}
	for _, k := range config.EntryKeys() {
		keys[k.EntryName()] = k
	}
	for name, test := range map[string]struct {
		texts []string
		want  any
	}{
		"limit":              {[]string{"4"}, int64(4)},
		"docker.privileged":  {[]string{"true"}, true},
		"docker.volumes":     {[]string{"/a", "/b,c"}, []any{"/a", "/b,c"}},
		"docker.pull_policy": {[]string{"always"}, []any{"always"}},
		"docker.sysctls":     {[]string{"a=b", `{"c": "d"}`}, map[string]any{"a": "b", "c": "d"}},
		"feature_flags":      {[]string{"FF_X:true", "FF_Y=0"}, map[string]any{"FF_X": true, "FF_Y": false}},
		"docker.memory":      {[]string{"4g"}, "4g"},
	} {
		got, err := keys[name].ParseValue(test.texts)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	for name, text := range map[string]string{"limit": "four", "docker.privileged": "maybe", "docker.sysctls": "a", "feature_flags": "FF_X=maybe", "docker.tmpfs": "{"} {
		if got, err := keys[name].ParseValue([]string{text}); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
