package plan

import (
	"errors"
	"slices"
	"strings"
)

// GitHubURL is where actions are that are named by owner and repository alone.
const GitHubURL = "https://github.com/"

// WorkDirPrefix begins Reference.Action for an action in a folder of the work directory.
const WorkDirPrefix = "${{ work_dir }}/"

// ImagePrefix begins Reference.Action for an action that is an image.
const ImagePrefix = "docker://"

// Action says where a GitHub Action is. One of Folder, Image and URL is set.
type Action struct {
	Folder string // on this machine: absolute, or seen from the definition, or with Own from the root of the definition's repository
	Own    bool
	Image  string // of a container, as a registry names it: "alpine:3"
	URL    string // of a repository, without credentials
	Rev    string // a tag, branch or commit of it
	Path   string // the action's folder in it, with slashes; "" is its root
}

// ParseAction reads Reference.Action, in which no expressions are left: "./folder", "$/folder", "docker://image",
// "owner/repository/folder@revision", or "https://host/owner/repository/folder@revision". Where a repository's address has more elements
// than two, "/-/" stands before the folder in it.
func ParseAction(text string) (Action, error) {
	if strings.ContainsAny(strings.TrimPrefix(text, WorkDirPrefix), "\x00\n\r\t ") {
		return Action{}, errors.New("the name of an action has no white space")
	}
	switch {
	case strings.HasPrefix(text, ImagePrefix):
		image := strings.TrimPrefix(text, ImagePrefix)
		if image == "" {
			return Action{}, errors.New("the image is missing")
		}
		return Action{Image: image}, nil
	case strings.HasPrefix(text, WorkDirPrefix):
		return Action{Folder: text}, nil
	case strings.HasPrefix(text, "$/"):
		return ownAction(text[len("$/"):])
	case text == ".", text == "..", strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"), strings.HasPrefix(text, "/"),
		len(text) > 2 && text[1] == ':' && (text[2] == '/' || text[2] == '\\'): // C:/folder
		return Action{Folder: text}, nil
	}
	return remoteAction(text)
}

func ownAction(folder string) (Action, error) {
	switch elements := strings.Split(folder, "/"); {
	case strings.Contains(folder, "@"):
		return Action{}, errors.New("an action of the repository itself ($/folder) has no version: it is that of the repository")
	case folder != "" && !areInside(elements):
		return Action{}, errors.New("the folder of an action of the repository itself has an element that is empty or made of dots")
	}
	return Action{Folder: folder, Own: true}, nil
}

func remoteAction(text string) (Action, error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	base := scheme + "://"
	if !isURL {
		base, rest = GitHubURL, text
	} else if scheme != "https" && scheme != "http" && scheme != "file" {
		return Action{}, errors.New("an action cannot be fetched over " + scheme)
	}
	name, rev, ok := strings.Cut(rest, "@")
	switch {
	case !ok || rev == "":
		return Action{}, errors.New("the version is missing")
	case isURL && strings.Contains(rev, "@"):
		return Action{}, errors.New("the address has a user or a second @ in it")
	case strings.HasPrefix(rev, "-") || strings.Contains(rev, "..") || strings.ContainsAny(rev, ":~^?*[\\@"):
		return Action{}, errors.New("the version cannot be a tag, branch or commit")
	case strings.ContainsAny(name, "\\?#%"):
		return Action{}, errors.New("the name has a character that none can have")
	}
	out := Action{Rev: rev}
	repository, path, split := strings.Cut(name, "/-/")
	if !split {
		elements := strings.Split(name, "/")
		size := 2 // owner and repository
		if scheme == "file" {
			size = len(elements)
		} else if isURL {
			size = 3 // and the host
		}
		if size > len(elements) {
			return Action{}, errors.New("the owner and the repository are missing")
		}
		repository, path = strings.Join(elements[:size], "/"), strings.Join(elements[size:], "/")
	}
	if path != "" && !areInside(strings.Split(path, "/")) || !areInside(strings.Split(strings.TrimPrefix(repository, "/"), "/")) {
		return Action{}, errors.New("the name has an element that is empty or made of dots")
	}
	out.URL, out.Path = base+repository, path
	return out, nil
}

// areInside reports whether elements of a path lead to a place below where it begins.
func areInside(elements []string) bool {
	return !slices.ContainsFunc(elements, func(e string) bool { return e == "" || e == "." || e == ".." })
}

// IsLocal reports whether the reference leads to a folder: one beside the definition, or in the work directory.
func (r *Reference) IsLocal() bool {
	if r.Kind != RefAction {
		return r.Kind == RefLocal
	}
	action, err := ParseAction(r.Action)
	return err == nil && action.URL == "" && action.Image == ""
}
