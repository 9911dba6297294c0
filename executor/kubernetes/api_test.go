package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rungci/rung/executor"
)

// api stands in for an API server, with pods that no node runs. What it removes takes what it owns along.
type api struct {
	// status is that of the pod that is made next, and refuse why a request is not answered; both may be nil.
	status func(*corev1.Pod) corev1.PodStatus
	refuse func(*http.Request) *apierrors.StatusError
	log    string // of all containers

	mu      sync.Mutex
	made    int
	pods    map[string]*corev1.Pod
	secrets map[string]*corev1.Secret
	asked   []string // methods and last elements of paths
}

// served is the level that asks it.
func (a *api) served(t *testing.T, o Options) *Executor {
	t.Helper()
	a.pods, a.secrets = map[string]*corev1.Pod{}, map[string]*corev1.Secret{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	o.Cluster, o.Tries, o.Pause = Cluster{Host: server.URL}, max(o.Tries, 1), time.Millisecond
	e, err := New(t.Context(), executor.Setup{State: t.TempDir()}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/") // api v1 namespaces NAMESPACE KIND NAME PART
	if r.URL.Query().Get("watch") == "" {
		a.asked = append(a.asked, r.Method+" "+path.Base(r.URL.Path))
	}
	var out any
	err := error(apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, r.URL.Path))
	if a.refuse != nil {
		if refused := a.refuse(r); refused != nil {
			answer(w, nil, refused)
			return
		}
	}
	switch {
	case path.Base(r.URL.Path) == "selfsubjectaccessreviews":
		out, err = map[string]any{"status": map[string]bool{"allowed": true}}, nil
	case path.Base(r.URL.Path) == "log":
		_, _ = io.WriteString(w, a.log)
		return
	case len(parts) < 5:
	case r.URL.Query().Get("watch") != "": // which ends at once
		return
	case parts[4] == "events":
		out, err = &corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}}, nil
	case parts[4] == "secrets":
		out, err = a.secret(r, path.Base(r.URL.Path))
	case parts[4] == "pods" && len(parts) < 7:
		out, err = a.pod(r, path.Base(r.URL.Path))
	}
	answer(w, out, err)
}

func answer(w http.ResponseWriter, out any, err error) {
	w.Header().Set("Content-Type", "application/json")
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		w.WriteHeader(int(status.ErrStatus.Code))
		said := status.ErrStatus
		said.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		out = &said
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (a *api) pod(r *http.Request, name string) (any, error) {
	pod := a.pods[name]
	switch {
	case r.Method == http.MethodPost:
		a.made++
		pod = &corev1.Pod{}
		if err := json.NewDecoder(r.Body).Decode(pod); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		for _, s := range pod.Spec.ImagePullSecrets {
			if a.secrets[s.Name] == nil {
				return nil, apierrors.NewBadRequest("there is no secret " + s.Name)
			}
		}
		pod.UID, pod.ResourceVersion = types.UID(fmt.Sprint("uid-", a.made)), fmt.Sprint(a.made)
		if a.status != nil {
			pod.Status = a.status(pod)
		}
		a.pods[pod.Name] = pod
	case pod == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	case r.Method == http.MethodDelete:
		delete(a.pods, name)
		for of, s := range a.secrets {
			if len(s.OwnerReferences) > 0 && s.OwnerReferences[0].UID == pod.UID {
				delete(a.secrets, of)
			}
		}
	}
	return pod, nil
}

func (a *api) secret(r *http.Request, name string) (any, error) {
	secret := a.secrets[name]
	switch {
	case r.Method == http.MethodPost:
		secret = &corev1.Secret{}
		if err := json.NewDecoder(r.Body).Decode(secret); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		a.secrets[secret.Name] = secret
	case secret == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	case r.Method == http.MethodDelete:
		delete(a.secrets, name)
	case r.Method == http.MethodPatch:
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, secret)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	secret.TypeMeta = metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}
	return secret, nil
}

// forbidden is what the rights of an account do not allow.
func forbidden(what string) *apierrors.StatusError {
	return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", errors.New(`User "x" cannot do that`))
}

// waits is a pod with a container that waits for a reason.
func waits(container, reason string) func(*corev1.Pod) corev1.PodStatus {
	return func(*corev1.Pod) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}}
	}
}
