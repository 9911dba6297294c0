package kubernetes

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/kube"
)

func TestEachPodOfAJobHasItsLogins(t *testing.T) {
	a := &api{status: waits(BuildContainer, "ErrImagePull")}
	job := jobOf("registry.example.com/a:1")
	job.Image.PullPolicies = []string{"always", "if-not-present"}
	job.Variables = map[string]string{"DOCKER_AUTH_CONFIG": `{"auths":{"registry.example.com":{"auth":"YW5uOndvcmQ="}}}`}
	_, err := a.served(t, Options{}).Prepare(t.Context(), job, nil)
	var pull *executor.PullError
	if !errors.As(err, &pull) || a.made != 2 || len(a.pods)+len(a.secrets) > 0 {
		t.Errorf("%v: %d pods, left %v %v", err, a.made, a.pods, a.secrets)
	}
	if !slices.Contains(a.asked, "POST secrets") {
		t.Errorf("there were no logins: %q", a.asked)
	}
}

// entries are those of the ledgers of pods.
func entries(t *testing.T, e *Executor) (out string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(e.setup.State, bookName+"*.ledger"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if entry, is := strings.CutPrefix(line, "+"); is {
			out += entry
		} else if entry, is := strings.CutPrefix(line, "-"); is {
			out = strings.Replace(out, entry, "", 1)
		}
	}
	return out
}

func TestNothingIsRecordedOfWhatTheClusterRefusesToMake(t *testing.T) {
	a := &api{refuse: func(*http.Request) *apierrors.StatusError { return forbidden("pods") }}
	e := a.served(t, Options{})
	_, err := e.Prepare(t.Context(), jobOf("alpine"), nil)
	var left *executor.LeftError
	if err == nil || errors.As(err, &left) || entries(t, e) != "" {
		t.Errorf("%v, recorded: %s", err, entries(t, e))
	}
}

func TestWhatAFailedPreparationCouldNotRemoveIsRemovedLater(t *testing.T) {
	away := false
	a := &api{status: waits(BuildContainer, "CreateContainerConfigError")}
	a.refuse = func(r *http.Request) *apierrors.StatusError {
		if away = away || r.Method == http.MethodDelete; away {
			return apierrors.NewInternalError(errors.New("away"))
		}
		return nil
	}
	e := a.served(t, Options{})
	_, err := e.Prepare(t.Context(), jobOf("alpine"), nil)
	var left *executor.LeftError
	if !errors.As(err, &left) || len(a.pods) != 1 || entries(t, e) == "" {
		t.Fatalf("%v, %v", err, a.pods)
	}
	if left.Remove(t.Context()) == nil {
		t.Error("it is removed although nobody answers")
	}
	a.mu.Lock()
	a.refuse = nil
	a.mu.Unlock()
	if err := left.Remove(t.Context()); err != nil || len(a.pods) > 0 || entries(t, e) != "" {
		t.Errorf("%v, left %v, %s", err, a.pods, entries(t, e))
	}
}

func TestWhatKeepsAPodFromStartingIsToldAsItIs(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	build := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: BuildContainer, State: running}}}
	failed := corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{ended3(BringContainer, "Error")}}
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "rung-job", errors.New("exceeded quota: small"))
	for name, c := range map[string]struct {
		image  string
		status corev1.PodStatus
		refuse func(*http.Request) *apierrors.StatusError
		want   string
	}{
		"no right to its log": {"runner", build, func(r *http.Request) *apierrors.StatusError {
			if strings.HasSuffix(r.URL.Path, "/log") {
				return forbidden("pods/log")
			}
			return nil
		}, "reading the log of the job's container: the Kubernetes cluster at"},
		"a quota": {"runner", build, func(r *http.Request) *apierrors.StatusError {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") {
				return quota
			}
			return nil
		}, "does not admit it, by a quota or a policy of the namespace default"},
		"a container that cannot take the step-runner":  {"", failed, nil, "its container ended with code 3; its last words:\nno space left"},
		"a container that cannot bring the step-runner": {"runner", failed, nil, "its container ended with code 3; its last words:\nno space left"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{status: func(*corev1.Pod) corev1.PodStatus { return c.status }, refuse: c.refuse, log: "no space left\n"}
			_, err := a.served(t, Options{Image: c.image}).Prepare(t.Context(), jobOf("alpine"), nil)
			var user *executor.UserError
			if err == nil || errors.As(err, &user) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestAConflictAboutAQuotaIsOverTheNextTime(t *testing.T) {
	conflicts := 0
	a := &api{status: waits(BuildContainer, "ErrImagePull"), refuse: func(r *http.Request) *apierrors.StatusError {
		if conflicts++; r.Method != http.MethodPost || conflicts > 2 {
			return nil
		}
		return apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "small", errors.New("the object has been modified"))
	}}
	_, err := a.served(t, Options{Tries: 5}).Prepare(t.Context(), jobOf("alpine"), nil)
	if a.made != 1 || conflicts < 3 {
		t.Errorf("%v: %d pods after %d requests", err, a.made, conflicts)
	}
}

func TestAClusterThatRefusesHasNotStoppedAnswering(t *testing.T) {
	for _, err := range []error{forbidden("pods"), apierrors.NewUnauthorized("the token has expired")} {
		f := &follower{cluster: &cluster{Client: &kube.Client{Name: "c"}}, lost: time.Now().Add(-time.Hour), changed: make(chan struct{})}
		f.missed(err)
		if _, gone, _ := f.now(); gone == nil || !strings.Contains(gone.Reason, "does not let this program see its pod") {
			t.Errorf("%v: %v", err, gone)
		}
	}
}
