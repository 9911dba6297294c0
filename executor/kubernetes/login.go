package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rungci/rung/executor/login"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source/credentials"
)

// dockerHub is what Docker's registry is called in files of credentials.
const dockerHub = "https://index.docker.io/v1/"

// logins makes a secret with what the job's images need at their registries, and names it in the plan. There may be none.
func (v *preparation) logins(ctx context.Context) error {
	v.plan.secret = ""
	if v.executor.opts.OwnLogins {
		return nil
	}
	images := []string{v.plan.job.Image.Name}
	for _, s := range v.plan.job.Services {
		images = append(images, s.Name)
	}
	slices.Sort(images)
	type account struct {
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
		Token    string `json:"identitytoken,omitempty"`
	}
	auths := map[string]account{}
	for _, image := range slices.Compact(images) {
		found, err := login.Find(ctx, v.plan.job, []string{}, "", image) // the host's own logins are for the host
		if err != nil {
			v.report.Say(event.PhasePulling, image, fmt.Sprintf("warning: looking for a login for %s: %v", image, err))
		}
		if found == nil {
			continue
		}
		one := account{Username: found.Username, Password: found.Password}
		if found.Username == credentials.TokenUser {
			one = account{Token: found.Password}
		}
		of := containers.ParseName(image)
		place := found.Registry + "/" + of.Repository // what is for one project of a registry is not for another
		if of.Registry == containers.ParseName("alpine").Registry {
			place = dockerHub
		}
		auths[place] = one
	}
	if len(auths) == 0 {
		return nil
	}
	text, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return err
	}
	labels, annotations := v.plan.marks()
	v.plan.secret = v.plan.name
	err = v.executor.cluster.createSecret(ctx, &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: v.plan.secret, Namespace: v.plan.template.Namespace, Labels: labels, Annotations: annotations},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: text},
	})
	v.made = v.made || !refused(err)
	return v.executor.cluster.failed(ctx, "making a secret with the job's logins", err)
}
