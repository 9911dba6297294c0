package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// evictions say for what the cluster removes a pod, by the reason of its condition DisruptionTarget.
var evictions = map[string]string{
	corev1.PodReasonPreemptionByScheduler: "it was preempted by a pod with a higher priority",
	corev1.PodReasonTerminationByKubelet:  "it was evicted by its node",
	"EvictionByEvictionAPI":               "it was evicted, as when its node is drained",
	"DeletionByTaintManager":              "its node has stopped answering, or was given a taint",
	"DeletionByPodGC":                     "its node does not exist any more",
}

// Disruption is why the cluster removes a pod; "" if it does not say.
func Disruption(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return cmp.Or(evictions[c.Reason], c.Reason) + After(c.Message)
		}
	}
	return ""
}

// NodeLost reports whether the cluster counts the node of a pod that runs as gone: it then says that the pod is not ready, and leaves its containers as they were.
func NodeLost(pod *corev1.Pod) bool {
	is := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		is[c.Type] = c.Status
	}
	return pod.Status.Phase == corev1.PodRunning && len(pod.Spec.ReadinessGates) == 0 &&
		is[corev1.PodReady] == corev1.ConditionFalse && is[corev1.ContainersReady] == corev1.ConditionTrue
}

// After is a message behind what it explains.
func After(message string) string {
	if message = strings.TrimSpace(message); message == "" {
		return ""
	}
	return ": " + message
}

// StatusOf is the status of a container among others; nil if it has none.
func StatusOf(all []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	if i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Trouble is why a container of a pod does not start.
type Trouble struct {
	Container string
	Image     string
	Reason    string // the cluster's word for it
	Message   string
	Kind      TroubleKind
}

// TroubleKind is what a container lacks.
type TroubleKind int

// The kinds of trouble.
const (
	Pulling     TroubleKind = iota // its image cannot be had
	Misspelt                       // what it names cannot be an image
	Configuring                    // what the pod refers to is not there, or not allowed
	Starting                       // its program cannot be started
)

// troubles are the reasons for which containers wait in vain, and those with which they end before they begin.
var troubles = map[string]TroubleKind{
	"ErrImagePull": Pulling, "ImagePullBackOff": Pulling, "ErrImageNeverPull": Pulling, "RegistryUnavailable": Pulling, "ImageInspectError": Pulling,
	"SignatureValidationFailed": Pulling, "InvalidImageName": Misspelt,
	"CreateContainerConfigError": Configuring, "CreateContainerError": Configuring, "CreatePodSandboxError": Configuring,
	"RunContainerError": Starting, "StartError": Starting, "ContainerCannotRun": Starting, "PostStartHookError": Starting,
}

// Stays reports whether a container that waits for a reason, or has ended with it, will not start.
func Stays(reason string) bool {
	_, is := troubles[reason]
	return is
}

// Stuck is the first container of a pod that does not start, and will not; nil if there is none.
func Stuck(pod *corev1.Pod) *Trouble {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		reason, message := "", ""
		switch {
		case s.State.Waiting != nil:
			reason, message = s.State.Waiting.Reason, s.State.Waiting.Message
		case s.State.Terminated != nil:
			reason, message = s.State.Terminated.Reason, s.State.Terminated.Message
		}
		if kind, is := troubles[reason]; is {
			return &Trouble{Container: s.Name, Image: imageOf(pod, s.Name), Reason: reason, Message: message, Kind: kind}
		}
	}
	return nil
}

// imageOf is the image that a container was to have.
func imageOf(pod *corev1.Pod, name string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == name {
			return c.Image
		}
	}
	return ""
}

// Unscheduled is what the scheduler says of a pod that has no node; "" if it has one, or has not been looked at.
func Unscheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// Waiting says what a pod that has not started waits for, for people.
func Waiting(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	if text := Unscheduled(pod); text != "" {
		return text
	}
	var texts []string
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			texts = append(texts, fmt.Sprintf("container %s: %s%s", s.Name, w.Reason, After(w.Message)))
		}
	}
	return strings.Join(texts, "; ")
}

// architectures are the names that kernels have for them.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}

// Architecture is that of a node, as GOARCH has it, by what uname -m says there.
func Architecture(uname string) (string, error) {
	name := strings.TrimSpace(uname)
	if architectures[name] == "" {
		return "", fmt.Errorf("its node has the architecture %q, which is not known here", name)
	}
	return architectures[name], nil
}
