// Package registration makes this machine known to GitLab as a runner, asks whether it still is, and takes it back: what is in config.toml and
// what GitLab knows stay the same.
//
//	Manager.Register, Verify, Unregister      a person's commands
//	Manager.ResetToken, Rotate                a new token before the old one ends; the manager's loop calls Rotate
//
// A token is in the file before anybody could lose it: the file is locked, and known to be writable, before GitLab is asked for a new one.
//
// Source: commands/{register,verify,unregister,reset_token}.go in gitlab-runner.
package registration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
)

// Manager is this machine, with the configuration at Path.
type Manager struct {
	Path string
	Info gitlab.Info // what GitLab is told
	// Now is the time; nil is the real one.
	Now func() time.Time
	// Issued is told of an entry's new token before that is in the file; may be nil. Its error is told, and the token is written all the same: it
	// is the only one.
	Issued func(r *config.Runner, t config.Token) error
	// Options may change those of a client, for tests; may be nil.
	Options func(*gitlab.Options)
}

func (m *Manager) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// VariableError says that an entry's address or token is not known: it names a variable that is not set. Nothing was asked of GitLab.
type VariableError struct{ Name string }

func (e *VariableError) Error() string {
	return fmt.Sprintf("the variable %s is not set, which the entry's url or token names", e.Name)
}

// client speaks to the entry's GitLab.
func (m *Manager) client(r *config.Runner) (*gitlab.Client, error) {
	if name := r.Unset(); name != "" {
		return nil, &VariableError{name}
	}
	c := &config.Config{Path: m.Path, ConnectionMaxAge: config.DefaultConnectionMaxAge}
	transport, err := c.Transport(r)
	if err != nil {
		return nil, err
	}
	o := gitlab.Options{URL: r.URL, Transport: transport, Info: m.Info, Timeout: time.Minute}
	o.Info.Executor, o.Info.Shell = r.Executor, r.Shell
	if levels, err := r.Levels(); err == nil && levels.Default.Rank() >= executor.Container.Rank() {
		f := &o.Info.Features
		f.Image, f.Services, f.ServiceVariables, f.ServiceMultipleAliases, f.ImageExecutorOpts, f.ServiceExecutorOpts = true, true, true, true, true, true
	}
	if m.Options != nil {
		m.Options(&o)
	}
	return gitlab.New(o)
}

// machine is the entry as GitLab has it.
func (m *Manager) machine(r *config.Runner) (gitlab.Runner, error) {
	id, err := config.SystemID(m.Path)
	if err != nil {
		return gitlab.Runner{}, fmt.Errorf("the ID that GitLab knows this machine by cannot be kept: %w", err)
	}
	return gitlab.Runner{Token: r.Token, SystemID: id}, nil
}

// authenticationPrefix is that of tokens of runners that were made in GitLab. An administrator may have put another one before it.
const authenticationPrefix = "glrt-"

// IsAuthenticationToken reports whether a token belongs to a runner that was made in GitLab, and not by a registration token.
func IsAuthenticationToken(token string) bool { return strings.Contains(token, authenticationPrefix) }

// Verdict is what GitLab says of an entry.
type Verdict string

// The verdicts.
const (
	Valid   Verdict = "valid"
	Removed Verdict = "removed" // the token is refused: the runner was deleted, or its token replaced
	Unknown Verdict = "unknown" // GitLab did not say
)

// Verify asks GitLab whether the entry's token is valid. With Unknown comes an error.
func (m *Manager) Verify(ctx context.Context, r *config.Runner) (Verdict, error) {
	_, err := m.verify(ctx, r)
	switch {
	case err == nil:
		return Valid, nil
	case gitlab.Status(err) == http.StatusForbidden:
		return Removed, nil
	}
	return Unknown, err
}

func (m *Manager) verify(ctx context.Context, r *config.Runner) (*gitlab.Registered, error) {
	client, err := m.client(r)
	if err != nil {
		return nil, err
	}
	machine, err := m.machine(r)
	if err != nil {
		return nil, err
	}
	return client.Verify(ctx, machine)
}

// Unregister takes the entry from GitLab and then from the file. A runner that was made in GitLab stays there, without this machine. What GitLab
// does not know any more is taken from the file alone.
func (m *Manager) Unregister(ctx context.Context, r *config.Runner) error {
	if err := m.leave(ctx, r); err != nil && gitlab.Status(err) != http.StatusForbidden && gitlab.Status(err) != http.StatusNotFound {
		return err
	}
	return m.Forget(r)
}

// leave takes the entry from GitLab.
func (m *Manager) leave(ctx context.Context, r *config.Runner) error {
	client, err := m.client(r)
	if err != nil {
		return err
	}
	machine, err := m.machine(r)
	if err != nil {
		return err
	}
	if IsAuthenticationToken(r.Token) {
		return client.UnregisterManager(ctx, machine)
	}
	return client.Unregister(ctx, machine)
}

// Forget takes the entry from the file alone.
func (m *Manager) Forget(r *config.Runner) error {
	return config.Edit(m.Path, func(text []byte) ([]byte, error) {
		index, err := m.find(text, r)
		if err != nil {
			return nil, err
		}
		return config.Remove(text, index)
	})
}

// find is the index of an entry in a text, which another program may have changed.
func (m *Manager) find(text []byte, r *config.Runner) (int, error) {
	report := config.Check(m.Path, text, os.Getenv)
	if err := report.Unusable(); err != nil {
		return 0, err
	}
	for i := range report.Config.Runners {
		if other := &report.Config.Runners[i]; other.URL == r.URL && other.Token == r.Token {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the entry %q is not in %s any more", r.Name, m.Path)
}

// spare is how many bytes more than the configuration has are tried.
const spare = 64 << 10

// writable returns an error where the changed configuration could not be written beside itself, as a change of it needs: also where the disk is full.
func writable(path string, text []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := scarcity.TryWrite(filepath.Dir(path), len(text)+spare); err != nil {
		return fmt.Errorf("%s cannot be changed: %w", path, err)
	}
	return nil
}
