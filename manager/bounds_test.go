package manager

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/machines"
	"github.com/rungci/rung/steps/containers"
)

func TestAnotherMachineHasNoFoldersOfThisOne(t *testing.T) {
	state := t.TempDir()
	for name, c := range map[string]struct {
		settings config.Runner
		want     string
	}{
		"here":                        {config.Runner{Executor: "shell"}, filepath.Join(state, "builds")},
		"over SSH":                    {config.Runner{Executor: "ssh"}, ""},
		"over SSH, with a builds_dir": {config.Runner{Executor: "ssh", BuildsDir: "/srv/builds"}, "/srv/builds"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{entry: &entry{manager: &Manager{o: Options{State: state}}}, from: &gitlab.Job{}, level: executor.None, rank: executor.None.Rank()}
			job := &executor.Job{}
			if err := r.bounds(&c.settings)(job); err != nil || job.Root != c.want {
				t.Errorf("the folder is %q, %v, want %q", job.Root, err, c.want)
			}
		})
	}
}

func TestTheLowerLimitCounts(t *testing.T) {
	policy := &config.Policy{Memory: 1 << 30, Processes: 100, CPUs: 2}
	all := executor.Resources{Memory: 1 << 30, PIDs: 100, CPU: 2}
	for name, c := range map[string]struct{ has, want executor.Resources }{
		"no other limit":  {executor.Resources{}, all},
		"a higher one":    {executor.Resources{Memory: 2 << 30, Swap: 1, CPU: 4}, all},
		"a lower one":     {executor.Resources{Memory: 1 << 20, Swap: 1, PIDs: 10, CPU: 0.5}, executor.Resources{Memory: 1 << 20, Swap: 1, PIDs: 10, CPU: 0.5}},
		"limits of disks": {executor.Resources{Disk: 7}, executor.Resources{Memory: 1 << 30, PIDs: 100, CPU: 2, Disk: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			job := &executor.Job{Resources: c.has, ServiceResources: c.has, Services: []containers.Service{{}}}
			limit(job, policy)
			if diff := cmp.Diff([]executor.Resources{c.want, c.want}, []executor.Resources{job.Resources, job.ServiceResources}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAJobInContainersKeepsWhatItKeepsInTheVolumeOfItsProject(t *testing.T) {
	opener := machines.New(machines.Options{
		Connect: func(context.Context, provider.Access) (host.Host, error) { return local.New(), nil },
		Open: func(context.Context, executor.Level, executor.Setup) (executor.Executor, error) {
			return &fake.Executor{Name: executor.Container}, nil
		},
		Setup: executor.Setup{State: t.TempDir()},
	})
	defer opener.Close()
	for name, volume := range map[string]string{"with a volume": "/volumes/v", "without one": ""} {
		t.Run(name, func(t *testing.T) {
			on, err := opener.Level(t.Context(), &provider.Machine{Name: "m", Fresh: true, Volume: volume, Life: executor.NewLife()}, executor.Container)
			if err != nil {
				t.Fatal(err)
			}
			defer on.Close()
			r := &run{entry: &entry{manager: &Manager{}}, from: &gitlab.Job{}, level: executor.Container, rank: executor.Container.Rank(), on: on, keeps: true, projectSlot: 3}
			job := &executor.Job{}
			if err := r.bounds(&config.Runner{Executor: config.DockerAutoscalerExecutor, Docker: &config.Docker{}})(job); err != nil {
				t.Fatal(err)
			}
			if job.Root != volume || (job.KeepProject != "") != (volume != "") {
				t.Errorf("the project is kept as %q in %q", job.KeepProject, job.Root)
			}
			if slot := job.KeepVolumes[len(job.KeepVolumes)-1:]; slot != map[bool]string{true: "0", false: "3"}[volume != ""] {
				t.Errorf("kept volumes are %q", job.KeepVolumes)
			}
		})
	}
}
