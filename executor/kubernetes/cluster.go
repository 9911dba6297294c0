package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"github.com/rungci/rung/executor"
)

// Cluster says where an API server is and as whom it is asked. Without Host, a pod of the cluster uses its service account, and others
// their kubeconfig.
type Cluster struct {
	Host                      string // https://…
	CertFile, KeyFile, CAFile string
	Token                     string
	Context                   string // of the kubeconfig; empty is its current one
}

// Requests a second to the API server, and at once. Its own limits are those that count.
const (
	requestRate  = 100
	requestBurst = 200
	// firstPause is the time before a call is made again, which doubles.
	firstPause = 100 * time.Millisecond
)

// cluster is a client for the few kinds of objects that are needed here. The generated clients of all kinds would add 30 MB to a program.
type cluster struct {
	name   string // its address, for people and ledgers
	config *rest.Config
	client *rest.RESTClient
	http   *http.Client
	tries  int
	pause  time.Duration
}

// scheme has the kinds of objects.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		panic(err)
	}
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}()

// quiet keeps what the client's library says of its streams off this program's error output: their errors are returned, too.
var quiet = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// connect makes a client. Nothing is sent.
func connect(o *Options, env []string) (*cluster, error) {
	quiet()
	config, err := o.Cluster.config(env)
	if err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.QPS, config.Burst, config.UserAgent = requestRate, requestBurst, "rung"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the Kubernetes cluster at %s: %w", config.Host, err)
	}
	c := &cluster{name: config.Host, config: config, http: client, tries: o.Tries, pause: o.Pause}
	if c.client, err = rest.RESTClientForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("connecting to the Kubernetes cluster at %s: %w", config.Host, err)
	}
	return c, nil
}

func (c *Cluster) config(env []string) (*rest.Config, error) {
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

func (c *Cluster) found(env []string) (*rest.Config, error) {
	if c.Host != "" {
		return &rest.Config{Host: c.Host, TLSClientConfig: rest.TLSClientConfig{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile}}, nil
	}
	if c.Context == "" {
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
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
}

func (c *cluster) close() { c.http.CloseIdleConnections() }

// isGone reports whether there is no such object.
func isGone(err error) bool { return apierrors.IsNotFound(err) }

// passing reports whether a call may be answered the next time.
func passing(err error) bool {
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

// try makes a call until it is answered, with a limit of time for each. tries are those that are left beyond the first.
func (c *cluster) try(ctx context.Context, call func(ctx context.Context) error) error {
	wait := firstPause
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

// failed explains the error of a call, which may be nil.
func (c *cluster) failed(ctx context.Context, doing string, err error) error {
	var user *executor.UserError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &user):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the Kubernetes cluster at %s refuses: %w; the rights that are needed are in deploy/kubernetes", doing, c.name, err)
	case passing(err):
		return fmt.Errorf("%s: the Kubernetes cluster at %s does not answer: %w", doing, c.name, err)
	}
	return fmt.Errorf("%s: the Kubernetes cluster at %s: %w", doing, c.name, err)
}

func (c *cluster) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.try(ctx, func(ctx context.Context) error {
		return c.client.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
	})
}

// createPod makes a pod. That one of its name exists already means that an answer was lost: names are made once.
func (c *cluster) createPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	made := &corev1.Pod{}
	err := c.try(ctx, func(ctx context.Context) error {
		return c.client.Post().Namespace(pod.Namespace).Resource("pods").Body(pod).Do(ctx).Into(made)
	})
	if apierrors.IsAlreadyExists(err) {
		return c.pod(ctx, pod.Namespace, pod.Name)
	}
	return made, err
}

// deletePod asks for the removal of a pod. One that is not there is no error.
func (c *cluster) deletePod(ctx context.Context, namespace, name string, grace time.Duration) error {
	seconds := int64(grace / time.Second)
	err := c.try(ctx, func(ctx context.Context) error {
		return c.client.Delete().Namespace(namespace).Resource("pods").Name(name).Body(&metav1.DeleteOptions{
			TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, GracePeriodSeconds: &seconds,
		}).Do(ctx).Error()
	})
	if isGone(err) {
		return nil
	}
	return err
}

// watchPod watches a pod from a version of it.
func (c *cluster) watchPod(ctx context.Context, namespace, name, version string) (watch.Interface, error) {
	return c.client.Get().Namespace(namespace).Resource("pods").Param("watch", "true").Param("fieldSelector", "metadata.name="+name).
		Param("resourceVersion", version).Watch(ctx)
}

// events are those of a pod.
func (c *cluster) events(ctx context.Context, pod *corev1.Pod) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	err := c.try(ctx, func(ctx context.Context) error {
		return c.client.Get().Namespace(pod.Namespace).Resource("events").Param("fieldSelector", "involvedObject.uid="+string(pod.UID)).Do(ctx).Into(list)
	})
	return list.Items, err
}

// createSecret makes a secret.
func (c *cluster) createSecret(ctx context.Context, secret *corev1.Secret) error {
	err := c.try(ctx, func(ctx context.Context) error {
		return c.client.Post().Namespace(secret.Namespace).Resource("secrets").Body(secret).Do(ctx).Error()
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ownSecret has a secret removed by the cluster when its pod is.
func (c *cluster) ownSecret(ctx context.Context, pod *corev1.Pod, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}]}}`, pod.Name, pod.UID)
	return c.try(ctx, func(ctx context.Context) error {
		return c.client.Patch(types.MergePatchType).Namespace(pod.Namespace).Resource("secrets").Name(name).Body([]byte(patch)).Do(ctx).Error()
	})
}

// deleteSecret removes a secret. One that is not there is no error.
func (c *cluster) deleteSecret(ctx context.Context, namespace, name string) error {
	err := c.try(ctx, func(ctx context.Context) error {
		return c.client.Delete().Namespace(namespace).Resource("secrets").Name(name).Do(ctx).Error()
	})
	if isGone(err) {
		return nil
	}
	return err
}

// logs are what a container has said, its last lines, or with follow all that it says until it ends.
func (c *cluster) logs(ctx context.Context, pod *corev1.Pod, container string, follow bool, lines int) (io.ReadCloser, error) {
	request := c.client.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("log").Param("container", container)
	if follow {
		request.Param("follow", "true")
	} else {
		request.Param("tailLines", strconv.Itoa(lines))
	}
	return request.Stream(ctx)
}

// exec runs a command in a container of a pod, until it ends. The error is a remote exec.CodeExitError where it fails.
func (c *cluster) exec(ctx context.Context, pod *corev1.Pod, container string, command []string, o remotecommand.StreamOptions) error {
	request := c.client.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").Param("container", container)
	for name, on := range map[string]bool{"stdin": o.Stdin != nil, "stdout": o.Stdout != nil, "stderr": o.Stderr != nil, "tty": o.Tty} {
		request.Param(name, strconv.FormatBool(on))
	}
	for _, arg := range command {
		request.Param("command", arg)
	}
	sockets, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, request.URL().String())
	if err != nil {
		return err
	}
	older, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, request.URL())
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
