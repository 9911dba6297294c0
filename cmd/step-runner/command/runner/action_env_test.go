package runner

import (
	"strings"
	"testing"
)

func TestOnlyContainerActionsFindTheEngine(t *testing.T) {
	t.Parallel()
	host := []string{"DOCKER_HOST=unix:///mine", "DOCKER_CONFIG=/my/docker", "HOME=/home/me", "TOKEN=secret"}
	action := []string{"builtin", "docker/action", "--image", "x"}
	for _, c := range []struct {
		name, env, want string
		args            []string
	}{
		{"a container action", "HOME=/run/home A=b", "A=b DOCKER_HOST=unix:///mine DOCKER_CONFIG=/my/docker HOME=/home/me", action},
		{"one whose step names the engine", "DOCKER_HOST=tcp://other HOME=/run/home", "DOCKER_HOST=tcp://other DOCKER_CONFIG=/my/docker HOME=/home/me", action},
		{"one whose step has logged in", "DOCKER_CONFIG=/run/docker", "DOCKER_CONFIG=/run/docker DOCKER_HOST=unix:///mine HOME=/home/me", action},
		{"one that would choose the programs on this machine", "PATH=/the/actions LD_PRELOAD=x.so DYLD_INSERT_LIBRARIES=y A=b", "A=b DOCKER_HOST=unix:///mine DOCKER_CONFIG=/my/docker HOME=/home/me", action},
		{"another built-in step", "HOME=/run/home", "HOME=/run/home", []string{"builtin", "docker/login", "in", "out", "exports"}},
		{"another command", "HOME=/run/home", "HOME=/run/home", []string{"run", "steps.yml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(programEnv(host, c.args, strings.Fields(c.env)), " "); got != c.want {
				t.Errorf("it is given %s, not %s", got, c.want)
			}
		})
	}
}
