package rules

// IDs of rules that several packages know.
const (
	Invalid             = "invalid"
	UnknownStep         = "unknown-step"
	UnknownOutput       = "unknown-output"
	UnknownInput        = "unknown-input"
	UnknownName         = "unknown-name"
	UnknownFunction     = "unknown-function"
	MissingInput        = "missing-input"
	InputType           = "input-type"
	ExpressionType      = "expression-type"
	OutputType          = "output-type"
	OutputNeverProduced = "output-never-produced"
	Unreachable         = "unreachable"
	SecretNotRequested  = "secret-not-requested"
	SecretNotGranted    = "secret-not-granted"
	ComponentNotFound   = "component-not-found"
	ComponentNotCached  = "component-not-cached"
	Suspicious          = "suspicious"
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

var all = []Rule{
	{Invalid, Error, Any, "The file is not what its language accepts.", true},
	{UnknownRule, Warning, Any, "A comment ignores a rule that does not exist, or that cannot be ignored.", true},
	{Suspicious, Warning, Any, "The file is accepted, but probably not what its author meant.", false},

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
	{ComponentNotFound, Warning, Steps, "A reference leads to no component. A step may still create it before it is used.", false},
	{ComponentNotCached, Note, Steps, "A fetched component is not in the cache, so what uses it was not checked.", false},
	{Unreachable, Warning, Steps, "A step never runs.", false},

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
}
