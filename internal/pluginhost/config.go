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
)

// Kind is a contract that plugins serve.
type Kind struct {
	// Name is what messages call such a plugin: "executor plugin".
	Name string
	// Prefix begins the names of their files: "executor-plugin-".
	Prefix string
	// Service is the name of its gRPC service, which has a call Describe that answers at any time.
	Service string
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
	// Name is what it calls the plugin: letters, digits, - and _.
	Name string
	// File is its program; empty looks for the prefix of its kind and Name in Folder, and then in PATH.
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

// find returns the plugin's file.
func (k *Kind) find(c *Config) (string, error) {
	if c.Name == "" || strings.Trim(c.Name, NameCharacters) != "" {
		return "", fmt.Errorf("the name of a plugin must be letters, digits, - and _, not %q", c.Name)
	}
	if c.File != "" {
		return filepath.Abs(c.File)
	}
	name := k.Prefix + c.Name
	if c.Folder != "" {
		file := filepath.Join(c.Folder, name)
		if runtime.GOOS == "windows" {
			file += ".exe"
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(file)
		}
	}
	file, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		return "", fmt.Errorf("the %s %s is only in the current folder, which is not searched; give its path", k.Name, name)
	case err != nil && k.foreign(c):
		return "", fmt.Errorf("there is no %s %s in PATH, but %s, which is a plugin of another program: %s", k.Name, name, k.Foreign+c.Name, k.Advice)
	case err != nil && c.Folder != "":
		return "", fmt.Errorf("there is no %s %s, neither in %s nor in PATH; put it there, or give its path", k.Name, name, c.Folder)
	case err != nil:
		return "", fmt.Errorf("there is no %s %s in PATH; put it there, or give its path", k.Name, name)
	}
	return filepath.Abs(file)
}

// foreign reports whether there is a plugin of this name of another program.
func (k *Kind) foreign(c *Config) bool {
	if k.Foreign == "" {
		return false
	}
	_, err := exec.LookPath(k.Foreign + c.Name)
	return err == nil
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
