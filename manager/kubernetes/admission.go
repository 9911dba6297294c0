package kubernetes

import (
	"fmt"
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rungci/rung/executor/kubernetes"
	"github.com/rungci/rung/manager/config"
)

// admitted finds what the API server would refuse in the pod of each job. What jobs or patches may change is left to it.
func (r *reader) admitted(k *config.Kubernetes) {
	for i, alias := range k.HostAliases {
		at := fmt.Sprintf("host_aliases[%d]", i)
		if ip, err := netip.ParseAddr(alias.IP); err != nil || ip.Zone() != "" {
			r.say(at+".ip", "%q is not an IP address", alias.IP)
		}
		for _, name := range alias.Hostnames {
			if len(validation.IsDNS1123Subdomain(name)) > 0 {
				r.say(at+".hostnames", "%q is not a name of a host: it has small letters, digits, dashes and dots", name)
			}
		}
	}
	if len(k.PodSpec) > 0 {
		return
	}
	for _, prefix := range []string{"", "service_", "helper_", "pod_"} {
		limits := map[corev1.ResourceName]quantity{}
		for _, one := range quantitiesOf(k, prefix).all {
			if one.limit {
				limits[one.of] = one
				continue
			}
			limit := limits[one.of]
			if most, asked := r.known(limit.value), r.known(one.value); limit.max == "" && one.max == "" && most != nil && asked != nil && asked.Cmp(*most) > 0 {
				r.say(one.key, "%s is more than %s, %s", one.value, limit.key, limit.value)
			}
		}
	}
}

// services are the containers of services.
var services = regexp.MustCompile(`^` + kubernetes.ServicePrefix + `[0-9]+$`)

// patched finds containers in what patches have made of an empty spec that pods do not have, as gitlab-runner's helper: one without an image is meant to be
// there, and the cluster would refuse it.
func (r *reader) patched(spec *corev1.PodSpec) {
	for _, of := range []struct {
		list []corev1.Container
		own  func(name string) bool
	}{
		{spec.InitContainers, func(name string) bool { return name == kubernetes.BringContainer }},
		{spec.Containers, func(name string) bool { return name == kubernetes.BuildContainer || services.MatchString(name) }},
	} {
		for _, c := range of.list {
			if c.Image == "" && !of.own(c.Name) {
				r.say("pod_spec", "pods have no container %q, and the patch has no image for one: they have %s, %s0, %s1 and so on, and the init container %s",
					c.Name, kubernetes.BuildContainer, kubernetes.ServicePrefix, kubernetes.ServicePrefix, kubernetes.BringContainer)
			}
		}
	}
}

// volume adds a volume, and where it is in containers of jobs and services. The same one may be in several places.
func (r *reader) volume(t *kubernetes.Template, key string, v corev1.Volume, m corev1.VolumeMount) {
	fixed := func(text string) bool { return !strings.Contains(text, "$") } // variables of the job have no values yet
	switch {
	case v.Name == "" || m.MountPath == "":
		r.say(key, "a volume has no name or mount_path")
		return
	case slices.Contains(kubernetes.OwnVolumes, v.Name):
		r.say(key+".name", "pods have a volume %s of their own: choose another name", v.Name)
	case slices.Contains(kubernetes.OwnMounts, path.Clean("/"+m.MountPath)):
		r.say(key+".mount_path", "%s has the step-runner of the job: choose another path", m.MountPath)
	case fixed(v.Name) && len(validation.IsDNS1123Label(v.Name)) > 0:
		r.say(key+".name", "%q cannot be the name of a volume: it has small letters, digits and dashes, at most %d", v.Name, validation.DNS1123LabelMaxLength)
	case fixed(m.SubPath) && (path.IsAbs(m.SubPath) || slices.Contains(strings.Split(m.SubPath, "/"), "..")):
		r.say(key+".sub_path", "%q is not a path within the volume", m.SubPath)
	}
	if slices.ContainsFunc(t.Build.VolumeMounts, func(other corev1.VolumeMount) bool { return other.MountPath == m.MountPath }) {
		r.say(key+".mount_path", "another volume is in %s", m.MountPath)
	}
	t.Build.VolumeMounts = append(t.Build.VolumeMounts, m)
	t.Services.VolumeMounts = append(t.Services.VolumeMounts, m)
	i := slices.IndexFunc(t.Spec.Volumes, func(other corev1.Volume) bool { return other.Name == v.Name })
	if i < 0 {
		t.Spec.Volumes = append(t.Spec.Volumes, v)
	} else if !reflect.DeepEqual(t.Spec.Volumes[i], v) {
		r.say(key+".name", "another volume has the name %q", v.Name)
	}
}
