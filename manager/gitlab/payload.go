package gitlab

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Job is what GitLab hands out: everything that a runner needs to run one job. Rules are decided and templates are resolved; variables
// that only a runner knows are still in its texts. Every list and object may be null, which is the same as empty.
//
// Source: lib/api/entities/ci/job_request in GitLab, common/spec in gitlab-runner.
type Job struct {
	ID            int64  `json:"id"`
	Token         string `json:"token"` // authenticates requests for this job, and Git
	AllowGitFetch bool   `json:"allow_git_fetch"`

	Info         JobInfo           `json:"job_info"`
	Git          GitInfo           `json:"git_info"`
	Runner       RunnerInfo        `json:"runner_info"`
	Inputs       []Input           `json:"inputs,omitempty"`
	Variables    []Variable        `json:"variables"`
	Steps        []Step            `json:"steps"`
	Hooks        []Hook            `json:"hooks,omitempty"`
	Image        *Image            `json:"image,omitempty"`
	Services     []Image           `json:"services,omitempty"`
	Artifacts    []Artifact        `json:"artifacts,omitempty"`
	Cache        []Cache           `json:"cache,omitempty"`
	Credentials  []Credential      `json:"credentials,omitempty"`
	Dependencies []Dependency      `json:"dependencies,omitempty"`
	Features     JobFeatures       `json:"features"`
	Secrets      map[string]Secret `json:"secrets,omitempty"`
	// Run is a JSON array of steps, as one string. It replaces Steps.
	Run    string        `json:"run,omitempty"`
	Policy PolicyOptions `json:"policy_options,omitzero"`

	// Unreadable is why the rest is not there: GitLab sent it in a form that this program does not know. Such a job can only fail.
	Unreadable string `json:"rung_unreadable,omitempty"`
}

// JobInfo says which job it is.
type JobInfo struct {
	ID              int64   `json:"id,omitempty"`
	Name            string  `json:"name"`
	Stage           string  `json:"stage"`
	PipelineID      int64   `json:"pipeline_id,omitempty"`
	ProjectID       int64   `json:"project_id"`
	ProjectName     string  `json:"project_name"`
	ProjectFullPath string  `json:"project_full_path,omitempty"`
	NamespaceID     int64   `json:"namespace_id,omitempty"`
	RootNamespaceID int64   `json:"root_namespace_id,omitempty"`
	UserID          int64   `json:"user_id,omitempty"`
	TimeInQueue     float64 `json:"time_in_queue_seconds"`
	// RunningOnInstanceRunners is how many jobs of the project run on instance runners: "3", "5+", "+Inf".
	RunningOnInstanceRunners string `json:"project_jobs_running_on_instance_runners_count"`
	QueueSize                int64  `json:"queue_size,omitempty"`
	QueueDepth               int64  `json:"queue_depth,omitempty"`
}

// GitInfo says what to check out.
type GitInfo struct {
	RepoURL      string   `json:"repo_url"` // with the job's token in it
	ObjectFormat string   `json:"repo_object_format,omitempty"`
	Ref          string   `json:"ref"`
	SHA          string   `json:"sha"`
	BeforeSHA    string   `json:"before_sha"`
	RefType      string   `json:"ref_type"` // branch or tag
	Refspecs     []string `json:"refspecs"`
	Depth        int      `json:"depth"`
	Protected    *bool    `json:"protected,omitempty"` // nil: GitLab did not say
}

// RunnerInfo is what GitLab knows of the runner that matters to the job.
type RunnerInfo struct {
	UUID       string `json:"uuid,omitempty"`
	Timeout    int    `json:"timeout"` // of the job, in seconds; 0 or less is two hours
	SessionURL string `json:"runner_session_url,omitempty"`
}

// Input is a job input with its value.
type Input struct {
	Key   string     `json:"key"`
	Value InputValue `json:"value"`
}

// InputValue is the value of a job input.
type InputValue struct {
	Type      string          `json:"type"` // string, number, boolean, array or struct
	Content   json.RawMessage `json:"content"`
	Sensitive bool            `json:"sensitive,omitempty"`
}

// Variable is a variable of the job. Of several with one key the last counts.
type Variable struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Public bool   `json:"public"`
	Masked bool   `json:"masked"`
	File   bool   `json:"file,omitempty"`
	Raw    bool   `json:"raw,omitempty"` // is not expanded
}

// Step is a part of the job's script: "script", "release" or "after_script". before_script is already a part of it.
type Step struct {
	Name         string   `json:"name"`
	Script       []string `json:"script"`
	Timeout      int      `json:"timeout"` // in seconds
	When         string   `json:"when"`
	AllowFailure bool     `json:"allow_failure"`
}

// Hook is a script that runs at a point of the job: pre_get_sources_script or post_get_sources_script.
type Hook struct {
	Name   string   `json:"name"`
	Script []string `json:"script"`
}

// Image is the job's image, or one of its services.
type Image struct {
	Name         string       `json:"name"`
	Alias        string       `json:"alias,omitempty"` // several, separated by spaces or commas
	Entrypoint   []string     `json:"entrypoint,omitempty"`
	Command      []string     `json:"command,omitempty"`
	Ports        []Port       `json:"ports,omitempty"`
	PullPolicies []string     `json:"pull_policy,omitempty"`
	Options      ImageOptions `json:"executor_opts,omitzero"`
	Variables    []Variable   `json:"variables,omitempty"` // of a service
}

// Port is a port of an image that a web IDE may reach.
type Port struct {
	Number   int    `json:"number"`
	Protocol string `json:"protocol"`
	Name     string `json:"name"`
}

// ImageOptions are what an image asks of its executor. Unknown ones fail a job: it would run otherwise than its author says.
type ImageOptions struct {
	Docker     DockerOptions     `json:"docker,omitzero"`
	Kubernetes KubernetesOptions `json:"kubernetes,omitzero"`
	// Unknown are the paths of keys that this program does not know, such as "docker.gpus".
	Unknown []string `json:"-"`
}

// DockerOptions are those of Docker.
type DockerOptions struct {
	Platform string `json:"platform,omitempty"`
	User     UserID `json:"user,omitempty"`
}

// KubernetesOptions are those of Kubernetes.
type KubernetesOptions struct {
	User UserID `json:"user,omitempty"`
}

// UnmarshalJSON reads the options and collects the unknown ones.
func (o *ImageOptions) UnmarshalJSON(data []byte) error {
	type plain ImageOptions // without this method
	if err := json.Unmarshal(data, (*plain)(o)); err != nil {
		return err
	}
	known := map[string]map[string]bool{"docker": {"platform": true, "user": true}, "kubernetes": {"user": true}}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(data, &given); err != nil {
		return err
	}
	for name, options := range given {
		if known[name] == nil {
			o.Unknown = append(o.Unknown, name)
			continue
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(options, &keys); err != nil {
			return fmt.Errorf("executor_opts.%s: %w", name, err)
		}
		for key := range keys {
			if !known[name][key] {
				o.Unknown = append(o.Unknown, name+"."+key)
			}
		}
	}
	return nil
}

// UserID is a user, by name or by number. GitLab sends either.
type UserID string

// UnmarshalJSON accepts a string and an integer.
func (u *UserID) UnmarshalJSON(data []byte) error {
	var number int64
	if err := json.Unmarshal(data, &number); err == nil {
		if string(data) != "null" {
			*u = UserID(strconv.FormatInt(number, 10))
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(u))
}

// Artifact is one upload. Each report is one of its own.
type Artifact struct {
	Name      string   `json:"name"`
	Untracked bool     `json:"untracked"`
	Paths     []string `json:"paths"`
	Exclude   []string `json:"exclude,omitempty"`
	When      string   `json:"when"`
	ExpireIn  string   `json:"expire_in"`
	Type      string   `json:"artifact_type"`
	Format    string   `json:"artifact_format"`
}

// Cache is one cache. Its key already says whether it is protected.
type Cache struct {
	Key          string   `json:"key"`
	Untracked    bool     `json:"untracked"`
	Paths        []string `json:"paths"`
	Policy       string   `json:"policy"`
	When         string   `json:"when"`
	FallbackKeys []string `json:"fallback_keys,omitempty"`
}

// Credential opens a registry.
type Credential struct {
	Type     string `json:"type"`
	URL      string `json:"url"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// Dependency is a job whose artifacts this one needs.
type Dependency struct {
	ID            int64          `json:"id"`
	Name          string         `json:"name"`
	Token         string         `json:"token"`
	ArtifactsFile *ArtifactsFile `json:"artifacts_file,omitempty"` // nil: it has none
}

// ArtifactsFile is an archive of artifacts.
type ArtifactsFile struct {
	Filename string `json:"filename"`
	Size     int64  `json:"size"`
}

// JobFeatures are those of GitLab that matter to the job.
type JobFeatures struct {
	TraceSections     bool     `json:"trace_sections"`
	TokenMaskPrefixes []string `json:"token_mask_prefixes,omitempty"`
	// FailureReasons are the reasons that this GitLab understands, beyond script_failure, runner_system_failure and job_execution_timeout.
	FailureReasons []string `json:"failure_reasons,omitempty"`
	// Tracing is the trace of OpenTelemetry that the job is a part of; nil if GitLab makes none.
	Tracing *Tracing `json:"tracing,omitempty"`
}

// Tracing are IDs of OpenTelemetry, in hexadecimal.
type Tracing struct {
	TraceID      string `json:"trace_id"`
	SpanParentID string `json:"span_parent_id,omitempty"`
}

// Secret is where the value of a variable is to be read from. Exactly one place is set.
type Secret struct {
	Vault *VaultSecret `json:"vault,omitempty"`
	// Others are the names of the places that this program does not read, such as "azure_key_vault", of a secret that is not in a Vault.
	Others []string `json:"-"`
	File   *bool    `json:"file,omitempty"` // nil is true
}

// UnmarshalJSON reads the secret. What is beside a Vault says nothing of a place: GitLab sends `token:` as it is in the job, too, which the data of the
// login already has.
func (s *Secret) UnmarshalJSON(data []byte) error {
	type plain Secret // without this method
	if err := json.Unmarshal(data, (*plain)(s)); err != nil || s.Vault != nil {
		return err
	}
	var places map[string]json.RawMessage
	if err := json.Unmarshal(data, &places); err != nil {
		return err
	}
	for name, value := range places {
		if name != "vault" && name != "file" && name != "token" && string(value) != "null" {
			s.Others = append(s.Others, name)
		}
	}
	slices.Sort(s.Others)
	return nil
}

// VaultSecret is a field of a secret in a Vault server.
type VaultSecret struct {
	Server VaultServer `json:"server"`
	Engine VaultEngine `json:"engine"`
	Path   string      `json:"path"`
	Field  string      `json:"field"`
}

// VaultServer is a Vault server, and how to log in to it.
type VaultServer struct {
	URL       string    `json:"url"`
	Namespace string    `json:"namespace,omitempty"`
	Auth      VaultAuth `json:"auth"`
}

// VaultAuth is a method of authentication.
type VaultAuth struct {
	Name string         `json:"name"` // jwt
	Path string         `json:"path"`
	Data map[string]any `json:"data"` // jwt, role
}

// VaultEngine is a secret engine.
type VaultEngine struct {
	Name string `json:"name"` // kv-v1, kv-v2, generic
	Path string `json:"path"`
}

// PolicyOptions say whether a policy put the job into its pipeline.
type PolicyOptions struct {
	ExecutionPolicyJob                bool     `json:"execution_policy_job,omitempty"`
	PolicyName                        string   `json:"policy_name,omitempty"`
	VariablesOverrideAllowed          *bool    `json:"policy_variables_override_allowed,omitempty"`
	VariablesOverrideAllowedException []string `json:"policy_variables_override_exceptions,omitempty"`
}
