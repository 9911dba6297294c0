package trust

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/keys"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/publish/provenance"
	"github.com/rungci/rung/steps/signature"
)

// traceSigning is what trace sign was told.
type traceSigning struct {
	key       keys.SigningKey
	artifacts []string
	out       string
	force     bool
}

func (a *app) traceSignCommand() *cobra.Command {
	var s traceSigning
	cmd := &cobra.Command{
		Use:   "sign --key KEY TRACE",
		Short: "Sign a trace and the artifacts of its run",
		Long: `sign writes TRACE` + signature.Suffix + `: a signed in-toto statement with SLSA provenance: the run, its components, its outputs and the artifacts it
made. It covers every byte of the trace. Signing again with another key adds a signature if the trace and the artifacts are
the same. The trace of an unfinished run cannot be signed.

` + keys.PrivateKeysHelp + `

` + signExitCodesHelp,
		Example: `  step-runner trace sign --key ci.key --artifact dist/app.tar.gz trace.json
  step-runner trace verify --key ci.pub --artifact dist/app.tar.gz trace.json`,
		Args: command.Arguments(1, 1, "the trace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.signTrace(cmd.Context(), args[0], &s)
		},
	}
	f := cmd.Flags()
	s.key.Declare(f)
	f.StringArrayVar(&s.artifacts, "artifact", nil, "include the artifact `FILE`; can be repeated")
	f.StringVarP(&s.out, "output", "o", "", "write to `FILE` instead of TRACE"+signature.Suffix+"; - is standard output")
	f.BoolVar(&s.force, "force", false, "replace signatures over something else")
	return cmd
}

func (a *app) signTrace(ctx context.Context, path string, s *traceSigning) error {
	statement, err := traceStatement(path, s.artifacts)
	if err != nil {
		return err
	}
	key, err := s.key.Open(ctx, a.Program)
	if err != nil {
		return err
	}
	out := s.out
	if out == "" {
		out = path + signature.Suffix
	}
	envelope, err := a.signInto(out, statement, key, s.force)
	if err != nil {
		return err
	}
	a.saySigned(out, path, key, envelope)
	return nil
}

// traceStatement says what is so about the run whose trace is at path.
func traceStatement(path string, artifacts []string) (*signature.Statement, error) {
	l, err := tracefile.Load(path)
	if err != nil {
		return nil, err
	}
	t := l.Trace
	if t.Incomplete || l.SHA256 == "" {
		return nil, exit.Coded(exit.Definition, "%s: %v", path, &provenance.IncompleteError{}).Hinted("only the trace of a run that has ended can be signed")
	}
	if err := t.CheckLogs(); err != nil {
		return nil, exit.Coded(exit.Definition, "%s: %v", path, err)
	}
	file := provenance.File{Name: filepath.Base(path), SHA256: l.SHA256}
	var made []provenance.File
	for _, artifact := range artifacts {
		f, err := digestFile(artifact)
		if err != nil {
			return nil, err
		}
		made = append(made, f)
	}
	statement, err := provenance.Statement(t, file, made)
	var conflict *provenance.ConflictError
	if errors.As(err, &conflict) {
		return nil, exit.Coded(exit.Definition, "%s: %v", path, err)
	}
	if err != nil {
		return nil, exit.Coded(exit.BadUsage, "%v", err)
	}
	return statement, nil
}

// digestFile returns a file's digest, and the name that it has in statements.
func digestFile(path string) (provenance.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return provenance.File{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return provenance.File{}, exit.Usage("%s is a folder; only files have a digest", path).Hinted("pack it into an archive, or name the files in it")
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 256<<10)); err != nil {
		return provenance.File{}, exit.Coded(exit.System, "reading %s: %v", path, err)
	}
	return provenance.File{Name: subjectName(path), SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// subjectName is what a file is called in a statement: its path where that leads down from the current folder, else its last
// element, because the folders on this machine mean nothing elsewhere.
func subjectName(file string) string {
	name := filepath.ToSlash(filepath.Clean(file))
	if filepath.IsAbs(file) || strings.HasPrefix(name, "/") || name == ".." || strings.HasPrefix(name, "../") {
		return path.Base(name)
	}
	return name
}
