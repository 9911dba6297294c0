package provenance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	in_toto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rungci/rung/publish/provenance"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

func hexOf(digit string) string { return strings.Repeat(digit, 64) }

// run is the trace of a run that uses a component of every kind.
func run() *trace.Trace {
	step := func(id, ref, digit string, origin *plan.Origin, inside ...*trace.Step) *trace.Step {
		return &trace.Step{ID: id, Ref: ref, Steps: inside, Resolved: &trace.Resolved{
			Ref: ref, Dir: "/somewhere", File: "step.yml", Digest: "sha256:" + hexOf(digit), Origin: origin,
		}}
	}
	git := &plan.Origin{
		Kind: plan.RefGit, URL: "https://example.com/steps", Rev: "v1", Pin: strings.Repeat("1", 40),
		Path: "steps/build", Package: "sha256:" + hexOf("2"), SignedBy: []string{"SHA256:key"},
	}
	exit := 0
	return &trace.Trace{
		Run: trace.Run{
			ID: "run-1", Status: event.Success, ExitCode: &exit,
			Started: time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("X", 3600)), Duration: 1500 * time.Millisecond,
			Inputs: map[string]value.Value{
				"who": value.OfString("<me>"), "password": event.Redacted("pbkdf2:1"),
				"nested": value.OfStruct(map[string]value.Value{"a": value.OfArray([]value.Value{event.Redacted("pbkdf2:2")})}),
			},
			Outputs: map[string]value.Value{
				"version": value.OfString("1.2"), "b": value.OfInt(2), "token": event.Redacted("pbkdf2:3"),
			},
			Secrets:   map[string]string{"TOKEN": "pbkdf2:4", "API_KEY": "pbkdf2:5"},
			Source:    "- step: a\n",
			Component: &plan.Component{},
		},
		Runtime: trace.Runtime{Version: "v1.2.3", Digest: "sha256:" + hexOf("c"), OS: "linux", Arch: "arm64"},
		Steps: []*trace.Step{
			step("1", "example.com/steps/-/build@v1", "3", git, step("1.1", "./part", "4", nil)),
			step("2", "https://example.com/steps/-/build@v1", "3", git), // another name of the first
			step("3", "oci://registry/image:1", "5", &plan.Origin{Kind: plan.RefOCI, URL: "oci://registry/image", Rev: "1", Pin: "sha256:" + hexOf("6"), Package: "sha256:" + hexOf("7")}),
			step("4", "oci://registry/image@sha256", "5", &plan.Origin{Kind: plan.RefOCI, URL: "oci://registry/image", Rev: "sha256:" + hexOf("6"), Pin: "sha256:" + hexOf("6"), Package: "sha256:" + hexOf("7")}),
			step("5", "https://example.com/a.zip", "8", &plan.Origin{Kind: plan.RefArchive, URL: "https://example.com/a.zip", Pin: "sha256:" + hexOf("9"), Package: "sha256:" + hexOf("a")}),
			step("6", "builtin://echo", "b", &plan.Origin{Kind: plan.RefBuiltin, URL: "builtin://echo", Pin: "sha256:" + hexOf("b"), Package: "sha256:" + hexOf("b")}),
			step("7", "./part", "4", nil),
			{ID: "8", Name: "inline"},
		},
	}
}

var (
	traceFile = provenance.File{Name: "trace.json", SHA256: hexOf("e")}
	made      = []provenance.File{{Name: "dist/z", SHA256: hexOf("f")}, {Name: "dist/a", SHA256: hexOf("0")}}
)

func statement(t testing.TB, tr *trace.Trace) *signature.Statement {
	t.Helper()
	s, err := provenance.Statement(tr, traceFile, made)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func payload(t testing.TB, tr *trace.Trace) []byte {
	t.Helper()
	e, err := statement(t, tr).Envelope()
	if err != nil {
		t.Fatal(err)
	}
	return e.Payload
}

// TestStatementIsWhatInTotoAndSLSADefine reads statement and predicate with their messages, which know no other fields.
func TestStatementIsWhatInTotoAndSLSADefine(t *testing.T) {
	t.Parallel()
	bare := &trace.Trace{Run: trace.Run{ID: "x", Status: event.Failure, Component: &plan.Component{}}}
	for name, tr := range map[string]*trace.Trace{"a run of everything": run(), "a run of nothing": bare} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s in_toto.Statement
			if err := protojson.Unmarshal(payload(t, tr), &s); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(); err != nil {
				t.Errorf("statement: %v", err)
			}
			inner, err := protojson.Marshal(s.GetPredicate())
			if err != nil {
				t.Fatal(err)
			}
			var p slsa.Provenance
			if err := protojson.Unmarshal(inner, &p); err != nil {
				t.Fatal(err)
			}
			if err := p.Validate(); err != nil {
				t.Errorf("provenance: %v", err)
			}
			if s.GetPredicateType() != "https://slsa.dev/provenance/v1" {
				t.Errorf("predicate type %q", s.GetPredicateType())
			}
		})
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	var got []string
	for _, s := range statement(t, run()).Subject {
		got = append(got, fmt.Sprintf("%s %s %s", s.Name, s.Digest["sha256"][:6], s.MediaType))
	}
	// printf '"1.2"' | sha256sum, printf 2 | sha256sum
	want := []string{
		"trace.json eeeeee application/vnd.rung.trace+json",
		"output:b d4735e application/json",
		"output:version b83db1 application/json",
		"dist/a 000000 ",
		"dist/z ffffff ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}

func TestWhatStepsMade(t *testing.T) {
	t.Parallel()
	with := func(subjects ...event.Subject) *trace.Trace {
		tr := run()
		for i, s := range subjects {
			tr.Steps[i].Subjects = []event.Subject{s}
		}
		return tr
	}
	is := func(name, digit string) event.Subject {
		return event.Subject{Name: name, Digest: "sha256:" + hexOf(digit)}
	}
	for _, c := range []struct {
		name  string
		trace *trace.Trace
		want  string // names of what the run made, or what is wrong
	}{
		{"stands between the outputs and the artifacts", with(is("image:1", "1"), is("app", "2")), "app image:1 dist/a dist/z"},
		{"is named once, where two steps or an artifact are the same", with(is("app", "2"), is("app", "2"), is("dist/a", "0")), "app dist/a dist/z"},
		{"cannot be two contents", with(is("app", "2"), is("app", "3")), `the steps "" and "" say that they made app, with two contents`},
		{"is what the artifact of that name is", with(is("dist/a", "1")), "dist/a is not what the run made: its digest is sha256:000000"},
		{"is no output and no trace", with(is("trace.json", "1")), "a step says that it made trace.json, which is the name of something else"},
		{"has a digest", with(event.Subject{Name: "app", Digest: "md5:1"}), `"app" with the digest "md5:1", which is not a name with a SHA-256`},
		{"has a name", with(is("", "1")), `says that it made ""`},
		{"is what the last time of a list that ran again gave", func() *trace.Trace {
			tr := with(is("app", "1"), is("app", "2"))
			tr.Steps[1].ID = "1#2"
			return tr
		}(), "app dist/a dist/z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := provenance.Statement(c.trace, traceFile, made)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				return
			}
			record, err := provenance.Read(s)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range record.Artifacts {
				got = append(got, f.Name)
				if f.Name == "app" && f.SHA256 != hexOf("2") {
					t.Errorf("app is %s", f.SHA256)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPredicate(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if err := json.Indent(&got, statement(t, run()).Predicate, "", "  "); err != nil {
		t.Fatal(err)
	}
	text := got.String()
	for _, want := range []string{
		`"buildType": "https://github.com/rungci/rung/blob/main/docs/signatures.md#run-v1"`,
		`"who": "<me>"`,
		"\"sensitiveInputs\": [\n        \"nested\",\n        \"password\"\n      ]",
		"\"secrets\": [\n        \"API_KEY\",\n        \"TOKEN\"\n      ]",
		`"invocationId": "run-1"`, `"startedOn": "2026-01-02T02:04:05.000000678Z"`, `"finishedOn": "2026-01-02T02:04:06.500000678Z"`,
		`"step-runner": "v1.2.3"`, hexOf("c"), `"exitCode": 0`, `"status": "success"`, `"arch": "arm64"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the predicate does not hold %s:\n%s", want, text)
		}
	}
	for _, never := range []string{"pbkdf2", "$sensitive", "/somewhere"} {
		if strings.Contains(text, never) {
			t.Errorf("the predicate holds %q", never)
		}
	}
}

// TestARunOfOneReference has its inputs on the step, as `step-runner run ./hello --input who=me` does.
func TestARunOfOneReference(t *testing.T) {
	t.Parallel()
	tr := run()
	tr.Run.Source, tr.Run.Inputs = "", nil
	tr.Run.Component = &plan.Component{
		Spec:       plan.Spec{DelegateOutputs: true},
		Definition: plan.Definition{Steps: []plan.Step{{Name: "hello"}}, Delegate: "hello"},
	}
	tr.Steps = tr.Steps[6:7]
	tr.Steps[0].Inputs = map[string]value.Value{"who": value.OfString("me"), "password": event.Redacted("pbkdf2:6")}
	text := string(statement(t, tr).Predicate)
	for _, want := range []string{`"reference":"./part"`, `"inputs":{"who":"me"}`, `"sensitiveInputs":["password"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("the predicate does not hold %s:\n%s", want, text)
		}
	}
}

func TestEveryComponentIsAMaterialOnce(t *testing.T) {
	t.Parallel()
	record, err := provenance.Read(statement(t, run()))
	if err != nil {
		t.Fatal(err)
	}
	want := []signature.Resource{
		{Name: "./part", Digest: map[string]string{"rungContent": hexOf("4")}, Annotations: map[string]any{"file": "step.yml"}},
		{
			Name: "builtin://echo", URI: "builtin://echo", Annotations: map[string]any{"file": "step.yml"},
			Digest: map[string]string{"rungPin": "sha256:" + hexOf("b"), "rungContent": hexOf("b"), "rungPackage": hexOf("b")},
		},
		{
			Name: "example.com/steps/-/build@v1", URI: "git+https://example.com/steps@v1",
			Digest:      map[string]string{"gitCommit": strings.Repeat("1", 40), "rungContent": hexOf("3"), "rungPackage": hexOf("2")},
			Annotations: map[string]any{"file": "step.yml", "path": "steps/build", "signedBy": []any{"SHA256:key"}},
		},
		{
			Name: "https://example.com/a.zip", URI: "https://example.com/a.zip", Annotations: map[string]any{"file": "step.yml"},
			Digest: map[string]string{"sha256": hexOf("9"), "rungContent": hexOf("8"), "rungPackage": hexOf("a")},
		},
		{
			Name: "oci://registry/image:1", URI: "oci://registry/image:1", Annotations: map[string]any{"file": "step.yml"},
			Digest: map[string]string{"sha256": hexOf("6"), "rungContent": hexOf("5"), "rungPackage": hexOf("7")},
		},
		{
			Name: "oci://registry/image@sha256", URI: "oci://registry/image@sha256:" + hexOf("6"), Annotations: map[string]any{"file": "step.yml"},
			Digest: map[string]string{"sha256": hexOf("6"), "rungContent": hexOf("5"), "rungPackage": hexOf("7")},
		},
	}
	if diff := cmp.Diff(want, record.Components); diff != "" {
		t.Errorf("materials (-want +got):\n%s", diff)
	}
}

func TestTheSameTraceGivesTheSameStatement(t *testing.T) {
	t.Parallel()
	first := payload(t, run())
	for range 20 {
		if again := payload(t, run()); !bytes.Equal(first, again) {
			t.Fatalf("two statements differ:\n%s\n%s", first, again)
		}
	}
	// The order in which artifacts are named makes no difference.
	turned := slices.Clone(made)
	slices.Reverse(turned)
	s, err := provenance.Statement(run(), traceFile, turned)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(statement(t, run()), s); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	killed := run()
	killed.Incomplete = true
	var incomplete *provenance.IncompleteError
	if _, err := provenance.Statement(killed, traceFile, nil); !errors.As(err, &incomplete) {
		t.Errorf("an incomplete trace: %v", err)
	}
	for _, name := range []string{"trace.json", "dist/a", "output:b"} {
		if _, err := provenance.Statement(run(), traceFile, append(slices.Clone(made), provenance.File{Name: name, SHA256: hexOf("1")})); err == nil {
			t.Errorf("two subjects have the name %q", name)
		}
	}
}

func TestReadGivesBackWhatTheStatementSays(t *testing.T) {
	t.Parallel()
	got, err := provenance.Read(statement(t, run()))
	if err != nil {
		t.Fatal(err)
	}
	started := time.Date(2026, 1, 2, 2, 4, 5, 678, time.UTC)
	want := &provenance.Record{
		Trace:     traceFile,
		Artifacts: []provenance.File{made[1], made[0]},
		Outputs:   got.Outputs, Components: got.Components, // see the tests above
		RunID: "run-1", Status: "success", Version: "v1.2.3",
		Started: started, Finished: started.Add(1500 * time.Millisecond),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if len(got.Outputs) != 2 || got.Outputs[1].Name != "version" {
		t.Errorf("outputs %v", got.Outputs)
	}
}

func TestReadRefusesOtherStatements(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*signature.Statement)
		want   string
	}{
		{"no trace", func(s *signature.Statement) { s.Subject = s.Subject[1:] }, "none of its subjects is a trace"},
		{"two traces", func(s *signature.Statement) { s.Subject = append(s.Subject, s.Subject[0]) }, "two traces"},
		{"a subject without a digest", func(s *signature.Statement) { s.Subject[1].Digest = nil }, "no SHA-256"},
		{"another type of build", func(s *signature.Statement) {
			s.Predicate = bytes.ReplaceAll(s.Predicate, []byte("#run-v1"), []byte("#run-v2"))
		}, "build of the type"},
		{"no predicate", func(s *signature.Statement) { s.Predicate = json.RawMessage("[]") }, "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := statement(t, run())
			tt.change(s)
			var form *signature.FormatError
			if _, err := provenance.Read(s); !errors.As(err, &form) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want a *FormatError with %q", err, tt.want)
			}
		})
	}
}
