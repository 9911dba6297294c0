package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// buildVersion is set by the linker: -X main.buildVersion=v1.2.3.
var buildVersion string

// version is the program's version: what it was built as, else the commit that Go recorded, else "dev".
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "dev-" + setting.Value[:min(12, len(setting.Value))]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "dev"
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(map[string]string{
					"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(a.stdout, "step-runner %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// asciiOnly reports whether the locale cannot show more than ASCII.
func asciiOnly(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			upper := strings.ToUpper(locale)
			return !strings.Contains(upper, "UTF-8") && !strings.Contains(upper, "UTF8") && (upper == "C" || upper == "POSIX" || strings.Contains(upper, "."))
		}
	}
	return false
}
