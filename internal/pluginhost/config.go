// Package pluginhost starts plugins: programs of somebody else that serve one of the runner's contracts through hashicorp/go-plugin over gRPC.
//
// A plugin is not trusted to work. Every call has a limit; one that hangs or crashes fails its calls with a *Failure that says which plugin and what. It is
// trusted with the machine: it runs as this user, and what runs is the file that the configuration pins.
package pluginhost

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/internal/pluginstore"
)

// Kind is a contract that plugins serve.
type Kind struct {
	// Name is what messages call such a plugin: "executor plugin".
	Name string
	// Prefix begins the names of their files: "executor-plugin-".
	Prefix string
	// Services are the names of its gRPC service by the version of the protocol, each with a call Describe that answers at any time. These are the versions that the
	// runner speaks.
	Services map[int]string
	// Said is the error that a plugin returned, from the error of a call; ok is false where the connection is why it failed.
	Said func(err error) (out error, ok bool)
	// Gone makes an error of a process that has ended; nil is the Failure itself.
	Gone func(*Failure) error
	// Foreign is the prefix of another program's plugins of this kind, and Advice what to do about one of them; may be empty.
	Foreign, Advice string
	// Probe is how long a plugin that seems to hang has to say that it is there; 0 is 5 seconds.
	Probe time.Duration
}

// Config is what the configuration says of a plugin.
type Config struct {
	// Name is what it calls the plugin: letters, digits, - and _, or a reference to an installed one, as pluginstore has them: "aws:1".
	Name string
	// File is its program. Empty looks for the prefix of its kind and Name in Folder, for the newest that is installed there or in the usual plugin folder, and then
	// in PATH; a reference means installed ones alone.
	File, Folder string
	// SHA256 is what the file must be, in hexadecimal. Empty runs whatever is there.
	SHA256 string
	// Options are checked by the plugin's own schema; nil are none.
	Options json.RawMessage
	// Env is the environment of the plugin's process, NAME=value, beyond what every program needs. That of this program, which may hold
	// secrets, is not handed on.
	Env []string
	// Args are those of the program.
	Args []string
	// Log takes what the plugin says; nil is slog's default.
	Log *slog.Logger `json:"-"`
	// Logger takes it in place of Log; may be nil.
	Logger hclog.Logger `json:"-"`
}

// kind is what pluginstore calls it.
func (k *Kind) kind() string { return strings.TrimSuffix(k.Prefix, "-plugin-") }

// find returns the plugin's file, and the SHA-256 that it must have, where that is known: in hexadecimal.
func (k *Kind) find(c *Config) (file, sum string, err error) {
	if c.File != "" {
		file, err = filepath.Abs(c.File)
		return file, c.SHA256, err
	}
	ref, err := pluginstore.Parse(c.Name)
	if err != nil {
		return "", "", fmt.Errorf("the name of the %s: %w", k.Name, err)
	}
	if k.Foreign != "" && strings.HasPrefix(ref.Name, k.Foreign) {
		return "", "", fmt.Errorf("%s is a plugin of another program: %s", ref.Name, k.Advice)
	}
	wanted, short := pluginstore.Divide(ref.Name)
	if wanted != "" && wanted != k.kind() {
		return "", "", fmt.Errorf("%s is not named as a plugin of this kind is: the name of every %s begins with %s", ref.Name, k.Name, k.Prefix)
	}
	plain := !pluginstore.IsReference(c.Name)
	name := k.Prefix + short
	if plain && c.Folder != "" {
		file := filepath.Join(c.Folder, name)
		if runtime.GOOS == "windows" {
			file += ".exe"
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			file, err = filepath.Abs(file)
			return file, c.SHA256, err
		}
	}
	installed, failed := k.installed(c, ref)
	if installed != nil {
		file, err = filepath.Abs(installed.File())
		return file, cmp.Or(c.SHA256, installed.SHA256), err
	}
	if !plain {
		return "", "", fmt.Errorf("there is no %s %s installed (%w); install it with: rung plugin install %s", k.Name, c.Name, failed, c.Name)
	}
	file, err = k.inPath(c, name, short)
	return file, c.SHA256, err
}

// installed is the newest installed plugin that a reference names: in the folder of the configuration, else in the usual one. failed says why there is none.
func (k *Kind) installed(c *Config, ref pluginstore.Reference) (found *pluginstore.Record, failed error) {
	failed = pluginstore.ErrNone
	for _, folder := range []string{c.Folder, pluginstore.DefaultFolder(os.Getenv)} {
		if folder == "" {
			continue
		}
		found, err := pluginstore.Find(folder, ref, k.kind())
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, pluginstore.ErrNone) || !errors.Is(failed, pluginstore.ErrNone) {
			failed = err
		}
	}
	return nil, failed
}

// Installed is the installed plugin that a configuration names: its file and the SHA-256 of that, and its version. ok is false where it names a file, or one that is not installed.
func (k *Kind) Installed(c *Config) (found *pluginstore.Record, ok bool) {
	ref, err := pluginstore.Parse(c.Name)
	if c.File != "" || err != nil {
		return nil, false
	}
	if file, _, err := k.find(c); err == nil {
		if found, err := k.installed(c, ref); err == nil && sameFile(found.File(), file) {
			return found, true
		}
	}
	return nil, false
}

// Find is the file of a plugin. Nobody has compared it with its pin.
func (k *Kind) Find(c *Config) (file string, err error) {
	file, _, err = k.find(c)
	return file, err
}

// There reports whether there is a file of the plugin.
func (k *Kind) There(c *Config) bool {
	_, err := k.Find(c)
	return err == nil
}

func sameFile(a, b string) bool {
	a, err := filepath.Abs(a)
	return err == nil && a == b
}

// inPath finds a plugin in PATH.
func (k *Kind) inPath(c *Config, name, short string) (file string, err error) {
	file, err = exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		return "", fmt.Errorf("the %s %s is only in the current folder, which is not searched; give its path", k.Name, name)
	case err != nil && k.foreign(c, short):
		return "", fmt.Errorf("there is no %s %s in PATH, but %s, which is a plugin of another program: %s", k.Name, name, k.Foreign+short, k.Advice)
	case err != nil && c.Folder != "":
		return "", fmt.Errorf("there is no %s %s, neither in %s nor in PATH, and none is installed; put it there, give its path, or install it with: rung plugin install", k.Name, name, c.Folder)
	case err != nil:
		return "", fmt.Errorf("there is no %s %s in PATH, and none is installed; put it there, give its path, or install it with: rung plugin install", k.Name, name)
	}
	return filepath.Abs(file)
}

// foreign reports whether there is a plugin of this name of another program.
func (k *Kind) foreign(c *Config, short string) bool {
	if k.Foreign == "" {
		return false
	}
	if _, err := exec.LookPath(k.Foreign + short); err == nil {
		return true
	}
	_, err := os.Stat(filepath.Join(c.Folder, k.Foreign+short))
	return err == nil && c.Folder != ""
}

// NameCharacters are those that names of plugins are made of.
const NameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Failure is a plugin that did not do what the contract says. It is an internal error, never the job's.
type Failure struct {
	Kind   string // Kind.Name
	Plugin string // Config.Name
	Call   string // "Prepare"; empty where it does not matter
	// What happened, as the end of a sentence about the plugin: "has not answered for 20s".
	What string
	Err  error // may be nil
}

func (e *Failure) Error() string {
	text := fmt.Sprintf("the %s %q %s", cmp.Or(e.Kind, "plugin"), e.Plugin, e.What)
	if e.Call != "" {
		text += fmt.Sprintf(" (in its call %s)", e.Call)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error below.
func (e *Failure) Unwrap() error { return e.Err }
