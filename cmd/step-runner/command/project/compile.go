package project

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/plan"
)

// CompileJob makes steps of a job that is not run, with the artifacts of others that would run before it.
func CompileJob(ctx context.Context, p *gitlab.Project, j *pipeline.Job, secrets map[string]string, others ...*pipeline.Job) (*plan.Component, []string, error) {
	compiled, err := p.Compile(ctx, j, gitlab.RunOptions{Secrets: secrets, Jobs: others}, plannedFolder(p))
	if err != nil {
		return nil, nil, err
	}
	return compiled.Plan, compiled.Notes, nil
}

// plannedFolder is where the project of a job would be that is only shown.
func plannedFolder(p *gitlab.Project) string {
	return filepath.Join(os.TempDir(), "rung-planned", p.Repository.Project.Name())
}
