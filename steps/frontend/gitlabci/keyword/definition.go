// Package keyword turns the keywords of a resolved .gitlab-ci.yml into typed, checked definitions.
//
// It knows GitLab's rules for every keyword (types, limits, what excludes what) and reports all that is wrong at once, each with its
// place and the way it came there. It decides nothing: whether a job runs is for the package pipeline.
package keyword

import (
	"github.com/rungci/rung/steps/containers"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Definition is what a configuration says.
type Definition struct {
	// Stages are all stages in order, .pre first and .post last, whether the file names those or not.
	Stages    []string
	Workflow  Workflow
	Variables []Variable // global ones
	Jobs      []*Job     // in order, hidden ones left out
}

// Workflow is `workflow:`.
type Workflow struct {
	Name  string // with variables, unexpanded
	Rules []Rule // nil when there are none
	// OnNewCommit and OnJobFailure are `auto_cancel:`.
	OnNewCommit, OnJobFailure string
}

// Variable is a variable that the file defines.
type Variable struct {
	variable.Variable
	Description string
	// Options are the values that a person may choose from.
	Options []string
	Node    config.Node
}

// Rule is one of `rules:`.
type Rule struct {
	when.Rule
	// Needs replace the job's; nil when the rule says nothing of them.
	Needs []Need
	// Variables are those of the rule with their places; those of when.Rule are the same.
	Variables []Variable
	// AutoCancel is for rules of workflows: on_new_commit and on_job_failure.
	OnNewCommit, OnJobFailure string
	Node                      config.Node
}

// Job is what the keywords of one job say. Texts hold variables, unexpanded.
type Job struct {
	Name  string
	Stage string
	// Node is the job's map and Key its name, for the places of problems.
	Node, Key config.Node
	// Inherits says which of the global variables the job gets.
	Inherits config.Inherit

	BeforeScript, Script, AfterScript []Line
	// Run are native steps, in the place of scripts; the zero Node when there are none.
	Run   config.Node
	Hooks Hooks

	Image     *Image
	Services  []Service
	Variables []Variable

	// Rules are nil when there are none. Only and Except are the older form.
	Rules         []Rule
	Legacy        when.Legacy
	When          when.When // of the job itself: on_success when nothing is said
	StartIn       time.Duration
	Confirmation  string // manual_confirmation
	AllowFailure  AllowFailure
	Interruptible bool

	// Needs are nil when nothing is said of them; an empty list starts the job at once.
	Needs []Need
	// Dependencies are nil when nothing is said of them.
	Dependencies []string
	Parallel     *Parallel

	Cache     []Cache
	Artifacts *Artifacts
	Retry     Retry
	Timeout   time.Duration // 0 is the project's

	Tags          []string
	ResourceGroup string
	Coverage      string // the pattern with its slashes
	Environment   *Environment
	Release       *Release
	Pages         *Pages
	Trigger       *Trigger
	IDTokens      []IDToken
	Secrets       []Secret
	Identity      string // google_cloud or aws; empty is none
	DAST          *DAST
	Inputs        []Input
}

// Line is an item of a script. Text of several lines is one item.
type Line struct {
	Text string
	Node config.Node
}

// Hooks is `hooks:`.
type Hooks struct {
	PreGetSources []Line
}

// Image is `image:`.
type Image struct {
	containers.Image
	Node config.Node
}

// Service is one of `services:`.
type Service struct {
	Image
	Aliases   []string
	Command   []string
	Variables []Variable
}

// AllowFailure is `allow_failure:`.
type AllowFailure struct {
	// Set says that the job says something of it: a manual job whose file does not is allowed to fail.
	Set       bool
	Always    bool
	ExitCodes []int // only these
}

// Need is one of `needs:`.
type Need struct {
	// Job is the name of a job of the same pipeline; empty for the others.
	Job       string
	Artifacts bool // true when nothing is said
	Optional  bool
	// Matrix are the variables of needs:parallel:matrix, one map for each entry, each with the values that are needed.
	Matrix []MatrixEntry
	// Pipeline is another pipeline's id ($PARENT_PIPELINE_ID), or the path of an upstream project (needs:pipeline).
	Pipeline string
	// Project and Ref name another project's job (cross-project artifacts).
	Project, Ref string
	// UpstreamJob is the job in that pipeline or project whose artifacts are fetched. It is empty for a need of a pipeline alone,
	// whose status the job takes over.
	UpstreamJob string
	Node        config.Node
}

// Parallel is `parallel:`.
type Parallel struct {
	// Count is for a plain number; 0 with a matrix.
	Count  int
	Matrix []MatrixEntry
	Node   config.Node
}

// MatrixEntry is one of parallel:matrix: variables in their order, each with its values.
type MatrixEntry []MatrixVariable

// MatrixVariable is a variable of a matrix.
type MatrixVariable struct {
	Name   string
	Values []string
}

// Cache is one of `cache:`.
type Cache struct {
	Key          CacheKey
	Paths        []string
	Untracked    bool
	Unprotect    bool
	When         when.When // on_success, on_failure or always
	Policy       string    // pull-push, pull or push, or with variables
	FallbackKeys []string
	Node         config.Node
}

// CacheKey is `cache:key`.
type CacheKey struct {
	Text         string   // empty is default, unless there are files
	Files        []string // key:files
	FilesCommits []string // key:files_commits
	Prefix       string
}

// Artifacts is `artifacts:`.
type Artifacts struct {
	Name      string
	Paths     []string
	Exclude   []string
	Untracked bool
	When      when.When // on_success, on_failure or always
	ExpireIn  string    // as written, checked; "" is the instance's
	ExposeAs  string
	Public    *bool
	Access    string // all, developer, maintainer, none
	Reports   []Report
	Node      config.Node
}

// Report is one of artifacts:reports.
type Report struct {
	Type  string // junit, dotenv, coverage_report, …
	Paths []string
	// Format is coverage_report's: cobertura or jacoco.
	Format string
	Node   config.Node
}

// Retry is `retry:`.
type Retry struct {
	Max       int
	When      []string // empty is always
	ExitCodes []int
}

// Environment is `environment:`.
type Environment struct {
	Name, URL      string
	Action         string // start, prepare, stop, verify, access
	OnStop         string // a job
	AutoStopIn     string
	DeploymentTier string
	Kubernetes     config.Node
	Node           config.Node
}

// Release is `release:`.
type Release struct {
	TagName, TagMessage, Name, Description, Ref, ReleasedAt string

	Milestones []string
	Links      []ReleaseLink
	Node       config.Node
}

// ReleaseLink is one of release:assets:links.
type ReleaseLink struct{ Name, URL, FilePath, LinkType string }

// Pages is `pages:`.
type Pages struct {
	// Publish is the folder, "public" when it is empty. ExpireIn is as written, checked; it may have variables.
	Publish, PathPrefix, ExpireIn string

	Node config.Node
}

// Trigger is `trigger:`.
type Trigger struct {
	// Includes are those of a child pipeline, each as `include` has it, or an artifact of a job.
	Includes []config.Node
	// Project and Branch name a downstream project's pipeline.
	Project, Branch string
	// Depend says that the job waits for the pipeline and ends as it does (strategy: depend), Mirror that it mirrors its status.
	Depend, Mirror bool
	// ForwardYAML and ForwardPipeline say which variables it gets.
	ForwardYAML, ForwardPipeline bool
	Inputs                       config.Node
	Node                         config.Node
}

// IDToken is one of `id_tokens:`.
type IDToken struct {
	Name     string
	Audience []string
	Node     config.Node
}

// Secret is one of `secrets:`.
type Secret struct {
	Name     string
	Provider string // vault, gcp_secret_manager, azure_key_vault, aws_secrets_manager, gitlab_secrets_manager, akeyless
	File     bool
	Token    string // the id_token to use, with its $
	// Settings is the provider's map; a vault's short form is already spelt out in it as engine_name, engine_path, path and field.
	Settings map[string]string
	Node     config.Node
}

// DAST is `dast_configuration:`.
type DAST struct{ SiteProfile, ScannerProfile string }

// Input is one of a job's `inputs:`.
type Input struct {
	Name, Type, Description, Regex string

	Default config.Node
	Options []config.Node
}
