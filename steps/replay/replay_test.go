package replay

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

var key = []byte("0123456789abcdef")

// shown is what is in a trace for a sensitive text.
func shown(text string) string { return "[sensitive " + engine.Digest(key, text) + "]" }

// run is a recorded run of one command.
func run(change func(*trace.Trace)) *trace.Trace {
	t := &trace.Trace{
		Format:  trace.Format,
		Runtime: trace.Runtime{OS: runtime.GOOS, Arch: runtime.GOARCH},
		Run: trace.Run{
			WorkDir: "/home/me/job", DigestKey: hex.EncodeToString(key), Env: map[string]string{"PATH": "/bin", "HOME": "/tmp/step-runner-123/home"},
			Component: &plan.Component{Definition: plan.Definition{Exec: &plan.Exec{Command: []plan.Field{{Value: value.OfString("true")}}}}},
		},
		Steps: []*trace.Step{},
	}
	if change != nil {
		change(t)
	}
	return t
}

func options() Options { return Options{WorkDir: "/srv/job", OS: runtime.GOOS, Arch: runtime.GOARCH} }

func TestWhatARunIsMadeOf(t *testing.T) {
	r, err := New(run(func(t *trace.Trace) { t.Run.Job = map[string]string{"A": "b"} }), options())
	if err != nil {
		t.Fatal(err)
	}
	var opts engine.Options
	r.Apply(&opts)
	if opts.WorkDir != "/srv/job" || opts.Env["PATH"] != "/bin" || opts.Env["HOME"] != "" || opts.HostHome || opts.Job["A"].Value != "b" ||
		string(opts.DigestKey) != string(key) || opts.Recorded != nil || opts.HostEnv != nil {
		t.Errorf("the options are %+v", opts)
	}
}

func TestGivenValues(t *testing.T) {
	sensitive := func(t *trace.Trace) {
		t.Run.Secrets = map[string]string{"TOKEN": engine.Digest(key, "s3cr3t")}
		t.Run.Job = map[string]string{"CI_JOB_TOKEN": shown("job-token")}
		t.Run.Component.Spec.Inputs = map[string]plan.Input{"n": {Type: value.Number, Sensitive: true}}
		t.Run.Inputs = map[string]value.Value{"n": event.Redacted(engine.Digest(key, "42"))}
	}
	all := map[string]string{"TOKEN": "s3cr3t", "CI_JOB_TOKEN": "job-token", "n": "42"}
	with := func(change func(map[string]string)) map[string]string {
		given := map[string]string{}
		for name, text := range all {
			given[name] = text
		}
		change(given)
		return given
	}
	for _, c := range []struct {
		name  string
		given map[string]string
		other bool
		all   bool
		kind  event.ErrorKind
		want  string
	}{
		{name: "all of them", given: all},
		{name: "none", kind: event.ErrorDenied, want: "input n"},
		{name: "none of all", all: true, kind: event.ErrorDenied, want: "input n, job variable CI_JOB_TOKEN, secret TOKEN"},
		{name: "one is missing", given: with(func(m map[string]string) { delete(m, "n") }), kind: event.ErrorDenied, want: "input n"},
		{name: "one is another", given: with(func(m map[string]string) { m["TOKEN"] = "other" }), kind: event.ErrorDenied,
			want: "secret TOKEN is not the same as in the recorded run"},
		{name: "one is another, and may be", given: with(func(m map[string]string) { m["TOKEN"] = "other" }), other: true},
		{name: "one too many", given: with(func(m map[string]string) { m["TOKN"] = "x" }), kind: event.ErrorNotFound, want: "did you mean TOKEN?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Given, o.OtherSecrets, o.AllSecrets = c.given, c.other, c.all
			r, err := New(run(sensitive), o)
			e, _ := err.(*event.Error)
			switch {
			case c.kind == "" && err != nil:
				t.Fatal(err)
			case c.kind != "":
				if e == nil || e.Kind != c.kind || !strings.Contains(e.Message+e.Hint, c.want) || strings.Contains(e.Message+e.Hint, "s3cr3t") {
					t.Errorf("the error is %+v", err)
				}
				return
			}
			var opts engine.Options
			r.Apply(&opts)
			if n := opts.Inputs["n"]; opts.Secrets["TOKEN"] != c.given["TOKEN"] || !opts.Job["CI_JOB_TOKEN"].Sensitive || n.Text() != "42" || n.Kind() != value.Number || !n.Marked() {
				t.Errorf("the options are %+v", opts)
			}
			if c.other != (opts.DigestKey == nil) {
				t.Error("digests of other secrets would be compared")
			}
		})
	}
}

func TestTracesThatCannotBeReplayed(t *testing.T) {
	deep := plan.Step{Inline: &plan.Component{Definition: plan.Definition{Exec: &plan.Exec{Script: &plan.Script{}}}}}
	for range maxNesting + 2 {
		deep = plan.Step{Inline: &plan.Component{Definition: plan.Definition{Steps: []plan.Step{deep}}}}
	}
	for _, c := range []struct {
		name   string
		change func(*trace.Trace)
		kind   event.ErrorKind
		want   string
	}{
		{"nothing was run", func(t *trace.Trace) { t.Run.Component = nil }, event.ErrorDefinition, "run.component is missing"},
		{"no command", func(t *trace.Trace) { t.Run.Component.Definition.Exec.Command = nil }, event.ErrorDefinition, "no command"},
		{"a step that is two things", func(t *trace.Trace) {
			t.Run.Component.Definition = plan.Definition{Steps: []plan.Step{{Name: "x", Ref: &plan.Reference{}, Inline: &plan.Component{}}}}
		}, event.ErrorDefinition, "is not one thing"},
		{"a hook without a command", func(t *trace.Trace) { t.Run.Component.Definition.Post = &plan.Hook{Exec: &plan.Exec{}} }, event.ErrorDefinition, "no command"},
		{"a hook without a process", func(t *trace.Trace) { t.Run.Component.Definition.Pre = &plan.Hook{} }, event.ErrorDefinition, "without a command"},
		{"a wait that runs something", func(t *trace.Trace) {
			t.Run.Component.Definition = plan.Definition{Steps: []plan.Step{{Name: "x", Ref: &plan.Reference{}, Await: &plan.Await{}}}}
		}, event.ErrorDefinition, "is not one thing"},
		{"a step without end", func(t *trace.Trace) { t.Run.Component.Definition = plan.Definition{Steps: []plan.Step{deep}} }, event.ErrorDefinition, "levels deep"},
		{"a key that is none", func(t *trace.Trace) { t.Run.DigestKey = "xyz" }, event.ErrorDefinition, "digest_key"},
		{"a key without end", func(t *trace.Trace) { t.Run.DigestKey = strings.Repeat("00", 1<<16) }, event.ErrorDefinition, "digest_key"},
		{"another machine", func(t *trace.Trace) { t.Runtime.OS = "plan9" }, event.ErrorDenied, "plan9/"},
		{"a secret in the text", func(t *trace.Trace) {
			t.Run.Component.Definition.Exec.Command[0].Value = value.OfString("login [MASKED]")
		}, event.ErrorDefinition, "was in the text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(run(c.change), options())
			if e, ok := err.(*event.Error); !ok || e.Kind != c.kind || !strings.Contains(e.Message, c.want) {
				t.Errorf("the error is %+v", err)
			}
		})
	}
}

func TestASensitiveContextHasToBeGiven(t *testing.T) {
	sensitive := run(func(t *trace.Trace) {
		t.Run.Component.Definition.Context = map[string]plan.Field{"token": {Value: event.Redacted(engine.Digest(key, "s3cr3t"))}, "ref": {Value: value.OfString("main")}}
	})
	if _, err := New(sensitive, options()); err == nil || !strings.Contains(err.Error(), "context value token") {
		t.Errorf("the error is %v", err)
	}
	o := options()
	o.Given = map[string]string{"token": "s3cr3t"}
	r, err := New(sensitive, o)
	if err != nil {
		t.Fatal(err)
	}
	var opts engine.Options
	r.Apply(&opts)
	if token := opts.Component.Definition.Context["token"].Value; token.Str() != "s3cr3t" || !token.Marked() {
		t.Errorf("the token is %v", token)
	}
}

func TestTheLockOfATrace(t *testing.T) {
	fetched := func(origin plan.Origin, file string) *trace.Step {
		return &trace.Step{Resolved: &trace.Resolved{Ref: "x", File: file, Digest: "sha256:d", Origin: &origin}}
	}
	git := plan.Origin{Kind: plan.RefGit, URL: "https://h/p", Rev: "v1", Pin: "abc", Package: "sha256:p", Path: "steps/x"}
	zip := plan.Origin{Kind: plan.RefArchive, URL: "https://h/x.zip", Pin: "sha256:z", Package: "sha256:q"}
	image := plan.Origin{Kind: plan.RefOCI, URL: "oci://h/i", Rev: "1", Pin: "sha256:m", Package: "sha256:r"}
	t.Run("has every package once, archives with and without their digest", func(t *testing.T) {
		tr := run(func(t *trace.Trace) {
			t.Steps = []*trace.Step{fetched(git, "func.yml"), fetched(git, "func.yml"), fetched(git, "other.yml"), fetched(zip, "func.yml"), fetched(image, "func.yml")}
		})
		f, err := Lock(tr, true)
		if err != nil || len(f.Packages) != 4 {
			t.Fatalf("%+v, %v", f, err)
		}
		if p := f.Find(plan.RefGit, "https://h/p", "v1"); p == nil || p.Pin != "abc" || p.Component("steps/x", "other.yml") != "sha256:d" {
			t.Errorf("the repository is %+v", p)
		}
		if f.Find(plan.RefArchive, "https://h/x.zip", "") == nil || f.Find(plan.RefArchive, "https://h/x.zip", "sha256:z") == nil {
			t.Error("the archive is not found")
		}
		if f.Find(plan.RefOCI, "oci://h/i", "1").Platform != "" {
			t.Error("the image is not locked on the same platform")
		}
		if f, _ = Lock(tr, false); f.Find(plan.RefOCI, "oci://h/i", "1").Platform == "" {
			t.Error("the content of the image is locked on another platform")
		}
	})
	t.Run("one name that was two things", func(t *testing.T) {
		other := git
		other.Pin = "def"
		if _, err := Lock(run(func(t *trace.Trace) { t.Steps = []*trace.Step{fetched(git, "f"), fetched(other, "f")} }), true); err == nil {
			t.Error("there is no error")
		}
	})
	t.Run("a damaged origin", func(t *testing.T) {
		if _, err := Lock(run(func(t *trace.Trace) { t.Steps = []*trace.Step{fetched(plan.Origin{Kind: plan.RefGit}, "f")} }), true); err == nil {
			t.Error("there is no error")
		}
	})
}

func TestPlacesBelowTheMirror(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of Unix")
	}
	for _, path := range []string{"/home/me/job/x", "/", "/a"} {
		l := &locals{mirror: "/run/recorded", was: "/home/me/job", now: "/srv/job", dirs: map[string]bool{path: true}}
		got := l.mirrored(path)
		if !within("/run/recorded", got) {
			t.Errorf("%s is laid out in %s", path, got)
		}
		if back := l.recordedPlace(got); back != path {
			t.Errorf("%s comes back as %s", path, back)
		}
	}
	l := &locals{was: "/home/me/job", now: "/srv/job"}
	if got := l.recordedPlace("/srv/job/x"); got != "/home/me/job/x" {
		t.Errorf("a folder of the work directory was in %s", got)
	}
	if got := moved("/home/me/other", "/home/me/job", "/srv/job"); got != "/home/me/other" {
		t.Errorf("a folder outside of it is in %s", got)
	}
}

func TestLocalsOfAHostileTrace(t *testing.T) {
	work := t.TempDir()
	step := func(dir, file string) *trace.Step {
		return &trace.Step{Resolved: &trace.Resolved{Ref: "x", Dir: dir, File: file, Digest: "sha256:d"}}
	}
	tr := run(func(t *trace.Trace) {
		t.Run.WorkDir = "/home/me/job"
		t.Steps = []*trace.Step{
			step("../../etc", "passwd"), step("/home/me/job", "../../../etc/passwd"), step("/tmp/step-runner-123/tmp/made", "func.yml"),
			step("/home/me/job/../../../comp", "func.yml"),
		}
	})
	local := &source.Local{WorkDir: work, Parse: func(string, []byte) (*plan.Component, error) { return &plan.Component{}, nil }}
	found := Locals(context.Background(), tr, work, local)
	if len(found) != 1 || found[0].Dir != filepath.Clean("/comp") || found[0].Now != "" {
		t.Errorf("found %+v", found)
	}
	if entries, err := os.ReadDir(work); err != nil || len(entries) > 0 {
		t.Errorf("the work directory has %v, %v", entries, err)
	}
}
