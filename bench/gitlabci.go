//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pipelineFigures are those of `step-runner local`, beside gitlab-ci-local where npm can install it. Times were promised for a machine that
// starts and ends a bash in 1.2 ms, and are scaled to it. Projects and jobs have their files in memory where that can hold any: what a disk
// takes to make them says nothing about us.
var pipelineFigures = []figure{
	{name: "list of 200 jobs", unit: "ms", target: 50, measure: listing(200, false)},
	{name: "list of 1,000 jobs", unit: "ms", target: 150, measure: listing(1000, false)},
	{name: "list of 5,000 jobs in 50,000 lines", unit: "ms", target: 600, measure: listing(5000, false)},
	{name: "memory for 5,000 jobs", unit: "MB", target: 400, measure: listing(5000, true)},
	{name: "pipeline of one job of one line", unit: "ms", target: 50, measure: pipelineOf(1)},
	{name: "pipeline of 100 jobs of `true`", unit: "ms", target: 1500, measure: pipelineOf(100)},
}

// peerLimit is how many jobs the peer is asked to list: it takes more than a minute for 5,000.
const peerLimit = 1000

// bigPipeline is a pipeline as large ones look: templates, extends, !reference and rules, ten lines a job.
func bigPipeline(jobs int) string {
	const templates = 20
	var b strings.Builder
	b.WriteString("stages: [build, test, deploy]\nvariables:\n  GLOBAL: value\n")
	for i := range templates {
		fmt.Fprintf(&b, `.template%[1]d:
  image: alpine:3.%[1]d
  before_script:
    - echo before %[1]d
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
      when: manual
    - when: on_success
`, i)
	}
	for i := range jobs {
		fmt.Fprintf(&b, `job%[1]d:
  extends: .template%[2]d
  stage: %[3]s
  variables:
    NUMBER: "%[1]d"
  script:
    - !reference [.template%[4]d, before_script]
    - echo job %[1]d
    - make target-%[1]d

`, i, i%templates, []string{"build", "test", "deploy"}[i%3], (i+1)%templates)
	}
	return b.String()
}

// memory is a folder whose files are in memory where that can hold any, else one of the scratch folder.
func (w *world) memory() (string, error) {
	if w.inMemory != "" {
		return w.inMemory, nil
	}
	dir, err := os.MkdirTemp("/dev/shm", "rung-bench-")
	if err != nil {
		dir, err = os.MkdirTemp(w.dir, "memory-")
	}
	w.inMemory = dir
	return dir, err
}

// repository makes a Git repository with a pipeline, and returns its folder.
func (w *world) repository(name, pipeline string) (string, error) {
	memory, err := w.memory()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(memory, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitlab-ci.yml"), []byte(pipeline), 0o644); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"remote", "add", "origin", "https://gitlab.example.com/group/project.git"}, {"add", "."},
		{"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one"},
	} {
		git := exec.Command("git", args...)
		git.Dir = dir
		if out, err := git.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	return dir, nil
}

// listing times the list of a pipeline, or returns the memory that it takes.
func listing(jobs int, memory bool) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		dir, err := w.repository(fmt.Sprintf("list-%d", jobs), bigPipeline(jobs))
		if err != nil {
			return 0, "", err
		}
		ours := command{args: []string{w.runner, "local", "--list"}, dir: dir, env: []string{"TMPDIR=" + w.inMemory}}
		if memory {
			peak, err := ours.peak()
			return float64(peak) / 1e3, "the process alone", err
		}
		against := ""
		if jobs <= peerLimit {
			against = w.besideGitlabCILocal(dir, "--list")
		}
		return w.median(ours, against)
	}
}

// pipelineOf times a pipeline of so many jobs, each of one line.
func pipelineOf(jobs int) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		var b strings.Builder
		for i := range jobs {
			fmt.Fprintf(&b, "job%d:\n  script: ['true']\n", i)
		}
		dir, err := w.repository(fmt.Sprintf("run-%d", jobs), b.String())
		if err != nil {
			return 0, "", err
		}
		ours := command{args: []string{w.runner, "local", "--isolation", "none", "--progress", "quiet"}, dir: dir, env: []string{"TMPDIR=" + w.inMemory}}
		return w.median(ours, w.besideGitlabCILocal(dir, "--force-shell-executor", "--concurrency", "2"))
	}
}

// median returns the median of a command's times in milliseconds, on a machine where a bash takes bashTime; a shell's loop, timed in turn,
// says how long it takes on this one.
func (w *world) median(c command, against string) (float64, string, error) {
	const loops = 20
	loop := command{args: []string{"bash", "-c", fmt.Sprintf("for i in $(seq %d); do bash -c true; done", loops)}, dir: c.dir}
	var times, bashes []time.Duration
	for range w.rounds {
		took, err := c.run()
		if err != nil {
			return 0, "", err
		}
		took2, err := loop.run()
		if err != nil {
			return 0, "", err
		}
		times, bashes = append(times, took), append(bashes, took2/loops)
	}
	here, bash := median(times), median(bashes)
	words := fmt.Sprintf("here %s, where a bash takes %s", ms(here), ms(bash))
	if against != "" {
		words += "; " + against
	}
	return here.Seconds() * 1e3 * float64(bashTime) / float64(bash), words, nil
}

// besideGitlabCILocal times the peer once and says how long it took, or why it could not be timed.
func (w *world) besideGitlabCILocal(dir string, args ...string) string {
	program, err := w.gitlabCILocal()
	if err != nil {
		return "no gitlab-ci-local: " + err.Error()
	}
	took, err := command{args: append(program, args...), dir: dir}.run()
	if err != nil {
		return "gitlab-ci-local failed"
	}
	return "gitlab-ci-local " + ms(took)
}

// gitlabCILocal installs the peer with npm, once, and returns how to call it. It needs a newer Node.js than many systems have, which
// npm can install as well.
func (w *world) gitlabCILocal() ([]string, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return nil, errors.New("npm is not installed")
	}
	if _, err := exec.LookPath("rsync"); err != nil {
		return nil, errors.New("rsync, which it needs, is not installed")
	}
	dir := filepath.Join(w.dir, "gitlab-ci-local")
	node, peer := filepath.Join(dir, "node_modules/.bin/node"), filepath.Join(dir, "node_modules/.bin/gitlab-ci-local")
	if _, err := os.Stat(peer); err == nil {
		return []string{node, peer}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	install := exec.Command("npm", "install", "--silent", "--no-save", "--prefix", dir, "node@24", "gitlab-ci-local@4.75.1")
	if err := install.Run(); err != nil {
		return nil, fmt.Errorf("npm install: %w", err)
	}
	return []string{node, peer}, nil
}
