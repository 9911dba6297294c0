package main

import (
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/internal/commandtest"
)

// allCommands are all commands.
func allCommands() *cobra.Command { return rootCommand(commandtest.Program(), nil) }

// TestCommandReference keeps docs/cli in step with the commands; `make generate` writes it.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	commandtest.Reference(t, allCommands(), filepath.Join("..", "..", "docs", "cli"))
}

// TestEveryCommandHasAManPage makes the man pages; scripts/man.sh keeps them.
func TestEveryCommandHasAManPage(t *testing.T) {
	t.Parallel()
	commandtest.Man(t, allCommands())
}
