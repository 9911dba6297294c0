// Package screen describes the terminal that the program writes to.
package screen

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"golang.org/x/term"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/ui"
)

// Color reports whether text for f should be coloured.
func Color(p *command.Program, f *os.File) bool {
	return ui.ColorWanted(p.Getenv, "auto", IsTerminal(f))
}

// JSON is where JSON is written to that is to be in the file: on a terminal, what would act or hide is escaped.
func JSON(f *os.File) io.Writer {
	if IsTerminal(f) {
		return &cleantext.JSONWriter{W: f}
	}
	return f
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Size returns the width and height of a terminal, and a common size for what is none.
func Size(f *os.File) (width, height int) {
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return 80, 24
	}
	return w, h
}

// ASCIIOnly reports whether the locale cannot show more than ASCII.
func ASCIIOnly(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			upper := strings.ToUpper(locale)
			return !strings.Contains(upper, "UTF-8") && !strings.Contains(upper, "UTF8") && (upper == "C" || upper == "POSIX" || strings.Contains(upper, "."))
		}
	}
	return false
}

// resizeEvery is how often the size of the terminal is looked at while a shell is open: not every system tells of changes.
const resizeEvery = 500 * time.Millisecond

// WatchSize sends the size of a terminal, and every new one.
func WatchSize(f *os.File) (<-chan executor.Size, func()) {
	sizes, done := make(chan executor.Size, 1), make(chan struct{})
	go func() {
		tick := time.NewTicker(resizeEvery)
		defer tick.Stop()
		var last executor.Size
		for {
			w, h := Size(f)
			if size := (executor.Size{Columns: uint16(w), Rows: uint16(h)}); size != last {
				last = size
				select {
				case sizes <- size:
				case <-done:
					return
				}
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return sizes, func() { close(done) }
}

// The values of --progress and --show.
var (
	progressModes = []string{string(ui.ModeAuto), string(ui.ModeTTY), string(ui.ModePlain), string(ui.ModeQuiet), string(ui.ModeJSON)}
	foldModes     = []string{string(ui.FoldAuto), string(ui.FoldGitLab), string(ui.FoldGitHub), string(ui.FoldNone)}
	showModes     = []string{string(ui.ShowAll), string(ui.ShowFail), string(ui.ShowNone)}
)

// CompleteView completes the values of the flags of a view.
func CompleteView(cmd *cobra.Command) {
	command.Complete(cmd, "progress", progressModes...)
	command.Complete(cmd, "show", showModes...)
	if cmd.Flags().Lookup("fold") != nil {
		command.Complete(cmd, "fold", foldModes...)
	}
}

// ViewFlags say how a run is shown.
type ViewFlags struct {
	Progress string
	Show     string
	Fold     string
	Verbose  int
	Quiet    bool
}

// Options are those of a view that writes what is for standard output to stdout.
func (o *ViewFlags) Options(p *command.Program, stdout *os.File) (ui.Options, error) {
	mode, err := ui.ParseMode(o.Progress)
	if err != nil {
		return ui.Options{}, command.OneOf("--progress", o.Progress, progressModes...)
	}
	show, err := ui.ParseShow(o.Show)
	if err != nil {
		return ui.Options{}, command.OneOf("--show", o.Show, showModes...)
	}
	fold, err := ui.ParseFold(o.Fold)
	if err != nil {
		return ui.Options{}, command.OneOf("--fold", o.Fold, foldModes...)
	}
	if fold == ui.FoldAuto {
		fold = ui.FoldFor(p.Getenv)
	}
	if o.Quiet {
		mode = ui.ModeQuiet
	}
	return ui.Options{
		Mode: mode, Show: show, Fold: fold, Verbose: o.Verbose, Stdout: stdout, Stderr: p.Stderr,
		StdoutTTY: IsTerminal(stdout), StderrTTY: IsTerminal(p.Stderr),
		Width:  func() int { w, _ := Size(p.Stderr); return w },
		Height: func() int { _, h := Size(p.Stderr); return h },
		Color:  Color(p, p.Stderr), ASCII: ASCIIOnly(p.Getenv),
	}, nil
}
