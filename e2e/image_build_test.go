package e2e

import (
	"archive/tar"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

// builds is a pipeline whose jobs build an image, push it, build another on that, and push this too, with nothing but what every job in a
// sandbox may. One logs in by itself, the other by a step of the catalog. The registry has no TLS.
const builds = `default: {image: builder}
variables: {BUILDAH_ISOLATION: chroot}

by-script:
  script:
    - echo SECRET | buildah login --tls-verify=false --username rung --password-stdin REGISTRY
    - sh build.sh REGISTRY/by-script

by-steps:
  run:
    - name: login
      func: builtin://docker/login
      inputs: {registry: REGISTRY, username: rung, password: SECRET, check: false}
    - name: build
      script: sh build.sh REGISTRY/by-steps
`

// buildFiles are the project's other files.
var buildFiles = map[string]string{
	"build.sh": `set -e
dmesg | head -n 1
grep CapEff /proc/self/status
mkdir -p base/bin && cp /bin/busybox base/bin/ && ln -s busybox base/bin/sh
buildah --storage-driver vfs build --file Base --tag "$1/base" .
buildah --storage-driver vfs push --tls-verify=false "$1/base"
buildah --storage-driver vfs rmi --all
buildah --storage-driver vfs build --tls-verify=false --build-arg FROM="$1/base" --tag "$1/app" .
buildah --storage-driver vfs push --tls-verify=false "$1/app"
`,
	"Base": "FROM scratch\nCOPY base /\n",
	"Dockerfile": `ARG FROM
FROM $FROM
COPY hello /copied
RUN echo "run as $(busybox id -u)" >/made
CMD ["sh"]
`,
	"hello": "hello\n",
}

func TestAJobInASandboxBuildsImagesAndPushesThemWithoutPrivileges(t *testing.T) {
	runsc := enginetest.Runsc(t)
	enginetest.Program(t, "slirp4netns")
	enginetest.Program(t, "ip")
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(executortest.RemoveProgram)
	images, project := t.TempDir(), t.TempDir()
	writeBuilder(t, filepath.Join(images, "builder"))
	const password = "letmein"
	registry := enginetest.Registry(t, ownAddress(t))
	pipeline := strings.NewReplacer("REGISTRY", registry, "SECRET", password).Replace(builds)
	writeFile(t, filepath.Join(project, ".gitlab-ci.yml"), pipeline)
	for name, content := range buildFiles {
		writeFile(t, filepath.Join(project, name), content)
	}
	command := exec.Command(program, "local", "--isolation", "sandbox", "--progress", "plain")
	command.Dir = project
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(), enginetest.RunscVariable+"="+runsc, "RUNG_SANDBOX_IMAGES="+images, "DOCKER_HOST=unix:///nowhere")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const sysAdmin = 21 // its bit, of <linux/capability.h>
	rights := regexp.MustCompile(`CapEff:\s+([0-9a-f]{16})`).FindAllSubmatch(out, -1)
	if len(rights) != 2 || strings.Count(string(out), "gVisor") != 2 {
		t.Errorf("not both jobs are in a sandbox:\n%s", out)
	}
	for _, found := range rights {
		if bits, err := strconv.ParseUint(string(found[1]), 16, 64); err != nil || bits>>sysAdmin&1 != 0 {
			t.Errorf("a job has CAP_SYS_ADMIN: %s, %v", found[1], err)
		}
	}
	for _, job := range []string{"by-script", "by-steps"} {
		got := pushed(t, registry+"/"+job+"/app", authn.FromConfig(authn.AuthConfig{Username: "rung", Password: password}))
		if got["copied"] != "hello\n" || got["made"] != "run as 0\n" {
			t.Errorf("the image of %s has %q", job, got)
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeBuilder writes the files of an image with Buildah, set up as its own image is.
func writeBuilder(t *testing.T, root string) {
	t.Helper()
	enginetest.Tree(t, root)
	buildah, err := os.ReadFile(enginetest.Buildah(t))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "bin", "buildah"), string(buildah))
	if err := os.Chmod(filepath.Join(root, "bin", "buildah"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "etc", "containers", "policy.json"), `{"default": [{"type": "insecureAcceptAnything"}]}`)
	writeFile(t, filepath.Join(root, "var", "tmp", ".keep"), "")
	// Buildah looks for the program of its networks, and does not run it: processes have the network of the sandbox.
	writeFile(t, filepath.Join(root, "usr", "libexec", "podman", "netavark"), "#!/bin/false\n")
	if err := os.Chmod(filepath.Join(root, "usr", "libexec", "podman", "netavark"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// ownAddress is an address of this machine that is not one of loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	enginetest.Skip(t, "a network of this machine")
	return ""
}

// pushed returns the small files of an image in a registry, as another client reads it.
func pushed(t *testing.T, reference string, user authn.Authenticator) map[string]string {
	t.Helper()
	tag, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(tag, remote.WithAuth(user))
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	files := map[string]string{}
	const small = 1 << 10
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(io.LimitReader(archive, small)); err != nil {
			t.Fatal(err)
		} else if header.Size < small {
			files[header.Name] = string(text)
		}
	}
}
