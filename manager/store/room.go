package store

import (
	"fmt"
	"path/filepath"

	"github.com/rungci/rung/internal/scarcity"
)

// Room is how many bytes have to fit into a manager's state folder for a job to be asked for: its record, and the beginning of its log.
const Room = 256 << 10

// FolderError says why a manager's state folder cannot be used.
type FolderError struct {
	Folder string
	Err    error
}

func (e *FolderError) Error() string {
	fix := "choose another folder (--state)"
	if scarcity.DiskFull(e.Err) {
		fix = "make room, or " + fix
	}
	return fmt.Sprintf("the state folder %s cannot be used: %v; %s", filepath.Clean(e.Folder), e.Err, fix)
}

// Unwrap returns the error below.
func (e *FolderError) Unwrap() error { return e.Err }

// HasRoom says why the state of another job does not fit into a manager's state folder.
func HasRoom(folder string) error {
	if err := scarcity.TryWrite(folder, Room); err != nil {
		return &FolderError{folder, err}
	}
	return nil
}
