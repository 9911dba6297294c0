package engine

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Networks are the calls about networks.
type Networks struct{ client *Client }

// Options of bridges.
const (
	// hidden keeps the engine's machine off its network.
	hidden = "com.docker.network.bridge.inhibit_ipv4"
	// bridgeName is what that machine calls it.
	bridgeName = "com.docker.network.bridge.name"
	mtu        = "com.docker.network.driver.mtu"
)

// Network says how a network is made.
type Network struct {
	Name     string
	Labels   map[string]string
	Internal bool   // it leads nowhere else, not even to the engine's machine
	IPv6     bool   // it has addresses of IPv6, too
	MTU      int    // bytes of its largest packet; 0 is the engine's own
	Bridge   string // the interface of the machine, at most 15 characters; "" is one that the engine names
	// Subnet are its addresses of IPv4; the zero value is for the engine to choose.
	Subnet netip.Prefix
}

// subnet is one range of a network's addresses.
type subnet struct{ Subnet netip.Prefix }

// ipam says which addresses a network has.
type ipam struct{ Config []subnet }

// Create makes a network of the engine's machine and returns its id.
func (c Networks) Create(ctx context.Context, n Network) (id string, err error) {
	body := struct {
		Name, Driver string
		Internal     bool `json:",omitempty"`
		EnableIPv6   bool `json:",omitempty"`
		Labels       map[string]string
		Options      map[string]string `json:",omitempty"`
		IPAM         *ipam             `json:",omitempty"`
	}{n.Name, "bridge", n.Internal, n.IPv6, n.Labels, map[string]string{}, nil}
	if n.Subnet.IsValid() {
		body.IPAM = &ipam{[]subnet{{n.Subnet}}}
	}
	if n.Internal {
		body.Options[hidden] = "true"
	}
	if n.Bridge != "" {
		body.Options[bridgeName] = n.Bridge
	}
	if n.MTU > 0 {
		body.Options[mtu] = strconv.Itoa(n.MTU)
	}
	var made identified
	err = c.client.post(ctx, "/networks/create", nil, body, &made)
	return made.ID, err
}

// NoSubnet reports whether an engine has no addresses left for a network, by the error of Networks.Create: those of a default Docker are enough for some 30.
func NoSubnet(err error) bool {
	return says(err,
		"non-overlapping IPv4 address pool",                  // Docker
		"predefined address pools have been fully subnetted", // Docker since version 25
		"could not find free subnet from subnet pools",       // Podman
	)
}

// SubnetTaken reports whether another network has some of Network.Subnet, by the error of Networks.Create.
func SubnetTaken(err error) bool {
	return !NoSubnet(err) && says(err, "overlap", "is already used on the host") // Docker; Podman
}

// says reports whether an engine refused a call with one of the texts: the status of these errors differs from version to version.
func says(err error, texts ...string) bool {
	if Status(err) == 0 {
		return false
	}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// NetworkState is what is known of a network.
type NetworkState struct {
	Driver string
	IPAM   struct {
		Config []struct{ Subnet, Gateway string }
	}
}

// Inspect returns what is known of a network, by its name or id. The error is http.StatusNotFound where there is none.
func (c Networks) Inspect(ctx context.Context, id string) (*NetworkState, error) {
	found := &NetworkState{}
	return found, c.client.get(ctx, "/networks/"+id, nil, found)
}

// List returns the ids of the networks with a label.
func (c Networks) List(ctx context.Context, label, value string) ([]string, error) {
	var found []identified
	err := c.client.get(ctx, "/networks", labelled(label, value), &found)
	return ids(found), err
}

// Join puts a container on one more network.
func (c Networks) Join(ctx context.Context, network, container string) error {
	body := struct{ Container string }{container}
	return c.client.post(ctx, "/networks/"+network+"/connect", nil, body, nil)
}

// Leave takes a container off a network.
func (c Networks) Leave(ctx context.Context, network, container string) error {
	body := struct {
		Container string
		Force     bool
	}{container, true}
	return c.client.post(ctx, "/networks/"+network+"/disconnect", nil, body, nil)
}

// Remove removes a network. The error is http.StatusForbidden while it is in use.
func (c Networks) Remove(ctx context.Context, id string) error {
	return c.client.remove(ctx, "/networks/"+id, nil)
}
