// Package coverage is the code of builtin://coverage: the number that `coverage:` finds in a job's log.
package coverage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

// What is looked at.
const (
	// MaxLine is how much of a line counts, in bytes: the beginning.
	MaxLine = 256 << 10
	// MaxPattern is how long a pattern may be, in bytes.
	MaxPattern = 10_000
)

var (
	number = lazyregexp.New(`\d+(?:\.\d+)?`)
	// ansi are the sequences that colour a log, and those that mark its sections.
	ansi = lazyregexp.New(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])`)
)

type inputs struct {
	Pattern string `json:"pattern"`
	File    string `json:"file"`
}

// Run is builtin://coverage. That nothing matches is not a failure.
func Run(ctx context.Context, call *program.Call) error {
	var in inputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	pattern, err := ParsePattern(in.Pattern)
	if err != nil {
		return fmt.Errorf("the coverage pattern %q: %w", in.Pattern, err)
	}
	path := in.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(call.WorkDir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer f.Close()
	found, err := Find(ctx, f, pattern)
	switch {
	case err != nil:
		return fmt.Errorf("reading the log: %w", err)
	case found == "":
		fmt.Fprintf(call.Stdout, "coverage: nothing in the log matches %s\n", in.Pattern)
	default:
		fmt.Fprintf(call.Stdout, "coverage: %s%%\n", found)
	}
	return call.Output("coverage", value.OfString(found))
}

// ParsePattern reads a pattern as `coverage:` has it: a regular expression of RE2 between slashes, without flags.
func ParsePattern(text string) (*regexp.Regexp, error) {
	switch {
	case len(text) < 2 || text[0] != '/' || text[len(text)-1] != '/':
		return nil, errors.New("it must stand between slashes, with nothing behind the second: /Coverage: \\d+/; flags are written as (?i)")
	case len(text) > MaxPattern:
		return nil, fmt.Errorf("it is longer than %d bytes", MaxPattern)
	case len(text) == 2:
		return nil, errors.New("there is nothing between the slashes")
	}
	re, err := regexp.Compile(text[1 : len(text)-1])
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("%s: %s", bad.Code, bad.Expr)
	}
	return re, err
}

// Find reads a log and returns the coverage: the first number in the last match of the last line in which there is one. Where the pattern
// has groups, the last group of the match counts, as GitLab has it. Colours are no part of the text. It is "" when there is none.
func Find(ctx context.Context, log io.Reader, pattern *regexp.Regexp) (string, error) {
	r := bufio.NewReaderSize(log, 1<<16)
	found := ""
	line := make([]byte, 0, 1<<12)
	for {
		part, err := r.ReadSlice('\n')
		if room := MaxLine - len(line); room > 0 {
			line = append(line, part[:min(room, len(part))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if text := inLine(line, pattern); text != "" {
			found = text
		}
		if err != nil || ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		line = line[:0]
	}
}

// inLine returns the coverage that a line tells.
func inLine(line []byte, pattern *regexp.Regexp) string {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	for _, b := range line {
		if b == '\x1b' {
			line = ansi().ReplaceAll(line, nil)
			break
		}
	}
	matches := pattern.FindAllSubmatch(line, -1)
	if len(matches) == 0 {
		return ""
	}
	last := matches[len(matches)-1]
	return string(number().Find(last[len(last)-1]))
}
