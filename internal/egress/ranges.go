package egress

import (
	"fmt"
	"net/netip"
)

// class is what a range of addresses is; the zero value is a public one.
type class struct {
	prefix netip.Prefix
	what   string
	never  bool // no policy opens it
}

// classes are the ranges that are not public, the more particular ones first.
//
// Source: the IANA registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890), and the documents of the clouds.
var classes = []class{
	never("169.254.169.254/32", "the metadata service of clouds"),
	never("100.100.100.200/32", "the metadata service of Alibaba Cloud"),
	never("192.0.0.192/32", "the metadata service of Oracle Cloud"),
	never("168.63.129.16/32", "the host of a machine in Azure"),
	never("fd00:ec2::/32", "services of a machine in AWS, with the metadata of clouds"),
	never("fd20:ce::/32", "the metadata service of Google Cloud"),

	never("0.0.0.0/8", "this host"),
	never("127.0.0.0/8", "loopback"),
	never("169.254.0.0/16", "link-local"),
	never("224.0.0.0/4", "multicast"),
	never("255.255.255.255/32", "broadcast"),
	never("::/127", "this host"),
	never("fe80::/10", "link-local"),
	never("ff00::/8", "multicast"),
	// What leads to addresses of IPv4 by ways that nothing else here sees.
	never("2002::/16", "6to4"),
	never("2001::/32", "Teredo"),
	never("64:ff9b:1::/48", "a translation to IPv4 of some network's own"),

	private("10.0.0.0/8", "a private network"),
	private("172.16.0.0/12", "a private network"),
	private("192.168.0.0/16", "a private network"),
	private("100.64.0.0/10", "a network behind a provider's translation"),
	private("192.0.0.0/24", "for protocols"),
	private("192.0.2.0/24", "for documents"),
	private("198.51.100.0/24", "for documents"),
	private("203.0.113.0/24", "for documents"),
	private("192.88.99.0/24", "relays of 6to4"),
	private("198.18.0.0/15", "for measurements"),
	private("240.0.0.0/4", "reserved"),
	private("fc00::/7", "a private network"),
	private("fec0::/10", "a private network"),
	private("2001::/23", "for protocols"),
	private("2001:db8::/32", "for documents"),
	private("3fff::/20", "for documents"),
}

func never(prefix, what string) class { return class{netip.MustParsePrefix(prefix), what, true} }

func private(prefix, what string) class { return class{netip.MustParsePrefix(prefix), what, false} }

var (
	// global are the addresses of IPv6 that are given to the public network.
	global = netip.MustParsePrefix("2000::/3")
	// translated are those that a translator (RFC 6052) turns into the address of IPv4 in their last four bytes.
	translated = netip.MustParsePrefix("64:ff9b::/96")
	// compatible are those that older systems took for the address of IPv4 in them.
	compatible = netip.MustParsePrefix("::/96")
)

// plain is the address that a connection to this one ends at: that of IPv4 in one of IPv6.
func plain(address netip.Addr) (netip.Addr, error) {
	if address.Zone() != "" {
		return address, fmt.Errorf("%s is an address of one link", address)
	}
	address = address.Unmap()
	if translated.Contains(address) || compatible.Contains(address) {
		bytes := address.As16()
		return netip.AddrFrom4([4]byte(bytes[12:])), nil
	}
	return address, nil
}

// classOf is what an address is.
func classOf(address netip.Addr) class {
	for _, c := range classes {
		if c.prefix.Contains(address) {
			return c
		}
	}
	if address.Is6() && !global.Contains(address) {
		return private("::/0", "outside of what the public network has")
	}
	return class{}
}
