package main

import (
	"io"
	"os"
	"strings"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"

	"github.com/rungci/rung/internal/lazyregexp"
)

// maxInputFile bounds --input-file and the files of secrets, in bytes.
const maxInputFile = 64 << 20

// variableName is what the name of a variable, secret or input looks like.
var variableName = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// assignments reads NAME=VALUE flags. bare says what a NAME alone stands for.
func assignments(flag string, given []string, bare func(name string) (string, error)) (map[string]string, error) {
	out := make(map[string]string, len(given))
	for _, pair := range given {
		name, text, ok := strings.Cut(pair, "=")
		if !variableName.MatchString(name) {
			return nil, usage("%s: %q is not a name: letters, digits and underscores, not beginning with a digit", flag, name)
		}
		if !ok {
			if bare == nil {
				return nil, usage("%s: %s has no value; write %s=VALUE", flag, name, name)
			}
			value, err := bare(name)
			if err != nil {
				return nil, err
			}
			text = value
		}
		if strings.ContainsRune(text, 0) {
			return nil, usage("%s: the value of %s holds a NUL byte", flag, name)
		}
		out[name] = text
	}
	return out, nil
}

func (a *app) lookupEnv(name string) (string, bool) {
	for _, pair := range a.env {
		if n, text, _ := strings.Cut(pair, "="); n == name {
			return text, true
		}
	}
	return "", false
}

// environment reads --env, and the log level that every step is told.
func (s *session) environment() (map[string]string, error) {
	env, err := assignments("--env", s.env, func(name string) (string, error) {
		text, ok := s.app.lookupEnv(name)
		if !ok {
			return "", coded(exitNotFound, "--env %s: there is no environment variable of that name to pass on", name)
		}
		return text, nil
	})
	if err != nil {
		return nil, err
	}
	if env[logLevelName], err = s.level(env[logLevelName]); err != nil {
		return nil, err
	}
	return env, nil
}

const logLevelName = "CI_STEPS_LOG_LEVEL"

// level finds the log level: the job's variable wins over --env, and that over the host's environment.
func (s *session) level(fromEnv string) (string, error) {
	host, _ := s.app.lookupEnv(logLevelName)
	for _, text := range []string{s.jobVars[logLevelName].Value, fromEnv, host} {
		switch level := strings.ToLower(strings.TrimSpace(text)); level {
		case "":
		case "debug":
			s.verbose = max(s.verbose, 2)
			return level, nil
		case "info", "warn", "error":
			return level, nil
		default:
			return "", coded(exitDefinition, "log level: %q is not supported", text).hinted("%s is one of debug, info, warn and error", logLevelName)
		}
	}
	return "info", nil
}

// secretValues reads the secrets, once: a file may be a pipe.
func (s *session) secretValues() (map[string]string, error) {
	if s.known == nil {
		secrets, err := readSecrets(s.secrets, s.app.lookupEnv)
		if err != nil {
			return nil, err
		}
		s.known = secrets
	}
	return s.known, nil
}

// readSecrets reads --secret: NAME, NAME=env:OTHER or NAME=@FILE, never a value.
func readSecrets(given []string, lookup func(string) (string, bool)) (map[string]string, error) {
	secrets := map[string]string{}
	for _, spec := range given {
		name, from, ok := strings.Cut(spec, "=")
		if !variableName.MatchString(name) {
			return nil, usage("--secret: %q is not a name: letters, digits and underscores, not beginning with a digit", name)
		}
		if !ok {
			from = "env:" + name
		}
		text, err := readSecret(name, from, lookup)
		if err != nil {
			return nil, err
		}
		if len(text) < mask.MinLength && text != "" {
			return nil, coded(exitDefinition, "the secret %s is shorter than %d bytes, too short to be masked in a log", name, mask.MinLength)
		}
		if strings.ContainsRune(text, 0) {
			return nil, coded(exitDefinition, "the secret %s holds a NUL byte, which no environment variable can", name)
		}
		secrets[name] = text
	}
	return secrets, nil
}

func readSecret(name, from string, lookup func(string) (string, bool)) (string, error) {
	switch {
	case strings.HasPrefix(from, "env:"):
		variable := strings.TrimPrefix(from, "env:")
		text, ok := lookup(variable)
		if !ok {
			return "", coded(exitNotFound, "the secret %s should come from the environment variable %s, which is not set", name, variable)
		}
		return text, nil
	case strings.HasPrefix(from, "@"):
		text, err := readLimited(strings.TrimPrefix(from, "@"))
		if err != nil {
			return "", coded(exitNotFound, "the secret %s cannot be read: %v", name, err)
		}
		return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), nil
	}
	// The text is not repeated: it may be the secret itself.
	return "", usage("--secret %s=… takes no value, which every process on this machine could see", name).
		hinted("write %s=env:VARIABLE or %s=@FILE", name, name)
}

func readLimited(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxInputFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxInputFile {
		return "", coded(exitDefinition, "%s is larger than %d MiB", path, maxInputFile>>20)
	}
	return string(data), nil
}

// sensitiveJobVariable matches the names of GitLab's variables that hold credentials. The job API marks them as masked; the
// environment, which `ci` reads them from, does not.
var sensitiveJobVariable = lazyregexp.New(`TOKEN|PASSWORD|PASSWD|SECRET|PRIVATE_KEY|AUTH_CONFIG|CREDENTIAL|_JWT|^CI_REPOSITORY_URL$`)

func jobVariable(name, text string) engine.Variable {
	return engine.Variable{Value: text, Sensitive: text != "" && sensitiveJobVariable.MatchString(name)}
}

// inputFlags are the inputs that a command line gives.
type inputFlags struct {
	pairs []string // NAME=VALUE, where the declared type says how VALUE reads
	file  string   // YAML or JSON
}

// values reads the inputs as the spec declares them: a string as it is, anything else as JSON.
func (f *inputFlags) values(declared map[string]plan.Input) (map[string]value.Value, error) {
	out := map[string]value.Value{}
	if f.file != "" {
		text, err := source.ReadFile(f.file)
		if err != nil {
			return nil, coded(exitNotFound, "--input-file: %v", err)
		}
		v, err := yamlsource.Value(f.file, text)
		if err != nil {
			return nil, err
		}
		if v.Kind() != value.Struct && !v.IsNull() {
			return nil, coded(exitDefinition, "--input-file: %s holds %s, not a map of inputs", f.file, v.Kind().WithArticle())
		}
		for name, field := range v.Fields() {
			out[name] = field
		}
	}
	for _, pair := range f.pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usage("--input: %q has no value; write NAME=VALUE", pair)
		}
		v, err := typedInput(name, text, declared)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

func typedInput(name, text string, declared map[string]plan.Input) (value.Value, error) {
	in, ok := declared[name]
	if !ok || in.Type == value.String {
		return value.OfString(text), nil // the engine says what is wrong with an input that is not declared
	}
	v, err := value.ParseJSON([]byte(text))
	if err != nil || v.Kind() != in.Type {
		return value.Value{}, coded(exitDefinition, "--input %s: %q is not %s", name, text, in.Type.WithArticle()).hinted("%s", exampleOf(in.Type))
	}
	return v, nil
}

func exampleOf(kind value.Kind) string {
	switch kind {
	case value.Number:
		return "a number looks like 42 or 1.5"
	case value.Boolean:
		return "a boolean is true or false"
	case value.Array:
		return `an array looks like '["a", "b"]'`
	default:
		return `a struct looks like '{"color": "red"}'`
	}
}
