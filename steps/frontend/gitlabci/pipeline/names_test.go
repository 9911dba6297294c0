package pipeline_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

func TestNamesOfCopies(t *testing.T) {
	t.Parallel()
	many := make([]string, pipeline.MaxCopies+1)
	for _, test := range []struct {
		name   string
		matrix []keyword.MatrixEntry
		want   []string
	}{
		{"without a matrix it is the job's", nil, []string{"test"}},
		{"every combination has one", []keyword.MatrixEntry{{{Name: "OS", Values: []string{"a", "b"}}, {Name: "V", Values: []string{"1"}}}}, []string{"test: [a, 1]", "test: [b, 1]"}},
		{"too many have none", []keyword.MatrixEntry{{{Name: "N", Values: many}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, pipeline.CopyNames("test", test.matrix)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
