package container

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
)

// imageFaults are parts of what engines say where a container's image, or what the job says of it, is why it does not start.
var imageFaults = []string{"executable file not found", "no such file or directory", "unable to find user", "unable to find group", "permission denied", "exec format error", "no command specified"}

// ofImage reports whether an image is why a container does not start. Engines put all that can be wrong into one text.
func ofImage(err error) bool {
	return slices.ContainsFunc(imageFaults, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// occupied is an error of making a folder in a container: the job's own mistake if the image has a file in that place.
func occupied(err error, image, folder string) error {
	if err == nil || !strings.Contains(err.Error(), "not a directory") {
		return err
	}
	return &executor.UserError{
		Message: fmt.Sprintf("image %s has a file in place of the folder %s, which jobs need, or of one above it", image, folder),
		Hint:    "take the file out of the image, or use another image", Err: err,
	}
}
