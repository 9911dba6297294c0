package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/payload"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service/client"
)

// lateFetch is how long it may take to fetch the caches of a job whose time is over.
const lateFetch = 30 * time.Second

// steps runs the job's steps in the environment that stands.
func (j *job) steps(ctx context.Context, compiled *compile.Compiled) error {
	request := client.Request{
		ID: j.EnvironmentID(), Component: compiled.Plan, WorkDir: j.workDir, Env: session.BaseEnv(j.env.Layout()),
		Timeout: time.Until(j.deadline()), Grace: j.o.Grace,
		Untraced: j.o.Trace == nil,
	}
	for _, v := range slices.Concat(compiled.Variables, compiled.Contents) {
		request.Variables = append(request.Variables, client.Variable{Name: v.Name, Value: v.Value, Masked: v.Masked})
	}
	j.admit(compiled)
	outcome := &session.Outcome{}
	err := session.Run(ctx, j.kill, j.env, request, j.listen(outcome))
	return j.ended(ctx, outcome, compiled, err)
}

// beyond is how long the addresses of caches hold after the job's time is over, as clocks differ.
const beyond = time.Minute

// compiled makes steps of the job for its environment.
func (j *job) compiled(ctx context.Context) (*compile.Compiled, error) {
	layout := j.env.Layout()
	folders := payload.Folders{Project: layout.Project, Builds: session.Above(layout), Temp: layout.Temp, Shared: layout.Shared}
	if j.o.SlotGroup != nil {
		folders.SlotGroup = j.o.SlotGroup()
	}
	project, err := j.Clone(folders)
	if err != nil {
		return nil, err
	}
	folders.Project, j.workDir = project, project
	caches := j.o.Caches
	if !layout.Shared {
		caches = session.Target(layout, session.Parcel{To: cacheFolder})
	}
	where := payload.Where{Folders: folders, Caches: caches}
	if j.o.CacheStore != nil {
		where.CacheStore = j.o.CacheStore.For(ctx, max(time.Until(j.deadline()), 0)+beyond, j.o.Note)
	}
	compiled, err := j.Compile(where)
	if err != nil {
		return nil, err
	}
	return compiled, nil
}

// cacheFolder is where caches travel, beside the project.
const cacheFolder = "cache"

// cacheFiles are the files of a cache: its archive, and the mark that says what is in it.
var cacheFiles = []string{disk.CacheArchive, disk.CacheMark}

// texts are the files that are brought into the environment, as a replay has to know them.
func texts(compiled *compile.Compiled) []event.File {
	var out []event.File
	for _, name := range slices.Sorted(maps.Keys(compiled.Files)) {
		v := compiled.Files[name]
		out = append(out, event.File{To: filepath.ToSlash(name), Text: v.Value, Name: v.Name})
	}
	return out
}

// bring puts into the environment what the steps need there.
func (j *job) bring(ctx context.Context, compiled *compile.Compiled) error {
	for _, name := range slices.Sorted(maps.Keys(compiled.Files)) {
		if err := session.SendText(ctx, j.env, filepath.ToSlash(name), compiled.Files[name].Value); err != nil {
			return fmt.Errorf("writing the files of variables: %w", err)
		}
	}
	if j.o.CacheStore == nil {
		for _, key := range compiled.Results.Restored {
			disk.Touch(filepath.Join(j.o.Caches, filepath.FromSlash(key)))
		}
	}
	if j.env.Layout().Shared {
		return nil
	}
	keys := slices.Clone(compiled.Results.Restored)
	for _, saved := range compiled.Results.Saved { // a cache that has not changed is not saved again
		if !slices.Contains(keys, saved.Key) {
			keys = append(keys, saved.Key)
		}
	}
	var parcels []session.Parcel
	for _, key := range keys {
		for _, name := range cacheFiles {
			parcels = append(parcels, session.Parcel{From: filepath.Join(j.o.Caches, filepath.FromSlash(key), name), To: path.Join(cacheFolder, key, name)})
		}
	}
	return session.Send(ctx, j.env, parcels)
}

// ended takes over how the steps ended, and what they leave here.
func (j *job) ended(ctx context.Context, outcome *session.Outcome, compiled *compile.Compiled, err error) error {
	if err != nil {
		return err
	}
	if outcome.End == nil {
		return errors.New("the run ended without a result")
	}
	j.end = outcome.End
	if err := j.fetchCaches(ctx, outcome, compiled.Results.Saved); err != nil {
		j.o.Note(fmt.Errorf("keeping the caches of the job %d: %w", j.GitLab().ID, err)) // which never fails a job
	}
	return nil
}

// fetchCaches takes over the caches that the steps saved in an environment with files of its own. Which ones, and where they go, was compiled
// here.
func (j *job) fetchCaches(ctx context.Context, outcome *session.Outcome, saved []compile.SavedCache) error {
	if j.env.Layout().Shared || len(saved) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(context.WithoutCancel(ctx), lateFetch)
		defer end()
	}
	for _, s := range saved {
		if step := outcome.Of(s.Step); step == nil || !step.Outputs["saved"].Bool() {
			continue
		}
		to := filepath.Join(j.o.Caches, filepath.FromSlash(s.Key))
		for _, name := range cacheFiles {
			if err := j.fetchFile(ctx, path.Join(session.Target(j.env.Layout(), session.Parcel{To: cacheFolder}), s.Key, name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetchFile takes over one plain file.
func (j *job) fetchFile(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(j.o.Folder, "fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	came := filepath.Join(staging, path.Base(to))
	if err := session.Fetch(ctx, j.env, from, came); err != nil {
		return err
	}
	info, err := os.Lstat(came)
	if err != nil || !info.Mode().IsRegular() {
		return nil // not there, or not a file
	}
	return os.Rename(came, to)
}

// listen returns who hears of the run's events.
func (j *job) listen(outcome *session.Outcome) event.Sink {
	identity := j.Identity()
	j.trace.begin()
	return session.Described(&listener{j, outcome}, j.record.Environment, &identity)
}

// listener tells all who want to know of a run. What is left of the job's time when its steps begin is its own business: the time limit
// that people read is the job's.
type listener struct {
	job     *job
	outcome *session.Outcome
}

// Event implements event.Sink.
func (l *listener) Event(e event.Event) {
	limit := l.job.Timeout()
	switch b := e.Body.(type) {
	case event.Stopping:
		if b.Code == event.CodeRunTimeout {
			b.Reason = fmt.Sprintf("the job timed out after %s", limit)
			e.Body = b
		}
	case event.RunFinished:
		if b.Error != nil && b.Error.Timeout != nil && b.Error.Timeout.Of == event.TimeoutRun {
			wrong, timeout := *b.Error, *b.Error.Timeout
			timeout.Limit = plan.Duration(limit)
			wrong.Timeout = &timeout
			b.Error = session.OfJob(&wrong)
			e.Body = b
		}
	}
	l.outcome.Event(e)
	l.job.trace.Event(e)
	l.job.out.Event(e)
}
