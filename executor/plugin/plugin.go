// Package plugin runs executors that are programs of somebody else, through hashicorp/go-plugin over gRPC. To the rest of the program they
// are executors like any other.
//
// A plugin is not trusted to work. Every call has a limit; one that hangs, lies or crashes ends the jobs that it concerns, with a *Failure
// that says which plugin and what, and the next job starts it again. It is trusted with the machine: it runs as this user, and what runs
// is the file that the configuration pins.
package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rungci/rung/executor"
)

// Prefix begins the name of an executor plugin's file, and ProviderPrefix that of a provider plugin's.
const (
	Prefix         = "executor-plugin-"
	ProviderPrefix = "provider-plugin-"
)

// kind is what a plugin is, in messages.
type kind string

const (
	anExecutor kind = "executor plugin"
	aProvider  kind = "provider plugin"
)

// Config is what the configuration says of a plugin.
type Config struct {
	// Name is what it calls the plugin: letters, digits, - and _.
	Name string
	// File is its program; empty looks for Prefix+Name, or ProviderPrefix+Name, in Folder, and then in PATH.
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

	provider bool
}

func (c *Config) kind() kind {
	if c.provider {
		return aProvider
	}
	return anExecutor
}

// Definition is the plugin as a registry lists it. Its level is known once it is open; here it has the plugin's name.
func (c Config) Definition() executor.Definition {
	return executor.Definition{
		Level: executor.Level(c.Name), Summary: "the plugin " + c.Name,
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) { return Open(ctx, c, setup) },
	}
}

// find returns the plugin's file.
func (c *Config) find() (string, error) {
	if c.Name == "" || strings.Trim(c.Name, nameCharacters) != "" {
		return "", fmt.Errorf("the name of a plugin must be letters, digits, - and _, not %q", c.Name)
	}
	if c.File != "" {
		return filepath.Abs(c.File)
	}
	name := Prefix + c.Name
	if c.provider {
		name = ProviderPrefix + c.Name
	}
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
		return "", fmt.Errorf("the %s %s is only in the current folder, which is not searched; give its path", c.kind(), name)
	case err != nil && c.Folder != "":
		return "", fmt.Errorf("there is no %s %s, neither in %s nor in PATH; put it there, or give its path", c.kind(), name, c.Folder)
	case err != nil:
		return "", fmt.Errorf("there is no %s %s in PATH; put it there, or give its path", c.kind(), name)
	}
	return filepath.Abs(file)
}

const nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Failure is a plugin that did not do what the contract says. It is an internal error, never the job's.
type Failure struct {
	Kind   kind   // empty is an executor
	Plugin string // Config.Name
	Call   string // "Prepare"; empty where it does not matter
	// What happened, as the end of a sentence about the plugin: "has not answered for 20s".
	What string
	Err  error // may be nil
}

func (e *Failure) Error() string {
	text := fmt.Sprintf("the %s %q %s", cmp.Or(e.Kind, anExecutor), e.Plugin, e.What)
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
