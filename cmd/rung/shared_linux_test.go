package main

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
)

// TestSharedNamespaces runs the story of two managers in network namespaces of their own, one of which loses its network: GitLab, the store and its machine.
func TestSharedNamespaces(t *testing.T) {
	enginetest.Program(t, "ip")
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root, who makes networks")
	}
	here := fmt.Sprintf("198.19.%d.254", os.Getpid()%250) // of this host, for both
	network(t, "ip address add "+here+"/32 dev lo")
	t.Cleanup(func() { _ = exec.Command("ip", "address", "delete", here+"/32", "dev", "lo").Run() })
	one, two := namespace(t, 1), namespace(t, 2)
	behind := hosttest.StartSSHD(t)
	user, machine, _ := strings.Cut(behind.Address, "@")
	runStories(t, testscript.Params{
		Dir: "testdata/namespaces", Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"link": func(ts *testscript.TestScript, _ bool, args []string) {
				if len(args) != 2 {
					ts.Fatalf("usage: link up|down NAMESPACE")
				}
				ts.Check(exec.Command("ip", "-n", args[1], "link", "set", "eth0", args[0]).Run())
				if args[0] == "up" { // routes go with the link
					ts.Check(exec.Command("ip", "-n", args[1], "route", "replace", "default", "via", gatewayOf(args[1])).Run())
				}
			},
			"gitlab-there": func(ts *testscript.TestScript, _ bool, _ []string) {
				at, err := url.Parse(ts.Getenv("GITLAB"))
				ts.Check(err)
				ts.Setenv("GITLAB", "http://"+newLineOn(t, here, at.Host).address())
			},
		},
	}, map[string]string{
		"ONE": one, "TWO": two, "STORE": startStore(t, here), "SSH_USER": user, "SSH_ADDRESS": newLineOn(t, here, machine).address(), "SSH_KEY": behind.Key,
		"SSH_HOST_KEY": ssh.FingerprintSHA256(behind.HostKey), "STORE_ACCESS": sharedAccess, "STORE_SECRET": sharedSecret,
	})
}

// gatewayOf is this host's address in the network of a namespace.
func gatewayOf(namespace string) string {
	return fmt.Sprintf("198.19.%d.%s", os.Getpid()%250, map[bool]string{true: "1", false: "5"}[strings.HasSuffix(namespace, "-1")])
}

// namespace makes a network namespace from which this host is reached, and returns its name.
func namespace(t *testing.T, number int) string {
	t.Helper()
	name := fmt.Sprintf("rung%d-%d", os.Getpid(), number)
	link, subnet := fmt.Sprintf("rh%d-%d", os.Getpid()%1000000, number), os.Getpid()%250
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	at := 4*(number-1) + 1
	network(t,
		"ip netns add "+name,
		fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s", link, name),
		fmt.Sprintf("ip address add 198.19.%d.%d/30 dev %s", subnet, at, link),
		fmt.Sprintf("ip link set %s up", link),
		fmt.Sprintf("ip -n %s address add 198.19.%d.%d/30 dev eth0", name, subnet, at+1),
		fmt.Sprintf("ip -n %s link set lo up", name),
		fmt.Sprintf("ip -n %s link set eth0 up", name),
		fmt.Sprintf("ip -n %s route replace default via 198.19.%d.%d", name, subnet, at),
	)
	return name
}

func network(t *testing.T, commands ...string) {
	t.Helper()
	for _, line := range commands {
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}
