// Package kubernetes says what [runners.kubernetes] of a configuration means on the level of pods.
//
//	config.Kubernetes ──> Options ──> Template: what all pods of the entry have   ──> kubernetes.New
//	                            └──> Adapt: what the variables of a job change    ──> Executor.Prepare
//
// Keys that say which images jobs may have are package policy's; the image, services and pull policies that jobs have without asking are
// package payload's.
//
// Source: executors/kubernetes in gitlab-runner 19.4, and its documentation of the keys.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/kubernetes"
	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/manager/config"
)

// Open makes the level of an entry's pods; k may be nil. builds is the folder of projects; empty is the level's own. Pods are sandboxes where the operator says so, by the entry's level and its runtime class.
func Open(ctx context.Context, k *config.Kubernetes, builds string, level executor.Level, setup executor.Setup) (*kubernetes.Executor, error) {
	if k == nil {
		k = &config.Kubernetes{}
	}
	o, err := Options(k)
	if err != nil {
		return nil, err
	}
	o.Builds, o.Level, setup.PullPolicies = builds, level, k.PullPolicy
	return kubernetes.New(ctx, setup, o)
}

// Options are those of the level. An error is made of *config.KeyError.
func Options(k *config.Kubernetes) (kubernetes.Options, error) {
	if k == nil {
		return kubernetes.Options{}, nil
	}
	r := &reader{}
	o := kubernetes.Options{
		Cluster: kubernetes.Cluster{Host: k.Host, CertFile: k.CertFile, KeyFile: k.KeyFile, CAFile: k.CAFile, Token: k.BearerToken, Context: k.Context},
		Image:   k.StepRunnerImage, StartWithin: k.PollTimeout, Look: k.PollInterval, Removal: k.CleanupTimeout, Tries: k.RetryLimit,
		Pause: time.Duration(k.RetryPauseMax) * time.Millisecond, Quiet: k.PrintPodWarningEvents != nil && !*k.PrintPodWarningEvents,
		OwnLogins: k.AccountPullSecrets,
	}
	if k.CleanupGraceSeconds != nil {
		grace := time.Duration(*k.CleanupGraceSeconds) * time.Second
		o.Grace = &grace
	}
	o.Template = r.template(k)
	r.admitted(k)
	o.Adapt = r.overwrites(k).adapt
	for key, patterns := range map[string][]string{"allowed_images": k.AllowedImages, "allowed_services": k.AllowedServices} {
		for _, p := range patterns {
			if !glob.ValidName(p) {
				r.say(key, "%q is not a pattern: its brackets or braces do not fit together", p)
			}
		}
	}
	slices.SortFunc(r.wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return o, errors.Join(r.wrong...)
}

// reader reads the values of keys, and collects what is wrong with them.
type reader struct{ wrong []error }

func (r *reader) say(key, format string, args ...any) {
	r.wrong = append(r.wrong, &config.KeyError{Key: "kubernetes." + key, Err: fmt.Errorf(format, args...)})
}

// quantity is the value of a key; nil where it is empty.
func (r *reader) quantity(key, text string) *resource.Quantity {
	if text == "" {
		return nil
	}
	q := r.known(text)
	if q == nil {
		r.say(key, `%q is not a quantity, such as "500m" or "2Gi"`, text)
	}
	return q
}

// known is a quantity; nil if the text is not one.
func (*reader) known(text string) *resource.Quantity {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil
	}
	return &q
}

// template is what all pods have.
func (r *reader) template(k *config.Kubernetes) kubernetes.Template {
	t := kubernetes.Template{Namespace: k.Namespace, Labels: maps.Clone(k.PodLabels), Annotations: maps.Clone(k.PodAnnotations)}
	s := &t.Spec
	s.ServiceAccountName, s.AutomountServiceAccountToken = k.ServiceAccount, k.AutomountToken
	s.SchedulerName, s.PriorityClassName = k.SchedulerName, k.PriorityClassName
	s.TerminationGracePeriodSeconds = k.PodTerminationGraceSeconds
	s.NodeSelector, s.Tolerations = maps.Clone(k.NodeSelector), tolerations(k.NodeTolerations)
	if k.RuntimeClassName != "" {
		s.RuntimeClassName = &k.RuntimeClassName
	}
	if !k.AccountPullSecrets {
		for _, name := range k.ImagePullSecrets {
			s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
		}
	}
	s.DNSPolicy = dnsPolicies[strings.ToLower(k.DNSPolicy)]
	s.DNSConfig = translated[corev1.PodDNSConfig](r, "dns_config", k.DNSConfig)
	s.Affinity = translated[corev1.Affinity](r, "affinity", k.Affinity)
	for _, alias := range k.HostAliases {
		s.HostAliases = append(s.HostAliases, corev1.HostAlias{IP: alias.IP, Hostnames: alias.Hostnames})
	}
	s.SecurityContext = translated[corev1.PodSecurityContext](r, "pod_security_context", k.PodSecurity)
	if k.PodSecurity.SELinuxType != "" {
		s.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: k.PodSecurity.SELinuxType}
	}
	if whole := r.resources(quantitiesOf(k, "pod_")); len(whole.Limits)+len(whole.Requests) > 0 {
		s.Resources = &whole
	}
	t.Build = corev1.Container{Resources: r.resources(quantitiesOf(k, "")), SecurityContext: r.security(k, "build_container_security_context", &k.BuildSecurity)}
	t.Build.Lifecycle = translated[corev1.Lifecycle](r, "container_lifecycle", k.Lifecycle)
	t.Services = corev1.Container{Resources: r.resources(quantitiesOf(k, "service_")), SecurityContext: r.security(k, "service_container_security_context", &k.ServiceSecurity)}
	t.Bring = corev1.Container{Resources: r.resources(quantitiesOf(k, "helper_")), SecurityContext: r.security(k, "helper_container_security_context", &k.HelperSecurity)}
	r.volumes(&k.Volumes, &t)
	r.patches(k.PodSpec, &t)
	return t
}

// dnsPolicies are those of the key, in the cluster's words.
var dnsPolicies = map[string]corev1.DNSPolicy{
	"none": corev1.DNSNone, "default": corev1.DNSDefault, "cluster-first": corev1.DNSClusterFirst, "cluster-first-with-host-net": corev1.DNSClusterFirstWithHostNet,
}

// tolerations are those of a table: "key=value", or a key that may have any value, and the effect of the taint.
func tolerations(table map[string]string) (out []corev1.Toleration) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		effect := cased(table[key], corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		if name, value, both := strings.Cut(key, "="); both {
			t.Key, t.Value, t.Operator = name, value, corev1.TolerationOpEqual
		}
		out = append(out, t)
	}
	return out
}

// netRaw is dropped unless the configuration adds it, as in gitlab-runner: with it, a container could pretend to be another on its node's network.
const netRaw = "NET_RAW"

// security are the rights of a kind of container; nil leaves them to the cluster.
func (r *reader) security(k *config.Kubernetes, key string, s *config.ContainerSecurity) *corev1.SecurityContext {
	out := translated[corev1.SecurityContext](r, key, *s)
	if out == nil {
		out = &corev1.SecurityContext{}
	}
	if s.SELinuxType != "" {
		out.SELinuxOptions = &corev1.SELinuxOptions{Type: s.SELinuxType}
	}
	if out.Privileged == nil {
		out.Privileged = k.Privileged
	}
	if out.AllowPrivilegeEscalation == nil {
		out.AllowPrivilegeEscalation = k.AllowPrivilegeEscalation
	}
	if s.ProcMount != "" {
		kinds := map[string]corev1.ProcMountType{"default": corev1.DefaultProcMount, "unmasked": corev1.UnmaskedProcMount}
		kind, known := kinds[strings.ToLower(s.ProcMount)]
		if !known {
			r.say(key+".proc_mount", "%q is neither default nor unmasked", s.ProcMount)
		}
		out.ProcMount = &kind
	}
	for _, name := range k.CapAdd {
		if one := corev1.Capability(name); !slices.Contains(k.CapDrop, name) && (s.Capabilities == nil || s.Capabilities.Add == nil) {
			capabilities(out).Add = append(capabilities(out).Add, one)
		}
	}
	dropped := k.CapDrop
	added := slices.Contains(k.CapAdd, netRaw) || s.Capabilities != nil && slices.Contains(s.Capabilities.Add, netRaw)
	if !added && !slices.Contains(dropped, netRaw) {
		dropped = append(slices.Clone(dropped), netRaw)
	}
	for _, name := range dropped {
		if s.Capabilities == nil || s.Capabilities.Drop == nil {
			capabilities(out).Drop = append(capabilities(out).Drop, corev1.Capability(name))
		}
	}
	return out
}

func capabilities(s *corev1.SecurityContext) *corev1.Capabilities {
	if s.Capabilities == nil {
		s.Capabilities = &corev1.Capabilities{}
	}
	return s.Capabilities
}

// volumes adds volumes, and where they are in containers of jobs and services.
func (r *reader) volumes(v *config.KubernetesVolumes, t *kubernetes.Template) {
	at := func(kind string, i int) string { return fmt.Sprintf("volumes.%s[%d]", kind, i) }
	add := func(key, name, path, sub, propagation string, readOnly bool, source corev1.VolumeSource) {
		m := corev1.VolumeMount{Name: name, MountPath: path, SubPath: sub, ReadOnly: readOnly}
		if propagation != "" {
			p := cased(propagation, corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)
			m.MountPropagation = &p
		}
		r.volume(t, key, corev1.Volume{Name: name, VolumeSource: source}, m)
	}
	for i, one := range v.HostPath {
		from := one.HostPath
		if from == "" {
			from = one.MountPath
		}
		add(at("host_path", i), one.Name, one.MountPath, one.SubPath, one.MountPropagation, one.ReadOnly, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: from}})
	}
	for i, one := range v.PVC {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: one.Name}
		add(at("pvc", i), one.Name, one.MountPath, one.SubPath, one.MountPropagation, one.ReadOnly, corev1.VolumeSource{PersistentVolumeClaim: claim})
	}
	for i, one := range v.ConfigMap {
		from := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: one.Name}, Items: items(one.Items)}
		add(at("config_map", i), one.Name, one.MountPath, one.SubPath, "", one.ReadOnly, corev1.VolumeSource{ConfigMap: from})
	}
	for i, one := range v.Secret {
		add(at("secret", i), one.Name, one.MountPath, one.SubPath, "", one.ReadOnly, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: one.Name, Items: items(one.Items)}})
	}
	for i, one := range v.EmptyDir {
		if !media.MatchString(one.Medium) {
			r.say(at("empty_dir", i)+".medium", "%q is neither Memory nor HugePages, nor HugePages-SIZE", one.Medium)
		}
		from := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMedium(one.Medium), SizeLimit: r.quantity(at("empty_dir", i)+".size_limit", one.SizeLimit)}
		add(at("empty_dir", i), one.Name, one.MountPath, one.SubPath, one.MountPropagation, false, corev1.VolumeSource{EmptyDir: from})
	}
	for i, one := range v.CSI {
		from := &corev1.CSIVolumeSource{Driver: one.Driver, ReadOnly: &one.ReadOnly, VolumeAttributes: one.Attributes}
		if one.FSType != "" {
			from.FSType = &one.FSType
		}
		add(at("csi", i), one.Name, one.MountPath, one.SubPath, "", one.ReadOnly, corev1.VolumeSource{CSI: from})
	}
	for i, one := range v.NFS {
		if one.Server == "" || one.Path == "" {
			r.say(at("nfs", i), "%s has no server or path", one.Name)
		}
		from := &corev1.NFSVolumeSource{Server: one.Server, Path: one.Path, ReadOnly: one.ReadOnly}
		add(at("nfs", i), one.Name, one.MountPath, one.SubPath, "", one.ReadOnly, corev1.VolumeSource{NFS: from})
	}
}

// media are what an empty volume can be on.
var media = regexp.MustCompile(`^(|Memory|HugePages(-[0-9]+[KMG]i)?)$`)

// cased is one of the cluster's words, whatever the case in which the configuration has it.
func cased[T ~string](text string, words ...T) T {
	for _, word := range words {
		if strings.EqualFold(text, string(word)) {
			return word
		}
	}
	return T(text)
}

func items(table map[string]string) (out []corev1.KeyToPath) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		out = append(out, corev1.KeyToPath{Key: key, Path: table[key]})
	}
	return out
}

// patches reads the changes to the spec, and tries each of them on an empty one where that can be done.
func (r *reader) patches(all []config.PodSpecPatch, t *kubernetes.Template) {
	tried, whole := &corev1.PodSpec{}, true
	for i, p := range all {
		key := fmt.Sprintf("pod_spec[%d]", i)
		of := key + ".patch"
		text := []byte(p.Patch)
		if p.PatchPath != "" {
			if p.Patch != "" {
				r.say(key, "%s has both a patch and a patch_path", p.Name)
				continue
			}
			of = key + ".patch_path"
			var err error
			if text, err = os.ReadFile(p.PatchPath); err != nil {
				r.say(of, "%s: %v", p.Name, err)
				continue
			}
		}
		text, err := yaml.YAMLToJSON(text)
		if err != nil {
			r.say(of, "%s is neither YAML nor JSON: %v", p.Name, err)
			continue
		}
		kind := kubernetes.PatchKind(strings.ToLower(p.PatchType))
		if kind == "" {
			kind = kubernetes.StrategicPatch
		}
		patch := kubernetes.Patch{Name: p.Name, Kind: kind, Text: text}
		if kind == kubernetes.JSONPatch { // which is about what is there
			whole = false
		} else {
			after, err := patch.Apply(tried)
			if err != nil {
				r.say(of, "%v", err)
				continue
			}
			tried = after
		}
		t.Patches = append(t.Patches, patch)
	}
	if whole {
		r.patched(tried)
	}
}
