package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// built is a folder as scripts/dist.sh leaves it, with this test's own program for each platform.
func built(t *testing.T, platforms ...string) *release {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: "v1.2.3", work: t.TempDir(), out: t.TempDir(), formula: "../../../../packaging/homebrew/step-runner.rb.tmpl", url: "https://example.com/v1.2.3", level: gzip.NoCompression}
	for _, p := range platforms {
		for _, program := range programs {
			put(t, r.binary(p, program.name), text)
		}
	}
	put(t, filepath.Join(r.work, "share", "man", "step-runner.1"), []byte("a page"))
	put(t, filepath.Join(r.work, "share", "man", "step-runner.1.gz"), []byte("for packages"))
	return r
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755)); err != nil {
		t.Fatal(err)
	}
}

func TestAReleaseIsTheSameWheneverItIsMade(t *testing.T) {
	t.Parallel()
	r := built(t, "linux-amd64", "windows-amd64")
	var made [2]map[string][]byte
	for i := range made {
		r.out, made[i] = t.TempDir(), map[string][]byte{}
		if err := r.run("1700000000"); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(r.out)
		if err != nil || len(files) != 7 { // two archives, two lists of materials for each, the formula
			t.Fatal(files, err)
		}
		for _, f := range files {
			if made[i][f.Name()], err = os.ReadFile(filepath.Join(r.out, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range made[0] {
		if !bytes.Equal(text, made[1][name]) {
			t.Errorf("%s has other bytes the second time", name)
		}
	}
}

func TestAnArchiveHoldsTheProgramAndItsPagesInOneFolder(t *testing.T) {
	t.Parallel()
	r := built(t, "linux-arm64", "windows-amd64")
	if err := r.run("1700000000"); err != nil {
		t.Fatal(err)
	}
	tarball, err := os.ReadFile(filepath.Join(r.out, "step-runner-v1.2.3-linux-arm64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
		if h.ModTime.Unix() != 1700000000 || h.Uname != "" || (strings.HasSuffix(h.Name, "/step-runner") || strings.HasSuffix(h.Name, "/rung")) != (h.Mode == 0o755) {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"step-runner-v1.2.3-linux-arm64/man/step-runner.1", "step-runner-v1.2.3-linux-arm64/rung", "step-runner-v1.2.3-linux-arm64/step-runner"}; !slices.Equal(got, want) {
		t.Errorf("the archive holds %v, want %v", got, want)
	}
	windows, err := zip.OpenReader(filepath.Join(r.out, "step-runner-v1.2.3-windows-amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.Close()
	if last := windows.File[len(windows.File)-1].Name; last != "step-runner-v1.2.3-windows-amd64/step-runner.exe" {
		t.Errorf("the program is %s", last)
	}
}

func TestTheMaterialsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	r := built(t, "linux-amd64")
	if err := r.run("1700000000"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "step-runner-v1.2.3-linux-amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list bom
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	sum, err := digest(r.binary("linux-amd64", product))
	if err != nil {
		t.Fatal(err)
	}
	if c := list.Metadata.Component; c.PURL != "pkg:golang/github.com/rungci/rung@v1.2.3" || c.Hashes[0].Content != sum || list.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("%+v", list.Metadata)
	}
	if list.Components[0].Name != "stdlib" || list.Components[0].Version == "" {
		t.Errorf("Go's library is missing: %+v", list.Components)
	}
}

func TestTheFormulaNamesArchivesByTheirChecksum(t *testing.T) {
	t.Parallel()
	r := built(t, "darwin-arm64", "linux-amd64")
	if err := r.run("1700000000"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "step-runner.rb"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := digest(filepath.Join(r.out, "step-runner-v1.2.3-darwin-arm64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`version "1.2.3"`, "on_macos do\n    on_arm do\n      url \"https://example.com/v1.2.3/step-runner-v1.2.3-darwin-arm64.tar.gz\"\n      sha256 \"" + sum + `"`,
		"on_linux do\n    on_intel do\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the formula has no %q:\n%s", want, text)
		}
	}
}

func TestAProgramThatIsTooLargeIsNotReleased(t *testing.T) {
	t.Parallel()
	r := built(t, "linux-amd64")
	for i, want := range []string{"more than 32000000", "more than 60000000"} {
		path := r.binary("linux-amd64", programs[i].name)
		if err := os.Truncate(path, programs[i].most+1); err != nil {
			t.Fatal(err)
		}
		if err := r.run("1700000000"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
	}
}
