// Package egress decides what a job may reach beyond its services. It opens nothing: a policy and an address go in, a decision comes out.
//
//	none                                      nothing
//	public                                    every address of the public network
//	gitlab.example.com:443,*.example.org      hosts by name, where their names lead to public addresses
//	10.1.0.0/16:5432,192.168.1.7              addresses that are not public
//	public,10.1.0.0/16                        both
//	all                                       everything
//
// Names are decided on by the addresses that they lead to, at the time of the connection. Some addresses no list opens: those of this
// very machine by another name (loopback, link-local), of many machines at once (multicast), and of clouds' metadata services. The
// addresses that the deciding machine itself has are opened by a list that has them one by one, and by no range.
package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Policy is what may be reached. The zero value is nothing.
type Policy struct {
	all    bool
	public bool
	names  []name
	places []place
}

// name is a host, or with wild all those below it. Port 0 is every port.
type name struct {
	host string // in lower case
	wild bool
	port uint16
}

// place is a range of addresses. Port 0 is every port.
type place struct {
	prefix netip.Prefix
	port   uint16
}

// maxEntries bounds a policy's list.
const maxEntries = 256

// Parse reads a policy: none, all, or a list of public, HOST[:PORT], *.DOMAIN[:PORT], ADDRESS[:PORT] and RANGE[:PORT], separated by commas
// or spaces. Addresses of IPv6 with a port are in brackets. A name without a dot needs a port.
func Parse(text string) (Policy, error) {
	var p Policy
	entries := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
	if len(entries) == 0 {
		return p, errors.New("a network policy is none, public, all, or a list of hosts such as example.com:443,*.example.org,10.1.0.0/16")
	}
	if len(entries) > maxEntries {
		return p, fmt.Errorf("a network policy has at most %d entries, and this one has %d", maxEntries, len(entries))
	}
	for _, entry := range entries {
		if err := p.add(entry); err != nil {
			return Policy{}, err
		}
	}
	if len(entries) > 1 && (p.all || slices.Contains(entries, "none")) {
		return Policy{}, fmt.Errorf("the network policy %q has more beside none or all, which stand alone", text)
	}
	return p, nil
}

func (p *Policy) add(entry string) error {
	switch entry {
	case "none":
		return nil
	case "all":
		p.all = true
		return nil
	case "public":
		p.public = true
		return nil
	}
	host, port, err := split(entry)
	if err != nil {
		return fmt.Errorf("%q in a network policy: %w", entry, err)
	}
	if prefix, ok := parsePrefix(host); ok {
		if class := classOf(prefix.Addr()); class.never && within(prefix, class.prefix) {
			return fmt.Errorf("%q in a network policy: no policy opens %s (%s)", entry, class.prefix, class.what)
		}
		if at := (place{prefix, port}); !slices.Contains(p.places, at) {
			p.places = append(p.places, at)
		}
		return nil
	}
	it := name{host: strings.TrimSuffix(strings.ToLower(host), "."), port: port}
	it.host, it.wild = strings.CutPrefix(it.host, "*.")
	if !isName(it.host) || !strings.Contains(it.host, ".") && (port == 0 || it.wild) {
		return fmt.Errorf("%q in a network policy is neither none, public, all, nor a host, an address or a range, with :PORT or without", entry)
	}
	if !slices.Contains(p.names, it) {
		p.names = append(p.names, it)
	}
	return nil
}

// split takes the port off an entry.
func split(entry string) (host string, port uint16, err error) {
	host = entry
	digits, found := "", false
	switch {
	case strings.HasPrefix(entry, "["):
		host, digits, found = strings.Cut(entry[1:], "]")
		if !found || digits != "" && !strings.HasPrefix(digits, ":") {
			return "", 0, errors.New("write an address of IPv6 with a port as [2001:db8::1]:443")
		}
		digits, found = strings.CutPrefix(digits, ":")
	case strings.Count(entry, ":") == 1:
		host, digits, found = strings.Cut(entry, ":")
	}
	if !found {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q is not a port", digits)
	}
	return host, uint16(n), nil
}

func parsePrefix(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if prefix.Addr().Is4In6() {
			return netip.Prefix{}, false // a range of addresses that no connection has
		}
		return prefix.Masked(), true
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, false
	}
	address = address.Unmap()
	return netip.PrefixFrom(address, address.BitLen()), true
}

// isName reports whether a text can be the name of a host. Names that look like numbers are none: some programs take them for addresses.
func isName(host string) bool {
	const longest, longestLabel = 253, 63
	if host == "" || len(host) > longest {
		return false
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > longestLabel || strings.HasPrefix(label, "-") || strings.ContainsFunc(label, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) {
			return false
		}
	}
	return !isNumber(labels[len(labels)-1])
}

func isNumber(label string) bool {
	_, err := strconv.ParseUint(label, 0, 64)
	return err == nil
}

// String is the policy as Parse reads it.
func (p Policy) String() string {
	if p.all {
		return "all"
	}
	var out []string
	if p.public {
		out = append(out, "public")
	}
	port := func(host string, port uint16) string {
		if port == 0 {
			return host
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return host + ":" + strconv.Itoa(int(port))
	}
	for _, n := range p.names {
		host := n.host
		if n.wild {
			host = "*." + host
		}
		out = append(out, port(host, n.port))
	}
	for _, at := range p.places {
		host := at.prefix.String()
		if at.prefix.IsSingleIP() {
			host = at.prefix.Addr().String()
		}
		out = append(out, port(host, at.port))
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ",")
}

// All reports whether everything may be reached, and None whether nothing may.
func (p Policy) All() bool { return p.all }

// None is described at All.
func (p Policy) None() bool { return !p.all && !p.public && len(p.names)+len(p.places) == 0 }

// And is what both policies let through.
func (p Policy) And(q Policy) Policy {
	if p.all {
		return q
	}
	if q.all {
		return p
	}
	out := Policy{public: p.public && q.public}
	for _, pair := range [][2]Policy{{p, q}, {q, p}} {
		for _, n := range pair[0].names {
			if pair[1].coversName(n) && !slices.Contains(out.names, n) {
				out.names = append(out.names, n)
			}
		}
		for _, at := range pair[0].places {
			if pair[1].coversPlace(at) && !slices.Contains(out.places, at) {
				out.places = append(out.places, at)
			}
		}
	}
	return out
}

// Within reports whether q lets everything through that p does.
func (p Policy) Within(q Policy) bool {
	if q.all || p.all {
		return q.all
	}
	return (!p.public || q.public) &&
		!slices.ContainsFunc(p.names, func(n name) bool { return !q.coversName(n) }) &&
		!slices.ContainsFunc(p.places, func(at place) bool { return !q.coversPlace(at) })
}

func (p Policy) coversName(n name) bool {
	if p.all || p.public { // names lead to public addresses
		return true
	}
	return slices.ContainsFunc(p.names, func(of name) bool {
		return (of.port == 0 || of.port == n.port) && (of == name{n.host, n.wild, of.port} || of.wild && strings.HasSuffix(n.host, "."+of.host))
	})
}

// coversPlace holds one address apart from a range: it may be one that the range does not open.
func (p Policy) coversPlace(at place) bool {
	return p.all || slices.ContainsFunc(p.places, func(of place) bool {
		return (of.port == 0 || of.port == at.port) && of.prefix.IsSingleIP() == at.prefix.IsSingleIP() && within(at.prefix, of.prefix)
	})
}

// within reports whether a range is part of another one.
func within(inner, outer netip.Prefix) bool {
	return inner.Bits() >= outer.Bits() && outer.Contains(inner.Addr())
}

// Names reports whether a connection to a port of a host may be made by the host's name, if the address that it leads to may be
// connected to.
func (p Policy) Names(host string, port uint16) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return isName(host) && p.coversName(name{host: host, port: port})
}

// Check returns why a connection to an address must not be made, or nil. named says that a name has led there which Names allows. own are the
// addresses of the machine that makes the connection, and of those that are as close to the job.
func (p Policy) Check(to netip.AddrPort, named bool, own []netip.Addr) error {
	if p.all {
		return nil
	}
	address, err := plain(to.Addr())
	if err != nil {
		return err
	}
	class := classOf(address)
	if class.never {
		return fmt.Errorf("%s is never reachable: %s", to.Addr(), class.what)
	}
	isOwn := slices.Contains(own, address)
	for _, at := range p.places {
		if (at.port == 0 || at.port == to.Port()) && at.prefix.Contains(address) && (!isOwn || at.prefix.IsSingleIP()) {
			return nil
		}
	}
	switch {
	case isOwn:
		return fmt.Errorf("%s is an address of the machine itself, which the network policy %q does not list", to.Addr(), p)
	case class.what != "":
		return fmt.Errorf("%s is not public (%s), and the network policy %q does not list it", to.Addr(), class.what, p)
	case named || p.public:
		return nil
	}
	return fmt.Errorf("the network policy %q does not list %s", p, to)
}
