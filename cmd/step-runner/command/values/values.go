// Package values parses values on the command line: NAME=VALUE, secrets and inputs.
package values

import (
	"encoding/csv"
	"io"
	"os"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
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

// VariableName is what the name of a variable, secret or input looks like.
var VariableName = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Assignments reads NAME=VALUE flags. bare says what a NAME alone stands for.
func Assignments(flag string, given []string, bare func(name string) (string, error)) (map[string]string, error) {
	out := make(map[string]string, len(given))
	for _, pair := range given {
		name, text, ok := strings.Cut(pair, "=")
		if !VariableName.MatchString(name) {
			return nil, exit.Usage("%s: %q is not a name: use letters, digits and underscores, and do not begin with a digit", flag, name)
		}
		if !ok {
			if bare == nil {
				return nil, exit.Usage("%s: %s has no value; write %s=VALUE", flag, name, name)
			}
			value, err := bare(name)
			if err != nil {
				return nil, err
			}
			text = value
		}
		if strings.ContainsRune(text, 0) {
			return nil, exit.Usage("%s: the value of %s holds a NUL byte", flag, name)
		}
		out[name] = text
	}
	return out, nil
}

// AssignmentsOf reads a file of NAME=VALUE lines; blank ones and those that begin with # count for nothing. A value is the rest of its
// line as it is.
func AssignmentsOf(flag, file string, bare func(name string) (string, error)) (map[string]string, error) {
	text, err := ReadLimited(file)
	if err != nil {
		return nil, exit.Coded(exit.NotFound, "%s: %v", flag, err)
	}
	var pairs []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			pairs = append(pairs, strings.TrimLeft(line, " \t"))
		}
	}
	return Assignments(flag+" "+file, pairs, bare)
}

// PassedOn gives what a NAME alone stands for: the host's variable of that name.
func PassedOn(p *command.Program, flag string) func(name string) (string, error) {
	return func(name string) (string, error) {
		text, ok := p.LookupEnv(name)
		if !ok {
			return "", exit.Coded(exit.NotFound, "%s %s: there is no environment variable of that name to pass on", flag, name)
		}
		return text, nil
	}
}

// ReadSecrets reads --secret: NAME, NAME=env:OTHER or NAME=@FILE, never a value.
func ReadSecrets(given []string, lookup func(string) (string, bool)) (map[string]string, error) {
	secrets := map[string]string{}
	for _, spec := range given {
		name, from, ok := strings.Cut(spec, "=")
		if !VariableName.MatchString(name) {
			return nil, exit.Usage("--secret: %q is not a name: use letters, digits and underscores, and do not begin with a digit", name)
		}
		if !ok {
			from = "env:" + name
		}
		text, err := ReadSecret(name, from, lookup)
		if err != nil {
			return nil, err
		}
		if len(text) < mask.MinLength && text != "" {
			return nil, exit.Coded(exit.Definition, "the secret %s is shorter than %d bytes, too short to be masked in a log", name, mask.MinLength)
		}
		if strings.ContainsRune(text, 0) {
			return nil, exit.Coded(exit.Definition, "the secret %s contains a NUL byte, which an environment variable cannot", name)
		}
		secrets[name] = text
	}
	return secrets, nil
}

// ReadSecret reads one secret: from is env:VARIABLE or @FILE.
func ReadSecret(name, from string, lookup func(string) (string, bool)) (string, error) {
	switch {
	case strings.HasPrefix(from, "env:"):
		variable := strings.TrimPrefix(from, "env:")
		text, ok := lookup(variable)
		if !ok {
			return "", exit.Coded(exit.NotFound, "the secret %s should come from the environment variable %s, which is not set", name, variable)
		}
		return text, nil
	case strings.HasPrefix(from, "@"):
		text, err := ReadLimited(strings.TrimPrefix(from, "@"))
		if err != nil {
			return "", exit.Coded(exit.NotFound, "the secret %s cannot be read: %v", name, err)
		}
		return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), nil
	}
	// The text is not repeated: it may be the secret itself.
	return "", exit.Usage("--secret %s=… takes no value, which every process on this machine could see", name).
		Hinted("write %s=env:VARIABLE or %s=@FILE", name, name)
}

// ReadLimited reads a file of at most maxInputFile bytes.
func ReadLimited(path string) (string, error) {
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
		return "", exit.Coded(exit.Definition, "%s is larger than %d MiB", path, maxInputFile>>20)
	}
	return string(data), nil
}

// sensitiveJobVariable matches the names of GitLab's variables that hold credentials. The job API marks them as masked; the
// environment, which `ci` reads them from, does not.
var sensitiveJobVariable = lazyregexp.New(`TOKEN|PASSWORD|PASSWD|SECRET|PRIVATE_KEY|AUTH_CONFIG|CREDENTIAL|_JWT|^CI_REPOSITORY_URL$`)

// IsCredential reports whether the name of a variable says that its value is a credential.
func IsCredential(name string) bool { return sensitiveJobVariable.MatchString(name) }

// JobVariable is a job variable, sensitive where its name says so.
func JobVariable(name, text string) engine.Variable {
	return engine.Variable{Value: text, Sensitive: text != "" && IsCredential(name)}
}

// Inputs are the inputs that a command line gives.
type Inputs struct {
	Pairs []string // NAME=VALUE, where the declared type says how VALUE reads
	Lists []string // NAME=VALUE,NAME=VALUE as the existing step-runner takes them
	File  string   // YAML or JSON
}

// Values reads the inputs as the spec declares them: a string as it is, anything else as JSON.
func (f *Inputs) Values(declared map[string]plan.Input) (map[string]value.Value, error) {
	out := map[string]value.Value{}
	if f.File != "" {
		text, err := source.ReadFile(f.File)
		if err != nil {
			return nil, exit.Coded(exit.NotFound, "--input-file: %v", err)
		}
		v, err := yamlsource.Value(f.File, text)
		if err != nil {
			return nil, err
		}
		if v.Kind() != value.Struct && !v.IsNull() {
			return nil, exit.Coded(exit.Definition, "--input-file: %s holds %s, not a map of inputs", f.File, v.Kind().WithArticle())
		}
		for name, field := range v.Fields() {
			out[name] = field
		}
	}
	pairs, err := f.pairs()
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, exit.Usage("--input: %q has no value; write NAME=VALUE", pair)
		}
		v, err := typedInput(name, text, declared)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// Given reports whether there are any.
func (f *Inputs) Given() bool { return len(f.Pairs)+len(f.Lists) > 0 || f.File != "" }

// pairs are all NAME=VALUE that are given. A list is one line of comma-separated values, in quotes where they hold commas; one with a single
// = is one pair, whatever else it holds.
func (f *Inputs) pairs() ([]string, error) {
	var pairs []string
	for _, list := range f.Lists {
		if strings.Count(list, "=") == 1 {
			pairs = append(pairs, strings.Trim(list, `"`))
			continue
		}
		fields, err := csv.NewReader(strings.NewReader(list)).Read()
		if err != nil {
			return nil, exit.Usage("--inputs: %q is not a list like a=1,b=2: %v", list, err)
		}
		pairs = append(pairs, fields...)
	}
	return append(pairs, f.Pairs...), nil
}

func typedInput(name, text string, declared map[string]plan.Input) (value.Value, error) {
	in, ok := declared[name]
	if !ok || in.Type == value.String {
		return value.OfString(text), nil // the engine says what is wrong with an input that is not declared
	}
	v, err := value.ParseJSON([]byte(text))
	if err != nil || v.Kind() != in.Type {
		return value.Value{}, exit.Coded(exit.Definition, "--input %s: %q is not %s", name, text, in.Type.WithArticle()).Hinted("%s", exampleOf(in.Type))
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
