package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write the man pages and the command reference anew")

// TestCommandReference keeps docs/man and docs/cli what the commands say of themselves; `make generate` writes them.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	a := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: func(string) string { return "" }}
	want := map[string]string{}
	released := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		cmd.DisableAutoGenTag = true
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		var man, page bytes.Buffer
		header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "Rung", Manual: "Rung", Date: &released}
		if err := doc.GenMan(cmd, header, &man); err != nil {
			t.Fatal(err)
		}
		link := func(file string) string { return strings.ReplaceAll(file, "_", "-") }
		if err := doc.GenMarkdownCustom(cmd, &page, link); err != nil {
			t.Fatal(err)
		}
		want[filepath.Join("man", name+".1")] = man.String()
		want[filepath.Join("cli", name+".md")] = page.String()
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(a.rootCommand())

	docs := filepath.Join("..", "..", "docs")
	for file, text := range want {
		path := filepath.Join(docs, file)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || strings.ReplaceAll(string(got), "\r\n", "\n") != text {
			t.Errorf("docs/%s is not what the command says of itself; run `make generate`", filepath.ToSlash(file))
		}
	}
}
