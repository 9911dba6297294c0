package config

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/wholefile"
)

// secretFile is beside the configuration.
const secretFile = ".rung_state_secret"

// StateSecret opens what the state folder has of runners that are not in the configuration any more. It is kept in .rung_state_secret beside the
// configuration at path, where the tokens are that open the rest, and is made if there is none. One that cannot be kept is an error.
func StateSecret(path string) ([]byte, error) {
	file := filepath.Join(filepath.Dir(path), secretFile)
	kept, err := os.ReadFile(file)
	if text := strings.TrimSpace(string(kept)); err == nil && text != "" {
		return []byte(text), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	secret := []byte(rand.Text())
	if err := wholefile.WriteSynced(file, fileMode, append(secret, '\n')); err != nil {
		return nil, err
	}
	return secret, nil
}
