package containers

import "strings"

// dockerHub is the registry of names that name none, and official the namespace there of names that have none.
const (
	dockerHub  = "docker.io"
	official   = "library/"
	defaultTag = "latest"
)

// Name is the name of an image, divided. The zero fields of a name that is none are empty.
type Name struct {
	Registry   string // "docker.io" if the name has none
	Repository string // "library/alpine" for "alpine"
	Tag        string // "latest" if the name has neither a tag nor a digest; "" is no name if it has a colon and nothing behind
	Digest     string // "sha256:…"; "" if the name has none
}

// ParseName divides the name of an image. It does not check the characters of its parts.
func ParseName(name string) Name {
	name, digest, _ := strings.Cut(name, "@")
	n := Name{Registry: dockerHub, Repository: name, Digest: digest}
	if first, rest, found := strings.Cut(name, "/"); found && (strings.ContainsAny(first, ".:") || first == "localhost") {
		n.Registry, n.Repository = first, rest
	}
	var tagged bool
	n.Repository, n.Tag, tagged = strings.Cut(n.Repository, ":")
	switch n.Registry = strings.ToLower(n.Registry); n.Registry {
	case "index.docker.io", "registry-1.docker.io":
		n.Registry = dockerHub
	}
	if n.Registry == dockerHub && n.Repository != "" && !strings.Contains(n.Repository, "/") {
		n.Repository = official + n.Repository
	}
	if !tagged && n.Digest == "" {
		n.Tag = defaultTag
	}
	return n
}

// SameImage reports whether two names ask one registry for one thing: "alpine" and "docker.io/library/alpine:latest".
func SameImage(a, b string) bool { return a == b || ParseName(a) == ParseName(b) }

// WithDigest returns the name of an image by its digest: "alpine@sha256:…" for "alpine:3". The tag goes, as some engines take only one of the two.
func WithDigest(name, digest string) string {
	name, _, _ = strings.Cut(name, "@")
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		name = name[:at]
	}
	return name + "@" + digest
}
