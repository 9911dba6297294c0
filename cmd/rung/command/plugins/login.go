package plugins

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/publish/plugin"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/oci/distribution"
)

// maxPassword bounds what is read as a password, in bytes.
const maxPassword = 64 << 10

func loginCommand(p *command.Program) *cobra.Command {
	var user string
	var stdin, plainHTTP bool
	cmd := &cobra.Command{
		Use:   "login [REGISTRY]",
		Short: "Store a name and a password for a registry",
		Long: `login tries a name and a password at a registry, and stores them as docker login does: with the credential helper that Docker's config.json names, else in that
file. Without REGISTRY it is the one of RUNG_PLUGIN_REGISTRY. All commands here, and jobs, find them where docker login has them as well.

The password is asked for, or read from standard input with --password-stdin; no flag takes it, because other users see the flags of programs.

Exit codes: 0 success · 2 usage · 4 the registry refuses them · 5 internal error or the registry failed · 130 interrupted`,
		Example: `  rung plugin login registry.example.com --username ci
  rung plugin login registry.example.com --username ci --password-stdin < token`,
		Args: command.Arguments(0, 1, ""),
	}
	cmd.Flags().StringVarP(&user, "username", "u", "", "log in as `NAME`")
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "use HTTP without TLS; not needed for a registry on this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		registry := p.Getenv(plugin.RegistryVariable)
		if len(args) > 0 {
			registry = args[0]
		}
		registry, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(registry, "oci://"), "https://"), "/")
		if registry == "" {
			return exit.Usage("REGISTRY is missing").Hinted("write it, or set %s", plugin.RegistryVariable)
		}
		user, password, err := ask(ctx, p, user, stdin)
		if err != nil {
			return err
		}
		at := &source.Location{}
		at.Access.PlainHTTP = plainHTTP
		err = distribution.Login(ctx, distribution.Options{At: at}, registry, user, password)
		var status *download.StatusError
		switch {
		case ctx.Err() != nil:
			return exit.Coded(exit.Interrupted, "interrupted")
		case errors.Is(err, distribution.ErrAnonymous):
			p.Tell("warning: " + registry + " let everybody in, so that the name and the password were not tried")
		case errors.As(err, &status) && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden):
			return exit.Coded(exit.Denied, "%s refuses the name and the password: %v", registry, err)
		case err != nil:
			return exit.Coded(exit.System, "%s: %v", registry, err)
		}
		where, err := finder(p).StoreRegistry(ctx, registry, user, password)
		if err != nil {
			return exit.Coded(exit.System, "%v", err)
		}
		p.Tell("stored in " + where)
		return nil
	}
	return cmd
}

// ask returns a name and a password: those that are given, or what a person types.
func ask(ctx context.Context, p *command.Program, user string, stdin bool) (name, password string, err error) {
	if stdin {
		if user == "" {
			return "", "", exit.Usage("--password-stdin needs --username")
		}
		text, err := io.ReadAll(io.LimitReader(p.Stdin, maxPassword+1))
		if err == nil && len(text) > maxPassword {
			err = exit.Usage("standard input is larger than %d KiB, which no password is", maxPassword>>10)
		}
		password = strings.TrimRight(string(text), "\r\n")
		if err == nil && password == "" {
			err = exit.Usage("standard input is empty, and no password")
		}
		return user, password, err
	}
	terminal, ok := p.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return "", "", exit.Usage("there is no terminal to ask for the password").Hinted("use --username NAME --password-stdin")
	}
	if user == "" {
		fmt.Fprint(p.Stderr, "Enter the user name: ")
		line, err := bufio.NewReader(terminal).ReadString('\n')
		if user = strings.TrimSpace(line); err != nil || user == "" {
			return "", "", cmp.Or(err, error(exit.Usage("there is no user name")))
		}
	}
	password, err = hidden(ctx, p, int(terminal.Fd()))
	return user, password, err
}

// hidden reads what a person types, and does not show it.
func hidden(ctx context.Context, p *command.Program, fd int) (string, error) {
	fmt.Fprint(p.Stderr, "Enter the password (it is not shown): ")
	defer fmt.Fprintln(p.Stderr)
	state, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	answers := make(chan string, 1)
	failed := make(chan error, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		if err != nil {
			failed <- err
			return
		}
		answers <- string(text)
	}()
	select {
	case text := <-answers:
		return text, nil
	case err := <-failed:
		return "", err
	case <-ctx.Done(): // the terminal shows what is typed again
		_ = term.Restore(fd, state)
		return "", exit.Coded(exit.Interrupted, "interrupted")
	}
}
