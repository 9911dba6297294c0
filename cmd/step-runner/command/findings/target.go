package findings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// kind is what a target is.
type kind int

const (
	gitlabFile kind = iota
	workflowFile
	actionFile
	stepsFile
	component // which a reference names
)

// target is one thing that `check` looks at.
type target struct {
	kind kind
	name string // a file, a reference, or "-"; "" is the project's .gitlab-ci.yml
	text []byte // of "-"
}

// The files that define a component or an action in a folder.
var (
	componentFiles = []string{plan.DefaultFile, plan.FallbackFile}
	actionFiles    = []string{"action.yml", "action.yaml"}
)

// targetsOf are what arguments stand for.
func targetsOf(p *command.Program, o *project.Flags, args []string) (targets []target, err error) {
	if len(args) == 0 {
		return ofProject(o.ProjectDir)
	}
	for _, arg := range args {
		of, err := targetOf(p, arg)
		if err != nil {
			return nil, err
		}
		targets = append(targets, of...)
	}
	return targets, nil
}

func targetOf(p *command.Program, arg string) ([]target, error) {
	if arg == "-" {
		_, text, err := p.Read(arg)
		return []target{{kindOf("stdin", text), arg, text}}, err
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return ofFolder(arg)
	case err == nil:
		return []target{ofFile(arg)}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if _, err := gitlabsteps.ParseStaticReference(arg, diag.Span{}); err != nil {
		return nil, components.Unknown(arg, err)
	}
	return []target{{kind: component, name: arg}}, nil
}

// ofProject is what the project around a folder has.
func ofProject(dir string) ([]target, error) {
	root, _, err := github.Find(dir)
	if err != nil {
		return nil, exit.Coded(exit.System, "looking for workflows: %v", err)
	}
	near := root
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, root); err == nil {
			near = rel
		}
	}
	targets := known(near, "")
	if len(targets) == 0 {
		return nil, exit.Coded(exit.NotFound, "there is nothing to check in %s: neither %s nor a workflow in %s, nor a component or an action", root, gitlab.DefaultFile, github.Folder).
			Hinted("go to a project's folder, or name a file as the first argument")
	}
	return targets, nil
}

// ofFolder is what a folder has that a run would find, or else its YAML files.
func ofFolder(dir string) ([]target, error) {
	targets := known(dir, filepath.Join(dir, gitlab.DefaultFile))
	if len(targets) > 0 {
		return targets, nil
	}
	for _, file := range yamlFiles(dir) {
		targets = append(targets, ofFile(file))
	}
	if len(targets) == 0 {
		return nil, exit.Coded(exit.NotFound, "there are no .yml files in %s", dir)
	}
	return targets, nil
}

// known are the definitions in a folder that have a name of their own. pipeline is what its .gitlab-ci.yml is called.
func known(dir, pipeline string) (targets []target) {
	has := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	}
	if slices.ContainsFunc(componentFiles, has) {
		targets = append(targets, target{kind: component, name: dir})
	}
	if i := slices.IndexFunc(actionFiles, has); i >= 0 {
		targets = append(targets, target{kind: actionFile, name: filepath.Join(dir, actionFiles[i])})
	}
	if has(gitlab.DefaultFile) {
		targets = append(targets, target{kind: gitlabFile, name: pipeline})
	}
	for _, file := range yamlFiles(filepath.Join(dir, filepath.FromSlash(github.Folder))) {
		targets = append(targets, target{kind: workflowFile, name: file})
	}
	return targets
}

// yamlFiles are those in a folder, by name.
func yamlFiles(dir string) (files []string) {
	entries, _ := os.ReadDir(dir) // one that cannot be read has none
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yml" || ext == ".yaml") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}

// ofFile finds out what a file is, by its name and place, or else by its text.
func ofFile(file string) target {
	base := filepath.Base(file)
	switch {
	case project.IsWorkflow(file):
		return target{kind: workflowFile, name: file}
	case base == gitlab.DefaultFile:
		return target{kind: gitlabFile, name: file}
	case slices.Contains(actionFiles, base):
		return target{kind: actionFile, name: file}
	case slices.Contains(componentFiles, base):
		return target{kind: component, name: file}
	}
	text, _ := source.ReadFile(file) // whoever checks it says why it cannot be read
	return target{kind: kindOf(file, text), name: file}
}

// IsPipeline reports whether a file is a .gitlab-ci.yml, by its name, or else by its text.
func IsPipeline(file string) bool { return ofFile(file).kind == gitlabFile }

// kindOf finds out what a text is. Of a .gitlab-ci.yml every document is a mapping of jobs.
func kindOf(name string, text []byte) kind {
	parsed, err := yamlsource.Parse(name, text, "!reference")
	if err != nil || len(parsed.Documents) == 0 {
		return gitlabFile
	}
	has := func(n *yamlsource.Node, key string, kinds ...yamlsource.Kind) bool {
		found := n.Get(key)
		return found != nil && slices.Contains(kinds, found.Kind)
	}
	last := parsed.Documents[len(parsed.Documents)-1]
	exec := last.Get("exec")
	switch {
	case last.Kind == yamlsource.Sequence, has(last, "run", yamlsource.Sequence):
		return stepsFile
	case len(parsed.Documents) > 1 && exec != nil && (has(exec, "command", yamlsource.Sequence) || has(exec, "script", yamlsource.String) && len(last.Entries) == 1):
		return stepsFile
	case has(last, "jobs", yamlsource.Mapping) && last.Get("on") != nil:
		return workflowFile
	case has(last, "runs", yamlsource.Mapping) && last.Get("runs").Get("using") != nil:
		return actionFile
	}
	return gitlabFile
}
