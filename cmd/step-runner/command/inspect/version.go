package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// VersionText is the version in one line.
func VersionText(p *command.Program) string {
	return fmt.Sprintf("step-runner %s (%s, %s/%s)\n", p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  command.Arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(a.Stdout).Encode(map[string]string{
					"version": a.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := io.WriteString(a.Stdout, VersionText(a.Program))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
