// Package archive fetches packages that are zip or tar archives, over HTTP or from a file.
//
// What a reference names is the archive's root: a single folder at its top, as GitHub and GitLab make it, is not taken off.
// See package unpack for what an archive may hold, and package download for how it comes here.
package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/archive/download"
	"github.com/rungci/rung/steps/source/archive/unpack"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/tree"
)

// MaxSize bounds an archive, in bytes.
const MaxSize = tree.MaxSize

// Credentials finds what a user has for a web server.
type Credentials interface {
	// HTTP returns the name and password for an address; ok is false when there are none.
	HTTP(ctx context.Context, url string) (user, password string, ok bool, err error)
}

// Fetcher is a source.Fetcher for archives.
type Fetcher struct {
	Cache       *cache.Cache
	Credentials Credentials     // may be nil
	Policy      download.Policy // the zero value is the usual one
}

var _ source.Fetcher = (*Fetcher)(nil)

// Variant implements source.Fetcher. An archive is the same for everybody.
func (f *Fetcher) Variant() string { return "" }

var pinPattern = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// checkPin refuses what is not a digest.
func checkPin(at *source.Location, pin string) error {
	if !pinPattern.MatchString(pin) {
		return &source.DeniedError{
			What: at.Name, Why: fmt.Sprintf("%q is not the digest of an archive", pin),
			Hint: "a digest is sha256: and 64 hexadecimal digits, in lower case",
		}
	}
	return nil
}

// Resolve implements source.Fetcher: the pin of an archive is the SHA-256 of its bytes, for which it must be downloaded.
func (f *Fetcher) Resolve(ctx context.Context, at *source.Location) (pin string, err error) {
	if at.Rev != "" {
		pin = strings.ToLower(at.Rev)
		return pin, checkPin(at, pin)
	}
	where, err := parse(at)
	if err != nil {
		return "", err
	}
	if where.Scheme == "file" {
		return f.sumLocal(at, where)
	}
	unlock, path, err := f.place(ctx, at)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := f.download(ctx, at, where, path); err != nil {
		return "", err
	}
	return sum(path)
}

// Fetch implements source.Fetcher.
func (f *Fetcher) Fetch(ctx context.Context, at *source.Location, pin string, to *tree.Writer) error {
	if err := checkPin(at, pin); err != nil {
		return err
	}
	where, err := parse(at)
	if err != nil {
		return err
	}
	unlock, path, err := f.place(ctx, at)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.obtain(ctx, at, where, path, pin); err != nil {
		return err
	}
	archive, err := os.Open(path)
	if err != nil {
		return &source.FetchError{What: at.Name, Err: err}
	}
	defer archive.Close()
	if err := unpack.File(ctx, archive, to); err != nil {
		return Explain(ctx, at, err)
	}
	_ = archive.Close() // before it is removed: Windows insists
	_ = download.Remove(path)
	return nil
}

// Explain makes an error of unpacking one of a source.
func Explain(ctx context.Context, at *source.Location, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case unpack.Refused(err):
		return &source.DeniedError{What: at.Name, Why: err.Error()}
	}
	return &source.FetchError{What: at.Name, Err: err}
}

// obtain puts the archive that the pin names at path.
func (f *Fetcher) obtain(ctx context.Context, at *source.Location, where *url.URL, path, pin string) error {
	_, err := os.Stat(path)
	before := err == nil // a download goes on from what is there; that may not fit what comes
	if before && download.Complete(path) {
		if got, err := sum(path); err == nil && got == pin {
			return nil
		}
	}
	for {
		if where.Scheme == "file" {
			err = f.copyLocal(ctx, at, where, path)
		} else {
			err = f.download(ctx, at, where, path)
		}
		if err != nil {
			return err
		}
		got, err := sum(path)
		if err != nil {
			return &source.FetchError{What: at.Name, Err: err}
		}
		if got == pin {
			return nil
		}
		_ = download.Remove(path)
		if !before || where.Scheme == "file" {
			return &source.DeniedError{
				What: at.Name, Why: "the archive is not the expected one: expected " + pin + ", got " + got,
				Hint: "what is at that address was replaced; where that is right, change the digest or run `step-runner lock` again",
			}
		}
		before = false
	}
}

// place returns where the archive is downloaded to, which is then ours until unlock.
func (f *Fetcher) place(ctx context.Context, at *source.Location) (unlock func(), path string, err error) {
	unlock, err = f.Cache.Lock(ctx, "download", at.URL)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		return nil, "", &source.FetchError{What: at.Name, Err: err}
	}
	if path, err = f.Cache.Download(at.URL); err != nil {
		unlock()
		return nil, "", &source.FetchError{What: at.Name, Err: err}
	}
	return unlock, path, nil
}

// parse reads the address. Of a file the path is one of this system.
func parse(at *source.Location) (*url.URL, error) {
	if rest, isFile := strings.CutPrefix(at.URL, "file://"); isFile {
		return parseFile(at, strings.TrimPrefix(rest, "localhost/"))
	}
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, &source.DeniedError{What: at.Name, Why: "it is not an address"} // the error would show the address
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, &source.DeniedError{What: at.Name, Why: "an archive is fetched over http://, https:// or from file:///, and nothing else"}
	}
	u.Fragment = ""
	return u, nil
}

// parseFile reads what follows file://. It may be a path as it is, or one with escapes as addresses have it.
func parseFile(at *source.Location, path string) (*url.URL, error) {
	if strings.HasPrefix(at.URL, "file://localhost/") {
		path = "/" + path
	}
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/") // of "/C:/folder"
	}
	if _, err := os.Stat(filepath.FromSlash(path)); err != nil {
		if plain, err := url.PathUnescape(path); err == nil {
			path = plain
		}
	}
	path = filepath.FromSlash(path)
	if !filepath.IsAbs(path) {
		return nil, &source.DeniedError{What: at.Name, Why: "a file is named by its whole path, file:///folder/step.zip"}
	}
	return &url.URL{Scheme: "file", Path: path}, nil
}

// download gets the archive over the network.
func (f *Fetcher) download(ctx context.Context, at *source.Location, where *url.URL, path string) error {
	user, password, err := f.credentials(ctx, at, where)
	if err != nil {
		return &source.FetchError{What: at.Name, Err: err}
	}
	plain := *where
	plain.User = nil
	req := &download.Request{
		URL: &plain, Client: at.Access.HTTP, Username: user, Password: password, MaxSize: MaxSize, Policy: f.Policy,
		Meter: download.NewMeter(ctx, "fetch "+filepath.Base(path), "fetching "+mask.Queries(at.Name)),
	}
	err = req.To(ctx, path)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failure(at, err, user != "" || password != "")
}

// credentials are those of the source's owner, else what is in the address, else what the user has.
func (f *Fetcher) credentials(ctx context.Context, at *source.Location, where *url.URL) (user, password string, err error) {
	if at.Access.Username != "" || at.Access.Password != "" {
		return at.Access.Username, at.Access.Password, nil
	}
	if where.User != nil {
		password, _ := where.User.Password()
		return where.User.Username(), password, nil
	}
	if f.Credentials == nil {
		return "", "", nil
	}
	user, password, _, err = f.Credentials.HTTP(ctx, where.String())
	return user, password, err
}

// failure says what a failed download means.
func failure(at *source.Location, err error, known bool) error {
	var status *download.StatusError
	var large *download.TooLargeError
	switch {
	case errors.As(err, &large), errors.Is(err, download.ErrRedirect):
		return &source.DeniedError{What: at.Name, Why: err.Error()}
	case !errors.As(err, &status):
		return &source.FetchError{What: at.Name, Err: err}
	}
	switch status.Code {
	case http.StatusNotFound, http.StatusGone:
		return &source.NotFoundError{Ref: at.Name, Err: status}
	case http.StatusUnauthorized, http.StatusForbidden:
		hint := "give a name and a password for the host in sources.toml or in netrc"
		if known {
			hint = "there are a name and a password for the host, but they do not open this; look at sources.toml and netrc"
		}
		return &source.DeniedError{What: at.Name, Why: status.Error(), Hint: hint}
	}
	return &source.FetchError{What: at.Name, Err: status}
}

// openLocal opens an archive on this machine.
func openLocal(at *source.Location, where *url.URL) (*os.File, error) {
	var f *os.File
	info, err := os.Stat(where.Path) // before it is opened: that would wait for whoever writes to a pipe
	if err == nil && !info.Mode().IsRegular() {
		return nil, &source.DeniedError{What: at.Name, Why: where.Path + " is not a file"}
	}
	if err == nil {
		f, err = os.Open(where.Path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &source.NotFoundError{Ref: at.Name, Err: err}
	case errors.Is(err, fs.ErrPermission):
		return nil, &source.DeniedError{What: at.Name, Why: err.Error()}
	case err != nil:
		return nil, &source.FetchError{What: at.Name, Err: err}
	}
	if info.Size() > MaxSize {
		_ = f.Close()
		return nil, &source.DeniedError{What: at.Name, Why: (&download.TooLargeError{Size: info.Size(), Limit: MaxSize}).Error()}
	}
	return f, nil
}

func (f *Fetcher) sumLocal(at *source.Location, where *url.URL) (string, error) {
	archive, err := openLocal(at, where)
	if err != nil {
		return "", err
	}
	defer archive.Close()
	return sumOf(archive)
}

// copyLocal copies an archive on this machine, so that nobody changes it after its digest was computed.
func (f *Fetcher) copyLocal(ctx context.Context, at *source.Location, where *url.URL, path string) error {
	archive, err := openLocal(at, where)
	if err != nil {
		return err
	}
	defer archive.Close()
	_ = download.Remove(path)
	copied, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = io.Copy(copied, io.LimitReader(archive, MaxSize))
		if cerr := copied.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return &source.FetchError{What: at.Name, Err: err}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

func sumOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
