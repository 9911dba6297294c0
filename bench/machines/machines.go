// Package machines serves what stands for the machines of a fleet: SSH servers, each on a port of this machine. They are in a process of their own, so that what they
// take counts for nobody else.
package machines

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/sshd"
)

// Machines are some of them.
type Machines struct {
	Hosts []Host
	// Key is the file of the private key that lets in.
	Key string
	// Process is what serves them.
	Process *os.Process
	// Stop ends them, and waits for that.
	Stop func()
}

// Host is one of them.
type Host struct{ Address, Fingerprint string }

// The flags with which a program serves machines, see Serve.
const (
	Flag           = "machines"
	FlagAuthorized = "authorized"
)

// Start starts so many of them, whose home and temporary files are in a folder, by starting this program with the flags. The caller stops them.
func Start(n int, dir string) (*Machines, error) {
	key, authorized := filepath.Join(dir, "key"), filepath.Join(dir, "authorized")
	if err := writeKey(key, authorized); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-"+Flag, strconv.Itoa(n), "-"+FlagAuthorized, authorized)
	cmd.Env, cmd.Stderr = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &Machines{Key: key, Process: cmd.Process, Stop: sync.OnceFunc(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})}
	if err := json.NewDecoder(out).Decode(&m.Hosts); err != nil {
		m.Stop()
		return nil, fmt.Errorf("starting %d machines: %w", n, err)
	}
	return m, nil
}

// Serve is the process that the machines are in. It says where they are on its standard output, and ends with its input. authorized is a file of the public keys that are
// let in.
func Serve(n int, authorized string) error {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var hosts []Host
	for range n {
		server, err := sshd.NewServer(local.New(), authorized)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		hosts = append(hosts, Host{l.Addr().String(), server.Fingerprint()})
		all.Go(func() { _ = server.Serve(ctx, l) })
	}
	if err := json.NewEncoder(os.Stdout).Encode(hosts); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// writeKey makes a pair of keys: the private one, and a file of those who are let in.
func writeKey(private, authorized string) error {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600); err != nil {
		return err
	}
	const kind = "ssh-ed25519"
	var wire bytes.Buffer // RFC 8709
	for _, part := range [][]byte{[]byte(kind), public} {
		_ = binary.Write(&wire, binary.BigEndian, uint32(len(part)))
		wire.Write(part)
	}
	return os.WriteFile(authorized, []byte(kind+" "+base64.StdEncoding.EncodeToString(wire.Bytes())+"\n"), 0o600)
}
