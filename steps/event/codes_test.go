package event_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
)

var update = flag.Bool("update", false, "rewrite the table of docs/errors.md")

// reasons are the failure reasons that GitLab's runner reports.
var reasons = []event.FailureReason{
	event.ReasonScript, event.ReasonSystem, event.ReasonTimeout, event.ReasonImagePull, event.ReasonConfiguration,
	event.ReasonExternalDependency, event.ReasonInterrupted, event.ReasonCanceled, event.ReasonUnknown,
}

func TestEveryCodeHasAKindAFaultAnExitCodeAndAFailureReason(t *testing.T) {
	t.Parallel()
	exits := map[event.Fault][]int{
		event.FaultUser: {event.ExitStepsFailed, event.ExitDefinition, event.ExitNotFound}, event.FaultTimeout: {event.ExitTimeout},
		event.FaultDenied: {event.ExitDenied}, event.FaultCancelled: {event.ExitInterrupted}, event.FaultSystem: {event.ExitSystem},
	}
	snake, seen := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`), map[event.Code]bool{}
	for _, info := range event.Codes {
		e := event.NewError(info.Code, "text")
		switch {
		case seen[info.Code] || !snake.MatchString(string(info.Code)):
			t.Errorf("%s is not a name of its own", info.Code)
		case e.Kind != info.Kind || !info.Code.Known():
			t.Errorf("%s has the kind %q", info.Code, e.Kind)
		case !slices.Contains(exits[e.Fault()], e.Kind.ExitCode()):
			t.Errorf("%s is the fault %q and exits with %d", info.Code, e.Fault(), e.Kind.ExitCode())
		case !slices.Contains(reasons, e.FailureReason()) || e.FailureReason() == event.ReasonUnknown:
			t.Errorf("%s has the failure reason %q", info.Code, e.FailureReason())
		case info.Meaning == "":
			t.Errorf("%s says nothing", info.Code)
		}
		seen[info.Code] = true
	}
	for _, name := range constants(t, "codes.go", "Code") {
		if !seen[event.Code(name)] {
			t.Errorf("the table of codes has no %s", name)
		}
	}
	for _, name := range constants(t, "codes.go", "ErrorKind") {
		if kind := event.ErrorKind(name); kind.Code() == "" {
			t.Errorf("the kind %s has no code", kind)
		}
	}
}

// constants are the values of the string constants of a type in a file.
func constants(t *testing.T, file, typ string) (values []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ +`+typ+` += "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		values = append(values, m[1])
	}
	if len(values) == 0 {
		t.Fatalf("%s has no constants of the type %s", file, typ)
	}
	return values
}

func TestErrorsOfWhichLittleIsKnownAreInternalOnes(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]*event.Error{"no kind": {}, "an unknown kind and code": {Kind: "newer", Code: "newer_code"}} {
		if err.Fault() != event.FaultSystem || err.Kind.ExitCode() != event.ExitSystem || err.FailureReason() != event.ReasonUnknown {
			t.Errorf("%s: fault %q, exit code %d, reason %q", name, err.Fault(), err.Kind.ExitCode(), err.FailureReason())
		}
	}
	if e := (&event.Error{Kind: event.ErrorStep, Code: "newer_code"}); e.FailureReason() != event.ReasonScript {
		t.Errorf("an unknown code of a known kind has the reason %q", e.FailureReason())
	}
	if event.ExitCode(event.Failure, nil) != event.ExitSystem || event.ExitCode(event.Success, nil) != event.ExitOK {
		t.Error("the exit codes without an error are wrong")
	}
}

func TestTheDocumentsListEveryCode(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/errors.md", "<!-- codes: go test ./steps/event -update -->\n", "<!-- end of codes -->\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	listed, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table of codes", file)
	}
	var table strings.Builder
	table.WriteString("\n| code | meaning | kind | fault | exit code | GitLab's failure reason |\n|---|---|---|---|---|---|\n")
	for _, info := range event.Codes {
		fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s | %d | `%s` |\n",
			info.Code, info.Meaning, info.Kind, info.Kind.Fault(), info.Kind.ExitCode(), info.Reason)
	}
	table.WriteString("\n")
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table.String(), listed); diff != "" {
		t.Errorf("%s is not up to date; go test ./steps/event -update rewrites it:\n%s", file, diff)
	}
}

func TestAnErrorNamesItsStepWhereItIsShown(t *testing.T) {
	t.Parallel()
	e := event.NewError(event.CodeExitStatus, "exec: exit status 2")
	if e.Error() != "exec: exit status 2" {
		t.Errorf("outside of steps it reads %q", e)
	}
	e.Step, e.StepName = "2.1", "crew/greet"
	for at, want := range map[string]string{"": `step "crew/greet": exec: exit status 2`, "2": `step "crew/greet": exec: exit status 2`, "2.1": "exec: exit status 2"} {
		if got := e.Within(at); got != want {
			t.Errorf("at %q it reads %q", at, got)
		}
	}
}

func TestErrorsInJSON(t *testing.T) {
	t.Parallel()
	t.Run("have the code and the fault", func(t *testing.T) {
		t.Parallel()
		e := event.TimedOut(event.TimeoutRun, 90_000_000_000)
		e.Step, e.StepName = "1", "build"
		data, err := json.Marshal(e)
		want := `{"code":"run_timeout","kind":"timeout","fault":"timeout","step":"1","step_name":"build",` +
			`"message":"the run timed out after 1m30s","timeout":{"of":"run","limit":"1m30s"}}`
		if err != nil || string(data) != want {
			t.Errorf("got %s, %v\nwant %s", data, err, want)
		}
		var back event.Error
		if err := json.Unmarshal(data, &back); err != nil || !cmp.Equal(back, *e) {
			t.Errorf("it comes back as %+v, %v", back, err)
		}
	})
	t.Run("of older traces name the step in the message", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]event.Error{
			`{"kind":"step","message":"step \"crew/greet\": exec: exit status 2"}`: {Kind: event.ErrorStep, StepName: "crew/greet", Message: "exec: exit status 2"},
			`{"kind":"system","message":"disk full","hint":"h"}`:                   {Kind: event.ErrorSystem, Message: "disk full", Hint: "h"},
			`{"kind":"step","message":"step \"lint\" exited"}`:                     {Kind: event.ErrorStep, Message: `step "lint" exited`},
			`{"code":"exit_status","kind":"step","message":"step \"a\": b"}`:       {Code: "exit_status", Kind: event.ErrorStep, Message: `step "a": b`},
		} {
			var got event.Error
			if err := json.Unmarshal([]byte(text), &got); err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s is read as %+v, %v", text, got, err)
			}
		}
	})
}
