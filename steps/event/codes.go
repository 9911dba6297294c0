package event

// ErrorKind is the class of an error. It decides the exit code of the program.
type ErrorKind string

// The kinds of error.
const (
	ErrorStep       ErrorKind = "step"       // the user's command failed
	ErrorTimeout    ErrorKind = "timeout"    // a time limit was exceeded
	ErrorDefinition ErrorKind = "definition" // a definition, an input or an output is wrong
	ErrorDenied     ErrorKind = "denied"     // something was requested that is not granted
	ErrorNotFound   ErrorKind = "not_found"  // a component does not exist
	ErrorCancelled  ErrorKind = "cancelled"  // somebody stopped the run
	ErrorSystem     ErrorKind = "system"     // internal error: host, disk, network
)

// Fault says who has to act on a failure.
type Fault string

// The faults.
const (
	FaultUser      Fault = "user"      // the author of the steps
	FaultTimeout   Fault = "timeout"   // the author, or whoever set the limit
	FaultDenied    Fault = "denied"    // whoever grants permissions
	FaultCancelled Fault = "cancelled" // nobody: the run was stopped on purpose
	FaultSystem    Fault = "system"    // whoever operates the machine, the network or Rung
)

// The exit codes of every program of Rung.
const (
	ExitOK          = 0
	ExitStepsFailed = 1   // the user's steps failed
	ExitUsage       = 2   // the command line is wrong
	ExitDefinition  = 3   // a configuration or definition is wrong
	ExitDenied      = 4   // something is not allowed
	ExitSystem      = 5   // internal error: executor, host, disk, network
	ExitNotFound    = 6   // what was named does not exist
	ExitPaused      = 7   // the run is paused, and its state is in the folder that was named
	ExitTimeout     = 124 // a time limit was exceeded
	ExitInterrupted = 130 // somebody stopped the run
)

// FailureReason is GitLab's name for why a job failed.
type FailureReason string

// The failure reasons that a runner reports to GitLab.
const (
	ReasonScript             FailureReason = "script_failure"
	ReasonSystem             FailureReason = "runner_system_failure"
	ReasonTimeout            FailureReason = "job_execution_timeout"
	ReasonImagePull          FailureReason = "image_pull_failure"
	ReasonConfiguration      FailureReason = "runner_configuration_error" // of the job, found by the runner
	ReasonExternalDependency FailureReason = "runner_external_dependency_failure"
	ReasonInterrupted        FailureReason = "runner_interrupted"
	ReasonCanceled           FailureReason = "job_canceled"
	ReasonUnknown            FailureReason = "unknown_failure"
)

// Code says what went wrong. Codes are stable: programs may compare them, and a code never changes its meaning.
type Code string

// The codes of errors. Codes has all that is known of each.
const (
	CodeStepFailed         Code = "step_failed"
	CodeExitStatus         Code = "exit_status"
	CodeKilledBySignal     Code = "killed_by_signal"
	CodeCommandNotStarted  Code = "command_not_started"
	CodeShellNotFound      Code = "shell_not_found"
	CodeOutputInvalid      Code = "output_invalid"
	CodeOutOfMemory        Code = "out_of_memory"
	CodeToolkitFailed      Code = "toolkit_failed"
	CodeRecordedFailure    Code = "recorded_failure"
	CodeTimeout            Code = "timeout"
	CodeRunTimeout         Code = "run_timeout"
	CodeStepTimeout        Code = "step_timeout"
	CodeCommandTimeout     Code = "command_timeout"
	CodeCleanupTimeout     Code = "cleanup_timeout"
	CodeDefinitionInvalid  Code = "definition_invalid"
	CodeExpressionInvalid  Code = "expression_invalid"
	CodeInputInvalid       Code = "input_invalid"
	CodeSecretNotRequested Code = "secret_not_requested"
	CodeEnvironmentInvalid Code = "environment_invalid"
	CodeStateInvalid       Code = "state_invalid"
	CodePauseRefused       Code = "pause_refused"
	CodeConfineUnsupported Code = "confine_unsupported"
	CodeImageUnavailable   Code = "image_unavailable"
	CodeDenied             Code = "denied"
	CodeAccessNotGranted   Code = "access_not_granted"
	CodeSecretNotGranted   Code = "secret_not_granted"
	CodeComponentDenied    Code = "component_denied"
	CodeNotFound           Code = "not_found"
	CodeComponentNotFound  Code = "component_not_found"
	CodeStepNotFound       Code = "step_not_found"
	CodeCancelled          Code = "cancelled"
	CodeCancelledByClient  Code = "cancelled_by_client"
	CodeCancelledByStep    Code = "cancelled_by_step"
	CodeInterrupted        Code = "interrupted"
	CodeTerminated         Code = "terminated"
	CodeKilled             Code = "killed"
	CodeAbandoned          Code = "abandoned"
	CodePausedTooLong      Code = "paused_too_long"
	CodeMoved              Code = "moved"
	CodeInternalError      Code = "internal_error"
	CodeDiskFull           Code = "disk_full"
	CodeFetchFailed        Code = "fetch_failed"
	CodeImagePullFailed    Code = "image_pull_failed"
	CodeEnvironmentGone    Code = "environment_gone"
	CodeServiceUnavailable Code = "service_unavailable"
)

// CodeInfo is a row of the table of codes.
type CodeInfo struct {
	Code    Code
	Kind    ErrorKind
	Reason  FailureReason // what GitLab is told
	Meaning string
}

// Codes is the table of codes, in the order of the documents. The first code of a kind is its general one, for errors of which no more is
// known. Kinds give the fault and the exit code. docs/errors.md is made of it.
var Codes = []CodeInfo{
	{CodeStepFailed, ErrorStep, ReasonScript, "a step failed"},
	{CodeExitStatus, ErrorStep, ReasonScript, "the command of a step ended with an exit code other than 0"},
	{CodeKilledBySignal, ErrorStep, ReasonScript, "a signal that the run did not send ended the command of a step"},
	{CodeCommandNotStarted, ErrorStep, ReasonScript, "the command of a step cannot be started: no such program, no such working directory, too many arguments"},
	{CodeShellNotFound, ErrorStep, ReasonScript, "no shell for a script is in `PATH`"},
	{CodeOutputInvalid, ErrorStep, ReasonScript, "the output or export file of a step is invalid"},
	{CodeOutOfMemory, ErrorStep, ReasonScript, "the job had too little memory: the kernel killed a process of a step that then failed, or the job's container"},
	{CodeToolkitFailed, ErrorStep, ReasonScript, "a workflow command or a file of the GitHub toolkit is invalid"},
	{CodeRecordedFailure, ErrorStep, ReasonScript, "the step failed in the recorded run, and is not replayed"},

	{CodeTimeout, ErrorTimeout, ReasonTimeout, "a time limit was exceeded"},
	{CodeRunTimeout, ErrorTimeout, ReasonTimeout, "the run, or the job that it is, exceeded its time limit"},
	{CodeStepTimeout, ErrorTimeout, ReasonTimeout, "a step exceeded its time limit"},
	{CodeCommandTimeout, ErrorTimeout, ReasonTimeout, "the command of a step exceeded its time limit"},
	{CodeCleanupTimeout, ErrorTimeout, ReasonTimeout, "the steps that clean up after a stopped run exceeded their time limit"},

	{CodeDefinitionInvalid, ErrorDefinition, ReasonConfiguration, "a definition is invalid"},
	{CodeExpressionInvalid, ErrorDefinition, ReasonConfiguration, "an expression cannot be evaluated"},
	{CodeInputInvalid, ErrorDefinition, ReasonConfiguration, "an input is missing, unknown or of the wrong type"},
	{CodeSecretNotRequested, ErrorDefinition, ReasonConfiguration, "a secret is granted to a component that does not request it, or under a name that cannot be a variable"},
	{CodeEnvironmentInvalid, ErrorDefinition, ReasonConfiguration, "the environment that a job asks for cannot be made: its image, its services or its level of isolation do not allow it"},
	{CodeStateInvalid, ErrorDefinition, ReasonConfiguration, "the state that a run is to go on from is not that of the run"},
	{CodePauseRefused, ErrorDefinition, ReasonConfiguration, "the run cannot be paused before the step that was named"},
	{CodeConfineUnsupported, ErrorDefinition, ReasonConfiguration, "a step is to be confined, and the machine cannot do that"},
	{CodeImageUnavailable, ErrorDefinition, ReasonImagePull, "an image does not exist, does not support this platform, or its registry denies access"},

	{CodeDenied, ErrorDenied, ReasonConfiguration, "something was requested that is not granted"},
	{CodeAccessNotGranted, ErrorDenied, ReasonConfiguration, "a confined component requests access that its caller does not allow, or does not have itself"},
	{CodeSecretNotGranted, ErrorDenied, ReasonConfiguration, "a component requests a secret that its caller does not grant"},
	{CodeComponentDenied, ErrorDenied, ReasonConfiguration, "the lock file, the sources or a signature do not allow a component"},

	{CodeNotFound, ErrorNotFound, ReasonConfiguration, "something that was named does not exist"},
	{CodeComponentNotFound, ErrorNotFound, ReasonConfiguration, "a component does not exist"},
	{CodeStepNotFound, ErrorNotFound, ReasonConfiguration, "the recorded run has no such step"},

	{CodeCancelled, ErrorCancelled, ReasonCanceled, "the run was stopped"},
	{CodeCancelledByClient, ErrorCancelled, ReasonCanceled, "a client of the service cancelled the run"},
	{CodeCancelledByStep, ErrorCancelled, ReasonCanceled, "another step cancelled a background step"},
	{CodeInterrupted, ErrorCancelled, ReasonInterrupted, "the program was interrupted (Ctrl-C)"},
	{CodeTerminated, ErrorCancelled, ReasonInterrupted, "the program was asked to terminate, or its terminal was closed"},
	{CodeKilled, ErrorCancelled, ReasonCanceled, "the run was stopped without giving its steps time to end"},
	{CodeAbandoned, ErrorCancelled, ReasonInterrupted, "no client asked for the run for too long"},
	{CodePausedTooLong, ErrorCancelled, ReasonInterrupted, "the run was paused for too long"},
	{CodeMoved, ErrorCancelled, ReasonInterrupted, "the run goes on in another process, from its state"},

	{CodeInternalError, ErrorSystem, ReasonSystem, "internal error: the host, its disk, or a bug"},
	{CodeDiskFull, ErrorSystem, ReasonSystem, "a disk is full: the job's, or one on this machine"},
	{CodeFetchFailed, ErrorSystem, ReasonExternalDependency, "a component cannot be fetched: the network or a server failed"},
	{CodeImagePullFailed, ErrorSystem, ReasonImagePull, "an image cannot be pulled: the network or the registry failed"},
	{CodeEnvironmentGone, ErrorSystem, ReasonSystem, "the environment of the job ended before the job did"},
	{CodeServiceUnavailable, ErrorSystem, ReasonExternalDependency, "what a built-in step needs does not answer: a server such as Vault, or a container engine"},
}

// kinds has what all codes of a kind have in common.
var kinds = map[ErrorKind]struct {
	fault Fault
	exit  int
}{
	ErrorStep:       {FaultUser, ExitStepsFailed},
	ErrorTimeout:    {FaultTimeout, ExitTimeout},
	ErrorDefinition: {FaultUser, ExitDefinition},
	ErrorDenied:     {FaultDenied, ExitDenied},
	ErrorNotFound:   {FaultUser, ExitNotFound},
	ErrorCancelled:  {FaultCancelled, ExitInterrupted},
	ErrorSystem:     {FaultSystem, ExitSystem},
}

var codes, general = indexCodes()

func indexCodes() (map[Code]CodeInfo, map[ErrorKind]Code) {
	byCode, byKind := map[Code]CodeInfo{}, map[ErrorKind]Code{}
	for _, info := range Codes {
		byCode[info.Code] = info
		if byKind[info.Kind] == "" {
			byKind[info.Kind] = info.Code
		}
	}
	return byCode, byKind
}

// Kind returns the class of a code; ErrorSystem for one that is not in the table.
func (c Code) Kind() ErrorKind {
	if info, known := codes[c]; known {
		return info.Kind
	}
	return ErrorSystem
}

// Known reports whether the code is in the table.
func (c Code) Known() bool { return codes[c].Code == c && c != "" }

// Code returns the general code of a kind; "" for an unknown kind.
func (k ErrorKind) Code() Code { return general[k] }

// Fault says whose fault errors of the kind are; FaultSystem for an unknown kind.
func (k ErrorKind) Fault() Fault {
	if info, known := kinds[k]; known {
		return info.fault
	}
	return FaultSystem
}

// ExitCode is that of a program whose run ended with an error of the kind; ExitSystem for an unknown kind.
func (k ErrorKind) ExitCode() int {
	if info, known := kinds[k]; known {
		return info.exit
	}
	return ExitSystem
}

// Fault says whose fault the error is.
func (e *Error) Fault() Fault { return e.Kind.Fault() }

// FailureReason is what GitLab is told; ReasonUnknown for nil, and for an error of which neither the code nor the kind is known.
func (e *Error) FailureReason() FailureReason {
	if e == nil {
		return ReasonUnknown
	}
	for _, code := range []Code{e.Code, e.Kind.Code()} {
		if info, known := codes[code]; known {
			return info.Reason
		}
	}
	return ReasonUnknown
}

// ExitCode is that of a program whose run ended with the status and the error.
func ExitCode(status Status, err *Error) int {
	switch {
	case status == Success:
		return ExitOK
	case err == nil:
		return ExitSystem
	default:
		return err.Kind.ExitCode()
	}
}
