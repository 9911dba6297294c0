package source

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// actionFiles are the names that the definition of an action can have. A Dockerfile alone is a container action without metadata.
var actionFiles = []string{"action.yml", "action.yaml", "Dockerfile", "dockerfile"}

// IsActionFile reports whether a file of that name is the definition of a GitHub Action.
func IsActionFile(name string) bool { return slices.Contains(actionFiles, name) }

// Anchored returns a reference to an action of the repository itself ($/folder), or of the work directory, as one to an absolute folder.
// Others it returns as they are. The definition that refers to it is in the folder from.
func (r *Resolver) Anchored(ref *plan.Reference, from string) (*plan.Reference, error) {
	root := r.WorkDir
	if laid := r.laidOutAt(from); laid != nil && strings.HasPrefix(ref.Action, "$/") {
		root = laid.root
	}
	return anchored(ref, root)
}

func anchored(ref *plan.Reference, root string) (*plan.Reference, error) {
	action, err := plan.ParseAction(ref.Action)
	if err != nil {
		return nil, noAction(ref, err)
	}
	folder, inWorkDir := strings.CutPrefix(action.Folder, plan.WorkDirPrefix)
	if !inWorkDir && !action.Own {
		return ref, nil
	}
	out := *ref
	out.Action = filepath.ToSlash(filepath.Join(root, filepath.FromSlash(folder)))
	return &out, nil
}

func noAction(ref *plan.Reference, err error) error {
	return fmt.Errorf("%q is not an action: %w; write owner/repository@version, ./folder or docker://image", ref.Action, err)
}

// image makes the component of a container image that is used as an action. It has no files, and so no digest.
func (l *Local) image(ref *plan.Reference, from string) (*Component, error) {
	if err := l.checkAction(ref); err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, "runs: {using: docker, image: %q}\n", ref.Action)
	parsed, err := l.ParseAction(ref.Action, text)
	if err != nil {
		return nil, err
	}
	return &Component{Plan: parsed, Ref: ref.Text, Dir: from, Text: text}, nil
}

// isImage reports whether a reference names a container image.
func isImage(ref *plan.Reference) bool {
	return ref.Kind == plan.RefAction && strings.HasPrefix(ref.Action, plan.ImagePrefix)
}

// ImageOf is the image that a container action runs; "" for one that builds its own, and for all other components.
func ImageOf(c *plan.Component) string {
	if c == nil || c.Definition.Exec == nil {
		return ""
	}
	var command []string
	for _, word := range c.Definition.Exec.Command {
		command = append(command, word.Value.Str())
	}
	image, _, _ := ContainerCommand(command, value.Value{})
	return image
}

// checkAction says why a local action cannot be used.
func (l *Local) checkAction(ref *plan.Reference) error {
	if l.ParseAction == nil {
		return &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
	}
	return nil
}

// folderOf is the folder that a reference names in a package, with slashes.
func folderOf(ref *plan.Reference) string {
	switch ref.Kind {
	case plan.RefBuiltin:
		return ""
	case plan.RefAction:
		action, _ := plan.ParseAction(ref.Action) // parsed already, for its location
		return action.Path
	}
	return path.Join(ref.Path...)
}
