package oci

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/source/oci/distribution"
)

// Platform is what a component's files are for.
type Platform struct {
	OS, Architecture, Variant string
	OSVersion                 string   // of Windows, mostly
	OSFeatures                []string // sorted
}

// Generic is the platform of a component that is for all of them.
var Generic = Platform{OS: genericOS, Architecture: genericOS}

// genericOS stands for every operating system.
const genericOS = "generic"

// Host is the platform on this machine.
func Host() Platform { return Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}.Normal() }

// ParsePlatform reads "os/architecture[/variant][:os version][+feature]…", and normalises it: "linux/aarch64" is linux/arm64.
func ParsePlatform(text string) (Platform, error) {
	rest, features := text, []string(nil)
	if first, others, found := strings.Cut(text, "+"); found {
		rest, features = first, strings.Split(others, "+")
	}
	rest, version, hasVersion := strings.Cut(rest, ":")
	parts := strings.Split(rest, "/")
	wrong := func(why string) (Platform, error) {
		return Platform{}, fmt.Errorf("the platform %q %s; a platform is written as linux/amd64, linux/arm/v7 or windows/amd64:10.0.20348", text, why)
	}
	switch {
	case len(parts) > 3:
		return wrong("has too many slashes")
	case strings.Contains(version, ":"):
		return wrong("has too many colons")
	case slices.Contains(parts, ""), hasVersion && version == "", slices.Contains(features, ""):
		return wrong("has an empty part")
	}
	if len(parts) == 1 {
		if parts[0] != genericOS {
			return wrong("has no architecture")
		}
		parts = append(parts, genericOS)
	}
	p := Platform{OS: parts[0], Architecture: parts[1], OSVersion: version, OSFeatures: features}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p.Normal(), nil
}

// Normal returns the platform under the names that everybody uses.
func (p Platform) Normal() Platform {
	p.OS, p.Architecture, p.Variant = strings.ToLower(p.OS), strings.ToLower(p.Architecture), strings.ToLower(p.Variant)
	if p.OS == "macos" {
		p.OS = "darwin"
	}
	switch p.Architecture {
	case "i386", "i486", "i586", "i686":
		p.Architecture, p.Variant = "386", ""
	case "x86_64", "x86-64":
		p.Architecture = "amd64"
	case "aarch64":
		p.Architecture = "arm64"
	case "armhf":
		p.Architecture, p.Variant = "arm", "v7"
	case "armel":
		p.Architecture, p.Variant = "arm", "v6"
	}
	if p.Architecture == "arm" || p.Architecture == "arm64" {
		if p.Variant != "" && p.Variant[0] >= '0' && p.Variant[0] <= '9' {
			p.Variant = "v" + p.Variant
		}
	}
	switch {
	case p.Architecture == "amd64" && p.Variant == "v1", p.Architecture == "arm64" && p.Variant == "v8":
		p.Variant = ""
	case p.Architecture == "arm" && p.Variant == "":
		p.Variant = "v7"
	}
	if len(p.OSFeatures) > 0 {
		p.OSFeatures = slices.Clone(p.OSFeatures)
		slices.Sort(p.OSFeatures)
		p.OSFeatures = slices.Compact(p.OSFeatures)
	}
	return p
}

// String is the form that ParsePlatform reads.
func (p Platform) String() string {
	text := p.OS
	if p.Architecture != "" && (p.OS != genericOS || p.Architecture != genericOS) {
		text += "/" + p.Architecture
	}
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	if p.OSVersion != "" {
		text += ":" + p.OSVersion
	}
	for _, feature := range p.OSFeatures {
		text += "+" + feature
	}
	return text
}

// Spec is the platform in an image index.
func (p Platform) Spec() *distribution.Platform {
	return &distribution.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, OSVersion: p.OSVersion, OSFeatures: p.OSFeatures}
}

// fromSpec reads the platform of an entry of an image index; ok is false when it has none.
func fromSpec(s *distribution.Platform) (p Platform, ok bool) {
	if s == nil || s.OS == "" && s.Architecture == "" {
		return Platform{}, false
	}
	return Platform{OS: s.OS, Architecture: s.Architecture, Variant: s.Variant, OSVersion: s.OSVersion, OSFeatures: s.OSFeatures}.Normal(), true
}

// rank says how well what is for another platform runs here: 0 not at all, and the more the better.
func (p Platform) rank(other Platform) int {
	if other.OS != p.OS || other.Architecture != p.Architecture {
		return 0
	}
	better := 0 // of two that are the same otherwise, the one that asks for less
	if other.OSVersion == p.OSVersion {
		better++
	}
	if other.Variant == p.Variant {
		return 20 + better
	}
	if p.Architecture == "arm" && other.Variant < p.Variant && len(other.Variant) == len(p.Variant) {
		return 10 + int(other.Variant[len(other.Variant)-1]-'0') + better // v7 runs what is for v6 and v5
	}
	if p.Architecture == "arm64" && other.Variant == "" || other.Variant == "" && p.Architecture == "amd64" {
		return 10 + better
	}
	return 0
}

// Choose finds the entry of an index for a platform; nil if there is none, with the platforms that there are.
func Choose(p Platform, entries []distribution.Descriptor) (chosen *distribution.Descriptor, others []string) {
	return choose(p, entries)
}

// choose finds what is for a platform among the entries of an index: an entry for it, else one for the operating system
// "generic", else one that says nothing. It returns the platforms that there are when none of them will do.
func choose(p Platform, entries []distribution.Descriptor) (chosen *distribution.Descriptor, others []string) {
	best := 0
	for i := range entries {
		other, ok := fromSpec(entries[i].Platform)
		rank := 1
		switch {
		case ok && other.OS == genericOS:
			rank = 2
		case ok:
			others = append(others, other.String())
			if rank = p.rank(other); rank > 0 {
				rank += 2
			}
		}
		if rank > best {
			chosen, best = &entries[i], rank
		}
	}
	return chosen, others
}
