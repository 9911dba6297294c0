package engine

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/process"
)

const (
	// versionTime bounds how long an interpreter may take to say its version.
	versionTime = 2 * time.Second
	// maxVersion bounds what is kept of that, in bytes.
	maxVersion = 120
	// maxShebang bounds the first line of a script, as Linux does, in bytes.
	maxShebang = 256
	// maxInterpreters bounds how many interpreters interpret one another.
	maxInterpreters = 4
)

// versioned are the programs that are asked for their version, with the argument for that, by the names of their files.
var versioned = []struct {
	name lazyregexp.Regexp
	flag string
}{
	{lazyregexp.New(`^(?:bash|zsh|fish)$`), "--version"},
	{lazyregexp.New(`^python[0-9.]*$`), "-V"},
	{lazyregexp.New(`^(?:node|nodejs|pwsh|(?:ruby|perl)[0-9.]*)$`), "-v"},
}

// systemFolders are where the system keeps its programs.
var systemFolders = []string{"/bin", "/usr/bin", "/usr/local/bin"}

// versionOf asks an interpreter of the system for its version; "" where it is none. No other program is run: a step could have put it there,
// and it would run outside of what the step is confined to.
func versionOf(path string) string {
	if !slices.Contains(systemFolders, filepath.Dir(path)) || !ofTheSystem(path) || !ofTheSystem(filepath.Dir(path)) {
		return ""
	}
	for _, i := range versioned {
		if i.name().MatchString(filepath.Base(path)) {
			return firstLine(ask(path, i.flag))
		}
	}
	return ""
}

// ask runs a program, and returns the beginning of what it prints.
func ask(path, flag string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), versionTime)
	defer cancel()
	out := &beginning{}
	result, err := process.Run(ctx, nil, process.Spec{
		Args: []string{path, flag}, Dir: "/", Env: []string{"LC_ALL=C", "HOME=/nonexistent", "PATH=/usr/bin:/bin"}, Stdout: out, Stderr: out, Grace: time.Nanosecond,
		Tidy: true,
	})
	if err != nil || result.ExitCode != 0 {
		return nil
	}
	return out.Bytes()
}

// beginning keeps what is first written to it.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, 4*maxVersion-b.Len()))])
	return len(p), nil
}

// firstLine is the first line that has something in it, of printable ASCII.
func firstLine(text []byte) string {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		return strings.Map(func(c rune) rune {
			if c < ' ' || c > '~' {
				return '?'
			}
			return c
		}, string(line[:min(len(line), maxVersion)]))
	}
	return ""
}

// shebangOf is the command in the first line of a script; nil where it has none.
func shebangOf(file io.ReaderAt) []string {
	start := make([]byte, maxShebang)
	n, _ := file.ReadAt(start, 0)
	line, is := bytes.CutPrefix(start[:n], []byte("#!"))
	if !is {
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil
	}
	return words
}

// interpreterIn is the program that interprets a script with such a first line: what env finds, if that is asked.
func interpreterIn(words []string) string {
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word
		}
	}
	return words[0]
}

// isWritable reports whether others than its owner can write to a file.
func isWritable(info os.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }
