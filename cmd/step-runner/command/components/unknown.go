package components

import "github.com/rungci/rung/cmd/step-runner/command/exit"

// Unknown is the error of an argument that is neither a file that exists nor a reference, which err says.
func Unknown(arg string, err error) *exit.Error {
	unknown := exit.Coded(exit.NotFound, "%q is neither a file nor a reference: %v", arg, err)
	if near := exit.SimilarFile(arg); near != "" {
		return unknown.Hinted("did you mean %s?", near)
	}
	return unknown.Hinted("write a step in a folder as ./FOLDER, and a file of steps as its path")
}
