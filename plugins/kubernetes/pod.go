package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rungci/rung/executor/host/brought"
	"github.com/rungci/rung/sdk/instancegroup"
)

// What a pod is made of.
const (
	machineContainer = "machine"
	bringContainer   = "rung-bring"
	programVolume    = "rung-program"
	runVolume        = "rung-run"
	// imageProgram is this program in Options.ServerImage.
	imageProgram = "/group-plugin-kubernetes"
)

// What a pod says of its machine. Labels of Kubernetes have few letters, so that all of them are in an annotation as well, as they were asked for.
const (
	ownerLabel = "rung.machine/owner" // the owner, or its digest
	labelsNote = "rung.machine/labels"
	shapeNote  = "rung.machine/shape"
	zoneNote   = "rung.machine/zone"
	spotNote   = "rung.machine/spot"
)

const (
	// nameLength is how many hexadecimal digits the name of a pod has.
	nameLength = 20
	// runSize bounds the folder with the keys of a machine, in bytes of memory.
	runSize = 1 << 20
)

// containerOf is the machine's container; nil if there is none.
func containerOf(spec *corev1.PodSpec) *corev1.Container {
	if i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == machineContainer }); i >= 0 {
		return &spec.Containers[i]
	}
	return nil
}

// podName is the name of the pod of an order: the same when it is repeated, and no other's.
func podName(owner, order string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + order))
	return "rung-" + hex.EncodeToString(sum[:])[:nameLength]
}

// labelValue is a text as the value of a label: itself, or its digest.
func labelValue(text string) string {
	if text != "" && len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + hex.EncodeToString(sum[:])[:nameLength]
}

// pod is the pod of an order.
func (c *cloud) pod(order instancegroup.Order, shape *Shape) (*corev1.Pod, error) {
	t := c.template.DeepCopy()
	spec := &t.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	no := false
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = &no // variables for each service of the namespace
	}
	if spec.AutomountServiceAccountToken == nil {
		spec.AutomountServiceAccountToken = &no // it is not for jobs
	}
	selector := map[string]string{corev1.LabelOSStable: "linux"}
	maps.Copy(selector, spec.NodeSelector)
	spec.NodeSelector = selector
	m := containerOf(spec)
	if shape != nil {
		shape.apply(spec, m)
	}
	if c.Server == serverBrought {
		c.bring(spec, m)
	}
	labels, notes, err := c.marks(order, shape)
	if err != nil {
		return nil, err
	}
	meta := t.ObjectMeta
	meta.Name, meta.GenerateName, meta.Namespace = podName(c.settings.Owner, order.Name), "", c.Namespace
	meta.Labels, meta.Annotations = merged(meta.Labels, labels), merged(meta.Annotations, notes)
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: meta, Spec: *spec}, nil
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// marks are the labels and annotations of a machine.
func (c *cloud) marks(order instancegroup.Order, shape *Shape) (labels, notes map[string]string, err error) {
	text, err := json.Marshal(order.Labels)
	if err != nil {
		return nil, nil, err
	}
	labels = map[string]string{}
	notes = map[string]string{labelsNote: string(text), "kubectl.kubernetes.io/default-container": machineContainer}
	for key, value := range order.Labels { // for people, and for what counts costs
		if len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	labels[ownerLabel], labels["app.kubernetes.io/managed-by"] = labelValue(c.settings.Owner), "rung"
	if shape != nil {
		notes[shapeNote], notes[zoneNote], notes[spotNote] = shape.Name, shape.Zone, strconv.FormatBool(shape.Spot)
	}
	return labels, notes, nil
}

// apply makes a pod one of a shape.
func (s *Shape) apply(spec *corev1.PodSpec, m *corev1.Container) {
	maps.Copy(spec.NodeSelector, s.NodeSelector)
	for key, value := range map[string]string{corev1.LabelArchStable: s.Arch, corev1.LabelTopologyZone: s.Zone} {
		if value != "" {
			spec.NodeSelector[key] = value
		}
	}
	if s.RuntimeClass != "" {
		spec.RuntimeClassName = &s.RuntimeClass
	}
	if s.Image != "" {
		m.Image = s.Image
	}
	const milli = 1000
	room := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(s.CPUs*milli), resource.DecimalSI), corev1.ResourceMemory: s.memory,
	}
	if !s.disk.IsZero() {
		room[corev1.ResourceEphemeralStorage] = s.disk
	}
	if s.GPUs > 0 {
		room[corev1.ResourceName(s.GPUResource)] = *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)
	}
	for _, of := range []*corev1.ResourceList{&m.Resources.Limits, &m.Resources.Requests} {
		if *of == nil {
			*of = corev1.ResourceList{}
		}
		maps.Copy(*of, room)
	}
}

// awaitProgram waits until Connect has sent the program, and becomes it.
const awaitProgram = `until [ -x ` + brought.Program + ` ]; do sleep 0.1 2>/dev/null || sleep 1; done; exec ` + brought.Program + ` "$@"`

// bring has this program run in the machine's container, as its SSH server.
func (c *cloud) bring(spec *corev1.PodSpec, m *corev1.Container) {
	size := resource.NewQuantity(runSize, resource.BinarySI)
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: programVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: size}}})
	program := corev1.VolumeMount{Name: programVolume, MountPath: brought.BinFolder}
	m.VolumeMounts = append(m.VolumeMounts, program, corev1.VolumeMount{Name: runVolume, MountPath: brought.RunFolder})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)) // no other pod reaches it
	if c.Reach == reachPod {
		address = fmt.Sprintf(":%d", c.Port)
	}
	args := []string{machineArgument, "serve", address}
	if c.ServerImage == "" {
		m.Command = append([]string{"sh", "-c", awaitProgram, "sh"}, args...)
		return
	}
	m.Command = append([]string{brought.Program}, args...)
	bring := corev1.Container{
		Name: bringContainer, Image: c.ServerImage, Command: []string{imageProgram, machineArgument, "bring", brought.BinFolder},
		VolumeMounts: []corev1.VolumeMount{program}, Resources: *m.Resources.DeepCopy(), // a pod needs the greatest of its containers in turn: this one adds nothing
	}
	if rights := m.SecurityContext; rights != nil {
		bring.SecurityContext = rights.DeepCopy()
	}
	spec.InitContainers = append([]corev1.Container{bring}, spec.InitContainers...)
}
