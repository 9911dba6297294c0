// Package configuration holds the commands about the configuration itself: what is used of it, and how to move it here.
package configuration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/rung/command/supplies"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/cmd/step-runner/command/report"
	"github.com/rungci/rung/executor/levels"
	"github.com/rungci/rung/manager/cachestore/kinds"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/docker"
	"github.com/rungci/rung/manager/kubernetes"
	"github.com/rungci/rung/manager/traces"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
)

// Command makes the command `config`.
func Command(p *command.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check the configuration, or move it from gitlab-runner"}
	command.Group(cmd)
	cmd.AddCommand(lintCommand(p), migrateCommand(p))
	return cmd
}

func lintCommand(p *command.Program) *cobra.Command {
	var flags report.Flags
	cmd := &cobra.Command{
		Use:   "lint [FILE|-]",
		Short: "Check a config.toml: what is used, ignored or wrong",
		Long: `lint reads a config.toml of gitlab-runner, and says what is wrong with it, what is not used here and why, each with its line. What nobody may
see of it, such as a token, is not shown.

An error is what gitlab-runner does not accept either, or a mistake in [runners.isolation]. A warning is what has no effect and probably should, such as a
key that is misspelt, or an entry that cannot be run here. A note is a key that has no meaning here.

` + exit.ReaderCodesHelp,
		Example: `  rung config lint
  rung config lint --format sarif -o config.sarif ./config.toml`,
		Args: command.Arguments(0, 1, "FILE"),
	}
	file := place.Flag(p, cmd)
	flags.Declare(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := flags.Valid(); err != nil {
			return err
		}
		found, err := lint(p, file, args)
		if err != nil {
			return err
		}
		err = flags.Write(p, "rung", found.Problems)
		if flags.Format == "text" && found.Config != nil {
			p.Tell(counted(found.Used, found.Ignored))
		}
		return err
	}
	return cmd
}

// counted says how many keys have an effect.
func counted(used, ignored int) string {
	is := func(n int) string {
		if n == 1 {
			return "is"
		}
		return "are"
	}
	return fmt.Sprintf("%s %s used, %d %s not", quantity.Count(used, "key"), is(used), ignored, is(ignored))
}

// lint reads the file of an argument, or that of the flag.
func lint(p *command.Program, file *place.File, args []string) (*config.Report, error) {
	path := file.Path()
	if len(args) > 0 {
		path = args[0]
	}
	if path != "-" {
		found, err := config.Lint(path)
		return tried(found, path), err
	}
	name, text, err := p.Read(path)
	if err != nil {
		return nil, err
	}
	return tried(config.Check(name, text, p.Getenv), name), nil
}

// tried adds what other packages, and files of this machine, say of entries: a level would not take [runners.docker], or a certificate is missing.
func tried(found *config.Report, name string) *config.Report {
	if found == nil || found.Config == nil {
		return found
	}
	for i := range found.Config.Runners {
		r := &found.Config.Runners[i]
		warn := func(rule, format string, args ...any) {
			span := diag.Span{File: name, Line: r.Line(), Column: 1, Length: 1}
			found.Problems = append(found.Problems, problems.Problem{Warning: true, Rule: rule, Diagnostic: diag.Diagnostic{Span: span, Message: fmt.Sprintf(format, args...)}})
		}
		if _, err := docker.Options(r.Docker); err != nil {
			warn("config/docker", "jobs of the entry %q cannot be run: %v", r.Name, err)
		}
		if _, err := kubernetes.Options(r.Kubernetes); err != nil {
			warn("config/kubernetes", "jobs of the entry %q cannot be run: %v", r.Name, err)
		}
		if _, err := kinds.Open(r.Cache); err != nil {
			warn("config/cache", "jobs of the entry %q run without caches: %v", r.Name, err)
		}
		if _, err := found.Config.Transport(r); err != nil {
			warn("config/tls", "the entry %q is not used: %v", r.Name, err)
		}
		if err := traces.CheckKey(r.Traces.Key); err != nil {
			warn("config/traces", "traces of the entry %q cannot be signed (sign_key): %v", r.Name, err)
		}
		for _, err := range supplies.CheckGroups(found.Config, r) {
			var wrong *config.OptionError
			if !errors.As(err, &wrong) {
				warn("config/options", "the entry %q is not used: %v", r.Name, err)
				continue
			}
			for _, d := range wrong.Problems {
				d.Message = fmt.Sprintf("%s does not take its options: %s", wrong.Of, d.Message)
				found.Problems = append(found.Problems, problems.Problem{Warning: true, Rule: "config/options", Diagnostic: d})
			}
		}
		if wanted, err := r.Levels(); err == nil {
			for _, level := range wanted.Allowed {
				if _, known := levels.Find(level); !known && level.Known() {
					warn("config/isolation", "jobs of the entry %q cannot run on level %s: this program has %s", r.Name, level, strings.Join(levels.Names(), ", "))
				}
			}
		}
	}
	return found
}
