package kubernetes

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rungci/rung/executor"
)

func TestEachPodOfAJobHasItsLogins(t *testing.T) {
	a := &api{status: waits(buildContainer, "ErrImagePull")}
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
	a := &api{status: waits(buildContainer, "CreateContainerConfigError")}
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
