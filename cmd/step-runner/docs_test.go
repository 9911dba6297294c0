package main

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

// TestCommandReference keeps docs/cli in step with the commands; `make generate` writes it.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	want := map[string]string{}
	eachCommand(func(name string, cmd *cobra.Command) {
		var page bytes.Buffer
		link := func(file string) string { return strings.ReplaceAll(file, "_", "-") }
		if err := doc.GenMarkdownCustom(cmd, &page, link); err != nil {
			t.Fatal(err)
		}
		want[name+".md"] = page.String()
	})

	docs := filepath.Join("..", "..", "docs", "cli")
	for file, text := range want {
		path := filepath.Join(docs, file)
		if *update {
			writePage(t, path, text)
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || strings.ReplaceAll(string(got), "\r\n", "\n") != text {
			t.Errorf("docs/cli/%s is out of date; run `make generate`", file)
		}
	}
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if _, ok := want[filepath.Base(page)]; !ok {
			t.Errorf("docs/cli/%s describes no command: remove it", filepath.Base(page))
		}
	}
}

// TestEveryCommandHasAManPage makes the man pages; scripts/man.sh keeps them. They are made here so that step-runner does not
// link what makes them.
func TestEveryCommandHasAManPage(t *testing.T) {
	t.Parallel()
	released := time.Unix(0, 0).UTC()
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		released = time.Unix(epoch, 0).UTC()
	}
	eachCommand(func(name string, cmd *cobra.Command) {
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
			writePage(t, filepath.Join(*man, name+".1"), page.String())
		}
	})
}

// eachCommand visits the commands that help lists, each with the name of its page: "step-runner-trace-show".
func eachCommand(visit func(name string, cmd *cobra.Command)) {
	p := &command.Program{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }}
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
	walk(rootCommand(p, nil))
}

func writePage(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
