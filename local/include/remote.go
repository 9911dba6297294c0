package include

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/tree"
)

// GitLab's own project has the templates.
const (
	templateHost    = "gitlab.com"
	templateProject = "gitlab-org/gitlab"
	templateFolder  = "lib/gitlab/ci/templates"
	templateSuffix  = ".gitlab-ci.yml"
)

// remoteFile is the name of the file in the package that a web address becomes in the cache.
const remoteFile = "include.yml"

// template reads one of GitLab's templates: from the folder that stands for GitLab's project, or as a file of its default branch.
func (l *Loader) template(ctx context.Context, place config.Place) (config.File, error) {
	name := path.Clean(place.Path)
	if !fs.ValidPath(name) || name != place.Path || !strings.HasSuffix(name, templateSuffix) {
		return config.File{}, fmt.Errorf("it is not a template name: template names end with %s, such as Jobs/Build%s", templateSuffix, templateSuffix)
	}
	file := templateFolder + "/" + name
	dir, ok := l.projects[templateProject]
	if !ok {
		dir, ok = l.projects[templateHost+"/"+templateProject]
	}
	if ok {
		l.note(fmt.Sprintf("templates are taken from %s", dir))
		data, err := readBelow(dir, file)
		return config.File{Data: data}, err
	}
	address := "https://" + templateHost + "/" + templateProject + "/-/raw/master/" + (&url.URL{Path: file}).EscapedPath()
	data, err := l.web(ctx, kindTemplate, name, address)
	var missing *source.NotFoundError
	if errors.As(err, &missing) {
		return config.File{}, fmt.Errorf("GitLab has no template %s: %w", name, fs.ErrNotExist)
	}
	return config.File{Data: data}, explain(err, fmt.Sprintf("--project %s=FOLDER takes templates from a folder", templateProject))
}

// remote reads the file at a web address.
func (l *Loader) remote(ctx context.Context, place config.Place) (config.File, error) {
	u, err := url.Parse(place.Path)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return config.File{}, errors.New("it is not a URL that starts with https://") // the error would show what is in it
	}
	data, err := l.web(ctx, kindRemote, shownAddress(u), place.Path)
	return config.File{Data: data}, explain(err, "a copy in the project can be included by `local:`")
}

// web gets a file over HTTP, under the name by which the lock file knows it.
func (l *Loader) web(ctx context.Context, kind, name, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	u.Fragment = ""
	bare := *u
	bare.User = nil
	at := &source.Location{Kind: plan.RefArchive, Name: bare.String(), URL: u.String()}
	trust, err := l.apply(at)
	at.Name = shownAddress(&bare) // from here on it is only shown
	var denied *source.DeniedError
	if errors.As(err, &denied) {
		err = &source.DeniedError{What: at.Name, Why: denied.Why, Hint: denied.Hint}
	}
	if err != nil {
		return nil, err
	}
	key := entryKey{Kind: kind, Place: name}
	locked := l.lock.find(key)
	if l.o.Refresh {
		locked = nil
	}
	if trust.Pinned && locked == nil {
		return nil, &source.DeniedError{What: at.Name, Why: "sources.toml requires immutable references, and a URL can change"}
	}
	data, pin, err := l.webFile(ctx, at, key, locked)
	if err != nil {
		return nil, err
	}
	if locked != nil && locked.Pin != pin {
		return nil, l.differs(key, locked.Pin, pin)
	}
	l.decided[key.String()] = pin
	l.lock.set(entry{entryKey: key, Pin: pin})
	return data, nil
}

// webFile returns what is at an address, and its digest: from the cache where that has what is wanted, and else from the server.
func (l *Loader) webFile(ctx context.Context, at *source.Location, key entryKey, locked *entry) ([]byte, string, error) {
	where, err := url.Parse(at.URL)
	if err != nil {
		return nil, "", errors.New("sources.toml rewrites it to something that is not a URL")
	}
	if where.Scheme == "file" {
		return readAddress(where)
	}
	name := []string{kindRemote, digestOf([]byte(at.URL))} // the address may hold a secret, and the cache is a file
	wanted := l.decided[key.String()]
	if locked != nil {
		wanted = locked.Pin
	}
	if pin, ok := l.known(source.DefaultRefresh, name...); ok && wanted == "" {
		wanted = pin
	}
	if wanted != "" {
		if data, ok := l.stored(wanted); ok {
			return data, wanted, nil
		}
	}
	if l.o.Offline {
		return nil, "", &offlineError{at.Name}
	}
	data, err := l.get(ctx, at, where)
	if err != nil {
		return nil, "", err
	}
	pin := digestOf(data)
	content, err := l.o.Cache.Put(func(w *tree.Writer) error {
		return w.AddFile(remoteFile, false, int64(len(data)), bytes.NewReader(data))
	})
	if err == nil {
		err = errors.Join(l.o.Cache.SetPinned(content, kindRemote, pin), l.o.Cache.SetName(pin, name...))
	}
	return data, pin, err
}

// readAddress reads a file:// address that the user's sources lead to.
func readAddress(where *url.URL) ([]byte, string, error) {
	file := where.Path
	if len(file) > 2 && file[0] == '/' && file[2] == ':' { // C: of Windows
		file = file[1:]
	}
	file = filepath.FromSlash(file)
	data, err := readBelow(filepath.Dir(file), filepath.Base(file))
	if errors.Is(err, fs.ErrNotExist) {
		err = &source.NotFoundError{Ref: file, Err: err}
	}
	return data, digestOf(data), err
}

// stored returns the content with a digest, if the cache has it.
func (l *Loader) stored(pin string) ([]byte, bool) {
	content := l.o.Cache.Pinned(kindRemote, pin)
	if content == "" {
		return nil, false
	}
	dir, _, err := l.o.Cache.Tree(content)
	if err != nil {
		return nil, false
	}
	data, err := readBelow(dir, remoteFile)
	return data, err == nil && digestOf(data) == pin
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// get downloads a file.
func (l *Loader) get(ctx context.Context, at *source.Location, where *url.URL) ([]byte, error) {
	user, password, err := l.credentials(ctx, at, where)
	if err != nil {
		return nil, err
	}
	bare := *where
	bare.User = nil
	dir, err := os.MkdirTemp("", "rung-include-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, remoteFile)
	request := &download.Request{URL: &bare, Client: at.Access.HTTP, Username: user, Password: password, MaxSize: config.MaxFileSize, Policy: l.o.Policy}
	if err := request.To(ctx, file); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, failure(at, err)
	}
	data, err := os.ReadFile(file)
	if err == nil && isPage(data) {
		return nil, &source.DeniedError{What: at.Name, Why: "the server returned a web page instead of YAML",
			Hint: "it may require authentication: include a file of a private project with `project:`"}
	}
	return data, err
}

// isPage reports whether a file is HTML.
func isPage(data []byte) bool {
	start := bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 512)]))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// credentials are those of the source's owner, else what stands in the address, else what the user has.
func (l *Loader) credentials(ctx context.Context, at *source.Location, where *url.URL) (user, password string, err error) {
	switch {
	case at.Access.Username != "" || at.Access.Password != "":
		return at.Access.Username, at.Access.Password, nil
	case where.User != nil:
		password, _ := where.User.Password()
		return where.User.Username(), password, nil
	case l.o.Credentials == nil:
		return "", "", nil
	}
	user, password, _, err = l.o.Credentials.HTTP(ctx, where.String())
	return user, password, err
}

// shownAddress is an address for people and files: without credentials, and with digests for what looks like a secret in its query.
func shownAddress(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if u.RawQuery == "" {
		return shown.String()
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		query = url.Values{"": {u.RawQuery}}
	}
	for name, values := range query {
		for i, v := range values {
			if isSecret(name, v) {
				values[i] = digestOf([]byte(v))[:len("sha256:")+12]
			}
		}
	}
	shown.RawQuery = query.Encode()
	return shown.String()
}

// isSecret guesses whether a value in a query is one: by its name, or because it is long. Refs and paths are not.
func isSecret(name, value string) bool {
	const long = 16
	name = strings.ToLower(name)
	for _, sign := range []string{"token", "key", "sig", "auth", "pass", "secret", "cred"} {
		if strings.Contains(name, sign) {
			return true
		}
	}
	switch name {
	case "ref", "ref_type", "path", "inline", "version":
		return false
	}
	return len(value) >= long
}
