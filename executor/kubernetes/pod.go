package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/steps/containers"
)

// Where things are in a job's container.
const (
	ownFolder    = "/opt/rung"
	binFolder    = ownFolder + "/bin"
	programFile  = binFolder + "/step-runner"
	runFolder    = ownFolder + "/run"
	socketFolder = runFolder + "/socket"
	socketFile   = socketFolder + "/step-runner.sock"
	// ImageProgram is the step-runner in Options.Image.
	ImageProgram = "/step-runner"
)

// The volumes of a pod that are its own.
const (
	programVolume = "rung-program"
	runVolume     = "rung-run"
	buildsVolume  = "rung-builds"
)

// OwnVolumes are the names of those volumes, and OwnMounts where a job's container has volumes of its own: patches and volumes of the operator cannot have them.
var (
	OwnVolumes = []string{programVolume, runVolume, buildsVolume}
	OwnMounts  = []string{binFolder, runFolder}
)

const (
	forJob    = 0o755
	forJobOwn = 0o700
	// podGrace is what the processes of a pod have to end by themselves when somebody else removes it, in seconds.
	podGrace = 10
)

// pullPolicies are those of images, in the words of the cluster.
var pullPolicies = map[string]corev1.PullPolicy{
	container.Always: corev1.PullAlways, container.IfNotPresent: corev1.PullIfNotPresent, container.Never: corev1.PullNever,
}

// plan is how a job's pod is made.
type plan struct {
	executor *Executor
	job      *executor.Job
	template *Template
	name     string
	secret   string         // with logins for registries; "" is none
	tried    map[string]int // how many pull policies of a container's image did not work
}

// policy is the next pull policy of a container's image; false where none is left.
func (p *plan) policy(container string, i *containers.Image) (string, bool) {
	all := i.PullPolicies
	if len(all) == 0 {
		all = p.executor.setup.PullPolicies
	}
	n := p.tried[container]
	if len(all) == 0 {
		return "", n == 0 // the cluster's own
	}
	return all[min(n, len(all)-1)], n < len(all)
}

// pod is the pod of the job.
func (p *plan) pod() (*corev1.Pod, error) {
	t := p.template
	spec := *t.Spec.DeepCopy()
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.EnableServiceLinks = new(bool) // variables for each service of the namespace
	if spec.TerminationGracePeriodSeconds == nil {
		grace := int64(podGrace)
		spec.TerminationGracePeriodSeconds = &grace
	}
	if p.secret != "" {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: p.secret})
	}
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: programVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}})
	if !p.buildsBound() {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: buildsVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	if err := p.platform(&spec); err != nil {
		return nil, err
	}
	for i := range p.job.Services {
		c, err := p.service(i)
		if err != nil {
			return nil, err
		}
		spec.Containers = append(spec.Containers, *c)
		spec.HostAliases = append(spec.HostAliases, aliases(&p.job.Services[i])...)
	}
	build, err := p.build()
	if err != nil {
		return nil, err
	}
	spec.InitContainers, spec.Containers = append(spec.InitContainers, *p.bring(build)), append(spec.Containers, *build)
	for i := range t.Patches {
		patched, err := t.Patches[i].Apply(&spec)
		if err != nil {
			return nil, err
		}
		spec = *patched
	}
	labels, annotations := p.marks()
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Namespace: t.Namespace, Labels: labels, Annotations: annotations}, Spec: spec,
	}, nil
}

// marks are the labels and annotations of what is made. What cannot be the value of a label is an annotation.
func (p *plan) marks() (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{"kubectl.kubernetes.io/default-container": BuildContainer}
	maps.Copy(labels, p.template.Labels)
	maps.Copy(annotations, p.template.Annotations)
	all := map[string]string{label: p.name, jobLabel: p.job.ID}
	maps.Copy(all, p.executor.setup.Labels)
	for name, value := range all {
		if len(validation.IsValidLabelValue(value)) == 0 {
			labels[name] = value
		} else {
			annotations[name] = value
		}
	}
	return labels, annotations
}

// buildsBound reports whether the folder of the projects is a volume of the operator's, which other jobs may have as well.
func (p *plan) buildsBound() bool {
	return slices.ContainsFunc(p.template.Build.VolumeMounts, func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == p.executor.opts.Builds })
}

// builds is the folder that the project's is in.
func (p *plan) builds() string {
	if p.buildsBound() {
		return path.Join(p.executor.opts.Builds, p.name)
	}
	return p.executor.opts.Builds
}

// platform asks for a node on which the job's image runs.
func (p *plan) platform(spec *corev1.PodSpec) error {
	text := strings.ToLower(p.job.Image.Platform)
	if text == "" {
		return nil
	}
	parts := strings.Split(text, "/")
	if len(parts) < 2 || parts[0] != "linux" || parts[1] == "" {
		return &executor.UserError{Message: fmt.Sprintf("%q is not a platform of pods", p.job.Image.Platform), Hint: "write linux/architecture, such as linux/arm64"}
	}
	if spec.NodeSelector == nil {
		spec.NodeSelector = map[string]string{}
	}
	spec.NodeSelector[corev1.LabelArchStable] = parts[1]
	return nil
}

// container is one of a template, with an image and what a user says of it.
func (p *plan) container(name string, of *corev1.Container, i *containers.Image, user string) (*corev1.Container, error) {
	c := of.DeepCopy()
	c.Name, c.Image = name, i.Name
	policy, _ := p.policy(name, i)
	known := false
	if c.ImagePullPolicy, known = pullPolicies[policy]; !known && policy != "" {
		return nil, &executor.UserError{
			Message: fmt.Sprintf("image %s: %q is not a pull policy", i.Name, policy), Hint: "they are always, if-not-present and never",
		}
	}
	if p.job.Privileged {
		rights(c).Privileged = &p.job.Privileged
	}
	if p.template.pinned(of) != nil {
		return c, nil
	}
	return c, runAs(c, i.Name, cmp.Or(user, i.User))
}

func rights(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	return c.SecurityContext
}

// runAs sets the user of a container: a cluster knows numbers alone.
func runAs(c *corev1.Container, image, user string) error {
	if user == "" {
		return nil
	}
	name, group, grouped := strings.Cut(user, ":")
	uid, err := strconv.ParseUint(name, 10, 31)
	gid, groupErr := uint64(0), error(nil)
	if grouped {
		gid, groupErr = strconv.ParseUint(group, 10, 31)
	}
	if err != nil || groupErr != nil {
		return &executor.UserError{
			Message: fmt.Sprintf("image %s: a container of a pod cannot run as the user %q", image, user), Hint: "name it by its number, with or without a group, as in 1000:1000",
		}
	}
	id := int64(uid)
	rights(c).RunAsUser = &id
	if grouped {
		of := int64(gid)
		rights(c).RunAsGroup = &of
	}
	return nil
}

// build is the job's container.
func (p *plan) build() (*corev1.Container, error) {
	c, err := p.container(BuildContainer, &p.template.Build, p.job.Image, p.job.User)
	if err != nil {
		return nil, err
	}
	args := []string{programFile, "init", programFile, "serve", "--socket", socketFile}
	args = append(args, p.executor.setup.Lease.Args()...)
	if p.job.ImageEnv {
		args = append(args, "--pass-environment")
	}
	project := path.Join(p.builds(), p.job.ProjectName)
	for _, folder := range []string{fmt.Sprintf("%04o:%s", forJob, project), fmt.Sprintf("%04o:%s.tmp", forJobOwn, project), fmt.Sprintf("%04o:%s", forJobOwn, socketFolder)} {
		args = append(args, "--folder="+folder)
	}
	args = append(append(args, p.executor.setup.Limits.Args()...), p.executor.setup.Serve...)
	c.Command, c.Args = plain(entrypoint(p.job.Image.Entrypoint)), plain(container.EntrypointArgs(p.job.Image.Entrypoint, args))
	c.WorkingDir = cmp.Or(c.WorkingDir, p.executor.opts.Builds)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: programVolume, MountPath: binFolder, ReadOnly: true}, corev1.VolumeMount{Name: runVolume, MountPath: runFolder})
	p.mountBuilds(c)
	bound(c, p.job.Resources)
	return c, nil
}

func (p *plan) mountBuilds(c *corev1.Container) {
	if !p.buildsBound() {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: buildsVolume, MountPath: p.executor.opts.Builds})
	}
}

// entrypoint is that of a job or a service; nil is the image's own. That of one empty text is none, and then the command is the program.
func entrypoint(given []string) []string {
	return slices.DeleteFunc(slices.Clone(given), func(word string) bool { return word == "" && strings.Join(given, "") == "" })
}

// service is a container of a service.
func (p *plan) service(i int) (*corev1.Container, error) {
	s := &p.job.Services[i]
	c, err := p.container(ServicePrefix+strconv.Itoa(i), &p.template.Services, &s.Image, "")
	if err != nil {
		return nil, err
	}
	if i < len(p.template.EachService) {
		c.Resources = *p.template.EachService[i].DeepCopy()
	}
	c.Command, c.Args = plain(entrypoint(s.Entrypoint)), plain(s.Command)
	env := map[string]string{}
	maps.Copy(env, p.job.ServiceVariables())
	maps.Copy(env, s.Variables)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		_, own := s.Variables[name]
		if variableName.MatchString(name) && (own || name != "PATH") {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: literal(env[name])})
		}
	}
	p.mountBuilds(c)
	bound(c, p.job.ServiceResources)
	return c, nil
}

// variableName is what all clusters take as the name of a variable.
var variableName = regexp.MustCompile(`^[-._a-zA-Z][-._a-zA-Z0-9]*$`)

// literal is a text that the cluster replaces nothing in: it knows variables as $(NAME).
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// plain are arguments that the cluster replaces nothing in.
func plain(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = literal(arg)
	}
	return out
}

// aliases are the names of a service, which the job reaches on its own loopback address. What is no name of a host is left out.
func aliases(s *containers.Service) []corev1.HostAlias {
	var names []string
	for _, name := range s.Names() {
		if len(validation.IsDNS1123Subdomain(strings.ToLower(name))) == 0 {
			names = append(names, strings.ToLower(name))
		}
	}
	if names == nil {
		return nil
	}
	return []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: names}}
}

// bound adds limits that the job is given, where they are below those that the operator has set.
func bound(c *corev1.Container, r executor.Resources) {
	lower := func(name corev1.ResourceName, to resource.Quantity) {
		if had, is := c.Resources.Limits[name]; is && !had.IsZero() && had.Cmp(to) <= 0 { // none is no limit
			return
		}
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		c.Resources.Limits[name] = to
		if asked, is := c.Resources.Requests[name]; is && asked.Cmp(to) > 0 {
			c.Resources.Requests[name] = to
		}
	}
	if r.CPU > 0 {
		lower(corev1.ResourceCPU, *resource.NewMilliQuantity(int64(r.CPU*1000), resource.DecimalSI))
	}
	if r.Memory > 0 {
		lower(corev1.ResourceMemory, *resource.NewQuantity(r.Memory, resource.BinarySI))
	}
}

// bring is the container that brings the step-runner. It runs as the job's user, to whom what it writes belongs.
func (p *plan) bring(build *corev1.Container) *corev1.Container {
	c := p.template.Bring.DeepCopy()
	c.Name = BringContainer
	if c.Image = p.executor.opts.Image; c.Image != "" {
		c.Command, c.Args = []string{ImageProgram, "bootstrap", binFolder}, nil
		if policy := p.executor.setup.PullPolicies; len(policy) > 0 {
			c.ImagePullPolicy = pullPolicies[policy[0]]
		}
	} else {
		c.Image, c.ImagePullPolicy = build.Image, build.ImagePullPolicy
		c.Command, c.Args = []string{"sh", "-c", literal(awaitProgram)}, nil
	}
	if build.SecurityContext != nil {
		rights(c).RunAsUser, rights(c).RunAsGroup = build.SecurityContext.RunAsUser, build.SecurityContext.RunAsGroup
	}
	if len(c.Resources.Limits)+len(c.Resources.Requests) == 0 { // a pod needs the greatest of its containers in turn: this one adds nothing
		c.Resources = build.Resources
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: programVolume, MountPath: binFolder})
	return c
}
