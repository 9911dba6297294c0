package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// diffOf compares the example with the example that change has changed, and returns the difference as text.
func diffOf(t *testing.T, change func(*Trace)) (*Difference, string) {
	t.Helper()
	a, b := read(t, record(t, example)), read(t, record(t, example))
	change(b)
	return differenceOf(t, a, b)
}

func differenceOf(t *testing.T, a, b *Trace) (*Difference, string) {
	t.Helper()
	d, err := Diff(a, b, DiffOptions{Logs: true})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := d.WriteText(&out, DiffTextOptions{}); err != nil {
		t.Fatal(err)
	}
	return d, out.String()
}

func TestDiffSaysWhatChanged(t *testing.T) {
	one := 1
	for _, c := range []struct {
		name   string
		change func(*Trace)
		want   string
	}{
		{"nothing", func(*Trace) {}, "same: no difference in 7 steps\n"},
		{"a run that failed otherwise", func(b *Trace) { b.Run.Status, b.Run.ExitCode = event.Cancelled, nil },
			"run\n  - status: failure\n  + status: cancelled\n  - exit code: 1\ndifferent: the run differs\n"},
		{"an input, by type", func(b *Trace) { b.Find("2").Inputs["level"] = text("3") },
			"step build\n  - input level: 3\n  + input level: \"3\"\ndifferent: 1 of 7 steps changed\n"},
		{"a step inside a step", func(b *Trace) { b.Find("2.1").Attempts[1].Command[1] = "some files" },
			"step build / compile\n  - command, attempt 2: make 'all files'\n  + command, attempt 2: make 'some files'\n" +
				"different: 1 of 7 steps changed\n"},
		{"a component and what it means", func(b *Trace) {
			b.Find("2").Resolved.Digest = "sha256:cdef"
			b.Components["sha256:cdef/func.yml"] = &plan.Component{Definition: plan.Definition{Steps: []plan.Step{{Name: "link", Inline: inline("make")}}}}
		}, "step build\n  - component: sha256:abcd\n  + component: sha256:cdef\n    @@ -4,5 +4,5 @@\n         \"steps\": [\n           {\n" +
			"    -        \"name\": \"compile\",\n    +        \"name\": \"link\",\n             \"inline\": {\n               \"spec\": {},\n" +
			"different: 1 of 7 steps changed\n"},
		{"a component that means the same", func(b *Trace) {
			b.Find("2").Resolved.Digest = "sha256:cdef"
			b.Components["sha256:cdef/func.yml"] = b.Components["sha256:abcd/func.yml"]
		}, "step build\n  - component: sha256:abcd\n  + component: sha256:cdef\n    the definition means the same\n" +
			"different: 1 of 7 steps changed\n"},
		{"a step that was skipped now has no fields to compare", func(b *Trace) {
			*b.Find("2") = Step{ID: "2", Name: "build", Title: "Build it", Status: event.Skipped, Skipped: "if: false"}
		}, "step build\n  - status: success\n  + status: skipped\n  + skip reason: if: false\ndifferent: 1 of 6 steps changed\n"},
		{"a step that is gone and one that is new", func(b *Trace) {
			b.Steps[0] = &Step{ID: "1", Name: "lint", Kind: event.KindComponent, Status: event.Success}
		}, "+ step lint (only in B)\n- step hello (only in A)\ndifferent: 1 only in A, 1 only in B\n"},
		{"a step that was renamed", func(b *Trace) { b.Find("3.2").Name = "units" },
			"step checks / test\n  - name: test\n  + name: units\ndifferent: 1 of 7 steps changed\n"},
		{"a sensitive value, by the same key", func(b *Trace) { b.Find("2").Outputs["key"] = event.Redacted("hmac:10") },
			"step build\n  + output key: [sensitive], another value\ndifferent: 1 of 7 steps changed\n"},
		{"a secret that is no more", func(b *Trace) { b.Run.Secrets = nil },
			"run\n  - secret TOKEN: [sensitive]\ndifferent: the run differs\n"},
		{"an error", func(b *Trace) {
			b.Find("3.1").Error = &event.Error{Kind: event.ErrorTimeout, Message: "too slow"}
			b.Find("3.1").ExitCode = &one
		}, "step checks / lint\n  - error: step \"lint\" exited with status 1\n  + error: too slow (timeout)\ndifferent: 1 of 7 steps changed\n"},
		{"a time that is much longer is shown, but makes no difference", func(b *Trace) {
			b.Find("3.2").Duration *= 4
			b.Find("3.1").Duration += NotableAmount
		}, "times\n  step checks / test: 504ms → 2.0s (4.0 times)\nsame: no difference in 7 steps\n"},
		{"an annotation that is new", func(b *Trace) {
			s := b.Find("3.1")
			s.Annotations = append(s.Annotations, event.Annotation{Level: event.AnnotationError, Message: "worse", File: "z.go"})
		}, "step checks / lint\n  annotations\n    @@ -1,2 +1,3 @@\n     warning  /work/a.go:3:7  Style: too long by far\n     error  main.go:1  <bad> & \\x01ugly (E1)\n" +
			"    +error  z.go  worse\ndifferent: 1 of 7 steps changed\n"},
		{"a summary, and what was made", func(b *Trace) {
			b.Find("2").Summary = strings.Replace(b.Find("2").Summary, "3", "4", 1)
			b.Find("2").Subjects[0].Digest = "sha256:4567"
		}, "step build\n  summary\n    @@ -3,3 +3,3 @@\n     | file | size |\n     |---|--:|\n    -| app | 3 |\n    +| app | 4 |\n" +
			"  - made out/app: sha256:0123\n  + made out/app: sha256:4567\ndifferent: 1 of 7 steps changed\n"},
		{"text that would move the cursor stays where it is", func(b *Trace) { b.Find("2").Env["MODE"] = "\x1b[2Jfast" },
			"step build\n  - env MODE: fast\n  + env MODE: \\x1b[2Jfast\ndifferent: 1 of 7 steps changed\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, got := diffOf(t, c.change)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if d.Same != strings.Contains(c.want, "same: ") {
				t.Errorf("same is %v", d.Same)
			}
		})
	}
}

func TestDiffComparesSensitiveValuesOnlyUnderOneKey(t *testing.T) {
	d, got := diffOf(t, func(b *Trace) {
		b.Run.DigestKey = "11aa"
		b.Run.Secrets["TOKEN"] = "hmac:5678"
		b.Find("2").Inputs["token"] = event.Redacted("hmac:5678")
	})
	if !d.Same {
		t.Errorf("values that cannot be compared make a difference:\n%s", got)
	}
	want := "cannot be compared, as each trace has digests with a key of its own: secret TOKEN, input token of build\n"
	if !strings.Contains(got, want) {
		t.Error(got)
	}
	t.Run("nor do digests inside a text or a definition", func(t *testing.T) {
		sensitive := func(digest string) func(*Trace) {
			return func(tr *Trace) {
				v := event.Redacted("pbkdf2-sha256:" + digest)
				tr.Run.DigestKey = digest
				tr.Find("2.1").Env = map[string]string{"T": "[sensitive pbkdf2-sha256:" + digest + "]"}
				tr.Find("2.1").Definition.Spec.Inputs = map[string]plan.Input{"t": {Type: value.String, Default: &v}}
			}
		}
		a, b := read(t, record(t, example)), read(t, record(t, example))
		sensitive("aa")(a)
		sensitive("bb")(b)
		if d, got := differenceOf(t, a, b); !d.Same || !strings.Contains(got, "definition of build / compile, env T of build / compile") {
			t.Error(got)
		}
	})
	t.Run("but a value that is sensitive in one run only differs", func(t *testing.T) {
		d, got := diffOf(t, func(b *Trace) { b.Run.DigestKey = "11aa"; b.Find("2").Inputs["token"] = text("open") })
		if d.Same || !strings.Contains(got, "  - input token: [sensitive]\n  + input token: \"open\"\n") {
			t.Error(got)
		}
	})
}

func TestDiffComparesNothingWithAPlaceholder(t *testing.T) {
	token := func(digest string) func(*Trace) {
		return func(tr *Trace) {
			tr.Run.Secrets["TOKEN"] = digest
			tr.Find("2").Inputs["token"] = event.Redacted(digest)
			tr.Find("2.1").Env = map[string]string{"T": "[sensitive " + digest + "]"}
		}
	}
	recorded, placeholder := token("pbkdf2-sha256:aa"), token(event.Placeholder)
	const told = "cannot be compared, as placeholders were used: T, TOKEN, token\n"
	for _, c := range []struct {
		name string
		a, b func(*Trace)
		same bool
	}{
		{"of the second run", recorded, placeholder, true},
		{"of the first run", placeholder, recorded, true},
		{"of both: what they stand for may differ", placeholder, placeholder, true},
		{"in a text that was masked", func(tr *Trace) { recorded(tr); tr.Find("2.1").Env["T"] = "a [MASKED]" }, placeholder, true},
		{"under another key", recorded, func(tr *Trace) { placeholder(tr); tr.Run.DigestKey = "11aa" }, true},
		{"beside another field that differs", func(tr *Trace) {
			recorded(tr)
			tr.Find("2").Inputs["pair"] = value.OfArray([]value.Value{event.Redacted("pbkdf2-sha256:aa"), text("x")})
		}, func(tr *Trace) {
			placeholder(tr)
			tr.Find("2").Inputs["pair"] = value.OfArray([]value.Value{event.Redacted(event.Placeholder), text("y")})
		}, false},
		{"where the other value is not sensitive", func(tr *Trace) { recorded(tr); tr.Find("2").Inputs["open"] = text("open") },
			func(tr *Trace) { placeholder(tr); tr.Find("2").Inputs["open"] = event.Redacted(event.Placeholder) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := read(t, record(t, example)), read(t, record(t, example))
			c.a(a)
			c.b(b)
			if d, got := differenceOf(t, a, b); d.Same != c.same || !strings.Contains(got, told) {
				t.Errorf("same is %v:\n%s", d.Same, got)
			}
		})
	}
}

func TestDiffLeavesOutTheFoldersOfTheRun(t *testing.T) {
	with := func(folder, workDir string) func(*script) {
		return func(s *script) {
			start := started()
			start.WorkDir = workDir
			start.Env = map[string]string{"TMPDIR": folder + "/tmp", "HOME": folder + "/home"}
			s.at(0, "", start)
			s.at(0, "1", event.StepStarted{Name: "hello", Kind: event.KindScript})
			s.at(0, "1", event.ExecStarted{Attempt: 1, WorkDir: workDir,
				Command: []string{"sh", "-c", "x='" + folder + "/files/1-output'; cd " + workDir + "; ls " + workDir + "2"}})
			s.print("1", event.Stdout, "in "+workDir+"/sub with "+folder+"/home\n")
			s.at(0, "1", event.Annotation{Message: "in " + folder + "/home", File: workDir + "/a.go"})
			s.at(0, "1", event.Summary{Markdown: "in `" + workDir + "`"})
			s.at(0, "1", event.StepFinished{Status: event.Success,
				Outputs: map[string]value.Value{"o": value.OfArray([]value.Value{text(folder + "/tmp/a")})}})
			s.at(0, "", event.RunFinished{Status: event.Success})
		}
	}
	a := read(t, record(t, with("/tmp/step-runner-123", "/work")))
	if d, got := differenceOf(t, a, read(t, record(t, with("/var/tmp/step-runner-4567", "/work")))); !d.Same {
		t.Errorf("the run's own folder makes a difference:\n%s", got)
	}
	_, got := differenceOf(t, a, read(t, record(t, with("/tmp/step-runner-123", "/elsewhere"))))
	for _, want := range []string{"cd <work dir>; ls /work2", "cd <work dir>; ls /elsewhere2", "different: 1 of 1 step changed"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "work dir:") || strings.Contains(got, "log differs") {
		t.Errorf("the work directory makes a difference:\n%s", got)
	}
}

func TestDiffComparesLogsByStream(t *testing.T) {
	logs := func(print func(*script)) *Trace {
		return read(t, record(t, func(s *script) {
			s.at(0, "", started())
			s.at(0, "1", event.StepStarted{Name: "hello", Kind: event.KindScript})
			print(s)
			s.at(0, "1", event.StepFinished{Status: event.Success})
			s.at(0, "", event.RunFinished{Status: event.Success})
		}))
	}
	a := logs(func(s *script) {
		s.print("1", event.Stdout, "one\ntwo\n")
		s.print("1", event.Stderr, "careful\n")
		s.print("1", event.Stdout, "three\n")
	})
	t.Run("the order in which the streams mix makes no difference", func(t *testing.T) {
		b := logs(func(s *script) {
			s.print("1", event.Stderr, "careful\n")
			s.print("1", event.Stdout, "one\ntwo\nthree\n")
		})
		if d, got := differenceOf(t, a, b); !d.Same {
			t.Error(got)
		}
	})
	t.Run("lines that differ are shown, also one that differs by its end", func(t *testing.T) {
		b := logs(func(s *script) { s.print("1", event.Stdout, "one\n2\nthree") })
		_, got := differenceOf(t, a, b)
		want := "step hello\n  log differs: 2 lines only in A, 2 only in B\n    @@ -1,3 +1,3 @@\n     one\n    -two\n    -three\n    +2\n" +
			"    +three (no line end)\n  log (stderr) differs: 1 line only in A, 0 only in B\n    @@ -1,1 +0,0 @@\n    -careful\n" +
			"different: 1 of 1 step changed\n"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDiffMatchesSteps(t *testing.T) {
	list := func(names ...string) *Trace {
		tr := &Trace{}
		for i, n := range names {
			name, title, _ := strings.Cut(n, ":")
			tr.Steps = append(tr.Steps, &Step{ID: fmt.Sprint(i + 1), Name: name, Title: title, Kind: event.KindScript, Status: event.Success})
		}
		return tr
	}
	for _, c := range []struct{ name, a, b, want string }{
		{"by name, whatever the order", "x y z", "z x y", ""},
		{"with new steps between", "x y", "u x v y w", "+u +v +w"},
		{"with new steps between steps that changed places", "x y", "y u x", "+u"},
		{"by a title, where the names come from the place", "script:make script_2:test", "script:lint script_2:make script_3:test", "+script"},
		{"by name, where a title is defined twice", "a:t b:t", "a:t c:u b:t", "+c"},
		{"by place, behind steps that match", "x old y", "x new y", "old name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := differenceOf(t, list(strings.Fields(c.a)...), list(strings.Fields(c.b)...))
			var got []string
			for _, s := range d.Steps {
				line := strings.Join(s.Path, "/")
				switch s.Only {
				case "a":
					line = "-" + line
				case "b":
					line = "+" + line
				}
				for _, change := range s.Changes {
					line += " " + change.Field
				}
				got = append(got, line)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// notDifferences are the fields of the document that make no difference, however they change. docs/trace.md lists them.
var notDifferences = map[string]bool{
	"Run.continues": true, "Run.pauses": true, "Run.parts": true, "Run.identity": true,
	"Run.id": true, "Run.started": true, "Run.duration_ns": true, "Run.digest_key": true, "Run.counts": true, "Run.fresh_work_dir": true, "Run.inherit_env": true, "Run.confine": true,
	"Step.id": true, "Step.span": true, "Step.started": true, "Step.duration_ns": true, "Step.log": true, "Resolved.dir": true,
	"Attempt.log_held": true, "Attempt.confined": true, "Attempt.error": true, "Attempt.started": true, "Attempt.duration_ns": true,
}

func TestDiffSeesEveryFieldOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../../docs/trace.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## What changed between two runs")
	parts := map[string]func(*Trace) any{
		"Run":      func(tr *Trace) any { return &tr.Run },
		"Runtime":  func(tr *Trace) any { return &tr.Runtime },
		"Step":     func(tr *Trace) any { return tr.Find("2.1") },
		"Resolved": func(tr *Trace) any { return tr.Find("2").Resolved },
		"Attempt":  func(tr *Trace) any { return &tr.Find("2.1").Attempts[0] },
	}
	for part, of := range parts {
		typ := reflect.TypeOf(of(read(t, record(t, example)))).Elem()
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if part+"."+name == "Run.work_dir" { // see TestDiffLeavesOutTheFoldersOfTheRun
				continue
			}
			t.Run(part+"."+name, func(t *testing.T) {
				d, got := diffOf(t, func(b *Trace) { alter(t, reflect.ValueOf(of(b)).Elem().Field(i)) })
				if d.Same != notDifferences[part+"."+name] {
					t.Errorf("a change of the field gives:\n%s", got)
				}
				if d.Same && !strings.Contains(section, "`"+name+"`") {
					t.Errorf("docs/trace.md does not say that %s is left out", name)
				}
			})
		}
	}
}

// alter sets a field to another value.
func alter(t *testing.T, v reflect.Value) {
	five := 5
	switch x := v.Interface().(type) {
	case *int:
		v.Set(reflect.ValueOf(&five))
	case time.Time:
		v.Set(reflect.ValueOf(x.Add(time.Hour)))
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{"NEW": "x"}))
	case map[string]value.Value:
		v.Set(reflect.ValueOf(map[string]value.Value{"new": text("x")}))
	case []string:
		v.Set(reflect.ValueOf(append([]string{"new"}, x...)))
	case []Attempt:
		v.Set(reflect.ValueOf(x[1:]))
	case []event.Annotation:
		v.Set(reflect.ValueOf(append([]event.Annotation{{Level: event.AnnotationError, Message: "new"}}, x...)))
	case []event.Subject:
		v.Set(reflect.ValueOf(append([]event.Subject{{Name: "new", Digest: "sha256:00"}}, x...)))
	case []*Step:
		v.Set(reflect.ValueOf([]*Step{{Name: "new"}}))
	case *event.Environment:
		v.Set(reflect.ValueOf(&event.Environment{Level: "container", Image: &event.Image{Image: containers.Image{Name: "new"}}}))
	case *event.Error:
		v.Set(reflect.ValueOf(&event.Error{Kind: event.ErrorSystem, Message: "new"}))
	case *plan.Component:
		v.Set(reflect.ValueOf(inline("new")))
	case *Stopping:
		v.Set(reflect.ValueOf(&Stopping{Reason: "interrupt"}))
	case *event.Continuation:
		v.Set(reflect.ValueOf(&event.Continuation{Run: "new", Before: "2"}))
	case *event.Program:
		v.Set(reflect.ValueOf(&event.Program{Path: x.Path, Digest: "sha256:00"}))
	case *containers.StepImage:
		v.Set(reflect.ValueOf(&containers.StepImage{Name: x.Name, Digest: "sha256:00"}))
	case *event.Identity:
		v.Set(reflect.ValueOf(&event.Identity{Job: "new"}))
	case []Pause:
		v.Set(reflect.ValueOf([]Pause{{Before: "2"}}))
	case []Part:
		v.Set(reflect.ValueOf([]Part{{ID: "new"}}))
	case *Resolved:
		v.Set(reflect.ValueOf(&Resolved{Ref: "./new"}))
	case *plan.Origin:
		v.Set(reflect.ValueOf(&plan.Origin{URL: "https://new", Pin: "x"}))
	case *LogSummary:
		v.Set(reflect.ValueOf(&LogSummary{SHA256: "00"}))
	case event.Counts:
		v.Set(reflect.ValueOf(event.Counts{Success: 99}))
	case diag.Span:
		v.Set(reflect.ValueOf(diag.Span{File: "new", Line: 9}))
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		default:
			t.Fatalf("the test cannot change a %s", v.Type())
		}
	}
}

func TestDiffIsData(t *testing.T) {
	d, _ := diffOf(t, func(b *Trace) {
		b.Find("2").Inputs["level"] = value.OfInt(9007199254740993)
		delete(b.Find("2").Env, "MODE")
	})
	d.Times = nil
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"same":false,"compared":7,"changed":1,"only_in_a":0,"only_in_b":0,"steps":[{"path":["build"],"id_a":"2","id_b":"2",` +
		`"changes":[{"field":"inputs","name":"level","a":3,"b":9007199254740993},{"field":"env","name":"MODE","a":"fast"}]}]}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatARunMadeForItselfIsTheSameInAnother(t *testing.T) {
	fresh := &Trace{Run: Run{WorkDir: "/tmp/rung-1/project", FreshWorkDir: true}}
	p := placesOf(fresh)
	for in, want := range map[string]string{
		"/tmp/rung-1/project/a":           "<work dir>/a",
		"/tmp/rung-1":                     "<work dir>/..",
		"/tmp/rung-1/other":               "/tmp/rung-1/other",
		"/tmp/rung-12":                    "/tmp/rung-12",
		"http://127.0.0.1:41234/api":      "http://127.0.0.1:<port>/api",
		"http://127.0.0.1:32768":          "http://127.0.0.1:<port>",
		"http://127.0.0.1:8080/":          "http://127.0.0.1:8080/", // chosen by somebody
		"https://example.com:41234/stays": "https://example.com:41234/stays",
	} {
		if got := p.text(in); got != want {
			t.Errorf("%s is %s, not %s", in, got, want)
		}
	}
	fresh.Run.FreshWorkDir = false
	p = placesOf(fresh)
	if got := p.text("/tmp/rung-1"); got != "<work dir>/.." {
		t.Errorf("the folder around somebody's own work directory is %s", got)
	}
	if got := p.text("/tmp/rung-1/other"); got != "/tmp/rung-1/other" {
		t.Errorf("what is beside somebody's own work directory is %s", got)
	}
}

// TestATraceOfBeforeCodesIsTheSame compares traces of the same failure by an older version, whose message names the step, and by this one.
func TestATraceOfBeforeCodesIsTheSame(t *testing.T) {
	t.Parallel()
	read := func(run, inner string) *Trace {
		doc := `{"format":"rung.trace/v1","run":{"id":"1","status":"failure","error":` + run + `,"started":"2026-01-01T00:00:00Z","duration_ns":0,` +
			`"counts":{"success":0,"failure":1,"skipped":0},"work_dir":"/w","env":{},"component":null},"runtime":{"version":"v","os":"linux","arch":"amd64"},` +
			`"steps":[{"id":"1","name":"crew","kind":"steps","status":"failure","error":` + inner + `,"duration_ns":0,"steps":[` +
			`{"id":"1.1","name":"greet","kind":"script","status":"failure","duration_ns":0}]}],"logs":[]}`
		tr, err := ReadFrom("trace", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(doc)), nil })
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	before := read(`{"kind":"step","message":"step \"crew/greet\": exec: exit status 2"}`, `{"kind":"step","message":"step \"greet\": exec: exit status 2"}`)
	now := `{"code":"exit_status","kind":"step","fault":"user","step":"1.1","step_name":"crew/greet","message":"exec: exit status 2"}`
	d, err := Diff(before, read(now, now), DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Same {
		t.Errorf("they differ: %+v", d)
	}
	d, err = Diff(before, read(strings.Replace(now, "status 2", "status 3", 1), now), DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Same {
		t.Error("another error is taken for the same")
	}
}
