//go:build !linux

package serve

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{Use: "init", Hidden: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("on this system containers have no first process")
	}}
}
