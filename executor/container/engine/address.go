package engine

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// address is where an engine listens.
type address struct {
	network string // "unix", "tcp"
	place   string // the path of a socket, or host:port
	path    string // in front of those of the API; "" mostly
	secure  bool   // https://
}

// parseHost reads an address as DOCKER_HOST has it.
func parseHost(host string) (address, error) {
	refuse := func(why string) (address, error) {
		return address{}, fmt.Errorf("%q is not the address of an engine: %s", WithoutUser(host), why)
	}
	scheme, rest, found := strings.Cut(host, "://")
	if !found {
		return refuse("write unix:///PATH or tcp://HOST:PORT")
	}
	switch scheme {
	case "unix":
		if rest == "" {
			return refuse("the path of its socket is missing")
		}
		return address{network: "unix", place: rest}, nil
	case "tcp", "http", "https":
		u, err := url.Parse(host)
		switch {
		case err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
			return refuse("write tcp://HOST:PORT")
		case u.User != nil:
			return refuse("engines know no users; they ask for certificates")
		}
		port := u.Port()
		if port == "" {
			port = "2375"
			if scheme == "https" {
				port = "2376"
			}
		}
		return address{
			network: "tcp", place: net.JoinHostPort(u.Hostname(), port), path: strings.TrimRight(u.Path, "/"), secure: scheme == "https",
		}, nil
	case "ssh":
		return refuse("engines are not reached through ssh; forward its socket with ssh -L and name that")
	case "npipe":
		return refuse("engines are not reached through named pipes; let it listen on tcp://127.0.0.1:2375 and name that")
	}
	return refuse(scheme + ":// is unknown; write unix:///PATH or tcp://HOST:PORT")
}

// WithoutUser takes the user, and a password, out of an address.
func WithoutUser(host string) string {
	at := strings.LastIndexByte(host, '@')
	scheme, _, found := strings.Cut(host, "://")
	switch {
	case at < 0 || scheme == "unix":
		return host
	case !found || strings.Contains(scheme, "@"):
		return host[at+1:]
	}
	return scheme + "://" + host[at+1:]
}
