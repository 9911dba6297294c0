package gitlab

import (
	"path/filepath"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// dry is an attempt that is not made: it knows where everything would be.
func (p *Project) dry(j *pipeline.Job, o RunOptions, project string) *attempt {
	r := p.runner(&o, local.NewRunner(o.Options))
	r.ID, r.issuer = "run", &issuer{publish: func(any) (string, error) { return "", nil }}
	root := p.Store.Root()
	return &attempt{
		runner: r, job: j, dry: true, id: 1, started: time.Now(), timeout: timeoutOf(j), project: project,
		layout: executor.Layout{Project: project, Temp: project + ".tmp", Shared: true},
		places: places{
			cache: filepath.Join(root, "cache"), artifacts: filepath.Join(root, "artifacts", store.Slug(j.Name), r.ID),
			releases: filepath.Join(root, "releases"), pages: filepath.Join(root, "pages"),
		},
	}
}
