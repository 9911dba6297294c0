//go:build unix

package plugintest_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/fake"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/plugin/plugintest"
	"github.com/rungci/rung/internal/pluginhost"
	sdk "github.com/rungci/rung/sdk/executor"
)

// childArg makes this binary the process that runs the suite, and playsVariable a plugin that does not do what it should.
const (
	childArg      = "try-a-plugin"
	playsVariable = "RUNG_TEST_PLAYS"
)

func TestMain(m *testing.M) {
	switch what := os.Getenv(playsVariable); {
	case strings.HasPrefix(what, "provider "):
		playProvider(strings.TrimPrefix(what, "provider "))
	case what != "":
		sdk.Serve(sdk.Plugin{Name: "careless", Level: "careless", Open: func(context.Context, sdk.Setup, json.RawMessage) (sdk.Executor, error) {
			return &fake.Executor{Name: "careless", Can: &sdk.Capabilities{}}, nil // which runs nothing, and says that all is well
		}})
	case len(os.Args) == 2 && os.Args[1] == childArg:
		os.Exit(plugintest.Child([]string{childArg}))
	default:
		code := m.Run()
		executortest.RemoveProgram()
		os.Exit(code)
	}
}

// try tries a plugin, and returns its cases by their sentences.
func try(t *testing.T, config plugin.Config, only string) (cases map[string]plugintest.Result, passed bool, err error) {
	t.Helper()
	trial := plugintest.Trial{Plugin: config, Only: only}
	kind, err := pluginhost.Serves(t.Context(), config, plugin.ExecutorKind, plugin.ProviderKind)
	if err != nil {
		return nil, false, err
	}
	trial.Provider = kind == plugin.ProviderKind
	if !trial.Provider {
		if trial.StepRunner, err = executortest.Program(); err != nil {
			t.Fatal(err)
		}
	}
	cases = map[string]plugintest.Result{}
	passed, err = trial.Run(t.Context(), []string{os.Args[0], childArg}, func(r plugintest.Result) { cases[r.Case] = r })
	return cases, passed, err
}

func TestAPluginThatDoesWhatItShouldPasses(t *testing.T) {
	file := filepath.Join(t.TempDir(), plugin.Prefix+"wrap")
	if out, err := exec.Command("go", "build", "-o", file, "github.com/rungci/rung/examples/plugins/executor-plugin-wrap").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cases, passed, err := try(t, plugin.Config{Name: "wrap", File: file, Options: json.RawMessage(`{"command":["nice"]}`)}, "sweep")
	if err != nil || !passed || !cases["after its process was killed a sweep leaves nothing"].Passed || !cases["a sweep leaves the living alone"].Passed {
		t.Errorf("%t, %v: %+v", passed, err, cases)
	}
}

func TestWhatIsWrongWithAPluginIsSaidInWords(t *testing.T) {
	careless := plugin.Config{Name: "careless", File: os.Args[0], Env: []string{playsVariable + "=careless"}}
	cases, passed, err := try(t, careless, "and its log and exit code")
	r := cases["a step runs in the environment and its log and exit code come back"]
	if err != nil || passed || r.Passed || !strings.Contains(strings.Join(r.Details, "\n"), `its log is ""`) {
		t.Errorf("%t, %v: %+v", passed, err, cases)
	}
}

func TestWhatIsNotAPluginIsNotTried(t *testing.T) {
	_, passed, err := try(t, plugin.Config{Name: "true", File: "/bin/true"}, "")
	if passed || err == nil || !strings.Contains(err.Error(), `the executor plugin "true" does not start`) {
		t.Errorf("%t, %v", passed, err)
	}
	if _, _, err := try(t, plugin.Config{Name: "careless", File: os.Args[0], Env: []string{playsVariable + "=careless"}}, "made-up words"); err == nil {
		t.Error("nothing was tried, and all is well")
	}
}
