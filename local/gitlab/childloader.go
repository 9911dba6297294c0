package gitlab

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// artifactPrefix begins the paths under which files of artifacts are included. No file of a project begins so: the folder is ours.
const artifactPrefix = ".rung/artifact/"

// childLoader gives a child pipeline its files: those of the parent's loader, and files in the artifacts of jobs.
type childLoader struct {
	Loader // may be nil
	runner *runner
	files  map[string][]byte // of artifacts
}

func localPlace(file string) config.Place {
	return config.Place{Kind: config.Local, Path: strings.TrimPrefix(path.Clean("/"+file), "/")}
}

// name is what diagnostics call a file.
func (l *childLoader) name(p config.Place) string {
	if rest, ok := strings.CutPrefix(p.Path, artifactPrefix); ok {
		job, file, _ := strings.Cut(rest, "/")
		return file + " of " + job
	}
	return p.Path
}

// artifact reads a file in the artifacts of a job, and returns the path under which it is included.
func (l *childLoader) artifact(ctx context.Context, j *pipeline.Job, job, file string) (string, error) {
	from := l.runner.project.Pipeline.Job(job)
	if from == nil {
		return "", fmt.Errorf("the child pipeline comes from an artifact of the job %q, which is not part of the pipeline", job)
	}
	m := l.runner.consumer(j).leftBy(from)
	if m.ArchivePath() == "" {
		return "", fmt.Errorf("the child pipeline comes from the artifact %q of the job %q, which produced none", file, job)
	}
	data, err := store.ReadArchived(ctx, m.ArchivePath(), file, config.MaxFileSize)
	if err != nil {
		return "", fmt.Errorf("reading the artifact %q of the job %q: %w", file, job, err)
	}
	if l.files == nil {
		l.files = map[string][]byte{}
	}
	name := artifactPrefix + strings.ReplaceAll(job, "/", "-") + "/" + path.Clean(file)
	l.files[name] = data
	return "/" + name, nil
}

// Load implements config.Loader.
func (l *childLoader) Load(ctx context.Context, p config.Place) (config.File, error) {
	if data, ok := l.files[p.Path]; ok && p.Kind == config.Local {
		return config.File{Name: l.name(p), Data: data, Place: p}, nil
	}
	if l.Loader == nil {
		return l.local(p)
	}
	return l.Loader.Load(ctx, p)
}

// local reads a file of the project where there is no loader.
func (l *childLoader) local(p config.Place) (config.File, error) {
	if p.Kind != config.Local || !filepath.IsLocal(filepath.FromSlash(p.Path)) {
		return config.File{}, fmt.Errorf("cannot fetch %s here", p)
	}
	root, err := os.OpenRoot(l.runner.project.Repository.Root)
	if err != nil {
		return config.File{}, err
	}
	defer root.Close()
	data, err := root.ReadFile(filepath.FromSlash(p.Path))
	return config.File{Name: p.Path, Data: data, Place: p}, err
}

// Glob implements config.Loader.
func (l *childLoader) Glob(ctx context.Context, pattern config.Place) ([]string, error) {
	if l.Loader == nil {
		return nil, fmt.Errorf("cannot search for %s here", pattern)
	}
	return l.Loader.Glob(ctx, pattern)
}

// ProjectFiles implements Loader.
func (l *childLoader) ProjectFiles(ctx context.Context, project, ref string) ([]string, error) {
	if l.Loader == nil {
		return nil, fmt.Errorf("cannot list the files of %s here", project)
	}
	return l.Loader.ProjectFiles(ctx, project, ref)
}
