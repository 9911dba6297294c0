//go:build linux

// Package kubetest gives tests a cluster of Kubernetes: etcd, a real API server and scheduler, and a node that is a small stand-in for a kubelet and
// runs pods in the tests' engine. With RUNG_TEST_KUBECONFIG it gives them the cluster of that file instead, which has nodes of its own.
//
//	etcd ── kube-apiserver ── kube-scheduler
//	             │
//	             └── Node (this process) ── dockerd of scripts/engine.sh
//
// A test asks for it with Start. It ends with the test binary, whose TestMain calls Stop; the kernel ends its processes with one that is killed.
package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

const (
	// Variable names a kubeconfig of a cluster that tests may use.
	Variable = "RUNG_TEST_KUBECONFIG"
	// ImageVariable names an image with a shell and busybox's commands for the nodes of that cluster.
	ImageVariable = "RUNG_TEST_KUBERNETES_IMAGE"
	// startTime bounds how long a server may take to answer.
	startTime = 2 * time.Minute
	// starts is how often it is tried to start the servers: another program may take a port that was free.
	starts = 3
)

// Cluster is one of Kubernetes.
type Cluster struct {
	*API
	// Kubeconfig is a file with all rights.
	Kubeconfig string
	Config     *rest.Config
	// Node is the cluster's only one; nil if it has its own.
	Node *Node
	// Image is one for jobs.
	Image string

	dir     string
	servers []*server
}

var shared struct {
	sync.Mutex
	cluster *Cluster
}

// Start returns the cluster, and starts it where there is none yet. Without what it is made of the test is skipped.
func Start(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster != nil {
		return shared.cluster
	}
	if file := os.Getenv(Variable); file != "" {
		shared.cluster = given(t, file)
		return shared.cluster
	}
	programs := enginetest.Kubernetes(t)
	enginetest.Busybox(t)
	var err error
	for range starts {
		c := &Cluster{Image: enginetest.Image}
		if err = c.start(programs); err == nil {
			shared.cluster = c
			return c
		}
		c.stop()
	}
	t.Fatal(err)
	return nil
}

// given is the cluster of a kubeconfig.
func given(t testing.TB, file string) *Cluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	image := os.Getenv(ImageVariable)
	if image == "" {
		image = "docker.io/library/busybox:1.36"
	}
	api, err := newAPI(config)
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{API: api, Kubeconfig: file, Config: config, Image: image}
}

// Stop ends the cluster of the test binary, if it has started one.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster != nil {
		shared.cluster.stop()
		shared.cluster = nil
	}
}

func (c *Cluster) stop() {
	if c.Node != nil {
		c.Node.stop()
	}
	for i := len(c.servers) - 1; i >= 0; i-- {
		c.servers[i].stop()
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}

// start starts the servers one after the other.
func (c *Cluster) start(programs enginetest.ClusterPrograms) (err error) {
	if c.dir, err = os.MkdirTemp("", "rung-kubernetes-"); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	store, peers, secure := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1]), ports[2]
	key := filepath.Join(c.dir, "accounts.key")
	token := rand.Text()
	if err := errors.Join(writeKey(key), os.WriteFile(filepath.Join(c.dir, "tokens"), []byte(token+",admin,admin,system:masters\n"), 0o600)); err != nil {
		return err
	}
	err = c.run(programs.Etcd, "--data-dir", filepath.Join(c.dir, "etcd"), "--listen-client-urls", store, "--advertise-client-urls", store, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err != nil {
		return err
	}
	if err := c.await(store+"/health", nil); err != nil {
		return err
	}
	address := fmt.Sprintf("https://127.0.0.1:%d", secure)
	err = c.run(programs.APIServer, "--etcd-servers", store, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(secure), "--cert-dir", filepath.Join(c.dir, "certificates"),
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--service-account-issuer", address, "--token-auth-file", filepath.Join(c.dir, "tokens"),
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.99.0.0/24", "--allow-privileged=true",
		"--disable-admission-plugins", "TaintNodesByCondition", "--kubelet-preferred-address-types", "InternalIP", "--watch-cache=true")
	if err != nil {
		return err
	}
	c.Config = &rest.Config{Host: address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(c.dir, "certificates", "apiserver.crt")}}
	if err := c.awaitAPI(); err != nil {
		return err
	}
	c.Kubeconfig = filepath.Join(c.dir, "kubeconfig")
	if err := writeKubeconfig(c.Kubeconfig, c.Config); err != nil {
		return err
	}
	err = c.run(programs.Scheduler, "--kubeconfig", c.Kubeconfig, "--authentication-kubeconfig", c.Kubeconfig, "--authorization-kubeconfig", c.Kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--bind-address", "127.0.0.1")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	c.Node, err = startNode(ctx, c.API, filepath.Join(c.dir, "volumes"))
	return err
}

// server is a process of the cluster.
type server struct {
	command *exec.Cmd
	said    *tail
	ended   chan struct{}
}

// run starts a program. The kernel ends it with this process, however that ends.
func (c *Cluster) run(program string, args ...string) error {
	s := &server{command: exec.Command(program, args...), said: &tail{}, ended: make(chan struct{})}
	s.command.Stdout, s.command.Stderr, s.command.Dir = s.said, s.said, c.dir
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	c.servers = append(c.servers, s)
	return nil
}

func (s *server) stop() {
	_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL) // nothing of it is kept
	<-s.ended
}

// await waits until the server that was started last answers at an address.
func (c *Cluster) await(address string, client *http.Client) error {
	s := c.servers[len(c.servers)-1]
	if client == nil {
		client = http.DefaultClient
	}
	for until := time.Now().Add(startTime); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		response, err := client.Get(address)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s has ended:\n%s", filepath.Base(s.command.Path), s.said)
		default:
		}
	}
	return fmt.Errorf("%s does not answer within %s:\n%s", filepath.Base(s.command.Path), startTime, s.said)
}

// awaitAPI waits for the API server, whose certificate is there before it answers.
func (c *Cluster) awaitAPI() error {
	for until := time.Now().Add(startTime); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(c.Config.CAFile); err == nil {
			break
		}
		select {
		case <-c.servers[len(c.servers)-1].ended:
			return fmt.Errorf("kube-apiserver has ended:\n%s", c.servers[len(c.servers)-1].said)
		default:
		}
		if time.Now().After(until) {
			return errors.New("kube-apiserver makes no certificate")
		}
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	if err := c.await(c.Config.Host+"/readyz", client); err != nil {
		return err
	}
	c.API, err = newAPI(c.Config)
	return err
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// freePorts are some on which nobody listens on the loopback address.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at once, so that they are different ones
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

const keyBits = 2048

func writeKey(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := pem.Encode(&text, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}

func writeKubeconfig(file string, c *rest.Config) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, file)
}

// Jobs is the namespace of jobs in deploy/kubernetes.
const Jobs = "rung-jobs"

// Deploy applies what deploy/kubernetes has for a runner, from a folder, and returns a kubeconfig with the runner's rights and no others.
func (c *Cluster) Deploy(t testing.TB, folder string) string {
	t.Helper()
	for _, file := range []string{"namespaces.yaml", "rbac.yaml", "deployment.yaml"} {
		if err := c.Apply(t.Context(), "", filepath.Join(folder, file)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if err := c.Namespace(t.Context(), Jobs); err != nil {
		t.Fatal(err)
	}
	return c.As(t, "rung", "rung")
}

// As returns a kubeconfig with the rights of a service account, as long as the cluster, or the test where the cluster was there before.
func (c *Cluster) As(t testing.TB, namespace, account string) string {
	t.Helper()
	token, err := c.Token(t.Context(), namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	dir := c.dir // as long as the cluster
	if dir == "" {
		dir = t.TempDir()
	}
	config := rest.CopyConfig(c.Config)
	config.BearerToken, config.BearerTokenFile = token, ""
	file := filepath.Join(dir, "kubeconfig-"+rand.Text())
	if err := writeKubeconfig(file, config); err != nil {
		t.Fatal(err)
	}
	return file
}
