package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rungci/rung/internal/kube"
	"github.com/rungci/rung/sdk/instancegroup"
)

// machineOf is what there is to know of the machine in a pod.
func (c *cloud) machineOf(pod *corev1.Pod) instancegroup.Machine {
	notes := pod.Annotations
	m := instancegroup.Machine{Instance: instancegroup.Instance{
		ID: pod.Name, Shape: notes[shapeNote], Zone: notes[zoneNote], Created: pod.CreationTimestamp.Time,
	}}
	m.Spot, _ = strconv.ParseBool(notes[spotNote])
	_ = json.Unmarshal([]byte(notes[labelsNote]), &m.Labels) // what somebody has spoiled has no owner, and is left alone
	if c.Reach == reachPod && pod.Status.PodIP != "" {
		m.Addresses = []string{pod.Status.PodIP}
	}
	m.State, m.Reason = c.state(pod, time.Now())
	if pod.DeletionTimestamp != nil && !c.isEnding(pod) {
		m.Interruption = &instancegroup.Interruption{At: pod.DeletionTimestamp.Time, Reason: cmp.Or(kube.Disruption(pod), "somebody has deleted its pod")}
	}
	return m
}

// state is what a machine is doing, and why. One that has failed once stays so: a cluster tries to pull an image again, and a node may come back.
func (c *cloud) state(pod *corev1.Pod, now time.Time) (instancegroup.State, string) {
	if c.isEnding(pod) {
		return instancegroup.StateDeleting, ""
	}
	reason := failed(pod)
	if reason == "" && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil && now.Sub(pod.CreationTimestamp.Time) > c.startTime() {
		reason = fmt.Sprintf("its pod did not start within %s%s", c.startTime(), kube.After(kube.Waiting(pod)))
	}
	if reason = c.stays(pod, reason); reason != "" {
		return instancegroup.StateFailed, reason
	}
	status := kube.StatusOf(pod.Status.ContainerStatuses, machineContainer)
	runs := pod.Status.Phase == corev1.PodRunning && status != nil && status.State.Running != nil
	switch {
	case pod.DeletionTimestamp != nil && (!runs || kube.Disruption(pod) == ""):
		return instancegroup.StateDeleting, "somebody has deleted its pod"
	case runs: // also one that is about to be taken away: jobs have the time until then
		return instancegroup.StateRunning, ""
	}
	return instancegroup.StateCreating, kube.Waiting(pod)
}

// failed is why a machine cannot run, or cannot run any more; "" if it can, or may.
func failed(pod *corev1.Pod) string {
	s := &pod.Status
	status := kube.StatusOf(s.ContainerStatuses, machineContainer)
	stopped := fmt.Sprintf("its node %s has stopped answering", pod.Spec.NodeName)
	switch {
	case s.Reason == "NodeLost" || s.Phase == corev1.PodUnknown:
		return stopped + kube.After(s.Message)
	case pod.DeletionTimestamp == nil && kube.NodeLost(pod):
		return stopped
	case s.Phase == corev1.PodFailed && s.Reason != "":
		return "its pod has failed: " + s.Reason + kube.After(cmp.Or(s.Message, kube.Disruption(pod)))
	case status != nil && status.State.Terminated != nil && !kube.Stays(status.State.Terminated.Reason):
		t := status.State.Terminated
		if t.Reason == "OOMKilled" {
			return fmt.Sprintf("it ran out of memory and was killed: OOMKilled (exit code %d)", t.ExitCode)
		}
		return fmt.Sprintf("its container has ended with exit code %d%s", t.ExitCode, kube.After(t.Message))
	case s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded:
		return "its pod has ended" + kube.After(cmp.Or(s.Message, stuck(pod)))
	}
	return stuck(pod)
}

// stuck is why a container does not start, and will not; "" if there is none.
func stuck(pod *corev1.Pod) string {
	t := kube.Stuck(pod)
	if t == nil {
		return ""
	}
	return fmt.Sprintf("its container %s, of image %s, does not start: %s%s", t.Container, t.Image, t.Reason, kube.After(t.Message))
}

// stays is the reason for which a machine has failed, now or before; "" if it has not.
func (c *cloud) stays(pod *corev1.Pod, reason string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.failed[pod.UID]; before != "" {
		return before
	}
	if reason != "" {
		c.failed[pod.UID] = reason
	}
	return reason
}

// isEnding reports whether the fleet has deleted a machine: so this process knows, or the pod says so by the time that it was given.
func (c *cloud) isEnding(pod *corev1.Pod) bool {
	if grace := pod.DeletionGracePeriodSeconds; pod.DeletionTimestamp != nil && grace != nil && *grace <= int64(endGrace/time.Second) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending[pod.Name]
}
