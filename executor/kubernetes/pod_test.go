package kubernetes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// planned is the pod of a job, of a cluster that nobody asks.
func planned(t *testing.T, o Options, setup executor.Setup, job *executor.Job) (*corev1.Pod, error) {
	t.Helper()
	o.Cluster.Host, setup.State = "https://192.0.2.1", t.TempDir()
	e, err := New(context.Background(), setup, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	template := e.opts.Template.clone()
	return (&plan{executor: e, job: job, template: &template, name: "rung-job-abc", tried: map[string]int{}}).pod()
}

func jobOf(image string) *executor.Job {
	return &executor.Job{ID: "job", ProjectName: "project", Image: &containers.Image{Name: image}}
}

func TestTheClusterReplacesNothingInWhatAJobSays(t *testing.T) {
	job := jobOf("alpine")
	job.Variables = map[string]string{"PLAIN": "a$(HOME)b$$c", "BAD NAME": "x", "PATH": "/nowhere"}
	job.Services = []containers.Service{{Image: containers.Image{Name: "postgres:16", Entrypoint: []string{"sh", "-c", "echo $(date)"}}, Command: []string{"$(X)"}, Variables: map[string]string{"PGDATA": "$(Y)"}}}
	pod, err := planned(t, Options{}, executor.Setup{}, job)
	if err != nil {
		t.Fatal(err)
	}
	service := pod.Spec.Containers[0]
	want := []corev1.EnvVar{{Name: "PGDATA", Value: "$$(Y)"}, {Name: "PLAIN", Value: "a$$(HOME)b$$$$c"}}
	if !slices.Equal(service.Env, want) || service.Command[2] != "echo $$(date)" || service.Args[0] != "$$(X)" {
		t.Errorf("%+v", service)
	}
	if aliases := pod.Spec.HostAliases; len(aliases) != 1 || aliases[0].IP != "127.0.0.1" || !slices.Equal(aliases[0].Hostnames, []string{"postgres"}) {
		t.Errorf("%+v", aliases)
	}
}

func TestWhatContainersAreMadeOf(t *testing.T) {
	three, pinned := resource.MustParse("3"), int64(1234)
	askForRoot := func(j *executor.Job) {
		j.Image.User = "0:0"
		j.Services = []containers.Service{{Image: containers.Image{Name: "db", User: "0"}}}
	}
	for name, c := range map[string]struct {
		options Options
		change  func(*executor.Job)
		check   func(*corev1.PodSpec) bool
	}{
		"an image keeps its entrypoint": {Options{}, func(*executor.Job) {}, func(s *corev1.PodSpec) bool {
			return len(s.Containers[0].Command) == 0 && s.Containers[0].Args[0] == programFile
		}},
		"an empty entrypoint is none": {Options{}, func(j *executor.Job) { j.Image.Entrypoint = []string{""} }, func(s *corev1.PodSpec) bool { return len(s.Containers[0].Command) == 0 }},
		"users are numbers": {Options{}, func(j *executor.Job) { j.Image.User = "1000:1001" }, func(s *corev1.PodSpec) bool {
			of := s.Containers[0].SecurityContext
			return *of.RunAsUser == 1000 && *of.RunAsGroup == 1001 && *s.InitContainers[0].SecurityContext.RunAsUser == 1000
		}},
		"the user that the operator sets for pods stays": {Options{Template: Template{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: &pinned}}}}, askForRoot, func(s *corev1.PodSpec) bool {
			return *s.SecurityContext.RunAsUser == pinned && !slices.ContainsFunc(slices.Concat(s.InitContainers, s.Containers), func(c corev1.Container) bool {
				return c.SecurityContext != nil && (c.SecurityContext.RunAsUser != nil || c.SecurityContext.RunAsGroup != nil)
			})
		}},
		"that for a kind of container, too": {Options{Template: Template{Build: corev1.Container{SecurityContext: &corev1.SecurityContext{RunAsUser: &pinned}}}}, askForRoot, func(s *corev1.PodSpec) bool {
			return *s.Containers[1].SecurityContext.RunAsUser == pinned && *s.InitContainers[0].SecurityContext.RunAsUser == pinned && *s.Containers[0].SecurityContext.RunAsUser == 0
		}},
		"a platform is a label of nodes": {Options{}, func(j *executor.Job) { j.Image.Platform = "linux/arm64" }, func(s *corev1.PodSpec) bool { return s.NodeSelector[corev1.LabelArchStable] == "arm64" }},
		"an image brings the step-runner, where one has it": {Options{Image: "runner@sha256:1"}, func(*executor.Job) {}, func(s *corev1.PodSpec) bool {
			return s.InitContainers[0].Image == "runner@sha256:1" && s.InitContainers[0].Command[0] == ImageProgram
		}},
		"a limit of a job lowers that of the operator": {Options{Template: Template{Build: corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: three}, Requests: corev1.ResourceList{corev1.ResourceCPU: three}}}}},
			func(j *executor.Job) { j.Resources.CPU = 1.5 }, func(s *corev1.PodSpec) bool {
				r := s.Containers[0].Resources
				return r.Limits.Cpu().String() == "1500m" && r.Requests.Cpu().String() == "1500m"
			}},
		"and raises none": {Options{Template: Template{Build: corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: three}}}}},
			func(j *executor.Job) { j.Resources.CPU = 5 }, func(s *corev1.PodSpec) bool { return s.Containers[0].Resources.Limits.Cpu().String() == "3" }},
		"none of the operator's is no limit": {Options{Template: Template{Build: corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}}}}},
			func(j *executor.Job) { j.Resources.CPU = 5 }, func(s *corev1.PodSpec) bool { return s.Containers[0].Resources.Limits.Cpu().String() == "5" }},
		"a volume of the operator has the projects, apart from those of others": {Options{Template: Template{Build: corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "all", MountPath: "/builds/"}}}}}, func(*executor.Job) {}, func(s *corev1.PodSpec) bool {
			return slices.Contains(s.Containers[0].Args, "--folder=0755:/builds/rung-job-abc/project") && !slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == buildsVolume })
		}},
		"projects are where the operator says": {Options{Builds: "/scratch/"}, func(j *executor.Job) { j.Services = []containers.Service{{Image: containers.Image{Name: "db"}}} }, func(s *corev1.PodSpec) bool {
			in := func(m corev1.VolumeMount) bool { return m.Name == buildsVolume && m.MountPath == "/scratch" }
			return slices.Contains(s.Containers[1].Args, "--folder=0755:/scratch/project") && slices.ContainsFunc(s.Containers[0].VolumeMounts, in) && slices.ContainsFunc(s.Containers[1].VolumeMounts, in)
		}},
		"patches come last": {Options{Template: Template{Patches: []Patch{
			{"one", StrategicPatch, []byte(`{"containers":[{"name":"build","tty":true}],"hostname":"a"}`)},
			{"two", MergePatch, []byte(`{"hostname":"b"}`)},
			{"three", JSONPatch, []byte(`[{"op":"add","path":"/subdomain","value":"c"}]`)},
		}}}, func(*executor.Job) {}, func(s *corev1.PodSpec) bool {
			return len(s.Containers) == 1 && s.Containers[0].TTY && s.Containers[0].Image == "alpine" && s.Hostname == "b" && s.Subdomain == "c"
		}},
		"labels that cannot be any are annotations, and pods have no token of others": {Options{}, func(*executor.Job) {}, func(s *corev1.PodSpec) bool {
			return s.RestartPolicy == corev1.RestartPolicyNever && !*s.EnableServiceLinks
		}},
	} {
		t.Run(name, func(t *testing.T) {
			job := jobOf("alpine")
			c.change(job)
			pod, err := planned(t, c.options, executor.Setup{Labels: map[string]string{"rung.test": "/a path"}}, job)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(&pod.Spec) {
				t.Errorf("%+v", pod.Spec)
			}
			if pod.Annotations["rung.test"] != "/a path" || pod.Labels["rung.test"] != "" || pod.Labels[label] != "rung-job-abc" {
				t.Errorf("%v %v", pod.Labels, pod.Annotations)
			}
		})
	}
}

func TestAJobIsToldThatItsUserIsNotItsToChoose(t *testing.T) {
	pinned := int64(1234)
	template := Template{Build: corev1.Container{SecurityContext: &corev1.SecurityContext{RunAsUser: &pinned}}}
	for asked, want := range map[string]string{"0": `runs as the user 1234, which the runner's configuration sets, and not as "0"`, "1234": "", "": ""} {
		job := jobOf("alpine")
		job.Image.User = asked
		var said string
		v := &preparation{plan: &plan{template: &template}, job: job, report: func(p event.Preparing) { said += p.Message }}
		if v.tellPinned(); !strings.Contains(said, want) || (said == "") != (want == "") {
			t.Errorf("%q: it says %q", asked, said)
		}
	}
}

func TestWhatAPodCannotBeMadeOfIsTheJobsMistake(t *testing.T) {
	for name, change := range map[string]func(*executor.Job){
		"a user by name":         func(j *executor.Job) { j.Image.User = "worker" },
		"a group by name":        func(j *executor.Job) { j.User = "1:staff" },
		"an unknown pull policy": func(j *executor.Job) { j.Image.PullPolicies = []string{"sometimes"} },
		"another system":         func(j *executor.Job) { j.Image.Platform = "windows/amd64" },
	} {
		job := jobOf("alpine")
		change(job)
		var user *executor.UserError
		if _, err := planned(t, Options{}, executor.Setup{}, job); !errors.As(err, &user) || user.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPodsAreSandboxesWhereTheOperatorSaysSo(t *testing.T) {
	o := Options{Level: executor.Sandbox, Cluster: Cluster{Host: "https://192.0.2.1"}}
	if _, err := New(context.Background(), executor.Setup{State: t.TempDir()}, o); err == nil || !strings.Contains(err.Error(), "runtime_class_name") {
		t.Errorf("without a runtime class: %v", err)
	}
	class := "gvisor"
	o.Template.Spec.RuntimeClassName = &class
	e, err := New(context.Background(), executor.Setup{State: t.TempDir()}, o)
	if err != nil || e.Level() != executor.Sandbox {
		t.Errorf("%v, %v", e, err)
	}
	if _, err := New(context.Background(), executor.Setup{}, Options{Level: executor.VM}); err == nil {
		t.Error("a pod is no virtual machine")
	}
}
