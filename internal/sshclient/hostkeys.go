package sshclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// hostKeys are the keys that a host is known by.
type hostKeys struct {
	hostPort string
	pin      string // a fingerprint; "" asks db
	record   bool
	any      bool // key is right
	db       *knownhosts.HostKeyDB
	files    []string
	refused  *Error // why check said no
}

func newHostKeys(s *settings, t *Target) (*hostKeys, error) {
	h := &hostKeys{hostPort: s.hostPort, pin: t.Fingerprint, record: t.Record, any: t.AnyHostKey, files: t.KnownHosts}
	if h.files == nil {
		h.files = []string{inHome("~/.ssh/known_hosts"), inHome("~/.ssh/known_hosts2"), filepath.Join(systemFolder(), "ssh_known_hosts")}
	}
	if h.pin != "" || h.any {
		return h, nil
	}
	var existing []string
	for _, file := range h.files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			existing = append(existing, file)
		}
	}
	db, err := knownhosts.NewDB(existing...)
	if err != nil {
		return nil, &Error{"the list of known hosts cannot be read: " + err.Error(), ""}
	}
	h.db = db
	return h, nil
}

// algorithms returns the kinds of key that the host is known by, so that it shows one of those; nil is any.
func (h *hostKeys) algorithms() []string {
	if h.db == nil {
		return nil
	}
	return h.db.HostKeyAlgorithms(h.hostPort)
}

func (h *hostKeys) check(host string, remote net.Addr, key ssh.PublicKey) error {
	shown := key.Type() + " " + ssh.FingerprintSHA256(key)
	if h.pin != "" {
		if slices.Contains(strings.Fields(h.pin), ssh.FingerprintSHA256(key)) {
			return nil
		}
		h.refused = &Error{
			fmt.Sprintf("the host key of %s is not the one that is configured: it shows %s instead of %s. Someone may be intercepting the connection", h.hostPort, shown, h.pin),
			"if the host really has a new key, correct the fingerprint",
		}
		return h.refused
	}
	if h.any {
		return nil
	}
	err := h.db.HostKeyCallback()(host, remote, key)
	switch {
	case err == nil:
		return nil
	case knownhosts.IsHostKeyChanged(err):
		h.refused = &Error{
			fmt.Sprintf("the host key of %s has changed: it shows %s. Someone may be intercepting the connection", h.hostPort, shown),
			"if the host really has a new key, remove the old one from " + h.files[0] + " and add the new one",
		}
	case knownhosts.IsHostUnknown(err) && h.record:
		if err = record(h.files[0], host, remote, key); err == nil {
			return nil
		}
		h.refused = &Error{fmt.Sprintf("the host key of %s cannot be recorded: %v", h.hostPort, err), ""}
	case knownhosts.IsHostUnknown(err):
		name, port, _ := net.SplitHostPort(h.hostPort)
		h.refused = &Error{
			fmt.Sprintf("the host %s is not known; its key is %s", h.hostPort, shown),
			fmt.Sprintf("if that is the host's key: ssh-keyscan -p %s %s >> %s", port, name, h.files[0]),
		}
	default:
		h.refused = &Error{fmt.Sprintf("the host key of %s cannot be accepted: %v", h.hostPort, err), ""}
	}
	return err
}

// recording is held while a key is added, so that lines of several connections do not mix.
var recording sync.Mutex

// record adds the key of a host to a known_hosts file.
func record(file, host string, remote net.Addr, key ssh.PublicKey) error {
	recording.Lock()
	defer recording.Unlock()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(knownhosts.WriteKnownHost(out, host, remote, key), out.Close())
}
