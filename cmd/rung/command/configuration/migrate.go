package configuration

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/quantity"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/source"
)

func migrateCommand(p *command.Program) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "migrate [FILE]",
		Short: "Explain the move from gitlab-runner, step by step",
		Long: `migrate reads the config.toml of gitlab-runner, and explains the move: what becomes of each entry and which level of isolation its jobs get, what is
not used, how to try it with a few jobs beside gitlab-runner first, and the way back. It changes nothing.

The file is used as it is, unless it has entries that cannot be run here. --output writes a copy without these, which only its owner can read.

` + exit.ReaderCodesHelp,
		Example: `  rung config migrate
  rung config migrate --output /etc/rung/config.toml`,
		Args: command.Arguments(0, 1, "FILE"),
	}
	file := place.Flag(p, cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the configuration for rung to `FILE`, which must not exist")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		path := file.Path()
		if len(args) > 0 {
			path = args[0]
		}
		found, err := config.Lint(path)
		if err != nil {
			return place.Missing(err, path)
		}
		if err := found.Unusable(); err != nil {
			return err
		}
		m := &move{path: path, output: output, found: found}
		for i := range found.Config.Runners {
			if _, err := found.Config.Runners[i].Levels(); err != nil {
				m.refused = append(m.refused, i)
			}
		}
		if output != "" {
			if err := m.write(); err != nil {
				return err
			}
		}
		return m.explain(p.Stdout)
	}
	return cmd
}

// move is that of one file.
type move struct {
	path, output string
	found        *config.Report
	refused      []int // the entries that stay with gitlab-runner
}

// write writes the file without the entries that cannot be run here.
func (m *move) write() error {
	text, err := os.ReadFile(m.path)
	if err != nil {
		return err
	}
	for i := len(m.refused) - 1; i >= 0; i-- {
		if text, err = config.Remove(text, m.refused[i]); err != nil {
			return exit.Coded(exit.Definition, "%v", err)
		}
	}
	out, err := os.OpenFile(m.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return exit.Usage("%s already exists, and is not overwritten", m.output)
	}
	if err != nil {
		return err
	}
	if _, err = out.Write(text); err == nil {
		err = out.Close()
	}
	return err
}

// own is the configuration that rung will have.
func (m *move) own() string {
	switch {
	case m.output != "":
		return m.output
	case len(m.refused) > 0:
		return "NEW.toml"
	}
	return m.path
}

// explain writes all there is to know.
func (m *move) explain(w io.Writer) error {
	var b strings.Builder
	runners := m.found.Config.Runners
	entries := fmt.Sprintf("%d entries", len(runners))
	if len(runners) == 1 {
		entries = "1 entry"
	}
	fmt.Fprintf(&b, "%s has %s.\n\n", m.path, entries)
	for i := range runners {
		r := &runners[i]
		fmt.Fprintf(&b, "  %s (executor %s): ", cleantext.Line(r.Name), cleantext.Line(r.Executor))
		if levels, err := r.Levels(); err != nil {
			fmt.Fprintf(&b, "stays with gitlab-runner: %v\n", err)
		} else {
			fmt.Fprintf(&b, "its jobs run on level %s%s\n", levels.Default, advice(r))
		}
	}
	fmt.Fprintf(&b, "\n%s used", quantity.Count(m.found.Used, "key"))
	if m.found.Ignored > 0 {
		fmt.Fprintf(&b, ", %d not", m.found.Ignored)
	}
	b.WriteString(".\n")
	for _, p := range m.found.Problems {
		if p.Rule != "config/refused" {
			fmt.Fprintf(&b, "  %s\n", p.Error())
		}
	}
	if len(m.refused) == len(runners) {
		b.WriteString("\nNothing of it can be run here.\n")
	} else {
		m.steps(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// advice is what an operator may want to know of an entry.
func advice(r *config.Runner) string {
	switch {
	case r.Isolation.Default != "":
		return ", as [runners.isolation] says"
	case r.Executor == "custom":
		return ", as its driver does not say how well it isolates"
	case r.Executor == "shell":
		return ", not in a login shell and with an empty HOME"
	case r.Docker != nil && r.Docker.Privileged:
		return ", privileged: they have all rights on the host's kernel"
	}
	return ""
}

// steps are the canary, the move, and the way back.
func (m *move) steps(b *strings.Builder) {
	first := &m.found.Config.Runners[0]
	for i := range m.found.Config.Runners {
		if _, err := m.found.Config.Runners[i].Levels(); err == nil {
			first = &m.found.Config.Runners[i]
			break
		}
	}
	canary := filepath.Join(filepath.Dir(filepath.Dir(m.path)), "rung", "canary.toml")
	flags := "--executor " + cleantext.Line(first.Executor)
	if first.Docker != nil && first.Docker.Image != "" {
		flags += " --docker-image " + cleantext.Line(first.Docker.Image)
	}
	fmt.Fprintf(b, `
A canary, beside gitlab-runner
  1. In GitLab, make a runner of its own with the tag rung-canary, and write its token to a file: token.
  2. rung register -c %[1]s --url %[2]s --token-file token --limit 1 %[3]s
  3. rung run -c %[1]s
  4. Give a job the tag rung-canary. Both programs run on this machine and share nothing but the engine.
  To end it: stop rung, then rung unregister -c %[1]s --all-runners

The move
`, canary, cleantext.Line(source.MaskUserinfo(first.URL)), flags)
	n := 1
	step := func(format string, args ...any) {
		fmt.Fprintf(b, "  %d. %s\n", n, fmt.Sprintf(format, args...))
		n++
	}
	step("Keep a copy: cp -p %s %s", shellword.Of(m.path), shellword.Of(m.path+".before-rung"))
	if len(m.refused) > 0 {
		if m.output == "" {
			step("Write the configuration for rung: rung config migrate %s --output NEW.toml", shellword.Of(m.path))
		} else {
			step("%s is the configuration for rung: the same file without the entries that stay with gitlab-runner.", m.output)
		}
		step("Take the entries that move out of %s; gitlab-runner reads the file again by itself, and finishes their jobs.", m.path)
	} else {
		step("Let gitlab-runner finish its jobs and stop: systemctl stop gitlab-runner ends them, and its unit starts it again when it ends by itself.\n" +
			"     systemctl edit --runtime gitlab-runner, with the lines [Service] and Restart=no; systemctl kill --signal QUIT gitlab-runner;\n" +
			"     when systemctl is-active gitlab-runner says inactive: systemctl disable --now gitlab-runner")
	}
	step("Try the configuration: rung verify -c %[1]s, and rung doctor -c %[1]s", shellword.Of(m.own()))
	step("rung service install -c %s, then rung service start", shellword.Of(m.own()))
	b.WriteString("\nThe way back\n")
	n = 1
	step("rung service stop, which lets its jobs finish, then rung service uninstall")
	m.back(step)
}

// back are the steps after which gitlab-runner has its entries again. Tokens that GitLab has renewed are in the file that rung used.
func (m *move) back(step func(format string, args ...any)) {
	renewed := fmt.Sprintf("with the token, token_obtained_at and token_expires_at that they have there.\n"+
		"     GitLab may have renewed them, and those of %s.before-rung are not valid then", m.path)
	switch {
	case len(m.refused) > 0:
		step("Put the entries that moved (%s) back into %s: copy them from %s, %s.", strings.Join(m.moved(), ", "), m.path, m.own(), renewed)
		step("gitlab-runner has run all the time with the entries that stayed. It reads the file again by itself, and ignores [runners.isolation].")
	case m.output != "":
		step("Take over into %s, from %s, what GitLab has renewed: the entries %s.", m.path, m.output, renewed)
		step("systemctl enable --now gitlab-runner")
	default:
		step("systemctl enable --now gitlab-runner. It reads %s as before: rung has changed nothing in it but tokens that GitLab has renewed, and gitlab-runner\n"+
			"     ignores [runners.isolation].", m.path)
	}
}

// moved are the names of the entries that do not stay.
func (m *move) moved() (names []string) {
	for i := range m.found.Config.Runners {
		if !slices.Contains(m.refused, i) {
			names = append(names, cleantext.Line(m.found.Config.Runners[i].Name))
		}
	}
	return names
}
