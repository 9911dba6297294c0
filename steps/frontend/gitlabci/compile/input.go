package compile

import (
	"errors"
	"fmt"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// interpolate replaces ${{ job.inputs.NAME }} in the texts of a job that has inputs. In one that has none, such a text is not an expression.
// The values go into scripts as they are, which is what the author of the job asked for.
func (f *fromPipeline) interpolate(j *Job) {
	declared := f.from.Keywords.Inputs
	if len(declared) == 0 {
		if len(f.o.Inputs) > 0 {
			f.errs = append(f.errs, fmt.Errorf("the job %q has no inputs", f.from.Name))
		}
		return
	}
	values := map[string]value.Value{}
	for _, in := range declared {
		values[in.Name] = in.Default.Value()
	}
	for name, v := range f.o.Inputs {
		if _, ok := values[name]; !ok {
			f.errs = append(f.errs, fmt.Errorf("the job %q has no input %q", f.from.Name, name))
		}
		values[name] = v
	}
	if err := j.Interpolate(values); err != nil {
		f.errs = append(f.errs, err)
	}
}

// Interpolate replaces ${{ job.inputs.NAME }} in the texts of the job.
func (j *Job) Interpolate(inputs map[string]value.Value) error {
	var errs []error
	scope := expr.Values{"job": value.OfStruct(map[string]value.Value{"inputs": value.OfStruct(inputs)})}
	for _, text := range j.texts() {
		if !expr.Has(*text) {
			continue
		}
		v, err := expr.Expand(value.OfString(*text), scope)
		if err != nil {
			errs = append(errs, fmt.Errorf("the job %q, in %q: %w", j.Name, *text, err))
			continue
		}
		*text = v.Text()
	}
	return errors.Join(errs...)
}

// texts are all in which inputs of the job can be used. Lists are copied, as others share them.
func (j *Job) texts() []*string {
	var all []*string
	list := func(texts *[]string) {
		copied := append([]string(nil), *texts...)
		*texts = copied
		for i := range copied {
			all = append(all, &copied[i])
		}
	}
	for _, texts := range []*[]string{&j.PreGetSources, &j.PostGetSources, &j.Script, &j.ReleaseScript, &j.AfterScript} {
		list(texts)
	}
	for i := range j.Cache {
		c := &j.Cache[i]
		all = append(all, &c.Key, &c.Policy)
		list(&c.FallbackKeys)
		list(&c.Paths)
	}
	for i := range j.Artifacts {
		a := &j.Artifacts[i]
		all = append(all, &a.Name)
		list(&a.Paths)
		list(&a.Exclude)
	}
	if r := j.Release; r != nil {
		all = append(all, &r.TagName, &r.TagMessage, &r.Name, &r.Description, &r.Ref, &r.ReleasedAt)
		list(&r.Milestones)
		for i := range r.Links {
			all = append(all, &r.Links[i].Name, &r.Links[i].URL, &r.Links[i].FilePath)
		}
	}
	if p := j.Pages; p != nil {
		all = append(all, &p.Publish, &p.PathPrefix)
	}
	return all
}
