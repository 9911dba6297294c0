// Command testreport turns the output of "go test -json", which it reads, into what a person reads: a line for each package,
// the whole output of each test that failed, and a summary. With -skips it also fails on every test that skipped itself and
// is not on the list in that file, so that a missing tool cannot pass for a passing test. With -retry it names the failed tests that
// are worth a second run alone: a few of many thousands, none of them with a data race or a panic.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	skips := flag.String("skips", "", "the `FILE` that lists the tests that may skip themselves")
	deferred := flag.String("deferred", "", "tests whose reason contains this `TEXT` may skip themselves: they run elsewhere")
	rerun := flag.String("rerun", "", "the `FILE` for a line with package and name of each top-level test that runs elsewhere, whole or with more")
	retry := flag.String("retry", "", "the `FILE` for a line with package and name of each top-level test that is worth a second run; empty where one failure is for good")
	module := flag.String("module", "github.com/rungci/rung", "the `PATH` that is left out of packages' names")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, files{*skips, *rerun, *retry}, *deferred, *module)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// files are those of the flags; an empty one is none.
type files struct{ skips, rerun, retry string }

func run(in io.Reader, out io.Writer, f files, deferred, module string) (ok bool, err error) {
	r := report{out: out, module: module, elsewhere: deferred, output: map[test][]string{}, rerun: map[test]bool{}, retry: map[test]bool{}}
	if f.skips != "" {
		text, err := os.ReadFile(f.skips)
		if err != nil {
			return false, err
		}
		if r.allowed, err = parseAllowed(string(text)); err != nil {
			return false, fmt.Errorf("%s: %w", f.skips, err)
		}
		r.strict = true
	}
	if err := r.read(in); err != nil {
		return false, err
	}
	if !r.canBeRetried() {
		clear(r.retry)
	}
	for file, tests := range map[string]map[test]bool{f.rerun: r.rerun, f.retry: r.retry} {
		if err := write(file, tests); err != nil {
			return false, err
		}
	}
	return r.finish(), nil
}

// write writes a line with package and name of each test; without a file it does nothing.
func write(file string, tests map[test]bool) error {
	if file == "" {
		return nil
	}
	var lines strings.Builder
	for _, t := range slices.SortedFunc(maps.Keys(tests), compare) {
		fmt.Fprintln(&lines, t.pkg, t.name)
	}
	return os.WriteFile(file, []byte(lines.String()), 0o644)
}

// allowance is a test that may skip itself.
type allowance struct{ folder, name, why string }

func parseAllowed(text string) ([]allowance, error) {
	var out []allowance
	for number, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		which, why, _ := strings.Cut(line, ":")
		folder, name, _ := strings.Cut(strings.TrimSpace(which), " ")
		if name == "" || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("line %d: want the package's folder, the test's name, a colon and a reason", number+1)
		}
		out = append(out, allowance{folder, strings.TrimSpace(name), strings.TrimSpace(why)})
	}
	return out, nil
}

// test names a test, or with an empty name its package.
type test struct{ pkg, name string }

func compare(a, b test) int {
	return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.name, b.name))
}

// action is an event of go test -json.
type action struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
}

type report struct {
	out    io.Writer
	module string
	// elsewhere is in the reason of tests that skip themselves because they run elsewhere; empty is none.
	elsewhere string
	strict    bool
	allowed   []allowance

	output                            map[test][]string // of tests that have not ended
	passed, failed, skipped, deferred int
	badPackages                       int
	unexpected                        []string // skips that are not allowed, a line each
	rerun                             map[test]bool
	retry                             map[test]bool // the top-level tests that failed
	forGood                           bool          // there was a data race or a panic
}

// maxRetried is how many tests may fail for want of time or luck, of more than ten thousand. More than that is a fault.
const maxRetried = 8

// canBeRetried reports whether every failure is a test's, and may be one of time or luck.
func (r *report) canBeRetried() bool {
	packages := map[string]bool{}
	for t := range r.retry {
		packages[t.pkg] = true
	}
	return !r.forGood && len(r.unexpected) == 0 && len(r.retry) <= maxRetried && len(packages) == r.badPackages
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line []byte) {
	var a action
	if json.Unmarshal(line, &a) != nil || a.Action == "" {
		_, _ = r.out.Write(line) // not of go test: what the go command itself says
		return
	}
	t := test{a.Package, a.Test}
	switch a.Action {
	case "build-output":
		io.WriteString(r.out, a.Output)
	case "output":
		r.forGood = r.forGood || strings.Contains(a.Output, "WARNING: DATA RACE") || strings.HasPrefix(a.Output, "panic: ")
		r.keep(t, a.Output)
	case "pass":
		if a.Test != "" {
			r.passed++
			r.runsElsewhere(t)
		}
		delete(r.output, t)
	case "skip":
		r.skip(t)
	case "fail":
		if a.Test == "" {
			r.badPackages++
		} else {
			r.failed++
			r.retry[test{t.pkg, topLevel(t.name)}] = true
		}
		r.print(t)
	}
}

// keep holds the output of a test back until it is known whether it failed. What a package says itself is shown at once.
func (r *report) keep(t test, output string) {
	if t.name != "" {
		r.output[t] = append(r.output[t], output)
		return
	}
	if output != "PASS\n" && !strings.HasPrefix(output, "coverage: ") {
		io.WriteString(r.out, output)
	}
}

func (r *report) print(t test) {
	for _, output := range r.output[t] {
		io.WriteString(r.out, output)
	}
	delete(r.output, t)
}

func (r *report) skip(t test) {
	if t.name == "" {
		return // a package without tests
	}
	if r.runsElsewhere(t) {
		r.deferred++
		delete(r.output, t)
		return
	}
	r.skipped++
	folder := strings.TrimPrefix(strings.TrimPrefix(t.pkg, r.module), "/")
	if r.strict && !slices.ContainsFunc(r.allowed, func(a allowance) bool { return a.matches(folder, t.name) }) {
		r.unexpected = append(r.unexpected, fmt.Sprintf("%s %s: %s", folder, t.name, reason(r.output[t])))
	}
	delete(r.output, t)
}

// runsElsewhere reports whether a test has said so. A part of it is run with the test that it belongs to.
func (r *report) runsElsewhere(t test) bool {
	said := func(line string) bool { return strings.Contains(line, r.elsewhere) }
	if r.elsewhere == "" || !slices.ContainsFunc(r.output[t], said) {
		return false
	}
	r.rerun[test{t.pkg, topLevel(t.name)}] = true
	return true
}

func topLevel(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

func (a allowance) matches(folder, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(a.name, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return err == nil && ok && a.folder == folder
}

// reason is what a test said when it skipped itself.
func reason(output []string) string {
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return "no reason given"
}

// finish prints the summary and reports whether all is well.
func (r *report) finish() bool {
	for _, t := range slices.SortedFunc(maps.Keys(r.output), compare) {
		if r.badPackages > 0 { // of a test that was cut short, by a crash for example
			r.print(t)
		}
	}
	if len(r.unexpected) > 0 {
		fmt.Fprintf(r.out, "\n%d tests skipped themselves that are not on the list of those that may (internal/house/allowed-skips.txt):\n", len(r.unexpected))
		for _, line := range r.unexpected {
			fmt.Fprintf(r.out, "  %s\n", line)
		}
	}
	if r.deferred > 0 {
		fmt.Fprintf(r.out, "\n%d tests wait for %q", r.deferred, r.elsewhere)
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	return r.failed == 0 && r.badPackages == 0 && len(r.unexpected) == 0
}
