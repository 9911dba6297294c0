//go:build unix

package connect_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	gossh "golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/connect"
)

func noProgram(string, string) (string, error) { return "", errors.New("there is none") }

func TestAKeyThatIsInNoFileLogsIn(t *testing.T) {
	s := hosttest.StartSSHD(t)
	key, err := os.ReadFile(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	user, address, _ := strings.Cut(s.Address, "@")
	to := provider.Access{Protocol: provider.SSH, Address: address, User: user, Key: key, HostKey: gossh.FingerprintSHA256(s.HostKey)}
	h, err := connect.Host(t.Context(), to, noProgram)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var out bytes.Buffer
	p, err := h.Exec(t.Context(), &host.Command{Args: []string{"echo", "there"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); code != 0 || err != nil || out.String() != "there\n" {
		t.Errorf("%d, %v, %q", code, err, out.String())
	}
	if strings.Contains(to.String()+h.Name(), "PRIVATE") {
		t.Error("the name of a machine shows its key")
	}
}

func TestAMachineWithAnotherKeyIsNotTrusted(t *testing.T) {
	s := hosttest.StartSSHD(t)
	user, address, _ := strings.Cut(s.Address, "@")
	to := provider.Access{Protocol: provider.SSH, Address: address, User: user, KeyFile: s.Key, HostKey: "SHA256:" + strings.Repeat("A", 43)}
	if h, err := connect.Host(t.Context(), to, noProgram); err == nil {
		h.Close()
		t.Error("it is trusted")
	}
}

func TestThisMachineIsAHost(t *testing.T) {
	h, err := connect.Host(t.Context(), provider.Access{Protocol: provider.Local}, noProgram)
	if err != nil || h.Name() != "local" {
		t.Error(h, err)
	}
	if _, err := connect.Host(t.Context(), provider.Access{Protocol: "telnet", Address: "a"}, noProgram); err == nil {
		t.Error("telnet is a way to a machine")
	}
	for _, protocol := range []string{provider.WinRM, provider.WinRMHTTPS} {
		if err := (provider.Access{Protocol: protocol, Address: "a", User: "u"}).Validate(); err == nil {
			t.Errorf("%s needs no password", protocol)
		}
		to := provider.Access{Protocol: protocol, Address: "127.0.0.1:1", User: "u", Password: "hunter2"}
		if _, err := connect.Host(t.Context(), to, noProgram); err == nil || strings.Contains(err.Error()+to.String(), "hunter2") {
			t.Errorf("%s where nobody listens: %v", protocol, err)
		}
	}
}
