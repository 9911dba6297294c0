package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rungci/rung/executor"
)

// The containers of a pod. Services are svc-0, svc-1 and so on.
const (
	bringContainer = "step-runner"
	buildContainer = "build"
	servicePrefix  = "svc-"
)

// evictions say for what the cluster removes a pod, by the reason of its condition DisruptionTarget.
var evictions = map[string]string{
	corev1.PodReasonPreemptionByScheduler: "it was preempted by a pod with a higher priority",
	corev1.PodReasonTerminationByKubelet:  "it was evicted by its node",
	"EvictionByEvictionAPI":               "it was evicted, as when its node is drained",
	"DeletionByTaintManager":              "its node has stopped answering, or was given a taint",
	"DeletionByPodGC":                     "its node does not exist any more",
}

// ended says why a pod cannot run its job any more; nil where it can, or may once it has started.
func ended(pod *corev1.Pod) *executor.Gone {
	s := &pod.Status
	build := statusOf(s.ContainerStatuses, buildContainer)
	switch {
	case pod.DeletionTimestamp != nil:
		return &executor.Gone{Reason: "its pod is being removed: " + cmp.Or(disruption(pod), "somebody has deleted it")}
	case s.Reason == "NodeLost" || s.Phase == corev1.PodUnknown:
		return &executor.Gone{Reason: fmt.Sprintf("the node of its pod, %s, has stopped answering%s", pod.Spec.NodeName, after(s.Message))}
	case nodeLost(pod):
		return &executor.Gone{Reason: fmt.Sprintf("the node of its pod, %s, has stopped answering", pod.Spec.NodeName)}
	case s.Phase == corev1.PodFailed && s.Reason != "":
		return &executor.Gone{Reason: fmt.Sprintf("its pod has failed: %s%s", s.Reason, after(cmp.Or(s.Message, disruption(pod))))}
	case build != nil && build.State.Terminated != nil:
		return terminated(build.State.Terminated)
	case s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded:
		return &executor.Gone{Reason: "its pod has ended" + after(s.Message)}
	}
	return nil
}

// disruption is why the cluster removes a pod; "" if it does not say.
func disruption(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return cmp.Or(evictions[c.Reason], c.Reason) + after(c.Message)
		}
	}
	return ""
}

// nodeLost reports whether the cluster counts the node of a pod that runs as gone: it then says that the pod is not ready, and leaves its containers as they were.
func nodeLost(pod *corev1.Pod) bool {
	is := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		is[c.Type] = c.Status
	}
	return pod.Status.Phase == corev1.PodRunning && len(pod.Spec.ReadinessGates) == 0 &&
		is[corev1.PodReady] == corev1.ConditionFalse && is[corev1.ContainersReady] == corev1.ConditionTrue
}

// terminated says why the job's container has ended.
func terminated(s *corev1.ContainerStateTerminated) *executor.Gone {
	switch {
	case s.Reason == "OOMKilled":
		return &executor.Gone{Reason: fmt.Sprintf("its container ran out of memory and was killed (exit code %d)", s.ExitCode), Err: executor.ErrOutOfMemory}
	case s.ExitCode == 0: // a step-runner that was asked to end
		return &executor.Gone{Reason: "its container was stopped, by somebody or with its node"}
	}
	reason := fmt.Sprintf("its container ended with exit code %d", s.ExitCode)
	if s.Reason != "" && s.Reason != "Error" {
		reason += ": " + s.Reason
	}
	return &executor.Gone{Reason: reason + after(s.Message)}
}

// after is a message behind what it explains.
func after(message string) string {
	if message = strings.TrimSpace(message); message == "" {
		return ""
	}
	return ": " + message
}

func statusOf(all []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	if i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// trouble is why a container of a pod does not start.
type trouble struct {
	container string
	image     string
	reason    string // the cluster's word for it
	message   string
	kind      troubleKind
}

type troubleKind int

const (
	pulling     troubleKind = iota // its image cannot be had
	misspelt                       // what it names cannot be an image
	configuring                    // what the pod refers to is not there, or not allowed
	starting                       // its program cannot be started
)

// troubles are the reasons for which containers wait in vain, and those with which they end before they begin.
var troubles = map[string]troubleKind{
	"ErrImagePull": pulling, "ImagePullBackOff": pulling, "ErrImageNeverPull": pulling, "RegistryUnavailable": pulling, "ImageInspectError": pulling,
	"SignatureValidationFailed": pulling, "InvalidImageName": misspelt,
	"CreateContainerConfigError": configuring, "CreateContainerError": configuring, "CreatePodSandboxError": configuring,
	"RunContainerError": starting, "StartError": starting, "ContainerCannotRun": starting, "PostStartHookError": starting,
}

// stuck is the first container of a pod that does not start, and will not; nil if there is none.
func stuck(pod *corev1.Pod) *trouble {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		reason, message := "", ""
		switch {
		case s.State.Waiting != nil:
			reason, message = s.State.Waiting.Reason, s.State.Waiting.Message
		case s.State.Terminated != nil:
			reason, message = s.State.Terminated.Reason, s.State.Terminated.Message
		}
		if kind, is := troubles[reason]; is {
			return &trouble{container: s.Name, image: imageOf(pod, s.Name), reason: reason, message: message, kind: kind}
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

// unscheduled is what the scheduler says of a pod that has no node; "" if it has one, or has not been looked at.
func unscheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// waiting says what a pod that has not started waits for, for people.
func waiting(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	if text := unscheduled(pod); text != "" {
		return text
	}
	var texts []string
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			texts = append(texts, fmt.Sprintf("container %s: %s%s", s.Name, w.Reason, after(w.Message)))
		}
	}
	return strings.Join(texts, "; ")
}
