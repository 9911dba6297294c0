package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/steps/diag"
)

// The tables of an entry that hold the options of plugins.
const (
	PluginOptions   = "plugin.options"
	ProviderOptions = "provider.options"
	GroupOptions    = "autoscaler.plugin_config"
	MachineOptions  = "machine"
	// FleetOptions are those of the fleet, which a plugin may not be able to follow.
	FleetOptions = "fleet"
)

// PoolOptions is the table of the options of the plugin of a pool, which count from 0.
func PoolOptions(pool int) string { return fmt.Sprintf("fleet.pools[%d].plugin_config", pool) }

// TableError is an error about the options of a table of the entry, for Placed.
type TableError struct {
	Table string // as Placed has it
	Err   error
}

// Error implements error.
func (e *TableError) Error() string { return e.Err.Error() }

// Unwrap returns the error below.
func (e *TableError) Unwrap() error { return e.Err }

// OptionError is what is wrong with options of a plugin, with their places in the file.
type OptionError struct {
	Of       string // the plugin: `the executor plugin "wrap"`
	Problems diag.List
	Err      error
}

// Error has all of it in one line, as a log takes it: each with its place and the line of the file, if that may be shown.
func (e *OptionError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		if texts[i] = p.Error(); p.Source != "" {
			texts[i] += " (" + strings.TrimSpace(p.Source) + ")"
		}
	}
	return "the options of " + e.Of + " are wrong: " + strings.Join(texts, "; ")
}

// Unwrap returns the plugin's error, and the diagnostics.
func (e *OptionError) Unwrap() []error { return []error{e.Err, e.Problems} }

// Placed says where in the file the options are that an error of a plugin is about. Other errors stay as they are. table is where the entry has the options:
// PluginOptions, ProviderOptions, GroupOptions, MachineOptions, FleetOptions or PoolOptions; a TableError says another one.
func (c *Config) Placed(r *Runner, table string, err error) error {
	var wrong *pluginoption.Errors
	i, known := c.index(r)
	if !known || !errors.As(err, &wrong) {
		return err
	}
	var in *TableError
	if errors.As(err, &in) {
		table = in.Table
	}
	out := &OptionError{Of: wrong.Of, Err: err}
	base := fmt.Sprintf("runners[%d].%s", i, table)
	for _, one := range wrong.All {
		d := diag.Diagnostic{Message: one.Error()}
		d.Span, d.Source = c.doc.option(base, one.Path(), one.Key != "")
		out.Problems = append(out.Problems, d)
	}
	return out
}

// option is the place of a value below a table, or of its key; of what is not there, that of the nearest table or list that should have it.
func (d *document) option(base string, path []string, key bool) (diag.Span, string) {
	at, found := base, true
	for _, token := range path {
		next := at + "[" + token + "]"
		_, inList := d.vals[next]
		if _, isTable := d.keys[next]; !inList && !isTable {
			next = at + "." + token
		}
		_, isKey := d.keys[next]
		_, isValue := d.vals[next]
		if found = isKey || isValue; !found {
			break
		}
		at = next
	}
	if key || !found {
		return d.at(at, d.keys)
	}
	return d.at(at, d.vals)
}
