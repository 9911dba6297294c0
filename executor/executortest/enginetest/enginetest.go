// Package enginetest provides tests with what a bare machine lacks: a real container engine, images for it that need no registry, and
// programs such as sshd. A test that needs one asks here, is skipped without it, and runs in "make engines", which has them all.
package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// Variable names the engine that tests may use; scripts/engine.sh sets it.
const Variable = "RUNG_TEST_ENGINE"

// Address is the address by which containers of that engine reach this machine, while the engine runs; empty where there is none. scripts/engine.sh sets it.
func Address() string { return os.Getenv("RUNG_TEST_ENGINE_ADDRESS") }

// elsewhere ends the reason of every test that is skipped here. "make test" counts such tests as run elsewhere; "make engines" does not
// set what they ask for aside, and fails when one is skipped.
const elsewhere = "make engines runs this test"

// Program returns the path of a program that not every machine has, such as sshd, and skips the test where it is not installed.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} { // not in everybody's PATH
		if err != nil {
			path, err = exec.LookPath(filepath.Join(dir, name))
		}
	}
	if err != nil {
		Skip(t, name)
	}
	return path
}

// Skip skips a test that needs what this machine does not have.
func Skip(t testing.TB, needs string) {
	t.Helper()
	t.Skipf("needs %s: %s", needs, elsewhere)
}

// Optional says of a test that it tries more where there is an engine.
func Optional(t testing.TB) {
	if os.Getenv(Variable) == "" {
		t.Log("there is no container engine, and some things are not tried: " + elsewhere)
	}
}

// busybox is where Debian's busybox-static has its program, which needs no libraries.
const busybox = "/bin/busybox"

// Image is the image that Busybox makes.
const Image = "rung-test-busybox:1"

// Host returns the address of the engine, and skips the test where there is none.
func Host(t testing.TB) string {
	t.Helper()
	host := os.Getenv(Variable)
	if host == "" {
		Skip(t, "a container engine ("+Variable+")")
	}
	return host
}

// Client returns a client of the engine.
func Client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost(Host(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Busybox makes the engine have Image, with a POSIX shell and the commands of busybox, and a user called worker (1234:1235). It skips
// the test where busybox is not installed.
func Busybox(t testing.TB) string {
	t.Helper()
	BusyboxIn(t, Client(t))
	return Image
}

// BusyboxIn makes an engine have Image.
func BusyboxIn(t testing.TB, c *client.Client) {
	t.Helper()
	if _, err := c.ImageInspect(t.Context(), Image); err == nil {
		return
	}
	Import(t, c, Image, busyboxFiles(t), `CMD ["sh"]`, "ENV FROM_IMAGE=yes")
}

// busyboxFiles are the files of Image.
func busyboxFiles(t testing.TB) []File {
	t.Helper()
	applets := Applets(t)
	files := []File{
		{Name: "bin/busybox", Mode: 0o755, Content: program(t)},
		{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/root:/bin/sh\nworker:x:1234:1235::/home/worker:/bin/sh\n")},
		{Name: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nworker:x:1235:\nothers:x:1300:worker\n")},
		{Name: "tmp/", Mode: 0o1777}, {Name: "root/", Mode: 0o700}, {Name: "home/worker/", Mode: 0o755},
	}
	for _, applet := range applets {
		files = append(files, File{Name: "bin/" + applet, Link: "busybox"})
	}
	return files
}

// Applets are the commands of busybox.
func Applets(t testing.TB) []string {
	t.Helper()
	out, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Skipf("needs busybox-static: %v", err)
	}
	var applets []string
	for _, name := range strings.Fields(string(out)) {
		if name != "busybox" {
			applets = append(applets, name)
		}
	}
	return applets
}

func program(t testing.TB) []byte {
	t.Helper()
	content, err := os.ReadFile(busybox)
	if err != nil {
		t.Skipf("needs busybox-static: %v", err)
	}
	return content
}

// File is a file of an image: a folder where the name ends in a slash, a symbolic link where Link is set.
type File struct {
	Name    string
	Mode    int64
	Link    string
	Content []byte
}

// Import makes an image of files. changes are lines of a Dockerfile, such as CMD and ENV.
func Import(t testing.TB, c *client.Client, name string, files []File, changes ...string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Size: int64(len(f.Content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.Name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if f.Link != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := importImage(t.Context(), c, name, &archive, changes); err != nil {
		t.Fatalf("importing the image %s: %v", name, err)
	}
}

func importImage(ctx context.Context, c *client.Client, name string, archive io.Reader, changes []string) error {
	response, err := c.ImageImport(ctx, client.ImageImportSource{Source: archive, SourceName: "-"}, name, client.ImageImportOptions{Changes: changes})
	if err != nil {
		return err
	}
	defer response.Close()
	for in := json.NewDecoder(response); ; {
		var message struct{ Error string }
		err := in.Decode(&message)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case message.Error != "":
			return fmt.Errorf("%s", message.Error)
		}
	}
}
