package plan

import (
	"errors"
	"path"
	"strings"
)

// Access is a file, folder, socket or device of the machine that a confined step has.
type Access struct {
	Path     string // absolute and clean; or ~ and what is below it: the home folder of the run
	Writable bool
}

// writableSuffix ends the text of an access that is not only for reading.
const writableSuffix = ":rw"

// ParseAccess reads "PATH", for reading, or "PATH:rw".
func ParseAccess(text string) (Access, error) {
	name, writable := strings.CutSuffix(text, writableSuffix)
	rooted, inHome := strings.CutPrefix(name, "~")
	switch {
	case strings.ContainsAny(name, "\x00\n"):
		return Access{}, errors.New("a path has no line ends")
	case inHome && rooted == "":
	case !strings.HasPrefix(rooted, "/") || rooted != path.Clean(rooted):
		return Access{}, errors.New("the path must be absolute, or begin with ~/, and have no . or .. in it")
	case !inHome && (name == "/" || name == "/proc" || strings.HasPrefix(name, "/proc/")):
		return Access{}, errors.New("a confined step has a root and a /proc of its own; name what it needs below")
	}
	return Access{name, writable}, nil
}

// String is the text of the access.
func (a Access) String() string {
	if a.Writable {
		return a.Path + writableSuffix
	}
	return a.Path
}

// Covers reports whether who has the access has the other as well.
func (a Access) Covers(other Access) bool {
	return (a.Writable || !other.Writable) && (a.Path == other.Path || strings.HasPrefix(other.Path, a.Path+"/"))
}

// AccessesOf reads the texts of accesses; those that are wrong, which no frontend lets through, give none.
func AccessesOf(texts []string) []Access {
	var out []Access
	for _, text := range texts {
		if a, err := ParseAccess(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// Uncovered is the first access that none of the granted ones covers.
func Uncovered(wanted, granted []Access) (Access, bool) {
	for _, want := range wanted {
		covered := false
		for _, have := range granted {
			covered = covered || have.Covers(want)
		}
		if !covered {
			return want, true
		}
	}
	return Access{}, false
}

// Confinement says which steps of a run are confined, besides those that ask for it (Step.Confine).
type Confinement string

// The confinements.
const (
	ConfineNone    Confinement = "none"
	ConfineFetched Confinement = "fetched" // components that were fetched, but for GitHub Actions
	ConfineAll     Confinement = "all"
)

// Confinements are all, the default of commands first.
var Confinements = []string{string(ConfineFetched), string(ConfineAll), string(ConfineNone)}
