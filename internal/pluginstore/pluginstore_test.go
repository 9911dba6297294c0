package pluginstore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestReferences(t *testing.T) {
	for text, want := range map[string]Reference{
		"aws":                                 {Name: "aws", Constraint: Latest},
		"aws:latest":                          {Name: "aws", Constraint: Latest},
		"aws:1":                               {Name: "aws", Constraint: "1"},
		"aws:0.0.0-bleeding":                  {Name: "aws", Constraint: "0.0.0-bleeding"},
		"group-plugin-aws:1.2":                {Name: "group-plugin-aws", Constraint: "1.2"},
		"ci/plugins/aws:v1.2.3":               {Source: "ci/plugins/aws", Name: "aws", Constraint: "v1.2.3"},
		"localhost:5000/aws":                  {Source: "localhost:5000/aws", Name: "aws", Constraint: Latest},
		"oci://registry.example.com/ci/aws:1": {Source: "registry.example.com/ci/aws", Name: "aws", Constraint: "1"},
		"aws@" + someDigest:                   {Name: "aws", Constraint: Latest, Digest: someDigest},
		"r.example.com/aws:1@" + someDigest:   {Source: "r.example.com/aws", Name: "aws", Constraint: "1", Digest: someDigest},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%s: %s is read as %+v, %v", text, got, again, err)
		}
	}
}

func TestWhatNamesNoPluginIsRefused(t *testing.T) {
	for _, text := range []string{
		"", ":1", "aws:", "aws:one", "aws:1.2.3.4", "aws:1.2.3+build", "aws@sha256:12", "aws@", "a/../b", "../aws", "registry.example.com/", "a b", ".", "..", "-aws",
		"aws@" + strings.ToUpper(someDigest),
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestVersionsMeetConstraints(t *testing.T) {
	for _, tc := range []struct {
		version, constraint string
		want                bool
	}{
		{"1.2.3", "latest", true}, {"1.2.3", "1", true}, {"1.2.3", "1.2", true}, {"1.2.3", "1.2.3", true}, {"v1.2.3", "1.2.3", true}, {"1.2.3", "v1", true},
		{"1.2.3", "2", false}, {"1.2.3", "1.3", false}, {"1.2.3", "1.2.4", false}, {"11.2.3", "1", false},
		{"1.3.0-rc.1", "latest", false}, {"1.3.0-rc.1", "1", false}, {"1.3.0-rc.1", "1.3.0-rc.1", true}, {"1.3.0-rc.1", "1.3.0", false},
		{"sha256-00", "latest", false}, {"sha256-00", "1", false}, {"1.2", "1.2", true}, {"1.2", "1", false},
	} {
		if got := Meets(tc.version, tc.constraint); got != tc.want {
			t.Errorf("%s meets %s: %v", tc.version, tc.constraint, got)
		}
	}
	if newest, ok := Newest([]string{"1.9.0", "1.10.0", "2.0.0-rc.1", "latest", "v1.10.1"}, "1"); !ok || newest != "v1.10.1" {
		t.Errorf("the newest is %s, %v", newest, ok)
	}
}

// add installs a program, which is a text.
func add(t *testing.T, folder string, r Record, text string, replace bool) *Record {
	t.Helper()
	added, err := Add(folder, r, replace, opens(text))
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func opens(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// found is the version that a reference finds.
func found(t *testing.T, folder, text, kind string) string {
	t.Helper()
	ref, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Find(folder, ref, kind)
	if err != nil {
		return err.Error()
	}
	return r.Full() + " " + r.Version
}

func TestTheNewestInstalledVersionThatIsMeantIsFound(t *testing.T) {
	folder := t.TempDir()
	for _, version := range []string{"1.2.3", "1.10.0", "2.0.0", "3.0.0-rc.1"} {
		add(t, folder, Record{Name: "aws", Kind: "group", Version: version, Source: "r.example.com/ci/aws", Digest: "sha256:" + version}, version, false)
	}
	add(t, folder, Record{Name: "aws", Kind: "executor", Version: "9.0.0", Digest: someDigest}, "", false)
	add(t, folder, Record{Name: "plain", Version: "sha256-00", Digest: someDigest}, "", false)
	for text, want := range map[string]string{
		"aws": "group-plugin-aws 2.0.0", "aws:1": "group-plugin-aws 1.10.0", "aws:1.2": "group-plugin-aws 1.2.3", "aws:3.0.0-rc.1": "group-plugin-aws 3.0.0-rc.1",
		"group-plugin-aws:1": "group-plugin-aws 1.10.0", "r.example.com/ci/aws": "group-plugin-aws 2.0.0", "ci/aws:2": "group-plugin-aws 2.0.0",
		"other.example.com/ci/aws": ErrNone.Error(), "aws:4": ErrNone.Error(), "aws@" + someDigest: ErrNone.Error(),
		"plain": "plain sha256-00", "plain@" + someDigest: "plain sha256-00", "plain:1": ErrNone.Error(),
	} {
		if got := found(t, folder, text, "group"); got != want {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
	if got := found(t, folder, "aws", "executor"); got != "executor-plugin-aws 9.0.0" {
		t.Errorf("for jobs: %s", got)
	}
	ref, _ := Parse("aws:1.2.3")
	chosen, err := Find(folder, ref, "group")
	if err != nil {
		t.Fatal(err)
	}
	if err := Use(chosen); err != nil {
		t.Fatal(err)
	}
	if got := found(t, folder, "aws", "group") + found(t, folder, "aws:2", "group"); got != "group-plugin-aws 1.2.3group-plugin-aws 2.0.0" {
		t.Errorf("with a version in use: %s", got)
	}
	if err := Remove(chosen); err != nil {
		t.Fatal(err)
	}
	if got := found(t, folder, "aws", "group"); got != "group-plugin-aws 2.0.0" {
		t.Errorf("after it was removed: %s", got)
	}
}

func TestANameOfTwoRegistriesMustSayWhich(t *testing.T) {
	folder := t.TempDir()
	add(t, folder, Record{Name: "aws", Kind: "group", Version: "1.0.0", Source: "one.example.com/aws", Digest: someDigest}, "one", false)
	var conflict *ConflictError
	if _, err := Add(folder, Record{Name: "aws", Kind: "group", Version: "2.0.0", Source: "two.example.com/aws", Digest: someDigest}, true, opens("two")); !errors.As(err, &conflict) {
		t.Errorf("the other one is installed beside it: %v", err)
	}
	add(t, folder, Record{Name: "aws", Version: "2.0.0", Source: "two.example.com/aws", Digest: someDigest}, "two", false) // nothing says what it is for
	if got := found(t, folder, "aws", "group"); !strings.Contains(got, "one.example.com/aws and from") && !strings.Contains(got, "and from one.example.com/aws") {
		t.Errorf("the name finds %s", got)
	}
	if got := found(t, folder, "one.example.com/aws", "group"); got != "group-plugin-aws 1.0.0" {
		t.Errorf("with its registry it finds %s", got)
	}
}

func TestAnInstalledVersionStaysUntilItIsReplaced(t *testing.T) {
	folder := t.TempDir()
	first := Record{Name: "aws", Version: "1.0.0", Digest: "sha256:one"}
	add(t, folder, first, "one", false)
	other := first
	other.Digest = "sha256:two"
	var conflict *ConflictError
	if _, err := Add(folder, other, false, opens("two")); !errors.As(err, &conflict) {
		t.Errorf("it is replaced: %v", err)
	}
	r := add(t, folder, other, "two", true)
	text, err := os.ReadFile(r.File())
	if err != nil || string(text) != "two" || r.Check() != nil {
		t.Errorf("it is %q, %v, %v", text, err, r.Check())
	}
	if err := os.WriteFile(r.File(), []byte("changed"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r.Check() == nil {
		t.Error("a changed program is not noticed")
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

func TestNothingLeadsOutOfTheFolder(t *testing.T) {
	for _, r := range []Record{{Name: "../aws", Version: "1.0.0"}, {Name: "aws", Version: "../1"}, {Name: "aws", Version: ".."}, {Name: "aws", Version: ""}, {Name: ".", Version: "1.0.0"}} {
		folder := filepath.Join(t.TempDir(), "plugins")
		if _, err := Add(folder, r, true, opens("x")); err == nil {
			t.Errorf("%+v is installed", r)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%+v has made a folder", r)
		}
	}
}

func TestADamagedRecordHidesNoOther(t *testing.T) {
	folder := t.TempDir()
	add(t, folder, Record{Name: "aws", Version: "1.0.0", Digest: someDigest}, "x", false)
	bad := add(t, folder, Record{Name: "aws", Version: "1.1.0", Digest: someDigest}, "x", false)
	if err := os.WriteFile(filepath.Join(bad.folder, recordFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := List(folder)
	if len(all) != 1 || err == nil {
		t.Errorf("%v, %v", all, err)
	}
	if got := found(t, folder, "aws", ""); got != "aws 1.0.0" {
		t.Errorf("it finds %s", got)
	}
}

func TestTheFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		if got := DefaultFolder(func(string) string { return "" }); got != "/var/lib/rung/plugins" {
			t.Errorf("that of root is %s", got)
		}
	}
	got := DefaultFolder(func(name string) string { return map[string]string{FolderVariable: "/elsewhere"}[name] })
	if diff := cmp.Diff("/elsewhere", got); diff != "" {
		t.Error(diff)
	}
}
