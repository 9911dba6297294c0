// Package plugintrial runs a suite of tests in a program that is not a test, and reads what it finds: so that somebody who has no Go can try a plugin.
package plugintrial

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Result is one case.
type Result struct {
	// Case is what was tried, as a sentence.
	Case string
	// Passed says that the plugin does that; Skipped that this machine cannot try it.
	Passed, Skipped bool
	// Details say what is wrong instead, a line each.
	Details []string
}

const (
	// suiteName is the test that all cases are part of.
	suiteName = "suite"
	maxLine   = 1 << 20
)

// Run starts a program that calls Suite, and calls each with every case when it has ended. args are the program and its arguments, env its variables beside this
// program's; log takes what it writes there, and may be nil.
func Run(ctx context.Context, args, env []string, log io.Writer, each func(Result)) (passed bool, err error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	living, err := cmd.StdinPipe() // ends with this program, so that the suite knows
	if err != nil {
		return false, err
	}
	defer living.Close()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	failed, count := results(out, each)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case count == 0:
		return false, errors.Join(errors.New("no case was tried"), err)
	case err != nil && (!errors.As(err, &exit) || failed == 0):
		return false, fmt.Errorf("the suite has ended before all was tried: %w", err)
	}
	return failed == 0, nil
}

// Suite runs a suite, and ends the program, or returns an exit code. only leaves out cases whose sentence does not have this text in it.
func Suite(only string, suite func(*testing.T)) int {
	testing.Init()
	only = strings.ReplaceAll(regexp.QuoteMeta(only), " ", "_")
	if err := flag.CommandLine.Parse([]string{"-test.v", "-test.run", "^" + suiteName + "$/" + only}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: suiteName, F: suite}}, nil, nil) // which ends the program
	return 0
}

// ended is the line with which package testing ends a case, and marked one that says which case the next lines are of.
var (
	ended  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	marked = regexp.MustCompile(`^=== (?:RUN|CONT|NAME|PAUSE)\s+(\S+)`)
	place  = regexp.MustCompile(`^\s+\w+\.go:\d+: `)
)

// results reads what package testing writes.
func results(in io.Reader, each func(Result)) (failed, count int) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	details, now := map[string][]string{}, ""
	for lines.Scan() {
		line := lines.Text()
		if m := marked.FindStringSubmatch(line); m != nil {
			now = m[1]
			continue
		}
		m := ended.FindStringSubmatch(line)
		if m == nil {
			details[now] = append(details[now], place.ReplaceAllString(line, ""))
			continue
		}
		name, ok := strings.CutPrefix(m[2], suiteName+"/")
		if !ok {
			continue
		}
		result := Result{Case: strings.ReplaceAll(strings.ReplaceAll(name, "/", ": "), "_", " "), Passed: m[1] == "PASS", Skipped: m[1] == "SKIP"}
		if !result.Passed {
			result.Details = details[m[2]]
		}
		if m[1] == "FAIL" {
			failed++
		}
		count++
		each(result)
	}
	return failed, count
}
