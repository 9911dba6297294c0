//go:build unix

package service_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	system "github.com/kardianos/service"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager/service"
)

var update = flag.Bool("update", false, "write the golden files")

var definitions = map[string]service.Service{
	"plain":   {Executable: "/usr/bin/rung", Config: "/etc/gitlab-runner/config.toml"},
	"options": {Name: "rung-2", Executable: "/opt/rung/rung", Config: "/etc/rung/config.toml", State: "/var/lib/rung", WorkDir: "/srv/ci", User: "ci"},
	"strange": {Executable: "/opt/r ung/rung", Config: `/etc/100%/"a" $HOME\<&>é.toml`, WorkDir: "/srv/100% mine"},
	"own":     {Executable: "/home/me/bin/rung", Config: "/home/me/.gitlab-runner/config.toml", Own: true},
}

func TestDefinitions(t *testing.T) {
	for name, s := range definitions {
		for _, of := range []string{service.Systemd, service.Launchd} {
			t.Run(name+"/"+of, func(t *testing.T) {
				got, err := s.Definition(of)
				if err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name+map[string]string{service.Systemd: ".service", service.Launchd: ".plist"}[of])
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Error(diff)
				}
				if of == service.Launchd {
					wellFormed(t, got)
				}
			})
		}
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSystemdTakesTheUnits(t *testing.T) {
	analyze := enginetest.Program(t, "systemd-analyze")
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range definitions {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s.Executable = filepath.Join(dir, filepath.Base(filepath.Dir(s.Executable))) // systemd looks whether it is there
			if err := os.Symlink(program, s.Executable); err != nil {
				t.Fatal(err)
			}
			if s.User != "" {
				s.User = "daemon" // systemd warns of users who are not there, and of nobody
			}
			s.Own = false // which differs in what systemd on this machine may not have
			text, err := s.Definition(service.Systemd)
			if err != nil {
				t.Fatal(err)
			}
			unit := filepath.Join(dir, "rung-test-"+name+".service")
			if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput()
			if err != nil || strings.Contains(string(out), filepath.Base(unit)+":") {
				t.Errorf("%v\n%s\n%s", err, out, text)
			}
		})
	}
}

func TestWhatNoDefinitionCanHoldIsRefused(t *testing.T) {
	for name, s := range map[string]service.Service{
		"cannot be the name of a service":   {Name: "a/b", Executable: "/rung"},
		"cannot be the name of a user":      {User: "a b", Executable: "/rung"},
		"has a control character":           {Executable: "/rung", Config: "/a\nExecStartPre=/evil"},
		"or {{":                             {Executable: "/rung", Config: "/a/{{Name}}"},
		"is not an absolute path":           {Executable: "rung"},
		"a service of your own runs as you": {Executable: "/rung", Own: true, User: "root"},
	} {
		if _, err := s.Definition(service.Systemd); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// here says that this machine has the system.
type here struct{ system.System }

func (here) Detect() bool { return true }

// systemctl writes down what it is called with. It knows what the service is from its unit, and whether it was started.
const systemctl = `#!/bin/sh
echo "$*" >> "$HOME/calls"
case "$1 $2" in
"start "*) touch "$HOME/started";;
"stop "*) rm "$HOME/started";;
"is-active "*) [ -e "$HOME/started" ] && echo active && exit 0; echo inactive; exit 3;;
"list-unit-files "*) cd "$HOME/.config/systemd/user" && ls;;
esac
exit 0
`

func TestTheLifeOfAServiceOfSystemd(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(home, "systemctl"), []byte(systemctl), 0o700); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range system.AvailableSystems() {
		if s.String() == "linux-systemd" {
			before := system.ChosenSystem()
			system.ChooseSystem(here{s})
			defer system.ChooseSystem(before)
			found = true
		}
	}
	if !found {
		t.Skip("needs Linux, where services are systemd's")
	}
	s := &service.Service{Executable: "/usr/bin/rung", Config: "/home/me/config.toml", Own: true}
	unit := filepath.Join(home, ".config/systemd/user/rung.service")
	is := func(running bool, wrong error) {
		t.Helper()
		if got, err := s.Running(); got != running || !errors.Is(err, wrong) {
			t.Errorf("running is %v, %v; want %v, %v", got, err, running, wrong)
		}
	}
	is(false, service.ErrNotInstalled)
	must(t, s.Install())
	text, err := os.ReadFile(unit)
	if want, _ := s.Definition(service.Systemd); err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, string(text)))
	}
	is(false, nil)
	if err := s.Install(); err == nil || !strings.Contains(err.Error(), unit) {
		t.Error("installed twice:", err)
	}
	must(t, s.Start())
	is(true, nil)
	must(t, s.Stop())
	is(false, nil)
	must(t, s.Uninstall())
	if _, err := os.Stat(unit); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	is(false, service.ErrNotInstalled)
	calls, _ := os.ReadFile(filepath.Join(home, "calls"))
	var changes []string
	for line := range strings.Lines(string(calls)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "is-active") && !strings.HasPrefix(line, "list-unit-files") {
			changes = append(changes, line)
		}
	}
	want := []string{"enable --user rung.service", "daemon-reload --user", "start --user rung.service", "stop --user rung.service", "disable --user rung.service", "daemon-reload --user"}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
