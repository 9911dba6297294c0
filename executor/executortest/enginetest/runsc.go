package enginetest

import (
	"os"
	"path/filepath"
	"testing"
)

// RunscVariable names gVisor's runsc.
const RunscVariable = "RUNG_RUNSC"

// Runsc returns the path of gVisor's runsc: the one that RUNG_RUNSC names, or that scripts/runsc.sh has built. It skips the test where there
// is none, and where this is not root, who alone makes sandboxes without an engine.
func Runsc(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		Skip(t, "root")
	}
	if path := os.Getenv(RunscVariable); path != "" {
		return path
	}
	if path := built(t, "runsc"); path != "" {
		return path
	}
	Skip(t, "runsc, which scripts/runsc.sh builds ("+RunscVariable+")")
	return ""
}

// Buildah returns the path of a Buildah that needs no libraries, which scripts/buildah.sh has built, and skips the test where there is none.
func Buildah(t testing.TB) string {
	t.Helper()
	return fromScript(t, "buildah")
}

// Versitygw returns the path of Versity's S3 gateway, which scripts/versitygw.sh has built, and skips the test where there is none.
func Versitygw(t testing.TB) string {
	t.Helper()
	return fromScript(t, "versitygw")
}

// FakeGCSServer returns the path of fake-gcs-server, which scripts/fake-gcs-server.sh has built, and skips the test where there is none.
func FakeGCSServer(t testing.TB) string {
	t.Helper()
	return fromScript(t, "fake-gcs-server")
}

// fromScript returns the path of a program that the script of its name has built, and skips the test where there is none.
func fromScript(t testing.TB, name string) string {
	t.Helper()
	path := built(t, name)
	if path == "" {
		Skip(t, name+", which scripts/"+name+".sh builds")
	}
	return path
}

// built returns the path of a program in the folder build of the repository, which a module of a plugin is in; "" if it is not there.
func built(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		if path := filepath.Join(dir, "build", name); isProgram(path) {
			return path
		}
	}
	return ""
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Tree writes the files of Busybox's image into a folder.
func Tree(t testing.TB, dir string) {
	t.Helper()
	for _, f := range busyboxFiles(t) {
		path := filepath.Join(dir, f.Name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case f.Link != "":
			err = os.Symlink(f.Link, path)
		case f.Content == nil:
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, f.Content, os.FileMode(f.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
}
