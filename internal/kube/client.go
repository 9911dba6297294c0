// Package kube is what an executor, an instance group and shared state know of a cluster of Kubernetes: how its API server is found and asked, and what the state of a pod means.
// It has a client of a few kinds of objects only. The generated clients of all kinds would add 30 MB to a program.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
)

// Access says where an API server is and as whom it is asked. Without Host, a pod of the cluster uses its service account, and others
// their kubeconfig.
type Access struct {
	Host                      string // https://…
	CertFile, KeyFile, CAFile string
	Token                     string
	Kubeconfig                string // a file, which counts before the service account of a pod; empty is that of KUBECONFIG, or the user's own
	Context                   string // of the kubeconfig; empty is its current one
	// Apart makes each call on a connection of its own while it lasts (HTTP/1.1): one that hangs ends with its call, and the next call does not wait for it.
	Apart bool
}

// Requests a second to the API server, and at once. Its own limits are those that count.
const (
	requestRate  = 100
	requestBurst = 200
	// callTime bounds a call of the API server that is no stream.
	callTime = 20 * time.Second
)

// FirstPause is the time before a call is made again, which doubles.
const FirstPause = 100 * time.Millisecond

// Client asks an API server. It is safe for concurrent use.
type Client struct {
	Name   string // its address, for people and ledgers
	REST   *rest.RESTClient
	Config *rest.Config

	http  *http.Client
	tries int
	pause time.Duration
}

// scheme has the kinds of objects.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), coordinationv1.AddToScheme(s)); err != nil {
		panic(err)
	}
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}()

// What the client's library says of its streams stays off this program's error output: their errors are returned, too. The library allows this only
// before anything uses it.
func init() { klog.SetLogger(logr.Discard()) }

// Connect makes a client, which makes a call up to a number of times, with pauses of at most the given length. Nothing is sent. env are the variables in which KUBECONFIG is looked for.
func Connect(access Access, env []string, tries int, pause time.Duration) (*Client, error) {
	config, err := access.config(env)
	if err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.QPS, config.Burst, config.UserAgent = requestRate, requestBurst, "rung"
	if access.Apart {
		config.NextProtos = []string{"http/1.1"}
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the Kubernetes cluster at %s: %w", config.Host, err)
	}
	c := &Client{Name: config.Host, Config: config, http: client, tries: tries, pause: pause}
	if c.REST, err = rest.RESTClientForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("connecting to the Kubernetes cluster at %s: %w", config.Host, err)
	}
	return c, nil
}

func (c *Access) config(env []string) (*rest.Config, error) {
	config, err := c.found(env)
	if err != nil {
		return nil, fmt.Errorf("finding the Kubernetes cluster: %w; name its host, or a kubeconfig in KUBECONFIG", err)
	}
	if c.Token != "" {
		config.BearerToken, config.BearerTokenFile = c.Token, ""
		config.Username, config.Password, config.ExecProvider, config.AuthProvider = "", "", nil, nil
	}
	return config, nil
}

func (c *Access) found(env []string) (*rest.Config, error) {
	if c.Host != "" {
		return &rest.Config{Host: c.Host, TLSClientConfig: rest.TLSClientConfig{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile}}, nil
	}
	if c.Context == "" && c.Kubeconfig == "" {
		if config, err := rest.InClusterConfig(); !errors.Is(err, rest.ErrNotInCluster) {
			return config, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	for _, pair := range env {
		if files, is := strings.CutPrefix(pair, "KUBECONFIG="); is && files != "" {
			rules.Precedence = filepath.SplitList(files)
		}
	}
	rules.ExplicitPath = c.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
}

// Close ends connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// IsGone reports whether there is no such object.
func IsGone(err error) bool { return apierrors.IsNotFound(err) }

// Passing reports whether a call may be answered the next time.
func Passing(err error) bool {
	var network net.Error
	var address *url.Error
	switch {
	case err == nil:
		return false
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err), apierrors.IsTimeout(err):
		return true
	}
	return errors.As(err, &network) || errors.As(err, &address) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Try makes a call until it is answered, with a limit of time for each.
func (c *Client) Try(ctx context.Context, call func(ctx context.Context) error) error {
	return c.try(ctx, Passing, call)
}

// Create is Try for a call that makes an object: a conflict is then about something else, such as a quota that others use at the same moment.
func (c *Client) Create(ctx context.Context, call func(ctx context.Context) error) error {
	return c.try(ctx, func(err error) bool { return Passing(err) || apierrors.IsConflict(err) }, call)
}

func (c *Client) try(ctx context.Context, passing func(error) bool, call func(ctx context.Context) error) error {
	wait := FirstPause
	for left := c.tries - 1; ; left-- {
		calling, cancel := context.WithTimeout(ctx, callTime)
		err := call(calling)
		cancel()
		if left <= 0 || !passing(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(wait, c.pause)):
		}
		wait *= 2
	}
}

// Pod is a pod as it is now.
func (c *Client) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.Try(ctx, func(ctx context.Context) error {
		return c.REST.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
	})
}

// May asks the cluster whether this program has a right in a namespace. subresource may be empty.
func (c *Client) May(ctx context.Context, namespace, verb, resource, subresource string) (bool, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]string{"namespace": namespace, "verb": verb, "resource": resource, "subresource": subresource}},
	})
	if err != nil {
		return false, err
	}
	var answer struct{ Status struct{ Allowed bool } }
	err = c.Try(ctx, func(ctx context.Context) error {
		text, err := c.REST.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		return err
	})
	return answer.Status.Allowed, err
}

// CreatePod makes a pod. That one of its name exists already means that an answer was lost: names are made once.
func (c *Client) CreatePod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	made := &corev1.Pod{}
	err := c.Create(ctx, func(ctx context.Context) error {
		return c.REST.Post().Namespace(pod.Namespace).Resource("pods").Body(pod).Do(ctx).Into(made)
	})
	if apierrors.IsAlreadyExists(err) {
		return c.Pod(ctx, pod.Namespace, pod.Name)
	}
	return made, err
}

// DeletePod asks for the removal of a pod. One that is not there is no error.
func (c *Client) DeletePod(ctx context.Context, namespace, name string, grace time.Duration) error {
	seconds := int64(grace / time.Second)
	err := c.Try(ctx, func(ctx context.Context) error {
		return c.REST.Delete().Namespace(namespace).Resource("pods").Name(name).Body(&metav1.DeleteOptions{
			TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, GracePeriodSeconds: &seconds,
		}).Do(ctx).Error()
	})
	if IsGone(err) {
		return nil
	}
	return err
}

// Exec runs a command in a container of a pod, until it ends. The error is a remote exec.CodeExitError where it fails.
func (c *Client) Exec(ctx context.Context, pod *corev1.Pod, container string, command []string, o remotecommand.StreamOptions) error {
	request := c.REST.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").Param("container", container)
	for name, on := range map[string]bool{"stdin": o.Stdin != nil, "stdout": o.Stdout != nil, "stderr": o.Stderr != nil, "tty": o.Tty} {
		request.Param(name, strconv.FormatBool(on))
	}
	for _, arg := range command {
		request.Param("command", arg)
	}
	sockets, err := remotecommand.NewWebSocketExecutor(c.Config, http.MethodGet, request.URL().String())
	if err != nil {
		return err
	}
	older, err := remotecommand.NewSPDYExecutor(c.Config, http.MethodPost, request.URL())
	if err != nil {
		return err
	}
	either, err := remotecommand.NewFallbackExecutor(sockets, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	return either.StreamWithContext(ctx, o)
}
