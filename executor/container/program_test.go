package container_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

// ownProgram makes the level use a step-runner that no other test does, and returns its digest.
func ownProgram(t *testing.T, o *settings, addition ...string) string {
	t.Helper()
	path, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, t.Name()+strings.Join(addition, "")...)
	own := filepath.Join(t.TempDir(), "step-runner")
	if err := os.WriteFile(own, content, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Program = func(string, string) (string, error) { return own, nil }
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// digestInJob is the digest of the step-runner in a job's container.
const digestInJob = "sha256sum /opt/rung/bin/step-runner | cut -d' ' -f1"

func TestJobsShareAStepRunnerThatTheyCannotChange(t *testing.T) {
	enginetest.Busybox(t)
	o := options(t.TempDir())
	digest := ownProgram(t, &o)
	first, _ := open(t, o, job("first"))
	for _, attempt := range []string{
		"echo changed >>/opt/rung/bin/step-runner", "rm -f /opt/rung/bin/step-runner", "touch /opt/rung/bin/new", "mount -o remount,rw,bind /opt/rung/bin",
	} {
		sh(t, first, "! "+attempt)
	}
	second, _ := open(t, o, job("second"))
	if got := strings.TrimSpace(sh(t, second, digestInJob)); got != digest {
		t.Errorf("the second job has a step-runner with digest %s, not %s", got, digest)
	}
	if a, b := sh(t, first, "stat -c %d:%i /opt/rung/bin/step-runner"), sh(t, second, "stat -c %d:%i /opt/rung/bin/step-runner"); a != b {
		t.Errorf("two jobs have a file each: %s%s", a, b)
	}
}

func TestACopyOfTheStepRunnerThatWasNotFinishedIsMadeAgain(t *testing.T) {
	image := enginetest.Busybox(t)
	o := options(t.TempDir())
	digest := ownProgram(t, &o)
	c, err := engine.New(enginetest.Host(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id, err := c.Containers.Create(t.Context(), "rung-test-unfinished-"+digest[:8], "", &engine.Container{
		Image: image, Cmd: []string{"sh", "-c", "echo part >/volume/step-runner"}, HostConfig: engine.HostConfig{
			Mounts: []engine.Mount{{Type: "volume", Source: "rung-program-" + digest[:32], Target: "/volume"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Containers.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if code, err := c.Containers.Wait(t.Context(), id); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	if err := c.Containers.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	env, _ := open(t, o, job("again"))
	if got := strings.TrimSpace(sh(t, env, digestInJob)); got != digest {
		t.Errorf("the job has a step-runner with digest %s, not %s", got, digest)
	}
}

func TestNothingOfAnImageGetsIntoTheSharedStepRunner(t *testing.T) {
	enginetest.Busybox(t)
	enginetest.Import(t, enginetest.Client(t), "rung-test/forged:1", []enginetest.File{
		{Name: "bin/sh", Mode: 0o755, Content: busybox(t)}, {Name: "tmp/", Mode: 0o1777},
		{Name: "opt/rung/bin/step-runner", Mode: 0o755, Content: []byte("forged")}, {Name: "opt/rung/bin/.complete", Mode: 0o644, Content: []byte("forged")},
	})
	o := options(t.TempDir())
	digest := ownProgram(t, &o)
	forged := job("forged")
	forged.Image.Name = "rung-test/forged:1"
	open(t, o, forged)
	env, _ := open(t, o, job("other"))
	if got := strings.TrimSpace(sh(t, env, digestInJob)); got != digest {
		t.Errorf("the job has a step-runner with digest %s, not %s", got, digest)
	}
}

func TestAnEngineKeepsTheNewestStepRunners(t *testing.T) {
	enginetest.Busybox(t)
	c, err := engine.New(enginetest.Host(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var digests []string
	for _, version := range []string{"1", "2", "3", "4", "5"} {
		o := options(t.TempDir())
		digests = append(digests, ownProgram(t, &o, version))
		e, err := o.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		env, err := e.Prepare(t.Context(), job("version-"+version), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(env.Close(t.Context()), e.Close()); err != nil {
			t.Fatal(err)
		}
	}
	volumes, err := c.Volumes.Labelled(t.Context(), "rung.program")
	if err != nil {
		t.Fatal(err)
	}
	kept := func(digest string) bool {
		return slices.ContainsFunc(volumes, func(v engine.Volume) bool { return v.Name == "rung-program-"+digest[:32] })
	}
	if kept(digests[0]) || !kept(digests[4]) {
		t.Errorf("the oldest is kept: %t, the newest: %t; %v", kept(digests[0]), kept(digests[4]), volumes)
	}
}
