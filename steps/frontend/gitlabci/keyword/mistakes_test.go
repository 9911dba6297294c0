package keyword_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// TestOneMistakeIsToldOnce makes sure that what a job lacks by a mistake in a template far above is no further mistake.
func TestOneMistakeIsToldOnce(t *testing.T) {
	t.Parallel()
	const text = `stages: [build]
.a: {extends: [.gone, .image], stage: build, script: x}
.b: {extends: .a}
.image: {image: alpine}
one: {extends: .b}
two: {extends: .gone2}
`
	c, err := config.Resolve(context.Background(), "ci.yml", []byte(text), config.Options{})
	problems := diag.Of(err)
	if len(problems) != 2 || !strings.Contains(problems[0].Message, `".a" extends ".gone"`) || !strings.Contains(problems[1].Message, `"two" extends ".gone2"`) {
		t.Errorf("resolving says\n%s", problems.Render())
	}
	d, more := keyword.Read(c)
	if len(more) > 0 {
		t.Errorf("reading says\n%s", more.Render())
	}
	if one := d.Jobs[0]; one.Stage != "build" || one.Image == nil || len(one.Script) != 1 {
		t.Errorf("the job has not got what is there: %+v", one)
	}
}
