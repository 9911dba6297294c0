//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// sandboxFigures are of jobs in sandboxes of gVisor. They need root, and runsc, which RUNG_RUNSC names or scripts/runsc.sh has built.
var sandboxFigures = []figure{
	{name: "sandbox job, to runsc run", unit: "x ", target: 1.3, measure: sandboxStart},
	{name: "runner: sandbox job, to runsc run", unit: "x ", target: 1.3, measure: sandboxHandedOut},
}

// sandboxRounds is how often a sandbox is started: the promise is about the median of so many.
const sandboxRounds = 20

// sandboxStart returns how long the first command of a job takes to print something, from the start of `step-runner local`, as a share of what a
// bare `runsc run` of the same root takes until the first command of steps that a step-runner, its main process, runs there.
func sandboxStart(w *world) (float64, string, error) {
	s, err := w.sandbox()
	if err != nil {
		return 0, "", err
	}
	dir, err := w.repository("sandbox", fmt.Sprintf("job:\n  image: root\n  variables: {GIT_STRATEGY: none}\n  script: [echo %s]\n", firstWords))
	if err != nil {
		return 0, "", err
	}
	ours := command{args: []string{w.runner, "local", "--isolation", "sandbox", "--network", "none"}, dir: dir, env: append(s.env, "TMPDIR="+w.inMemory)}
	ratio, peer, mine, err := inTurn(sandboxRounds, s.peer, func() (time.Duration, error) { return ours.untilItPrints(firstWords) })
	return ratio, fmt.Sprintf("runsc run in %s, local in %s, each until its first output", ms(peer), ms(mine)), err
}

// sandboxHandedOut is the same from the hand-out of a job to a manager.
func sandboxHandedOut(w *world) (float64, string, error) {
	s, err := w.sandbox()
	if err != nil {
		return 0, "", err
	}
	const entry = `executor = "docker"
  [runners.docker]
    image = "root"
  [runners.isolation]
    default = "sandbox"
  [runners.policy]
    network = "none"
`
	ratio, peer, mine, err := w.handedOut(sandboxRounds, entry, s.env, s.peer)
	return ratio, fmt.Sprintf("runsc run in %s until its first output, a job in %s from its hand-out", ms(peer), ms(mine)), err
}

// sandboxes is what jobs in sandboxes without an engine are measured with.
type sandboxes struct {
	env  []string // of our programs
	peer command  // a bare `runsc run` of the same root
}

// sandbox makes the root and the bundle of the peer, once.
func (w *world) sandbox() (*sandboxes, error) {
	runsc := os.Getenv("RUNG_RUNSC")
	if runsc == "" {
		runsc = filepath.Join("build", "runsc")
	}
	runsc, err := exec.LookPath(runsc)
	if err != nil {
		return nil, skipped("runsc is not built; scripts/runsc.sh does that")
	}
	if runsc, err = filepath.Abs(runsc); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, skipped("sandboxes without an engine need root")
	}
	if _, err := w.memory(); err != nil {
		return nil, err
	}
	root := filepath.Join(w.inMemory, "root")
	if err := makeRoot(root); err != nil {
		return nil, err
	}
	bundle, err := w.sandboxBundle(root)
	if err != nil {
		return nil, err
	}
	return &sandboxes{
		env: []string{"RUNG_RUNSC=" + runsc, "RUNG_SANDBOX_IMAGES=" + w.inMemory, "DOCKER_HOST=unix:///nowhere"},
		peer: command{args: []string{
			runsc, "--root", filepath.Join(w.inMemory, "runsc"), "--network=none", "--overlay2=root:memory", "--ignore-cgroups", "--gofer-network-namespace=new",
			"run", "--bundle", bundle, "bench",
		}},
	}, nil
}

// makeRoot makes the files of a system of busybox alone.
func makeRoot(root string) error {
	const program = "/bin/busybox" // of Debian's busybox-static, which needs no libraries
	content, err := os.ReadFile(program)
	if err != nil {
		return skipped("busybox-static is not installed")
	}
	for _, dir := range []string{"bin", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "busybox"), content, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"sh", "echo"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// sandboxBundle is what the peer runs: steps with one command, in the same root, by the same step-runner.
func (w *world) sandboxBundle(root string) (string, error) {
	bundle := filepath.Join(w.inMemory, "bundle")
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		return "", err
	}
	mount := func(at, kind, source string, options ...string) map[string]any {
		return map[string]any{"destination": at, "type": kind, "source": source, "options": options}
	}
	var namespaces []map[string]string
	for _, kind := range []string{"pid", "mount", "ipc", "uts", "network"} {
		namespaces = append(namespaces, map[string]string{"type": kind})
	}
	steps := fmt.Sprintf("- script: echo %s\n", firstWords)
	if err := os.WriteFile(filepath.Join(root, "etc", "steps.yml"), []byte(steps), 0o644); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{
		"ociVersion": "1.2.1", "root": map[string]string{"path": root},
		"process": map[string]any{
			"user": map[string]int{"uid": 0, "gid": 0}, "cwd": "/", "env": []string{"PATH=/bin:/opt/rung/bin"},
			"args": []string{"/opt/rung/bin/step-runner", "run", "--progress", "plain", "/etc/steps.yml"},
		},
		"mounts": []any{
			mount("/proc", "proc", "proc"), mount("/dev", "tmpfs", "tmpfs"), mount("/tmp", "tmpfs", "tmpfs"),
			mount("/opt/rung/bin/step-runner", "bind", w.runner, "bind", "ro"),
		},
		"linux": map[string]any{"namespaces": namespaces},
	})
	if err != nil {
		return "", err
	}
	return bundle, os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600)
}
