package source

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// ownFolder begins the words of a command that name a file of the component itself; alternatives are of one meaning.
var ownFolder = []string{"${{ func_dir }}/", "${{ step_dir }}/"}

// inside refuses a component whose definition names a file as its own that is not in root, the folder of its package: ../../ and links
// would make it run files of this machine, which no digest covers.
func inside(c *Component, what, root string) error {
	d := &c.Plan.Definition
	execs := []*plan.Exec{d.Exec}
	for _, hook := range []*plan.Hook{d.Pre, d.Post} {
		if hook != nil {
			execs = append(execs, hook.Exec)
		}
	}
	for _, x := range execs {
		if x == nil {
			continue
		}
		for _, word := range x.Command {
			if file := ownFile(word); file != "" && !within(root, filepath.Join(c.Dir, filepath.FromSlash(file))) {
				return &DeniedError{What: what, Why: fmt.Sprintf("it runs the file %s, which is outside of its package", file),
					Hint: "put the file into the package"}
			}
		}
	}
	return nil
}

// ownFile is the file of the component that a word of a command is, as seen from its folder; "" for another word.
func ownFile(word plan.Field) string {
	if word.Value.Kind() != value.String {
		return ""
	}
	for _, prefix := range ownFolder {
		if file, ok := strings.CutPrefix(word.Value.Str(), prefix); ok {
			return file
		}
	}
	return ""
}

// within reports whether a file is in a folder, also where links lead. One that does not exist leads nowhere.
func within(root, file string) bool {
	if rel, err := filepath.Rel(root, file); err != nil || !filepath.IsLocal(rel) {
		return false
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return true
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return false
	}
	rel, err := filepath.Rel(root, real)
	return err == nil && filepath.IsLocal(rel)
}
