package gitlab

import (
	"slices"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// Unlocked are the images and services of the jobs that a run with these options refuses, as far as their names are known before the first
// job runs. What a name comes to in the end is checked again when its job starts.
func (p *Project) Unlocked(o RunOptions) diag.List {
	if !o.Locked || o.InPlace || o.Isolation == local.IsolateNone {
		return nil
	}
	var found diag.List
	r := p.runner(&o, local.NewRunner(o.Options))
	for _, j := range o.Jobs {
		if j.When == "manual" && !r.startsByHand(j) {
			continue
		}
		for _, d := range p.unlockedIn(j, o) {
			if !slices.Contains(found, d) { // that of `default:` is in all jobs
				found = append(found, d)
			}
		}
	}
	return found
}

// unlockedIn are those of one job.
func (p *Project) unlockedIn(j *pipeline.Job, o RunOptions) (found diag.List) {
	vars, err := p.dry(j, o, p.Repository.Root).variables(nil)
	if err != nil {
		return nil // the job does not start, and tells why
	}
	check := func(image *keyword.Image) {
		name, err := vars.ExpandInJob(image.Name, func(string) string { return "" })
		if err != nil {
			name = image.Name
		}
		if message := local.Unlocked(image.Name, name); message != "" {
			found = append(found, nameOf(image.Node).Diagnostic(local.PinHint, message))
		}
	}
	if j.Keywords.Image != nil {
		check(j.Keywords.Image)
	}
	for i := range j.Keywords.Services {
		check(&j.Keywords.Services[i].Image)
	}
	return found
}

// nameOf is where the name of an image is written.
func nameOf(image config.Node) config.Node {
	if name := image.Get("name"); name.Exists() {
		return name
	}
	return image
}
