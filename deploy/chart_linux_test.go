// Package deploy_test tries what deploy has for clusters, with Helm and a real API server.
package deploy_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/kubernetes/kubetest"
)

var update = flag.Bool("update", false, "write the golden file")

func TestMain(m *testing.M) {
	code := m.Run()
	kubetest.Stop()
	os.Exit(code)
}

const chart = "helm/rung"

// image and config are what a release must be given.
const (
	image  = `image: {repository: registry.example.com/rung, digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}` + "\n"
	config = `config: |
  listen_address = ":9252"
  shutdown_timeout = 45
`
)

// helm runs Helm with values. The error has what it says.
func helm(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(enginetest.Helm(t), append(args, "--kube-version", "1.34.1", "--values", file)...)
	command.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		err = errors.New(string(out) + said.String())
	}
	return string(out), err
}

// render is what a release in the namespace rung is made of.
func render(t *testing.T, values string) (string, error) {
	t.Helper()
	return helm(t, values, "template", "rung", chart, "--namespace", "rung")
}

func mustRender(t *testing.T, values string) string {
	t.Helper()
	text, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// object is one of a text, by kind and name.
func object(t *testing.T, text, kind, name string) map[string]any {
	t.Helper()
	for in := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text)+1); ; {
		o := &unstructured.Unstructured{}
		if err := in.Decode(&o.Object); errors.Is(err, io.EOF) {
			t.Fatalf("there is no %s %s in\n%s", kind, name, text)
		} else if err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == kind && o.GetName() == name {
			return o.Object
		}
	}
}

func TestTheChartIsWhatItWas(t *testing.T) {
	got := mustRender(t, image+"existingSecret: rung-config\n")
	const golden = "testdata/rung.yaml"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run the test with -update if that is meant:\n%s", diff)
	}
}

// all has all that the chart can make.
const all = image + config + others

const others = `
jobs: {namespaces: [rung-jobs, rung-other]}
machines: {namespace: rung-machines}
podDisruptionBudget: {enabled: true}
state: {storageClassName: fast, size: 1Gi}
env: [{name: HTTPS_PROXY, value: "http://proxy.example.com"}]
priorityClassName: ""
podAnnotations: {example.com/a: b}
tolerations: [{key: ci, operator: Exists}]
nodeSelector: {kubernetes.io/arch: amd64}
imagePullSecrets: [{name: registry}]
`

// shared has two managers.
const shared = `
  [state_storage.kubernetes]
    namespace = "rung-state"
replicas: 2
shared: {namespace: rung-state, keySecret: rung-state-key}
`

func TestTwoManagersShareTheirState(t *testing.T) {
	c := kubetest.Start(t)
	text := mustRender(t, image+config+shared)
	if err := c.Namespace(t.Context(), "rung"); err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyText(t.Context(), "rung", []byte(text)); err != nil {
		t.Error(err)
	}
	if strings.Contains(text, "PersistentVolumeClaim") {
		t.Error("two pods have one volume")
	}
	spec := object(t, text, "Deployment", "rung")["spec"].(map[string]any)
	pod := fmt.Sprint(spec["template"])
	if fmt.Sprint(spec["replicas"]) != "2" || !strings.Contains(fmt.Sprint(spec["strategy"]), "maxSurge:0") {
		t.Errorf("%v", spec)
	}
	for _, want := range []string{"name:RUNG_STATE_KEY", "name:rung-state-key", "sizeLimit:10Gi", "topologyKey:kubernetes.io/hostname"} {
		if !strings.Contains(pod, want) {
			t.Errorf("there is no %s in %s", want, pod)
		}
	}
	object(t, text, "Namespace", "rung-state")
}

func TestAClusterTakesTheChart(t *testing.T) {
	c := kubetest.Start(t)
	if _, err := helm(t, all, "lint", chart, "--strict"); err != nil {
		t.Error(err)
	}
	if err := c.Namespace(t.Context(), "rung"); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"adopt", "drain", "stop"} {
		text := mustRender(t, all+"shutdown: {mode: "+mode+", timeout: 45, drainTimeout: 600}\n")
		if err := c.ApplyText(t.Context(), "rung", []byte(text)); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		spec := object(t, text, "Deployment", "rung")["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		want := map[string]float64{"adopt": 75, "drain": 675, "stop": 75}[mode]
		if got := spec["terminationGracePeriodSeconds"]; got != want && got != int64(want) {
			t.Errorf("%s: the pod has %v seconds to end, want %v", mode, got, want)
		}
	}
}

func TestTheRightsAreThoseThatOthersAreTriedWith(t *testing.T) {
	text := mustRender(t, image+config+shared+others)
	for role, of := range map[string]struct{ file, name string }{
		"rung": {"kubernetes/rbac.yaml", "rung"}, "rung-state": {"kubernetes/state.yaml", "rung-state"}, "rung-machines": {"../plugins/kubernetes/rbac.yaml", "rung-machines"},
	} {
		tried, err := os.ReadFile(of.file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object(t, string(tried), "Role", of.name)["rules"], object(t, text, "Role", role)["rules"]); diff != "" {
			t.Errorf("the role %s differs from %s:\n%s", role, of.file, diff)
		}
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"no image":                 {"existingSecret: a\n", "image.repository"},
		"no tag":                   {"image: {repository: a}\nexistingSecret: a\n", "image.digest"},
		"no configuration":         {image, "set config"},
		"two configurations":       {image + config + "existingSecret: a\n", "not both"},
		"no address for metrics":   {image + "config: concurrent = 1\n", `listen_address = ":9252"`},
		"a key that is unknown":    {image + config + "replica: 2\n", "replica"},
		"two without shared state": {image + config + "replicas: 2\n", "shared.namespace"},
		"no key of the state":      {image + config + "shared: {namespace: a}\n", "openssl rand"},
		"no [state_storage]":       {image + config + "shared: {namespace: a, keySecret: b}\n", "no [state_storage.kubernetes]"},
		"a mode that is unknown":   {image + config + "shutdown: {mode: wait}\n", "mode"},
		"a digest that is none":    {"image: {repository: a, digest: latest}\n" + config, "digest"},
		"a namespace that is none": {image + config + "jobs: {namespaces: [A_B]}\n", "namespaces"},
	} {
		if _, err := render(t, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
