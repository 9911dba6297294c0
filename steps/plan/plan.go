// Package plan is the baseline definition: what every frontend compiles to and the only thing that the engine runs.
//
// A Component pairs a Spec (what a step takes and gives) with a Definition (how it does it: one exec, or a list of steps).
// The package holds data and its canonical JSON form. It reads no files and evaluates nothing: text in a Field may hold
// ${{ }} expressions, which the engine evaluates when it reaches them.
package plan

import (
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// Component is what one step file holds.
type Component struct {
	Spec       Spec       `json:"spec"`
	Definition Definition `json:"definition"`
}

// Spec is a component's interface.
type Spec struct {
	Description string            `json:"description,omitempty"`
	Inputs      map[string]Input  `json:"inputs,omitempty"`
	Outputs     map[string]Output `json:"outputs,omitempty"`
	// DelegateOutputs says that the outputs, whatever they are, come from elsewhere: for a list of steps from the step that
	// Definition.Delegate names, for an exec from a StepResult in its output file.
	DelegateOutputs bool `json:"delegate_outputs,omitempty"`
	// AnyOutputs accepts outputs that are not declared. Steps written inline (script, exec, run) have it, as they have no spec.
	AnyOutputs bool `json:"any_outputs,omitempty"`
	// AnyInputs accepts inputs that are not declared, with a warning.
	AnyInputs bool `json:"any_inputs,omitempty"`
	// Env are the variables that the component asks for, by name or by a pattern in which * stands for any text. It gets no others but those
	// that its caller passes and those that every process has (IsBaseVariable).
	Env     map[string]EnvRequest    `json:"env,omitempty"`
	Secrets map[string]SecretRequest `json:"secrets,omitempty"`
	// Exports are the names, and patterns of names, of the variables that the component may set for later steps.
	Exports []string `json:"exports,omitempty"`
	// Permissions are what the component asks to do with the tokens of the job, by scope: see Permits. It may do nothing else with them.
	Permissions map[string]string `json:"permissions,omitempty"`
	// Home is HomeJob for a component that uses the home folder of the steps around it. Empty gives it one of its own, which ends with the step.
	Home string `json:"home,omitempty"`
	// Access are the files, folders, sockets and devices beyond its own that the component asks for when it is confined: texts for ParseAccess.
	Access []string `json:"access,omitempty"`
}

// HomeJob is the Spec.Home of a component that shares the home folder of its caller: in a job's own list, that of the job.
const HomeJob = "job"

// Input is a value that a component takes.
type Input struct {
	Type        value.Kind    `json:"type"`
	Default     *value.Value  `json:"default,omitempty"`  // data, never evaluated; nil makes the input required
	Computed    *Field        `json:"computed,omitempty"` // the default of an input without Default: evaluated where its component begins
	Sensitive   bool          `json:"sensitive,omitempty"`
	Description string        `json:"description,omitempty"`
	Options     []value.Value `json:"options,omitempty"`    // the allowed values; empty allows all
	Match       string        `json:"match,omitempty"`      // an RE2 expression that the whole string must match
	Deprecated  string        `json:"deprecated,omitempty"` // what to tell who gives the input; empty is nothing
	Span        diag.Span     `json:"span,omitzero"`
}

// Output is a value that a component gives.
type Output struct {
	Type        value.Kind   `json:"type"`
	Default     *value.Value `json:"default,omitempty"`
	Sensitive   bool         `json:"sensitive,omitempty"`
	Description string       `json:"description,omitempty"`
	Span        diag.Span    `json:"span,omitzero"`
}

// EnvRequest is an environment variable that a component asks for.
type EnvRequest struct {
	Default     *string   `json:"default,omitempty"`
	Optional    bool      `json:"optional,omitempty"` // a variable without a default may be missing; one of a pattern may
	Description string    `json:"description,omitempty"`
	Span        diag.Span `json:"span,omitzero"`
}

// SecretRequest is a secret that a component asks for by name, and gets as a variable of that name when its caller grants it.
type SecretRequest struct {
	Optional    bool      `json:"optional,omitempty"`
	Description string    `json:"description,omitempty"`
	Span        diag.Span `json:"span,omitzero"`
}

// Definition is how a component does its work. Exactly one of Exec and Steps is set.
type Definition struct {
	Env      map[string]Field `json:"env,omitempty"`
	Exec     *Exec            `json:"exec,omitempty"`
	Steps    []Step           `json:"steps,omitempty"`
	Outputs  map[string]Field `json:"outputs,omitempty"`  // of a list of steps
	Delegate string           `json:"delegate,omitempty"` // the step whose outputs a list of steps passes on
	// InputPrefix makes every input a variable as well, of its text: the prefix, and the input's name in upper case with spaces replaced by
	// underscores. Empty makes none.
	InputPrefix string `json:"input_prefix,omitempty"`
	// Context holds values under names, for this definition and all that it calls, whatever their languages: what ${{ context }} reads.
	// The names of a definition come on top of those around it.
	Context map[string]Field `json:"context,omitempty"`
	// Pre runs before the first step of the run, and Post after the last one, in the reverse order: what a component has to prepare and to
	// clean up. They see the component's inputs and environment.
	Pre  *Hook     `json:"pre,omitempty"`
	Post *Hook     `json:"post,omitempty"`
	Span diag.Span `json:"span,omitzero"`
}

// Hook is a process of a component that runs apart from it.
type Hook struct {
	Exec *Exec  `json:"exec"`
	If   *Field `json:"if,omitempty"` // nil runs it whatever happened
}

// Field is a value in which every string may hold ${{ }} expressions, and the place it was written at.
type Field struct {
	Value value.Value
	Span  diag.Span
	// Lines are the places of the lines of text that Value holds: of a string those of its lines, of a list of strings those of each.
	// They are known for texts that are run, so that a failure can name the line. Nil where Span says enough.
	Lines [][]diag.SourceLine
}

// Exec is one process. Exactly one of Command and Script is set.
type Exec struct {
	Command []Field  `json:"command,omitempty"` // an argument vector; no shell is involved
	Script  *Script  `json:"script,omitempty"`
	WorkDir *Field   `json:"work_dir,omitempty"` // nil is the run's work directory
	Timeout Duration `json:"timeout,omitzero"`   // 0 is none
	LogFile *Field   `json:"log_file,omitempty"` // takes what the process writes, masked, as well; nil is none
	// Toolkit is the protocol that the process speaks with its runner beyond its exit code. Empty is none.
	Toolkit string `json:"toolkit,omitempty"`
}

// The protocols of GitHub Actions: files for outputs and variables, and commands in what a process prints.
const (
	ToolkitGitHub       = "github"        // as a script of a workflow speaks it
	ToolkitGitHubAction = "github-action" // as an action does: it can use the services of a job as well
)

// Shells that a script can name. The empty shell is bash, or sh where there is no bash.
const (
	ShellBash       = "bash"
	ShellSh         = "sh"
	ShellPwsh       = "pwsh"
	ShellPowershell = "powershell"
	ShellCmd        = "cmd"
)

// Script is shell text. Expressions in it become shell variables, so that no value can turn into code; a text that is
// nothing but one expression is code by its author's wish.
type Script struct {
	Text Field `json:"text"`
	// Shell may be an expression, like the text. One that holds {0} is a command that runs the script from a file, whose path stands
	// for {0}: "perl {0}".
	Shell string `json:"shell,omitempty"`
}

// When says on what outcome of the steps before it a step runs.
type When string

// The values of When. The empty value is OnSuccess, or no condition at all when the step's If calls a status function.
const (
	OnSuccess When = "on_success"
	OnFailure When = "on_failure"
	Always    When = "always"
)

// Step is one invocation in a list. Exactly one of Ref, Inline, Parallel and Await is set.
type Step struct {
	// Name identifies the step among its siblings: letters, digits and underscores.
	Name string `json:"name"`
	// Title is the name for people: what the author wrote, or what a generated name was made from.
	Title    string     `json:"title,omitempty"`
	Ref      *Reference `json:"ref,omitempty"`
	Inline   *Component `json:"inline,omitempty"`   // runs in the scope of the list it stands in
	Parallel []Step     `json:"parallel,omitempty"` // all at the same time; names are those of the enclosing list
	Limit    int        `json:"limit,omitempty"`    // of Parallel: how many at once, 0 is all
	Await    *Await     `json:"await,omitempty"`
	// Background lets the list go on while the step runs. Its outputs and exports are there when a later step has waited for it, which
	// the end of the list does for all.
	Background bool             `json:"background,omitempty"`
	Inputs     map[string]Field `json:"inputs,omitempty"`
	Env        map[string]Field `json:"env,omitempty"`
	// InheritEnv gives the step's component the whole environment around the step, whatever its spec asks for.
	InheritEnv bool `json:"inherit_env,omitempty"`
	// AllowExports lets the step's component export variables that could take over later steps (IsTakeoverVariable), by name.
	AllowExports []string `json:"allow_exports,omitempty"`
	// Permissions grants what the step's component may ask for, by scope. Of an action, which asks for nothing, it is the most; without it, an
	// action may do what the list may that its step is in.
	Permissions map[string]string `json:"permissions,omitempty"`
	// Confine keeps the processes of the step from the rest of the machine, or lets them be where the run would confine them. Nil leaves it
	// to the run. Steps in a confined one are confined, whatever they say.
	Confine *bool `json:"confine,omitempty"`
	// AllowAccess lets the step, when it is confined, have what it asks for of this: texts for ParseAccess.
	AllowAccess []string `json:"allow_access,omitempty"`
	// Secrets grants secrets: the name that the step knows each by, to the name that the caller knows it by.
	Secrets      map[string]string `json:"secrets,omitempty"`
	If           *Field            `json:"if,omitempty"`
	When         When              `json:"when,omitempty"`
	Timeout      Duration          `json:"timeout,omitzero"`
	TimeLimit    *Field            `json:"time_limit,omitempty"` // as Timeout, of an expression that gives minutes; nil is none
	Retry        *Retry            `json:"retry,omitempty"`
	AllowFailure *AllowFailure     `json:"allow_failure,omitempty"`
	Span         diag.Span         `json:"span,omitzero"`
}

// Retry runs a failing step again.
type Retry struct {
	Max       int      `json:"max"`                  // attempts after the first
	Delay     Duration `json:"delay,omitzero"`       // before each of them
	ExitCodes []int    `json:"exit_codes,omitempty"` // only after these; empty is any failure
}

// Await waits for background steps, or cancels them.
type Await struct {
	Steps  []string `json:"steps,omitempty"` // by name; empty is all that were started before
	Cancel bool     `json:"cancel,omitempty"`
}

// AllowFailure lets the list go on, and succeed, when the step fails.
type AllowFailure struct {
	If        *Field `json:"if,omitempty"`         // evaluated when the step has ended; nil is true
	ExitCodes []int  `json:"exit_codes,omitempty"` // only with these; empty is any failure
}

// Duration is a time.Duration that reads and writes as text ("1m30s").
type Duration time.Duration

// RefKind says where a component comes from.
type RefKind string

// The kinds of reference.
const (
	RefLocal   RefKind = "local"   // Path and File, relative to the calling definition's directory, or absolute
	RefGit     RefKind = "git"     // URL, Rev, Path and File
	RefOCI     RefKind = "oci"     // Registry, Repository, Tag, Path and File
	RefBuiltin RefKind = "builtin" // Path
	RefDynamic RefKind = "dynamic" // Expr: text with expressions, whose result is parsed as a reference, once
	RefAction  RefKind = "action"  // Action: a GitHub Action, as ParseAction reads it
	RefArchive RefKind = "archive" // URL of a .zip or .tar.gz, or its local path; SHA256, Path and File
)

// DefaultFile is looked for where a reference names a directory only; then FallbackFile is.
const (
	DefaultFile  = "func.yml"
	FallbackFile = "step.yml"
)

// Reference names a component.
type Reference struct {
	Kind RefKind `json:"kind"`
	// Text is the reference as it was written, in short form.
	Text       string   `json:"text,omitempty"`
	Path       []string `json:"path,omitempty"` // an absolute local path begins with "/"
	File       string   `json:"file,omitempty"` // empty looks for DefaultFile, then FallbackFile
	URL        string   `json:"url,omitempty"`
	Rev        string   `json:"rev,omitempty"`
	Registry   string   `json:"registry,omitempty"`
	Repository string   `json:"repository,omitempty"`
	Tag        string   `json:"tag,omitempty"`
	Action     string   `json:"action,omitempty"`
	// SHA256 is what the archive's bytes must be, in hexadecimal; empty accepts what the server sends.
	SHA256 string `json:"sha256,omitempty"`
	// OrRoot says that Path begins with a folder that authors may leave out: where Path is not there, what follows its first
	// element is looked for at the root.
	OrRoot bool      `json:"or_root,omitempty"`
	Expr   *Field    `json:"expr,omitempty"`
	Span   diag.Span `json:"span,omitzero"`
}
