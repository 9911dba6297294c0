package config

import "time"

// Kubernetes are pods of a cluster. Quantities are texts as the cluster reads them: "500m", "2Gi". A pointer that is nil, and an empty text, leave
// it to the cluster.
//
// Below it, tables have the names and the shape of the cluster's own API, in small letters: match_expressions is matchExpressions.
type Kubernetes struct {
	Host        string `toml:"host"` // empty: the cluster that this program is in, or its kubeconfig
	Context     string `toml:"context"`
	CertFile    string `toml:"cert_file"`
	KeyFile     string `toml:"key_file"`
	CAFile      string `toml:"ca_file"`
	BearerToken string `toml:"bearer_token"`

	Image                      string   `toml:"image"`
	Namespace                  string   `toml:"namespace"`
	NamespaceOverwriteAllowed  string   `toml:"namespace_overwrite_allowed"` // as the following of this name, a regular expression; empty allows none
	Privileged                 *bool    `toml:"privileged"`
	RuntimeClassName           string   `toml:"runtime_class_name"`
	AllowPrivilegeEscalation   *bool    `toml:"allow_privilege_escalation"`
	AllowedImages              []string `toml:"allowed_images"`
	AllowedPullPolicies        []string `toml:"allowed_pull_policies"`
	AllowedServices            []string `toml:"allowed_services"`
	AllowedUsers               []string `toml:"allowed_users"`
	AllowedGroups              []string `toml:"allowed_groups"`
	PullPolicy                 []string `toml:"pull_policy"`
	StepRunnerImage            string   `toml:"step_runner_image"` // empty: it is streamed
	ImagePullSecrets           []string `toml:"image_pull_secrets"`
	AccountPullSecrets         bool     `toml:"use_service_account_image_pull_secrets"`
	ServiceAccount             string   `toml:"service_account"`
	ServiceAccountAllowed      string   `toml:"service_account_overwrite_allowed"`
	AutomountToken             *bool    `toml:"automount_service_account_token"`
	SchedulerName              string   `toml:"scheduler_name"`
	PriorityClassName          string   `toml:"priority_class_name"`
	CapAdd                     []string `toml:"cap_add"`
	CapDrop                    []string `toml:"cap_drop"`
	PrintPodWarningEvents      *bool    `toml:"print_pod_warning_events"` // nil: true
	NodeSelectorAllowed        string   `toml:"node_selector_overwrite_allowed"`
	NodeTolerationsAllowed     string   `toml:"node_tolerations_overwrite_allowed"`
	PodLabelsAllowed           string   `toml:"pod_labels_overwrite_allowed"`
	PodAnnotationsAllowed      string   `toml:"pod_annotations_overwrite_allowed"`
	PodTerminationGraceSeconds *int64   `toml:"pod_termination_grace_period_seconds"`
	CleanupGraceSeconds        *int64   `toml:"cleanup_grace_period_seconds"`

	CleanupTimeout time.Duration `toml:"cleanup_resources_timeout"`
	PollInterval   time.Duration `toml:"poll_interval"`
	PollTimeout    time.Duration `toml:"poll_timeout"`
	RetryLimit     int           `toml:"retry_limit"`
	RetryPauseMax  int           `toml:"retry_backoff_max"` // milliseconds

	NodeSelector    map[string]string `toml:"node_selector"`
	NodeTolerations map[string]string `toml:"node_tolerations"` // key=value, and the effect
	PodLabels       map[string]string `toml:"pod_labels"`
	PodAnnotations  map[string]string `toml:"pod_annotations"`

	PodSecurity     PodSecurity       `toml:"pod_security_context"`
	BuildSecurity   ContainerSecurity `toml:"build_container_security_context"`
	HelperSecurity  ContainerSecurity `toml:"helper_container_security_context"`
	ServiceSecurity ContainerSecurity `toml:"service_container_security_context"`

	Affinity    Affinity           `toml:"affinity"`
	Volumes     KubernetesVolumes  `toml:"volumes"`
	HostAliases []HostAlias        `toml:"host_aliases"`
	Services    []Service          `toml:"services"`
	DNSPolicy   string             `toml:"dns_policy"`
	DNSConfig   DNSConfig          `toml:"dns_config"`
	Lifecycle   ContainerLifecycle `toml:"container_lifecycle"`
	PodSpec     []PodSpecPatch     `toml:"pod_spec"`

	// What the containers may use; those with Max say how much jobs may ask for.

	CPULimit                 string `toml:"cpu_limit"`
	CPULimitMax              string `toml:"cpu_limit_overwrite_max_allowed"`
	CPURequest               string `toml:"cpu_request"`
	CPURequestMax            string `toml:"cpu_request_overwrite_max_allowed"`
	MemoryLimit              string `toml:"memory_limit"`
	MemoryLimitMax           string `toml:"memory_limit_overwrite_max_allowed"`
	MemoryRequest            string `toml:"memory_request"`
	MemoryRequestMax         string `toml:"memory_request_overwrite_max_allowed"`
	StorageLimit             string `toml:"ephemeral_storage_limit"`
	StorageLimitMax          string `toml:"ephemeral_storage_limit_overwrite_max_allowed"`
	StorageRequest           string `toml:"ephemeral_storage_request"`
	StorageRequestMax        string `toml:"ephemeral_storage_request_overwrite_max_allowed"`
	ServiceCPULimit          string `toml:"service_cpu_limit"`
	ServiceCPULimitMax       string `toml:"service_cpu_limit_overwrite_max_allowed"`
	ServiceCPURequest        string `toml:"service_cpu_request"`
	ServiceCPURequestMax     string `toml:"service_cpu_request_overwrite_max_allowed"`
	ServiceMemoryLimit       string `toml:"service_memory_limit"`
	ServiceMemoryLimitMax    string `toml:"service_memory_limit_overwrite_max_allowed"`
	ServiceMemoryRequest     string `toml:"service_memory_request"`
	ServiceMemoryRequestMax  string `toml:"service_memory_request_overwrite_max_allowed"`
	ServiceStorageLimit      string `toml:"service_ephemeral_storage_limit"`
	ServiceStorageLimitMax   string `toml:"service_ephemeral_storage_limit_overwrite_max_allowed"`
	ServiceStorageRequest    string `toml:"service_ephemeral_storage_request"`
	ServiceStorageRequestMax string `toml:"service_ephemeral_storage_request_overwrite_max_allowed"`
	HelperCPULimit           string `toml:"helper_cpu_limit"`
	HelperCPULimitMax        string `toml:"helper_cpu_limit_overwrite_max_allowed"`
	HelperCPURequest         string `toml:"helper_cpu_request"`
	HelperCPURequestMax      string `toml:"helper_cpu_request_overwrite_max_allowed"`
	HelperMemoryLimit        string `toml:"helper_memory_limit"`
	HelperMemoryLimitMax     string `toml:"helper_memory_limit_overwrite_max_allowed"`
	HelperMemoryRequest      string `toml:"helper_memory_request"`
	HelperMemoryRequestMax   string `toml:"helper_memory_request_overwrite_max_allowed"`
	HelperStorageLimit       string `toml:"helper_ephemeral_storage_limit"`
	HelperStorageLimitMax    string `toml:"helper_ephemeral_storage_limit_overwrite_max_allowed"`
	HelperStorageRequest     string `toml:"helper_ephemeral_storage_request"`
	HelperStorageRequestMax  string `toml:"helper_ephemeral_storage_request_overwrite_max_allowed"`
	PodCPULimit              string `toml:"pod_cpu_limit"`
	PodCPULimitMax           string `toml:"pod_cpu_limit_overwrite_max_allowed"`
	PodCPURequest            string `toml:"pod_cpu_request"`
	PodCPURequestMax         string `toml:"pod_cpu_request_overwrite_max_allowed"`
	PodMemoryLimit           string `toml:"pod_memory_limit"`
	PodMemoryLimitMax        string `toml:"pod_memory_limit_overwrite_max_allowed"`
	PodMemoryRequest         string `toml:"pod_memory_request"`
	PodMemoryRequestMax      string `toml:"pod_memory_request_overwrite_max_allowed"`
}

// PodSecurity are the rights of all containers of a pod.
type PodSecurity struct {
	FSGroup            *int64          `toml:"fs_group"`
	RunAsUser          *int64          `toml:"run_as_user"`
	RunAsGroup         *int64          `toml:"run_as_group"`
	RunAsNonRoot       *bool           `toml:"run_as_non_root"`
	SupplementalGroups []int64         `toml:"supplemental_groups"`
	SELinuxType        string          `toml:"selinux_type"`
	Seccomp            *ProfileOfKinds `toml:"seccomp_profile"`
	AppArmor           *ProfileOfKinds `toml:"app_armor_profile"`
}

// ContainerSecurity are the rights of a container.
type ContainerSecurity struct {
	Capabilities             *Capabilities   `toml:"capabilities"`
	Privileged               *bool           `toml:"privileged"`
	RunAsUser                *int64          `toml:"run_as_user"`
	RunAsGroup               *int64          `toml:"run_as_group"`
	RunAsNonRoot             *bool           `toml:"run_as_non_root"`
	ReadOnlyRootFilesystem   *bool           `toml:"read_only_root_filesystem"`
	AllowPrivilegeEscalation *bool           `toml:"allow_privilege_escalation"`
	SELinuxType              string          `toml:"selinux_type"`
	ProcMount                string          `toml:"proc_mount"`
	Seccomp                  *ProfileOfKinds `toml:"seccomp_profile"`
	AppArmor                 *ProfileOfKinds `toml:"app_armor_profile"`
}

// ProfileOfKinds is a profile of seccomp or AppArmor.
type ProfileOfKinds struct {
	Type             string `toml:"type"`
	LocalhostProfile string `toml:"localhost_profile"`
}

// Capabilities are rights on the node.
type Capabilities struct {
	Add  []string `toml:"add"`
	Drop []string `toml:"drop"`
}

// Affinity says which nodes pods may have, and beside which pods.
type Affinity struct {
	Node    *NodeAffinity `toml:"node_affinity"`
	Pod     *PodAffinity  `toml:"pod_affinity"`
	PodAnti *PodAffinity  `toml:"pod_anti_affinity"`
}

// NodeAffinity is about labels of nodes.
type NodeAffinity struct {
	Required  *NodeTerms      `toml:"required_during_scheduling_ignored_during_execution"`
	Preferred []PreferredNode `toml:"preferred_during_scheduling_ignored_during_execution"`
}

// NodeTerms are conditions of which one must hold.
type NodeTerms struct {
	Terms []NodeTerm `toml:"node_selector_terms"`
}

// NodeTerm is a condition on a node.
type NodeTerm struct {
	Expressions []Requirement `toml:"match_expressions"`
	Fields      []Requirement `toml:"match_fields"`
}

// PreferredNode is a condition that should hold.
type PreferredNode struct {
	Weight     int      `toml:"weight"`
	Preference NodeTerm `toml:"preference"`
}

// Requirement is a condition on a label.
type Requirement struct {
	Key      string   `toml:"key"`
	Operator string   `toml:"operator"`
	Values   []string `toml:"values"`
}

// PodAffinity is about other pods.
type PodAffinity struct {
	Required  []PodTerm      `toml:"required_during_scheduling_ignored_during_execution"`
	Preferred []PreferredPod `toml:"preferred_during_scheduling_ignored_during_execution"`
}

// PodTerm is a condition on pods in one place.
type PodTerm struct {
	Labels        *LabelSelector `toml:"label_selector"`
	Namespaces    []string       `toml:"namespaces"`
	NamespacesOf  *LabelSelector `toml:"namespace_selector"`
	TopologyKey   string         `toml:"topology_key"`
	MatchKeys     []string       `toml:"match_label_keys"`
	MismatchedKey []string       `toml:"mismatch_label_keys"`
}

// PreferredPod is a condition that should hold.
type PreferredPod struct {
	Weight int     `toml:"weight"`
	Term   PodTerm `toml:"pod_affinity_term"`
}

// LabelSelector chooses by labels.
type LabelSelector struct {
	Labels      map[string]string `toml:"match_labels"`
	Expressions []Requirement     `toml:"match_expressions"`
}

// KubernetesVolumes are those of the containers of a job and its services.
type KubernetesVolumes struct {
	HostPath  []HostPathVolume `toml:"host_path"`
	PVC       []ClaimVolume    `toml:"pvc"`
	ConfigMap []KeysVolume     `toml:"config_map"`
	Secret    []KeysVolume     `toml:"secret"`
	EmptyDir  []EmptyVolume    `toml:"empty_dir"`
	CSI       []CSIVolume      `toml:"csi"`
	NFS       []NFSVolume      `toml:"nfs"`
}

// HostPathVolume is a folder of the node.
type HostPathVolume struct {
	Name             string `toml:"name"`
	MountPath        string `toml:"mount_path"`
	SubPath          string `toml:"sub_path"`
	ReadOnly         bool   `toml:"read_only"`
	HostPath         string `toml:"host_path"`
	MountPropagation string `toml:"mount_propagation"`
}

// ClaimVolume is a claim of a persistent volume.
type ClaimVolume struct {
	Name             string `toml:"name"`
	MountPath        string `toml:"mount_path"`
	SubPath          string `toml:"sub_path"`
	ReadOnly         bool   `toml:"read_only"`
	MountPropagation string `toml:"mount_propagation"`
}

// KeysVolume is the keys of a config map or a secret as files.
type KeysVolume struct {
	Name      string            `toml:"name"`
	MountPath string            `toml:"mount_path"`
	SubPath   string            `toml:"sub_path"`
	ReadOnly  bool              `toml:"read_only"`
	Items     map[string]string `toml:"items"`
}

// EmptyVolume is an empty folder of the pod.
type EmptyVolume struct {
	Name             string `toml:"name"`
	MountPath        string `toml:"mount_path"`
	SubPath          string `toml:"sub_path"`
	Medium           string `toml:"medium"`
	SizeLimit        string `toml:"size_limit"`
	MountPropagation string `toml:"mount_propagation"`
}

// CSIVolume is a volume of a CSI driver.
type CSIVolume struct {
	Name       string            `toml:"name"`
	MountPath  string            `toml:"mount_path"`
	SubPath    string            `toml:"sub_path"`
	Driver     string            `toml:"driver"`
	FSType     string            `toml:"fs_type"`
	ReadOnly   bool              `toml:"read_only"`
	Attributes map[string]string `toml:"volume_attributes"`
}

// NFSVolume is a folder of an NFS server.
type NFSVolume struct {
	Name      string `toml:"name"`
	MountPath string `toml:"mount_path"`
	SubPath   string `toml:"sub_path"`
	Server    string `toml:"server"`
	Path      string `toml:"path"`
	ReadOnly  bool   `toml:"read_only"`
}

// HostAlias are names of an address in pods.
type HostAlias struct {
	IP        string   `toml:"ip"`
	Hostnames []string `toml:"hostnames"`
}

// DNSConfig is how pods resolve names.
type DNSConfig struct {
	Nameservers []string    `toml:"nameservers"`
	Searches    []string    `toml:"searches"`
	Options     []DNSOption `toml:"options"`
}

// DNSOption is one of resolv.conf.
type DNSOption struct {
	Name  string `toml:"name"`
	Value string `toml:"value"`
}

// ContainerLifecycle is what the node does when the job's container starts, and before it ends.
type ContainerLifecycle struct {
	PostStart *Hook `toml:"post_start"`
	PreStop   *Hook `toml:"pre_stop"`
}

// Hook is one thing that a node does.
type Hook struct {
	Exec      *HookCommand    `toml:"exec"`
	HTTPGet   *HookRequest    `toml:"http_get"`
	TCPSocket *HookConnection `toml:"tcp_socket"`
}

// HookCommand is a command in the container.
type HookCommand struct {
	Command []string `toml:"command"`
}

// HookRequest is a request to the container.
type HookRequest struct {
	Host    string       `toml:"host"`
	Path    string       `toml:"path"`
	Port    int          `toml:"port"`
	Scheme  string       `toml:"scheme"`
	Headers []HookHeader `toml:"http_headers"`
}

// HookHeader is one of a request.
type HookHeader struct {
	Name  string `toml:"name"`
	Value string `toml:"value"`
}

// HookConnection is a connection to the container.
type HookConnection struct {
	Host string `toml:"host"`
	Port int    `toml:"port"`
}

// PodSpecPatch changes the spec of pods.
type PodSpecPatch struct {
	Name      string `toml:"name"`
	Patch     string `toml:"patch"`      // YAML or JSON
	PatchPath string `toml:"patch_path"` // a file with it
	PatchType string `toml:"patch_type"` // json, merge or strategic; empty is strategic
}

// Images are what an entry says of the images of jobs and services, whatever runs them.
type Images struct {
	Table                           string // where it says so: runners.docker
	Image                           string // of jobs that name none
	User                            string // of jobs; empty is theirs to say
	PullPolicy, AllowedPullPolicies []string
	AllowedImages, AllowedServices  []string
	AllowedUsers, AllowedGroups     []string
	GroupsApart                     bool // AllowedUsers have no groups
	Services                        []Service
	ServicesLimit                   *int
}

// Names are those of the image and the services. Of nil there are none.
func (i *Images) Names() (out []string) {
	if i == nil {
		return nil
	}
	out = append(out, i.Image)
	for _, s := range i.Services {
		out = append(out, s.Name)
	}
	return out
}

// Images are those of the table of the entry's executor; nil if it has none.
func (r *Runner) Images() *Images {
	switch {
	case r.Executor == KubernetesExecutor:
		k := r.Kubernetes
		if k == nil {
			return nil
		}
		return &Images{
			Table: "runners.kubernetes", Image: k.Image, PullPolicy: k.PullPolicy, AllowedPullPolicies: k.AllowedPullPolicies, AllowedImages: k.AllowedImages,
			AllowedServices: k.AllowedServices, AllowedUsers: k.AllowedUsers, AllowedGroups: k.AllowedGroups, GroupsApart: true, Services: k.Services,
		}
	case r.Docker != nil:
		d := r.Docker
		return &Images{
			Table: "runners.docker", Image: d.Image, User: d.User, PullPolicy: d.PullPolicy, AllowedPullPolicies: d.AllowedPullPolicies, AllowedImages: d.AllowedImages,
			AllowedServices: d.AllowedServices, AllowedUsers: d.AllowedUsers, Services: d.Services, ServicesLimit: d.ServicesLimit,
		}
	}
	return nil
}
