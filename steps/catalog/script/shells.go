package script

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/shellscript"
)

// sectionName is the name of the section of a line, as gitlab-runner gives it.
func sectionName(index int) string { return fmt.Sprintf("section_script_step_%d", index) }

// sectionOptions fold a section, which holds nothing but the command.
const sectionOptions = "[hide_duration=true,collapsed=true]"

// powershell is for PowerShell of both kinds.
type powershell struct{ buffer }

func (w *powershell) begin(trace bool) {
	w.lines(`$ErrorActionPreference = "Stop"`)
	if trace {
		w.lines("Set-PSDebug -Trace 2")
	}
}

func (w *powershell) echo(text string) {
	w.lines("echo " + shellscript.Quote(green+text+reset, shellscript.Pwsh))
}

func (w *powershell) empty() { w.lines(`echo ""`) }

func (w *powershell) section(index int, first, rest string) {
	const now = `[DateTimeOffset]::UtcNow.ToUnixTimeSeconds()`
	mark := func(what, options string) string {
		return fmt.Sprintf(`[Console]::Out.Write('section_%s:' + %s + ':%s' + [char]13 + [char]27 + '[0K')`, what, now, sectionName(index)+options)
	}
	w.lines(mark("start", sectionOptions))
	w.echo("$ " + first + "\n" + rest)
	w.lines(mark("end", ""))
}

// line ends the script after a program that failed, and after a command of PowerShell that failed and did not stop it.
func (w *powershell) line(text string) {
	w.lines(text, "if(!$?) { Exit &{if($LASTEXITCODE) {$LASTEXITCODE} else {1}} }")
}

// batch is for cmd.
type batch struct{ buffer }

func (w *batch) begin(trace bool) {
	if trace {
		w.lines("@echo on")
		return
	}
	w.lines("@echo off")
}

func (w *batch) echo(text string) { w.lines("echo " + shellscript.EchoCmd(green+text+reset)) }

func (w *batch) empty() { w.lines("echo.") }

// section shows only how the command begins: cmd cannot tell the time of Unix.
func (w *batch) section(_ int, first, _ string) {
	w.echo("$ " + first + " # collapsed multi-line command")
}

func (w *batch) line(text string) {
	w.lines(strings.ReplaceAll(text, "\r\n", "\n"), "IF %errorlevel% NEQ 0 exit /b %errorlevel%")
}
