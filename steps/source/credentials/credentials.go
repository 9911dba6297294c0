// Package credentials looks up the user's credentials for hosts where other tools store them: netrc, git's credential
// helpers and askpass programs, Docker's configuration.
//
// It never prompts, and it never blocks for long. Everything it returns is secret: keep it out of logs, traces, argument
// lists, errors and files. What it reads is secret, too: its errors name a file and a line, and show nothing of them.
package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rungci/rung/internal/process"
)

const (
	// MaxFileSize bounds a file that is read for credentials, in bytes.
	MaxFileSize = 4 << 20
	// maxAnswer bounds what a helper may write, in bytes.
	maxAnswer = 64 << 10
	// HelperTimeout is how long a credential helper or an askpass program may take.
	HelperTimeout = time.Minute
	// helperGrace is how long a helper that took too long has to end.
	helperGrace = time.Second
)

// TokenUser stands for the user name where the password is an identity token of a registry.
const TokenUser = "<token>"

// Finder looks for credentials. It is safe for concurrent use and remembers nothing.
type Finder struct {
	// Env is the environment of this program, as NAME=value: it says where to look, and helpers run in it.
	Env []string
	// Home is the user's home folder; "" has none.
	Home string
	// NoHelpers runs no credential helpers: what names them is not the user's own configuration.
	NoHelpers bool
}

// Git returns the credentials for a repository over HTTP: from netrc, else from git's credential helpers, else from an askpass
// program. A user name in the URL is the one to find a password for. With ok false, err says why a place could not be asked;
// there may still be nothing to find there.
func (f *Finder) Git(ctx context.Context, rawURL string) (user, password string, ok bool, err error) {
	at, err := parseURL(rawURL)
	if err != nil {
		return "", "", false, err
	}
	if user, password, ok, err = f.netrc(at); ok || err != nil {
		return user, password, ok, err
	}
	config, err := f.gitConfig()
	if err != nil {
		return "", "", false, err
	}
	q := config.question(at)
	user, password, ok, failed := f.askHelpers(ctx, config.helpers(at), q)
	if ok {
		return user, password, true, nil
	}
	if askpass := f.askpass(config); askpass != "" {
		user, password, ok, err = f.askProgram(ctx, askpass, q)
		if ok {
			return user, password, true, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", "", false, failed
}

// HTTP returns the credentials for a download: from netrc.
func (f *Finder) HTTP(_ context.Context, rawURL string) (user, password string, ok bool, err error) {
	at, err := parseURL(rawURL)
	if err != nil {
		return "", "", false, err
	}
	return f.netrc(at)
}

// parseURL reads a URL with a host. Its error does not show the URL, which may hold a password.
func parseURL(raw string) (*url.URL, error) {
	at, err := url.Parse(raw)
	if err != nil || at.Hostname() == "" {
		return nil, errors.New("cannot look for credentials: the URL has no host, or is not valid")
	}
	for _, part := range []string{at.Scheme, at.Host, at.Path, at.User.Username()} {
		if strings.ContainsAny(part, "\r\n\x00") { // it would be a line of its own to a helper
			return nil, errors.New("cannot look for credentials: the URL has a line break in it")
		}
	}
	return at, nil
}

// getenv returns a variable of Env. The last one counts, as in a shell.
func (f *Finder) getenv(name string) string {
	value := ""
	for _, v := range f.Env {
		if n, rest, ok := strings.Cut(v, "="); ok && (n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name)) {
			value = rest
		}
	}
	return value
}

// readFile reads a file; one that is not there, or that another user keeps to himself, is empty.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, nil
		}
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err // a folder of that name, or /dev/null
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxFileSize {
		return nil, fmt.Errorf("%s is larger than %d MiB, the limit for a file with credentials", path, MaxFileSize>>20)
	}
	return text, nil
}

// errSilent says that a helper ran and failed, which most do to say that they know nothing.
var errSilent = errors.New("it failed")

// run runs a helper and returns what it writes to standard output. What it writes elsewhere may be secret, and is discarded.
func (f *Finder) run(ctx context.Context, args []string, stdin string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, HelperTimeout, fmt.Errorf("it took longer than %s", HelperTimeout))
	defer cancel()
	out := &limited{}
	result, err := process.Run(ctx, nil, process.Spec{
		Args: args, Dir: f.Home, Env: f.quietEnv(), Stdin: []byte(stdin), Stdout: out, Grace: helperGrace,
	})
	if err == nil && result.ExitCode != 0 {
		err = errSilent
	}
	return out.String(), err
}

// quietEnv is the environment for helpers: in it, nothing asks a person on a terminal.
func (f *Finder) quietEnv() []string {
	var env []string
	for _, v := range f.Env {
		name, _, _ := strings.Cut(v, "=")
		if name != "GIT_TERMINAL_PROMPT" && name != "GCM_INTERACTIVE" {
			env = append(env, v)
		}
	}
	return append(env, "GIT_TERMINAL_PROMPT=0", "GCM_INTERACTIVE=never")
}

// limited is a buffer that takes no more than maxAnswer bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxAnswer {
		return 0, fmt.Errorf("it wrote more than %d KiB", maxAnswer>>10)
	}
	return l.Buffer.Write(p)
}

// defaultPorts are those of the schemes that URLs leave them out of.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ssh": "22"}

// hostPort returns the host in lower case, and the port, of a URL.
func hostPort(at *url.URL) (host, port string) {
	if port = at.Port(); port == "" {
		port = defaultPorts[at.Scheme]
	}
	return strings.ToLower(at.Hostname()), port
}

// hostField is the host as git writes it: with its port when that is not the scheme's own.
func hostField(at *url.URL) string {
	if port := at.Port(); port != "" {
		return net.JoinHostPort(at.Hostname(), port)
	}
	return at.Host
}
