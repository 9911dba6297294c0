package kubernetes

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/kube"
)

// The containers of a pod. Services are svc-0, svc-1 and so on.
const (
	BringContainer = "step-runner"
	BuildContainer = "build"
	ServicePrefix  = "svc-"
)

// ended says why a pod cannot run its job any more; nil where it can, or may once it has started.
func ended(pod *corev1.Pod) *executor.Gone {
	s := &pod.Status
	build := kube.StatusOf(s.ContainerStatuses, BuildContainer)
	switch {
	case pod.DeletionTimestamp != nil:
		return &executor.Gone{Reason: "its pod is being removed: " + cmp.Or(kube.Disruption(pod), "somebody has deleted it")}
	case s.Reason == "NodeLost" || s.Phase == corev1.PodUnknown:
		return &executor.Gone{Reason: fmt.Sprintf("the node of its pod, %s, has stopped answering%s", pod.Spec.NodeName, kube.After(s.Message))}
	case s.Phase == corev1.PodFailed && s.Reason != "":
		return &executor.Gone{Reason: fmt.Sprintf("its pod has failed: %s%s", s.Reason, kube.After(cmp.Or(s.Message, kube.Disruption(pod))))}
	case build != nil && build.State.Terminated != nil:
		return terminated(build.State.Terminated)
	case s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded:
		return &executor.Gone{Reason: "its pod has ended" + kube.After(s.Message)}
	}
	return nil
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
	return &executor.Gone{Reason: reason + kube.After(s.Message)}
}
