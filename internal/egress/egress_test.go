package egress_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/egress"
)

func parse(t *testing.T, text string) egress.Policy {
	t.Helper()
	p, err := egress.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAnAddressIsReachedByItsClassOrByTheList(t *testing.T) {
	for _, c := range []struct {
		policy, to string
		named, own bool
		ok         bool
	}{
		{policy: "none", to: "8.8.8.8:53"},
		{policy: "public", to: "8.8.8.8:53", ok: true},
		{policy: "public", to: "[2606:4700::1111]:443", ok: true},
		{policy: "public", to: "8.8.8.8:53", own: true},
		{policy: "public,8.8.8.8", to: "8.8.8.8:53", own: true, ok: true},
		{policy: "public,8.8.8.0/24", to: "8.8.8.8:53", own: true},

		// What is not public.
		{policy: "public", to: "10.0.0.1:80"},
		{policy: "public", to: "172.16.0.1:80"},
		{policy: "public", to: "172.31.255.255:80"},
		{policy: "public", to: "172.32.0.1:80", ok: true},
		{policy: "public", to: "192.168.1.1:80"},
		{policy: "public", to: "100.64.0.1:80"},
		{policy: "public", to: "100.127.255.255:80"},
		{policy: "public", to: "198.19.0.1:80"},
		{policy: "public", to: "203.0.113.1:80"},
		{policy: "public", to: "240.0.0.1:80"},
		{policy: "public", to: "[fd00::1]:80"},
		{policy: "public", to: "[fec0::1]:80"},
		{policy: "public", to: "[2001:db8::1]:80"},
		{policy: "public", to: "[100::1]:80"},
		{policy: "public", to: "[4000::1]:80"},

		// What no policy opens.
		{policy: "public,0.0.0.0/0", to: "169.254.169.254:80"},
		{policy: "public,0.0.0.0/0", to: "169.254.170.2:80"},
		{policy: "public,0.0.0.0/0", to: "100.100.100.200:80"},
		{policy: "public,0.0.0.0/0", to: "192.0.0.192:80"},
		{policy: "public,0.0.0.0/0", to: "168.63.129.16:80"},
		{policy: "public,0.0.0.0/0", to: "127.0.0.1:80"},
		{policy: "public,0.0.0.0/0", to: "127.1.2.3:80"},
		{policy: "public,0.0.0.0/0", to: "0.0.0.0:80"},
		{policy: "public,0.0.0.0/0", to: "224.0.0.1:80"},
		{policy: "public,0.0.0.0/0", to: "255.255.255.255:80"},
		{policy: "public,::/0", to: "[::1]:80"},
		{policy: "public,::/0", to: "[::]:80"},
		{policy: "public,::/0", to: "[fe80::1]:80"},
		{policy: "public,::/0", to: "[fe80::1%eth0]:80"},
		{policy: "public,::/0", to: "[ff02::1]:80"},
		{policy: "public,::/0", to: "[fd00:ec2::254]:80"},
		{policy: "public,::/0", to: "[fd20:ce::254]:80"},

		// Addresses of IPv4 in those of IPv6.
		{policy: "public", to: "[::ffff:8.8.8.8]:80", ok: true},
		{policy: "public", to: "[::ffff:169.254.169.254]:80"},
		{policy: "public", to: "[::ffff:10.0.0.1]:80"},
		{policy: "public", to: "[::10.0.0.1]:80"},
		{policy: "public", to: "[64:ff9b::8.8.8.8]:80", ok: true},
		{policy: "public", to: "[64:ff9b::10.0.0.1]:80"},
		{policy: "public", to: "[64:ff9b::8.8.4.4]:80", own: true},
		{policy: "public", to: "[64:ff9b::169.254.169.254]:80"},
		{policy: "public", to: "[64:ff9b:1::8.8.8.8]:80"},
		{policy: "public", to: "[2002:0a00:0001::1]:80"},
		{policy: "public", to: "[2001:0:1::1]:80"},

		// Lists.
		{policy: "10.1.0.0/16", to: "10.1.2.3:5432", ok: true},
		{policy: "10.1.0.0/16:5432", to: "10.1.2.3:5432", ok: true},
		{policy: "10.1.0.0/16:5432", to: "10.1.2.3:22"},
		{policy: "10.1.0.0/16", to: "10.2.0.1:5432"},
		{policy: "10.1.0.0/16", to: "10.1.2.3:5432", own: true},
		{policy: "10.1.2.3", to: "10.1.2.3:5432", own: true, ok: true},
		{policy: "10.1.0.0/16", to: "8.8.8.8:53"},
		{policy: "[fd12::1]:443", to: "[fd12::1]:443", ok: true},
		{policy: "[fd12::/64]:443", to: "[fd12::1]:80"},
		{policy: "example.com", to: "8.8.8.8:443", named: true, ok: true},
		{policy: "example.com", to: "8.8.8.8:443"},
		{policy: "example.com", to: "10.0.0.1:443", named: true},
		{policy: "example.com", to: "169.254.169.254:443", named: true},
		{policy: "example.com,10.0.0.1", to: "10.0.0.1:443", named: true, ok: true},
		{policy: "all", to: "169.254.169.254:80", ok: true},
	} {
		var own []netip.Addr
		if to := netip.MustParseAddrPort(c.to).Addr(); c.own {
			own = []netip.Addr{to, netip.MustParseAddr("8.8.4.4")}
		}
		err := parse(t, c.policy).Check(netip.MustParseAddrPort(c.to), c.named, own)
		if (err == nil) != c.ok {
			t.Errorf("%s to %s (by name %t, own %t): %v", c.policy, c.to, c.named, c.own, err)
		}
	}
}

func TestANameIsReachedIfItIsListed(t *testing.T) {
	for _, c := range []struct {
		policy, host string
		port         uint16
		ok           bool
	}{
		{"example.com", "example.com", 443, true},
		{"example.com", "EXAMPLE.com.", 443, true},
		{"example.com", "www.example.com", 443, false},
		{"example.com", "example.com.evil.org", 443, false},
		{"example.com:443", "example.com", 443, true},
		{"example.com:443", "example.com", 80, false},
		{"*.example.com", "a.b.example.com", 80, true},
		{"*.example.com", "example.com", 80, false},
		{"*.example.com", "notexample.com", 80, false},
		{"public", "anything.org", 80, true},
		{"10.0.0.0/8", "example.com", 80, false},
		{"none", "example.com", 80, false},
		{"public", "2130706433", 80, false},
		{"public", "0x7f.1", 80, false},
		{"public", "127.1", 80, false},
		{"public", "a..b", 80, false},
		{"public", "a\x00.b", 80, false},
		{"public", strings.Repeat("a", 64) + ".com", 80, false},
		{"public", "face.cafe", 80, true},
	} {
		if got := parse(t, c.policy).Names(c.host, c.port); got != c.ok {
			t.Errorf("%s, %q at %d: %t", c.policy, c.host, c.port, got)
		}
	}
}

func TestPoliciesAreCompared(t *testing.T) {
	for _, c := range []struct {
		ask, most string
		within    bool
		and       string
	}{
		{"none", "none", true, "none"},
		{"none", "public", true, "none"},
		{"public", "all", true, "public"},
		{"all", "public", false, "public"},
		{"all", "all", true, "all"},
		{"public", "none", false, "none"},
		{"public", "example.com", false, "example.com"},
		{"example.com", "public", true, "example.com"},
		{"example.com:443", "example.com", true, "example.com:443"},
		{"example.com", "example.com:443", false, "example.com:443"},
		{"a.example.com", "*.example.com", true, "a.example.com"},
		{"*.a.example.com", "*.example.com", true, "*.a.example.com"},
		{"*.example.com", "a.example.com", false, "a.example.com"},
		{"example.com", "*.example.com", false, "none"},
		{"10.1.0.0/16", "10.0.0.0/8", true, "10.1.0.0/16"},
		{"10.0.0.0/8", "10.1.0.0/16", false, "10.1.0.0/16"},
		{"10.0.0.0/8", "public", false, "none"},
		{"10.0.0.1", "10.0.0.0/8", false, "none"}, // it may be the machine's own
		{"10.0.0.1:80", "10.0.0.1", true, "10.0.0.1:80"},
		{"8.8.8.8", "public", false, "none"},
		{"public,10.0.0.0/8", "public,10.0.0.0/8", true, "public,10.0.0.0/8"},
		{"public,10.0.0.0/8", "public", false, "public"},
	} {
		ask, most := parse(t, c.ask), parse(t, c.most)
		if got := ask.Within(most); got != c.within {
			t.Errorf("%s within %s: %t", c.ask, c.most, got)
		}
		if got := ask.And(most).String(); got != c.and {
			t.Errorf("%s and %s: %s, want %s", c.ask, c.most, got, c.and)
		}
	}
}

func TestAPolicyIsReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"none": "none", "all": "all", "public": "public",
		" Example.COM.:443, *.example.org ": "example.com:443,*.example.org",
		"gitlab:443":                        "gitlab:443",
		"10.1.2.3/16":                       "10.1.0.0/16",
		"[2001:db8::1]:443 fd00::/8":        "[2001:db8::1]:443,fd00::/8",
		"::ffff:10.0.0.1":                   "10.0.0.1",
	} {
		if got := parse(t, text).String(); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	for _, text := range []string{
		"", " , ", "host", "pubilc", "none,public", "all,example.com", "example.com:0", "example.com:70000", "example.com:x", "a b", "*", "*.", "*.com:80x", "*.com",
		"http://example.com", "example.com/path", "a*.example.com", "127.0.0.1", "169.254.169.254", "169.254.0.0/16", "[fe80::1]:80", "::1", "fe80::1%eth0",
		"10.0.0.0/33", "1.2.3", "0x7f.1", "::ffff:0:0/96", "[fd00::1]x", "[fd00::1",
	} {
		if p, err := egress.Parse(text); err == nil {
			t.Errorf("%q is read as %s", text, p)
		}
	}
	if _, err := egress.Parse(strings.Repeat("a.example,", 300)); err == nil {
		t.Error("a list without end is taken")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"public", "example.com:443,*.example.org", "10.0.0.0/8:80", "[fd00::/8]:443", "none"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := egress.Parse(text)
		if err != nil {
			return
		}
		again, err := egress.Parse(p.String())
		if err != nil || again.String() != p.String() || !p.Within(again) || p.And(again).String() != p.String() && !p.All() {
			t.Errorf("%q is %s, and that %s: %v", text, p, again, err)
		}
	})
}
