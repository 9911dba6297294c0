//go:build linux

package kubernetes_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/kubernetes"
	"github.com/rungci/rung/executor/kubernetes/kubetest"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/source/sourcetest"
)

const namespace = kubetest.Jobs

func TestMain(m *testing.M) {
	if executortest.Own(func() (executortest.Level, error) { return level(nil), nil }) {
		return
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue { // most tests wait
		_ = parallel.Value.Set(strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	code := m.Run()
	kubetest.Stop()
	executortest.RemoveProgram()
	os.Exit(code)
}

var deployed sync.Once

// kubeconfig is the file with those rights, and image that of jobs. The process of an owner has them from its environment.
var kubeconfig, image = os.Getenv("KUBECONFIG"), os.Getenv(kubetest.ImageVariable)

// environment has the kubeconfig.
func environment() []string { return append(os.Environ(), "KUBECONFIG="+kubeconfig) }

// start returns the cluster, whose kubeconfig has the rights of deploy/kubernetes and no others.
func start(t *testing.T) *kubetest.Cluster {
	t.Helper()
	c := kubetest.Start(t)
	deployed.Do(func() {
		kubeconfig, image = c.Deploy(t, filepath.Join("..", "..", "deploy", "kubernetes")), c.Image
	})
	return c
}

func options() kubernetes.Options {
	return kubernetes.Options{Template: kubernetes.Template{Namespace: namespace}}
}

// level is what the suite tries. In the process of an owner, which is killed, there is no cluster but by its address.
func level(c *kubetest.Cluster) executortest.Level {
	l := executortest.Level{
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
			setup.PullPolicies, setup.Env = []string{container.IfNotPresent}, environment()
			return kubernetes.New(ctx, setup, options())
		},
		Job:    job,
		Unheld: []string{"processes", "which processors"},
	}
	if c == nil {
		return l
	}
	l.Env = []string{"KUBECONFIG=" + kubeconfig, kubetest.ImageVariable + "=" + image}
	l.Left = func(dir string) (names []string, err error) {
		names, err = running(c, dir)
		if err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(dir, "state", "*"))
		return append(names, files...), err
	}
	l.Running = func(dir string) ([]string, error) {
		pods, err := c.Pods(context.Background(), namespace)
		var names []string
		for _, pod := range pods {
			if pod.Annotations[executortest.LabelName] == dir && !slices.Contains([]string{"Failed", "Succeeded"}, string(pod.Status.Phase)) {
				names = append(names, pod.Name)
			}
		}
		return names, err
	}
	l.Ends = ends(c)
	l.Stalls = map[string]func(*testing.T, executor.Environment){
		"its step-runner is stopped, and does not answer": func(t *testing.T, env executor.Environment) {
			const script = "for p in /proc/[0-9]*; do case $(xargs -0 echo <$p/cmdline) in '/opt/rung/bin/step-runner serve'*) kill -STOP ${p#/proc/};; esac; done"
			if code, err := env.Shell(context.Background(), &executor.Shell{Args: []string{"sh", "-c", script}, Dir: "/"}); err != nil || code != 0 {
				t.Errorf("code %d, %v", code, err)
			}
		},
	}
	return l
}

// running names the pods and secrets of the level whose things are in dir.
func running(c *kubetest.Cluster, dir string) (names []string, err error) {
	pods, err := c.Pods(context.Background(), namespace)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Annotations[executortest.LabelName] == dir {
			names = append(names, "pod "+pod.Name)
		}
	}
	secrets, err := c.Secrets(context.Background(), namespace)
	for _, secret := range secrets {
		if secret.Annotations[executortest.LabelName] == dir {
			names = append(names, "secret "+secret.Name)
		}
	}
	return names, err
}

// ends are the ways in which pods end from outside.
func ends(c *kubetest.Cluster) map[string]func(*testing.T, executor.Environment) {
	all := map[string]func(*testing.T, executor.Environment){
		"its pod is deleted": func(t *testing.T, env executor.Environment) {
			if err := c.Delete(context.Background(), namespace, env.Layout().Name, 30); err != nil {
				t.Error(err)
			}
		},
		"its node is drained": func(t *testing.T, env executor.Environment) {
			if err := c.Evict(context.Background(), namespace, env.Layout().Name); err != nil {
				t.Error(err)
			}
		},
	}
	if c.Node != nil {
		all["its container is killed"] = func(t *testing.T, env executor.Environment) {
			if err := c.Node.Kill(context.Background(), namespace, env.Layout().Name, "build"); err != nil {
				t.Error(err)
			}
		}
	}
	return all
}

func job(id string) *executor.Job {
	return &executor.Job{ID: id, ProjectName: "project", Image: &containers.Image{Name: image}}
}

func TestConformance(t *testing.T) {
	l := level(start(t))
	registry := sourcetest.NewRegistry(false)
	t.Cleanup(registry.Close) // after the cases, which go on when this has returned
	l.MissingImage = registry.Host() + "/rung/missing:1"
	executortest.Run(t, l)
}

func TestConformanceOfAnotherUser(t *testing.T) {
	l := level(start(t))
	l.Job = func(id string) *executor.Job {
		j := job(id)
		j.Image.User = "1234:1235"
		return j
	}
	executortest.Run(t, l)
}

func TestServices(t *testing.T) {
	executortest.Services(t, level(start(t)))
}
