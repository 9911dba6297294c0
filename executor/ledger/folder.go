package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Folder is the user's folder for ledgers. It need not be there. Without a home folder it is one for temporary files, whose
// name is the user's own.
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
	return "", errors.New("there is no folder to write down in what is to be cleaned up; set HOME or XDG_STATE_HOME")
}
