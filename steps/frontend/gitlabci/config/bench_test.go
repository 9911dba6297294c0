package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// pipeline is a configuration of n jobs in ten lines each, with hidden jobs that extend each other.
func pipeline(n int) []byte {
	var b strings.Builder
	b.WriteString("stages: [build, test, deploy]\ndefault:\n  image: alpine:3\n  retry: 1\nvariables:\n  GLOBAL: \"1\"\n")
	for i := range 20 {
		fmt.Fprintf(&b, ".root%d:\n  variables:\n    A: a%d\n  tags: [a, b]\n", i, i)
		fmt.Fprintf(&b, ".hidden%d:\n  extends: .root%d\n  before_script:\n    - echo setup %d\n  variables:\n    B: b\n  rules:\n    - if: $CI_COMMIT_BRANCH == \"main\"\n", i, i, i)
	}
	for i := range n {
		fmt.Fprintf(&b, "job-%d:\n  extends: .hidden%d\n  stage: test\n  variables:\n    N: \"%d\"\n  script:\n    - !reference [.hidden%d, before_script]\n    - echo hello %d\n  rules:\n    - if: $X == \"%d\"\n",
			i, i%20, i, (i+1)%20, i, i)
	}
	return []byte(b.String())
}

func BenchmarkResolve(b *testing.B) {
	for _, n := range []int{200, 1000, 5000} {
		data := pipeline(n)
		b.Run(fmt.Sprintf("%d jobs in %d lines", n, strings.Count(string(data), "\n")), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, err := config.Resolve(b.Context(), ".gitlab-ci.yml", data, config.Options{})
				if err != nil || len(c.Jobs) != n {
					b.Fatal(len(c.Jobs), err)
				}
			}
		})
	}
}

// BenchmarkIncludes resolves jobs that are spread over many files.
func BenchmarkIncludes(b *testing.B) {
	loader := files{}
	var root strings.Builder
	root.WriteString("include:\n")
	for i := range 100 {
		name := fmt.Sprintf("ci/%d.yml", i)
		fmt.Fprintf(&root, "  - local: %s\n    inputs: {name: n%d}\n", name, i)
		var file strings.Builder
		file.WriteString("spec:\n  inputs:\n    name:\n---\n")
		for j := range 50 {
			fmt.Fprintf(&file, "\"$[[ inputs.name ]]-job-%d\":\n  extends: .base\n  script:\n    - echo $[[ inputs.name ]]\n    - echo %d\n", j, j)
		}
		loader[name] = file.String()
	}
	root.WriteString(".base:\n  image: alpine\n  tags: [a]\n")
	for b.Loop() {
		c, err := config.Resolve(b.Context(), ".gitlab-ci.yml", []byte(root.String()), config.Options{Loader: loader})
		if err != nil || len(c.Jobs) != 5000 {
			b.Fatal(err)
		}
	}
}
