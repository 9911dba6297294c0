package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Template is what the pods of jobs have beside what a job asks for.
type Template struct {
	Namespace           string
	Labels, Annotations map[string]string
	// Spec has no containers: those are made of the following.
	Spec corev1.PodSpec
	// Build is the job's container, Services those of its services, and Bring the one that brings the step-runner: their resources, rights, volume
	// mounts, variables and hooks. Names, images and commands are not used.
	Build, Services, Bring corev1.Container
	// EachService are the resources of services by their number, in place of Services'.
	EachService []corev1.ResourceRequirements
	// Patches change the pod's spec at last.
	Patches []Patch
}

// pinned is the user that the operator has set for a kind of container, whatever a job asks for; nil leaves it to the job.
func (t *Template) pinned(of *corev1.Container) *int64 {
	if s := of.SecurityContext; s != nil && s.RunAsUser != nil {
		return s.RunAsUser
	}
	if s := t.Spec.SecurityContext; s != nil {
		return s.RunAsUser
	}
	return nil
}

// Patch changes a pod's spec.
type Patch struct {
	Name string // for people
	Kind PatchKind
	Text []byte // JSON
}

// PatchKind is how a patch is meant, as in `kubectl patch --type`.
type PatchKind string

// The kinds of patches.
const (
	JSONPatch      PatchKind = "json"
	MergePatch     PatchKind = "merge"
	StrategicPatch PatchKind = "strategic"
)

// clone is a copy that shares nothing.
func (t *Template) clone() Template {
	out := *t
	out.Labels, out.Annotations, out.Patches = maps.Clone(t.Labels), maps.Clone(t.Annotations), slices.Clone(t.Patches)
	out.Spec = *t.Spec.DeepCopy()
	out.Build, out.Services, out.Bring = *t.Build.DeepCopy(), *t.Services.DeepCopy(), *t.Bring.DeepCopy()
	return out
}

// Apply returns a spec with the patch. The error names it.
func (p *Patch) Apply(spec *corev1.PodSpec) (*corev1.PodSpec, error) {
	before, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var text []byte
	switch p.Kind {
	case JSONPatch:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(p.Text); err == nil {
			text, err = patch.Apply(before)
		}
	case MergePatch:
		text, err = jsonpatch.MergePatch(before, p.Text)
	case StrategicPatch:
		text, err = strategicpatch.StrategicMergePatch(before, p.Text, corev1.PodSpec{})
	default:
		err = fmt.Errorf("%q is not a kind of patch: they are json, merge and strategic", p.Kind)
	}
	out := &corev1.PodSpec{}
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return nil, fmt.Errorf("the patch %q of the pod's spec: %w", p.Name, err)
	}
	return out, nil
}
