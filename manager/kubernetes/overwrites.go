package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/kubernetes"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/event"
)

// overwrites are what variables of a job may change, as far as the operator allows.
type overwrites struct {
	namespace, account                      *regexp.Regexp // nil allows nothing
	labels, annotations, selector, tolerate *regexp.Regexp
	tolerations                             map[string]string // of the configuration
	build, service, helper, pod             quantities
}

func (r *reader) overwrites(k *config.Kubernetes) *overwrites {
	return &overwrites{
		namespace: r.pattern("namespace_overwrite_allowed", k.NamespaceOverwriteAllowed), account: r.pattern("service_account_overwrite_allowed", k.ServiceAccountAllowed),
		labels: r.pattern("pod_labels_overwrite_allowed", k.PodLabelsAllowed), annotations: r.pattern("pod_annotations_overwrite_allowed", k.PodAnnotationsAllowed),
		selector: r.pattern("node_selector_overwrite_allowed", k.NodeSelectorAllowed), tolerate: r.pattern("node_tolerations_overwrite_allowed", k.NodeTolerationsAllowed),
		tolerations: k.NodeTolerations,
		build:       quantitiesOf(k, ""), service: quantitiesOf(k, "service_"), helper: quantitiesOf(k, "helper_"), pod: quantitiesOf(k, "pod_"),
	}
}

// pattern is a regular expression, which matches anywhere in a value, as in gitlab-runner; nil where it is empty.
func (r *reader) pattern(key, text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	p, err := regexp.Compile(text)
	if err != nil {
		r.say(key, "%v", err)
	}
	return p
}

// adapt is kubernetes.Options.Adapt.
func (o *overwrites) adapt(job *executor.Job, t *kubernetes.Template) error {
	values := job.Variables
	expand := func(text string) string { return os.Expand(text, func(name string) string { return values[name] }) }
	for name, value := range t.Labels {
		t.Labels[name] = labelOf(expand(value))
	}
	for name, value := range t.Annotations {
		t.Annotations[name] = expand(value)
	}
	places(t, expand)
	if err := choose(&t.Namespace, o.namespace, validation.IsDNS1123Label, values, "KUBERNETES_NAMESPACE_OVERWRITE", "namespace_overwrite_allowed"); err != nil {
		return err
	}
	if err := choose(&t.Spec.ServiceAccountName, o.account, validation.IsDNS1123Subdomain, values, "KUBERNETES_SERVICE_ACCOUNT_OVERWRITE", "service_account_overwrite_allowed"); err != nil {
		return err
	}
	tolerated := maps.Clone(o.tolerations)
	for _, of := range []struct {
		table   *map[string]string
		allowed *regexp.Regexp
		prefix  string
		key     string
		split   func(string) (string, string, bool)
	}{
		{&t.Labels, o.labels, "KUBERNETES_POD_LABELS_", "pod_labels_overwrite_allowed", atEquals},
		{&t.Annotations, o.annotations, "KUBERNETES_POD_ANNOTATIONS_", "pod_annotations_overwrite_allowed", atEquals},
		{&t.Spec.NodeSelector, o.selector, "KUBERNETES_NODE_SELECTOR_", "node_selector_overwrite_allowed", atEquals},
		{&tolerated, o.tolerate, "KUBERNETES_NODE_TOLERATIONS_", "node_tolerations_overwrite_allowed", func(text string) (string, string, bool) {
			key, effect, _ := strings.Cut(text, ":")
			return key, effect, true
		}},
	} {
		if err := add(of.table, of.allowed, values, of.prefix, of.key, of.split); err != nil {
			return err
		}
	}
	t.Spec.Tolerations = tolerations(tolerated)
	return o.resources(job, t)
}

// resources are what a job asks for.
func (o *overwrites) resources(job *executor.Job, t *kubernetes.Template) error {
	whole := corev1.ResourceRequirements{}
	if t.Spec.Resources != nil {
		whole = *t.Spec.Resources
	}
	for _, of := range []struct {
		allowed quantities
		to      *corev1.ResourceRequirements
	}{{o.build, &t.Build.Resources}, {o.service, &t.Services.Resources}, {o.helper, &t.Bring.Resources}, {o.pod, &whole}} {
		if err := of.allowed.overwrite(of.to, job.Variables); err != nil {
			return err
		}
	}
	if len(whole.Limits)+len(whole.Requests) > 0 {
		t.Spec.Resources = &whole
	}
	for i := range job.Services {
		own := *t.Services.Resources.DeepCopy()
		if err := o.service.overwrite(&own, job.Services[i].Variables); err != nil {
			return err
		}
		t.EachService = append(t.EachService, own)
	}
	return nil
}

// overwrite sets what variables ask for, where the configuration says how much that may be.
func (q quantities) overwrite(to *corev1.ResourceRequirements, values map[string]string) error {
	for _, one := range q.all {
		name := "KUBERNETES_" + strings.ToUpper(one.key)
		asked := values[name]
		if asked == "" || one.max == "" {
			continue
		}
		value, err := resource.ParseQuantity(asked)
		if err != nil {
			return &executor.UserError{Message: fmt.Sprintf("%s = %q is not a quantity", name, asked), Hint: `write it as "500m" or "2Gi"`, Err: err}
		}
		if value.Sign() < 0 {
			return &executor.UserError{Message: fmt.Sprintf("%s = %s is less than nothing", name, asked), Hint: `write it as "500m" or "2Gi"`}
		}
		if one.limit && value.IsZero() {
			return denied(one.key+"_overwrite_max_allowed", "%s = %s means no limit, which is more than jobs of this runner may ask for, %s", name, asked, one.max)
		}
		if most := resource.MustParse(one.max); value.Cmp(most) > 0 { // it was read with the configuration
			return denied(one.key+"_overwrite_max_allowed", "%s = %s is more than jobs of this runner may ask for, %s", name, asked, one.max)
		}
		put(to, one, value)
	}
	return nil
}

func put(to *corev1.ResourceRequirements, q quantity, value resource.Quantity) {
	list := &to.Requests
	if q.limit {
		list = &to.Limits
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[q.of] = value
}

// choose takes the value of a variable, where the configuration has a pattern that matches it.
func choose(to *string, allowed *regexp.Regexp, wrong func(string) []string, values map[string]string, name, key string) error {
	value := values[name]
	if allowed == nil || value == "" {
		return nil
	}
	if !allowed.MatchString(value) {
		return denied(key, "%s = %q does not match %q", name, value, allowed)
	}
	if why := wrong(value); len(why) > 0 {
		return &executor.UserError{Message: fmt.Sprintf("%s = %q cannot be a name in a cluster", name, value), Hint: strings.Join(why, "; ")}
	}
	*to = value
	return nil
}

// add takes the values of all variables with a prefix into a table.
func add(to *map[string]string, allowed *regexp.Regexp, values map[string]string, prefix, key string, split func(string) (string, string, bool)) error {
	if allowed == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if !allowed.MatchString(values[name]) {
			return denied(key, "%s = %q does not match %q", name, values[name], allowed)
		}
		left, right, ok := split(values[name])
		if !ok {
			return &executor.UserError{Message: fmt.Sprintf("%s = %q has no value", name, values[name]), Hint: "write name=value"}
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[left] = right
	}
	return nil
}

func atEquals(text string) (name, value string, ok bool) { return strings.Cut(text, "=") }

func denied(key, format string, args ...any) error {
	err := event.NewError(event.CodeDenied, "%s (runners.kubernetes.%s)", fmt.Sprintf(format, args...), key)
	err.Hint = "ask for what the runner allows, or use another runner"
	return err
}

// places replaces variables in the names of claims, and in where volumes are.
func places(t *kubernetes.Template, expand func(string) string) {
	renamed := map[string]string{}
	for i := range t.Spec.Volumes {
		if v := &t.Spec.Volumes[i]; v.PersistentVolumeClaim != nil {
			name := expand(v.Name)
			renamed[v.Name] = name
			v.Name, v.PersistentVolumeClaim.ClaimName = name, name
		}
	}
	for _, mounts := range [][]corev1.VolumeMount{t.Build.VolumeMounts, t.Services.VolumeMounts} {
		for i := range mounts {
			m := &mounts[i]
			m.Name, m.MountPath, m.SubPath = cmp.Or(renamed[m.Name], m.Name), expand(m.MountPath), expand(m.SubPath)
		}
	}
}

// labelOf is a text without what a label cannot have.
func labelOf(text string) string {
	const longest = validation.LabelValueMaxLength
	text = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, text)
	return strings.Trim(text[:min(len(text), longest)], "-_.")
}
