package trace

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/event"
)

// mark is a field in the tables and sentences of docs/trace.md that varies.
var mark = lazyregexp.New("`([a-z0-9_]+)`(?:, `([a-z0-9_]+)`)*(?: \\|)? ≠")

func TestTheListOfWhatVariesIsThatOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../../docs/trace.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## What varies")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/trace.md has no section about what varies")
	}
	var listed []string
	for line := range strings.Lines(section) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(cell, "`")
			listed = append(listed, name)
		}
	}
	if !slices.Equal(listed, Varying) {
		t.Errorf("docs/trace.md lists\n%q, the code\n%q", listed, Varying)
	}
	for _, name := range Varying {
		field := name[strings.LastIndexByte(name, '.')+1:]
		if !strings.Contains(string(page), "`"+field+"`") {
			t.Errorf("docs/trace.md does not describe %s", field)
		}
	}
	if n := len(mark().FindAllString(string(page), -1)); n < 8 {
		t.Errorf("docs/trace.md marks only %d fields", n)
	}
}

// Whatever else changes in a trace changes its comparable form; what varies does not.
func TestTheComparableFormLeavesOutWhatVariesAndNothingElse(t *testing.T) {
	parts := map[string]func(*Trace) any{
		"run":     func(tr *Trace) any { return &tr.Run },
		"runtime": func(tr *Trace) any { return &tr.Runtime },
		"step":    func(tr *Trace) any { return tr.Find("2.1") },
		"attempt": func(tr *Trace) any { return &tr.Find("2.1").Attempts[0] },
	}
	before := string(export(t, read(t, record(t, example)), "comparable"))
	for part, of := range parts {
		typ := reflect.TypeOf(of(read(t, record(t, example)))).Elem()
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			full := part + "." + name
			if full == "run.work_dir" || full == "run.secrets" || full == "step.log" || full == "step.id" {
				continue // replaced by what is the same in every run; see below
			}
			t.Run(full, func(t *testing.T) {
				changed := read(t, record(t, example))
				alter(t, reflect.ValueOf(of(changed)).Elem().Field(i))
				same := string(export(t, changed, "comparable")) == before
				if want := slices.Contains(Varying, full); same != want {
					t.Errorf("a change leaves the form the same: %v, want %v", same, want)
				}
			})
		}
	}
}

func TestTheComparableFormOfTwoRuns(t *testing.T) {
	run := func(folder, workDir, id, digest string, swapped bool) *Trace {
		return read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: id, WorkDir: workDir, Component: inline("tool"), DigestKey: id,
				Secrets: map[string]string{"TOKEN": "pbkdf2-sha256:" + digest}, Env: map[string]string{"HOME": folder + "/home"}})
			s.at(0, "1", event.StepStarted{Name: "tool", Kind: event.KindExec})
			s.at(0, "1", event.StepResolved{Ref: "./x", Dir: workDir + "/x", File: "func.yml", Digest: "sha256:12"})
			out, err := event.Log{Stream: event.Stdout, Data: []byte("in " + workDir + "/x\n")}, event.Log{Stream: event.Stderr, Data: []byte("oops\n")}
			if swapped {
				s.at(0, "1", err)
				s.at(0, "1", out)
			} else {
				s.at(0, "1", out)
				s.at(0, "1", err)
			}
			s.at(0, "1", event.StepFinished{Status: event.Success, Duration: time.Duration(len(id))})
			s.at(0, "", event.RunFinished{Status: event.Success})
		}))
	}
	a := export(t, run("/tmp/step-runner-1", "/home/me/job", "a", "aa", false), "comparable")
	b := export(t, run("/tmp/step-runner-22", "/srv/other", "bbb", "bb", true), "comparable")
	if string(a) != string(b) {
		t.Errorf("the forms differ:\n%s\n%s", a, b)
	}
	var doc map[string]any
	if err := json.Unmarshal(a, &doc); err != nil {
		t.Error(err)
	}
}

// TestWhereAStepWasConfinedIsNoDifference: a machine that cannot confine what was fetched runs it with the folders of the run.
func TestWhereAStepWasConfinedIsNoDifference(t *testing.T) {
	const folder = "/tmp/step-runner-1"
	made := func(confined bool) *Trace {
		own, env := folder, map[string]string(nil)
		if confined {
			own = folder + "/confined/1"
			env = map[string]string{"TMPDIR": own + "/tmp"}
		}
		return read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: "run", Env: map[string]string{"TMPDIR": folder + "/tmp"}})
			s.at(1, "1", event.StepStarted{Name: "fetched"})
			if !confined {
				s.at(1, "1", event.Warning{Message: "this machine cannot", Machine: true})
			}
			s.at(1, "1", event.ExecStarted{Attempt: 1, Command: []string{"tool", own + "/files/1-output.jsonl"}, Env: env, Confined: confined})
			s.at(2, "1", event.ExecFinished{Attempt: 1})
			s.at(2, "1", event.StepFinished{Status: event.Success})
			s.ends(event.Counts{})
		}))
	}
	confined, bare := made(true), made(false)
	if found, err := Diff(confined, bare, DiffOptions{}); err != nil || !found.Same {
		t.Errorf("the difference is %+v, %v", found, err)
	}
	if a, b := string(export(t, confined, "comparable")), string(export(t, bare, "comparable")); a != b {
		t.Errorf("the comparable form is\n%s\nand\n%s", a, b)
	}
}
