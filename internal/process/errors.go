package process

import (
	"errors"
	"fmt"
	"strings"
)

// Why a process did not start. A *StartError is one of these where one fits.
var (
	ErrNotFound      = errors.New("program not found")
	ErrNotExecutable = errors.New("program cannot be executed")
	ErrWorkDir       = errors.New("work directory cannot be used")
	ErrTooLong       = errors.New("argument list too long")
	ErrConfine       = errors.New("process cannot be confined")
)

// StartError says why a process did not start.
type StartError struct {
	// Kind is ErrNotFound, ErrNotExecutable, ErrWorkDir, ErrTooLong or ErrConfine; nil for everything else.
	Kind error
	// Program is Args[0].
	Program string
	// Path is the PATH that was searched; only for ErrNotFound of a bare name.
	Path string
	// Dir is the work directory of the process.
	Dir string
	// Reason is what is wrong and what to do about it, for a person.
	Reason string
	// Err is the error of the system, if it gave one.
	Err error
}

// Error says what could not be started and why.
func (e *StartError) Error() string { return fmt.Sprintf("cannot start %q: %s", e.Program, e.Reason) }

// Unwrap makes errors.Is find the kind and the error of the system.
func (e *StartError) Unwrap() []error {
	var causes []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			causes = append(causes, err)
		}
	}
	return causes
}

// OutputError says that a writer did not take the output of a process.
type OutputError struct {
	Stream string // "stdout" or "stderr"
	Err    error
}

// Error says which stream failed, and how.
func (e *OutputError) Error() string {
	return fmt.Sprintf("writing the %s of a process: %v", e.Stream, e.Err)
}

// Unwrap returns the writer's error.
func (e *OutputError) Unwrap() error { return e.Err }

func (s *Spec) fail(kind, err error, format string, args ...any) *StartError {
	program := ""
	if len(s.Args) > 0 {
		program = s.Args[0]
	}
	return &StartError{Kind: kind, Program: program, Dir: s.Dir, Reason: fmt.Sprintf(format, args...), Err: err}
}

func (s *Spec) failNotFound(path string, set bool) *StartError {
	var e *StartError
	switch {
	case !set:
		e = s.fail(ErrNotFound, nil, "PATH is not set in the environment of the step; set PATH or write the whole path of the program")
	case path == "":
		e = s.fail(ErrNotFound, nil, "PATH is empty in the environment of the step; set PATH or write the whole path of the program")
	default:
		e = s.fail(ErrNotFound, nil, "no such program in the PATH of the step, %s; install it, add its folder to PATH or write its whole path", path)
	}
	e.Path = path
	return e
}

// failTooLong counts what the system counts: every argument and variable with its terminator.
func (s *Spec) failTooLong(err error) *StartError {
	arguments, variables, longest, which := 0, 0, 0, ""
	for i, a := range s.Args {
		arguments += len(a) + 1
		if len(a)+1 > longest {
			longest, which = len(a)+1, fmt.Sprintf("argument %d", i)
		}
	}
	for _, v := range s.Env {
		variables += len(v) + 1
		if len(v)+1 > longest {
			name, _, _ := strings.Cut(v, "=")
			longest, which = len(v)+1, "the variable "+name
		}
	}
	return s.fail(ErrTooLong, err, "argument list too long: the arguments take %d bytes and the environment %d, the longest of them, %s, %d, which is more than "+
		"the system allows; pass large values in a file", arguments, variables, which, longest)
}

// invalid finds what no system can pass to a process.
func (s *Spec) invalid() error {
	if len(s.Args) == 0 || s.Args[0] == "" {
		return s.fail(ErrNotFound, nil, "the command is empty; its first item must be the program")
	}
	for i, a := range s.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return s.fail(nil, nil, "argument %d holds a NUL byte, which no process can be given; pass the data in a file", i)
		}
	}
	for _, v := range s.Env {
		if strings.IndexByte(v, 0) >= 0 {
			name, _, _ := strings.Cut(v, "=")
			return s.fail(nil, nil, "the environment variable %q holds a NUL byte, which no process can be given; pass the data in a file", name)
		}
	}
	return nil
}

func (s *Spec) failConfine(err error) error {
	return s.fail(ErrConfine, err, "it is to be confined, and this machine cannot do that: %v; run `step-runner doctor`", err)
}
