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
		"requested":                {step, "spec: {env: {A: {}, CI_*: {}}}\n---\nexec: {script: 'echo $A $CI_JOB_ID $HOME $PATH $PWD $RANDOM $1 $? $UID $BASH_VERSION'}\n", nil},
		"a secret":                 {"- {name: a, step: ./c, secrets: [T]}\n", "spec: {secrets: {T: {}}}\n---\nexec: {script: 'echo $T'}\n", nil},
		"its own":                  {step, "spec: {}\n---\nenv: {A: x}\nexec: {script: 'B=1; read -r C; for D in x; do echo $A $B $C $D $lower; done'}\n", nil},
		"passed":                   {"- {name: a, step: ./c, env: {A: x}}\n", "spec: {}\n---\nexec: {script: 'echo $A'}\n", nil},
		"inherited":                {"- {name: a, step: ./c, inherit_env: true}\n", "spec: {}\n---\nexec: {script: 'echo $A'}\n", nil},
		"one that may be missing":  {step, "spec: {}\n---\nexec: {script: 'echo ${A:-x} ${B-} ${C+x}'}\n", nil},
		"another file":             {step, "spec: {}\n---\nexec: {script: '. ./env; echo $A'}\n", nil},
		"quoted":                   {step, "spec: {}\n---\nexec: {script: \"echo '$A'\"}\n", nil},
		"another shell":            {step, "spec: {}\n---\nexec: {command: [pwsh, -c, 'echo $A']}\n", nil},
		"a job's own script":       {"- {script: 'echo $ANY'}\n", "", nil},
		"with a default elsewhere": {step, "spec: {}\n---\nexec: {script: ': \"${A:=x}\"; echo $A'}\n", nil},
		"that it asks for":         {step, "spec: {}\n---\nexec: {script: 'if [ -n \"$A\" ] && test ! -z $B || [[ -z ${C} ]]; then echo $A $B $C; fi'}\n", nil},
		"exported from a file":     {step, "spec: {}\n---\nexec: {script: 'export $(cat env); echo $A'}\n", nil},

		"a script of a list": {step, "spec: {env: {A: {}}}\n---\nrun:\n  - {name: x, script: 'echo $A $B'}\n",
			[]string{"env-not-requested c:4:33 (a) the component reads B, which its spec does not request"}},
		"a script of a group": {step, "spec: {}\n---\nrun:\n  - {name: g, env: {A: x}, parallel: [{name: x, script: 'echo $A'}, {name: y, env: {B: x}, script: 'echo $A $B'}, {name: z, script: 'echo $B'}]}\n",
			[]string{"env-not-requested c:4:140 (a) the component reads B, which its spec does not request"}},
		"a script in a component of a component": {step, "spec: {env: {A: {}}}\n---\nrun: [{name: x, step: ../d}]\n",
			[]string{"env-not-requested d:3:32 (a/x) the component reads A, which its spec does not request"}},
		"before it is exported": {step, "spec: {}\n---\nrun:\n  - {name: x, script: 'echo $E'}\n  - {name: y, step: ../exporting}\n  - {name: z, script: 'echo $E'}\n",
			[]string{"env-not-requested c:4:30 (a) the component reads E, which its spec does not request"}},
		"passed by one caller": {"- {name: a, step: ./c, env: {A: x}}\n- {name: b, step: ./c}\n- {name: d, step: ./c, inherit_env: true}\n", "spec: {}\n---\nrun: [{name: x, script: 'echo $A'}]\n",
			[]string{"env-not-requested c:3:32 (b) the component reads A, which its spec does not request"}},
		"what a list sets":        {step, "spec: {env: {C_*: {}}, secrets: {S: {optional: true}}}\n---\nenv: {A: x}\nrun: [{name: x, env: {B: x}, secrets: [S], script: 'echo $A $B $C_D $S'}]\n", nil},
		"what an expression says": {step, "spec: {}\n---\nrun: [{name: x, script: 'echo $A'}, {name: y, script: 'echo ${{ env.A }}'}]\n", nil},
		"a file of exports":       {step, "spec: {exports: ['*']}\n---\nrun: [{name: x, script: './tool >>${{ export_file }}'}, {name: y, script: 'echo $A'}]\n", nil},
		"an action before it":     {step, "spec: {}\n---\nrun: [{name: x, action: o/r@v1}, {name: y, script: 'echo $A'}]\n", nil},
		"an unknown component":    {step, "spec: {}\n---\nrun: [{name: x, step: '${{ inputs.x }}'}, {name: y, script: 'echo $A'}]\n", []string{`unknown-input c:3:35 (a/x) inputs.x: "x" was not found; inputs is empty`}},

		"an export of a list that is not declared": {step, "spec: {exports: [B]}\n---\nrun: [{name: x, script: \"echo '{\\\"name\\\":\\\"A\\\",\\\"value\\\":\\\"x\\\"}' >>${{ export_file }}\"}]\n",
			[]string{"export-not-declared c:3:25 (a) the component exports A, which its spec does not declare"}},
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
			got := found(t, c.steps, map[string]string{"c": c.component, "d": "spec: {}\n---\nrun: [{name: x, script: 'echo $A'}]\n", "exporting": "spec: {exports: [E]}\n---\nexec: {command: [x]}\n"})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(strings.TrimSpace(c.component) + "\n" + diff)
			}
		})
	}
}
