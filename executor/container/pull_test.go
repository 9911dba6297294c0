package container_test

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source/sourcetest"
)

const layerType = "application/vnd.docker.image.rootfs.diff.tar"

// registry starts a registry with an image of busybox, called shell/busybox:1, and returns the image's name.
func registry(t *testing.T) (*sourcetest.Registry, string) {
	t.Helper()
	enginetest.Busybox(t)
	r := sourcetest.NewRegistry(false)
	t.Cleanup(r.Close)
	put := func(mediaType string, data []byte) ocispec.Descriptor {
		blob, err := r.PutBlob("shell/busybox", mediaType, data)
		if err != nil {
			t.Fatal(err)
		}
		return blob
	}
	files := put(layerType, busyboxLayer(t))
	config := put("application/vnd.docker.container.image.v1+json", fmt.Appendf(nil,
		`{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":[%q]}}`, files.Digest))
	manifest := map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": config, "layers": []ocispec.Descriptor{files},
	}
	if _, err := r.PutManifest("shell/busybox", "1", "application/vnd.docker.distribution.manifest.v2+json", manifest); err != nil {
		t.Fatal(err)
	}
	name := r.Host() + "/shell/busybox:1"
	t.Cleanup(func() {
		_, _ = enginetest.Client(t).ImageRemove(t.Context(), name, client.ImageRemoveOptions{Force: true})
	})
	return r, name
}

// busyboxLayer is the layer of that image.
func busyboxLayer(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []*tar.Header{
		{Name: "bin/busybox", Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg},
		{Name: "bin/sh", Linkname: "busybox", Typeflag: tar.TypeSymlink},
		{Name: "unique", Linkname: t.Name(), Typeflag: tar.TypeSymlink}, // no two tests have the same image
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return layer.Bytes()
}

// lines collects what is reported.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) report(p event.Preparing) {
	line := strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Phase, p.Subject, p.Message))
	if p.Done {
		line += " done"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text, "\n")
}

// prepare prepares a job and closes its environment again.
func prepare(t *testing.T, o settings, j *executor.Job) (string, error) {
	t.Helper()
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var said lines
	env, err := e.Prepare(t.Context(), j, said.report)
	if err == nil {
		err = env.Close(t.Context())
	}
	return said.String(), err
}

func withImage(name string, policies ...string) *executor.Job {
	return &executor.Job{ID: "pull", ProjectName: "project", Image: &containers.Image{Name: name, PullPolicies: policies}}
}

func TestPullPolicies(t *testing.T) {
	r, name := registry(t)
	o := options(t.TempDir())
	var user *executor.UserError
	if _, err := prepare(t, o, withImage(name, container.Never)); !errors.As(err, &user) {
		t.Errorf("never, without the image: %v", err)
	}
	if said, err := prepare(t, o, withImage(name)); err != nil || !strings.Contains(said, "pulling "+name+" done") {
		t.Errorf("by default, without the image: %v\n%s", err, said)
	}
	for _, policy := range []string{container.Never, container.IfNotPresent} {
		before := len(r.Requests())
		if said, err := prepare(t, o, withImage(name, policy)); err != nil || strings.Contains(said, "pull") || len(r.Requests()) != before {
			t.Errorf("%s, with the image: %v\n%s", policy, err, said)
		}
	}
	before := len(r.Requests())
	if _, err := prepare(t, o, withImage(name, container.Always)); err != nil || len(r.Requests()) == before {
		t.Errorf("always, with the image, asks the registry %d times: %v", len(r.Requests())-before, err)
	}
	r.Close()
	if _, err := prepare(t, o, withImage(name, container.Always)); err == nil || errors.As(err, &user) {
		t.Errorf("always, without the registry, is not the job's mistake: %v", err)
	}
	if said, err := prepare(t, o, withImage(name, container.Always, container.IfNotPresent)); err != nil {
		t.Errorf("always and then if-not-present, without the registry: %v\n%s", err, said)
	}
	if _, err := prepare(t, o, withImage(name, "sometimes")); !errors.As(err, &user) {
		t.Errorf("an unknown policy: %v", err)
	}
	for _, policy := range []string{container.Always, container.IfNotPresent, container.Never} {
		if _, err := prepare(t, o, withImage("Shouting/a:b:c", policy)); !errors.As(err, &user) {
			t.Errorf("%s, with a name that no image can have: %v", policy, err)
		}
	}
}

func TestAnImageForAnotherPlatformIsTheJobsMistake(t *testing.T) {
	_, name := registry(t)
	j := withImage(name, container.IfNotPresent)
	j.Image.Platform = "linux/s390x"
	var user *executor.UserError
	if _, err := prepare(t, options(t.TempDir()), j); !errors.As(err, &user) {
		t.Errorf("%v", err)
	}
}

func TestCredentialsForARegistry(t *testing.T) {
	const password = "hunter-2-is-secret"
	auth := func(host, user string) string {
		return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	for _, c := range []struct {
		name string
		set  func(t *testing.T, host string, o *settings, j *executor.Job)
		ok   bool
	}{
		{"without any the pull fails", func(*testing.T, string, *settings, *executor.Job) {}, false},
		{"wrong ones fail", func(_ *testing.T, host string, _ *settings, j *executor.Job) {
			j.Registries = []containers.Registry{{Host: host, Username: "ann", Password: password + "x"}}
		}, false},
		{"those of the job's registries", func(_ *testing.T, host string, _ *settings, j *executor.Job) {
			j.Registries = []containers.Registry{{Host: "https://" + host, Username: "ann", Password: password}}
		}, true},
		{"the job's DOCKER_AUTH_CONFIG", func(_ *testing.T, host string, _ *settings, j *executor.Job) {
			j.Variables = map[string]string{"DOCKER_AUTH_CONFIG": auth(host, "ann")}
		}, true},
		{"the user's DOCKER_AUTH_CONFIG", func(_ *testing.T, host string, o *settings, _ *executor.Job) {
			o.Env = []string{"DOCKER_AUTH_CONFIG=" + auth(host, "ann")}
		}, true},
		{"the user's Docker configuration", func(t *testing.T, host string, o *settings, _ *executor.Job) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(auth(host, "ann")), 0o600); err != nil {
				t.Fatal(err)
			}
			o.Env = []string{"DOCKER_CONFIG=" + dir}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, name := registry(t)
			r.Protect(sourcetest.Basic, "ann", password)
			o, j := options(t.TempDir()), withImage(name, container.Always)
			c.set(t, r.Host(), &o, j)
			said, err := prepare(t, o, j)
			var user *executor.UserError
			switch {
			case c.ok && err != nil:
				t.Errorf("%v\n%s", err, said)
			case !c.ok && !errors.As(err, &user):
				t.Errorf("%v\n%s", err, said)
			case strings.Contains(said, password) || err != nil && strings.Contains(err.Error(), password):
				t.Errorf("the password is shown: %v\n%s", err, said)
			}
		})
	}
}
