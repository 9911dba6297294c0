package components

import (
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/steps/catalog"
)

// CompleteReference completes a reference to a step: a built-in one, else a file.
func CompleteReference(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	const scheme = "builtin://"
	if !strings.HasPrefix(scheme, typed) && !strings.HasPrefix(typed, scheme) || typed == "" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var found []string
	_ = fs.WalkDir(catalog.FS, ".", func(file string, _ fs.DirEntry, err error) error { // of an embedded folder
		if err == nil && path.Base(file) == "func.yml" && strings.HasPrefix(scheme+path.Dir(file), typed) {
			found = append(found, scheme+path.Dir(file))
		}
		return nil
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}
