package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Folder is the user's folder for ledgers, which may not exist yet. Without a home folder it is a temporary one of the user's own.
func Folder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rung"), nil
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "rung"), nil
	}
	if dir := os.TempDir(); filepath.IsAbs(dir) {
		return filepath.Join(dir, fmt.Sprintf("rung-state-%d", os.Getuid())), nil
	}
	return "", errors.New("cannot create the cleanup ledger: there is no home folder; set HOME or XDG_STATE_HOME")
}
