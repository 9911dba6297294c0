package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rungci/rung/sdk/instancegroup"
)

// runs is the pod of a machine that runs.
func runs(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "rung-1", UID: types.UID("uid"), CreationTimestamp: metav1.Now()},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: machineContainer, Image: "debian"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: machineContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
	change(pod)
	return pod
}

// deleted is a pod that is to be gone in a minute, which is what it was given.
func deleted(pod *corev1.Pod, grace int64) {
	then := metav1.NewTime(time.Now().Add(time.Minute))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &then, &grace
}

func pending(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
}

func TestTheStateOfAPodIsThatOfItsMachine(t *testing.T) {
	ends := func(reason string, code int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		state  instancegroup.State
		reason string // a part of it
		notice string // a part of that of an interruption
	}{
		"it runs":          {func(*corev1.Pod) {}, instancegroup.StateRunning, "", ""},
		"no node is known": {pending, instancegroup.StateCreating, "", ""},
		"no node has room": {func(p *corev1.Pod) {
			pending(p)
			condition(p, corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available")
		}, instancegroup.StateCreating, "0/3 nodes are available", ""},
		"no node had room": {func(p *corev1.Pod) {
			pending(p)
			p.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
			condition(p, corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available")
		}, instancegroup.StateFailed, "did not start within 10m0s: 0/3 nodes are available", ""},
		"its image is not there": {func(p *corev1.Pod) {
			pending(p)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: machineContainer, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such"}}}}
		}, instancegroup.StateFailed, "ImagePullBackOff: no such", ""},
		"it ran out of memory": {ends("OOMKilled", 137), instancegroup.StateFailed, "OOMKilled (exit code 137)", ""},
		"its server has ended": {ends("Error", 1), instancegroup.StateFailed, "exit code 1", ""},
		"its node has evicted it": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "the node was low on memory"
		}, instancegroup.StateFailed, "Evicted: the node was low on memory", ""},
		"its node is lost": {func(p *corev1.Pod) {
			condition(p, corev1.PodReady, corev1.ConditionFalse, "", "")
			condition(p, corev1.ContainersReady, corev1.ConditionTrue, "", "")
		}, instancegroup.StateFailed, "node-1 has stopped answering", ""},
		"its node is drained": {func(p *corev1.Pod) {
			deleted(p, 60)
			condition(p, corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", "")
		}, instancegroup.StateRunning, "", "evicted"},
		"somebody deletes it": {func(p *corev1.Pod) { deleted(p, 60) }, instancegroup.StateDeleting, "somebody has deleted its pod", "somebody has deleted its pod"},
		"a plugin has deleted it": {func(p *corev1.Pod) {
			deleted(p, 1)
			condition(p, corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", "")
		}, instancegroup.StateDeleting, "", ""},
	} {
		cloud := &cloud{Options: Options{StartTimeout: defaultStartTimeout}, failed: map[types.UID]string{}, ending: map[string]bool{}}
		pod := runs(c.change)
		got := cloud.machineOf(pod)
		if got.State != c.state || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %s, %q", name, got.State, got.Reason)
		}
		if (got.Interruption != nil) != (c.notice != "") || got.Interruption != nil && (!strings.Contains(got.Interruption.Reason, c.notice) || got.Interruption.At.IsZero()) {
			t.Errorf("%s: the notice is %+v", name, got.Interruption)
		}
		if c.state == instancegroup.StateFailed { // it does not come back
			if got := cloud.machineOf(runs(func(*corev1.Pod) {})); got.State != instancegroup.StateFailed {
				t.Errorf("%s: then it is %s", name, got.State)
			}
		}
	}
}
