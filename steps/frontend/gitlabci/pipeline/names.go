package pipeline

import (
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// CopyNames returns the names of the copies of a job that a matrix means, for jobs of other pipelines: the job's own name without a
// matrix, and nothing for one that means more than MaxCopies.
func CopyNames(job string, matrix []keyword.MatrixEntry) []string {
	if matrix == nil {
		return []string{job}
	}
	if combinations(matrix) > MaxCopies {
		return nil
	}
	var names []string
	each(matrix, func(variables []variable.Variable) { names = append(names, matrixName(job, variables)) })
	return names
}
