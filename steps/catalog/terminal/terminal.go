// Package terminal is the code of builtin://terminal: a shell that somebody can attach to while a job runs.
package terminal

import (
	"context"

	"github.com/rungci/rung/steps/catalog/program"
)

// Run is builtin://terminal.
func Run(ctx context.Context, call *program.Call) error {
	var in inputs
	return call.Decode(&in)
}

type inputs struct{}
