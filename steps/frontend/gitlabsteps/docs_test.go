package gitlabsteps_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
)

// TestEveryExampleInTheManualCompiles compiles the YAML in docs/steps.md: what begins with the name of a step file as a
// file, all else as a job's steps.
func TestEveryExampleInTheManualCompiles(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/steps.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(manual), "\r\n", "\n")
	blocks := regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```\n").FindAllStringSubmatchIndex(text, -1)
	if len(blocks) < 20 {
		t.Fatalf("found %d examples", len(blocks))
	}
	for _, at := range blocks {
		example := text[at[2]:at[3]]
		t.Run(fmt.Sprintf("line %d", strings.Count(text[:at[2]], "\n")+1), func(t *testing.T) {
			parse := gitlabsteps.ParseSteps
			if strings.HasPrefix(example, "# func.yml\n") || strings.HasPrefix(example, "# step.yml\n") {
				parse = gitlabsteps.ParseFile
			}
			if _, err := parse("example.yml", []byte(example)); err != nil {
				t.Errorf("%s\n%s", example, diag.Of(err).Render())
			}
		})
	}
}
