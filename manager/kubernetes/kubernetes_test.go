package kubernetes_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/kubernetes"
	"github.com/rungci/rung/manager/config"
	level "github.com/rungci/rung/manager/kubernetes"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// read is [runners.kubernetes] of a configuration.
func read(t *testing.T, text string) *config.Kubernetes {
	t.Helper()
	report := config.Check("config.toml", []byte("[[runners]]\nname = \"x\"\nurl = \"https://gitlab.example.com\"\ntoken = \"glrt-0123456789abcdefghij\"\nexecutor = \"kubernetes\"\n"+text), os.Getenv)
	for _, p := range report.Problems {
		t.Errorf("%s: %s", p.Span, p.Message)
	}
	return report.Config.Runners[0].Kubernetes
}

// options are those of a text.
func options(t *testing.T, text string) kubernetes.Options {
	t.Helper()
	o, err := level.Options(read(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// everything has every key that has a place in a pod.
const everything = `[runners.kubernetes]
host = "https://192.0.2.1"
cert_file = "/c"
key_file = "/k"
ca_file = "/ca"
bearer_token = "secret"
namespace = "jobs"
privileged = false
runtime_class_name = "gvisor"
allow_privilege_escalation = false
cpu_limit = "2"
cpu_request = "500m"
memory_limit = "1Gi"
ephemeral_storage_limit = "10Gi"
service_memory_request = "128Mi"
helper_cpu_limit = "250m"
pod_memory_limit = "4Gi"
pull_policy = ["always", "if-not-present"]
step_runner_image = "runner@sha256:1"
image_pull_secrets = ["registry"]
service_account = "builder"
automount_service_account_token = false
scheduler_name = "volcano"
priority_class_name = "low"
cap_add = ["NET_ADMIN", "SYS_TIME"]
cap_drop = ["SYS_TIME"]
print_pod_warning_events = false
pod_termination_grace_period_seconds = 20
cleanup_grace_period_seconds = 0
cleanup_resources_timeout = "1m"
poll_interval = 2
poll_timeout = 600
retry_limit = 7
retry_backoff_max = 1500
dns_policy = "cluster-first-with-host-net"
[runners.kubernetes.node_selector]
disk = "fast"
[runners.kubernetes.node_tolerations]
"gpu=yes" = "NoSchedule"
"spot" = ""
[runners.kubernetes.pod_labels]
job = "$CI_JOB_NAME"
[runners.kubernetes.pod_security_context]
run_as_user = 0
fs_group = 59
supplemental_groups = [1, 2]
selinux_type = "spc_t"
[runners.kubernetes.pod_security_context.seccomp_profile]
type = "Localhost"
localhost_profile = "profiles/a.json"
[runners.kubernetes.build_container_security_context]
read_only_root_filesystem = true
proc_mount = "unmasked"
[runners.kubernetes.build_container_security_context.capabilities]
drop = ["ALL"]
[runners.kubernetes.affinity.node_affinity]
[[runners.kubernetes.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution]]
weight = 100
[[runners.kubernetes.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution.preference.match_expressions]]
key = "cpu"
operator = "In"
values = ["high"]
[runners.kubernetes.affinity.pod_anti_affinity]
[[runners.kubernetes.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution]]
topology_key = "kubernetes.io/hostname"
match_label_keys = ["team"]
[runners.kubernetes.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution.label_selector]
[[runners.kubernetes.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution.label_selector.match_expressions]]
key = "job"
operator = "Exists"
[[runners.kubernetes.volumes.host_path]]
name = "sock"
mount_path = "/var/run/docker.sock"
read_only = true
mount_propagation = "HostToContainer"
[[runners.kubernetes.volumes.pvc]]
name = "cache-$CI_CONCURRENT_ID"
mount_path = "/cache/$CI_PROJECT_ID"
[[runners.kubernetes.volumes.config_map]]
name = "given"
mount_path = "/given"
[runners.kubernetes.volumes.config_map.items]
"key" = "path"
[[runners.kubernetes.volumes.secret]]
name = "hidden"
mount_path = "/hidden"
[[runners.kubernetes.volumes.empty_dir]]
name = "room"
mount_path = "/room"
medium = "Memory"
size_limit = "64Mi"
[[runners.kubernetes.volumes.csi]]
name = "csi"
mount_path = "/csi"
driver = "d"
[runners.kubernetes.volumes.csi.volume_attributes]
a = "b"
[[runners.kubernetes.volumes.nfs]]
name = "nfs"
mount_path = "/nfs"
server = "s"
path = "/p"
[[runners.kubernetes.host_aliases]]
ip = "10.0.0.1"
hostnames = ["one"]
[runners.kubernetes.dns_config]
nameservers = ["1.2.3.4"]
searches = ["local"]
[[runners.kubernetes.dns_config.options]]
name = "ndots"
value = "2"
[runners.kubernetes.container_lifecycle.pre_stop.exec]
command = ["sync"]
[runners.kubernetes.container_lifecycle.post_start.http_get]
port = 8080
path = "/up"
[[runners.kubernetes.container_lifecycle.post_start.http_get.http_headers]]
name = "X"
value = "y"
[[runners.kubernetes.pod_spec]]
name = "host"
patch = '''
hostname: "a"
'''
`

func TestEveryKeyHasItsPlaceInThePod(t *testing.T) {
	o := options(t, everything)
	job := &executor.Job{Variables: map[string]string{"CI_JOB_NAME": "build & test", "CI_CONCURRENT_ID": "3", "CI_PROJECT_ID": "7"}}
	template := o.Template
	if err := o.Adapt(job, &template); err != nil {
		t.Fatal(err)
	}
	if o.Cluster != (kubernetes.Cluster{Host: "https://192.0.2.1", CertFile: "/c", KeyFile: "/k", CAFile: "/ca", Token: "secret"}) {
		t.Errorf("%+v", o.Cluster)
	}
	if o.StartWithin != 10*time.Minute || o.Look != 2*time.Second || o.Removal != time.Minute || o.Tries != 7 || o.Pause != 1500*time.Millisecond || *o.Grace != 0 || !o.Quiet || o.Image != "runner@sha256:1" {
		t.Errorf("%+v", o)
	}
	s := template.Spec
	got := map[string]any{
		"namespace": template.Namespace, "labels": template.Labels, "class": *s.RuntimeClassName, "account": s.ServiceAccountName, "token": *s.AutomountServiceAccountToken,
		"scheduler": s.SchedulerName, "priority": s.PriorityClassName, "grace": *s.TerminationGracePeriodSeconds, "selector": s.NodeSelector, "tolerations": s.Tolerations,
		"secrets": s.ImagePullSecrets, "dns": string(s.DNSPolicy), "servers": s.DNSConfig.Nameservers, "option": *s.DNSConfig.Options[0].Value, "aliases": s.HostAliases,
		"user": *s.SecurityContext.RunAsUser, "group": *s.SecurityContext.FSGroup, "groups": s.SecurityContext.SupplementalGroups, "selinux": s.SecurityContext.SELinuxOptions.Type,
		"seccomp": *s.SecurityContext.SeccompProfile.LocalhostProfile, "weight": s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight,
		"values":   s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions[0].Values,
		"topology": s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey,
		"exists":   string(s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions[0].Operator),
		"cpu":      template.Build.Resources.Limits.Cpu().String(), "asked": template.Build.Resources.Requests.Cpu().String(), "storage": template.Build.Resources.Limits.StorageEphemeral().String(),
		"service": template.Services.Resources.Requests.Memory().String(), "helper": template.Bring.Resources.Limits.Cpu().String(), "pod": s.Resources.Limits.Memory().String(),
		"drop": template.Build.SecurityContext.Capabilities.Drop, "add": template.Build.SecurityContext.Capabilities.Add, "proc": string(*template.Build.SecurityContext.ProcMount),
		"readonly": *template.Build.SecurityContext.ReadOnlyRootFilesystem, "escalation": *template.Services.SecurityContext.AllowPrivilegeEscalation,
		"service drop": template.Services.SecurityContext.Capabilities.Drop,
		"pre stop":     template.Build.Lifecycle.PreStop.Exec.Command, "post start": template.Build.Lifecycle.PostStart.HTTPGet.Port.IntValue(), "header": template.Build.Lifecycle.PostStart.HTTPGet.HTTPHeaders[0].Value,
		"patch": string(template.Patches[0].Text),
	}
	want := map[string]any{
		"namespace": "jobs", "labels": map[string]string{"job": "build___test"}, "class": "gvisor", "account": "builder", "token": false, "scheduler": "volcano", "priority": "low", "grace": int64(20),
		"selector":    map[string]string{"disk": "fast"},
		"tolerations": []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "yes", Effect: corev1.TaintEffectNoSchedule}, {Key: "spot", Operator: corev1.TolerationOpExists}},
		"secrets":     []corev1.LocalObjectReference{{Name: "registry"}}, "dns": "ClusterFirstWithHostNet", "servers": []string{"1.2.3.4"}, "option": "2",
		"aliases": []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"one"}}}, "user": int64(0), "group": int64(59), "groups": []int64{1, 2}, "selinux": "spc_t", "seccomp": "profiles/a.json",
		"weight": int32(100), "values": []string{"high"}, "topology": "kubernetes.io/hostname", "exists": "Exists", "cpu": "2", "asked": "500m", "storage": "10Gi", "service": "128Mi",
		"helper": "250m", "pod": "4Gi", "drop": []corev1.Capability{"ALL"}, "add": []corev1.Capability{"NET_ADMIN"}, "proc": "Unmasked", "readonly": true, "escalation": false,
		"service drop": []corev1.Capability{"SYS_TIME", "NET_RAW"}, "pre stop": []string{"sync"}, "post start": 8080, "header": "y", "patch": `{"hostname":"a"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var mounts []string
	for _, m := range template.Build.VolumeMounts {
		mounts = append(mounts, m.Name+" "+m.MountPath)
	}
	if want := []string{"sock /var/run/docker.sock", "cache-3 /cache/7", "given /given", "hidden /hidden", "room /room", "csi /csi", "nfs /nfs"}; !slices.Equal(mounts, want) || len(s.Volumes) != len(want) {
		t.Errorf("%q %+v", mounts, s.Volumes)
	}
	if v := s.Volumes[1]; v.Name != "cache-3" || v.PersistentVolumeClaim.ClaimName != "cache-3" {
		t.Errorf("%+v", v)
	}
}

func TestVariablesOfAJobChangeWhatTheOperatorAllows(t *testing.T) {
	const allowed = `[runners.kubernetes]
namespace = "jobs"
namespace_overwrite_allowed = "^ci-"
service_account_overwrite_allowed = "^builder-"
cpu_limit = "1"
cpu_limit_overwrite_max_allowed = "4"
memory_request_overwrite_max_allowed = "2Gi"
service_cpu_limit_overwrite_max_allowed = "2"
pod_labels_overwrite_allowed = "^team="
node_selector_overwrite_allowed = ".*"
node_tolerations_overwrite_allowed = "^spot"
`
	for name, c := range map[string]struct {
		text      string
		variables map[string]string
		check     func(*kubernetes.Template) bool
	}{
		"a namespace": {allowed, map[string]string{"KUBERNETES_NAMESPACE_OVERWRITE": "ci-1"}, func(p *kubernetes.Template) bool { return p.Namespace == "ci-1" }},
		"nothing": {allowed, nil, func(p *kubernetes.Template) bool {
			return p.Namespace == "jobs" && p.Build.Resources.Limits.Cpu().String() == "1"
		}},
		"a service account": {allowed, map[string]string{"KUBERNETES_SERVICE_ACCOUNT_OVERWRITE": "builder-a"}, func(p *kubernetes.Template) bool { return p.Spec.ServiceAccountName == "builder-a" }},
		"a limit":           {allowed, map[string]string{"KUBERNETES_CPU_LIMIT": "3500m"}, func(p *kubernetes.Template) bool { return p.Build.Resources.Limits.Cpu().String() == "3500m" }},
		"a request":         {allowed, map[string]string{"KUBERNETES_MEMORY_REQUEST": "1Gi"}, func(p *kubernetes.Template) bool { return p.Build.Resources.Requests.Memory().String() == "1Gi" }},
		"a label":           {allowed, map[string]string{"KUBERNETES_POD_LABELS_1": "team=a=b"}, func(p *kubernetes.Template) bool { return p.Labels["team"] == "a=b" }},
		"a node":            {allowed, map[string]string{"KUBERNETES_NODE_SELECTOR_X": "disk=slow"}, func(p *kubernetes.Template) bool { return p.Spec.NodeSelector["disk"] == "slow" }},
		"a toleration": {allowed, map[string]string{"KUBERNETES_NODE_TOLERATIONS_X": "spot=yes:NoExecute"}, func(p *kubernetes.Template) bool {
			return p.Spec.Tolerations[0].Effect == corev1.TaintEffectNoExecute && p.Spec.Tolerations[0].Value == "yes"
		}},
		"nothing without leave": {"[runners.kubernetes]\nnamespace = \"jobs\"\n", map[string]string{
			"KUBERNETES_NAMESPACE_OVERWRITE": "x", "KUBERNETES_CPU_LIMIT": "9", "KUBERNETES_POD_LABELS_1": "a=b", "KUBERNETES_NODE_SELECTOR_1": "a=b", "KUBERNETES_NODE_TOLERATIONS_1": "a",
		}, func(p *kubernetes.Template) bool {
			return p.Namespace == "jobs" && len(p.Build.Resources.Limits)+len(p.Labels)+len(p.Spec.NodeSelector)+len(p.Spec.Tolerations) == 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, c.text)
			template := o.Template
			if err := o.Adapt(&executor.Job{Variables: c.variables}, &template); err != nil || !c.check(&template) {
				t.Errorf("%v, %+v", err, template)
			}
		})
	}
	for name, variables := range map[string]map[string]string{
		"namespace_overwrite_allowed":       {"KUBERNETES_NAMESPACE_OVERWRITE": "kube-system"},
		"service_account_overwrite_allowed": {"KUBERNETES_SERVICE_ACCOUNT_OVERWRITE": "admin"},
		"cpu_limit_overwrite_max_allowed":   {"KUBERNETES_CPU_LIMIT": "5"},
		"pod_labels_overwrite_allowed":      {"KUBERNETES_POD_LABELS_1": "rung.job=x"},
	} {
		t.Run("not beyond "+name, func(t *testing.T) {
			o := options(t, allowed)
			template := o.Template
			err := o.Adapt(&executor.Job{Variables: variables}, &template)
			var denied *event.Error
			if !errors.As(err, &denied) || denied.Code != event.CodeDenied || !strings.Contains(err.Error(), "runners.kubernetes."+name) {
				t.Errorf("%v", err)
			}
		})
	}
	for name, job := range map[string]*executor.Job{
		"KUBERNETES_NAMESPACE_OVERWRITE = \"ci-a/b\"":         {Variables: map[string]string{"KUBERNETES_NAMESPACE_OVERWRITE": "ci-a/b"}},
		"KUBERNETES_NAMESPACE_OVERWRITE = \"ci-ü\"":           {Variables: map[string]string{"KUBERNETES_NAMESPACE_OVERWRITE": "ci-ü"}},
		"KUBERNETES_SERVICE_ACCOUNT_OVERWRITE = \"builder-\"": {Variables: map[string]string{"KUBERNETES_SERVICE_ACCOUNT_OVERWRITE": "builder-"}},
		"KUBERNETES_CPU_LIMIT = 0 means no limit":             {Variables: map[string]string{"KUBERNETES_CPU_LIMIT": "0"}},
		"KUBERNETES_CPU_LIMIT = -1 is less":                   {Variables: map[string]string{"KUBERNETES_CPU_LIMIT": "-1"}},
		"KUBERNETES_MEMORY_REQUEST = -1 is less":              {Variables: map[string]string{"KUBERNETES_MEMORY_REQUEST": "-1"}},
		"KUBERNETES_SERVICE_CPU_LIMIT = 0m means no limit":    {Services: []containers.Service{{Variables: map[string]string{"KUBERNETES_SERVICE_CPU_LIMIT": "0m"}}}},
	} {
		o := options(t, allowed)
		template := o.Template
		if err := o.Adapt(job, &template); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("a service by its own", func(t *testing.T) {
		o := options(t, allowed)
		template := o.Template
		job := &executor.Job{Services: []containers.Service{{}, {Variables: map[string]string{"KUBERNETES_SERVICE_CPU_LIMIT": "1500m"}}}}
		if err := o.Adapt(job, &template); err != nil || len(template.EachService) != 2 || len(template.EachService[0].Limits) > 0 || template.EachService[1].Limits.Cpu().String() != "1500m" {
			t.Errorf("%v, %+v", err, template.EachService)
		}
	})
}

func TestWhatCannotBeMeantIsToldWithItsKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patch.yaml")
	if err := os.WriteFile(file, []byte("a: [1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{
		"cpu_limit":                                        `cpu_limit = "many"`,
		"namespace_overwrite_allowed":                      `namespace_overwrite_allowed = "("`,
		"allowed_images":                                   `allowed_images = ["a[b"]`,
		"pod_spec.patch: x":                                "[[runners.kubernetes.pod_spec]]\nname = \"x\"\npatch = \"[1\"",
		"pod_spec: both":                                   "[[runners.kubernetes.pod_spec]]\nname = \"both\"\npatch = \"a: 1\"\npatch_path = \"/x\"",
		"pod_spec.patch_path: file":                        "[[runners.kubernetes.pod_spec]]\nname = \"file\"\npatch_path = \"" + file + "\"",
		"pod_spec: pods have no container \"helper\"":      "[[runners.kubernetes.pod_spec]]\nname = \"x\"\npatch = \"containers: [{name: helper, tty: true}]\"",
		"pod_spec: pods have no container \"init\"":        "[[runners.kubernetes.pod_spec]]\nname = \"x\"\npatch = \"initContainers: [{name: init, tty: true}]\"",
		"volumes.empty_dir.name: pods have a volume":       volume("empty_dir", "rung-builds", "/x", ""),
		"volumes.empty_dir.mount_path: /opt/rung/bin/ has": volume("empty_dir", "x", "/opt/rung/bin/", ""),
		"volumes.pvc: ":                                    "[[runners.kubernetes.volumes.pvc]]\nname = \"x\"",
		"volumes.empty_dir.medium: ":                       "[[runners.kubernetes.volumes.empty_dir]]\nname = \"x\"\nmount_path = \"/x\"\nmedium = \"tape\"",
		"volumes.nfs":                                      "[[runners.kubernetes.volumes.nfs]]\nname = \"x\"\nmount_path = \"/x\"",
		"volumes.empty_dir.name: another volume":           volume("host_path", "x", "/x", "") + volume("empty_dir", "x", "/y", ""),
		"volumes.empty_dir.name: \"a.b\"":                  volume("empty_dir", "a.b", "/x", ""),
		"volumes.secret.mount_path: another volume":        volume("config_map", "x", "/x", "") + volume("secret", "y", "/x", ""),
		"volumes.empty_dir.sub_path: \"/a\"":               volume("empty_dir", "x", "/x", "/a"),
		"volumes.pvc.sub_path: \"a/../..\"":                volume("pvc", "x", "/x", "a/../.."),
		"host_aliases.ip: \"1.2.3.400\"":                   "[[runners.kubernetes.host_aliases]]\nip = \"1.2.3.400\"\nhostnames = [\"x\"]",
		"host_aliases.hostnames: \"X_Y\"":                  "[[runners.kubernetes.host_aliases]]\nip = \"::1\"\nhostnames = [\"X_Y\"]",
		"cpu_request: 3 is more than cpu_limit, 2":         "cpu_limit = \"2\"\ncpu_request = \"3\"",
		"pod_memory_request: 2Gi is more than pod_":        "pod_memory_limit = \"1024Mi\"\npod_memory_request = \"2Gi\"",
		"service_ephemeral_storage_request: 1G is more":    "service_ephemeral_storage_limit = \"999M\"\nservice_ephemeral_storage_request = \"1G\"",
		"build_container_security_context.proc_mount":      "[runners.kubernetes.build_container_security_context]\nproc_mount = \"half\"",
	} {
		_, err := level.Options(read(t, "[runners.kubernetes]\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), "runners.kubernetes."+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestContainersHaveNoRawSocketsUnlessTheConfigurationAddsThem(t *testing.T) {
	const own = "[runners.kubernetes.build_container_security_context.capabilities]\n"
	for text, want := range map[string]string{
		"":                        "add [] drop [NET_RAW]",
		`cap_drop = ["NET_RAW"]`:  "add [] drop [NET_RAW]",
		`cap_add = ["NET_RAW"]`:   "add [NET_RAW] drop []",
		own + `add = ["NET_RAW"]`: "add [NET_RAW] drop []",
		own + `drop = ["ALL"]`:    "add [] drop [ALL]",
		"cap_add = [\"NET_RAW\"]\ncap_drop = [\"NET_RAW\"]": "add [] drop [NET_RAW]",
	} {
		o := options(t, "[runners.kubernetes]\n"+text+"\n")
		c := o.Template.Build.SecurityContext.Capabilities
		if got := fmt.Sprintf("add %v drop %v", c.Add, c.Drop); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestTheWordsOfTheClusterMayBeInAnyCase(t *testing.T) {
	o, err := level.Options(read(t, `[runners.kubernetes]
[runners.kubernetes.node_tolerations]
"a=b" = "noschedule"
c = ""
[[runners.kubernetes.volumes.host_path]]
name = "x"
mount_path = "/x"
mount_propagation = "bidirectional"
`))
	if err != nil {
		t.Fatal(err)
	}
	if all := o.Template.Spec.Tolerations; all[0].Effect != corev1.TaintEffectNoSchedule || all[1].Effect != "" {
		t.Errorf("%+v", all)
	}
	if mode := o.Template.Build.VolumeMounts[0].MountPropagation; mode == nil || *mode != corev1.MountPropagationBidirectional {
		t.Errorf("%v", mode)
	}
}

// volume is the table of a volume.
func volume(kind, name, path, sub string) string {
	return fmt.Sprintf("[[runners.kubernetes.volumes.%s]]\nname = %q\nmount_path = %q\nsub_path = %q\n", kind, name, path, sub)
}

func TestWhatAPodMayHaveIsNotRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a volume in two places":        volume("pvc", "x", "/x", "a") + volume("pvc", "x", "/y", "b"),
		"variables of the job":          volume("pvc", "Cache_$CI_PROJECT_ID", "/x", "$SUB") + volume("pvc", "x", "/$A", "") + volume("pvc", "y", "/$B", ""),
		"a path that begins at no root": volume("empty_dir", "x", "x", ""), // nodes take it as below /
		"a request that is the limit":   "cpu_limit = \"1\"\ncpu_request = \"1000m\"",
		"a request that jobs may lower": "cpu_limit = \"1\"\ncpu_request = \"2\"\ncpu_request_overwrite_max_allowed = \"3\"",
		"a request that is patched":     "cpu_limit = \"1\"\ncpu_request = \"2\"\n[[runners.kubernetes.pod_spec]]\npatch = \"nodeName: a\"",
		"patches of containers": "[[runners.kubernetes.pod_spec]]\npatch = \"containers: [{name: build, tty: true}, {name: svc-0, tty: true}, {name: proxy, image: envoy}]\"\n" +
			"[[runners.kubernetes.pod_spec]]\npatch = \"initContainers: [{name: step-runner, tty: true}]\"",
		"an alias": "[[runners.kubernetes.host_aliases]]\nip = \"fe80::1\"\nhostnames = [\"a.b\", \"c\"]",
	} {
		if _, err := level.Options(read(t, "[runners.kubernetes]\n"+text+"\n")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
