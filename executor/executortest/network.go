package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
)

// World is where a level is tried that its jobs reach others from. Everything in it answers HTTP at port 80 with "reached ADDRESS", and is a name
// server at port 53.
type World struct {
	Level Level
	// At are addresses and names, by what they are: "public", "public-name", "private", "private-name", "metadata" and so on. Those of IPv6 are
	// in brackets, and there where the machine has them: "private6".
	At map[string]string
	// Rebind is a name that leads to the addresses "public" and "metadata" by turns. The name servers of the level know it.
	Rebind string
	// Four says that jobs without a policy have no IPv6.
	Four bool
}

// ways are the commands by which the page of a server is asked for, at its name or address and its port, and a name server at its own.
const ways = `proxy=${http_proxy#http://}
forwarded() { [ ! "$proxy" ] || { printf "GET http://$1:$2/ HTTP/1.0\r\n\r\n"; sleep 5; } | timeout 10 nc ${proxy%:*} ${proxy#*:}; }
tunnelled() { [ ! "$proxy" ] || { printf "CONNECT $1:$2 HTTP/1.1\r\nHost: $1:$2\r\n\r\n"; printf 'GET / HTTP/1.0\r\n\r\n'; sleep 5; } | timeout 10 nc ${proxy%:*} ${proxy#*:}; }
straight() { printf 'GET / HTTP/1.0\r\n\r\n' | timeout 4 nc -w 3 $1 $2; }
datagram() { timeout 4 nslookup -type=a -port=$2 some.example.com $1; }
try() {
  bare=${2#[}; bare=${bare%]}
  { forwarded $2 $3 | grep -q ^reached && echo $1=forwarded; } & { tunnelled $2 $3 | grep -q ^reached && echo $1=tunnelled; } & { straight $bare $3 | grep -q ^reached && echo $1=straight; } &
  case $1 in *-name) ;; *) { datagram $bare $4 | grep -q "^Name\|NXDOMAIN" && echo $1=datagram; } & esac
}
`

// Network tries what a hostile job reaches of a world, and of this machine, under each network policy, with programs that use its proxy and with programs that do not.
func Network(t *testing.T, w World) {
	host, port := beside(t)
	cases := map[executor.NetworkPolicy][]string{
		executor.NetworkDefault:                                     nil, // no policy: below
		executor.NetworkNone:                                        nil,
		executor.NetworkPublic:                                      {"public", "public-name"},
		executor.NetworkPolicy(w.At["public-name"] + ":80"):         {"public-name"},
		executor.NetworkPolicy(w.At["public-name"] + ":81"):         nil,
		"*.example.com":                                             {"public-name"},
		executor.NetworkPolicy(w.At["private"]):                     {"private"},
		executor.NetworkPolicy("public," + w.At["private"] + "/32"): {"private", "private-name", "public", "public-name"},
		"0.0.0.0/0": {"private", "public", "shared"},
	}
	if at := w.At["private6"]; at != "" {
		cases[executor.NetworkPolicy(at+":80")] = []string{"private6"}
	}
	for policy, want := range cases {
		t.Run(strings.ReplaceAll(string(policy), ",", " "), func(t *testing.T) { // runsc takes no folder with a comma
			t.Parallel()
			script := ways
			for what, at := range w.At {
				script += fmt.Sprintf("try %s %s 80 53\n", what, at)
			}
			if host != "" {
				script += fmt.Sprintf("try host %s %s %[2]s\n", host, port)
			}
			script += "timeout 10 nslookup some.example.com | grep -q ^Name && echo names=straight &\n"
			if policy != executor.NetworkDefault { // not every level has it
				script += fmt.Sprintf("timeout 4 ping -c 1 -W 2 %s >/dev/null && echo ping=straight &\n", w.At["public"])
			}
			script += "wait\necho tried"
			var expected []string
			for _, what := range want {
				expected = append(expected, what+"=forwarded", what+"=tunnelled")
			}
			if policy == executor.NetworkDefault { // all of this is there to be reached
				expected = []string{"names=straight"}
				for what, at := range w.At {
					if w.Four && strings.HasPrefix(at, "[") {
						continue
					}
					if expected = append(expected, what+"=straight"); !strings.HasSuffix(what, "-name") {
						expected = append(expected, what+"=datagram")
					}
				}
			}
			slices.Sort(expected)
			log := inNetwork(t, w.Level, policy, script)
			got := strings.Fields(log)
			slices.Sort(got)
			if got := slices.DeleteFunc(got, func(word string) bool { return word == "tried" }); !slices.Equal(got, expected) || !strings.Contains(log, "tried") {
				t.Errorf("it reaches %q, want %q", got, expected)
			}
		})
	}
}

// Rebinding tries a name that leads elsewhere each time that it is asked for: what was checked is what is connected to.
func Rebinding(t *testing.T, w World) {
	log := inNetwork(t, w.Level, executor.NetworkPublic, ways+fmt.Sprintf("for n in 1 2 3 4; do forwarded %s 80 & tunnelled %[1]s 80 & done\nwait", w.Rebind))
	if strings.Contains(log, "reached "+w.At["metadata"]) || !strings.Contains(log, "reached "+w.At["public"]) || !strings.Contains(log, w.At["metadata"]+" is never reachable") {
		t.Errorf("it is told:\n%s", log)
	}
}

// Machine tries what a hostile job reaches of the machine that it runs on, at one of its addresses: what its policy lists address by address.
func Machine(t *testing.T, level Level, host string) {
	_, port := beside(t)
	for policy, want := range map[executor.NetworkPolicy]string{
		executor.NetworkDefault: "host=datagram host=straight", executor.NetworkPublic: "", "0.0.0.0/0": "", executor.NetworkPolicy(host + "/24"): "",
		executor.NetworkPolicy(host + ":" + port): "host=forwarded host=tunnelled",
	} {
		t.Run(string(policy), func(t *testing.T) {
			log := strings.Fields(inNetwork(t, level, policy, ways+fmt.Sprintf("try host %s %s %[2]s\nwait", host, port)))
			slices.Sort(log)
			if got := strings.Join(log, " "); got != want {
				t.Errorf("it reaches %q, want %q", got, want)
			}
		})
	}
}

// inNetwork is what a script says in a job with a network policy, with the variables of its environment.
func inNetwork(t *testing.T, level Level, policy executor.NetworkPolicy, script string) string {
	t.Helper()
	e, err := level.New(t.TempDir(), executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	j := level.Job("net")
	j.Network = policy
	env, err := e.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	var out, errs bytes.Buffer
	shell := &executor.Shell{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errs}
	for name, value := range env.Layout().Env {
		shell.Env = append(shell.Env, name+"="+value)
	}
	if _, err := env.Shell(t.Context(), shell); err != nil {
		t.Error(errors.Join(err, errors.New(errs.String())))
	}
	return out.String()
}

// beside serves pages on an address of this machine that is not one of loopback, and at the same port a name server that knows no name; "" where there is
// no such address.
func beside(t *testing.T) (host, port string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range all {
		if its, ok := at.(*net.IPNet); ok && its.IP.To4() != nil && its.IP.IsGlobalUnicast() {
			host = its.IP.String()
			break
		}
	}
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1<<10))
				_, _ = conn.Write([]byte("HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\nreached\n"))
			}()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	names, err := net.ListenPacket("udp4", ":"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { names.Close() })
	go func() {
		for text := make([]byte, 1<<10); ; {
			n, from, err := names.ReadFrom(text)
			if err != nil {
				return
			}
			if n > 3 {
				text[2], text[3] = text[2]|0x80, 3 // an answer: there is no such name
				_, _ = names.WriteTo(text[:n], from)
			}
		}
	}()
	return host, port
}
