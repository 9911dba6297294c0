package e2e

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Folders of checkouts of projects whose own cases are run through this program.
const (
	stepRunnerDir    = "RUNG_STEP_RUNNER_DIR"
	actDir           = "RUNG_ACT_DIR"
	gitLabCILocalDir = "RUNG_GITLAB_CI_LOCAL_DIR"
)

// checkout is the checkout that a variable names.
func checkout(t *testing.T, variable string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("needs a checkout of the other project: %s is not set", variable)
	}
	return dir
}

// differences are the cases of a suite that end otherwise here on purpose, each with its reason.
type differences map[string]string

// readDifferences reads conformance/NAME.txt: a line each, with the case and, after a colon, the reason.
func readDifferences(t *testing.T, name string) differences {
	t.Helper()
	file, err := os.Open(filepath.Join("conformance", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := differences{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || all[name] != "" {
			t.Fatalf("%s: %q is not a case and its reason, or is listed before", file.Name(), line)
		}
		all[name] = reason
	}
	return all
}

// judge holds what came of a case against the list. problem is "" for a case that ended as its project demands.
func (d differences) judge(t *testing.T, name, problem string) {
	t.Helper()
	reason, listed := d[name]
	switch {
	case listed && problem == "":
		t.Errorf("the case passes: remove it from the list of differences")
	case listed:
		t.Logf("differs on purpose: %s\n%s", reason, problem)
	case problem != "":
		t.Error(problem)
	}
}

// seen reports cases that the list names and the checkout does not have. Another version of the project may have removed them.
func (d differences) seen(t *testing.T, names map[string]bool) {
	t.Helper()
	for name := range d {
		if !names[name] {
			t.Logf("the checkout has no case %q", name)
		}
	}
}

// TestListsOfDifferencesGiveReasons holds the lists themselves: they are read without any checkout.
func TestListsOfDifferencesGiveReasons(t *testing.T) {
	for _, name := range []string{"step-runner", "act", "gitlab-ci-local"} {
		for c, reason := range readDifferences(t, name) {
			if len(strings.Fields(reason)) < 4 {
				t.Errorf("%s: the case %q has no reason that a reader understands: %q", name, c, reason)
			}
		}
	}
}
