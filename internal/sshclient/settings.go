package sshclient

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/kevinburke/ssh_config"
)

// settings are how to get to a host.
type settings struct {
	hostPort string
	user     string
	keys     []string // paths of private keys, which were chosen for this host
	keyText  []byte   // a key that is in no file
	only     bool     // no others
	jump     string   // jump hosts, with commas; "" is none
	command  bool     // the user goes to the host by way of a ProxyCommand
}

// Resolve fills in a target's port and user from the SSH configuration.
func Resolve(target *Target) (user, port string) {
	s := readSettings(target)
	_, port, _ = net.SplitHostPort(s.hostPort)
	return s.user, port
}

// readSettings puts together what the target and the configuration say, in this order. Of the latter HostName, User, Port,
// IdentityFile and ProxyJump are used. Host keys are always checked, whatever it says about that.
func readSettings(t *Target) *settings {
	host, port := t.Host, t.Port
	s := &settings{user: t.User, jump: t.Jump}
	if t.Key != "" {
		s.keys, s.only = []string{t.Key}, true
	}
	if t.KeyText != nil {
		s.keyText, s.only = t.KeyText, true
	}
	for _, config := range configs(t.Config) {
		get := func(key string) string {
			value, err := config.Get(t.Host, key)
			if err != nil {
				return ""
			}
			return value
		}
		if name := get("HostName"); name != "" && host == t.Host && !strings.HasPrefix(name, "-") {
			host = strings.ReplaceAll(name, "%h", t.Host)
		}
		port = cmp.Or(port, get("Port"))
		s.user = cmp.Or(s.user, get("User"))
		s.jump = cmp.Or(s.jump, get("ProxyJump"))
		if all, err := config.GetAll(t.Host, "IdentityFile"); err == nil && !s.only {
			for _, file := range all {
				s.keys = append(s.keys, inHome(file))
			}
		}
		command := get("ProxyCommand")
		s.command = s.command || command != "" && !strings.EqualFold(command, "none")
	}
	if hop, err := ParseTarget(s.jump); strings.EqualFold(s.jump, "none") || err == nil && hop.Host == t.Host { // nobody jumps to itself
		s.jump = ""
	}
	s.user = cmp.Or(s.user, t.DefaultUser)
	s.hostPort = net.JoinHostPort(host, cmp.Or(port, DefaultPort))
	return s
}

func configs(files []string) []*ssh_config.Config {
	if files == nil {
		files = []string{inHome("~/.ssh/config"), filepath.Join(systemFolder(), "ssh_config")}
	}
	var found []*ssh_config.Config
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if config, err := ssh_config.DecodeBytes(text); err == nil { // one with Match blocks cannot be read
			found = append(found, config)
		}
	}
	return found
}

func systemFolder() string {
	if runtime.GOOS == "windows" {
		return filepath.Join(os.Getenv("ProgramData"), "ssh")
	}
	return "/etc/ssh"
}

// inHome returns a path that may begin with ~/.
func inHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, filepath.FromSlash(rest))
}

// explain adds to a failed connection what may be the reason.
func (s *settings) explain(err error) error {
	if s.command {
		return fmt.Errorf("%w (ProxyCommand in the SSH configuration is not supported; use ProxyJump)", err)
	}
	return err
}
