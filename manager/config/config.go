// Package config reads config.toml, the configuration of gitlab-runner: what is used, what is ignored and why, and what is wrong, with its
// place. It also adds, changes and removes entries, and leaves every other byte of the file as it is.
//
//	Read ──> Config ──> Runner ──> Level
//	Lint ──> findings            Edit: Add, Replace, Remove
//
// Keys have their names in keys.txt. What is used has a field in Config; so has what is planned, and does nothing yet. As in gitlab-runner, upper and lower case of a
// key do not matter.
//
// Source: common/config.go in gitlab-runner 19.4, and its documentation of the file.
package config

import (
	"strings"
	"time"

	"github.com/rungci/rung/executor"
)

// Config is a configuration. Values that are not in the file are those that gitlab-runner has.
type Config struct {
	Path             string            // of the file
	Concurrent       int               `toml:"concurrent"`
	CheckInterval    time.Duration     `toml:"check_interval"`
	LogLevel         string            `toml:"log_level"`
	LogFormat        string            `toml:"log_format"`
	ListenAddress    string            `toml:"listen_address"`
	SessionServer    SessionServer     `toml:"session_server"`
	OpenTelemetry    OpenTelemetry     `toml:"opentelemetry"`
	Disk             Disk              `toml:"disk"`
	Machine          Machines          `toml:"machine"`
	StateStorage     StateStorage      `toml:"state_storage"`
	ShutdownTimeout  time.Duration     `toml:"shutdown_timeout"`
	ConnectionMaxAge time.Duration     `toml:"connection_max_age"`
	Labels           map[string]string `toml:"labels"`
	User             string            `toml:"user"` // see RunAs
	Runners          []Runner          `toml:"runners"`
	doc              *document         // what it was read from; nil where it was not
}

// RunAs sets the user of the jobs that run on this machine itself; empty changes nothing.
func (c *Config) RunAs(user string) {
	for i := range c.Runners {
		if r := &c.Runners[i]; user != "" && r.here() {
			r.User = user
		}
	}
}

// here reports whether the entry's jobs run on this machine, in what its level makes: those of other executors have users of their own.
func (r *Runner) here() bool {
	return r.Provider == nil && r.Executor != "ssh" && r.Executor != "custom" && r.Executor != PluginExecutor && r.Executor != KubernetesExecutor
}

// Apart reports whether the entry's jobs of a level run where another host can reach them as well as this one: on machines of a fleet, in pods, or in the containers of
// an engine that is reached by a network.
func (r *Runner) Apart(of executor.Level) bool {
	if r.Provider != nil {
		return r.Provider.Machinery != nil
	}
	engine := r.Docker != nil && (strings.HasPrefix(r.Docker.Host, "tcp://") || strings.HasPrefix(r.Docker.Host, "ssh://"))
	return r.Executor == KubernetesExecutor || r.Executor == "docker" && engine && of == executor.Container
}

// SessionServer is the server of web terminals. Without ListenAddress there is none.
type SessionServer struct {
	ListenAddress    string        `toml:"listen_address"`
	AdvertiseAddress string        `toml:"advertise_address"`
	SessionTimeout   time.Duration `toml:"session_timeout"`
}

// OpenTelemetry says where spans and the manager's log are sent.
type OpenTelemetry struct {
	// Endpoint is the base address of a collector; empty is none.
	Endpoint string `toml:"endpoint"`
}

// Disk bounds what is stored on this machine for later jobs, in bytes; 0 is no limit.
type Disk struct {
	Budget   int64 `toml:"budget"`    // what may be stored
	KeepFree int64 `toml:"keep_free"` // what stays free on each disk
}

// StateStorage is where the state of managers on several hosts is, of which one runs jobs at a time.
type StateStorage struct {
	// KeyFile holds the key that seals the state; empty: the variable RUNG_STATE_KEY is the key.
	KeyFile    string          `toml:"key_file"`
	Prefix     string          `toml:"prefix"` // of the names of objects, in the bucket or the namespace
	Lease      time.Duration   `toml:"lease"`  // how long a manager may be silent; 0 is 30 s
	S3         CacheS3         `toml:"s3"`
	Kubernetes StateKubernetes `toml:"kubernetes"`
}

// StateKubernetes is a namespace of Kubernetes.
type StateKubernetes struct {
	Namespace  string `toml:"namespace"`
	Kubeconfig string `toml:"kubeconfig"` // a file; empty: the cluster that this is a pod of, or else the user's kubeconfig
	Context    string `toml:"context"`    // of the kubeconfig
}

// Used reports whether there is one.
func (s StateStorage) Used() bool {
	return s.S3.BucketName != "" || s.Kubernetes != StateKubernetes{} || s.KeyFile != "" || s.Prefix != ""
}

// Runner is an entry: a runner of GitLab, and how its jobs run.
type Runner struct {
	Name            string    `toml:"name"`
	URL             string    `toml:"url"`
	ID              int64     `toml:"id"`
	Token           string    `toml:"token"`
	TokenObtainedAt time.Time `toml:"token_obtained_at"`
	TokenExpiresAt  time.Time `toml:"token_expires_at"` // zero: never, as is year 1, which gitlab-runner writes
	TLSCAFile       string    `toml:"tls-ca-file"`
	TLSCertFile     string    `toml:"tls-cert-file"`
	TLSKeyFile      string    `toml:"tls-key-file"`

	Limit                  int               `toml:"limit"`        // 0: none
	OutputLimit            int64             `toml:"output_limit"` // bytes
	RequestConcurrency     int               `toml:"request_concurrency"`
	StrictCheckInterval    bool              `toml:"strict_check_interval"`
	UnhealthyRequestsLimit int               `toml:"unhealthy_requests_limit"`
	UnhealthyInterval      time.Duration     `toml:"unhealthy_interval"`
	FinalUpdateRetryLimit  int               `toml:"job_status_final_update_retry_limit"`
	Labels                 map[string]string `toml:"labels"`
	Executor               string            `toml:"executor"`
	Isolation              Isolation         `toml:"isolation"`
	Policy                 Policy            `toml:"policy"`
	BuildsDir              string            `toml:"builds_dir"`
	CacheDir               string            `toml:"cache_dir"`
	CloneURL               string            `toml:"clone_url"`
	Environment            []string          `toml:"environment"` // NAME=VALUE
	PreGetSourcesScript    string            `toml:"pre_get_sources_script"`
	PostGetSourcesScript   string            `toml:"post_get_sources_script"`
	PreBuildScript         string            `toml:"pre_build_script"`
	PostBuildScript        string            `toml:"post_build_script"`
	PrepareTimeout         time.Duration     `toml:"prepare_timeout"`     // 0: the job's
	GetSourcesTimeout      time.Duration     `toml:"get_sources_timeout"` // 0: the job's
	DebugTraceDisabled     bool              `toml:"debug_trace_disabled"`
	SafeDirectoryCheckout  *bool             `toml:"safe_directory_checkout"`
	CleanGitConfig         *bool             `toml:"clean_git_config"`
	Shell                  string            `toml:"shell"`
	CustomBuildDir         CustomBuildDir    `toml:"custom_build_dir"`
	FeatureFlags           map[string]bool   `toml:"feature_flags"`
	UseSlotCgroups         bool              `toml:"use_slot_cgroups"`
	SlotCgroupTemplate     string            `toml:"slot_cgroup_template"`
	Monitoring             Monitoring        `toml:"monitoring"`
	Artifact               Artifact          `toml:"artifact"`
	Traces                 Traces            `toml:"traces"`
	Cache                  Cache             `toml:"cache"`
	Docker                 *Docker           `toml:"docker"`
	Kubernetes             *Kubernetes       `toml:"kubernetes"`
	SSH                    *SSH              `toml:"ssh"`
	Custom                 *Custom           `toml:"custom"`
	Plugin                 *Plugin           `toml:"plugin"`
	Provider               *Provider         `toml:"provider"`
	Autoscaler             *Autoscaler       `toml:"autoscaler"`
	Machine                *Machine          `toml:"machine"`
	Fleet                  Fleet             `toml:"fleet"`
	User                   string            // of jobs on this machine itself, from Config.User; empty is that of the manager
	line                   int               // of its [[runners]]
	unset                  string            // see Unset
	invalid                *InvalidError     // why it cannot be run; nil if nothing is wrong with it
}

// Line is that of the entry's heading in the file; 0 where it is in none.
func (r *Runner) Line() int { return r.line }

// Unset is a variable that the entry's address or token names and that is not set, so that they are not what is meant; empty if there is none.
func (r *Runner) Unset() string { return r.unset }

// Isolation are the levels that jobs of an entry get, by their names in package executor. See Runner.Level.
type Isolation struct {
	Default string   `toml:"default"` // of a job that asks for none
	Minimum string   `toml:"minimum"` // jobs that ask for less are refused
	Allowed []string `toml:"allowed"` // what jobs may ask for; nil: the default alone
}

// Policy is what jobs of an entry may ask for, beyond what gitlab-runner has for that. See package policy.
type Policy struct {
	ProtectedRefsOnly bool     `toml:"protected_refs_only"`
	MaxJobsPerProject int      `toml:"max_jobs_per_project"` // at once; 0: no limit
	Network           string   `toml:"network"`              // none, public, all or a list of hosts; empty: all
	AllowedNetworks   []string `toml:"allowed_networks"`     // what jobs may ask for beyond Network
	// Memory is in bytes; 0 is no limit, as for the other two.
	Memory    int64   `toml:"memory"`
	Processes int     `toml:"processes"`
	CPUs      float64 `toml:"cpus"`
}

// CustomBuildDir says whether jobs may choose their folder.
type CustomBuildDir struct {
	Enabled *bool `toml:"enabled"` // nil: where the environment is the job's own
}

// Monitoring says what counts as a job that waited too long.
type Monitoring struct {
	JobQueuingDurations []JobQueuingDuration `toml:"job_queuing_durations"`
}

// JobQueuingDuration is one threshold.
type JobQueuingDuration struct {
	Periods               []string      `toml:"periods"` // as cron has them
	Timezone              string        `toml:"timezone"`
	Threshold             time.Duration `toml:"threshold"`
	JobsRunningForProject string        `toml:"jobs_running_for_project"`
}

// Traces says what becomes of the traces of jobs.
type Traces struct {
	Dir      string        `toml:"dir"`      // where they are kept, below the state folder if it is relative; empty keeps none
	Keep     int           `toml:"keep"`     // how many; 0: all
	MaxAge   time.Duration `toml:"max_age"`  // how long; 0: for ever
	Key      string        `toml:"sign_key"` // a file with the private key that they are signed with; empty: none
	Artifact string        `toml:"artifact"` // TraceNever, TraceAsked or TraceAlways; empty is TraceAsked
}

// When a trace becomes an artifact of its job.
const (
	TraceNever  = "never"
	TraceAsked  = "asked"
	TraceAlways = "always"
)

// Artifact is about the upload of artifacts.
type Artifact struct {
	UploadTimeout         time.Duration `toml:"upload_timeout"`
	ResponseHeaderTimeout time.Duration `toml:"response_header_timeout"`
}

// Cache says where caches are stored.
type Cache struct {
	Type                   string     `toml:"Type"` // empty: a folder of this machine
	Path                   string     `toml:"Path"`
	Shared                 bool       `toml:"Shared"`
	MaxUploadedArchiveSize int64      `toml:"MaxUploadedArchiveSize"` // bytes; 0: no limit
	S3                     CacheS3    `toml:"s3"`
	GCS                    CacheGCS   `toml:"gcs"`
	Azure                  CacheAzure `toml:"azure"`
}

// CacheS3 is a store with S3's API.
type CacheS3 struct {
	ServerAddress             string `toml:"ServerAddress"`
	AccessKey                 string `toml:"AccessKey"`
	SecretKey                 string `toml:"SecretKey"`
	SessionToken              string `toml:"SessionToken"`
	BucketName                string `toml:"BucketName"`
	BucketLocation            string `toml:"BucketLocation"`
	Insecure                  bool   `toml:"Insecure"`
	AuthenticationType        string `toml:"AuthenticationType"`
	ServerSideEncryption      string `toml:"ServerSideEncryption"`
	ServerSideEncryptionKeyID string `toml:"ServerSideEncryptionKeyID"`
	DualStack                 *bool  `toml:"DualStack"` // nil: true
	PathStyle                 *bool  `toml:"PathStyle"` // nil: what the server needs
	Accelerate                bool   `toml:"Accelerate"`
	RoleARN                   string `toml:"RoleARN"`
	UploadRoleARN             string `toml:"UploadRoleARN"`
}

// CacheGCS is Google Cloud Storage.
type CacheGCS struct {
	AccessID        string `toml:"AccessID"`
	PrivateKey      string `toml:"PrivateKey"`
	CredentialsFile string `toml:"CredentialsFile"`
	BucketName      string `toml:"BucketName"`
	UniverseDomain  string `toml:"UniverseDomain"`
}

// CacheAzure is Azure Blob Storage.
type CacheAzure struct {
	AccountName   string `toml:"AccountName"`
	AccountKey    string `toml:"AccountKey"`
	ContainerName string `toml:"ContainerName"`
	StorageDomain string `toml:"StorageDomain"`
}

// Docker are containers of Docker or Podman. Sizes are in bytes; 0 is no limit.
type Docker struct {
	Host                       string              `toml:"host"`
	TLSCertPath                string              `toml:"tls_cert_path"`
	TLSVerify                  bool                `toml:"tls_verify"`
	Hostname                   string              `toml:"hostname"`
	Image                      string              `toml:"image"`
	Runtime                    string              `toml:"runtime"`
	Memory                     int64               `toml:"memory"`
	MemorySwap                 int64               `toml:"memory_swap"`
	MemoryReservation          int64               `toml:"memory_reservation"`
	CgroupParent               string              `toml:"cgroup_parent"`
	CPUSetCPUs                 string              `toml:"cpuset_cpus"`
	CPUSetMems                 string              `toml:"cpuset_mems"`
	CPUs                       float64             `toml:"cpus"`
	CPUShares                  int64               `toml:"cpu_shares"`
	DNS                        []string            `toml:"dns"`
	DNSSearch                  []string            `toml:"dns_search"`
	Privileged                 bool                `toml:"privileged"`
	ServicesPrivileged         *bool               `toml:"services_privileged"` // nil: as Privileged
	DisableEntrypointOverwrite bool                `toml:"disable_entrypoint_overwrite"`
	User                       string              `toml:"user"`
	AllowedUsers               []string            `toml:"allowed_users"`
	GroupAdd                   []string            `toml:"group_add"`
	UsernsMode                 string              `toml:"userns_mode"`
	CapAdd                     []string            `toml:"cap_add"`
	CapDrop                    []string            `toml:"cap_drop"`
	OOMKillDisable             bool                `toml:"oom_kill_disable"`
	OOMScoreAdjust             int                 `toml:"oom_score_adjust"`
	SecurityOpt                []string            `toml:"security_opt"`
	ServicesSecurityOpt        []string            `toml:"services_security_opt"`
	Devices                    []string            `toml:"devices"`
	DeviceCgroupRules          []string            `toml:"device_cgroup_rules"`
	GPUs                       string              `toml:"gpus"`
	ServicesDevices            map[string][]string `toml:"services_devices"`
	DisableCache               bool                `toml:"disable_cache"`
	Volumes                    []string            `toml:"volumes"`
	VolumeDriver               string              `toml:"volume_driver"`
	VolumeDriverOps            map[string]string   `toml:"volume_driver_ops"`
	CacheDir                   string              `toml:"cache_dir"`
	ExtraHosts                 []string            `toml:"extra_hosts"`
	VolumesFrom                []string            `toml:"volumes_from"`
	NetworkMode                string              `toml:"network_mode"`
	PIDMode                    string              `toml:"pid_mode"`
	IPCMode                    string              `toml:"ipcmode"`
	MACAddress                 string              `toml:"mac_address"`
	Services                   []Service           `toml:"services"`
	ServicesLimit              *int                `toml:"services_limit"` // nil or -1: none
	ServiceMemory              int64               `toml:"service_memory"`
	ServiceMemorySwap          int64               `toml:"service_memory_swap"`
	ServiceMemoryReservation   int64               `toml:"service_memory_reservation"`
	ServiceCgroupParent        string              `toml:"service_cgroup_parent"`
	ServiceSlotCgroupTemplate  string              `toml:"service_slot_cgroup_template"`
	ServiceCPUSetCPUs          string              `toml:"service_cpuset_cpus"`
	ServiceCPUs                float64             `toml:"service_cpus"`
	ServiceCPUShares           int64               `toml:"service_cpu_shares"`
	ServiceGPUs                string              `toml:"service_gpus"`
	WaitForServicesTimeout     time.Duration       `toml:"wait_for_services_timeout"` // negative: no waiting
	AllowedImages              []string            `toml:"allowed_images"`
	AllowedPrivilegedImages    []string            `toml:"allowed_privileged_images"`
	AllowedPrivilegedServices  []string            `toml:"allowed_privileged_services"`
	AllowedPullPolicies        []string            `toml:"allowed_pull_policies"`
	AllowedServices            []string            `toml:"allowed_services"`
	PullPolicy                 []string            `toml:"pull_policy"` // one at least
	ShmSize                    int64               `toml:"shm_size"`
	Tmpfs                      map[string]string   `toml:"tmpfs"`
	ServicesTmpfs              map[string]string   `toml:"services_tmpfs"`
	Sysctls                    map[string]string   `toml:"sysctls"`
	ContainerLabels            map[string]string   `toml:"container_labels"`
	EnableIPv6                 bool                `toml:"enable_ipv6"`
	Ulimit                     map[string]string   `toml:"ulimit"` // SOFT or SOFT:HARD
	NetworkMTU                 int                 `toml:"network_mtu"`
	LogOptions                 map[string]string   `toml:"log_options"`
}

// Service is one that every job has.
type Service struct {
	Name        string   `toml:"name"`
	Alias       string   `toml:"alias"` // separated by spaces or commas
	Command     []string `toml:"command"`
	Entrypoint  []string `toml:"entrypoint"`
	Environment []string `toml:"environment"`
}

// SSH is a host that jobs run on.
type SSH struct {
	User                         string `toml:"user"`
	Password                     string `toml:"password"`
	Host                         string `toml:"host"`
	Port                         string `toml:"port"`
	IdentityFile                 string `toml:"identity_file"`
	DisableStrictHostKeyChecking *bool  `toml:"disable_strict_host_key_checking"`
	KnownHostsFile               string `toml:"known_hosts_file"`
}

// Custom is a driver of the custom executor.
type Custom struct {
	ConfigExec          string        `toml:"config_exec"`
	ConfigArgs          []string      `toml:"config_args"`
	ConfigExecTimeout   time.Duration `toml:"config_exec_timeout"`
	PrepareExec         string        `toml:"prepare_exec"`
	PrepareArgs         []string      `toml:"prepare_args"`
	PrepareExecTimeout  time.Duration `toml:"prepare_exec_timeout"`
	RunExec             string        `toml:"run_exec"`
	RunArgs             []string      `toml:"run_args"`
	CleanupExec         string        `toml:"cleanup_exec"`
	CleanupArgs         []string      `toml:"cleanup_args"`
	CleanupExecTimeout  time.Duration `toml:"cleanup_exec_timeout"`
	GracefulKillTimeout time.Duration `toml:"graceful_kill_timeout"`
	ForceKillTimeout    time.Duration `toml:"force_kill_timeout"`
}

// Provider is where the machines of jobs come from: Hosts, a plugin with a Name or a File, or the fleet that Machinery describes.
type Provider struct {
	Hosts          []ProviderHost `toml:"hosts"`
	AcquireTimeout time.Duration  `toml:"acquire_timeout"` // how long a job waits for its machine
	Needs          MachineNeeds   `toml:"needs"`
	AllowedNeeds   AllowedNeeds   `toml:"allowed_needs"`
	Name           string         `toml:"name"`
	File           string         `toml:"file"`   // empty: provider-plugin-NAME in Folder, then in PATH
	Folder         string         `toml:"folder"` // empty: PATH alone
	SHA256         string         `toml:"sha256"` // in hexadecimal; empty: any file is run
	Args           []string       `toml:"args"`
	Environment    []string       `toml:"environment"` // NAME=VALUE, or NAME for the value of this process
	Options        map[string]any `toml:"options"`     // checked by the plugin's schema
	Installed      Installed      // what Name means, where that is an installed plugin
	Machinery      *Machinery     // from the entry's other tables; nil: there is no fleet
}

// MachineNeeds are what a machine has to have for each job. Sizes are in bytes; 0 and "" ask for nothing.
type MachineNeeds struct {
	OS     string            `toml:"os"`
	Arch   string            `toml:"arch"`
	CPUs   float64           `toml:"cpus"`
	Memory int64             `toml:"memory"`
	Disk   int64             `toml:"disk"`
	GPUs   int               `toml:"gpus"`
	Labels map[string]string `toml:"labels"`
}

// AllowedNeeds are what jobs may ask for beyond the needs of their entry. Nothing is allowed by 0 and by an empty list.
type AllowedNeeds struct {
	OS     []string `toml:"os"`
	Arch   []string `toml:"arch"`
	CPUs   float64  `toml:"cpus"` // at most, as the other numbers
	Memory int64    `toml:"memory"`
	Disk   int64    `toml:"disk"`
	GPUs   int      `toml:"gpus"`
	Labels []string `toml:"labels"` // patterns of NAME=VALUE, as glob.MatchName has them
}

// ProviderHost is a machine that jobs run on. What it has is for each of its slots.
type ProviderHost struct {
	Address        string            `toml:"address"` // [user@]host[:port]; "local" is this machine
	Name           string            `toml:"name"`    // empty: the address
	Slots          int               `toml:"slots"`   // jobs at once
	IdentityFile   string            `toml:"identity_file"`
	KnownHostsFile string            `toml:"known_hosts_file"`
	HostKey        string            `toml:"host_key"` // its fingerprint: SHA256:…
	Jump           string            `toml:"jump"`
	Level          string            `toml:"level"` // empty: the entry's
	Environment    []string          `toml:"environment"`
	TempDir        string            `toml:"temp_dir"`
	OS             string            `toml:"os"`
	Arch           string            `toml:"arch"`
	CPUs           float64           `toml:"cpus"`
	Memory         int64             `toml:"memory"`
	Disk           int64             `toml:"disk"`
	GPUs           int               `toml:"gpus"`
	Labels         map[string]string `toml:"labels"`
}

// Plugin is an executor plugin. It has a Name or a File.
type Plugin struct {
	Name        string         `toml:"name"`
	File        string         `toml:"file"`   // empty: executor-plugin-NAME in Folder, then in PATH
	Folder      string         `toml:"folder"` // empty: PATH alone
	SHA256      string         `toml:"sha256"` // in hexadecimal; empty: any file is run
	Args        []string       `toml:"args"`
	Environment []string       `toml:"environment"` // NAME=VALUE, or NAME for the value of this process
	Options     map[string]any `toml:"options"`     // checked by the plugin's schema
	Installed   Installed      // what Name means, where that is an installed plugin
}

// Installed says which installed plugin a name means: who reads the configuration finds it. That the name means another one is a change of the entry, as any other.
type Installed struct {
	File, SHA256, Version string // all empty where the plugin is not installed, or is found otherwise
}
