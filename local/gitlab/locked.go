package gitlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/place"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
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
		vars, err := p.dry(j, o, p.Repository.Root).variables(nil)
		if err != nil {
			continue // the job does not start, and tells why
		}
		for _, image := range imagesIn(j, vars) {
			if message := image.Unlocked(p.lock); message != "" {
				image.At.Message, image.At.Hint = message, local.PinHint
				if !slices.Contains(found, image.At) { // that of `default:` is in all jobs
					found = append(found, image.At)
				}
			}
		}
	}
	return found
}

// NeedsGit reports whether a job of a run with these options gets a copy of the project, for which git is asked what belongs to it. Child
// pipelines are not looked into.
func (p *Project) NeedsGit(o RunOptions) bool {
	if o.InPlace {
		return false
	}
	r := p.runner(&o, local.NewRunner(o.Options))
	return slices.ContainsFunc(o.Jobs, func(j *pipeline.Job) bool {
		if j.Keywords.Trigger != nil || j.When == "manual" && !r.startsByHand(j) {
			return false
		}
		vars, err := p.dry(j, o, p.Repository.Root).variables(nil)
		return err == nil && wantsTree(vars) // otherwise the job does not start, and tells why
	})
}

// varied is the value of variables that differ from run to run when it is asked what does not. No image has it in its name.
const varied = "\x00"

// imagesIn are the images and services of a job with its variables.
func imagesIn(j *pipeline.Job, vars *variable.Collection) (all []local.Image) {
	add := func(image *keyword.Image) {
		out := local.Image{Written: image.Name, Name: image.Name, At: nameOf(image.Node).Diagnostic("", "")}
		name, err := vars.ExpandInJob(image.Name, func(string) string { return varied })
		if err == nil {
			out.Name = name
		}
		for _, of := range variable.References(image.Name) {
			_, known := vars.Get(of)
			out.Varies = out.Varies || !known
		}
		out.Varies = out.Varies || strings.ContainsAny(out.Name, "$"+varied)
		all = append(all, out)
	}
	if j.Keywords.Image != nil {
		add(j.Keywords.Image)
	}
	for i := range j.Keywords.Services {
		add(&j.Keywords.Services[i].Image)
	}
	return all
}

// nameOf is where the name of an image is written.
func nameOf(image config.Node) config.Node {
	if name := image.Get("name"); name.Exists() {
		return name
	}
	return image
}

// Used is what a lock file should have for a pipeline: for all of its jobs, those of its child pipelines, and those that its rules leave out.
type Used struct {
	Images []local.Image
	// Plans are the jobs that consist of steps.
	Plans []*Compiled
	// Unknown says of what it is not known before the pipeline runs.
	Unknown diag.List
}

// Used finds what a lock file should have. Variables are those of the file, the settings and the options; those of a commit, a pipeline or a
// job's report are not known.
func (p *Project) Used(ctx context.Context) *Used {
	u := &Used{}
	u.add(ctx, p)
	return u
}

func (u *Used) add(ctx context.Context, p *Project) {
	o := RunOptions{Options: local.Options{Observer: &local.Notes{}}}
	for _, j := range slices.Concat(p.Pipeline.Jobs, p.Pipeline.Excluded) {
		unknown := func(what string, err error) {
			u.Unknown = append(u.Unknown, j.Keywords.Key.Diagnostic("lock what it names by further arguments: a FILE, a REF or docker://NAME",
				fmt.Sprintf("%s of the job %q cannot be locked: %s", what, j.Name, session.OneLine(err.Error()))))
		}
		r := p.dry(j, o, p.Repository.Root).runner
		if t := j.Keywords.Trigger; t != nil {
			switch child, err := u.child(ctx, r, j); {
			case t.Project != "" || errors.Is(err, errNoJobs): // another project has a lock file of its own
			case err != nil:
				unknown("the child pipeline", err)
			default:
				u.add(ctx, child.project)
			}
			continue
		}
		vars, err := r.fixedVariables(j)
		if err != nil {
			unknown("the images", err)
			continue
		}
		hide := session.Hiding(place.Masked(vars))
		for _, image := range imagesIn(j, vars) {
			image.Varies = image.Varies || hide(image.Name) != image.Name
			u.Images = append(u.Images, image)
		}
		if j.Keywords.Run.Exists() {
			compiled, err := p.Compile(ctx, j, RunOptions{}, p.Repository.Root)
			if err != nil {
				unknown("the steps", err)
				continue
			}
			u.Plans = append(u.Plans, compiled)
		}
	}
}

// child makes the child pipeline of a job, of which nothing runs.
func (u *Used) child(ctx context.Context, r *runner, j *pipeline.Job) (*runner, error) {
	t := trigger{r, j}
	if j.Keywords.Trigger.Project != "" {
		return nil, nil
	}
	if r.project.depth >= MaxChildDepth {
		return nil, fmt.Errorf("child pipelines can nest at most %d levels deep", MaxChildDepth)
	}
	vars, err := t.jobVariables()
	if err != nil {
		return nil, err
	}
	return t.child(ctx, vars)
}

// fixedVariables are the variables of a job that are the same in every run.
func (r *runner) fixedVariables(j *pipeline.Job) (*variable.Collection, error) {
	layers, err := environmentLayers(r.project, j)
	if err != nil {
		return nil, err
	}
	differ := variable.Layer{Level: variable.ExecutionPolicy}
	for _, name := range variable.OfRun() {
		differ.Variables = append(differ.Variables, variable.Variable{Name: name, Value: varied})
	}
	vars, err := j.VariablesWith(append(layers, differ)...)
	if err != nil {
		return nil, err
	}
	return r.project.openToken(vars), nil
}
