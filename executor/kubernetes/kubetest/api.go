//go:build linux

package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// API is what tests, and the node, ask an API server.
type API struct{ core *rest.RESTClient }

func newAPI(config *rest.Config) (*API, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion, c.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, serializer.NewCodecFactory(scheme).WithoutConversion()
	c.QPS = -1
	core, err := rest.RESTClientFor(c)
	return &API{core}, err
}

// Pod returns a pod.
func (a *API) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, a.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
}

// Pods are those of a namespace; "" is all.
func (a *API) Pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := a.core.Get().Namespace(namespace).Resource("pods").Do(ctx).Into(list)
	return list.Items, err
}

// Secrets are those of a namespace.
func (a *API) Secrets(ctx context.Context, namespace string) ([]corev1.Secret, error) {
	list := &corev1.SecretList{}
	err := a.core.Get().Namespace(namespace).Resource("secrets").Do(ctx).Into(list)
	return list.Items, err
}

// Delete removes a pod as people do.
func (a *API) Delete(ctx context.Context, namespace, name string, grace int64) error {
	return a.core.Delete().Namespace(namespace).Resource("pods").Name(name).Body(&metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, GracePeriodSeconds: &grace,
	}).Do(ctx).Error()
}

// Evict asks for the removal of a pod as `kubectl drain` does.
func (a *API) Evict(ctx context.Context, namespace, name string) error {
	text := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, name, namespace)
	return a.core.Post().Namespace(namespace).Resource("pods").Name(name).SubResource("eviction").Body([]byte(text)).Do(ctx).Error()
}

// PatchStatus changes the status of a pod as a controller does, by a merge patch.
func (a *API) PatchStatus(ctx context.Context, namespace, name, patch string) error {
	return a.core.Patch(types.StrategicMergePatchType).Namespace(namespace).Resource("pods").Name(name).SubResource("status").Body([]byte(patch)).Do(ctx).Error()
}

// Warn records an event of a pod, as the parts of a cluster do.
func (a *API) Warn(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	now := metav1.Now()
	return a.core.Post().Namespace(pod.Namespace).Resource("events").Body(&corev1.Event{
		TypeMeta:       metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
		ObjectMeta:     metav1.ObjectMeta{GenerateName: pod.Name + ".", Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Reason:         reason, Message: message, Type: corev1.EventTypeWarning, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}).Do(ctx).Error()
}

// Apply makes the objects of a file of YAML, in a namespace unless they name one, as `kubectl apply --server-side` does.
func (a *API) Apply(ctx context.Context, namespace, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return a.ApplyText(ctx, namespace, text)
}

// ApplyText is Apply of a text.
func (a *API) ApplyText(ctx context.Context, namespace string, text []byte) error {
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)+1)
	for {
		object := &unstructured.Unstructured{}
		if err := in.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if object.Object == nil {
			continue
		}
		path, namespaced := pathOf(object)
		if path == "" {
			return fmt.Errorf("objects of kind %s are not known here", object.GetKind())
		}
		if namespaced {
			if object.GetNamespace() == "" {
				object.SetNamespace(namespace)
			}
			path = strings.Replace(path, "{namespace}", object.GetNamespace(), 1)
		}
		body, err := json.Marshal(object.Object)
		if err != nil {
			return err
		}
		err = a.core.Patch(types.ApplyYAMLPatchType).AbsPath(path, object.GetName()).Param("fieldManager", "kubetest").Param("force", "true").Param("fieldValidation", "Strict").Body(body).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// pathOf is where objects of a kind are, and whether they are in namespaces.
func pathOf(o *unstructured.Unstructured) (path string, namespaced bool) {
	switch o.GetAPIVersion() + " " + o.GetKind() {
	case "v1 Namespace":
		return "/api/v1/namespaces", false
	case "v1 ServiceAccount":
		return "/api/v1/namespaces/{namespace}/serviceaccounts", true
	case "v1 ConfigMap":
		return "/api/v1/namespaces/{namespace}/configmaps", true
	case "v1 Secret":
		return "/api/v1/namespaces/{namespace}/secrets", true
	case "v1 Service":
		return "/api/v1/namespaces/{namespace}/services", true
	case "policy/v1 PodDisruptionBudget":
		return "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", true
	case "v1 ResourceQuota":
		return "/api/v1/namespaces/{namespace}/resourcequotas", true
	case "v1 PersistentVolumeClaim":
		return "/api/v1/namespaces/{namespace}/persistentvolumeclaims", true
	case "rbac.authorization.k8s.io/v1 Role":
		return "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles", true
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", true
	case "apps/v1 Deployment":
		return "/apis/apps/v1/namespaces/{namespace}/deployments", true
	case "node.k8s.io/v1 RuntimeClass":
		return "/apis/node.k8s.io/v1/runtimeclasses", false
	case "scheduling.k8s.io/v1 PriorityClass":
		return "/apis/scheduling.k8s.io/v1/priorityclasses", false
	}
	return "", false
}

// Token returns a token of a service account, for an hour.
func (a *API) Token(ctx context.Context, namespace, account string) (string, error) {
	body := `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`
	answer, err := a.core.Post().Namespace(namespace).Resource("serviceaccounts").Name(account).SubResource("token").Body([]byte(body)).Do(ctx).Raw()
	var token struct{ Status struct{ Token string } }
	if err == nil {
		err = json.Unmarshal(answer, &token)
	}
	return token.Status.Token, err
}

// Namespace makes a namespace in which pods can be made: controllers of a whole cluster would make its account.
func (a *API) Namespace(ctx context.Context, name string) error {
	return a.ApplyText(ctx, name, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}
---
{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"},"automountServiceAccountToken":false}
`))
}

// The calls of the node.

func (a *API) watchPods(ctx context.Context, node, version string) (watch.Interface, error) {
	return a.core.Get().Resource("pods").Param("watch", "true").Param("fieldSelector", "spec.nodeName="+node).Param("resourceVersion", version).Watch(ctx)
}

func (a *API) podsOf(ctx context.Context, node string) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	return list, a.core.Get().Resource("pods").Param("fieldSelector", "spec.nodeName="+node).Do(ctx).Into(list)
}

func (a *API) putNode(ctx context.Context, node *corev1.Node) error {
	made := &corev1.Node{}
	err := a.core.Post().Resource("nodes").Body(node).Do(ctx).Into(made)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	made.Status = node.Status
	return a.core.Put().Resource("nodes").Name(node.Name).SubResource("status").Body(made).Do(ctx).Error()
}

func (a *API) putStatus(ctx context.Context, pod *corev1.Pod) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": pod.Status})
	if err != nil {
		return err
	}
	return a.core.Patch(types.MergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("status").Body(text).Do(ctx).Error()
}

func (a *API) forget(ctx context.Context, pod *corev1.Pod) error {
	none := int64(0)
	err := a.core.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Body(&metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	}).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (a *API) data(ctx context.Context, namespace, resource, name string) (map[string][]byte, error) {
	if resource == "secrets" {
		secret := &corev1.Secret{}
		err := a.core.Get().Namespace(namespace).Resource(resource).Name(name).Do(ctx).Into(secret)
		return secret.Data, err
	}
	values := &corev1.ConfigMap{}
	err := a.core.Get().Namespace(namespace).Resource(resource).Name(name).Do(ctx).Into(values)
	out := map[string][]byte{}
	for name, text := range values.Data {
		out[name] = []byte(text)
	}
	return out, err
}
