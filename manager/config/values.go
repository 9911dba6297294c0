package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor"
)

// values checks what the keys above all entries say together. The manager goes on without what is wrong here, so all are warnings.
func (r *reader) values(c *Config, getenv func(string) string) {
	warn := func(key, hint, format string, args ...any) {
		r.found(warning, "config/value", key, r.doc.vals, hint, format, args...)
	}
	if at := c.OpenTelemetry.Endpoint; at != "" && !isWebAddress(at) {
		warn("opentelemetry.endpoint", "write for example \"http://localhost:4318\"", "the endpoint must begin with http:// or https://: nothing is sent to %q", at)
	}
	if at := c.ListenAddress; at != "" && !isListenAddress(at) {
		warn("listen_address", "write for example \"127.0.0.1:9252\" or \":9252\"", "listen_address must be HOST:PORT: metrics are not served at %q", at)
	}
	r.sessionServer(&c.SessionServer, warn)
	first := map[string]int{}
	for i := range c.Runners {
		e := &c.Runners[i]
		if e.Token == "" {
			continue
		}
		same := os.Expand(e.URL, getenv) + " " + os.Expand(e.Token, getenv)
		if line, again := first[same]; again {
			warn(fmt.Sprintf("runners[%d].token", i), "register a runner of its own", "this is the token of the entry in line %d, too: GitLab takes both for one runner", line)
			continue
		}
		first[same] = e.line
	}
}

// sessionServer checks that GitLab can reach terminals.
func (r *reader) sessionServer(s *SessionServer, warn func(key, hint, format string, args ...any)) {
	if s.ListenAddress == "" {
		return
	}
	if !isListenAddress(s.ListenAddress) {
		warn("session_server.listen_address", "write for example \":8093\"", "listen_address must be HOST:PORT: there are no terminals at %q", s.ListenAddress)
		return
	}
	reached, key := s.AdvertiseAddress, "session_server.advertise_address"
	if reached == "" {
		reached, key = s.ListenAddress, "session_server.listen_address"
	}
	reached = strings.TrimSuffix(strings.TrimPrefix(reached, "https://"), "/")
	host, _, err := net.SplitHostPort(reached)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		warn(key, "write advertise_address = \"HOST:PORT\", by which GitLab reaches this machine", "GitLab cannot reach %q: jobs have no terminals", reached)
	}
}

// entryValues checks values of an entry that its jobs would fail with, or that mean nothing.
func (r *reader) entryValues(e *Runner, path string, getenv func(string) string) {
	for key, text := range map[string]string{"url": e.URL, "token": e.Token} {
		if name := unset(text, getenv); name != "" {
			r.found(warning, "config/variable", path+"."+key, r.doc.vals, "set it where rung runs, for its service with EnvironmentFile=",
				"the variable %s is not set, which %s names: without it, the entry cannot ask GitLab for jobs", name, key)
		}
	}
	if at := os.Expand(e.URL, getenv); at != "" && !isWebAddress(at) {
		r.found(problem, "config/value", path+".url", r.doc.vals, "write for example \"https://gitlab.example.com\"", "the url of GitLab must begin with https:// or http://, and have a host")
	}
	for i, text := range e.Environment {
		if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
			r.found(warning, "config/value", fmt.Sprintf("%s.environment[%d]", path, i), r.doc.vals, "write \"NAME=VALUE\"", "environment: part %d is not NAME=VALUE, and is ignored", i+1)
		}
	}
	if e.Docker != nil {
		for i, text := range e.Docker.Volumes {
			if text == "" {
				r.found(warning, "config/value", fmt.Sprintf("%s.docker.volumes[%d]", path, i), r.doc.vals, "delete it", "volumes: part %d is empty, and is ignored", i+1)
			}
		}
	}
	if dir := e.BuildsDir; dir != "" && e.Executor == KubernetesExecutor && (dir[0] != '/' || strings.Trim(dir, "/.") == "") {
		r.found(problem, "config/value", path+".builds_dir", r.doc.vals, "write the absolute path of a folder", "builds_dir %q cannot be the folder of projects in a pod", e.BuildsDir)
	}
	levels, err := e.Levels()
	if err != nil || levels.Default.Rank() >= executor.Container.Rank() {
		return
	}
	if dir := e.BuildsDir; dir != "" && (e.Executor == "shell" && !filepath.IsAbs(dir) || e.Executor == "ssh" && !strings.HasPrefix(dir, "/")) {
		r.found(problem, "config/value", path+".builds_dir", r.doc.vals, "write an absolute path", "builds_dir %q is relative, and jobs have no folder that it could begin in", dir)
	}
	if p := e.Policy; levels.Default == executor.None && e.Executor != "custom" && (p.Memory > 0 || p.Processes > 0 || p.CPUs > 0) {
		r.found(warning, "config/value", path+".policy", r.doc.keys, "write default = \"cgroup\" (Linux) in [runners.isolation], or leave the limits out",
			"memory, processes and cpus cannot be limited on level none: the jobs of this entry are refused")
	}
}

// unset is the first variable in an address or a token that has no value; empty if there is none.
func unset(text string, getenv func(string) string) (first string) {
	os.Expand(text, func(name string) string {
		value := getenv(name)
		if value == "" && first == "" {
			first = name
		}
		return value
	})
	return first
}

// negative says of numbers that stand for how much or how long that they cannot be negative, where that means nothing of its own.
func (r *reader) negative(n *node, got any, at string) {
	if n.Use != Used || strings.HasSuffix(n.Name, "services_limit") || strings.HasSuffix(n.Name, "wait_for_services_timeout") || strings.HasSuffix(n.Name, "oom_score_adjust") || strings.HasSuffix(n.Name, "scale_throttle.limit") {
		return
	}
	below := false
	switch got := got.(type) {
	case int64:
		below = got < 0
	case float64:
		below = got < 0
	case interface{ Seconds() float64 }:
		below = got.Seconds() < 0
	}
	if below && n.Name != "concurrent" && !strings.HasSuffix(n.Name, ".slots") { // which have more to say
		r.found(warning, "config/value", at, r.doc.vals, "write a number above 0, or delete the key", "%s cannot be negative: it counts as not set", n.last())
	}
}

// isWebAddress reports whether a text is an address of HTTP with a host.
func isWebAddress(text string) bool {
	u, err := url.Parse(strings.TrimSpace(text))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// isListenAddress reports whether a text is HOST:PORT with a port that can be listened on; the host may be empty.
func isListenAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err == nil {
		return true
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil && port != ""
}
