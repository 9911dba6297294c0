package store

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestAFileOfArtifacts(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "artifacts.zip")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	z.RegisterCompressor(zstd.ZipMethodWinZip, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })
	for name, method := range map[string]uint16{"stored": zip.Store, "deflated": zip.Deflate, "zstd": zstd.ZipMethodWinZip, "./dotted": zip.Deflate, "folder/": zip.Store} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil && !strings.HasSuffix(name, "/") {
			_, err = io.WriteString(w, "text")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stored", "deflated", "zstd", "dotted", "./zstd", "x/../zstd"} {
		if got, err := ReadArchived(t.Context(), archive, name, 4); err != nil || string(got) != "text" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"missing": "does not contain", "folder": "does not contain", "../zstd": "does not contain"} {
		if _, err := ReadArchived(t.Context(), archive, name, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := ReadArchived(t.Context(), archive, "zstd", 3); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("error %v", err)
	}
}
