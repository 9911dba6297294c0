// Package service makes the manager a service of the system: of systemd, of launchd or of Windows. How it describes the manager to them is in
// definition.go; installing, starting and asking is kardianos/service's.
package service

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	system "github.com/kardianos/service"
)

// DefaultName is that of the service.
const DefaultName = "rung"

// Service is a manager as a service.
type Service struct {
	Name string // DefaultName if empty
	// Executable is the path of rung.
	Executable string
	// Config, State and WorkDir are absolute paths, or empty for the defaults of `rung run`.
	Config, State, WorkDir string
	// User is who it runs as; empty is root, or for Own the user themself. Windows has none here.
	User string
	// Own makes it a service of the user who installs it, as whom it runs while they are logged in, or lingering.
	Own bool
}

// Systems that definitions are for.
const (
	Systemd = "systemd"
	Launchd = "launchd"
	Windows = "windows"
)

// ErrNoSystem says that there is nothing on this machine that services could be installed into.
var ErrNoSystem = errors.New("this machine has neither systemd nor launchd, nor is it Windows")

// ErrNotInstalled says that there is no service with the name.
var ErrNotInstalled = system.ErrNotInstalled

// Detect says which system this machine has.
func Detect() (string, error) {
	switch found := system.Platform(); {
	case found == "linux-systemd":
		return Systemd, nil
	case found == "darwin-launchd":
		return Launchd, nil
	case strings.HasPrefix(found, "windows"):
		return Windows, nil
	}
	return "", ErrNoSystem
}

var (
	names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)
	users = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?$`)
)

// check refuses what a definition cannot hold.
func (s *Service) check() error {
	s.Name = cmp.Or(s.Name, DefaultName)
	if !names.MatchString(s.Name) {
		return fmt.Errorf("%q cannot be the name of a service: it consists of letters, digits, _ . and -", s.Name)
	}
	if s.User != "" && !users.MatchString(s.User) {
		return fmt.Errorf("%q cannot be the name of a user", s.User)
	}
	if s.User != "" && s.Own {
		return errors.New("a service of your own runs as you: install it as root to have it run as another user")
	}
	for _, path := range []string{s.Executable, s.Config, s.State, s.WorkDir} {
		if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' }) || strings.Contains(path, "{{") {
			return fmt.Errorf("%q cannot be in the definition of a service: it has a control character, or {{", path)
		}
		if path != "" && !filepath.IsAbs(path) {
			return fmt.Errorf("%q is not an absolute path", path)
		}
	}
	return nil
}

// arguments are those of the program.
func (s *Service) arguments() []string {
	args := []string{"run"}
	for _, flag := range [][2]string{{"--config", s.Config}, {"--state", s.State}, {"--working-directory", s.WorkDir}} {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	return args
}

// open is the service as the library has it. Only name, and whose it is, count for what is installed already.
func (s *Service) open() (system.Service, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if _, err := Detect(); err != nil {
		return nil, err
	}
	c := &system.Config{
		Name: s.Name, DisplayName: description, Description: description, Executable: s.Executable, Arguments: s.arguments(), UserName: s.User,
		WorkingDirectory: s.WorkDir, Option: system.KeyValue{"UserService": s.Own, "SystemdScript": s.systemd(), "LaunchdConfig": s.launchd()},
	}
	if runtime.GOOS == "windows" {
		c.Arguments = slices.Concat(c.Arguments, []string{"--service", s.Name}) // which tells `rung run` that it is one
		c.Option = system.KeyValue{"OnFailure": "restart", "OnFailureDelayDuration": "2s", "DelayedAutoStart": true}
	}
	return system.New(nothing{}, c)
}

// Install makes the service, which is started with the machine from then on. It does not start it now.
func (s *Service) Install() error { return s.do(system.Service.Install) }

// Uninstall removes it. What it has in its state folder stays.
func (s *Service) Uninstall() error { return s.do(system.Service.Uninstall) }

// Start starts it.
func (s *Service) Start() error { return s.do(system.Service.Start) }

// Stop stops it as the system's definition says: on systemd, when the jobs that run have ended.
func (s *Service) Stop() error { return s.do(system.Service.Stop) }

// Restart stops and starts it.
func (s *Service) Restart() error { return s.do(system.Service.Restart) }

func (s *Service) do(f func(system.Service) error) error {
	opened, err := s.open()
	if err != nil {
		return err
	}
	if err = f(opened); errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: a service of the system is root's", err)
	}
	return err
}

// Running reports whether it runs. The error is ErrNotInstalled if it is not there.
func (s *Service) Running() (bool, error) {
	opened, err := s.open()
	if err != nil {
		return false, err
	}
	status, err := opened.Status()
	return status == system.StatusRunning, err
}

// nothing is what the library would run here, which is another process.
type nothing struct{}

func (nothing) Start(system.Service) error { return nil }
func (nothing) Stop(system.Service) error  { return nil }
