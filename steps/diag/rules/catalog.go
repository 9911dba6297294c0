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
)

var all = []Rule{
	{Invalid, Error, Any, "The file is not what its language accepts.", true},
	{UnknownRule, Warning, Any, "A comment ignores a rule that does not exist, or that cannot be ignored.", true},

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
}
