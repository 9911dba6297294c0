// Package command is what all commands of the program share: the world around it, and how a command is made.
package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/source"
)

// Program is the world around the program, which main alone decides.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr *os.File
	Getenv         func(string) string
	Env            []string // NAME=VALUE
	Version        string
}

// LookupEnv reads a variable of the environment.
func (p *Program) LookupEnv(name string) (string, bool) {
	for _, pair := range p.Env {
		if n, text, _ := strings.Cut(pair, "="); n == name {
			return text, true
		}
	}
	return "", false
}

// Tell prints one line for people to standard error, whoever chose its words.
func (p *Program) Tell(line string) { fmt.Fprintln(p.Stderr, cleantext.Line(line)) }

// Read reads a file, or standard input for "-".
func (p *Program) Read(path string) (name string, text []byte, err error) {
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(p.Stdin, source.MaxFileSize+1))
		if err == nil && len(text) > source.MaxFileSize {
			err = exit.Coded(exit.Definition, "standard input is larger than %d MiB", source.MaxFileSize>>20)
		}
		return "stdin", text, err
	}
	text, err = source.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		err = exit.Coded(exit.Definition, "%v", err)
	}
	return path, text, err
}

// Variables are those of a plugin's process, each NAME=VALUE: a name alone stands for the value that this process has.
func (p *Program) Variables(names []string) (env []string) {
	for _, variable := range names {
		if !strings.Contains(variable, "=") {
			variable += "=" + p.Getenv(variable)
		}
		env = append(env, variable)
	}
	return env
}

// The modes of new files that hold what a command prints, less the umask. Traces have the logs of jobs.
const (
	Readable fs.FileMode = 0o666
	Private  fs.FileMode = 0o600
)

// WriteTo gives write standard output, or a file that appears only when it is complete, see wholefile.Output.
func (p *Program) WriteTo(path string, mode fs.FileMode, write func(io.Writer) error) error {
	if path == "-" || path == "" {
		return write(p.Stdout)
	}
	folder := filepath.Dir(path)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return exit.Coded(exit.NotFound, "writing %s: the folder %s does not exist", path, folder).Hinted("create the folder first, or correct the path")
	}
	if err := wholefile.Output(path, mode, write); err != nil {
		return exit.Coded(exit.System, "writing %s: %v", path, err)
	}
	return nil
}

// suggestionDistance is how many letters a mistyped command may differ by to be suggested.
const suggestionDistance = 2

// Group makes cmd one that holds others: alone it prints its help, and a word that is none of them is a usage error.
func Group(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = suggestionDistance
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := exit.Usage("unknown command %q for %q", args[0], cmd.CommandPath())
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return err.Hinted("did you mean `%s %s`?", cmd.CommandPath(), near[0])
		}
		return err.Hinted("see `%s --help`", cmd.CommandPath())
	}
}

// Arguments checks the number of arguments, and calls them what; cobra's own checks are not usage errors to us.
func Arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		if len(args) < least {
			return tooFew(cmd, least, most, what).Hinted("see `%s --help`", cmd.CommandPath())
		}
		return exit.Usage("too many arguments: %q", strings.Join(args[most:], " ")).Hinted("see `%s --help`", cmd.CommandPath())
	}
}

// tooFew names the one argument that is needed, or all of several: which of those is missing cannot be known.
func tooFew(cmd *cobra.Command, least, most int, what string) *exit.Error {
	if least == 1 {
		return exit.Usage("%s is missing", what)
	}
	number := strconv.Itoa(least)
	if least == 2 {
		number = "two"
	}
	if most < 0 {
		number = "at least " + number
	}
	return exit.Usage("%s needs %s arguments: %s", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), number, what)
}
