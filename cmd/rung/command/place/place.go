// Package place is what commands about the configuration share: where it is, which of its entries are meant, and errors as exit codes.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/registration"
)

// CodesHelp is for commands that speak with GitLab.
const CodesHelp = `Exit codes: 0 success · 2 usage · 3 invalid configuration · 4 not allowed: GitLab refuses a token · 5 internal error: GitLab does not answer
· 6 not found · 130 interrupted`

// File is the flag that says where the configuration is.
type File struct {
	p    *command.Program
	path string
}

// Flag adds --config to a command.
func Flag(p *command.Program, cmd *cobra.Command) *File {
	f := &File{p: p}
	cmd.Flags().StringVarP(&f.path, "config", "c", "", "read `FILE` (CONFIG_FILE)")
	return f
}

// Path is the flag's value, else that of the variable CONFIG_FILE, else where gitlab-runner has the file for this user.
func (f *File) Path() string {
	switch {
	case f.path != "":
		return f.path
	case f.p.Getenv("CONFIG_FILE") != "":
		return f.p.Getenv("CONFIG_FILE")
	}
	return config.DefaultPath()
}

// Given reports whether the flag or the variable names the file.
func (f *File) Given() bool { return f.path != "" || f.p.Getenv("CONFIG_FILE") != "" }

// Read reads the configuration.
func (f *File) Read() (*config.Config, error) {
	c, err := config.Read(f.Path())
	return c, Missing(err, f.Path())
}

// Missing adds to the error of a configuration that does not exist how to write it. Other errors, and nil, are as before.
func Missing(err error, path string) error {
	if !errors.Is(err, fs.ErrNotExist) || exit.SimilarFile(path) != "" { // a similar name is the better hint
		return err
	}
	return exit.Coded(exit.NotFound, "%v", err).Hinted("`%s` writes it; --config names another one", Register(path))
}

// Register is the command that writes a configuration.
func Register(path string) string {
	if path == config.DefaultPath() {
		return "rung register"
	}
	return "rung register --config " + shellword.Of(path)
}

// Manager is this machine with that configuration.
func (f *File) Manager() *registration.Manager {
	return &registration.Manager{Path: f.Path(), Info: registration.Info(f.p.Version, command.Revision())}
}

// Choice are the flags that say which entries are meant.
type Choice struct {
	Name, URL string
	ID        int64
	Token     string // the whole of it, or what is shown of it
	All       bool
}

// Of are the entries that were chosen. The error says that there are none.
func (c *Choice) Of(all []config.Runner, path string) ([]*config.Runner, error) {
	var out []*config.Runner
	for i := range all {
		r := &all[i]
		if c.All || (c.Name == "" || c.Name == r.Name) && (c.URL == "" || c.URL == r.URL) && (c.Token == "" || c.Token == r.Token || c.byBeginning(r)) && (c.ID == 0 || c.ID == r.ID) {
			out = append(out, r)
		}
	}
	if len(out) == 0 && len(all) == 0 {
		return nil, exit.Coded(exit.NotFound, "%s has no entries", path).Hinted("see `rung register`")
	}
	if len(out) == 0 {
		return nil, exit.Coded(exit.NotFound, "%s has no such entry", path).Hinted("see `rung list`")
	}
	return out, nil
}

// byBeginning reports whether an entry is chosen by what is shown of its token; of a short token that is nothing.
func (c *Choice) byBeginning(r *config.Runner) bool {
	return c.Token == r.Short() && strings.Trim(c.Token, "*") != ""
}

// One returns an error where an entry is named, and it is not clear which: what is done cannot be taken back.
func (c *Choice) One(chosen []*config.Runner) error {
	named := c.Name != "" || slices.ContainsFunc(chosen, func(r *config.Runner) bool { return c.Token != "" && c.Token != r.Token })
	if !named || len(chosen) < 2 {
		return nil
	}
	var all []string
	for _, r := range chosen {
		all = append(all, fmt.Sprintf("%s (%s)", cleantext.Line(r.Name), r.Short()))
	}
	return exit.Usage("%d entries are meant: %s", len(chosen), strings.Join(all, ", ")).Hinted("choose one of them with --token: what is shown of it, or all of it")
}

// Given reports whether anything was chosen.
func (c *Choice) Given() bool { return *c != Choice{} }

// Failure gives an error of GitLab its exit code.
func Failure(err error) error {
	var server *registration.ServerError
	var network *gitlab.NetworkError
	var variable *registration.VariableError
	switch {
	case errors.As(err, &server):
		return exit.Usage("%v", err).Hinted("omit --tag-list, --run-untagged, --locked, --access-level, --maximum-timeout, --paused and --maintenance-note")
	case errors.As(err, &variable):
		return exit.Coded(exit.Definition, "%v", err).Hinted("set it for this command as for the service of rung")
	case gitlab.Status(err) == http.StatusForbidden, gitlab.Status(err) == http.StatusUnauthorized:
		return exit.Coded(exit.Denied, "%v", err).Hinted("GitLab does not accept the token: it may be mistyped, of another GitLab, expired, or its runner deleted")
	case gitlab.Status(err) == http.StatusGone, gitlab.Status(err) == http.StatusUnprocessableEntity:
		return exit.Coded(exit.Denied, "%v", err)
	case errors.As(err, &network):
		return exit.Coded(exit.System, "%v", err).Hinted("check the address, the network and, for certificates, tls-ca-file")
	}
	return err
}
