//go:build unix

package dockermachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// This stands in for docker-machine: the commands and flags of its documentation that may be of use here, and its driver "generic", whose machines are
// SSH servers that are there already. What the documentation does not have is refused.
//
// Files in the store say what is to go wrong: hold (creates wait while it is there), refuse-create, refuse-rm, refuse-ls, stopped (the state of all machines).

// flags are those of each command, and whether they take a value.
var flags = map[string]map[string]bool{
	"":        {"storage-path": true, "s": true, "debug": false, "D": false, "native-ssh": false, "github-api-token": true, "bugsnag-api-token": true},
	"create":  {"driver": true, "d": true, "engine-install-url": true, "engine-opt": true, "engine-storage-driver": true, "engine-registry-mirror": true, "engine-insecure-registry": true, "tls-san": true},
	"generic": {"generic-engine-port": true, "generic-ip-address": true, "generic-ssh-key": true, "generic-ssh-port": true, "generic-ssh-user": true},
	"ls":      {"quiet": false, "q": false, "filter": true, "timeout": true, "t": true, "format": true, "f": true},
	"inspect": {"format": true, "f": true},
	"rm":      {"force": false, "f": false, "y": false},
	"status":  {},
	"config":  {"swarm": false, "x": false},
	"env":     {"swarm": false, "shell": true, "unset": false, "u": false, "no-proxy": false},
	"ssh":     {},
	"url":     {},
	"ip":      {},
	"version": {},
}

// standIn is the program.
type standIn struct {
	store string
	flags map[string]string
	args  []string
}

// stand runs it and returns its exit code.
func stand(args []string, stdout, stderr io.Writer) int {
	s := &standIn{store: os.Getenv("MACHINE_STORAGE_PATH"), flags: map[string]string{}}
	if os.Getenv("MACHINE_BUGSNAG_API_TOKEN") != "no-report" {
		fmt.Fprintln(stderr, "reports of errors, with all flags, would be sent")
		return 1
	}
	args, err := s.parse(args, "")
	if err == nil && len(args) == 0 {
		err = errors.New("there is no command")
	}
	if err == nil {
		command := args[0]
		if _, known := flags[command]; !known || command == "generic" {
			err = fmt.Errorf("the command %q is not documented", command)
		} else if s.args, err = s.parse(args[1:], command, "generic"); err == nil {
			err = s.do(command, stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// parse takes flags from the beginning of arguments, and returns what follows.
func (s *standIn) parse(args []string, known ...string) ([]string, error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		args = args[1:]
		takes, documented := false, false
		for _, group := range known {
			if t, is := flags[group][name]; is {
				takes, documented = t, true
			}
		}
		switch {
		case !documented:
			return nil, fmt.Errorf("flag provided but not defined: -%s", name)
		case takes && !given && len(args) == 0:
			return nil, fmt.Errorf("flag needs an argument: -%s", name)
		case takes && !given:
			value, args = args[0], args[1:]
		case !takes && given:
			return nil, fmt.Errorf("flag -%s takes no value", name)
		}
		s.flags[name] = value
	}
	return args, nil
}

// host is what the store has of a machine, as config.json.
type host struct {
	ConfigVersion int
	Driver        struct {
		IPAddress, MachineName, SSHUser, SSHKeyPath, StorePath string
		SSHPort                                                int
	}
	DriverName, Name string
}

func (s *standIn) dir(name string) string { return filepath.Join(s.store, "machines", name) }

func (s *standIn) told(name string) bool {
	_, err := os.Stat(filepath.Join(s.store, name))
	return err == nil
}

// machine is the one that the command is about.
func (s *standIn) machine() (h host, err error) {
	if len(s.args) != 1 {
		return h, fmt.Errorf("expected one machine name as an argument, not %q", s.args)
	}
	text, err := os.ReadFile(filepath.Join(s.dir(s.args[0]), "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("Docker machine %q does not exist. Use \"docker-machine ls\" to list machines. Use \"docker-machine create\" to add a new one.", s.args[0])
	}
	return h, errors.Join(err, json.Unmarshal(text, &h))
}

func (s *standIn) do(command string, stdout io.Writer) error {
	switch command {
	case "create":
		return s.create()
	case "ls":
		return s.ls(stdout)
	}
	h, err := s.machine()
	if _, force := s.flags["force"]; force && command == "rm" && len(s.args) == 1 {
		return os.RemoveAll(s.dir(s.args[0]))
	}
	if err != nil {
		return err
	}
	switch command {
	case "inspect":
		e := json.NewEncoder(stdout)
		e.SetIndent("", "    ")
		return e.Encode(h)
	case "status":
		state := "Running"
		if s.told("stopped") {
			state = "Stopped"
		}
		fmt.Fprintln(stdout, state)
	case "ip":
		fmt.Fprintln(stdout, h.Driver.IPAddress)
	case "url":
		fmt.Fprintf(stdout, "tcp://%s:2376\n", h.Driver.IPAddress)
	case "rm":
		if _, yes := s.flags["y"]; !yes {
			return errors.New("it asks, and nobody answers")
		}
		if s.told("refuse-rm") {
			return errors.New("Error removing host: the cloud is away")
		}
		return os.RemoveAll(s.dir(h.Name))
	default:
		return fmt.Errorf("the stand-in does not do %s", command)
	}
	return nil
}

// create makes a machine: docker-machine writes its configuration before it begins, and again when it has ended.
func (s *standIn) create() error {
	if len(s.args) != 1 {
		return fmt.Errorf("invalid command line. Found extra arguments %q", s.args)
	}
	driver := s.flags["driver"] + s.flags["d"]
	if driver != "generic" {
		return fmt.Errorf("driver %q not found. Do you have the plugin binary \"docker-machine-driver-%s\" accessible in your PATH?", driver, driver)
	}
	if s.flags["generic-ip-address"] == "" {
		return errors.New("generic driver requires the --generic-ip-address option")
	}
	h := host{ConfigVersion: 3, DriverName: driver, Name: s.args[0]}
	dir := s.dir(h.Name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("Docker machine %q already exists", h.Name)
	}
	if err := s.write(h); err != nil {
		return err
	}
	for s.told("hold") {
		time.Sleep(5 * time.Millisecond)
	}
	if s.told("refuse-create") {
		return errors.New("Error creating machine: Error in driver during machine creation: the cloud has no room")
	}
	key, err := os.ReadFile(s.flags["generic-ssh-key"])
	if err != nil {
		return err
	}
	h.Driver.IPAddress, h.Driver.MachineName, h.Driver.StorePath, h.Driver.SSHUser, h.Driver.SSHPort = s.flags["generic-ip-address"], h.Name, s.store, "root", 22
	if user := s.flags["generic-ssh-user"]; user != "" {
		h.Driver.SSHUser = user
	}
	if port := s.flags["generic-ssh-port"]; port != "" {
		if h.Driver.SSHPort, err = strconv.Atoi(port); err != nil {
			return err
		}
	}
	h.Driver.SSHKeyPath = filepath.Join(dir, "id_rsa")
	return errors.Join(os.WriteFile(h.Driver.SSHKeyPath, key, 0o600), s.write(h))
}

func (s *standIn) write(h host) error {
	text, err := json.Marshal(h)
	file := filepath.Join(s.dir(h.Name), "config.json")
	return errors.Join(err, os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file))
}

func (s *standIn) ls(stdout io.Writer) error {
	_, long := s.flags["quiet"]
	_, short := s.flags["q"]
	switch {
	case s.told("refuse-ls"):
		return errors.New("the store cannot be read")
	case !long && !short || len(s.args) > 0:
		return errors.New("the stand-in lists names alone")
	}
	entries, err := os.ReadDir(filepath.Join(s.store, "machines"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		fmt.Fprintln(stdout, e.Name())
	}
	return nil
}
