// Package containers describes what a job requests of its environment: images, services and registries. It is the one vocabulary,
// from the file that a person writes to the executor and the trace.
package containers

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Image is a container image and how to run it.
type Image struct {
	Name       string   `json:"name"`       // as it was asked for
	Entrypoint []string `json:"entrypoint"` // nil is the image's own
	// PullPolicies are always, if-not-present and never, tried in this order; empty is the executor's.
	PullPolicies []string `json:"-"`
	Platform     string   `json:"platform,omitempty"` // "linux/arm64"; empty is the engine's
	User         string   `json:"user,omitempty"`     // empty is the image's
}

// HasDigest reports whether the name of an image ends with a digest: then it always means the same image.
func HasDigest(name string) bool {
	_, digest, _ := strings.Cut(name, "@")
	sum, ok := strings.CutPrefix(digest, "sha256:")
	return ok && len(sum) == 2*sha256.Size && strings.Trim(sum, "0123456789abcdef") == ""
}

// Service is a container beside the job's.
type Service struct {
	Image
	// Aliases are the names under which the job reaches it, beside those made of the image's name.
	Aliases   []string          `json:"aliases,omitempty"`
	Command   []string          `json:"command,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Health says how the service is known to be ready; nil tries its port.
	Health *Health `json:"-"`
	// Ports maps TCP ports of the service to ports on the host's loopback address, for a job on the host itself; 0 is any.
	Ports map[uint16]uint16 `json:"ports,omitempty"`
}

// portVariable names the port of a service that is tried, instead of the lowest one that its image exposes.
const portVariable = "HEALTHCHECK_TCP_PORT"

// NamedPort is the port by which the service, or else its job, says that the service is known to be ready; 0 is none.
func (s *Service) NamedPort(job map[string]string) uint16 {
	return PortNumber(cmp.Or(s.Variables[portVariable], job[portVariable]))
}

// PortNumber reads the number of a port; 0 is none.
func PortNumber(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// TCPPorts are those that an image says it listens on ("80/tcp", "90"), sorted.
func TCPPorts(exposed map[string]struct{}) (ports []uint16) {
	for text := range exposed {
		number, protocol, _ := strings.Cut(text, "/")
		if n := PortNumber(number); n != 0 && (protocol == "" || protocol == "tcp") {
			ports = append(ports, n)
		}
	}
	slices.Sort(ports)
	return ports
}

// Names are those of a service on the network: those of its image, as GitLab makes them, and its own. "host:5000/a/b:1" gives
// host__a__b and host-a-b.
func (s *Service) Names() (names []string) {
	name, _, _ := strings.Cut(s.Name, "@")
	first, rest, deep := strings.Cut(name, "/")
	if deep {
		first, _, _ = strings.Cut(first, ":") // the registry's port
		name = first + "/" + rest
	}
	if slash, colon := strings.LastIndexByte(name, '/'), strings.LastIndexByte(name, ':'); colon > slash {
		name = name[:colon]
	}
	for _, alias := range append([]string{strings.ReplaceAll(name, "/", "__"), strings.ReplaceAll(name, "/", "-")}, s.Aliases...) {
		if alias != "" && !slices.Contains(names, alias) {
			names = append(names, alias)
		}
	}
	return names
}

// Health is a command in a container that succeeds when all is well. Fields that are 0 have the engine's default.
type Health struct {
	Command                        string // shell text
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// Registry is how to log in to a registry of images.
type Registry struct {
	Host, Username, Password string
	// Path bounds the credentials to repositories below it: "group/project"; empty is all of the registry.
	Path string
	// Last says that a login of the host's user for the registry comes first, as with those that GitLab sends with a job.
	Last bool
}
