// Package configuration holds the commands about the configuration itself: what is used of it, and how to move it here.
package configuration

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/rung/command/supplies"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/cmd/step-runner/command/report"
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
key that is misspelt, a table of another executor, or an entry that cannot be run here, as its plugin is not on this machine. A note is a key that has no meaning here.

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
		return tried(found, path), place.Missing(err, path)
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
		t := &trial{found: found, name: name, entry: &found.Config.Runners[i]}
		t.keys()
		t.supplies()
		t.levels()
	}
	slices.SortStableFunc(found.Problems, func(a, b problems.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return found
}

// trial is that of one entry.
type trial struct {
	found *config.Report
	name  string // of the file
	entry *config.Runner
}

// warn adds a warning about an error, at its key if it has one.
func (t *trial) warn(rule, what string, err error) {
	d := diag.Diagnostic{Span: diag.Span{File: t.name, Line: t.entry.Line(), Column: 1, Length: 1}, Message: fmt.Sprintf("%s: %v", what, err)}
	var key *config.KeyError
	if errors.As(err, &key) {
		d.Span, d.Source = t.found.Config.Place(t.entry, key.Key)
	}
	t.add(rule, d)
}

func (t *trial) add(rule string, d diag.Diagnostic) {
	t.found.Problems = append(t.found.Problems, problems.Problem{Warning: true, Rule: rule, Diagnostic: d})
}

// each warns of all errors that one is made of, see errors.Join.
func (t *trial) each(rule, what string, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			t.warn(rule, what, one)
		}
	} else if err != nil {
		t.warn(rule, what, err)
	}
}

// keys tries what values of keys mean elsewhere.
func (t *trial) keys() {
	r := t.entry
	name := fmt.Sprintf("the entry %q", r.Name)
	_, err := docker.Options(r.Docker)
	t.each("config/docker", "jobs of "+name+" cannot be run", err)
	if r.Executor == config.KubernetesExecutor {
		_, err := kubernetes.Options(r.Kubernetes)
		t.each("config/kubernetes", "jobs of "+name+" cannot be run", err)
	}
	if _, err := kinds.Open(r.Cache); err != nil {
		t.warn("config/cache", "jobs of "+name+" run without caches", err)
	}
	if _, err := t.found.Config.Transport(r); err != nil {
		t.warn("config/tls", name+" is not used", err)
	}
	if err := traces.CheckKey(r.Traces.Key); err != nil {
		t.warn("config/traces", "traces of "+name+" cannot be signed (sign_key)", err)
	}
}

// supplies tries where machines come from, and which plugins there are.
func (t *trial) supplies() {
	for _, err := range supplies.Check(t.found.Config, t.entry) {
		var wrong *config.OptionError
		if !errors.As(err, &wrong) {
			t.warn("config/missing", fmt.Sprintf("jobs of the entry %q cannot be run on this machine", t.entry.Name), err)
			continue
		}
		for _, d := range wrong.Problems {
			d.Message = fmt.Sprintf("%s does not take its options: %s", wrong.Of, d.Message)
			t.add("config/options", d)
		}
	}
}

// levels finds those that no job can have.
func (t *trial) levels() {
	wanted, err := t.entry.Levels()
	if err != nil {
		return
	}
	for _, level := range wanted.Allowed {
		err := supplies.CheckLevel(t.entry, level)
		if err == nil {
			continue
		}
		key := "executor"
		switch l := string(level); {
		case l == t.entry.Isolation.Default:
			key = "isolation.default"
		case slices.Contains(t.entry.Isolation.Allowed, l):
			key = "isolation.allowed"
		}
		d := diag.Diagnostic{Message: fmt.Sprintf("jobs of the entry %q cannot run on level %s: %v", t.entry.Name, level, err)}
		d.Span, d.Source = t.found.Config.Place(t.entry, key)
		t.add("config/isolation", d)
	}
}
