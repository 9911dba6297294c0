package service

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/value"
)

// request is what a client wants to run, whichever face it came through.
type request struct {
	id        string
	digest    [32]byte // of all of it
	name      string   // of the text
	text      string
	component *plan.Component // compiled from text, unless the client sent one
	workDir   string
	env       map[string]string
	variables []variable
	secrets   map[string]string
	// inheritEnv is engine.Options.InheritEnv.
	inheritEnv bool
	// untraced is that engine.Options.Programs is not wanted.
	untraced bool
	// confine is engine.Options.Confine.
	confine plan.Confinement
	inputs  map[string]value.Value
	timeout time.Duration // 0 is the server's limit
	grace   time.Duration
	lock    *lock.File // nil is the server's own
	from    *engine.State
	files   string // the folder that goes with from
	given   string // a digest of what has to be the same to go on from a state, beyond what the engine looks at
	paused  bool
	logPath string   // where the client wants the log; "" is the server's own file
	logFile *os.File // opened by prepare
}

// variable is a job variable.
type variable struct {
	name, value  string
	masked, file bool
}

// digestOf returns a digest that only the same message of the same face has.
func digestOf(message proto.Message) ([32]byte, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return [32]byte{}, invalid("reading the request: %v", err)
	}
	return sha256.Sum256(append(data, message.ProtoReflect().Descriptor().FullName()...)), nil
}

// compile makes the component of the text, or checks the one that was sent.
func (q *request) compile(parse func(name string, text []byte) (*plan.Component, error)) error {
	var err error
	if q.component == nil {
		q.component, err = parse(q.name, []byte(q.text))
	} else {
		err = check(q.component).Err()
	}
	if err == nil {
		return nil
	}
	list := diag.Of(err)
	if list == nil {
		return invalid("%v", err)
	}
	return &apiError{code: codeInvalid, message: fmt.Sprintf("the steps have %d error(s): %v", len(list), list[0]), diagnostics: list}
}

// prepare checks the rest of the request, fills in defaults and makes the work directory.
func (q *request) prepare(limits *Limits) error {
	if q.id == "" || len(q.id) > MaxID {
		return invalid("the ID of a run must have 1 to %d bytes, not %d", MaxID, len(q.id))
	}
	if err := checkVariables(q.variables); err != nil {
		return err
	}
	if err := checkEnvironment("the environment variable", q.env); err != nil {
		return err
	}
	if err := checkEnvironment("the secret", q.secrets); err != nil {
		return err
	}
	switch {
	case q.timeout < 0 || q.grace < 0:
		return invalid("timeout and grace must not be negative")
	case q.timeout > limits.Duration:
		return invalid("a timeout of %s exceeds this server's limit of %s", q.timeout, limits.Duration)
	case q.grace > MaxGrace:
		return invalid("a grace of %s exceeds the limit of %s", q.grace, MaxGrace)
	case q.timeout == 0 && limits.Duration < math.MaxInt64:
		q.timeout = limits.Duration
	}
	if err := q.makeWorkDir(); err != nil {
		return err
	}
	return q.openLog()
}

// openLog opens the file that the client made for the log.
func (q *request) openLog() error {
	if q.logPath == "" {
		return nil
	}
	if !filepath.IsAbs(q.logPath) {
		return invalid("the log file %q is not an absolute path", q.logPath)
	}
	before, err := os.Lstat(q.logPath)
	if err != nil {
		return invalid("the log file cannot be used: %v", err)
	}
	if !before.Mode().IsRegular() || before.Size() != 0 {
		return invalid("the log file %s is not an empty regular file", q.logPath)
	}
	file, err := os.OpenFile(q.logPath, os.O_RDWR, 0)
	if err != nil {
		return invalid("the log file cannot be used: %v", err)
	}
	if after, err := file.Stat(); err != nil || !os.SameFile(before, after) {
		_ = file.Close()
		return invalid("the log file %s was replaced while it was opened", q.logPath)
	}
	q.logFile = file
	return nil
}

// maxFileName is how long the name of a file variable may be, in bytes: file systems allow no more.
const maxFileName = 255

// checkVariables refuses job variables with names that none, or no file, can have.
func checkVariables(variables []variable) error {
	seen := map[string]bool{}
	for _, v := range variables {
		outside := v.name != filepath.Base(v.name) || v.name == "." || v.name == ".." || strings.ContainsAny(v.name, "/\\:\x00")
		switch {
		case v.name == "":
			return invalid("a job variable has no name")
		case v.file && (outside || len(v.name) > maxFileName):
			return invalid("the job variable %q is a file variable, and its name cannot be a file name", v.name)
		case seen[v.name]:
			return invalid("the job variable %q is defined twice", v.name)
		}
		seen[v.name] = true
	}
	return nil
}

// checkEnvironment refuses what cannot be in the environment of a process.
func checkEnvironment(what string, variables map[string]string) error {
	for name, text := range variables {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return invalid("%s %q cannot have that name", what, name)
		}
		if strings.Contains(text, "\x00") {
			return invalid("%s %q contains a NUL byte, which an environment variable cannot", what, name)
		}
	}
	return nil
}

// makeWorkDir makes the work directory absolute, and there.
func (q *request) makeWorkDir() error {
	if q.workDir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return internal("finding the server's work directory: %v", err)
		}
		q.workDir = dir
		return nil
	}
	if !filepath.IsAbs(q.workDir) {
		return invalid("the work directory %q is not an absolute path", q.workDir)
	}
	q.workDir = filepath.Clean(q.workDir)
	if err := os.MkdirAll(q.workDir, 0o700); err != nil {
		return failedPrecondition("the work directory cannot be used: %v", err)
	}
	return nil
}

// variablesFolder holds the files of file variables, in the run's own folder.
const variablesFolder = "variables"

// jobVariables returns the job variables of a run with the folder.
func (q *request) jobVariables(folder string) map[string]engine.Variable {
	out := make(map[string]engine.Variable, len(q.variables))
	for _, v := range q.variables {
		if v.file {
			out[v.name] = engine.Variable{Value: filepath.Join(folder, variablesFolder, v.name)}
		} else {
			out[v.name] = engine.Variable{Value: v.value, Sensitive: v.masked}
		}
	}
	return out
}

// writeVariables writes the files of job variables that are files.
func (q *request) writeVariables(folder string) error {
	dir := filepath.Join(folder, variablesFolder)
	for _, v := range q.variables {
		if !v.file {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating a folder for file variables: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, v.name), []byte(v.value), 0o600); err != nil {
			return fmt.Errorf("writing the file variable %s: %w", v.name, err)
		}
	}
	return nil
}

// options are what the engine is told of the request, for a run with the folder.
func (q *request) options(opts *engine.Options, folder string) {
	opts.Component, opts.Text, opts.Inputs = q.component, []byte(q.text), q.inputs
	opts.Dir, opts.WorkDir, opts.Folder = q.workDir, q.workDir, folder
	opts.Env, opts.Secrets, opts.Mask, opts.Job = over(opts.Env, q.env), q.secrets, q.maskedFiles(), q.jobVariables(folder)
	opts.From, opts.Files, opts.Given = q.from, q.files, q.given
	opts.InheritEnv, opts.Confine = q.inheritEnv, q.confine
	opts.Programs = opts.Programs && !q.untraced
}

// over returns the variables of a request over those that every run of the service has.
func over(all, own map[string]string) map[string]string {
	if len(all) == 0 {
		return own
	}
	out := maps.Clone(all)
	maps.Copy(out, own)
	return out
}

// maskedFiles returns the contents of file variables that are masked: their paths may be shown, what is in the files may not.
func (q *request) maskedFiles() (texts []string) {
	for _, v := range q.variables {
		if v.file && v.masked {
			texts = append(texts, v.value)
		}
	}
	return texts
}
