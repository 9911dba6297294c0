//go:build linux

package kubetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// nodeLabel is on all that a node makes in the engine, and its value is the node's name.
const nodeLabel = "rung.test.node"

// Node is a small stand-in for a kubelet: it runs the pods that the scheduler gives it as containers of the tests' engine, says how they are, and
// answers the API server for logs, commands and connections to ports. It knows what jobs need: init containers, volumes of this machine, limits, users, host
// aliases, pull policies and logins. It knows no probes, no networks between pods and no services.
type Node struct {
	Name string

	api    *API
	engine *client.Client
	dir    string // of volumes
	server *httptest.Server
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*podRun
}

// startNode registers a node and waits until the cluster knows it.
func startNode(ctx context.Context, api *API, dir string) (*Node, error) {
	engine, err := client.New(client.WithHost(os.Getenv(enginetest.Variable)))
	if err != nil {
		return nil, err
	}
	n := &Node{Name: "rung-" + strings.ToLower(rand.Text()[:8]), api: api, engine: engine, dir: dir, pods: map[types.UID]*podRun{}}
	n.server = httptest.NewUnstartedServer(http.HandlerFunc(n.serve))
	n.server.StartTLS()
	if err := api.putNode(ctx, n.object()); err != nil {
		n.server.Close()
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.done.Go(func() { n.follow(running) })
	return n, nil
}

// object is what the cluster knows of the node.
func (n *Node) object() *corev1.Node {
	now := metav1.Now()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("500"), corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH, "rung.test/disk": "fast",
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(n.server.Listener.Addr().(*net.TCPAddr).Port)}},
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "it is there", LastHeartbeatTime: now, LastTransitionTime: now}},
			NodeInfo:        corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: runtime.GOARCH, KubeletVersion: "v1.34.1"},
		},
	}
}

// stop ends the node with all that it runs.
func (n *Node) stop() {
	n.cancel()
	n.done.Wait()
	n.server.CloseClientConnections()
	n.server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := n.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", nodeLabel+"="+n.Name)})
	if err == nil {
		for _, c := range left.Items {
			_, _ = n.engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true})
		}
	}
	_ = n.engine.Close()
}

// follow runs the pods that are the node's.
func (n *Node) follow(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := n.api.podsOf(ctx, n.Name)
		if err == nil {
			for i := range list.Items {
				n.take(ctx, &list.Items[i])
			}
			n.watch(ctx, list.ResourceVersion)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	n.mu.Lock()
	all := make([]*podRun, 0, len(n.pods))
	for _, p := range n.pods {
		all = append(all, p)
	}
	n.mu.Unlock()
	for _, p := range all {
		p.end(0)
	}
}

func (n *Node) watch(ctx context.Context, version string) {
	watching, err := n.api.watchPods(ctx, n.Name, version)
	if err != nil {
		return
	}
	defer watching.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watching.ResultChan():
			pod, is := event.Object.(*corev1.Pod)
			if !open || !is {
				return
			}
			if event.Type == watch.Deleted { // by force
				n.mu.Lock()
				p := n.pods[pod.UID]
				n.mu.Unlock()
				if p != nil {
					p.end(0)
				}
				continue
			}
			n.take(ctx, pod)
		}
	}
}

// take begins a pod, or ends it if it is to be removed.
func (n *Node) take(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[pod.UID]
	if p == nil {
		if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" && pod.DeletionTimestamp == nil {
			return // it has ended
		}
		p = newPodRun(ctx, n, pod)
		n.pods[pod.UID] = p
		n.done.Go(func() {
			p.run()
			n.mu.Lock()
			delete(n.pods, pod.UID)
			n.mu.Unlock()
		})
	}
	if pod.DeletionTimestamp != nil {
		grace := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = *pod.DeletionGracePeriodSeconds
		}
		p.end(grace)
	}
}

// find is a pod that runs here.
func (n *Node) find(namespace, name string) (*podRun, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.pod.Namespace == namespace && p.pod.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("pod %s/%s does not run here", namespace, name)
}

// Kill kills the processes of a container.
func (n *Node) Kill(ctx context.Context, namespace, pod, name string) error {
	p, err := n.find(namespace, pod)
	if err != nil {
		return err
	}
	_, err = n.engine.ContainerKill(ctx, p.id(name), client.ContainerKillOptions{Signal: "KILL"})
	return err
}
