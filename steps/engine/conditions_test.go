package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/event"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, steps, want string
		fails             event.ErrorKind
		skipped           map[string]string
	}{
		{
			name:    "B02 if: false is honoured",
			steps:   "- {name: a, if: false, script: echo a}\n- {name: b, script: echo b}\n",
			want:    "b\n",
			skipped: map[string]string{"a": "if: false"},
		},
		{
			name:  "if takes an expression with and without braces",
			steps: "- {name: a, if: '${{ 1 == 1 }}', script: echo a}\n- {name: b, if: 1 == 2, script: echo b}\n",
			want:  "a\n",
		},
		{
			name:    "a failure skips the steps after it",
			steps:   "- {name: a, script: exit 1}\n- {name: b, script: echo b}\n",
			fails:   event.ErrorStep,
			skipped: map[string]string{"b": "an earlier step failed"},
		},
		{
			name:  "when: always and on_failure run after a failure, in order",
			steps: "- {name: a, script: exit 1}\n- {name: b, when: on_failure, script: echo b}\n- {name: c, when: always, script: echo c}\n- {name: d, script: echo d}\n",
			want:  "b\nc\n", fails: event.ErrorStep,
		},
		{
			name:    "when: on_failure is skipped after success",
			steps:   "- {name: a, script: echo a}\n- {name: b, when: on_failure, script: echo b}\n",
			want:    "a\n",
			skipped: map[string]string{"b": "no earlier step failed"},
		},
		{
			name:  "status functions lift the default condition",
			steps: "- {name: a, script: exit 1}\n- {name: b, if: failure(), script: echo b}\n- {name: c, if: always(), script: echo c}\n- {name: d, if: success(), script: echo d}\n- {name: e, if: cancelled(), script: echo e}\n",
			want:  "b\nc\n", fails: event.ErrorStep,
		},
		{
			name:  "steps.NAME.status says how a step went",
			steps: "- {name: a, script: exit 1, allow_failure: true}\n- {name: b, if: false, script: 'true'}\n- name: c\n  script: echo ${{ steps.a.status }} ${{ steps.b.status }}\n",
			want:  "failure skipped\n",
		},
		{
			name:  "allow_failure lets the list go on",
			steps: "- {name: a, script: exit 1, allow_failure: true}\n- {name: b, script: echo b}\n",
			want:  "b\n",
		},
		{
			name:  "allow_failure with exit codes allows only those",
			steps: "- {name: a, script: exit 3, allow_failure: {exit_codes: [3]}}\n- {name: b, script: echo b}\n- {name: c, script: exit 4, allow_failure: {exit_codes: [3]}}\n- {name: d, script: echo d}\n",
			want:  "b\n", fails: event.ErrorStep,
		},
		{
			name:  "a condition that cannot be evaluated fails the step",
			steps: "- {name: a, if: inputs.nope, script: echo a}\n",
			fails: event.ErrorDefinition,
		},
		{
			name:    "a variable that is not set is null in a condition, and nowhere else",
			steps:   "- {name: a, if: vars.CI_COMMIT_TAG, script: echo a}\n- {name: b, if: 'env.NOPE != \"x\" && !job.NOPE', script: echo b}\n- {name: c, script: 'echo ${{ vars.CI_COMMIT_TAG }}'}\n",
			want:    "b\n",
			fails:   event.ErrorDefinition,
			skipped: map[string]string{"a": "if: vars.CI_COMMIT_TAG is false"},
		},
		{
			name:  "a condition sees the steps before it",
			steps: "- name: a\n  script: |\n    echo '{\"name\":\"deploy\",\"value\":false}' >>${{ output_file }}\n- {name: b, if: steps.a.outputs.deploy, script: echo b}\n",
		},
		{
			name:  "when holds for components too",
			steps: "- {name: a, script: exit 1}\n- name: b\n  when: always\n  run:\n    - {name: x, script: echo x}\n    - {name: y, if: failure(), script: echo y}\n",
			want:  "x\n", fails: event.ErrorStep,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := job{steps: c.steps}.run(t)
			if c.fails == "" {
				r.succeeds()
			} else {
				r.fails(c.fails)
			}
			r.logs(c.want)
			for name, want := range c.skipped {
				if got := r.skipped(name); got != want {
					t.Errorf("step %s was skipped because %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	flaky := "- name: flaky\n  retry: %\n  script: |\n    echo x >>count; echo try $(wc -l <count); test $(wc -l <count) -ge 3 || exit 7\n"
	t.Run("a step that fails runs again", func(t *testing.T) {
		t.Parallel()
		r := job{steps: strings.Replace(flaky, "%", "2", 1)}.run(t).succeeds().logs("try 1\ntry 2\ntry 3\n")
		if got := len(bodies[event.ExecStarted](r)); got != 3 {
			t.Errorf("%d attempts, want 3", got)
		}
		if log := bodies[event.Log](r); log[len(log)-1].Offset == 0 {
			t.Error("the offsets of a log begin anew with every attempt")
		}
	})
	t.Run("no oftener than it may", func(t *testing.T) {
		t.Parallel()
		job{steps: strings.Replace(flaky, "%", "1", 1)}.run(t).fails(event.ErrorStep, "exit status 7").logs("try 1\ntry 2\n")
	})
	t.Run("only after the exit codes that are named", func(t *testing.T) {
		t.Parallel()
		job{steps: strings.Replace(flaky, "%", "{max: 2, exit_codes: [8]}", 1)}.run(t).fails(event.ErrorStep).logs("try 1\n")
		job{steps: strings.Replace(flaky, "%", "{max: 2, delay: 1ms, exit_codes: [7]}", 1)}.run(t).succeeds()
	})
	t.Run("a list of steps runs again as a whole", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- name: list\n  retry: 1\n  run:\n    - {name: a, script: echo a}\n    - {name: b, script: 'echo x >>count; test $(wc -l <count) -ge 2'}\n"}.run(t).succeeds().logs("a\na\n")
		if got, want := r.counts(), (event.Counts{Success: 2}); got != want {
			t.Errorf("the counts are %+v, want %+v: the attempt that failed does not count", got, want)
		}
	})
}

func TestParallel(t *testing.T) {
	t.Parallel()
	t.Run("members run at the same time", func(t *testing.T) {
		t.Parallel()
		// Each waits for the other: one after the other they would never end.
		wait := "'touch %1; until test -e %2; do sleep 0.01; done'"
		steps := "- parallel:\n    - {name: a, timeout: 20s, script: " + strings.NewReplacer("%1", "a", "%2", "b").Replace(wait) + "}\n    - {name: b, timeout: 20s, script: " + strings.NewReplacer("%1", "b", "%2", "a").Replace(wait) + "}\n"
		job{steps: steps}.run(t).succeeds()
	})
	t.Run("their outputs and exports are there for the steps after the group, exports in the order they are written", func(t *testing.T) {
		t.Parallel()
		give := func(name, delay string) string {
			return "    - name: " + name + "\n      script: |\n        sleep " + delay + "\n        echo '{\"name\":\"o\",\"value\":\"" + name + "\"}' >>${{ output_file }}\n        echo '{\"name\":\"LAST\",\"value\":\"" + name + "\"}' >>${{ export_file }}\n"
		}
		job{steps: "- parallel:\n" + give("a", "0.2") + give("b", "0") + "- script: echo ${{ steps.a.outputs.o }} ${{ steps.b.outputs.o }} $LAST\n"}.run(t).succeeds().logs("a b b\n")
	})
	t.Run("one failure fails the group after all have ended", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- name: group\n  parallel:\n    - {name: a, script: exit 1}\n    - {name: b, script: 'sleep 0.1; echo b'}\n- {name: c, script: echo c}\n"}.run(t).fails(event.ErrorStep, `step "group/a": exec: exit status 1`).logs("b\n")
		if r.skipped("c") == "" {
			t.Error("the step after the group was not skipped")
		}
	})
	t.Run("max_parallel bounds how many run at once", func(t *testing.T) {
		t.Parallel()
		one := "script: 'mkdir lock && sleep 0.02 && rmdir lock'"
		job{steps: "- max_parallel: 1\n  parallel:\n    - {name: a, " + one + "}\n    - {name: b, " + one + "}\n    - {name: c, " + one + "}\n"}.run(t).succeeds()
	})
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	t.Run("a step that takes too long is stopped", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {name: slow, timeout: 100ms, script: sleep 60}\n- {name: clean, when: always, script: echo clean}\n"}.run(t)
		r.fails(event.ErrorTimeout, `step "slow"`, "timed out after 100ms").logs("clean\n")
	})
	t.Run("exec.timeout stops a command", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {name: slow, exec: {command: [sleep, '60'], timeout: 100ms}}\n"}.run(t).fails(event.ErrorTimeout, "the command timed out after 100ms")
	})
	t.Run("a list's time holds for the steps in it, and what cleans up still runs", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- name: list\n  timeout: 150ms\n  run:\n    - {name: slow, script: sleep 60}\n    - {name: next, script: echo next}\n    - {name: clean, when: always, script: echo clean}\n"}.run(t)
		r.fails(event.ErrorTimeout).logs("clean\n")
	})
	t.Run("a run has a time too", func(t *testing.T) {
		t.Parallel()
		j := job{steps: "- {name: slow, script: sleep 60}\n"}
		j.opts.Timeout = 100 * time.Millisecond
		j.run(t).fails(event.ErrorTimeout, "the run timed out")
	})
	t.Run("an allowed failure covers a timeout", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {name: slow, timeout: 50ms, allow_failure: true, script: sleep 60}\n- {name: next, script: echo next}\n"}.run(t).succeeds().logs("next\n")
	})
}
