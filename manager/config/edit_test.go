package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/diag"
)

const three = `# ours
concurrent = 3

# the first
[[runners]]
  name = "one"   # a comment
	token =   "aaa" # kept
  [runners.docker] # x
    image = "a"

# the second
[[runners]]
name = "two"
token = 'bbb'
[[runners.docker.services]]
name = "redis"
# what belongs to two

# the third
# has two lines
[[runners]]
  name = "three"
  token = "ccc"
  token_obtained_at = 2026-01-01T00:00:00Z
  token_expires_at = 2026-02-01T00:00:00Z

[session_server]
  session_timeout = 1
`

func TestAFileWithAMarkIsEditedLikeAnyOther(t *testing.T) {
	t.Parallel()
	const mark = "\ufeff"
	for name, edit := range map[string]func([]byte) ([]byte, error){
		"a removal": func(text []byte) ([]byte, error) { return config.Remove(text, 1) },
		"a token": func(text []byte) ([]byte, error) {
			return config.SetToken(text, 0, config.Token{Token: "new", Obtained: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
		},
	} {
		want, err := edit([]byte(three))
		if err != nil {
			t.Fatal(err)
		}
		got, err := edit([]byte(mark + three))
		if diff := cmp.Diff(mark+string(want), string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestOneEntryIsRemovedAndNothingElse(t *testing.T) {
	t.Parallel()
	for index, cut := range map[int][2]string{
		0: {"[[runners]]\n  name = \"one\"", "# the second"},
		1: {"[[runners]]\nname = \"two\"", "# the third"},
		2: {"[[runners]]\n  name = \"three\"", "[session_server]"},
	} {
		start, end := strings.Index(three, cut[0]), strings.Index(three, cut[1])
		got, err := config.Remove([]byte(three), index)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(three[:start]+three[end:], string(got)); diff != "" {
			t.Errorf("%d: %s", index, diff)
		}
	}
	for name, text := range map[string]string{
		"an entry that is not there": three, "entries on one line": `runners = [{name = "a"}, {name = "b"}, {name = "c"}, {name = "d"}]`,
	} {
		if _, err := config.Remove([]byte(text), 3); err == nil || !strings.Contains(err.Error(), "edit it by hand") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyTheTokenIsReplaced(t *testing.T) {
	t.Parallel()
	token := config.Token{Token: "new\"token", Obtained: time.Date(2026, 3, 1, 1, 2, 3, 4, time.UTC), Expires: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(three) }
	for index, want := range []string{
		replace(`"aaa" # kept`, `"new\"token" # kept`+"\n\ttoken_obtained_at = 2026-03-01T01:02:03Z\n\ttoken_expires_at = 2026-04-01T00:00:00Z"),
		replace(`'bbb'`, `"new\"token"`+"\ntoken_obtained_at = 2026-03-01T01:02:03Z\ntoken_expires_at = 2026-04-01T00:00:00Z"),
		replace(`"ccc"`, `"new\"token"`, "2026-01-01T00:00:00Z", "2026-03-01T01:02:03Z", "2026-02-01T00:00:00Z", "2026-04-01T00:00:00Z"),
	} {
		got, err := config.SetToken([]byte(three), index, token)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%d: %s", index, diff)
		}
	}
	if _, err := config.SetToken([]byte("[[runners]]\nname = \"x\"\n"), 0, token); err == nil {
		t.Error("an entry without a token got one")
	}
}

func TestAnEntryIsAddedAtTheEnd(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{"": "[[runners]]\n", "a = 1": "a = 1\n\n[[runners]]\n", "a = 1\n": "a = 1\n\n[[runners]]\n"} {
		if got := string(config.Add([]byte(before), "[[runners]]\n")); got != want {
			t.Errorf("%q: %q", before, got)
		}
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "config.toml")
	add := func(text []byte) ([]byte, error) { return config.Add(text, entry), nil }
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := config.Edit(path, add); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c, err := config.Read(path)
	if err != nil || len(c.Runners) != 8 {
		t.Fatalf("edits were lost: %v, %v", c, err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	before, _ := os.ReadFile(path)
	if err := config.Edit(path, func(text []byte) ([]byte, error) { return append(text, "x = "...), nil }); diag.Of(err) == nil {
		t.Errorf("an edit that breaks the file: %v", err)
	}
	stop := errors.New("stop")
	if err := config.Edit(path, func([]byte) ([]byte, error) { return nil, stop }); !errors.Is(err, stop) {
		t.Errorf("an edit that fails: %v", err)
	}
	after, _ := os.ReadFile(path)
	if string(before) != string(after) {
		t.Error("a failed edit changed the file")
	}
}

func TestALinkToAConfigurationStaysOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.toml"), filepath.Join(dir, "config.toml")
	write(t, real, registered)
	if err := os.Symlink(real, link); err != nil {
		t.Skip("no links here:", err)
	}
	if err := config.Edit(link, func(text []byte) ([]byte, error) { return config.Add(text, entry), nil }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if c, rerr := config.Read(real); err != nil || info.Mode()&os.ModeSymlink == 0 || rerr != nil || len(c.Runners) != 2 {
		t.Errorf("%v, %v, %v", info.Mode(), err, rerr)
	}
}
