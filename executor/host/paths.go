package host

import (
	"path"
	"strings"
)

// Paths has the rules for paths on a host.
type Paths struct{ windows bool }

// PathsOf returns the rules of an operating system, named as GOOS names it.
func PathsOf(os string) Paths { return Paths{windows: os == "windows"} }

// ListSeparator separates the folders of PATH.
func (p Paths) ListSeparator() string {
	if p.windows {
		return ";"
	}
	return ":"
}

// IsAbs reports whether a path is absolute.
func (p Paths) IsAbs(name string) bool {
	if !p.windows {
		return path.IsAbs(name)
	}
	volume, rest := p.split(name)
	return volume != "" && strings.HasPrefix(rest, "/")
}

// Clean returns the shortest form of a path, with the host's own separators.
func (p Paths) Clean(name string) string {
	if !p.windows {
		return path.Clean(name)
	}
	volume, rest := p.split(name)
	if rest != "" || volume == "" {
		rest = path.Clean(rest)
	}
	return volume + strings.ReplaceAll(rest, "/", `\`)
}

// Join joins elements to one clean path. Empty elements are ignored.
func (p Paths) Join(elements ...string) string {
	if !p.windows {
		return path.Join(elements...)
	}
	var filled []string
	for _, e := range elements {
		if e != "" {
			filled = append(filled, e)
		}
	}
	if len(filled) == 0 {
		return ""
	}
	return p.Clean(strings.Join(filled, `\`))
}

// Base returns the last element of a path.
func (p Paths) Base(name string) string {
	if !p.windows {
		return path.Base(name)
	}
	_, rest := p.split(name)
	return strings.ReplaceAll(path.Base(rest), "/", `\`)
}

// Dir returns all but the last element of a path.
func (p Paths) Dir(name string) string {
	if !p.windows {
		return path.Dir(name)
	}
	volume, rest := p.split(name)
	return volume + strings.ReplaceAll(path.Dir(rest), "/", `\`)
}

// split separates the volume of a Windows path, C: or \\server\share, from the rest, whose separators become slashes.
func (p Paths) split(name string) (volume, rest string) {
	name = strings.ReplaceAll(name, `\`, "/")
	if len(name) >= 2 && name[1] == ':' {
		return name[:2], name[2:]
	}
	if !strings.HasPrefix(name, "//") {
		return "", name
	}
	server, share, found := strings.Cut(name[2:], "/")
	if !found || server == "" || share == "" {
		return "", name
	}
	share, rest, found = strings.Cut(share, "/")
	if found {
		rest = "/" + rest
	}
	return `\\` + server + `\` + share, rest
}
