package executor

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxID bounds Job.ID, so that names that are made of it fit everywhere (a host's name has 63 characters).
const maxID = 40

// Validate returns an error when the job has no ID or ProjectName that names can be made of. Levels call it first.
func (j *Job) Validate() error {
	if j.ID == "" || len(j.ID) > maxID || strings.ContainsFunc(j.ID, notOfID) {
		return fmt.Errorf("the id of a job is 1 to %d letters, digits, - and _, not %q", maxID, j.ID)
	}
	if j.ProjectName == "." || strings.ContainsAny(j.ProjectName, "/\\\x00\n") || !filepath.IsLocal(j.ProjectName) {
		return fmt.Errorf("the project's folder cannot be called %q: that is not the name of a folder", j.ProjectName)
	}
	return nil
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func notOfID(r rune) bool { return !strings.ContainsRune(idCharacters, r) }
