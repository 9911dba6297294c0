//go:build unix

package hosttest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// SSHD is OpenSSH's server on a port of its own on this machine, for this user, with keys and a home folder that are thrown away. Each
// connection is a process of its own, so that a test can break or stop it.
type SSHD struct {
	Address    string // user@127.0.0.1:port
	Key        string // the file of a private key that may log in
	KnownHosts string // a file that knows the server
	Home       string // the home folder of commands
	HostKey    ssh.PublicKey

	t        testing.TB
	program  string
	config   string
	listener net.Listener

	mu        sync.Mutex
	away      bool // connections are refused
	accepted  int
	processes map[*exec.Cmd]bool
	log       bytes.Buffer
}

// StartSSHD starts a server with more lines for its sshd_config, and stops it when the test ends. It skips the test if there is none.
func StartSSHD(t testing.TB, config ...string) *SSHD {
	t.Helper()
	program := enginetest.Program(t, "sshd")
	if os.Geteuid() == 0 { // its folder for unprivileged work, which a system makes when it starts the service
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	s := &SSHD{t: t, program: program, Home: filepath.Join(dir, "home"), processes: map[*exec.Cmd]bool{}}
	hostKey := filepath.Join(dir, "host_key")
	s.HostKey = WriteKey(t, hostKey)
	s.Key = filepath.Join(dir, "key")
	authorized := ssh.MarshalAuthorizedKey(WriteKey(t, s.Key))
	if err := errors.Join(os.Mkdir(s.Home, 0o700), os.WriteFile(filepath.Join(dir, "authorized_keys"), authorized, 0o600)); err != nil {
		t.Fatal(err)
	}
	lines := append(config, // the first value of each keyword counts
		"HostKey "+hostKey, "AuthorizedKeysFile "+filepath.Join(dir, "authorized_keys"), "StrictModes no", "UsePAM no", "PasswordAuthentication no",
		"PermitRootLogin yes", "PidFile none", "SetEnv HOME="+s.Home+" GORACE=atexit_sleep_ms=0", "LogLevel VERBOSE", "PermitUserRC no",
	)
	s.config = filepath.Join(dir, "sshd_config")
	if err := os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	s.Address = me.Username + "@127.0.0.1:" + port
	s.KnownHosts = filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(s.KnownHosts, fmt.Appendf(nil, "[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(s.HostKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop()
		s.endPrograms()
	})
	go s.serve()
	return s
}

// WriteKey makes a private key and writes it to a file, as ssh-keygen does.
func WriteKey(t testing.TB, file string) ssh.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err := errors.Join(err, os.WriteFile(file, pem.EncodeToMemory(block), 0o600)); err != nil {
		t.Fatal(err)
	}
	return key
}

// endPrograms ends the programs that were brought to the server's home and still run: on a machine that is lost, nobody else does.
func (s *SSHD) endPrograms() {
	programs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range programs {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if program, err := os.Readlink(link); err == nil && strings.HasPrefix(program, s.Home+string(filepath.Separator)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// serve starts a server process for each connection, as inetd does.
func (s *SSHD) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if err := s.start(conn.(*net.TCPConn)); err != nil {
			s.t.Errorf("starting %s: %v", s.program, err)
		}
		_ = conn.Close()
	}
}

func (s *SSHD) start(conn *net.TCPConn) error {
	file, err := conn.File()
	if err != nil {
		return err
	}
	defer file.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil
	}
	cmd := exec.Command(s.program, "-i", "-e", "-f", s.config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, (*sshdLog)(s)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.accepted++
	s.processes[cmd] = true
	go func() {
		_ = cmd.Wait()
		s.mu.Lock()
		delete(s.processes, cmd)
		s.mu.Unlock()
	}()
	return nil
}

// sshdLog is what the server's processes log.
type sshdLog SSHD

func (l *sshdLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

// Accepted is how many connections there have been.
func (s *SSHD) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Away makes the server refuse connections, or take them again.
func (s *SSHD) Away(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// Cut kills the server's processes for all connections. The commands that they have started live on.
func (s *SSHD) Cut() { s.signal(syscall.SIGKILL) }

// Freeze stops the server's processes, so that connections are open and nobody answers.
func (s *SSHD) Freeze() { s.signal(syscall.SIGSTOP) }

// Losses are ways to lose the machine of a server, by what happens.
var Losses = map[string]func(*SSHD){
	"its connections break": func(s *SSHD) { s.Away(true); s.Cut() },
	"it does not answer":    func(s *SSHD) { s.Away(true); s.Freeze() },
}

// Return ends what Losses began.
func (s *SSHD) Return() {
	s.Cut()
	s.Away(false)
}

// signal sends a signal to the groups of the server's processes; commands have groups of their own.
func (s *SSHD) signal(signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cmd := range s.processes {
		_ = syscall.Kill(-cmd.Process.Pid, signal)
	}
}

func (s *SSHD) stop() {
	_ = s.listener.Close()
	s.Away(true)
	s.Cut()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.t.Failed() {
		s.t.Logf("the log of sshd:\n%s", s.log.String())
	}
}
