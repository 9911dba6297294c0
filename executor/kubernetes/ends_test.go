//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/kubernetes"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// within is how long the end of a pod may take to be noticed, beyond what the level promises: other tests use the machine, too.
const within = time.Minute

// opened is the level with options.
func opened(t *testing.T, o kubernetes.Options) executor.Executor {
	t.Helper()
	e, err := kubernetes.New(t.Context(), executor.Setup{
		Program: func(string, string) (string, error) { return executortest.Program() }, State: filepath.Join(t.TempDir(), "state"),
		PullPolicies: []string{"if-not-present"}, Env: environment(), Labels: map[string]string{executortest.LabelName: t.Name()},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// said is what a preparation reports.
type said struct {
	mu sync.Mutex
	strings.Builder
}

func (s *said) report(p event.Preparing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s, p.Message)
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.String()
}

// prepared is an environment, which is closed with the test.
func prepared(t *testing.T, o kubernetes.Options, job *executor.Job) executor.Environment {
	t.Helper()
	env, err := opened(t, o).Prepare(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return env
}

func TestTheEndOfAPodIsToldWithItsReasonAndItsEvents(t *testing.T) {
	c := start(t)
	status := func(patch string) func(*testing.T, *corev1.Pod) error {
		return func(t *testing.T, pod *corev1.Pod) error {
			return c.PatchStatus(t.Context(), pod.Namespace, pod.Name, patch)
		}
	}
	for name, way := range map[string]struct {
		end  func(*testing.T, *corev1.Pod) error
		want string
	}{
		"deleted":          {func(t *testing.T, pod *corev1.Pod) error { return c.Delete(t.Context(), pod.Namespace, pod.Name, 30) }, "somebody has deleted it"},
		"drained":          {func(t *testing.T, pod *corev1.Pod) error { return c.Evict(t.Context(), pod.Namespace, pod.Name) }, "evicted, as when its node is drained"},
		"evicted":          {status(`{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}`), "Evicted: The node was low on resource: memory."},
		"out of memory":    {status(`{"status":{"containerStatuses":[{"name":"build","image":"x","imageID":"x","ready":false,"restartCount":0,"state":{"terminated":{"reason":"OOMKilled","exitCode":137}}}]}}`), "ran out of memory and was killed (exit code 137)"},
		"its node lost":    {status(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), "has stopped answering"},
		"deleted by force": {func(t *testing.T, pod *corev1.Pod) error { return c.Delete(t.Context(), pod.Namespace, pod.Name, 0) }, "deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := prepared(t, options(), job("ends"))
			pod, err := c.Pod(t.Context(), namespace, env.Layout().Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Warn(t.Context(), pod, "NodeShutdown", "the machine goes off"); err != nil {
				t.Fatal(err)
			}
			if err := way.end(t, pod); err != nil {
				t.Fatal(err)
			}
			select {
			case <-env.Done():
			case <-time.After(within):
				t.Fatal("it goes on")
			}
			if text := env.Err().Error(); !errors.Is(env.Err(), executor.ErrGone) || !strings.Contains(text, way.want) || !strings.Contains(text, "NodeShutdown: the machine goes off") {
				t.Errorf("it says %s", text)
			}
		})
	}
}

func TestAPodWithoutANodeIsToldWithTheSchedulersReason(t *testing.T) {
	c := start(t)
	o := options()
	o.Template.Spec.NodeSelector, o.StartWithin = map[string]string{"rung.test/disk": "slow"}, 3*time.Second
	var s said
	e := opened(t, o)
	_, err := e.Prepare(t.Context(), job("pending"), s.report)
	var user *executor.UserError
	if err == nil || errors.As(err, &user) || !strings.Contains(err.Error(), "did not start within 3s: 0/1 nodes are available") || !strings.Contains(err.Error(), "FailedScheduling") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(s.text(), "no node yet: 0/1 nodes are available") {
		t.Errorf("it reports %s", s.text())
	}
	if left, err := running(c, t.Name()); err != nil || len(left) > 0 {
		t.Errorf("left: %q %v", left, err)
	}
	o.Template.Spec.NodeSelector = map[string]string{"rung.test/disk": "fast"}
	o.StartWithin = 0
	prepared(t, o, job("placed"))
}

func TestImagesThatCannotBeHad(t *testing.T) {
	start(t)
	missing := func(policies ...string) *executor.Job {
		j := job("missing")
		j.Image = &containers.Image{Name: "127.0.0.1:1/rung/missing:1", PullPolicies: policies}
		return j
	}
	for name, c := range map[string]struct {
		job  *executor.Job
		want []string
	}{
		"from nobody":              {missing("always"), []string{"127.0.0.1:1/rung/missing:1 cannot be pulled: ErrImagePull"}},
		"that are not there":       {missing("never"), []string{"is not present with pull policy of Never"}},
		"by one policy or another": {missing("never", "always"), []string{"ErrImagePull", "refused"}},
		"of a service": {func() *executor.Job {
			j := job("service")
			j.Services = []containers.Service{{Image: containers.Image{Name: "127.0.0.1:1/rung/db:1"}}}
			return j
		}(), []string{"127.0.0.1:1/rung/db:1 cannot be pulled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := opened(t, options()).Prepare(t.Context(), c.job, nil)
			var user *executor.UserError
			var pull *executor.PullError
			if !errors.As(err, &user) || !errors.As(err, &pull) {
				t.Fatalf("it gives %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it says %v, without %q", err, part)
				}
			}
		})
	}
}

func TestWhatTheRightsDoNotAllowIsToldWithWhereTheyAre(t *testing.T) {
	start(t)
	o := options()
	o.Template.Namespace = "default"
	_, err := opened(t, o).Prepare(t.Context(), job("elsewhere"), nil)
	if err == nil || !strings.Contains(err.Error(), "deploy/kubernetes") || !strings.Contains(err.Error(), `"default"`) {
		t.Errorf("%v", err)
	}
}

func TestAPodThatTheClusterDoesNotTake(t *testing.T) {
	start(t)
	j := job("invalid")
	j.Image = &containers.Image{Name: " "}
	var user *executor.UserError
	if _, err := opened(t, options()).Prepare(t.Context(), j, nil); !errors.As(err, &user) || !strings.Contains(err.Error(), "image") {
		t.Errorf("%v", err)
	}
}

// TestAJobLogsInToItsRegistry pulls from a registry of a test that wants a password.
func TestAJobLogsInToItsRegistry(t *testing.T) {
	c := start(t)
	if c.Node == nil {
		t.Skip("needs the node of the tests, which reaches a registry on this machine")
	}
	registry, image := privateImage(t, c.Image, "ann", "word")
	j := job("login")
	j.Image = &containers.Image{Name: image, PullPolicies: []string{"always"}}
	if _, err := opened(t, options()).Prepare(t.Context(), j, nil); err == nil {
		t.Error("it is had without a login")
	}
	j.Variables = map[string]string{"DOCKER_AUTH_CONFIG": fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, registry, base64.StdEncoding.EncodeToString([]byte("ann:word")))}
	env := prepared(t, options(), j)
	if log, failure := executortest.Script(t, env, "echo in"); failure != nil || log != "in\n" {
		t.Errorf("%q, %v", log, failure)
	}
	secrets, err := c.Secrets(t.Context(), namespace)
	if err != nil || len(secrets) == 0 {
		t.Errorf("%v, %v", secrets, err)
	}
	for _, s := range secrets {
		if s.Name == env.Layout().Name && (len(s.OwnerReferences) != 1 || s.OwnerReferences[0].Kind != "Pod") {
			t.Errorf("the secret is owned by %+v", s.OwnerReferences)
		}
	}
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := running(c, t.Name()); err != nil || len(left) > 0 {
		t.Errorf("left: %q %v", left, err)
	}
}

// TestAnImageBringsTheStepRunner has one of a test in place of the stream.
func TestAnImageBringsTheStepRunner(t *testing.T) {
	c := start(t)
	if c.Node == nil {
		t.Skip("needs the node of the tests, whose engine takes images")
	}
	o := options()
	o.Image = stepRunnerImage(t)
	env := prepared(t, o, job("image"))
	if log, failure := executortest.Script(t, env, "echo brought"); failure != nil || log != "brought\n" {
		t.Errorf("%q, %v", log, failure)
	}
}

// TestWhatTheOperatorGivesPods mounts, limits and names what a template has.
func TestWhatTheOperatorGivesPods(t *testing.T) {
	c := start(t)
	if err := c.ApplyText(t.Context(), namespace, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"given"},"data":{"word":"from a config map"}}
---
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"hidden"},"stringData":{"word":"from a secret"}}`)); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Template.Labels, o.Template.Annotations = map[string]string{"team": "a"}, map[string]string{"note": "any text"}
	o.Template.Spec.Volumes = []corev1.Volume{
		{Name: "given", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "given"}}}},
		{Name: "hidden", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "hidden", Items: []corev1.KeyToPath{{Key: "word", Path: "deep/word"}}}}},
		{Name: "room", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	o.Template.Build.VolumeMounts = []corev1.VolumeMount{{Name: "given", MountPath: "/given", ReadOnly: true}, {Name: "hidden", MountPath: "/hidden"}, {Name: "room", MountPath: "/room"}}
	o.Template.Build.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	o.Template.Spec.HostAliases = []corev1.HostAlias{{IP: "127.0.0.9", Hostnames: []string{"nine"}}}
	env := prepared(t, o, job("given"))
	log, failure := executortest.Script(t, env, `cat /given/word; echo; cat /hidden/deep/word; echo; echo x >/room/x && cat /room/x; grep -c nine /etc/hosts; (echo x >/given/y) 2>/dev/null || echo refused`)
	if failure != nil || log != "from a config map\nfrom a secret\nx\n1\nrefused\n" {
		t.Errorf("%q, %v", log, failure)
	}
	pod, err := c.Pod(t.Context(), namespace, env.Layout().Name)
	if err != nil || pod.Labels["team"] != "a" || pod.Annotations["note"] != "any text" {
		t.Errorf("%v %v %v", pod.Labels, pod.Annotations, err)
	}
}

func TestServicesSeeWhatAJobSaysAndNothingIsReplaced(t *testing.T) {
	start(t)
	j := job("literal")
	j.Variables = map[string]string{"ODD": "$(HOME) $$ $x"}
	j.Services = []containers.Service{{
		Image: containers.Image{Name: j.Image.Name, Entrypoint: []string{"sh", "-c"}}, Command: []string{`while :; do printf '%s|%s' "$ODD" '$(HOME)' | nc -l -p 8099; done`},
		Aliases: []string{"odd"}, Variables: map[string]string{"HEALTHCHECK_TCP_PORT": "8099"},
	}}
	env := prepared(t, options(), j)
	var out bytes.Buffer
	const ask = "for n in 1 2 3 4 5 6 7 8 9; do nc -w 5 odd 8099 </dev/null 2>/dev/null && break; sleep 0.5; done"
	if _, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"sh", "-c", ask}, Stdout: &out}); err != nil || out.String() != "$(HOME) $$ $x|$(HOME)" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestAServerThatDoesNotAnswer is told as that, in time.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	e, err := kubernetes.New(t.Context(), executor.Setup{State: t.TempDir()}, kubernetes.Options{Cluster: kubernetes.Cluster{Host: "https://127.0.0.1:1"}, Tries: 2, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Probe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("%v", err)
	}
}

// privateImage is an image in a registry on this machine that wants a name and a password.
func privateImage(t *testing.T, image, user, password string) (registry, name string) {
	t.Helper()
	r := sourcetest.NewRegistry(false)
	t.Cleanup(r.Close)
	engine := enginetest.Client(t)
	name = r.Host() + "/rung/private:1"
	if _, err := engine.ImageTag(t.Context(), client.ImageTagOptions{Source: image, Target: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = engine.ImageRemove(context.Background(), name, client.ImageRemoveOptions{}) })
	pushed, err := engine.ImagePush(t.Context(), name, client.ImagePushOptions{RegistryAuth: base64.URLEncoding.EncodeToString([]byte("{}"))})
	if err != nil {
		t.Fatal(err)
	}
	defer pushed.Close()
	text, err := io.ReadAll(pushed)
	if err != nil || !strings.Contains(string(text), "digest") {
		t.Fatalf("%v\n%s", err, text)
	}
	r.Protect(sourcetest.Basic, user, password)
	return r.Host(), name
}

// stepRunnerImage is an image with nothing but a step-runner.
func stepRunnerImage(t *testing.T) string {
	t.Helper()
	file, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const name = "rung-test-step-runner:1"
	engine := enginetest.Client(t)
	enginetest.Import(t, engine, name, []enginetest.File{{Name: "step-runner", Mode: 0o755, Content: program}})
	t.Cleanup(func() { _, _ = engine.ImageRemove(context.Background(), name, client.ImageRemoveOptions{}) })
	return name
}
