package config

import "testing"

func TestJobsInContainersThatHaveNothingOfTheirMachineAreApart(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		runner Runner
		want   bool
	}{
		"containers":                        {Runner{Executor: DockerAutoscalerExecutor}, true},
		"with limits and caches":            {Runner{Executor: DockerAutoscalerExecutor, Docker: &Docker{Image: "alpine", Memory: 1 << 30, Volumes: []string{"/cache"}, PullPolicy: []string{"always"}}}, true},
		"sandboxes":                         {Runner{Executor: DockerAutoscalerExecutor, Isolation: Isolation{Default: "sandbox"}}, true},
		"the machine":                       {Runner{Executor: InstanceExecutor}, false},
		"jobs that may ask for the machine": {Runner{Executor: DockerAutoscalerExecutor, Isolation: Isolation{Allowed: []string{"instance"}}}, false},
		"jobs that may ask for less":        {Runner{Executor: DockerAutoscalerExecutor, Isolation: Isolation{Default: "container", Allowed: []string{"none"}}}, false},
		"all rights":                        {Runner{Executor: DockerAutoscalerExecutor, Docker: &Docker{Privileged: true}}, false},
		"all rights of services":            {Runner{Executor: DockerAutoscalerExecutor, Docker: &Docker{ServicesPrivileged: &yes}}, false},
		"the engine":                        {Runner{Executor: DockerAutoscalerExecutor, Docker: &Docker{Volumes: []string{"/var/run/docker.sock:/var/run/docker.sock"}}}, false},
		"capabilities":                      {Runner{Executor: DockerAutoscalerExecutor, Docker: &Docker{CapAdd: []string{"SYS_ADMIN"}}}, false},
		"the network of the machine":        {Runner{Executor: DockerAutoscalerExecutor, Docker: &Docker{NetworkMode: "host"}}, false},
		"another runtime":                   {Runner{Executor: DockerAutoscalerExecutor, Docker: &Docker{Runtime: "other"}}, false},
	} {
		if got := c.runner.apart(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
