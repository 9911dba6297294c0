//go:build !linux

package proxy

import "net/netip"

// gateways are the machines by which this one reaches others; they are not known here.
func gateways() []netip.Addr { return nil }
