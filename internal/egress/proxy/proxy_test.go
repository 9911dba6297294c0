package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rungci/rung/internal/egress"
	"github.com/rungci/rung/internal/egress/proxy"
)

// serve serves a proxy whose every connection leads to one server, and returns its address and the addresses that it connected to.
func serve(t *testing.T, policy string, p *proxy.Proxy) (at *url.URL, reached func() []string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "host %s, agent %q", r.Host, r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(server.Close)
	var all atomic.Pointer[[]string]
	all.Store(&[]string{})
	var err error
	if p.Policy, err = egress.Parse(policy); err != nil {
		t.Fatal(err)
	}
	p.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		list := append(*all.Load(), to.String())
		all.Store(&list)
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	if p.Resolve == nil {
		p.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
			addresses, known := names[host]
			if !known {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return addresses, nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { _ = p.Serve(l) }()
	return &url.URL{Scheme: "http", Host: l.Addr().String()}, func() []string { return *all.Load() }
}

var names = map[string][]netip.Addr{
	"public.example.com":   {netip.MustParseAddr("8.8.8.8")},
	"private.example.com":  {netip.MustParseAddr("10.0.0.1")},
	"metadata.example.com": {netip.MustParseAddr("::ffff:169.254.169.254")},
	"mixed.example.com":    {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("9.9.9.9")},
	"own.example.com":      {netip.MustParseAddr("8.8.4.4")},
	"localhost":            {netip.MustParseAddr("127.0.0.1")},
}

func TestWhatThePolicyLetsThroughIsReached(t *testing.T) {
	for _, c := range []struct{ policy, to, reached string }{
		{"public", "public.example.com:80", "8.8.8.8:80"},
		{"public", "8.8.8.8:443", "8.8.8.8:443"},
		{"public", "mixed.example.com:80", "9.9.9.9:80"},
		{"public", "private.example.com:80", ""},
		{"public", "metadata.example.com:80", ""},
		{"public", "own.example.com:80", ""},
		{"public,8.8.4.4", "own.example.com:80", "8.8.4.4:80"},
		{"public", "localhost:80", ""},
		{"public", "169.254.169.254:80", ""},
		{"public", "[::ffff:169.254.169.254]:80", ""},
		{"public", "[::1]:80", ""},
		{"public", "0x7f000001:80", ""},
		{"public", "2130706433:80", ""},
		{"public", "127.1:80", ""},
		{"public", "public.example.com:0", ""},
		{"public", "public.example.com:99999", ""},
		{"public", "nowhere.example.com:80", ""},
		{"*.example.com:80", "public.example.com:80", "8.8.8.8:80"},
		{"*.example.com:80", "public.example.com:22", ""},
		{"*.example.com", "private.example.com:80", ""},
		{"*.example.com,10.0.0.0/8", "private.example.com:80", "10.0.0.1:80"},
		{"other.example.com", "public.example.com:80", ""},
		{"public.example.com", "8.8.8.8:80", ""},
		{"none", "public.example.com:80", ""},
	} {
		for _, method := range []string{http.MethodConnect, http.MethodGet} {
			at, reached := serve(t, c.policy, &proxy.Proxy{Own: []netip.Addr{netip.MustParseAddr("8.8.4.4")}})
			conn, err := net.Dial("tcp", at.Host)
			if err != nil {
				t.Fatal(err)
			}
			if method == http.MethodConnect {
				fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", c.to, c.to)
			} else {
				fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: public.example.com\r\n\r\n", c.to)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(reached(), " "); got != c.reached || (answer.StatusCode == http.StatusOK) != (c.reached != "") {
				t.Errorf("%s, %s %s: %s, and it connects to %q", c.policy, method, c.to, answer.Status, got)
			}
			conn.Close()
		}
	}
}

func TestANameThatChangesItsAddressIsNoWayAround(t *testing.T) {
	var asked atomic.Int32
	at, reached := serve(t, "public", &proxy.Proxy{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		if asked.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}})
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at)}}
	for range 3 {
		client.CloseIdleConnections()
		answer, err := client.Get(fmt.Sprintf("http://rebound.example.com:%d/", 80+asked.Load())) // another port is another connection
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	if got := reached(); len(got) != 1 || got[0] != "8.8.8.8:80" {
		t.Errorf("it connects to %s", got)
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	at, _ := serve(t, "public", &proxy.Proxy{})
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at)}}
	answer, err := client.Get("http://private.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusForbidden || !strings.Contains(string(text), `10.0.0.1 is not public (a private network), and the network policy "public" does not list it`) {
		t.Errorf("%s: %s", answer.Status, text)
	}
}

func TestTheServerLearnsTheHostOfTheAddress(t *testing.T) {
	at, _ := serve(t, "public", &proxy.Proxy{})
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET http://public.example.com/ HTTP/1.1\r\nHost: other.example.com\r\nProxy-Authorization: Basic eDp5\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	if string(text) != `host public.example.com, agent ""` {
		t.Errorf("%s", text)
	}
}

func TestBothSidesOfATunnelEndByThemselves(t *testing.T) {
	at, _ := serve(t, "public", &proxy.Proxy{})
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// What follows the header at once belongs to the tunnel.
	fmt.Fprint(conn, "CONNECT public.example.com:80 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: inner\r\nConnection: close\r\n\r\n")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200 Connection established\r\n\r\n") || !strings.Contains(string(text), "host inner") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestWhatIsNoRequestForAProxyIsRefused(t *testing.T) {
	at, reached := serve(t, "public", &proxy.Proxy{})
	for _, line := range []string{"GET / HTTP/1.1", "GET https://public.example.com/ HTTP/1.1", "GET ftp://public.example.com/ HTTP/1.1", "CONNECT public.example.com HTTP/1.1", "nonsense"} {
		conn, err := net.Dial("tcp", at.Host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\r\nHost: public.example.com\r\n\r\n", line)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode < 400 || len(reached()) > 0 {
			t.Errorf("%s: %v %v, and it connects to %s", line, answer, err, reached())
		}
		conn.Close()
	}
}

func TestTheProxyListensInOneNetwork(t *testing.T) {
	l, err := proxy.ListenIn(netip.MustParsePrefix("127.0.0.0/8"))
	if err != nil {
		t.Skip(err) // the port is taken
	}
	defer l.Close()
	if host, _, _ := net.SplitHostPort(l.Addr().String()); host != "127.0.0.1" {
		t.Error(l.Addr())
	}
	if l, err := proxy.ListenIn(netip.MustParsePrefix("198.51.100.0/24")); err == nil {
		l.Close()
		t.Error("it listens where it has no address")
	}
}
