package kubestate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rungci/rung/executor/kubernetes/kubetest"
	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/sharedstate/objectstest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	kubetest.Stop()
	os.Exit(code)
}

// namespace is that of deploy/kubernetes/state.yaml.
const namespace = "rung-state"

// rights is a kubeconfig with the rights of deploy/kubernetes.
func rights(t *testing.T) string {
	t.Helper()
	c := kubetest.Start(t)
	deploy := filepath.Join("..", "..", "deploy", "kubernetes")
	file := c.Deploy(t, deploy)
	if err := c.Apply(t.Context(), "", filepath.Join(deploy, "state.yaml")); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t *testing.T, kubeconfig, name string) *Objects {
	t.Helper()
	o, err := New(Options{Access: kube.Access{Kubeconfig: kubeconfig}, Namespace: namespace, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.client.Close)
	return o
}

// states are names of states that nothing has used.
var states atomic.Int32

func newState() string { return fmt.Sprintf("state/n-%d", states.Add(1)) }

func TestTheSuiteOfStores(t *testing.T) {
	file := rights(t)
	objectstest.Run(t, func(t *testing.T) sharedstate.Objects { return open(t, file, newState()) })
}

func TestALargeObjectIsSeveralSecrets(t *testing.T) {
	o := open(t, rights(t), newState())
	content := make([]byte, 2*PartSize+1) // which does not compress, as what is sealed
	_, _ = rand.Read(content)
	secrets := func() int {
		t.Helper()
		all, err := o.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for _, c := range []struct{ size, secrets int }{{0, 1}, {PartSize, 1}, {PartSize + 1, 2}, {2 * PartSize, 2}, {2*PartSize + 1, 3}} {
		tag, err := o.Put(t.Context(), "snapshot/1", content[:c.size], sharedstate.Condition{Absent: true})
		if err != nil {
			t.Fatal(err)
		}
		got, at, err := o.Get(t.Context(), "snapshot/1")
		if err != nil || at != tag || !slices.Equal(got, content[:c.size]) {
			t.Errorf("%d bytes: %d are read, %v", c.size, len(got), err)
		}
		if n := secrets(); n != c.secrets {
			t.Errorf("%d bytes are %d secrets, want %d", c.size, n, c.secrets)
		}
		if _, err := o.Put(t.Context(), "snapshot/1", content, sharedstate.Condition{Absent: true}); !errors.Is(err, sharedstate.ErrCondition) {
			t.Errorf("it is made once more: %v", err)
		}
		if names, err := o.List(t.Context(), ""); err != nil || !slices.Equal(names, []string{"snapshot/1"}) || secrets() != c.secrets {
			t.Errorf("there are %v in %d secrets, %v", names, secrets(), err)
		}
		if err := o.Delete(t.Context(), "snapshot/1"); err != nil || secrets() > 0 {
			t.Errorf("%d secrets are left, %v", secrets(), err)
		}
	}
	if _, err := o.Put(t.Context(), "snapshot/1", make([]byte, MaxObject+1), sharedstate.Condition{Absent: true}); err == nil || !strings.Contains(err.Error(), "state_storage.s3") {
		t.Errorf("too much: %v", err)
	}
}

// A part that is missing is not an object that does not exist: that would be the end of a log.
func TestAPartThatIsMissingIsAnError(t *testing.T) {
	o := open(t, rights(t), newState())
	if _, err := o.Put(t.Context(), "log/1", make([]byte, PartSize+1), sharedstate.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
	all, err := o.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].Labels[partLabel] != "" {
			if err := o.remove(t.Context(), all[i].Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := o.Get(t.Context(), "log/1"); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "a part of it was removed") {
		t.Error(err)
	}
}

func TestPartsThatNobodyNamesAreRemoved(t *testing.T) {
	o := open(t, rights(t), newState())
	if _, err := o.Put(t.Context(), "snapshot/1", make([]byte, PartSize+1), sharedstate.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
	stray := &corev1.Secret{}
	stray.Name, stray.Namespace, stray.Labels = o.name+".snapshot.2.id.1", namespace, map[string]string{stateLabel: o.name, partLabel: "id"}
	if _, err := o.writeSecret(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		if _, err := o.List(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		all, err := o.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := count(); n != 3 {
		t.Errorf("there are %d secrets, want 3: a writer may be about to name the part", n)
	}
	o.strayAge = 0
	for i, until := 1, time.Now().Add(time.Minute); count() != 2+i-1; i++ { // the server counts seconds
		if time.Now().After(until) {
			t.Fatal("the part is still there")
		}
		if _, err := o.Put(t.Context(), fmt.Sprint("log/", i), nil, sharedstate.Condition{Absent: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, _, err := o.Get(t.Context(), "snapshot/1"); err != nil {
		t.Error(err)
	}
}

// shown is who the Lease says has the state.
func shown(t *testing.T, o *Objects) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := o.client.REST.Get().AbsPath(o.leases(), o.Lease()).Do(t.Context()).Into(lease); err != nil {
		t.Fatal(err)
	}
	if s := lease.Spec; s.HolderIdentity == nil || *s.LeaseDurationSeconds != 10 || time.Since(s.RenewTime.Time).Abs() > time.Hour {
		t.Errorf("the Lease is %+v", s)
	}
	return *lease.Spec.HolderIdentity
}

func TestTwoManagers(t *testing.T) {
	file, name := rights(t), newState()
	acquire := func(ctx context.Context, holder string) (*sharedstate.State, error) {
		return sharedstate.Acquire(ctx, sharedstate.Options{
			Objects: open(t, file, name), Key: []byte("a key of sixteen bytes, and more"), Holder: holder, Name: "of /state on " + holder, Lease: 10 * time.Second, MaxState: MaxState,
		})
	}
	first, err := acquire(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 2<<20)
	_, _ = rand.Read(large)
	if err := first.Commit(map[string][]byte{"jobs/1": []byte("one"), "large": large}); err != nil {
		t.Fatal(err)
	}
	o := open(t, file, name)
	if who := shown(t, o); who != "of /state on one" {
		t.Errorf("the Lease is that of %q", who)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := acquire(short, "two"); err == nil {
		t.Fatal("two have the state")
	}
	first.Abandon() // as a process that is killed
	second, err := acquire(t.Context(), "two")
	if err != nil {
		t.Fatal(err)
	}
	if who := shown(t, o); who != "of /state on two" {
		t.Errorf("the Lease is that of %q", who)
	}
	if got, _ := second.Get("large"); !slices.Equal(got, large) {
		t.Errorf("%d bytes are left of a large value", len(got))
	}
	copied, err := acquire(t.Context(), "two") // a copy of the second one's place takes over at once, and the log is the fence
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Commit(map[string][]byte{"jobs/1": []byte("of the second")}); !errors.Is(err, sharedstate.ErrFenced) {
		t.Errorf("who has lost the state records a change: %v", err)
	}
	if got, _ := copied.Get("jobs/1"); string(got) != "one" {
		t.Errorf("the value is %q", got)
	}
	if err := copied.Commit(map[string][]byte{"more": make([]byte, MaxState)}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too much: %v", err)
	}
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
	if who := shown(t, o); who != "" {
		t.Errorf("the Lease is that of %q, and was given back", who)
	}
}

func TestARefusalNamesTheRights(t *testing.T) {
	c := kubetest.Start(t)
	rights(t)
	if err := c.ApplyText(t.Context(), "rung", []byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"nobody"}}`)); err != nil {
		t.Fatal(err)
	}
	o := open(t, c.As(t, "rung", "nobody"), newState())
	for _, name := range []string{"lease", "log/1"} {
		if _, _, err := o.Get(t.Context(), name); err == nil || !strings.Contains(err.Error(), "deploy/kubernetes/state.yaml") || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A connection to a server that has gone without a word is not waited for twice.
func TestTheNextCallHasANewConnection(t *testing.T) {
	config, err := clientcmd.LoadFromFile(rights(t))
	if err != nil {
		t.Fatal(err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	var silent atomic.Bool
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	server := strings.TrimPrefix(cluster.Server, "https://")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(conn, server, &silent)
		}
	}()
	cluster.Server = "https://" + listener.Addr().String()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	o := open(t, file, newState())
	put := func(name string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := o.Put(ctx, name, nil, sharedstate.Condition{Absent: true})
		return err
	}
	if err := put("log/1", time.Minute); err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	if err := put("log/2", time.Second); err == nil {
		t.Fatal("a call has an answer, and there is none")
	}
	silent.Store(false) // for connections that are made from now on
	if err := put("log/3", 20*time.Second); err != nil {
		t.Error(err)
	}
}

// relay copies a connection, until it is to be silent for good.
func relay(from net.Conn, server string, silent *atomic.Bool) {
	to, err := net.Dial("tcp", server)
	if err != nil {
		_ = from.Close()
		return
	}
	var dead atomic.Bool
	pass := func(w io.Writer, r io.Reader) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := r.Read(buffer)
			if err != nil {
				return
			}
			if silent.Load() {
				dead.Store(true)
			}
			if !dead.Load() {
				_, _ = w.Write(buffer[:n])
			}
		}
	}
	go pass(to, from)
	pass(from, to)
}
