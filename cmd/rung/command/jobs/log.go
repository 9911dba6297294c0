package jobs

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// The flags of gitlab-runner for its log, which stand before its commands or after them.
const (
	debugFlag, levelFlag, formatFlag = "debug", "log-level", "log-format"
)

// LogFlags declares the flags of gitlab-runner for its log, for all commands of a program: units and scripts have them anywhere. Only `run` writes a log, and obeys them.
func LogFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.Bool(debugFlag, false, "")
	f.StringP(levelFlag, "l", "", "")
	f.String(formatFlag, "", "")
	for _, name := range []string{debugFlag, levelFlag, formatFlag} {
		_ = f.MarkHidden(name)
	}
}

// logFlags are what they say; empty is what the configuration says.
type logFlags struct{ level, format string }

// read reads the flags of a command. --debug is a level, and comes before the other one, as in gitlab-runner.
func (l *logFlags) read(cmd *cobra.Command) error {
	f := cmd.Flags()
	debug, _ := f.GetBool(debugFlag)
	l.level, _ = f.GetString(levelFlag)
	l.format, _ = f.GetString(formatFlag)
	if l.level != "" {
		if err := command.OneOf("--"+levelFlag, l.level, "panic", "fatal", "error", "warning", "warn", "info", "debug", "trace"); err != nil {
			return err
		}
	}
	if l.format != "" {
		if err := command.OneOf("--"+formatFlag, l.format, "runner", "text", "json"); err != nil {
			return err
		}
	}
	if debug {
		l.level = "debug"
	}
	return nil
}
