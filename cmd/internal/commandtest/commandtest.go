// Package commandtest holds what every program's commands are tested for: help that fits a terminal, a reference in docs/cli, man pages.
package commandtest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/rungci/rung/cmd/step-runner/command"
)

var (
	update = flag.Bool("update", false, "write the command reference")
	man    = flag.String("man", "", "write the man pages to this `DIR`")
)

// Program is the world around commands that are only looked at.
func Program() *command.Program {
	return &command.Program{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }}
}

// Each visits the commands that help lists, each with the name of its page: "step-runner-trace-show".
func Each(root *cobra.Command, visit func(name string, cmd *cobra.Command)) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		cmd.DisableAutoGenTag = true
		cmd.Long = command.Wrap(cmd.Long, command.HelpWidth)
		visit(strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// Reference keeps the pages of a program in a folder in step with its commands; -update writes them.
func Reference(t *testing.T, root *cobra.Command, folder string) {
	t.Helper()
	want := map[string]string{}
	Each(root, func(name string, cmd *cobra.Command) {
		var page bytes.Buffer
		link := func(file string) string { return strings.ReplaceAll(file, "_", "-") }
		if err := doc.GenMarkdownCustom(cmd, &page, link); err != nil {
			t.Fatal(err)
		}
		want[name+".md"] = page.String()
	})
	for file, text := range want {
		path := filepath.Join(folder, file)
		if *update {
			WritePage(t, path, text)
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || strings.ReplaceAll(string(got), "\r\n", "\n") != text {
			t.Errorf("docs/cli/%s is out of date; run `make generate`", file)
		}
	}
	pages, err := filepath.Glob(filepath.Join(folder, root.Name()+"*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if _, ok := want[filepath.Base(page)]; !ok {
			t.Errorf("docs/cli/%s describes no command: remove it", filepath.Base(page))
		}
	}
}

// Man makes the man pages; -man, which scripts/man.sh gives, keeps them. They are made in tests so that no program links what makes them.
func Man(t *testing.T, root *cobra.Command) {
	t.Helper()
	released := time.Unix(0, 0).UTC()
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		released = time.Unix(epoch, 0).UTC()
	}
	Each(root, func(name string, cmd *cobra.Command) {
		var page bytes.Buffer
		header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "Rung", Manual: "Rung", Date: &released}
		if err := doc.GenMan(cmd, header, &page); err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{".SH NAME", ".SH SYNOPSIS"} {
			if !strings.Contains(page.String(), section) {
				t.Errorf("the man page of %s has no %s", cmd.CommandPath(), section)
			}
		}
		if *man != "" {
			WritePage(t, filepath.Join(*man, name+".1"), page.String())
		}
	})
}

// Help checks that every help text fits a terminal of 80 columns, and that it is made without templates: they would link text/template (see
// command.VersionFlag).
func Help(t *testing.T, root *cobra.Command) {
	t.Helper()
	var plain cobra.Command
	Each(root, func(_ string, cmd *cobra.Command) {
		if cmd.UsageTemplate() != plain.UsageTemplate() || cmd.HelpTemplate() != plain.HelpTemplate() || cmd.VersionTemplate() != plain.VersionTemplate() {
			t.Errorf("%s has a template of its own", cmd.CommandPath())
		}
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(help.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > command.HelpWidth {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
	})
}

// WritePage writes a file and its folders.
func WritePage(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
