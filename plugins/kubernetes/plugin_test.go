//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/kubernetes/kubetest"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/grouptest"
	"github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/fleet/group/plugin/plugintest"
	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/internal/pluginhost"
)

// namespace is that of rbac.yaml.
const namespace = "rung-machines"

// program is the plugin's file, and inPods the one that machines get, which needs no libraries.
var program, inPods string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "group-plugin-")
	if err != nil {
		panic(err)
	}
	inPods = filepath.Join(folder, "group-plugin-kubernetes")
	program = inPods
	build(inPods, "-ldflags=-s -w")
	if info, ok := debug.ReadBuildInfo(); ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" }) {
		program = filepath.Join(folder, "group-plugin-kubernetes-race")
		build(program, "-race")
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // tests wait more than they compute
	code := m.Run()
	kubetest.Stop()
	os.RemoveAll(folder)
	os.Exit(code)
}

func build(output, flag string) {
	command := exec.Command("go", "build", flag, "-o", output, ".")
	if flag != "-race" {
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := command.CombinedOutput(); err != nil {
		panic(string(out))
	}
}

type options = map[string]any

// deployed is done once for the cluster: the namespace, and who has the rights of rbac.yaml.
var deployed struct {
	sync.Once
	rights string
}

// world is a cluster with the plugin's namespace.
type world struct {
	*kubetest.Cluster
	options options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := kubetest.Start(t)
	deployed.Do(func() {
		if err := c.Apply(t.Context(), "", "rbac.yaml"); err != nil {
			t.Fatal(err)
		}
		if err := c.Namespace(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		deployed.rights = c.As(t, namespace, namespace)
	})
	return &world{c, options{"kubeconfig": deployed.rights, "namespace": namespace, "image": c.Image, "programs": options{runtime.GOARCH: inPods}}}
}

func (w *world) config(t *testing.T, more options) plugin.Config {
	t.Helper()
	all := maps.Clone(w.options)
	maps.Copy(all, more)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Config{Config: pluginhost.Config{Name: "kubernetes", File: program, Options: text, Log: slog.New(slog.DiscardHandler)}}
}

var shapes = []options{
	{"name": "small", "cpus": 0.5, "memory": "256MiB", "price": 0.1, "currency": "EUR", "node_selector": options{"rung.test/disk": "fast"}},
	{"name": "large", "cpus": 2, "memory": "512Mi", "disk": "1Gi"},
}

func TestThePluginPassesTheSuite(t *testing.T) {
	w := newWorld(t)
	subject := plugintest.Subject(w.config(t, options{"shapes": shapes}))
	subject.Patience = 2 * time.Minute
	subject.Shared = false // owners have labels of their own
	grouptest.Run(t, subject)
}

// fleet is the plugin's group as callers see it.
type fleet struct {
	*testing.T
	*group.Group
	plugin *plugin.Group
}

// open opens the plugin. Those with the same settings are processes of one owner, one after the other.
func (w *world) open(t *testing.T, more options, s group.Settings) (*fleet, error) {
	t.Helper()
	f := &fleet{T: t, plugin: plugin.New(w.config(t, more))}
	f.Group = group.Adapt(f.plugin)
	_, err := f.Init(t.Context(), hclog.NewNullLogger(), s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err == nil {
			all, _ := f.List(ctx)
			for _, i := range all {
				_, _ = f.Delete(ctx, []string{i.ID})
			}
		}
		_ = f.Shutdown(ctx)
	})
	return f, err
}

func settings(t *testing.T) group.Settings {
	t.Helper()
	return group.Settings{
		Owner: "Owner_" + strings.ReplaceAll(t.Name(), "/", "-"), Labels: map[string]string{"cost-centre": "R&D"}, State: t.TempDir(), ConnectorConfig: group.ConnectorConfig{Username: "ci"},
	}
}

func (w *world) mustOpen(t *testing.T, more options) *fleet {
	t.Helper()
	f, err := w.open(t, more, settings(t))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// make makes one machine.
func (f *fleet) make(r group.Request) string {
	f.Helper()
	r.Count = 1
	created, err := f.Create(f.Context(), r)
	if err != nil || len(created.Instances) != 1 {
		f.Fatalf("Create: %+v, %v", created, err)
	}
	return created.Instances[0]
}

const patience = 2 * time.Minute

// await waits until a machine is as it should be.
func (f *fleet) await(id string, so func(group.Instance) bool) group.Instance {
	f.Helper()
	var last []group.Instance
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		all, err := f.List(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		last = all
		for _, i := range all {
			if i.ID == id && so(i) {
				return i
			}
		}
	}
	f.Fatalf("it is not so; the list is %+v", last)
	return group.Instance{}
}

// awaitGone waits until a machine is not listed.
func (f *fleet) awaitGone(id string) {
	f.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		all, err := f.List(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(i group.Instance) bool { return i.ID == id }) {
			return
		}
	}
	f.Fatalf("%s is still there", id)
}

func is(state group.State) func(group.Instance) bool {
	return func(i group.Instance) bool { return i.State == state }
}

// info is how to reach a machine.
func (f *fleet) info(id string) group.ConnectInfo {
	f.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		info, err := f.ConnectInfo(f.Context(), id)
		if err == nil {
			return info
		}
		if _, later := group.RetryAfter(err); !later || time.Now().After(until) {
			f.Fatal(err)
		}
	}
}

// client logs in to a machine, whose server must have one of the keys that are declared.
func client(t *testing.T, info group.ConnectInfo) (*ssh.Client, error) {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(info.Key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ssh.Dial("tcp", info.Addr(false), &ssh.ClientConfig{
		User: info.Username, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, Timeout: time.Minute,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if len(info.HostKeys) > 0 && !slices.Contains(info.HostKeys, ssh.FingerprintSHA256(key)) {
				return errors.New("another host key")
			}
			return nil
		},
	})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// says is what a command on a machine writes.
func says(t *testing.T, c *ssh.Client, command string) string {
	t.Helper()
	session, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	out, err := session.CombinedOutput(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestACommandRunsOnAMachine(t *testing.T) {
	w := newWorld(t)
	image := "rung-test-machine:1"
	content, err := os.ReadFile(inPods)
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Import(t, enginetest.Client(t), image, []enginetest.File{{Name: "group-plugin-kubernetes", Mode: 0o755, Content: content}})
	user := options{"spec": options{"securityContext": options{"runAsUser": 1234, "runAsGroup": 1235}}}
	for name, more := range map[string]options{
		"through the API server":                  {},
		"at the address of its pod":               {"reach": "pod"},
		"whose server comes from an image":        {"server_image": image, "programs": nil},
		"as a user without rights":                {"template": user},
		"that has an SSH server of its own image": {"server": "image", "programs": nil, "port": 2200, "authorized_keys": "/opt/rung/run/authorized_keys", "template": ownServer(image)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := w.mustOpen(t, more)
			id := f.make(group.Request{ID: "Request-1", Labels: map[string]string{"project": "Group/Project"}})
			got := f.await(id, is(group.StateRunning))
			if got.Request != "Request-1" || got.Labels["project"] != "Group/Project" || got.Labels["cost-centre"] != "R&D" || got.Created.IsZero() {
				t.Errorf("it is listed as %+v", got)
			}
			info := f.info(id)
			if info.Username != "ci" || info.OS != "linux" || len(info.HostKeys) == 0 != (more["server"] == "image") {
				t.Errorf("%v, host keys %q", info, info.HostKeys)
			}
			c, err := client(t, info)
			if err != nil {
				t.Fatal(err)
			}
			if got := says(t, c, "hostname"); got != id {
				t.Errorf("the machine says that it is %q", got)
			}
			if _, is := more["template"]; is && more["server"] == nil {
				if got := says(t, c, "id -u"); got != "1234" {
					t.Errorf("its user is %q", got)
				}
			}
			if more["server"] == nil { // its process 1 collects what nobody else does
				says(t, c, "(sleep 0.2 & ) ; sleep 0.1")
				says(t, c, `for i in $(seq 200); do grep -q "^State:.Z" /proc/[0-9]*/status 2>/dev/null || exit 0; sleep 0.1; done; exit 1`)
			}
		})
	}
}

// ownServer is a template with a machine that has an SSH server without the plugin's help: what the image has is the plugin's, as no other is at hand.
func ownServer(image string) options {
	return options{"spec": options{
		"initContainers": []options{{"name": "copy", "image": image, "command": []string{"/group-plugin-kubernetes", "machine", "bring", "/opt/rung/run"}, "volumeMounts": ownMounts}},
		"containers":     []options{{"name": "machine", "command": []string{"/opt/rung/run/machine", "machine", "listen", ":2200"}, "volumeMounts": ownMounts}},
		"volumes":        []options{{"name": "own", "emptyDir": options{}}},
	}}
}

var ownMounts = []options{{"name": "own", "mountPath": "/opt/rung/run"}}

func TestTheKeyOfTheNextProcessReplacesTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := settings(t)
	f, err := w.open(t, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	id := f.make(group.Request{ID: "r"})
	f.await(id, is(group.StateRunning))
	before := f.info(id)
	if _, err := client(t, before); err != nil {
		t.Fatal(err)
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	next, err := w.open(t, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	now := next.info(id)
	if now.Addr(false) != before.Addr(false) || !slices.Equal(now.HostKeys, before.HostKeys) {
		t.Errorf("it was reached at %s, and is now at %s", before.Addr(false), now.Addr(false))
	}
	if c, err := client(t, now); err != nil || says(t, c, "hostname") != id {
		t.Error(err)
	}
	if _, err := client(t, before); err == nil {
		t.Error("the key of the process before is still let in")
	}
}

func TestAMachineThatIsDeletedByOthersIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.mustOpen(t, options{"template": options{"spec": options{"terminationGracePeriodSeconds": 5}}})
	drained, deleted := f.make(group.Request{ID: "r1"}), f.make(group.Request{ID: "r2"})
	f.await(drained, is(group.StateRunning))
	f.await(deleted, is(group.StateRunning))
	if err := w.Evict(t.Context(), namespace, drained); err != nil {
		t.Fatal(err)
	}
	notice := f.await(drained, func(i group.Instance) bool { return i.Interruption != nil })
	if notice.State != group.StateRunning || !strings.Contains(notice.Interruption.Reason, "evicted") || notice.Interruption.At.IsZero() {
		t.Errorf("it is %s, with the notice %+v", notice.State, notice.Interruption)
	}
	f.awaitGone(drained)
	if err := w.Cluster.Delete(t.Context(), namespace, deleted, 5); err != nil {
		t.Fatal(err)
	}
	gone := f.await(deleted, is(group.StateDeleting))
	if gone.Interruption == nil || !strings.Contains(gone.Reason, "somebody has deleted its pod") {
		t.Errorf("%+v", gone)
	}
	f.awaitGone(deleted)
	if _, err := f.ConnectInfo(t.Context(), deleted); !errors.Is(err, group.ErrNotFound) {
		t.Error(err)
	}
}

func TestAMachineThatCannotBeFailsWithTheReason(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		options options
		reason  []string
	}{
		"no such image":   {options{"image": "127.0.0.1:1/none:1"}, []string{"ErrImagePull", "127.0.0.1:1/none:1"}},
		"no node for it":  {options{"start_timeout": 1, "template": options{"spec": options{"nodeSelector": options{"rung.test/disk": "none"}}}}, []string{"did not start within 1s"}},
		"its image ends":  {options{"server": "image", "programs": nil, "template": options{"spec": options{"containers": []options{{"name": "machine", "command": []string{"sh", "-c", "exit 7"}}}}}}, []string{"exit code 7"}},
		"out of memory":   {options{"server": "image", "programs": nil, "shapes": []options{{"name": "tiny", "cpus": 0.5, "memory": "8Mi"}}, "template": options{"spec": options{"containers": []options{{"name": "machine", "command": []string{"sh", "-c", "exec tail /dev/zero"}}}}}}, []string{"OOMKilled"}},
		"without a shell": {options{"template": options{"spec": options{"containers": []options{{"name": "machine", "image": "rung-test-noshell:1"}}}}, "image": "rung-test-noshell:1"}, []string{"does not start"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(name, "shell") {
				enginetest.Import(t, enginetest.Client(t), "rung-test-noshell:1", []enginetest.File{{Name: "file", Mode: 0o644, Content: []byte("nothing")}})
			}
			f := w.mustOpen(t, c.options)
			r := group.Request{ID: "r"}
			if c.options["shapes"] != nil {
				r.Shape = "tiny"
			}
			id := f.make(r)
			got := f.await(id, is(group.StateFailed))
			for _, text := range c.reason {
				if !strings.Contains(got.Reason, text) {
					t.Errorf("it has failed: %s; want %q", got.Reason, text)
				}
			}
			if _, err := f.Delete(t.Context(), []string{id}); err != nil {
				t.Error(err)
			}
			f.awaitGone(id)
		})
	}
}

func TestANamespaceThatGivesNoMorePodsIsAQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const full = "rung-full"
	if err := w.Namespace(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	quota := `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"none"},"spec":{"hard":{"pods":"0"}}}`
	if err := w.ApplyText(t.Context(), full, []byte(quota)); err != nil {
		t.Fatal(err)
	}
	// No controller looks at quotas here, so the test says what is used, as one would.
	admin, err := kube.Connect(kube.Access{Kubeconfig: w.Kubeconfig}, nil, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	status := []byte(`{"status":{"hard":{"pods":"0"},"used":{"pods":"0"}}}`)
	if err := admin.REST.Patch(types.MergePatchType).Namespace(full).Resource("resourcequotas").Name("none").SubResource("status").Body(status).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	f := w.mustOpen(t, options{"namespace": full, "kubeconfig": w.Kubeconfig})
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) { // the API server learns of it a moment later
		_, err := f.Create(t.Context(), group.Request{ID: "r-" + rand.Text(), Count: 1})
		if errors.Is(err, group.ErrQuota) && strings.Contains(err.Error(), "quota") {
			return
		}
		if err != nil || time.Now().After(until) {
			t.Fatalf("Create: %v", err)
		}
	}
}

func TestWhatIsMissingIsSaidAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const poor = `apiVersion: v1
kind: ServiceAccount
metadata: {name: poor}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: poor}
rules: [{apiGroups: [""], resources: [pods], verbs: [create, get, list, watch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: poor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: poor}
subjects: [{kind: ServiceAccount, name: poor, namespace: rung-machines}]
`
	if err := w.ApplyText(t.Context(), namespace, []byte(poor)); err != nil {
		t.Fatal(err)
	}
	_, err := w.open(t, options{"kubeconfig": w.As(t, namespace, "poor")}, settings(t))
	if !errors.Is(err, group.ErrUnauthorised) || !strings.Contains(err.Error(), "does not let it create pods/exec in the namespace rung-machines") {
		t.Errorf("without rights: %v", err)
	}
	for name, c := range map[string]struct {
		options options
		want    string
	}{
		"an unknown key of the template":  {options{"template": options{"spec": options{"hostNetwrk": true}}}, "hostNetwrk"},
		"what the cluster does not take":  {options{"template": options{"spec": options{"activeDeadlineSeconds": -1}}}, "activeDeadlineSeconds"},
		"a command where the server runs": {options{"template": options{"spec": options{"containers": []options{{"name": "machine", "command": []string{"sleep"}}}}}}, "has a command of its own"},
		"no image":                        {options{"image": nil}, "image"},
		"no such namespace":               {options{"namespace": "Rung"}, "not the name of a namespace"},
		"no such size":                    {options{"shapes": []options{{"name": "s", "cpus": 1, "memory": "much"}}}, `the size "much"`},
		"no such kubeconfig":              {options{"kubeconfig": "/nowhere"}, "/nowhere"},
		"no price without a currency":     {options{"shapes": []options{{"name": "s", "cpus": 1, "memory": "1Gi", "price": 1}}}, "currency"},
	} {
		if _, err := w.open(t, c.options, settings(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
