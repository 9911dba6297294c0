package github

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/projectfile"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/diag"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
)

// RunnersFile is the file in .rung that says where jobs run, by the labels of `runs-on`:
//
//	ubuntu-latest: {image: "ubuntu:24.04"}   # a container
//	windows-latest: {isolation: none}        # this machine, whatever it is
const RunnersFile = "runners.yml"

// Runner is where jobs with a label run.
type Runner struct {
	Isolation local.Isolation // none or container
	Image     string          // of a container
}

// Runners are the runners of a project, by the labels of `runs-on` in small letters.
type Runners map[string]Runner

// maxRunners bounds the file, in bytes.
const maxRunners = 1 << 20

// readRunners reads the file of the project in root; one that is not there maps nothing. What is wrong with it is a diag.List.
func readRunners(root, file, name string) (Runners, error) {
	data, err := projectfile.ReadPath(root, file, maxRunners)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the project's runners: %w", err)
	}
	return ParseRunners(name, data)
}

// ParseRunners reads the text of a file that diagnostics call name.
func ParseRunners(name string, data []byte) (Runners, error) {
	file, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, err
	}
	out := Runners{}
	for _, doc := range file.Documents {
		if doc.Kind != yamlsource.Mapping {
			if doc.Kind != yamlsource.Null {
				file.Report(doc.Span, "write LABEL: {image: NAME} lines", "the file must be a map of labels, not %s", doc.Kind)
			}
			continue
		}
		for _, e := range doc.Entries {
			out[strings.ToLower(e.Key.Text)] = readRunner(file, e)
		}
	}
	return out, file.Err()
}

// runnerKeys are the keys of a runner.
var runnerKeys = []string{"image", "isolation"}

func readRunner(file *yamlsource.File, e yamlsource.Entry) Runner {
	r := Runner{Isolation: local.IsolateNone}
	if e.Value.Kind != yamlsource.Mapping {
		file.Report(e.Value.Span, "write {isolation: none} or {image: NAME}", "a runner must be a map, not %s", e.Value.Kind)
		return r
	}
	isolation := ""
	for _, f := range e.Value.Entries {
		switch f.Key.Text {
		case "image":
			if r.Image = f.Value.Text; f.Value.Kind != yamlsource.String || r.Image == "" {
				file.Report(f.Value.Span, "", "image must be the name of an image")
			}
			r.Isolation = local.IsolateContainer
		case "isolation":
			if isolation = f.Value.Text; isolation != string(local.IsolateNone) && isolation != string(local.IsolateContainer) {
				file.Report(f.Value.Span, "", "isolation must be none or container, not %q", f.Value.Text)
			}
		default:
			file.Report(f.Key.Span, diag.Suggest(f.Key.Text, runnerKeys), "%q is not a key of a runner; the keys are %s", f.Key.Text, strings.Join(runnerKeys, " and "))
		}
	}
	switch {
	case isolation == string(local.IsolateContainer) && r.Image == "":
		file.Report(e.Key.Span, "add image: NAME", "the runner %s is a container but has no image", e.Key.Text)
	case isolation == string(local.IsolateNone) && r.Image != "":
		file.Report(e.Key.Span, "remove one of them", "the runner %s has an image, but isolation none uses no containers", e.Key.Text)
	}
	return r
}

// systems are the beginnings of labels that name an operating system, as Go calls that.
var systems = map[string]string{"ubuntu": "linux", "linux": "linux", "windows": "windows", "macos": "darwin"}

// architectures are labels, and parts of labels, that name an architecture, as Go calls that.
var architectures = map[string]string{"x64": "amd64", "x86": "386", "arm64": "arm64", "arm": "arm64", "intel": "amd64"}

// asked is what labels say of a machine; "" is nothing.
func asked(labels []string) (system, architecture, label string) {
	for _, l := range labels {
		parts := strings.Split(strings.ToLower(l), "-")
		if os := systems[parts[0]]; os != "" {
			system, label = os, l
		}
		for _, part := range parts {
			if arch := architectures[part]; arch != "" {
				architecture = arch
			}
		}
	}
	return system, architecture, label
}

// systemNames are the names of systems for people.
var systemNames = map[string]string{"linux": "Linux", "windows": "Windows", "darwin": "macOS"}

// wordOf is the name of a system for people.
func wordOf(system string) string {
	if word := systemNames[system]; word != "" {
		return word
	}
	return system
}

// choose finds the runner for what a job asks. The note is for people; a reason says why there is none.
func (r Runners) choose(on definition.RunsOn) (runner Runner, note, reason string) {
	for _, label := range on.Labels {
		if mapped, ok := r[strings.ToLower(label)]; ok {
			return mapped, "", ""
		}
	}
	here := Runner{Isolation: local.IsolateNone}
	system, architecture, label := asked(on.Labels)
	hint := "; .rung/" + RunnersFile + " maps labels to images or to this machine"
	switch {
	case system == runtime.GOOS && architecture != "" && architecture != runtime.GOARCH:
		return here, fmt.Sprintf("runs-on: %s: this machine, which is %s, runs it", strings.Join(on.Labels, ", "), runtime.GOARCH), ""
	case system == runtime.GOOS:
		return here, "", ""
	case system == "linux" && runtime.GOOS == "darwin":
		return here, fmt.Sprintf("runs-on: %s: this machine, which is %s, runs it%s", label, wordOf(runtime.GOOS), hint), ""
	case system != "":
		return here, "", fmt.Sprintf("runs-on: %s asks for %s, and this machine is %s%s", label, wordOf(system), wordOf(runtime.GOOS), hint)
	case len(on.Labels) == 0 || slices.Equal(on.Labels, []string{"self-hosted"}):
		return here, "", ""
	}
	return here, fmt.Sprintf("runs-on: %s: this machine runs it%s", strings.Join(on.Labels, ", "), hint), ""
}
