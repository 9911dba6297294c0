package compile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Options are what a job of a pipeline needs to become one that is ready to run. Folders are those that the job's steps see.
type Options struct {
	// ArtifactsDir takes the artifacts of this job. CacheDir holds the caches of the project, PagesDir its pages, ReleasesDir
	// records of releases.
	ArtifactsDir, CacheDir, PagesDir, ReleasesDir string
	// Dependency returns the archive of a job whose artifacts this one gets; it is not ok when there is none.
	Dependency func(*pipeline.Job) (file string, ok bool)
	Source     Source
	Temp       string
	Shell      string
	// CacheKeyFiles is the commit, for caches with key:files.
	CacheKeyFiles cachekey.Repository
	// Protected says that the branch or tag is protected, CacheGeneration how often all caches were cleared.
	Protected       bool
	CacheGeneration int
	// Inputs are values for the job's inputs; others have their defaults.
	Inputs map[string]value.Value
	// KeepInputs leaves ${{ job.inputs.NAME }} in the texts to the runner that the job is sent to.
	KeepInputs bool
}

// FromPipeline makes a job of a pipeline ready to run, as GitLab does it when it sends the job to a runner. vars are the job's variables
// as GitLab sends them: pipeline.Job's with what is predefined, and with id tokens. A secret that vars holds is supplied by hand, and
// is not read from a vault.
//
// What the job says and these steps do not do is among the notes. What a pipeline does with jobs (needs, retries, environments,
// resource groups) is not the steps' concern and not among them.
func FromPipeline(p *pipeline.Job, vars *variable.Collection, o Options) (*Job, []string, error) {
	k := p.Keywords
	if k.Trigger != nil {
		return nil, nil, fmt.Errorf("the job %q starts another pipeline, and has no steps", p.Name)
	}
	f := &fromPipeline{from: p, o: o, vars: vars.Clone()}
	j := &Job{
		Name: p.Name, Stage: p.Stage, Shell: o.Shell, Temp: o.Temp, Source: o.Source, Timeout: k.Timeout,
		PreGetSources: texts(k.Hooks.PreGetSources),
		Script:        slices.Concat(texts(k.BeforeScript), texts(k.Script)),
		AfterScript:   texts(k.AfterScript),
		Coverage:      k.Coverage,
		Written: Written{
			PreGetSources: written(k.Hooks.PreGetSources),
			Script:        slices.Concat(written(k.BeforeScript), written(k.Script)),
			AfterScript:   written(k.AfterScript),
		},
	}
	f.steps(j)
	f.caches(j)
	f.artifacts(j)
	f.dependencies(j)
	f.publications(j)
	f.secrets(j)
	j.Variables = f.vars // in which secrets are now files
	for _, token := range k.IDTokens {
		if _, ok := f.vars.Get(token.Name); !ok {
			f.note("the ID token %s is not available", token.Name)
		}
	}
	for _, what := range []struct{ keyword, says string }{{"identity", k.Identity}, {"dast_configuration", dast(k.DAST)}} {
		if what.says != "" {
			f.notes = append(f.notes, fmt.Sprintf("`%s: %s` does nothing here: only GitLab can provide it", what.keyword, what.says))
		}
	}
	if !o.KeepInputs {
		f.interpolate(j)
	}
	return j, f.notes, f.err()
}

type fromPipeline struct {
	from  *pipeline.Job
	o     Options
	vars  *variable.Collection
	notes []string
	list  diag.List
	errs  []error
}

func (f *fromPipeline) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// err is all that is wrong: diagnostics, where everything has a place.
func (f *fromPipeline) err() error {
	switch {
	case len(f.errs) > 0 && len(f.list) > 0:
		return errors.Join(append(f.errs, f.list)...)
	case len(f.errs) > 0:
		return errors.Join(f.errs...)
	case len(f.list) > 0:
		f.list.Sort()
		return f.list
	}
	return nil
}

func texts(lines []keyword.Line) []string {
	var out []string
	for _, line := range lines {
		out = append(out, line.Text)
	}
	return out
}

func written(lines []keyword.Line) [][]diag.SourceLine {
	var out [][]diag.SourceLine
	for _, line := range lines {
		out = append(out, line.Node.Lines())
	}
	return out
}

func dast(d *keyword.DAST) string {
	if d == nil {
		return ""
	}
	return cmp.Or(d.SiteProfile, d.ScannerProfile, "{}")
}

// steps reads native steps.
func (f *fromPipeline) steps(j *Job) {
	run := f.from.Keywords.Run
	if run.IsNull() {
		return
	}
	if run.Kind() != yamlsource.Sequence {
		f.list = append(f.list, run.Diagnostic("begin each step with `- `", "`run` must be a list of steps"))
		return
	}
	part := run.Embedded()
	component, err := gitlabsteps.ParseNode(run.Span().File, part.Root, part)
	if err != nil {
		f.list = append(f.list, diag.Of(err)...)
		return
	}
	j.Steps = component.Definition.Steps
}

// caches gives the caches the keys that GitLab would send.
func (f *fromPipeline) caches(j *Job) {
	for i, c := range f.from.Keywords.Cache {
		key := cmp.Or(c.Key.Text, cachekey.DefaultServer)
		if len(c.Key.Files)+len(c.Key.FilesCommits) > 0 {
			var err error
			if key, err = f.keyOfFiles(i, c.Key); err != nil {
				f.list = append(f.list, c.Node.Diagnostic("", err.Error()))
				continue
			}
		}
		suffixed := func(key string) string {
			return cachekey.Suffixed(key, f.o.CacheGeneration, f.o.Protected, c.Unprotect)
		}
		out := Cache{Key: suffixed(key), Paths: c.Paths, Untracked: c.Untracked, Policy: c.Policy, When: string(c.When), Location: f.o.CacheDir}
		for _, fallback := range c.FallbackKeys {
			out.FallbackKeys = append(out.FallbackKeys, suffixed(fallback))
		}
		j.Cache = append(j.Cache, out)
	}
}

func (f *fromPipeline) keyOfFiles(index int, k keyword.CacheKey) (string, error) {
	if f.o.CacheKeyFiles == nil {
		return "", errors.New("`key:files` cannot be computed: there is no commit")
	}
	files := cachekey.Files{Files: k.Files, Commits: k.FilesCommits}
	if k.Prefix != "" {
		files.Prefix = &k.Prefix
	}
	return files.Key(index, f.o.CacheKeyFiles)
}

// defaultPublish is the folder that pages publish when the job does not say.
const defaultPublish = "public"

// artifacts makes an archive of what the job keeps, and one of each report.
func (f *fromPipeline) artifacts(j *Job) {
	a := f.from.Keywords.Artifacts
	pages := f.from.Keywords.Pages
	if a == nil {
		a = &keyword.Artifacts{}
	}
	paths := slices.Clone(a.Paths)
	if pages != nil {
		if publish := cmp.Or(pages.Publish, defaultPublish); !slices.Contains(paths, publish) {
			paths = append(paths, publish) // what is published is an artifact, too
		}
	}
	if len(paths) > 0 || a.Untracked {
		j.Artifacts = append(j.Artifacts, Artifact{
			Name: a.Name, Paths: paths, Exclude: a.Exclude, Untracked: a.Untracked, When: string(a.When), ExpireIn: a.ExpireIn,
			Access: access(a), Location: f.o.ArtifactsDir,
		})
	}
	for _, r := range a.Reports {
		kind := r.Type
		if r.Format != "" {
			kind = r.Format
		}
		j.Artifacts = append(j.Artifacts, Artifact{
			Paths: r.Paths, Type: kind, Format: ReportFormat(kind), When: string(plan.Always), ExpireIn: a.ExpireIn,
			Access: access(a), Location: f.o.ArtifactsDir,
		})
	}
}

// access is who may see artifacts. `public: false` is an older way to say it.
func access(a *keyword.Artifacts) string {
	if a.Access == "" && a.Public != nil && !*a.Public {
		return "developer"
	}
	return a.Access
}

// dependencies finds the archives of the jobs before.
func (f *fromPipeline) dependencies(j *Job) {
	for _, before := range f.from.Artifacts {
		file, ok := "", false
		if f.o.Dependency != nil {
			file, ok = f.o.Dependency(before)
		}
		if !ok {
			if a := before.Keywords.Artifacts; a != nil && (len(a.Paths) > 0 || a.Untracked) {
				f.note("the job %q has no artifacts", before.Name)
			}
			continue
		}
		j.Dependencies = append(j.Dependencies, Dependency{Name: before.Name, File: file})
	}
	for _, need := range f.from.Upstream {
		switch {
		case need.Project != "":
			f.note("the artifacts of the job %q of the project %s are not fetched: they are on GitLab", need.UpstreamJob, need.Project)
		case need.UpstreamJob != "":
			f.note("the artifacts of the job %q of the pipeline %s are not fetched", need.UpstreamJob, need.Pipeline)
		}
	}
}

// publications are releases and pages.
func (f *fromPipeline) publications(j *Job) {
	if r := f.from.Keywords.Release; r != nil {
		j.Release = &Release{
			TagName: r.TagName, TagMessage: r.TagMessage, Name: r.Name, Description: r.Description, Ref: r.Ref, ReleasedAt: r.ReleasedAt,
			Milestones: r.Milestones, Record: f.o.ReleasesDir,
		}
		for _, l := range r.Links {
			j.Release.Links = append(j.Release.Links, ReleaseLink(l))
		}
	}
	if p := f.from.Keywords.Pages; p != nil {
		j.Pages = &Pages{Publish: cmp.Or(p.Publish, defaultPublish), PathPrefix: p.PathPrefix, ExpireIn: p.ExpireIn, Location: f.o.PagesDir}
	}
}

// secrets are those that were given, or else such of a vault that can be asked.
func (f *fromPipeline) secrets(j *Job) {
	for _, s := range f.from.Keywords.Secrets {
		if given, ok := f.vars.Get(s.Name); ok {
			given.File, given.Masked, given.Raw = s.File, true, true
			f.vars.Add(given)
			continue
		}
		server, _ := f.vars.Lookup("VAULT_SERVER_URL")
		if s.Provider != "vault" || server == "" {
			f.list = append(f.list, s.Node.Diagnostic("supply it with `--secret "+s.Name+"=…`, or as a variable in .rung/variables.yml",
				fmt.Sprintf("the secret %s is in %s, which is not accessible here", s.Name, cmp.Or(s.Provider, "a place that is not named"))))
			continue
		}
		lookup := func(name string) string {
			text, _ := f.vars.Lookup(name)
			return text
		}
		j.Secrets = append(j.Secrets, Secret{
			Name: s.Name, File: s.File, Server: server, Namespace: lookup("VAULT_NAMESPACE"), AuthPath: lookup("VAULT_AUTH_PATH"), Role: lookup("VAULT_AUTH_ROLE"),
			JWT: f.token(s), Engine: s.Settings["engine_name"], EnginePath: s.Settings["engine_path"], Path: s.Settings["path"], Field: s.Settings["field"],
		})
	}
}

// token is what a vault gets: the token that the secret names, or the job's only one.
func (f *fromPipeline) token(s keyword.Secret) string {
	if tokens := f.from.Keywords.IDTokens; s.Token == "" && len(tokens) > 0 {
		return "$" + tokens[0].Name
	}
	return cmp.Or(s.Token, "$VAULT_ID_TOKEN")
}
