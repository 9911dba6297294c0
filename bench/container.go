//go:build unix

package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// containerFigures are of jobs in containers. They need a container engine, which scripts/engine.sh starts.
var containerFigures = []figure{
	{name: "container job, to docker run --init", unit: "x ", target: 1.3, measure: containerStart("")},
	{name: "container job, to the same with a network", unit: "x ", target: 1.3, measure: containerStart("rung-bench")},
	{name: "runner: container job, to docker run --init", unit: "x ", target: 1.3, measure: containerHandedOut("")},
	{name: "runner: container job, to the same with a network", unit: "x ", target: 1.3, measure: containerHandedOut("rung-bench")},
}

const (
	// benchImage is an image of busybox alone, which is made for the measurement.
	benchImage = "rung-bench-busybox:1"
	// firstWords are what the first command of a container prints.
	firstWords = "first command"
	// containerRounds bounds how often a container is started: each takes about a second.
	containerRounds = 11
	// handedOutPause is for the end of a manager's job: its environment is removed after GitLab has its state, which the peer is not to feel.
	handedOutPause = time.Second
)

// containerStart returns how long the first command of a job takes to print something, from the start of `step-runner local`, as a share
// of what `docker run --init` takes with the same image. The peer makes and removes the network, if one is named, as a job does.
func containerStart(network string) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) { return w.containerStart(network) }
}

func (w *world) containerStart(network string) (float64, string, error) {
	docker, peer, err := w.dockerRun(network)
	if err != nil {
		return 0, "", err
	}
	dir, err := w.repository("container", fmt.Sprintf("job:\n  image: %s\n  variables: {GIT_STRATEGY: none}\n  script: [echo first command]\n", benchImage))
	if err != nil {
		return 0, "", err
	}
	ours := command{args: []string{w.runner, "local", "--isolation", "container"}, dir: dir, env: append(docker.env, "TMPDIR="+w.inMemory)}
	ratio, theirs, mine, err := inTurn(min(w.rounds, containerRounds), peer, func() (time.Duration, error) { return ours.untilItPrints(firstWords) })
	return ratio, fmt.Sprintf("%s in %s, local in %s, each until its first output", peerWords(network), ms(theirs), ms(mine)), err
}

// containerHandedOut is the same from the hand-out of a job to a manager.
func containerHandedOut(network string) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		docker, peer, err := w.dockerRun(network)
		if err != nil {
			return 0, "", err
		}
		entry := fmt.Sprintf("executor = \"docker\"\n[runners.docker]\nimage = %q\npull_policy = \"never\"\n", benchImage)
		ratio, theirs, mine, err := w.handedOut(min(w.rounds, containerRounds), entry, docker.env, peer)
		return ratio, fmt.Sprintf("%s in %s until its first output, a job in %s from its hand-out", peerWords(network), ms(theirs), ms(mine)), err
	}
}

func peerWords(network string) string {
	if network == "" {
		return "docker run --init"
	}
	return "docker network create and docker run --init --network"
}

// dockerRun gives the engine the image, and returns its command line and the peer: what prints firstWords in that image.
func (w *world) dockerRun(network string) (docker, peer command, err error) {
	if docker, err = dockerCommand(); err != nil {
		return docker, peer, err
	}
	peer = docker
	if network == "" {
		peer.args = append(peer.args, "run", "--init", "--rm", benchImage, "echo", firstWords)
	} else {
		script := `"$0" network create "$1" >/dev/null && "$0" run --init --rm --network "$1" "$2" echo "$3"; code=$?; "$0" network rm "$1" >/dev/null; exit $code`
		peer.args = []string{"sh", "-c", script, peer.args[0], network, benchImage, firstWords}
	}
	return docker, peer, w.makeImage(docker)
}

// inTurn returns how long something takes as a share of what the peer takes until it prints firstWords: the median of so many rounds, after a first in
// which ours fills its caches (an engine has to be given the step-runner).
func inTurn(rounds int, peer command, ours func() (time.Duration, error)) (ratio float64, theirs, mine time.Duration, err error) {
	if _, err := ours(); err != nil {
		return 0, 0, 0, err
	}
	var ratios []float64
	var all, peers []time.Duration
	for range rounds {
		a, err := ours()
		if err != nil {
			return 0, 0, 0, err
		}
		b, err := peer.untilItPrints(firstWords)
		if err != nil {
			return 0, 0, 0, err
		}
		all, peers, ratios = append(all, a), append(peers, b), append(ratios, float64(a)/float64(b))
	}
	return median(ratios), median(peers), median(all), nil
}

// handedOut is inTurn for the jobs of a manager with one runner, whose time begins when GitLab hands them out.
func (w *world) handedOut(rounds int, entry string, env []string, peer command) (ratio float64, theirs, mine time.Duration, err error) {
	memory, err := w.memory()
	if err != nil {
		return 0, 0, 0, err
	}
	dir, err := os.MkdirTemp(memory, "handed-out-")
	if err != nil {
		return 0, 0, 0, err
	}
	defer os.RemoveAll(dir)
	server := gitlabtest.New(gitlabtest.Options{LongPoll: time.Minute})
	m, err := w.runManager(start{server: server, dir: dir, concurrent: 1, entry: entry, env: env})
	if err != nil {
		return 0, 0, 0, err
	}
	defer m.end()
	ratio, theirs, mine, err = inTurn(rounds, peer, func() (time.Duration, error) {
		defer time.Sleep(handedOutPause)
		return firstCommand(server)
	})
	return ratio, theirs, mine, errors.Join(append(violations(server), err)...)
}

// dockerCommand is Docker's command line with the engine to use, if both exist.
func dockerCommand() (command, error) {
	path, err := exec.LookPath("docker")
	if err != nil {
		return command{}, skipped("docker is not installed")
	}
	c := command{args: []string{path}}
	if host := os.Getenv("RUNG_TEST_ENGINE"); host != "" {
		c.env = []string{"DOCKER_HOST=" + host}
	}
	version := c
	version.args = []string{path, "version"}
	if _, err := version.run(); err != nil {
		return command{}, skipped("no container engine answers; scripts/engine.sh starts one for a command")
	}
	return c, nil
}

// makeImage gives the engine benchImage.
func (w *world) makeImage(docker command) error {
	const program = "/bin/busybox" // of Debian's busybox-static, which needs no libraries
	content, err := os.ReadFile(program)
	if err != nil {
		return skipped("busybox-static is not installed")
	}
	file := filepath.Join(w.dir, "image.tar")
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	headers := []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, {Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
	}
	for _, name := range []string{"sh", "echo"} {
		headers = append(headers, &tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777})
	}
	for _, h := range append(headers, &tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755, Size: int64(len(content))}) {
		if err := t.WriteHeader(h); err != nil {
			return err
		}
	}
	if _, err := t.Write(content); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return err
	}
	docker.args = append(docker.args, "import", "--change", `CMD ["sh"]`, file, benchImage)
	_, err = docker.run()
	return err
}

// untilItPrints runs the command to its end, and returns the time until a line of its output was the text.
func (c command) untilItPrints(text string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if took == 0 && lines.Text() == text {
			took = time.Since(start)
		}
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, errs.String())
	}
	if took == 0 {
		return 0, fmt.Errorf("%s did not print %q", strings.Join(c.args, " "), text)
	}
	return took, nil
}
