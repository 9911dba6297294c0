// Package compile turns one job of a .gitlab-ci.yml, or one that GitLab sent, into steps of the catalog.
//
//	pipeline.Job ──> FromPipeline ──> Job ──> Compile ──> plan.Component: git/checkout, cache/restore, artifacts/download, script, …
//
// What a job says in keywords is sugar for these steps. The result is an ordinary list of steps, which anyone can read, change and run:
// it holds no secret. What is masked stands in it as ${{ vars.NAME }}, and whoever runs it gives the run the variables that Masked
// returns, and writes the files that Files returns.
//
// The order and what depends on what are gitlab-runner's. A step that fails skips those that follow, but for after_script, and for
// caches and artifacts that are kept on failure:
//
//	secrets, hook, sources, hook, cache, artifacts     after_script needs the script to have begun
//	script, release, coverage, pages                   coverage is looked for whatever the script came to
//	after_script                                       fails the job only where the job says so
//	dotenv, save_cache, upload_artifacts               a cache that cannot be saved never fails a job; artifacts do
package compile

import (
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/plan"
)

// Job is a job that is ready to run: its rules are decided, and every text in it is as GitLab sends it to a runner, with the variables
// that only the runner knows still in it.
type Job struct {
	Name, Stage string
	// Shell runs the scripts: bash, sh, pwsh, powershell or cmd; empty is bash, or sh where there is no bash.
	Shell string
	// Variables are all of the job's in order of definition; of several with one name the last counts. Masked ones reach the steps as
	// job variables of the run (${{ vars.NAME }}), and files by their path below Temp.
	Variables *variable.Collection
	// Project is the folder that the job runs in. The plan has ${{ work_dir }} in its place, so that it runs anywhere. Empty replaces nothing.
	Project string
	// Temp is the folder beside the project's for files of the job.
	Temp string

	// GitLab is an address of the GitLab that the job is from. Steps that talk to its host and port get the certificates of the variables
	// CI_SERVER_TLS_*. Empty is none.
	GitLab string

	Source Source
	// Hooks run before and after the files are there.
	PreGetSources, PostGetSources []string
	// Script is before_script and script; AfterScript is empty when there is none.
	Script, AfterScript []string
	// ReleaseScript makes a release once Script has succeeded, as GitLab sends it to runners; Release is what the keyword says instead.
	ReleaseScript []string
	// Written says where the lines of the scripts are from. It may be empty.
	Written Written
	// Steps are native steps in the place of Script.
	Steps []plan.Step

	Timeout            time.Duration // of the job; 0 is none
	ScriptTimeout      time.Duration // 0 is none
	AfterScriptTimeout time.Duration // 0 is five minutes
	// AfterScriptFails says that a failing after_script fails the job (AFTER_SCRIPT_IGNORE_ERRORS=false).
	AfterScriptFails bool

	Cache     []Cache
	Artifacts []Artifact
	// Dependencies are the jobs whose artifacts are there when the script starts, in order.
	Dependencies []Dependency

	Coverage string
	Release  *Release
	Pages    *Pages
	Secrets  []Secret
}

// Written holds, for each text of a script, the places of its lines.
type Written struct {
	PreGetSources, Script, AfterScript [][]diag.SourceLine
}

// Source is where the job's files are from. Zero values stand for what git/checkout does without them.
type Source struct {
	// WorkTree is a folder of this machine to copy; all but Excludes is not used then.
	WorkTree string
	// Excludes is a file with patterns of what is left out of the copy, beyond what the work tree ignores; "" is none.
	Excludes string
	// None leaves the folder as it is: the files are there.
	None bool

	URL, Token   string
	Ref, SHA     string
	Refspecs     []string
	ObjectFormat string
	Depth        int
	// AllowFetch lets what is in the folder be updated, where GIT_STRATEGY does not say.
	AllowFetch bool
	// KeepConfig leaves the configuration and hooks of a repository that is in the folder already.
	KeepConfig bool
	// Trusted lets git trust the folder in all steps, whoever owns it.
	Trusted bool
	// Timeout is how long it may take; 0 is the job's time.
	Timeout time.Duration
}

// Cache is one of the job's caches. Its texts are expanded as the runner expands them by Compile.
type Cache struct {
	Key          string
	FallbackKeys []string
	Paths        []string
	Untracked    bool
	Policy       string // pull-push, pull or push; empty is pull-push
	When         string // on_success, on_failure or always; empty is on_success
	// Location is where caches are kept; see builtin://cache/save.
	Location string
	// Store signs addresses instead, where it is not nil.
	Store CacheStore
	// Secrets are those of the run that the location needs, such as AWS_SECRET_ACCESS_KEY.
	Secrets []string
}

// Artifact is one upload: an archive, or a report.
type Artifact struct {
	Name      string
	Paths     []string
	Exclude   []string
	Untracked bool
	Type      string // archive, junit, dotenv, …; empty is archive
	Format    string // zip, gzip, raw; empty is what GitLab takes for the type
	When      string // on_success, on_failure or always; empty is on_success
	ExpireIn  string
	Access    string
	// Location is the folder that takes it; URL and Token are GitLab's address instead.
	Location   string
	URL, Token string
	// Timeout is how long one upload may take, and ResponseTimeout how long nothing may move; 0 is what artifacts/upload does by itself.
	Timeout, ResponseTimeout time.Duration
}

// Dependency is another job whose artifacts are brought in: the file of an archive, or GitLab's address.
type Dependency struct {
	Name       string
	File       string
	URL, Token string
	Optional   bool
}

// Release is a release to make when the script has succeeded; see builtin://release.
type Release struct {
	TagName, TagMessage, Name, Description, Ref, ReleasedAt string

	Milestones []string
	Links      []ReleaseLink
	// Record is the folder that takes it; APIURL, Project and Token are GitLab instead.
	Record                 string
	APIURL, Project, Token string
}

// ReleaseLink is an asset of a release.
type ReleaseLink struct{ Name, URL, FilePath, LinkType string }

// Pages are published when the script has succeeded; see builtin://pages.
type Pages struct {
	Publish, PathPrefix, ExpireIn string

	Location string
}

// Secret is read from a vault before the script, into a variable; see builtin://secrets/vault.
type Secret struct {
	Name                            string
	File                            bool
	Server, Namespace               string
	JWT                             string // with the variable that holds it, as $VAULT_ID_TOKEN
	AuthPath, Role                  string
	Engine, EnginePath, Path, Field string
}
