// Package secrets is the code of the built-in steps that read secrets: builtin://secrets/vault.
//
// A secret leaves such a step as a sensitive output, so that it is masked from then on wherever it turns up; and as a file, or as a
// variable for later steps, where that is asked for. No error, and no line of the log, holds it, or what it was read with.
package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/value"
)

// secretMode is that of a file with a secret: for its owner alone.
const secretMode = 0o600

// target says where a secret goes besides the output.
type target struct {
	name   string // of the variable; "" is none
	file   bool   // into a file, whose path is the variable then
	folder string // for that file; "" is the folder for temporary files
}

// give hands a secret on.
func (t *target) give(call *program.Call, secret string) error {
	if len(strings.TrimSpace(secret)) < mask.MinLength {
		selection.Warn(call, "the secret is shorter than %d characters, and cannot be masked in logs", mask.MinLength)
	}
	if err := call.Output("value", value.OfString(secret)); err != nil {
		return err
	}
	text := secret
	if t.file {
		path, err := t.write(call, secret)
		if err != nil {
			return fmt.Errorf("writing the secret to a file: %w", err)
		}
		if err := call.Output("path", value.OfString(path)); err != nil {
			return err
		}
		text = path
	}
	if t.name == "" {
		return nil
	}
	return call.Export(t.name, text)
}

// write puts a secret into a new file, and returns its path, absolute. What is there under its name goes: a link is replaced, not followed.
func (t *target) write(call *program.Call, secret string) (string, error) {
	folder := t.folder
	if folder == "" {
		folder = call.Getenv("TMPDIR")
	}
	if folder == "" {
		folder = os.TempDir()
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(call.WorkDir, folder)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	f, err := create(folder, t.name)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(secret)
	return f.Name(), errors.Join(err, f.Close())
}

func create(folder, name string) (*os.File, error) {
	if name == "" {
		return os.CreateTemp(folder, "secret-") // which only its owner may read
	}
	path := filepath.Join(folder, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, secretMode)
}

// check reports a name that no variable can have, or that would lead out of the folder.
func (t *target) check() error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	switch {
	case t.name == "":
		return nil
	case strings.Trim(t.name, letters+"0123456789") != "" || !strings.Contains(letters, t.name[:1]):
		return fmt.Errorf("the name %q is none for a variable: letters, digits and _, and no digit first", t.name)
	}
	return nil
}
