package command

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// revisionLength is how many digits of a commit are shown.
const revisionLength = 12

// Version is the version of this build: what the linker set in built, or the commit that the program was built from, or "dev".
func Version(built string) string {
	if built != "" {
		return built
	}
	if revision := Revision(); revision != "" {
		return "dev-" + revision
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// Revision is the commit that the program was built from; empty if it was not built in a clone.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value[:min(revisionLength, len(setting.Value))]
		}
	}
	return ""
}

// VersionText is the version of the program with a name, in one line.
func VersionText(p *Program, name string) string {
	revision := ""
	if commit := Revision(); commit != "" {
		revision = "revision " + commit + ", "
	}
	return fmt.Sprintf("%s %s (%s%s, %s/%s)\n", name, p.Version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// VersionCommand is the command `version` of the program with a name.
func VersionCommand(p *Program, name string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "version prints the version, the commit and the Go version that this program was built with, and the system that it is for.",
		Args:  Arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(p.Stdout).Encode(map[string]string{
					"version": p.Version, "revision": Revision(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := io.WriteString(p.Stdout, VersionText(p, name))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
