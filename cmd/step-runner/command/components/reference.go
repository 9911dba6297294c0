package components

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

// Reference reads an argument that is not a file: a reference, or a folder that exists.
func Reference(arg string) (*plan.Reference, error) {
	ref, err := gitlabsteps.ParseStaticReference(arg, diag.Span{})
	if err == nil {
		return ref, nil
	}
	if info, serr := os.Stat(arg); serr == nil && info.IsDir() && filepath.IsLocal(arg) {
		return gitlabsteps.ParseStaticReference("./"+filepath.ToSlash(filepath.Clean(arg)), diag.Span{})
	}
	return nil, Unknown(arg, err)
}

// Unknown is the error of an argument that is neither a file that exists nor a reference, which err says.
func Unknown(arg string, err error) *exit.Error {
	unknown := exit.Coded(exit.NotFound, "%q is neither a file nor a reference: %v", arg, err)
	file := slices.Contains([]string{".yml", ".yaml"}, filepath.Ext(arg)) && !strings.Contains(arg, "://")
	if file {
		unknown = exit.Coded(exit.NotFound, "the file %q does not exist", arg)
	}
	if near := exit.SimilarFile(arg); near != "" {
		return unknown.Hinted("did you mean %s?", near)
	}
	if file {
		return unknown.Hinted("correct the path; a relative one starts in the current folder")
	}
	return unknown.Hinted("write a step in a folder as ./FOLDER, and a file of steps as its path")
}
