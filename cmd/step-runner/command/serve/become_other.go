//go:build !unix

package serve

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) becomeCommand() *cobra.Command {
	return &cobra.Command{Use: "become", Hidden: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("on this system no process becomes another program")
	}}
}
