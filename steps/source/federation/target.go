package federation

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
)

// target is what a match is replaced by.
type target struct {
	place
	folder string // of a file target: absolute
}

// parseTarget reads an entry's replace.
func parseTarget(e *entry) (target, error) {
	text := e.replace
	scheme, _, isURL := strings.Cut(text, "://")
	switch scheme = strings.ToLower(scheme); {
	case isURL && scheme == "file":
		return target{place: place{scheme: "file"}, folder: filepath.Clean(filePath("file://" + text[len("file://"):]))}, nil
	case !isURL && (strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || filepath.IsAbs(text)):
		return target{place: place{scheme: "file"}, folder: e.file.absolute(text, "")}, nil
	case isURL && scheme != "http" && scheme != "https" && scheme != "ssh" && scheme != "git+ssh" && scheme != "oci":
		return target{}, fmt.Errorf("the scheme %s:// cannot be used here", scheme)
	}
	where, err := parsePlace(text)
	switch {
	case err != nil:
		return target{}, err
	case where.host == "":
		return target{}, errors.New("it names no host and no folder")
	case where.query != "":
		return target{}, errors.New("it has a query or a fragment")
	case !isURL && where.scheme == "ssh":
		return target{}, errors.New("it is written as SSH does; write ssh://user@host/path")
	case where.user != "" && where.scheme != "ssh" && where.scheme != "git+ssh":
		return target{}, errors.New("it has credentials in it; set them for the host that it leads to, with password_env or token_file")
	}
	if !isURL {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return target{}, errors.New("it is not a valid URL")
	}
	if _, has := u.User.Password(); has {
		return target{}, errors.New("it has a password in it; SSH takes a key: set ssh_key for the host that it leads to")
	}
	return target{place: where}, nil
}

// hostHint is a match for the place that the target leads to.
func (t target) hostHint() string {
	if t.host == "" {
		return "localhost/"
	}
	return t.host + "/"
}

// rewritten is where a location is after an entry's replace.
type rewritten struct {
	url       string // as Location.URL has it
	place     place
	plainHTTP bool
}

// rewrite puts the entry's replace in the place of its match.
func (e *entry) rewrite(kind plan.RefKind, name place) (rewritten, error) {
	t := e.target
	rest := name.elements[len(e.pattern.elements):]
	if t.scheme == "file" && kind == plan.RefOCI {
		return rewritten{}, diag.List{e.wrong("replace", "map images to another registry, or keep them in a bundle (trace bundle)", "an image cannot be fetched from a folder")}
	}
	if t.scheme == "file" {
		return rewriteToFile(t.folder, kind, rest), nil
	}
	where := place{scheme: t.scheme, user: t.user, host: t.host, query: name.query}
	where.elements = append(append(where.elements, t.elements...), rest...)
	if kind == plan.RefOCI {
		if where.scheme == "ssh" || where.scheme == "git+ssh" {
			return rewritten{}, diag.List{e.wrong("replace", "", "an image cannot be fetched over %s", where.scheme)}
		}
		plain := where.scheme == "http"
		where.scheme = "oci"
		return rewritten{url: where.host + "/" + strings.Join(where.elements, "/"), place: where, plainHTTP: plain}, nil
	}
	if where.scheme == "" || where.scheme == "oci" {
		where.scheme = "https"
	}
	if kind == plan.RefArchive && where.scheme != "http" && where.scheme != "https" {
		return rewritten{}, diag.List{e.wrong("replace", "", "an archive cannot be fetched over %s", where.scheme)}
	}
	return rewritten{url: where.url(), place: where}, nil
}

// url writes a place as a URL.
func (p place) url() string {
	user := ""
	if p.user != "" {
		user = url.User(p.user).String() + "@"
	}
	return p.scheme + "://" + user + p.host + "/" + joined(p.elements) + p.query
}

// rewriteToFile finds what is below a folder. A repository may have the end ".git" there or not.
func rewriteToFile(folder string, kind plan.RefKind, rest []string) rewritten {
	path := filepath.Join(append([]string{folder}, rest...)...)
	if kind == plan.RefGit && !exists(path) {
		other := path + ".git"
		if bare := filepath.Join(filepath.Dir(path), withoutGit(filepath.Base(path))); bare != path {
			other = bare
		}
		if exists(other) {
			path = other
		}
	}
	u := fileURL(path)
	where := place{scheme: "file", elements: strings.Split(strings.Trim(filepath.ToSlash(path), "/"), "/")}
	return rewritten{url: u, place: where}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
