package rules

// IDs of rules that several packages know.
const (
	Invalid              = "invalid"
	UnknownStep          = "unknown-step"
	UnknownOutput        = "unknown-output"
	UnknownInput         = "unknown-input"
	UnknownName          = "unknown-name"
	UnknownFunction      = "unknown-function"
	MissingInput         = "missing-input"
	InputType            = "input-type"
	ExpressionType       = "expression-type"
	OutputType           = "output-type"
	OutputNeverProduced  = "output-never-produced"
	Unreachable          = "unreachable"
	SecretNotRequested   = "secret-not-requested"
	SecretNotGranted     = "secret-not-granted"
	PermissionNotGranted = "permission-not-granted"
	AccessNotGranted     = "access-not-granted"
	ComponentNotFound    = "component-not-found"
	ComponentNotCached   = "component-not-cached"
	Suspicious           = "suspicious"
	ShellSyntax          = "shell-syntax"
	EnvNotRequested      = "env-not-requested"
	ExportNotDeclared    = "export-not-declared"
	ExportNotAllowed     = "export-not-allowed"
)

// IDs of rules about workflows.
const (
	UndefinedStep     = "undefined-step"
	UndefinedMatrix   = "undefined-matrix"
	UndefinedNeed     = "undefined-need"
	UndefinedOutput   = "undefined-output"
	UndefinedInput    = "undefined-input"
	UndefinedProperty = "undefined-property"
	EmptyContext      = "empty-context"
	ObjectAsText      = "object-as-text"
	ConstantError     = "constant-error"
	ConstantCondition = "constant-condition"
	ScriptInjection   = "script-injection"
	IgnoredKey        = "ignored-key"
	CallNotChecked    = "call-not-checked"
)

// IDs of rules about .gitlab-ci.yml.
const (
	MisspelledVariable   = "misspelled-variable"
	VariableName         = "variable-name"
	NoPipeline           = "no-pipeline"
	DuplicatePipelines   = "duplicate-pipelines"
	UnreachableRule      = "unreachable-rule"
	DuplicateStage       = "duplicate-stage"
	UnusedStage          = "unused-stage"
	UnusedJob            = "unused-job"
	DeprecatedKeyword    = "deprecated-keyword"
	UnmatchedRef         = "unmatched-ref"
	LongJobName          = "long-job-name"
	EmptyCache           = "empty-cache"
	EmptyArtifacts       = "empty-artifacts"
	OutsideProject       = "outside-project"
	DependencyOrder      = "dependency-order"
	EmptyDependency      = "empty-dependency"
	UnneededConfirmation = "unneeded-confirmation"
	SkippedScript        = "skipped-script"
	UnsupportedKey       = "unsupported-key"
)

var all = []Rule{
	{Invalid, Error, Any, "The file is not what its language accepts.", true},
	{UnknownRule, Warning, Any, "A comment ignores a rule that does not exist, or that cannot be ignored.", true},
	{Suspicious, Warning, Any, "The file is accepted, but probably not what its author meant.", false},
	{ShellSyntax, Warning, Any, "A script never ends something that it begins: a quote, a here-document, an if.", false},

	{UnknownStep, Error, Steps, "An expression names a step that does not exist, or that runs later.", false},
	{UnknownOutput, Error, Steps, "An expression names an output, or another field of a step, that the step does not have.", false},
	{UnknownInput, Error, Steps, "An expression or a call names an input that the component does not declare.", false},
	{UnknownName, Error, Steps, "An expression names something that does not exist.", false},
	{UnknownFunction, Error, Steps, "An expression calls a function that does not exist.", false},
	{MissingInput, Error, Steps, "A call does not give an input that the component requires.", false},
	{InputType, Error, Steps, "An input has a value that its declaration does not accept.", false},
	{ExpressionType, Error, Steps, "An operator or function in an expression does not take the value that it gets.", false},
	{OutputType, Error, Steps, "A list of steps gives an output of another type than its spec declares.", false},
	{OutputNeverProduced, Error, Steps, "A component declares an output that nothing in it can produce.", false},
	{SecretNotRequested, Error, Steps, "A secret is granted to a step that does not request it.", false},
	{SecretNotGranted, Error, Steps, "A component needs a secret that its caller does not grant.", false},
	{PermissionNotGranted, Error, Steps, "A component requests a permission that its caller does not grant.", false},
	{AccessNotGranted, Error, Steps, "A component is called with `confine: true` and requests access that its caller does not allow.", false},
	{ComponentNotFound, Warning, Steps, "A reference leads to no component. A step may still create it before it is used.", false},
	{ComponentNotCached, Note, Steps, "A fetched component is not in the cache, so what uses it was not checked.", false},
	{Unreachable, Warning, Steps, "A step never runs.", false},
	{EnvNotRequested, Warning, Steps, "The shell text of a component reads a variable that it does not request.", false},
	{ExportNotDeclared, Warning, Steps, "A component exports a variable that its spec does not declare.", false},
	{ExportNotAllowed, Warning, Steps, "A component may export a variable that can take over later steps, and its caller does not allow it.", false},

	{UndefinedStep, Warning, Workflow, "An expression names a step that the job does not have, or that runs later.", false},
	{UndefinedMatrix, Warning, Workflow, "An expression names something that no matrix job has.", false},
	{UndefinedNeed, Warning, Workflow, "An expression names a job that its own job does not need.", false},
	{UndefinedOutput, Warning, Workflow, "An expression names an output that the job does not declare.", false},
	{UndefinedInput, Warning, Workflow, "An expression names an input that the workflow does not declare.", false},
	{UndefinedProperty, Warning, Workflow, "An expression names a field that is one typo away from one that exists.", false},
	{EmptyContext, Warning, Workflow, "An expression reads a context that is empty in expressions.", false},
	{ObjectAsText, Warning, Workflow, "An object becomes the text \"Object\".", false},
	{ConstantError, Error, Workflow, "An expression without contexts always fails.", false},
	{ConstantCondition, Warning, Workflow, "A condition holds whatever it says.", false},
	{ScriptInjection, Warning, Workflow, "A script holds text that anybody can write, as code.", false},
	{IgnoredKey, Warning, Workflow, "GitHub, or step-runner, ignores a key or a value.", false},
	{CallNotChecked, Note, Workflow, "A workflow of another repository is called, so what it is given was not checked.", false},

	{MisspelledVariable, Warning, GitLab, "A script or a rule reads a variable that is one typo away from one of GitLab's.", false},
	{VariableName, Warning, GitLab, "No shell can read a variable of this name.", false},
	{NoPipeline, Warning, GitLab, "GitLab makes no pipeline of the jobs.", false},
	{DuplicatePipelines, Warning, GitLab, "One push makes two pipelines.", false},
	{UnreachableRule, Warning, GitLab, "A rule never applies.", false},
	{DuplicateStage, Warning, GitLab, "A stage is named twice.", false},
	{UnusedStage, Warning, GitLab, "A stage has no job.", false},
	{UnusedJob, Warning, GitLab, "Nothing uses a hidden job.", false},
	{DeprecatedKeyword, Warning, GitLab, "A keyword is deprecated.", false},
	{UnmatchedRef, Warning, GitLab, "An entry of only or except matches nothing.", false},
	{LongJobName, Warning, GitLab, "With the values of its matrix, the name of a job is longer than GitLab takes.", false},
	{EmptyCache, Warning, GitLab, "A cache keeps nothing.", false},
	{EmptyArtifacts, Warning, GitLab, "Artifacts are empty.", false},
	{OutsideProject, Warning, GitLab, "A path leads out of the project, where nothing is kept.", false},
	{DependencyOrder, Warning, GitLab, "A job depends on one that has not ended when it begins.", false},
	{EmptyDependency, Warning, GitLab, "A job depends on the artifacts of one that has none.", false},
	{UnneededConfirmation, Warning, GitLab, "No confirmation is asked for.", false},
	{SkippedScript, Warning, GitLab, "A default script does not run in a job with run.", false},
	{UnsupportedKey, Warning, GitLab, "GitLab refuses a key that step-runner accepts.", false},
}
