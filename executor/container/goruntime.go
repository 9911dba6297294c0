package container

import (
	"slices"
	"strings"
)

// goVariables are read by the runtime of every Go program, such as the step-runner: an image's GOMEMLIMIT for its own programs must not end it.
var goVariables = []string{"GOMEMLIMIT", "GOGC", "GODEBUG", "GOMAXPROCS", "GOTRACEBACK"}

// GoVariables are those of an image's variables that the runtime of Go programs reads. The step-runner runs without them, and gives them to steps.
func GoVariables(env []string) (out []string) {
	for _, pair := range env {
		if name, _, _ := strings.Cut(pair, "="); slices.Contains(goVariables, name) {
			out = append(out, pair)
		}
	}
	return out
}
