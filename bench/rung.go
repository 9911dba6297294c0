//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// running is a manager that runs, with its GitLab in this process.
type running struct {
	server *gitlabtest.Server
	began  time.Time
	cmd    *exec.Cmd
	pid    int // what is measured, and asked to end
	end    func()
}

// start is what a manager is started with.
type start struct {
	server     *gitlabtest.Server
	dir        string // of all its files
	concurrent int
	entry      string // the rest of its [[runners]] in config.toml
	counts     string // a file for the number of programs that are started; empty: nobody counts
	env        []string
}

// runManager starts a manager. The caller ends it; it also ends with this process, on Linux.
func (w *world) runManager(s start) (*running, error) {
	program := filepath.Join(w.dir, "rung")
	build := exec.Command("scripts/build.sh", program, "./cmd/rung")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building rung: %w", err)
	}
	address, closing, err := listen(s.server)
	if err != nil {
		return nil, err
	}
	r, err := w.run(s, program, address)
	if err != nil {
		closing()
		return nil, err
	}
	r.end = sync.OnceFunc(func() {
		_ = syscall.Kill(r.pid, syscall.SIGTERM)
		_ = r.cmd.Wait()
		closing()
	})
	return r, nil
}

func (w *world) run(s start, program, address string) (*running, error) {
	file := filepath.Join(s.dir, "config.toml")
	if err := os.WriteFile(file, []byte(configOf(address, s.server, s.concurrent, s.entry)), 0o600); err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(s.dir, "rung.log"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	args := []string{program, "run", "--config", file, "--state", filepath.Join(s.dir, "state"), "--step-runner", w.runner}
	if s.counts != "" {
		args = append([]string{"perf", "stat", "-x,", "-o", s.counts, "-e", programStarted, "--"}, args...)
	}
	r := &running{server: s.server, cmd: exec.Command(args[0], args[1:]...)}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = append(append(os.Environ(), "TMPDIR="+s.dir), s.env...), said, said
	r.began = time.Now()
	if err := startWithin(r.cmd); err != nil {
		return nil, err
	}
	r.pid = r.cmd.Process.Pid
	return r, nil
}

// configOf is a config.toml with one runner.
func configOf(address string, server *gitlabtest.Server, concurrent int, entry string) string {
	return fmt.Sprintf("concurrent = %d\ncheck_interval = 1\n[[runners]]\nname = \"bench\"\nurl = \"http://%s\"\ntoken = %q\n%s", concurrent, address, server.NewRunner(), entry)
}

// listen lets a GitLab listen on loopback.
func listen(server *gitlabtest.Server) (address string, closing func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(listener) }()
	return listener.Addr().String(), func() { _ = web.Close() }, nil
}
