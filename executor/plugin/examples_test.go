//go:build unix

package plugin_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/plugin/plugintest"
	"github.com/rungci/rung/internal/pluginoption"
)

// builtWrap is the variable with the file of the example, for the test binary that is started again.
const builtWrap = "RUNG_TEST_PLUGIN_WRAP"

// wrap is the example in Go.
func wrap(file, options string) plugin.Config {
	return plugin.Config{Name: "wrap", File: file, Options: json.RawMessage(options)}
}

// wrapped is an example as the suite tries it.
func wrapped(c plugin.Config) executortest.Level {
	l := plugintest.Level(c, nil)
	l.Env = []string{builtWrap + "=" + c.File, ownerPlugin + "=wrap"}
	return l
}

func buildWrap(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), plugin.Prefix+"wrap")
	if out, err := exec.Command("go", "build", "-o", file, "github.com/rungci/rung/examples/plugins/executor-plugin-wrap").CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, out)
	}
	return file
}

const nice = `{"command": ["nice", "-n", "3"]}`

func TestTheExampleInGoPassesTheSuite(t *testing.T) {
	t.Parallel()
	executortest.Run(t, wrapped(wrap(buildWrap(t), nice)))
}

func TestTheExampleInGoStartsJobsThroughItsCommand(t *testing.T) {
	e, err := plugin.Open(t.Context(), wrap(buildWrap(t), nice), executor.Setup{
		Program: func(string, string) (string, error) { return executortest.Program() }, State: t.TempDir(), Temp: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	env, err := e.Prepare(t.Context(), job("one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.Command("nice", "-n", "3", "nice").Output() // from the niceness of this test
	if err != nil {
		t.Fatal(err)
	}
	if log, failure := executortest.Script(t, env, "nice"); failure != nil || log != string(want) {
		t.Errorf("it says %q, %v; want %q", log, failure, want)
	}
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheExampleInGoSaysWhatIsWrongWithItsOptions(t *testing.T) {
	file := buildWrap(t)
	for options, want := range map[string]string{
		"":                              `missing property 'command'`,
		`{"command": []}`:               `at '/command': minItems: got 0, want 1`,
		`{"command": ["made-up-name"]}`: `the command of the option "command" does not exist`,
		`{"command": ["false"]}`:        `does not start programs`,
	} {
		if _, err := plugin.Open(t.Context(), wrap(file, options), executor.Setup{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// optionOf is the option that is wrong, as a pointer; empty is none.
func optionOf(err error) string {
	var wrong *pluginoption.Errors
	if !errors.As(err, &wrong) {
		return ""
	}
	return pluginoption.Join(wrong.All[0].Path()...)
}

// wrapInPython is the example in Python.
func wrapInPython(t testing.TB, options string) plugin.Config {
	t.Helper()
	return inPython(t, "executor-plugin-wrap.py", options)
}

// inPython is one of the examples in Python.
func inPython(t testing.TB, name, options string) plugin.Config {
	t.Helper()
	python := "/usr/bin/python3" // other Pythons than the system's do not see its packages
	if err := exec.Command(python, "-c", "import grpc, google.protobuf").Run(); err != nil {
		enginetest.Skip(t, "Python with grpcio and protobuf")
	}
	enginetest.Program(t, "openssl")
	file, err := filepath.Abs("../../examples/plugins/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Config{Name: "wrap", File: file, Options: json.RawMessage(options), Env: []string{"PYTHONDONTWRITEBYTECODE=1"}}
}

func TestTheExampleInPythonPassesTheSuite(t *testing.T) {
	c := wrapInPython(t, nice)
	t.Parallel()
	executortest.Run(t, wrapped(c))
}

func TestTheExampleInPythonSaysWhatIsWrong(t *testing.T) {
	for options, want := range map[string]struct{ text, option string }{
		`{"command": ["made-up-name"]}`: {`there is no command made-up-name`, "/command/0"},
		`{"command": ["false"]}`:        {`does not start programs`, ""},
		`{"command": ["nice"], "x": 1}`: {`additional properties 'x' not allowed`, "/x"},
	} {
		_, err := plugin.Open(t.Context(), wrapInPython(t, options), executor.Setup{})
		if err == nil || !strings.Contains(err.Error(), want.text) || optionOf(err) != want.option {
			t.Errorf("%s: %v, of the option %q", options, err, optionOf(err))
		}
	}
	program, err := executortest.Program() // which may have to be built, longer than a plugin waits
	if err != nil {
		t.Fatal(err)
	}
	e, err := plugin.Open(t.Context(), wrapInPython(t, `{"command": ["nice"], "forbidden": ["a/b"]}`), executor.Setup{
		Program: func(string, string) (string, error) { return program, nil }, State: t.TempDir(), Temp: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	bad := job("one")
	bad.Variables = map[string]string{"CI_PROJECT_PATH": "a/b"}
	var user *executor.UserError
	if _, err := e.Prepare(t.Context(), bad, nil); !errors.As(err, &user) || user.Hint == "" {
		t.Errorf("the error is %v", err)
	}
}
