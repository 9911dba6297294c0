package variable_test

import (
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

func TestMisspelled(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"CI_COMMIT_BRNCH":    "CI_COMMIT_BRANCH", // one too few
		"CI_COMMIT_BRANCHH":  "",                 // may be somebody's own
		"CI_COMMMIT_BRANCH":  "CI_COMMIT_BRANCH", // one too many
		"CI_COMMIT_BARNCH":   "CI_COMMIT_BRANCH", // in each other's place
		"CI_COMMIT_BRENCH":   "CI_COMMIT_BRANCH", // another one
		"CI_PROJECTDIR":      "CI_PROJECT_DIR",
		"CI_PIPELINE_SOURC":  "CI_PIPELINE_SOURCE",
		"CI_REGISTRY_IMAGES": "", // the plural
		"CI_RUNNER_TAG":      "", // the singular
		"CI_API_V3_URL":      "", // another number
		"CI_COMMIT_BRANCH":   "",
		"CI_MY_OWN":          "",
		"CI_JB_ID":           "CI_JOB_ID",
		"MY_BRANCH":          "",
	} {
		if got := variable.Misspelled(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
