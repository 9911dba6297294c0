package keyword_test

import (
	"strings"
	"testing"
)

func TestLintOfScripts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"a quote":              {"job:\n  script:\n    - echo 'it\n    - echo done\n", ":3:12: the shell does not find the end of what begins here"},
		"a block":              {"job:\n  script:\n    - |\n      true\n      echo \"it\n", ":5:12: the shell does not find the end"},
		"an if":                {"job:\n  script:\n    - if true; then\n    - echo x\n", ":3:7: the shell does not find the end"},
		"after_script":         {"job:\n  script: [x]\n  after_script: ['echo $(date']\n", ":3:24: the shell does not find the end"},
		"a typo":               {"job:\n  script:\n    - echo x\n    - echo \"$CI_COMMIT_BRNCH\"\n", ":4:14: nothing here sets CI_COMMIT_BRNCH, and GitLab has no variable of that name"},
		"a typo in braces":     {"job:\n  script: ['echo ${CI_COMMIT_BRNCH:-x}']\n", ":2:20: nothing here sets CI_COMMIT_BRNCH"},
		"a typo in a rule":     {"job:\n  script: x\n  rules:\n    - if: $CI_COMIT_TAG\n    - when: never\n", ":4:12: nothing here sets CI_COMIT_TAG"},
		"a typo in workflow":   {"workflow: {rules: [{if: $CI_PIPELINE_SUORCE}]}\njob: {script: x}\n", "CI_PIPELINE_SUORCE"},
		"lines over two items": {"job:\n  script:\n    - if true; then\n    - echo x\n    - fi\n", ""},
		"before_script begins": {"job:\n  before_script: ['for i in 1 2; do']\n  script: ['echo $i; done']\n", ""},
		"PowerShell":           {"job:\n  tags: [windows]\n  script: ['echo \"a`\"b\"']\n", ""},
		"PowerShell's words":   {"job:\n  script: ['Write-Host \"a`\"b\" $env:X']\n", ""},
		"another shell":        {"job:\n  script: ['if (Test-Path x) { y }']\n", ""},
		"a setting":            {"job:\n  script: ['echo $MY_TOKEN $CI_MY_OWN $CI_REGISTRY_IMAGES $DEPLOY_KEY']\n", ""},
		"an own variable":      {"variables: {CI_COMMIT_BRNCH: x}\njob:\n  script: ['echo $CI_COMMIT_BRNCH']\n", ""},
		"a variable of a rule": {"job:\n  script: ['echo $CI_COMMIT_BRNCH']\n  rules: [{if: $A, variables: {CI_COMMIT_BRNCH: x}}]\n", ""},
		"dotenv":               {"a: {stage: build, script: ['echo CI_COMMIT_BRNCH=x >> a.env'], artifacts: {reports: {dotenv: a.env}}}\njob:\n  script: ['echo $CI_COMMIT_BRNCH']\n", ""},
		"an assignment":        {"job:\n  script: ['CI_COMMIT_BRNCH=x', 'echo $CI_COMMIT_BRNCH']\n", ""},
		"single quotes":        {"job:\n  script: [\"echo '$CI_COMMIT_BRNCH'\"]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := lint(t, c.text)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s\n%s, want %s", c.text, got, c.want)
			}
		})
	}
}
