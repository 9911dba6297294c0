package static_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/static"
)

// machine is OpenSSH's server in a network namespace of its own, which is there as long as the server: another machine, as far as a network can tell.
func machine(t *testing.T, number int) static.Host {
	t.Helper()
	program := enginetest.Program(t, "sshd")
	dir := t.TempDir()
	hostKey, key := filepath.Join(dir, "host_key"), filepath.Join(dir, "key")
	public := hosttest.WriteKey(t, hostKey)
	authorized := filepath.Join(dir, "authorized_keys")
	config := filepath.Join(dir, "sshd_config")
	lines := []string{
		"Port 22", "HostKey " + hostKey, "AuthorizedKeysFile " + authorized, "StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes",
		"PidFile none", "PermitUserRC no",
	}
	for file, text := range map[string][]byte{authorized: xssh.MarshalAuthorizedKey(hosttest.WriteKey(t, key)), config: []byte(strings.Join(lines, "\n") + "\n")} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `read ready && exec "$0" -D -e -f "$1"`, program, config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stderr = &log
	begin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the log of sshd:\n%s", log.String())
		}
	})
	pid := strconv.Itoa(cmd.Process.Pid)
	link := fmt.Sprintf("rs%d", cmd.Process.Pid)
	ours := fmt.Sprintf("198.18.%d.%d/30", os.Getpid()%250, 4*number+1)
	theirs := fmt.Sprintf("198.18.%d.%d", os.Getpid()%250, 4*number+2)
	within := []string{"nsenter", "-t", pid, "-n", "ip"}
	for _, args := range [][]string{
		{"ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid},
		{"ip", "addr", "add", ours, "dev", link},
		{"ip", "link", "set", link, "up"},
		append(within, "addr", "add", theirs+"/30", "dev", "eth0"),
		append(within, "link", "set", "eth0", "up"),
		append(within, "link", "set", "lo", "up"),
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	if _, err := io.WriteString(begin, "ready\n"); err != nil {
		t.Fatal(err)
	}
	return static.Host{Name: fmt.Sprint("machine", number), Address: theirs, User: "root", KeyFile: key, HostKey: xssh.FingerprintSHA256(public)}
}

func TestHostsOfAListAreOtherMachines(t *testing.T) {
	enginetest.Program(t, "ip")
	enginetest.Program(t, "nsenter")
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root, who makes networks")
	}
	one, two := machine(t, 1), machine(t, 2)
	g := open(t, t.TempDir(), static.Options{Hosts: []static.Host{one, two}, Reset: "! test -e /nowhere"})
	addresses := map[string]bool{}
	var ids []string
	for n := range 2 {
		id := take(t, g, group.Request{ID: fmt.Sprint("r", n), Count: 1})
		ids = append(ids, id)
		h := connect(t, g, id)
		addresses[strings.TrimSpace(run(t, h, `echo "$SSH_CONNECTION" | cut -d" " -f3`))] = true
		for _, other := range []static.Host{one, two} {
			if conn, err := h.Dial(t.Context(), "tcp", net.JoinHostPort(other.Address, "22")); (err == nil) != strings.HasPrefix(id, other.Name) {
				t.Errorf("%s reaches %s: %v", id, other.Name, err)
			} else if err == nil {
				conn.Close()
			}
		}
	}
	if !addresses[one.Address] || !addresses[two.Address] {
		t.Errorf("the machines have the addresses %v", addresses)
	}
	if _, err := g.Delete(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	eventually(t, "they are free again", func() bool { return len(listed(t, g)) == 0 })
}
