//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// workflowFigures are those of `step-runner local` with a workflow of GitHub's, beside act in host mode where Go can install it. Whole
// processes are scaled as those of pipelines are.
var workflowFigures = []figure{
	{name: "workflow of 1 step `run: true`", unit: "ms", target: 15, measure: workflowOf(1)},
	{name: "workflow of 10 steps `run: true`", unit: "ms", target: 30, measure: workflowOf(10)},
	{name: "workflow of 100 steps `run: true`", unit: "ms", target: 180, measure: workflowOf(100)},
	{name: "1,000 warnings with masks", unit: "ms", target: 1000, measure: warningsWithMasks},
	{name: "composite action, over its inner step", unit: "ms", target: 2, measure: compositeCost},
	{name: "JavaScript action, over starting node", unit: "ms", target: 5, measure: javaScriptCost},
	{name: "1,000 expressions of GitHub's", unit: "ms", target: 20, measure: thousandExpressions},
}

// actionFiles are actions that do next to nothing.
var actionFiles = map[string]string{
	"composite/action.yml": "name: c\nruns:\n  using: composite\n  steps:\n  - run: 'true'\n    shell: bash\n",
	"node/action.yml":      "name: n\nruns:\n  using: node20\n  main: main.js\n",
	"node/main.js":         "process.exitCode = 0\n",
}

// workflowRepository makes a Git repository with the actions and a workflow of steps, and returns its folder.
func (w *world) workflowRepository(name string, steps string) (string, error) {
	dir, err := w.repository(name, "")
	if err != nil {
		return "", err
	}
	files := map[string]string{".github/workflows/ci.yml": "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n" + steps}
	for file, text := range actionFiles {
		files[file] = text
	}
	for file, text := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (w *world) workflowCommand(dir string) command {
	return command{args: []string{w.runner, "local", ".github/workflows/ci.yml", "--isolation", "none", "--progress", "quiet"}, dir: dir, env: []string{"TMPDIR=" + w.inMemory}}
}

func workflowOf(steps int) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		dir, err := w.workflowRepository(fmt.Sprintf("workflow-%d", steps), strings.Repeat("    - run: 'true'\n", steps))
		if err != nil {
			return 0, "", err
		}
		return w.median(w.workflowCommand(dir), w.besideAct(dir))
	}
}

// warningsWithMasks is a job in whose log every warning follows a new mask.
func warningsWithMasks(w *world) (float64, string, error) {
	const script = `for i in $(seq 1000); do echo "::add-mask::hidden-value-$i-x"; echo "::warning::something number $i"; done`
	dir, err := w.workflowRepository("masks", "    - shell: bash\n      run: |\n        "+script+"\n")
	if err != nil {
		return 0, "", err
	}
	return w.median(w.workflowCommand(dir), "")
}

// repeated is how many steps a cost is divided by.
const repeated = 20

// compositeCost is what a composite action of one step takes more than that step.
func compositeCost(w *world) (float64, string, error) {
	with, err := w.workflowRepository("composite", "    - uses: actions/checkout@v4\n"+strings.Repeat("    - uses: ./composite\n", repeated))
	if err != nil {
		return 0, "", err
	}
	without, err := w.workflowRepository("plain", "    - uses: actions/checkout@v4\n"+strings.Repeat("    - run: 'true'\n      shell: bash\n", repeated))
	if err != nil {
		return 0, "", err
	}
	return w.difference(w.workflowCommand(with), w.workflowCommand(without))
}

// javaScriptCost is what a JavaScript action takes more than node itself.
func javaScriptCost(w *world) (float64, string, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return 0, "node is not installed", nil
	}
	with, err := w.workflowRepository("javascript", "    - uses: actions/checkout@v4\n"+strings.Repeat("    - uses: ./node\n", repeated))
	if err != nil {
		return 0, "", err
	}
	once, err := w.workflowRepository("javascript-none", "    - uses: actions/checkout@v4\n")
	if err != nil {
		return 0, "", err
	}
	node := command{args: []string{"bash", "-c", fmt.Sprintf("for i in $(seq %d); do env -i PATH=\"$PATH\" node node/main.js; done", repeated)}, dir: with} // in as small an environment
	var costs []time.Duration
	for range max(3, w.rounds/2) {
		var took [3]time.Duration
		for i, c := range []command{w.workflowCommand(with), w.workflowCommand(once), node} {
			if took[i], err = c.run(); err != nil {
				return 0, "", err
			}
		}
		costs = append(costs, (took[0]-took[1]-took[2])/repeated)
	}
	return median(costs).Seconds() * 1e3, "unscaled", nil
}

// difference is what one command takes more than another for each of the repeated steps, in milliseconds.
func (w *world) difference(more, less command) (float64, string, error) {
	var costs []time.Duration
	for range w.rounds {
		a, err := more.run()
		if err != nil {
			return 0, "", err
		}
		b, err := less.run()
		if err != nil {
			return 0, "", err
		}
		costs = append(costs, (a-b)/repeated)
	}
	return median(costs).Seconds() * 1e3, "unscaled", nil
}

// noContexts is where the expressions of thousandExpressions are evaluated.
type noContexts struct{ github value.Value }

// Lookup implements github.Scope.
func (s noContexts) Lookup(name string) (value.Value, bool) { return s.github, name == "github" }

// Call implements github.Scope.
func (noContexts) Call(string, []value.Value) (value.Value, bool, error) {
	return value.Value{}, false, nil
}

// thousandExpressions is how long a thousand different expressions take to be parsed and evaluated.
func thousandExpressions(w *world) (float64, string, error) {
	scope := noContexts{value.OfStruct(map[string]value.Value{"ref": value.OfString("refs/heads/main"), "run": value.OfInt(7)})}
	var times []time.Duration
	for round := range w.rounds {
		start := time.Now()
		for i := range 1000 {
			source := fmt.Sprintf("github.ref == 'refs/heads/main' && (github.run > %d || contains(format('{0}-%d', github.ref), 'X')) && fromJSON('[1,%d]')[1] != null", i%10, round, i)
			e, err := github.Parse(source, nil)
			if err != nil {
				return 0, "", err
			}
			if _, err := e.Eval(scope); err != nil {
				return 0, "", err
			}
		}
		times = append(times, time.Since(start))
	}
	return median(times).Seconds() * 1e3, "unscaled, all different", nil
}

// besideAct times the peer once, on this machine without containers, and says how long it took, or why it could not be timed.
func (w *world) besideAct(dir string) string {
	program, err := w.act()
	if err != nil {
		return "no act: " + err.Error()
	}
	peer := command{
		args: []string{program, "push", "--workflows", ".github/workflows/ci.yml", "--platform", "ubuntu-latest=-self-hosted", "--quiet"},
		dir:  dir, env: []string{"XDG_CACHE_HOME=" + filepath.Join(w.inMemory, "act"), "HOME=" + w.inMemory},
	}
	if _, err := peer.run(); err != nil { // it makes its folders
		return "act failed"
	}
	took, err := peer.run()
	if err != nil {
		return "act failed"
	}
	return "act " + ms(took)
}

// act returns the peer: the one in PATH, or one that Go builds, once.
func (w *world) act() (string, error) {
	if found, err := exec.LookPath("act"); err == nil {
		return found, nil
	}
	file := filepath.Join(w.dir, "act", "act")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	install := exec.Command("go", "install", "github.com/nektos/act@v0.2.89")
	install.Env = append(os.Environ(), "GOBIN="+filepath.Dir(file), "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		return "", errors.New("go install: " + strings.TrimSpace(string(out)))
	}
	return file, nil
}
