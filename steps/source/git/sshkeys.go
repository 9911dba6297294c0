package git

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/kevinburke/ssh_config"
	"github.com/skeema/knownhosts"
	sshagent "github.com/xanzy/ssh-agent"
	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/steps/source"
)

// sshSettings are how to get to a host.
type sshSettings struct {
	hostPort string
	user     string
	keys     []string // paths of private keys, which were chosen for this host
	only     bool     // no others
	jump     bool     // the user goes to the host by way of another
}

// readSSHSettings puts together what the address, sources.toml and the user's ~/.ssh/config say, in this order. Of the latter
// HostName, User, Port and IdentityFile are used. Host keys are always checked, whatever it says about that.
func readSSHSettings(a *address, access *source.Access) *sshSettings {
	host, port := a.host, a.port
	s := &sshSettings{user: a.user}
	if s.user == "" {
		s.user = access.Username
	}
	if access.SSHKey != "" {
		s.keys, s.only = []string{access.SSHKey}, true
	}
	for _, config := range sshConfigs() {
		get := func(key string) string {
			value, err := config.Get(a.host, key)
			if err != nil {
				return ""
			}
			return value
		}
		if name := get("HostName"); name != "" && host == a.host && !strings.HasPrefix(name, "-") {
			host = strings.ReplaceAll(name, "%h", a.host)
		}
		if port == "" {
			port = get("Port")
		}
		if s.user == "" {
			s.user = get("User")
		}
		if all, err := config.GetAll(a.host, "IdentityFile"); err == nil && !s.only {
			for _, file := range all {
				s.keys = append(s.keys, inHome(file))
			}
		}
		for _, key := range []string{"ProxyJump", "ProxyCommand"} {
			value := get(key)
			s.jump = s.jump || value != "" && !strings.EqualFold(value, "none")
		}
	}
	if port == "" {
		port = defaultPorts["ssh"]
	}
	if s.user == "" {
		s.user = "git"
	}
	s.hostPort = net.JoinHostPort(host, port)
	return s
}

func sshConfigs() []*ssh_config.Config {
	var found []*ssh_config.Config
	for _, name := range []string{inHome("~/.ssh/config"), filepath.Join(systemSSH(), "ssh_config")} {
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

func systemSSH() string {
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
func (s *sshSettings) explain(err error) error {
	if s.jump {
		return fmt.Errorf("%w (ProxyJump and ProxyCommand in the SSH configuration are not followed)", err)
	}
	return err
}

// keys are the private keys that there are.
type keys struct {
	signers   []ssh.Signer
	tried     []string // where they are from
	encrypted []string // files that need a passphrase
	broken    []string // files that cannot be used, and why
	agent     net.Conn
}

// findKeys gets the keys for a host: the one that was configured; else those of ~/.ssh/config, of the agent and of the files
// that ssh looks for.
func findKeys(s *sshSettings) *keys {
	k := &keys{}
	if !s.only {
		k.addAgent()
	}
	files := s.keys
	if !s.only {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			files = append(files, inHome("~/.ssh/"+name))
		}
	}
	for _, file := range files {
		k.addFile(file, s.only)
	}
	return k
}

func (k *keys) addAgent() {
	if !sshagent.Available() {
		return
	}
	agent, conn, err := sshagent.New()
	if err != nil {
		k.broken = append(k.broken, "the SSH agent cannot be reached")
		return
	}
	k.agent = conn
	signers, err := agent.Signers()
	if err != nil {
		k.broken = append(k.broken, "the SSH agent does not answer")
		return
	}
	k.signers = append(k.signers, signers...)
	k.tried = append(k.tried, fmt.Sprintf("the SSH agent (%d)", len(signers)))
}

func (k *keys) addFile(file string, wanted bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		if wanted || !errors.Is(err, os.ErrNotExist) {
			k.broken = append(k.broken, err.Error())
		}
		return
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		k.encrypted = append(k.encrypted, file)
	case err != nil:
		k.broken = append(k.broken, file+" is not a private key")
	default:
		k.signers = append(k.signers, signer)
		k.tried = append(k.tried, file)
	}
}

func (k *keys) close() {
	if k.agent != nil {
		_ = k.agent.Close()
	}
}

// methods returns all keys as one way to get in, because ssh tries each way once.
func (k *keys) methods(a *address, access *source.Access) []ssh.AuthMethod {
	methods := []ssh.AuthMethod{ssh.PublicKeys(k.signers...)}
	if password := access.Password; password != "" {
		methods = append(methods, ssh.Password(password))
	} else if a.password != "" {
		methods = append(methods, ssh.Password(a.password))
	}
	return methods
}

// hint says which keys were tried, and what keeps others from being used.
func (k *keys) hint() string {
	hint := "there is no key: ssh-keygen makes one, and the host has to know it"
	if len(k.tried) > 0 {
		hint = "tried " + strings.Join(k.tried, ", ")
	}
	if len(k.encrypted) > 0 {
		hint += "; " + strings.Join(k.encrypted, ", ") + " needs a passphrase: add it to the SSH agent with ssh-add"
	}
	if len(k.broken) > 0 {
		hint += "; " + strings.Join(k.broken, ", ")
	}
	return hint
}

// hostKeys are the keys that hosts are known by.
type hostKeys struct {
	hostPort string
	db       *knownhosts.HostKeyDB
	files    []string
	refused  *accessError // why check said no
}

func newHostKeys(s *sshSettings, access *source.Access) (*hostKeys, error) {
	h := &hostKeys{hostPort: s.hostPort, files: access.KnownHosts}
	if h.files == nil {
		h.files = []string{inHome("~/.ssh/known_hosts"), inHome("~/.ssh/known_hosts2"), filepath.Join(systemSSH(), "ssh_known_hosts")}
	}
	var there []string
	for _, file := range h.files {
		if isFile(file) {
			there = append(there, file)
		}
	}
	db, err := knownhosts.NewDB(there...)
	if err != nil {
		return nil, &accessError{"the list of known hosts cannot be read: " + err.Error(), ""}
	}
	h.db = db
	return h, nil
}

// algorithms returns the kinds of key that the host is known by, so that it shows one of those.
func (h *hostKeys) algorithms() []string { return h.db.HostKeyAlgorithms(h.hostPort) }

func (h *hostKeys) check(host string, remote net.Addr, key ssh.PublicKey) error {
	err := h.db.HostKeyCallback()(host, remote, key)
	switch {
	case err == nil:
		return nil
	case knownhosts.IsHostKeyChanged(err):
		h.refused = &accessError{
			fmt.Sprintf("the key of %s has changed: it shows %s %s. Somebody may be between you and the host", h.hostPort, key.Type(), ssh.FingerprintSHA256(key)),
			"if the host really has a new key, remove the old one from " + h.files[0] + " and add the new one",
		}
	case knownhosts.IsHostUnknown(err):
		name, port, _ := net.SplitHostPort(h.hostPort)
		h.refused = &accessError{
			fmt.Sprintf("the host %s is not known; its key is %s %s", h.hostPort, key.Type(), ssh.FingerprintSHA256(key)),
			fmt.Sprintf("if that is the host's key: ssh-keyscan -p %s %s >> %s", port, name, h.files[0]),
		}
	default:
		h.refused = &accessError{fmt.Sprintf("the key of %s cannot be accepted: %v", h.hostPort, err), ""}
	}
	return err
}
