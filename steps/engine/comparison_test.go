package engine_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// The cases that the existing step-runner gets wrong. B01, B03, B13, B14 and B18 are tests of the frontend, B02 and B05 stand
// with conditions and outputs, B09 and B10 are scripts of the command, B12 stands with secrets.

func TestB04InputsAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"typed/step.yml": `spec:
  inputs:
    n: {type: number, default: 7}
    s: {type: string}
    word: {type: string, default: abc, match: '[a-z]+'}
    pick: {type: string, default: one, options: [one, two]}
---
exec: {command: [echo, "${{ inputs.n }} ${{ inputs.s }} ${{ inputs.word }} ${{ inputs.pick }}"]}
`}
	for _, c := range []struct{ inputs, log, fails string }{
		{inputs: "{s: a}", log: "7 a abc one\n"},
		{inputs: "{n: null, s: a}", log: "7 a abc one\n"},
		{inputs: "{n: 3, s: '3', pick: two}", log: "3 3 abc two\n"},
		{inputs: "{n: '3', s: a}", fails: `input "n" is declared as number but was given a string: "3"`},
		{inputs: "{n: 1, s: 5}", fails: `input "s" is declared as string but was given a number: 5`},
		{inputs: "{s: null}", fails: `input "s" required, but not defined`},
		{inputs: "{}", fails: `input "s" required, but not defined`},
		{inputs: "{s: a, zz: 1}", fails: `step does not accept input with name "zz"`},
		{inputs: "{s: a, word: ABC}", fails: `input "word" does not match its pattern: "ABC"`},
		{inputs: "{s: a, word: 'abc1'}", fails: `input "word" does not match its pattern`},
		{inputs: "{s: a, pick: three}", fails: `input "pick" is not one of its options: "three"`},
	} {
		t.Run(c.inputs, func(t *testing.T) {
			t.Parallel()
			r := job{steps: "- {name: a, step: ./typed, inputs: " + c.inputs + "}\n", files: files}.run(t)
			if c.fails != "" {
				r.fails(event.ErrorDefinition, c.fails)
				return
			}
			r.succeeds().logs(c.log)
		})
	}
}

func TestB06LargeOutputsAreKept(t *testing.T) {
	t.Parallel()
	for _, size := range []int{200 << 10, 5 << 20} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			t.Parallel()
			r := job{steps: fmt.Sprintf(`
- name: big
  script: |
    { printf '{"name":"v","value":"'; head -c %d /dev/zero | tr '\0' x; printf '"}\n'; } >>${{ output_file }}
- name: use
  script: |
    value="${{ steps.big.outputs.v }}"
    echo ${#value}
`, size)}.run(t).succeeds()
			r.logs(fmt.Sprintf("%d\n", size))
			if got := len(r.finished("big").Outputs["v"].Str()); got != size {
				t.Errorf("the output has %d bytes, want %d", got, size)
			}
		})
	}
}

func TestB07LogsAreExact(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1<<20)
	data := []byte("first\n\n\nafter blank lines\x00\xff\xfe\r\n" + line + "\nno newline at the end")
	r := job{
		steps: "- {name: cat, exec: {command: [cat, data]}}\n",
		files: map[string]string{"data": string(data)},
	}.run(t).succeeds()
	if !bytes.Equal([]byte(r.log()), data) {
		t.Errorf("the log has %d bytes, want %d, or they differ", len(r.log()), len(data))
	}
	offset := int64(0)
	for _, l := range bodies[event.Log](r) {
		if l.Offset != offset {
			t.Fatalf("a piece has the offset %d, want %d", l.Offset, offset)
		}
		offset += int64(len(l.Data))
	}
}

func TestB08AnExportIsSeenEverywhereAfterIt(t *testing.T) {
	t.Parallel()
	files := map[string]string{"inner/step.yml": `spec: {env: {FOO: {}}, exports: [FOO]}
---
run:
  - {name: before, script: 'echo inner before $FOO'}
  - {name: again, script: 'echo ''{"name":"FOO","value":"second"}'' >>${{ export_file }}'}
  - {name: after, script: 'echo inner after $FOO ${{ env.FOO }}'}
  - name: deeper
    run:
      - {name: deep, script: 'echo deep $FOO'}
`}
	job{files: files, steps: `
- {name: first, script: 'echo ''{"name":"FOO","value":"first"}'' >>${{ export_file }}'}
- {name: inner, step: ./inner}
- {name: outer, script: 'echo outer $FOO'}
- {name: own, env: {FOO: own}, script: 'echo $FOO'}
`}.run(t).succeeds().logs("inner before first\ninner after second second\ndeep second\nouter second\nown\n")
}

func TestB11DataIsNeverEvaluated(t *testing.T) {
	t.Parallel()
	const hostile = `${{ job.SECRET }}`
	files := map[string]string{
		"echo/step.yml":    "spec: {inputs: {v: {type: string}}, outputs: {v: {type: string}}}\n---\nexec:\n  command: [sh, -c, 'printf \"%s\\n\" \"$2\"; printf \"{\\\"name\\\":\\\"v\\\",\\\"value\\\":\\\"%s\\\"}\\n\" \"$2\" >\"$1\"', sh, '${{ output_file }}', '${{ inputs.v }}']\n",
		"outer/step.yml":   "spec: {inputs: {v: {type: string}}, outputs: {v: {type: string}}}\n---\nrun: [{name: inner, step: ../echo, inputs: {v: '${{ inputs.v }}'}}]\noutputs: {v: '${{ steps.inner.outputs.v }}'}\n",
		"default/step.yml": "spec: {inputs: {v: {type: string, default: '${{ job.SECRET }}'}}}\n---\nexec: {command: [echo, '${{ inputs.v }}']}\n",
	}
	opts := engine.Options{Job: map[string]engine.Variable{"DATA": {Value: hostile}, "SECRET": {Value: "evaluated"}, "REF": {Value: "./" + hostile}}}
	r := job{files: files, opts: opts, steps: `
- {name: outer, step: ./outer, inputs: {v: '${{ job.DATA }}'}}
- {name: again, env: {E: '${{ steps.outer.outputs.v }}'}, script: 'echo "$E" "${{ env.E }}"'}
- {name: default, step: ./default}
- {name: export, script: 'printf ''{"name":"X","value":"%s"}'' ''\${{ job.SECRET }}'' >>${{ export_file }}'}
- {name: exported, script: 'echo "${{ env.X }}"'}
`}.run(t).succeeds()
	if strings.Contains(r.log(), "evaluated") || strings.Count(r.log(), hostile) != 5 {
		t.Errorf("data was evaluated, or lost:\n%s", r.log())
	}
	t.Run("nor in a reference", func(t *testing.T) {
		t.Parallel()
		job{opts: opts, steps: "- {name: a, step: '${{ job.REF }}'}\n"}.run(t).fails(event.ErrorNotFound, hostile)
	})
}

func TestB16ResultsSayWhatHappened(t *testing.T) {
	t.Parallel()
	r := job{
		steps: "- {name: a, step: ./a}\n- {name: b, script: exit 2}\n- {name: c, script: 'true'}\n",
		files: map[string]string{"a/step.yml": "spec: {}\n---\nenv: {OWN: mine}\nexec: {command: ['true']}\n"},
	}.run(t).fails(event.ErrorStep)
	a, b := r.finished("a"), r.finished("b")
	if a.Duration <= 0 || b.Error == nil || b.Error.Message == "" || r.skipped("c") == "" {
		t.Errorf("a took %v, b failed with %v, c was skipped because %q", a.Duration, b.Error, r.skipped("c"))
	}
	resolved := bodies[event.StepResolved](r)
	if len(resolved) != 1 || !strings.HasPrefix(resolved[0].Digest, "sha256:") || resolved[0].Dir != filepath.Join(r.dir, "a") {
		t.Errorf("resolved: %+v", resolved)
	}
	started := bodies[event.ExecStarted](r)
	if len(started[0].Env) != 2 || started[0].Env["HOME"] == "" || started[0].Env["OWN"] != "mine" || started[1].Env != nil {
		t.Errorf("the events repeat the environment: %v, %v", started[0].Env, started[1].Env)
	}
	if run := bodies[event.RunStarted](r); run[0].Env["PATH"] == "" {
		t.Error("the base environment is not in the first event")
	}
	for i, e := range r.events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
	}
}

func TestHostileInputsInShellText(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"$(touch pwned)", "`touch pwned`", "'; touch pwned; '", `"; touch pwned; "`, "a\ntouch pwned\n", "; touch pwned", "| touch pwned",
		"EOF\ntouch pwned\n", "${IFS}$(touch${IFS}pwned)", `\`, `\"; touch pwned #`, "!!", "-n", "*",
	}
	scripts := map[string]string{
		"script, in double quotes":    "- name: s\n  script: |\n    printf '%s' \"${{ job.V }}\"\n",
		"script, in single quotes":    "- name: s\n  script: |\n    printf '%s' '${{ job.V }}'\n",
		"script, glued to other text": "- name: s\n  script: |\n    x=pre\"${{ job.V }}\"; printf '%s' \"${x#pre}\"\n",
		"script, in a substitution":   "- name: s\n  script: |\n    printf '%s' \"$(printf '%s' \"${{ job.V }}.\")\" | sed 's/\\.$//' | tr -d '\\n'\n",
		"script with sh":              "- name: s\n  shell: sh\n  script: |\n    printf '%s' \"${{ job.V }}\"\n",
		"exec of bash -c":             "- {name: s, exec: {command: [bash, -c, 'printf \"%s\" \"${{ job.V }}\"']}}\n",
		"exec of sh -ec":              "- {name: s, exec: {command: [sh, -ec, 'printf \"%s\" ''${{ job.V }}''']}}\n",
		"exec without a shell":        "- {name: s, exec: {command: [printf, '%s', '${{ job.V }}']}}\n",
		"environment":                 "- {name: s, env: {V: '${{ job.V }}'}, script: 'printf \"%s\" \"$V\"'}\n",
	}
	for name, steps := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, value := range hostile {
				r := job{steps: steps, opts: engine.Options{Job: map[string]engine.Variable{"V": {Value: value}}}}.run(t).succeeds()
				if _, err := os.Stat(filepath.Join(r.dir, "pwned")); err == nil {
					t.Fatalf("the value %q became code", value)
				}
				want := value
				if strings.Contains(name, "substitution") {
					want = strings.ReplaceAll(value, "\n", "")
				}
				if r.log() != want {
					t.Errorf("the value %q came out as %q", value, r.log())
				}
			}
		})
	}
	t.Run("unquoted text is split into words, and is still no code", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {name: s, script: 'printf \"[%s]\" ${{ job.V }}'}\n", opts: engine.Options{Job: map[string]engine.Variable{"V": {Value: "a b; touch pwned"}}}}.run(t).succeeds()
		r.logs("[a][b;][touch][pwned]")
	})
	t.Run("who wants a value to be code says so", func(t *testing.T) {
		t.Parallel()
		opts := engine.Options{Job: map[string]engine.Variable{"V": {Value: "echo code"}}}
		job{steps: "- {name: s, script: '${{ job.V }}'}\n- {name: t, script: 'eval \"${{ job.V }}\"'}\n", opts: opts}.run(t).succeeds().logs("code\ncode\n")
	})
}

func TestErrorsOfExpressionsStandWhereTheExpressionIsWritten(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps        string
		line, column int
	}{
		"on one line":                           {"- {name: a, script: 'echo ${{ nope.x }}'}\n", 1, 31},
		"in a literal block":                    {"- name: a\n  script: |\n    echo ok\n\n      echo €€ ${{ nope.x }}\n    echo ok\n", 5, 19},
		"in a literal block of CRLF lines":      {"- name: a\r\n  script: |-\r\n    echo ok\r\n    echo ${{ nope.x }}\r\n", 4, 14},
		"in a folded block, at the block":       {"- name: a\n  script: >\n    echo ok\n    echo ${{ nope.x }}\n", 2, 11},
		"in a text with escapes, at its quotes": {"- name: a\n  script: \"echo \\t ${{ nope.x }}\"\n", 2, 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := job{steps: test.steps}.run(t).fails(event.ErrorDefinition, "nope")
			if place := r.Error.Diagnostics[0].Span; place.Line != test.line || place.Column != test.column {
				t.Errorf("the error stands at %d:%d, want %d:%d", place.Line, place.Column, test.line, test.column)
			}
		})
	}
}

func TestComponentsAreCheckedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	t.Run("a mistake in the last component is found before the first step starts", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"bad/step.yml": "spec: {}\n---\nexec: {comand: [a]}\n", "mid/step.yml": "spec: {}\n---\nrun: [{name: x, step: ../bad}]\n"}
		r := job{steps: "- {name: a, script: echo ran}\n- {name: b, step: ./mid}\n", files: files}.run(t).fails(event.ErrorDefinition, "../bad").logs("")
		if len(r.Error.Diagnostics) == 0 || !strings.HasSuffix(r.Error.Diagnostics[0].File, filepath.Join("bad", "step.yml")) {
			t.Errorf("the diagnostics are %v", r.Error.Diagnostics)
		}
	})
	t.Run("components that call each other in a cycle are refused", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"a/step.yml": "spec: {}\n---\nrun: [{name: b, step: ../b}]\n", "b/step.yml": "spec: {}\n---\nrun: [{name: a, step: ../a}]\n"}
		job{steps: "- {name: c, step: ./a}\n", files: files}.run(t).fails(event.ErrorDefinition, "cycle: ./a -> ../b -> ../a")
	})
	t.Run("a recursion that a condition ends is fine", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"down/step.yml": "spec: {inputs: {n: {type: number}}}\n---\nrun:\n  - {name: say, exec: {command: [echo, '${{ inputs.n }}']}}\n  - {name: again, if: inputs.n > 1, step: ../down, inputs: {n: '${{ inputs.n - 1 }}'}}\n"}
		job{steps: "- {name: go, step: ./down, inputs: {n: 3}}\n", files: files}.run(t).succeeds().logs("3\n2\n1\n")
	})
	t.Run("a recursion that no condition ends meets a limit", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"down/step.yml": "spec: {}\n---\nrun:\n  - {name: again, if: true, step: ../down}\n"}
		job{steps: "- {name: go, step: ./down}\n", files: files}.run(t).fails(event.ErrorDefinition, "more than 100 levels deep")
	})
	t.Run("a component that a step makes is found when it is there", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("needs a shell")
		}
		job{steps: "- {name: make, script: 'mkdir made; printf \"spec: {}\\n---\\nexec: {command: [echo, made]}\\n\" >made/step.yml'}\n- {name: use, step: ./made}\n"}.run(t).succeeds().logs("made\n")
	})
}

func TestReferencesThatCannotBeFollowedAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"gitlab.com/some/step@v1", "{git: {url: gitlab.com/some/step, rev: v1}}", "{oci: {registry: r.example, repository: a/b, tag: v1}}", "dist://oci/publish"} {
		job{steps: "- {name: a, script: echo ran}\n- {name: b, step: " + ref + "}\n"}.run(t).fails(event.ErrorDefinition, `step "b"`, "has no source for").logs("")
	}
}
