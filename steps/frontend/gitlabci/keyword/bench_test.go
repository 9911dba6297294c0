package keyword_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// generated is a configuration of n jobs in ten lines each, with hidden jobs that they extend.
func generated(n int) string {
	var b strings.Builder
	b.WriteString("stages: [build, test, deploy]\ndefault:\n  image: alpine:3\n  retry: 1\nvariables:\n  GLOBAL: \"1\"\n")
	for i := range 20 {
		fmt.Fprintf(&b, ".hidden%d:\n  tags: [a, b]\n  cache:\n    key: k\n    paths: [vendor]\n  before_script:\n    - echo setup %d\n  variables:\n    B: b\n  rules:\n    - if: $CI_COMMIT_BRANCH == \"main\"\n", i, i)
	}
	for i := range n {
		fmt.Fprintf(&b, "job-%d:\n  extends: .hidden%d\n  stage: test\n  variables:\n    N: \"%d\"\n  script:\n    - !reference [.hidden%d, before_script]\n    - echo hello %d\n  rules:\n    - if: $X == \"%d\"\n", i, i%20, i, (i+1)%20, i, i)
		if i > 0 {
			fmt.Fprintf(&b, "  needs: [job-%d]\n", i/2)
		}
	}
	return b.String()
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{200, 1000, 5000} {
		text := generated(n)
		c, list := resolve(b, text)
		if len(list) > 0 {
			b.Fatal(list.Render())
		}
		name := fmt.Sprintf("%d jobs in %d lines", n, strings.Count(text, "\n"))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, problems := keyword.Read(c); len(problems) > 0 || len(d.Jobs) != n {
					b.Fatal(problems.Render())
				}
			}
		})
		b.Run("lint of "+name, func(b *testing.B) {
			d, _ := keyword.Read(c)
			for b.Loop() {
				keyword.Lint(d, c)
			}
		})
	}
}

// BenchmarkWrong reads jobs that are all wrong, which must not cost much more.
func BenchmarkWrong(b *testing.B) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "job-%d:\n  script: make\n  needs: [job%d]\n  stage: tset\n  when: newer\n", i, i)
	}
	c, err := config.Resolve(b.Context(), "ci.yml", []byte(text.String()), config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, problems := keyword.Read(c); len(problems) != config.MaxProblems+1 {
			b.Fatal(len(problems))
		}
	}
}
