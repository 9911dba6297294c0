package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/kube"
)

// runs is a pod whose job runs.
func runs() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Spec.NodeName = "node-1"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: BuildContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return pod
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

func TestThePodSaysWhyItsJobHasEnded(t *testing.T) {
	removed := metav1.NewTime(time.Now())
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string // "" is that it goes on
		cause  error
	}{
		"it runs":          {func(*corev1.Pod) {}, "", nil},
		"it has not begun": {func(p *corev1.Pod) { *p = corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}} }, "", nil},
		"a service of it ended": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, ended3("svc-0", "Error"))
		}, "", nil},
		"somebody deletes it": {func(p *corev1.Pod) { p.DeletionTimestamp = &removed }, "somebody has deleted it", nil},
		"its node is drained": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &removed
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", "Eviction API: evicting")}
		}, "evicted, as when its node is drained: Eviction API: evicting", nil},
		"it is preempted": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &removed
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.DisruptionTarget, corev1.ConditionTrue, "PreemptionByScheduler", "")}
		}, "preempted by a pod with a higher priority", nil},
		"its node has a taint": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &removed
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByTaintManager", "")}
		}, "its node has stopped answering", nil},
		"a reason of later versions": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &removed
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.DisruptionTarget, corev1.ConditionTrue, "SomethingNew", "")}
		}, "SomethingNew", nil},
		"its node evicts it": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		}, "Evicted: The node was low on resource: memory.", nil},
		"the node does not admit it": {func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" }, "OutOfcpu", nil},
		"its containers are not ready": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, "", ""), condition(corev1.ContainersReady, corev1.ConditionFalse, "", "")}
		}, "", nil},
		"its node was lost, in older versions": {func(p *corev1.Pod) { p.Status.Reason = "NodeLost" }, "node-1, has stopped answering", nil},
		"it has no memory left":                {func(p *corev1.Pod) { p.Status.ContainerStatuses[0] = ended3(BuildContainer, "OOMKilled") }, "ran out of memory", executor.ErrOutOfMemory},
		"its step-runner was killed":           {func(p *corev1.Pod) { p.Status.ContainerStatuses[0] = ended3(BuildContainer, "Error") }, "ended with exit code 3", nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := runs()
			c.change(pod)
			gone := ended(pod)
			switch {
			case c.want == "" && gone != nil:
				t.Errorf("it has ended: %v", gone)
			case c.want != "" && (gone == nil || !strings.Contains(gone.Reason, c.want) || c.cause != nil && !errors.Is(gone, c.cause)):
				t.Errorf("it says %v, and not %q", gone, c.want)
			}
		})
	}
}

// ended3 is a container that has ended with code 3.
func ended3(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 3}}}
}

func TestTheFirstContainerThatDoesNotStartIsFound(t *testing.T) {
	for reason, kind := range map[string]kube.TroubleKind{
		"ErrImagePull": kube.Pulling, "ImagePullBackOff": kube.Pulling, "ErrImageNeverPull": kube.Pulling, "InvalidImageName": kube.Misspelt, "CreateContainerConfigError": kube.Configuring,
	} {
		pod := runs()
		pod.Spec.Containers = []corev1.Container{{Name: "svc-0", Image: "postgres"}}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: "svc-0", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}},
		})
		got := kube.Stuck(pod)
		if got == nil || got.Kind != kind || got.Container != "svc-0" || got.Image != "postgres" || got.Message != "why" {
			t.Errorf("%s: %+v", reason, got)
		}
	}
	for _, reason := range []string{"ContainerCreating", "PodInitializing"} {
		pod := runs()
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		if got := kube.Stuck(pod); got != nil {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

func TestANodeMayNotAnswerForAMoment(t *testing.T) {
	lost := runs()
	lost.ResourceVersion = "2"
	lost.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse, "", ""), condition(corev1.ContainersReady, corev1.ConditionTrue, "", "")}
	f := &follower{pod: runs(), wait: time.Hour, changed: make(chan struct{})}
	f.saw(lost)
	late := f.node
	if _, gone, _ := f.now(); gone != nil || late == nil {
		t.Errorf("it is gone at once, or nobody waits: %v", gone)
	}
	f.saw(runs())
	if f.nodeGone(); f.end != nil || late.Stop() {
		t.Errorf("it answers again, and is gone: %v", f.end)
	}
	f.wait = 0
	f.saw(lost)
	for {
		_, gone, changed := f.now()
		if gone != nil {
			if !strings.Contains(gone.Reason, "node-1, has stopped answering") {
				t.Error(gone)
			}
			return
		}
		<-changed
	}
}
