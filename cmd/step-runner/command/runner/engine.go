// Package runner describes this program as a runner of steps: its file, its digest, and what it gives every run.
package runner

import (
	"maps"
	"os"
	"runtime"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/steps/catalog/script"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/toolkit/github"
	"github.com/rungci/rung/steps/value"
)

// EngineOptions are what every run of this program has, whoever asks for it: languages, toolkits, and the program itself.
func EngineOptions(p *command.Program) engine.Options {
	return engine.Options{
		HostEnv:        p.Env,
		ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
		Toolkits:       map[string]engine.Toolkit{plan.ToolkitGitHub: github.Begin, plan.ToolkitGitHubAction: github.Begin},
		Functions:      functions(),
		Program:        File(),
		ProgramEnv:     func(args, env []string) []string { return programEnv(p.Env, args, env) },
		Runtime:        event.Runtime{Version: p.Version, OS: runtime.GOOS, Arch: runtime.GOARCH},
	}
}

// functions are what expressions can call beyond those of the language.
func functions() map[string]engine.Function {
	all := maps.Clone(github.Functions)
	for name, f := range script.Functions {
		all[name] = func(_ engine.FunctionScope, args []value.Value) (value.Value, error) { return f(args) }
	}
	return all
}

// File is the file of this program; "" where the system does not say.
func File() string {
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	return file
}
