package check_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAComponentRequestsIsChecked(t *testing.T) {
	t.Parallel()
	step := "- {name: a, step: ./c}\n"
	for name, c := range map[string]struct {
		steps, component string
		want             []string
	}{
		"a variable that is not requested": {step, "spec: {}\n---\nexec:\n  script: |\n    true\n    curl \"$URL\"\n",
			[]string{"env-not-requested c:6:12 (a) the component reads URL, which its spec does not request"}},
		"one of a command": {step, "spec: {env: {URL: {}}}\n---\nexec: {command: [sh, -c, 'curl $URL $TOKEN']}\n",
			[]string{"env-not-requested c:3:38 (a) the component reads TOKEN, which its spec does not request"}},
		"once for each": {step + "- {name: b, step: ./c}\n", "spec: {}\n---\nexec: {script: 'echo $A $A'}\n",
			[]string{"env-not-requested c:3:23 (a) the component reads A, which its spec does not request"}},
		"requested":               {step, "spec: {env: {A: {}, CI_*: {}}}\n---\nexec: {script: 'echo $A $CI_JOB_ID $HOME $PATH $PWD $RANDOM $1 $? $UID $BASH_VERSION'}\n", nil},
		"a secret":                {"- {name: a, step: ./c, secrets: [T]}\n", "spec: {secrets: {T: {}}}\n---\nexec: {script: 'echo $T'}\n", nil},
		"its own":                 {step, "spec: {}\n---\nenv: {A: x}\nexec: {script: 'B=1; read -r C; for D in x; do echo $A $B $C $D $lower; done'}\n", nil},
		"passed":                  {"- {name: a, step: ./c, env: {A: x}}\n", "spec: {}\n---\nexec: {script: 'echo $A'}\n", nil},
		"inherited":               {"- {name: a, step: ./c, inherit_env: true}\n", "spec: {}\n---\nexec: {script: 'echo $A'}\n", nil},
		"one that may be missing": {step, "spec: {}\n---\nexec: {script: 'echo ${A:-x} ${B-} ${C+x}'}\n", nil},
		"another file":            {step, "spec: {}\n---\nexec: {script: '. ./env; echo $A'}\n", nil},
		"quoted":                  {step, "spec: {}\n---\nexec: {script: \"echo '$A'\"}\n", nil},
		"another shell":           {step, "spec: {}\n---\nexec: {command: [pwsh, -c, 'echo $A']}\n", nil},
		"a job's own script":      {"- {script: 'echo $ANY'}\n", "", nil},

		"an export that is not declared": {step, "spec: {exports: [B]}\n---\nexec:\n  script: |\n    echo '{\"name\":\"B\",\"value\":\"x\"}' >> ${{ export_file }}\n    echo '{\"name\":\"A\",\"value\":\"x\"}' >> ${{ export_file }}\n",
			[]string{"export-not-declared c:6:20 (a) the component exports A, which its spec does not declare"}},
		"an export that is":          {step, "spec: {exports: [A, B_*]}\n---\nexec:\n  script: |\n    echo '{\"name\":\"A\",\"value\":\"x\"}' >> ${{ export_file }}\n    echo '{\"name\":\"B_1\"}' >>\"${{ export_file }}\"\n", nil},
		"an output is not an export": {step, "spec: {outputs: {A: {type: string}}}\n---\nexec:\n  script: |\n    echo '{\"name\":\"A\",\"value\":\"x\"}' >> ${{ output_file }}\n", nil},
		"a job's own export":         {"- {script: \"echo '{\\\"name\\\":\\\"A\\\"}' >> ${{ export_file }}\"}\n", "", nil},
		"a guarded one, not allowed": {step, "spec: {exports: [LD_PRELOAD]}\n---\nexec: {command: [x]}\n", []string{"export-not-allowed steps.yml:1:3 (a) ./c may export LD_PRELOAD, which can take over later steps: it fails when it does"}},
		"a guarded one, allowed":     {"- {name: a, step: ./c, allow_exports: [LD_PRELOAD]}\n", "spec: {exports: [LD_PRELOAD]}\n---\nexec: {command: [x]}\n", nil},
		"PATH, and any of a pattern": {step, "spec: {exports: [PATH, '*']}\n---\nexec: {command: [x]}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := found(t, c.steps, map[string]string{"c": c.component})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(strings.TrimSpace(c.component) + "\n" + diff)
			}
		})
	}
}
