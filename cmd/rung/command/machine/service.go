package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/account"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/service"
)

func serviceCommand(p *command.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Run the manager as a service of the system",
		Long: `service makes ` + "`rung run`" + ` a service of systemd, launchd or Windows, and starts and stops it. Root has a service of the system, and everybody else
one of their own. It is started with the machine, and again when it ends by itself.`,
		Example: `  sudo rung service install --config /etc/gitlab-runner/config.toml
  sudo rung service start
  rung service status`,
	}
	command.Group(cmd)
	cmd.AddCommand(
		installCommand(p),
		actionCommand(p, "uninstall", "Remove the service", "It does not stop what runs, and leaves the configuration and the state folder as they are.", (*service.Service).Uninstall, "%s is removed"),
		actionCommand(p, "start", "Start the service", "", (*service.Service).Start, "%s is started"),
		actionCommand(p, "stop", "Stop the service",
			"On systemd no more jobs are taken, and it returns when those that run have ended, after two hours at most. Elsewhere the jobs are ended, within shutdown_timeout.",
			(*service.Service).Stop, "%s is stopped"),
		actionCommand(p, "restart", "Stop the service and start it again", "It waits for jobs as stop does.", (*service.Service).Restart, "%s is started again"),
		serviceStatusCommand(p),
	)
	return cmd
}

const serviceCodes = `Exit codes: 0 success · 2 usage · 4 permission denied · 5 internal error, or the machine has no such services · 6 there is no such service`

// serviceFlag is the name that gitlab-runner's commands have for it, too.
func serviceFlag(cmd *cobra.Command, s *service.Service) {
	cmd.Flags().StringVarP(&s.Name, "service", "n", service.DefaultName, "`NAME` of the service")
	s.Own = os.Geteuid() > 0
}

// failure is an error of the system as people read it.
func failure(err error, name string) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return exit.Coded(exit.Denied, "%v", err).Hinted("run it as root, for example with sudo")
	case errors.Is(err, service.ErrNotInstalled):
		return exit.Coded(exit.NotFound, "there is no service %s", name).Hinted("see `rung service install`")
	case errors.Is(err, service.ErrNoSystem):
		return exit.Coded(exit.System, "%v", err).Hinted("start `rung run` from your init system; `rung service install --print systemd` shows which signals to send")
	}
	return exit.Coded(exit.System, "%v", err)
}

func installCommand(p *command.Program) *cobra.Command {
	var s service.Service
	var definition string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Make the manager a service",
		Long: `install makes a service that is started with the machine. It does not start it now. What the service runs is this program, where it is now.

` + serviceCodes,
		Example: `  sudo rung service install
  sudo rung service install --user ci --config /home/ci/config.toml
  rung service install --print systemd > rung.service`,
		Args: command.Arguments(0, 0, "no arguments"),
	}
	file := place.Flag(p, cmd)
	serviceFlag(cmd, &s)
	f := cmd.Flags()
	f.StringVar(&s.State, "state", "", "keep what runs, caches and builds in the folder `DIR` (default: as of run)")
	f.StringVarP(&s.WorkDir, "working-directory", "d", "", "start in the folder `DIR`")
	f.StringVarP(&s.User, "user", "u", "", "run the manager as `USER` instead of root, with that user's configuration")
	f.StringVar(&definition, "print", "", "print the definition for `SYSTEM` and install nothing: systemd, launchd")
	command.Complete(cmd, "print", service.Systemd, service.Launchd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if s.Config, err = configOf(file, s.User); err != nil {
			return err
		}
		if err := absolute(&s); err != nil {
			return err
		}
		if cmd.Flags().Changed("print") {
			if err := command.OneOf("--print", definition, service.Systemd, service.Launchd); err != nil {
				return err
			}
			s.Own = s.Own && s.User == "" // somebody may prepare root's
			text, err := s.Definition(definition)
			if err != nil {
				return exit.Usage("%v", err)
			}
			fmt.Fprint(p.Stdout, text)
			return nil
		}
		if runtime.GOOS == "windows" && s.User != "" {
			return exit.Usage("a service of Windows needs the password of its user").Hinted("install it without --user, and set its account with services.msc")
		}
		if _, err := s.Definition(service.Systemd); err != nil {
			return exit.Usage("%v", err)
		}
		if err := s.Install(); err != nil {
			return failure(err, s.Name)
		}
		p.Tell(fmt.Sprintf("%s is a service, with the configuration %s", s.Name, s.Config))
		p.Tell("start it with `rung service start`")
		return nil
	}
	return cmd
}

// configOf is the configuration of a service that runs as a user: root's cannot be read by others.
func configOf(file *place.File, name string) (string, error) {
	if name == "" || file.Given() {
		return file.Path(), nil
	}
	u, err := account.Find(name)
	if err != nil {
		return "", exit.Usage("there is no user %q on this machine, whose configuration the service could read", name).Hinted("make the user first, or name the file with --config")
	}
	return config.PathIn(u.HomeDir), nil
}

// absolute makes paths absolute: a service has another working directory.
func absolute(s *service.Service) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	s.Executable = own
	for _, path := range []*string{&s.Executable, &s.Config, &s.State, &s.WorkDir} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// actionCommand does something with the service.
func actionCommand(p *command.Program, name, short, more string, do func(*service.Service) error, done string) *cobra.Command {
	var s service.Service
	if more != "" {
		more += "\n\n"
	}
	cmd := &cobra.Command{
		Use:     name,
		Short:   short,
		Long:    name + " does it for the service that `rung service install` made. " + more + serviceCodes,
		Example: "  sudo rung service " + name,
		Args:    command.Arguments(0, 0, "no arguments"),
	}
	serviceFlag(cmd, &s)
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := installed(&s); err != nil {
			return err
		}
		if err := do(&s); err != nil {
			return failure(err, s.Name)
		}
		p.Tell(fmt.Sprintf(done, s.Name))
		return nil
	}
	return cmd
}

// installed is an error if there is no such service.
func installed(s *service.Service) error {
	_, err := s.Running()
	if errors.Is(err, service.ErrNotInstalled) || errors.Is(err, service.ErrNoSystem) {
		return failure(err, s.Name)
	}
	return nil // what else is wrong is said by what follows
}

func serviceStatusCommand(p *command.Program) *cobra.Command {
	var s service.Service
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the service runs",
		Long: `status says whether the service runs. What its manager does is shown by ` + "`rung status`" + `.

Exit codes: 0 it runs · 1 it does not · 2 usage · 5 internal error, or the machine has no such services · 6 there is no such service`,
		Example: `  rung service status`,
		Args:    command.Arguments(0, 0, "no arguments"),
	}
	serviceFlag(cmd, &s)
	cmd.RunE = func(*cobra.Command, []string) error {
		running, err := s.Running()
		if err != nil {
			return failure(err, s.Name)
		}
		if !running {
			return exit.Coded(exit.Different, "the service %s does not run", s.Name).Hinted("see `rung service start`")
		}
		fmt.Fprintf(p.Stdout, "the service %s runs\n", s.Name)
		return nil
	}
	return cmd
}
