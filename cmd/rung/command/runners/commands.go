// Package runners holds the commands about this machine as a runner of GitLab: register, verify, unregister, list and reset-token.
package runners

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/registration"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/steps/source"
)

// Commands are all of them.
func Commands(p *command.Program) []*cobra.Command {
	return []*cobra.Command{registerCommand(p), listCommand(p), verifyCommand(p), unregisterCommand(p), resetTokenCommand(p)}
}

// interruptible is a context that an interrupt ends, and a function that gives an error of it the right exit code.
func interruptible(cmd *cobra.Command) (ctx context.Context, done func(error) error) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	return ctx, func(err error) error {
		interrupted := ctx.Err() != nil
		stop()
		if err != nil && interrupted {
			return exit.Coded(exit.Interrupted, "interrupted: %v", err)
		}
		return place.Failure(err)
	}
}

// label names an entry: as people call it, and by what they may see of its token.
func label(r *config.Runner) string { return cleantext.Line(r.Name) + " (" + r.Short() + ")" }

// secretFrom reads a token from a file, or from the value of the flag.
func secretFrom(p *command.Program, flag, value, file string) (string, error) {
	switch {
	case file == "":
		return value, nil
	case value != "":
		return "", exit.Usage("--%s and --%s-file cannot be used together", flag, flag)
	}
	_, text, err := p.Read(file)
	if err != nil {
		return "", fmt.Errorf("--%s-file: %w", flag, err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", exit.Usage("--%s-file: there is no token in %s", flag, file)
	}
	return token, nil
}

func listCommand(p *command.Program) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the entries of the configuration",
		Long:  "list prints the entries of the configuration, with the level of isolation of their jobs, and the first characters of their tokens.\n\n" + exit.ReaderCodesHelp,
		Args:  command.Arguments(0, 0, ""),
	}
	file := place.Flag(p, cmd)
	cmd.Flags().StringVarP(&format, "format", "f", "text", "print `FORMAT`: text, json")
	command.Complete(cmd, "format", "text", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := command.OneOf("--format", format, "text", "json"); err != nil {
			return err
		}
		c, err := file.Read()
		if err != nil {
			return err
		}
		type item struct {
			Name     string `json:"name"`
			Executor string `json:"executor"`
			Level    string `json:"level,omitempty"`
			Refused  string `json:"refused,omitempty"`
			Token    string `json:"token"`
			URL      string `json:"url"`
		}
		items := make([]item, len(c.Runners))
		for i := range c.Runners {
			r := &c.Runners[i]
			items[i] = item{Name: r.Name, Executor: r.Executor, Token: r.Short(), URL: source.MaskUserinfo(r.URL)}
			if levels, err := r.Levels(); err != nil {
				items[i].Refused = err.Error()
			} else {
				items[i].Level = string(levels.Default)
			}
		}
		if format == "json" {
			return command.WriteJSON(p.Stdout, items)
		}
		w := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tEXECUTOR\tLEVEL\tTOKEN\tURL")
		for _, i := range items {
			level := i.Level
			if i.Refused != "" {
				level = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cleantext.Line(i.Name), cleantext.Line(i.Executor), level, i.Token, cleantext.Line(i.URL))
		}
		return w.Flush()
	}
	return cmd
}

func verifyCommand(p *command.Program) *cobra.Command {
	var choice place.Choice
	var forget bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Ask GitLab whether the entries' tokens are valid",
		Long: `verify asks GitLab whether the tokens of the entries are valid, all of them or those that are named. --delete takes entries out of the
configuration whose token GitLab refuses, and no others.

` + place.CodesHelp,
		Args: command.Arguments(0, 0, ""),
	}
	file := place.Flag(p, cmd)
	chooseFlags(cmd, &choice, "verify")
	cmd.Flags().BoolVar(&forget, "delete", false, "take entries out of the file that GitLab has removed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		ctx, done := interruptible(cmd)
		defer func() { err = done(err) }()
		c, err := file.Read()
		if err != nil {
			return err
		}
		chosen, err := choice.Of(c.Runners, file.Path())
		if err != nil {
			return err
		}
		m := file.Manager()
		removed, unknown := 0, error(nil)
		for _, r := range chosen {
			verdict, err := m.Verify(ctx, r)
			switch {
			case err != nil:
				unknown = err
				fmt.Fprintf(p.Stdout, "%s: not known: %s\n", label(r), cleantext.Line(err.Error()))
			case verdict == registration.Valid:
				fmt.Fprintf(p.Stdout, "%s: valid\n", label(r))
			case !forget:
				removed++
				fmt.Fprintf(p.Stdout, "%s: removed: GitLab refuses its token\n", label(r))
			default:
				if err := m.Forget(r); err != nil {
					return err
				}
				fmt.Fprintf(p.Stdout, "%s: removed, and taken out of %s\n", label(r), file.Path())
			}
		}
		switch {
		case unknown != nil:
			return unknown
		case removed > 0:
			return exit.Coded(exit.Denied, "GitLab refuses the tokens of %d of %d entries", removed, len(chosen)).Hinted("`rung verify --delete` takes these entries out of the file")
		}
		return nil
	}
	return cmd
}

// chooseFlags adds the flags that choose entries.
func chooseFlags(cmd *cobra.Command, choice *place.Choice, what string) {
	cmd.Flags().StringVarP(&choice.Name, "name", "n", "", what+" the entry with this `NAME`")
	cmd.Flags().StringVarP(&choice.URL, "url", "u", "", what+" entries of the GitLab at `URL`")
	cmd.Flags().StringVarP(&choice.Token, "token", "t", "", what+" the entry with this `TOKEN`, or with what \"rung list\" shows of it")
}

func unregisterCommand(p *command.Program) *cobra.Command {
	var choice place.Choice
	cmd := &cobra.Command{
		Use:   "unregister",
		Short: "Take entries from GitLab and from the configuration",
		Long: `unregister takes entries from GitLab and then out of the configuration. A runner that was made in GitLab stays there, without this machine; one
that was made with a registration token is deleted.

` + place.CodesHelp,
		Example: "  rung unregister --name build-1",
		Args:    command.Arguments(0, 0, ""),
	}
	file := place.Flag(p, cmd)
	chooseFlags(cmd, &choice, "unregister")
	cmd.Flags().BoolVar(&choice.All, "all-runners", false, "unregister all entries")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if !choice.Given() {
			return exit.Usage("no entry is selected to unregister").Hinted("use --name, --url with --token, or --all-runners")
		}
		ctx, done := interruptible(cmd)
		defer func() { err = done(err) }()
		return each(p, file, &choice, func(m *registration.Manager, r *config.Runner) (string, error) {
			return "unregistered", m.Unregister(ctx, r)
		})
	}
	return cmd
}

func resetTokenCommand(p *command.Program) *cobra.Command {
	var choice place.Choice
	var personal, personalFile, state string
	cmd := &cobra.Command{
		Use:   "reset-token",
		Short: "Replace the tokens of entries",
		Long: `reset-token asks GitLab for a new token of an entry, and writes it to the configuration. The old token is not valid any more, on other machines
either. A manager that runs replaces tokens that have an end by itself, after three quarters of their life. One that runs now takes the new
token and keeps its jobs; --state says where it keeps them, if it was started with that flag.

` + place.CodesHelp,
		Example: "  rung reset-token --name build-1",
		Args:    command.Arguments(0, 0, ""),
	}
	file := place.Flag(p, cmd)
	cmd.Flags().StringVarP(&choice.Name, "name", "n", "", "reset the token of the entry with this `NAME`")
	cmd.Flags().StringVarP(&choice.URL, "url", "u", "", "reset those of entries of the GitLab at `URL`")
	cmd.Flags().StringVarP(&choice.Token, "token", "t", "", "reset this `TOKEN`, or the one of which \"rung list\" shows this")
	cmd.Flags().Int64VarP(&choice.ID, "id", "i", 0, "reset that of the runner with this `ID`")
	cmd.Flags().BoolVar(&choice.All, "all-runners", false, "reset those of all entries")
	cmd.Flags().StringVar(&personal, "pat", "", "ask with a personal access `TOKEN` instead of the entry's own")
	cmd.Flags().StringVar(&personalFile, "pat-file", "", "ask with the one in `FILE` (- is standard input)")
	cmd.Flags().StringVar(&state, "state", "", "let the manager with the state folder `DIR` keep its jobs (default: as of run)")
	cmd.Flags().Lookup("state").DefValue = ""
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if !choice.Given() {
			return exit.Usage("no token to reset is selected").Hinted("use --name, --url with --id, or --all-runners")
		}
		personal, err := secretFrom(p, "pat", personal, personalFile)
		if err != nil {
			return err
		}
		if state == "" {
			if state, err = place.StateFolder(p); err != nil {
				return err
			}
		}
		ctx, done := interruptible(cmd)
		defer func() { err = done(err) }()
		return each(p, file, &choice, func(m *registration.Manager, r *config.Runner) (string, error) {
			m.Issued = func(r *config.Runner, to config.Token) error {
				return store.Beside(filepath.Join(state, manager.JobsFolder), r.Token, store.Next{Token: to.Token, Obtained: to.Obtained, Expires: to.Expires})
			}
			return "has a new token", m.ResetToken(ctx, r, personal)
		})
	}
	return cmd
}

// each does something to every entry that was chosen, and tells about it. The first failure ends it.
func each(p *command.Program, file *place.File, choice *place.Choice, do func(*registration.Manager, *config.Runner) (string, error)) error {
	c, err := file.Read()
	if err != nil {
		return err
	}
	chosen, err := choice.Of(c.Runners, file.Path())
	if err != nil {
		return err
	}
	if err := choice.One(chosen); err != nil {
		return err
	}
	for _, r := range chosen {
		what := label(r)
		done, err := do(file.Manager(), r)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		p.Tell(what + ": " + done)
	}
	return nil
}
