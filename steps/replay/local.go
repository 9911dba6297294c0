package replay

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/trace"
)

// Local is a definition of a run that was in a local folder.
type Local struct {
	Ref    string // as the run's steps named it, for people
	Dir    string // absolute, as it was in the recorded run
	File   string
	Digest string // what it was in the recorded run; the first, where a step changed it
	// Now is what it is now: "" where it is not there, or cannot be read.
	Now string
	// Same says that it is what it was, at any time of the recorded run.
	Same bool
	// Here is where it would be now, absolute.
	Here string
}

// key tells local definitions apart.
type localKey struct{ dir, file string }

// Locals are the local definitions of a recorded run and how they are now, when its work directory is workDir. Those in the run's
// own folder are left out: steps made them.
func Locals(ctx context.Context, t *trace.Trace, workDir string, from *source.Local) []*Local {
	var out []*Local
	known := map[localKey]*Local{}
	digests := map[localKey]map[string]bool{}
	own := t.OwnFolders()
	t.Walk(func(s *trace.Step, _ int) {
		r := s.Resolved
		if r == nil || r.Origin != nil || r.Digest == "" {
			return
		}
		dir := filepath.Clean(r.Dir)
		if !filepath.IsAbs(dir) || filepath.Base(r.File) != r.File || slices.ContainsFunc(own, func(f string) bool { return within(f, dir) }) {
			return
		}
		key := localKey{dir, r.File}
		if known[key] == nil {
			known[key] = &Local{Ref: r.Ref, Dir: dir, File: r.File, Digest: r.Digest, Here: moved(dir, t.Run.WorkDir, workDir)}
			digests[key] = map[string]bool{}
			out = append(out, known[key])
		}
		digests[key][r.Digest] = true
	})
	for key, l := range known {
		if found, err := from.Load(ctx, localReference(l.Here, l.File), l.Here); err == nil {
			l.Now = found.Digest
			l.Same = digests[key][l.Now]
		}
	}
	slices.SortFunc(out, func(a, b *Local) int {
		return cmp.Or(strings.Compare(a.Dir, b.Dir), strings.Compare(a.File, b.File))
	})
	return out
}

// localReference names one definition file in an absolute folder.
func localReference(dir, file string) *plan.Reference {
	if source.IsActionFile(file) {
		return &plan.Reference{Kind: plan.RefAction, Text: dir, Action: filepath.ToSlash(dir)}
	}
	return &plan.Reference{Kind: plan.RefLocal, Text: dir, Path: []string{dir}, File: file}
}

// within reports whether a path is a folder, or in it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// moved is where a path is when what was in the folder from is in the folder to.
func moved(path, from, to string) string {
	if from == "" || !filepath.IsAbs(from) || !within(from, path) {
		return path
	}
	rel, err := filepath.Rel(from, path)
	if err != nil {
		return path
	}
	return filepath.Join(to, rel)
}

// ChangedError says which components are not what they were in the recorded run.
type ChangedError struct{ Changed []*Local }

func (e *ChangedError) Error() string {
	lines := make([]string, len(e.Changed))
	for i, l := range e.Changed {
		lines[i] = l.describe()
	}
	return strings.Join(lines, "\n")
}

func (l *Local) describe() string {
	if l.Now == "" {
		return fmt.Sprintf("the component %s of the recorded run is not in %s any more, or cannot be read", l.Ref, l.Here)
	}
	return fmt.Sprintf("the component %s has changed since the recorded run (%s → %s)", l.Ref, short(l.Digest), short(l.Now))
}

// short is enough of a digest for people.
func short(digest string) string {
	const shown = len("sha256:") + 12
	if len(digest) <= shown {
		return digest
	}
	return digest[:shown] + "…"
}

// locals is the source of a replay's components: local ones as they were in the recorded run, whether they are at their places
// or came with the trace; all others from the resolver.
type locals struct {
	resolver *source.Resolver
	mirror   string // where those that came with the trace are, under their recorded paths; "" when there are none
	laid     map[localKey]string
	dirs     map[string]bool // folders of those
	failed   []failure
	was, now string // the work directories
}

// LockedImage implements source.ImageLocker.
func (l *locals) LockedImage(what, name string) (string, error) {
	return l.resolver.LockedImage(what, name)
}

// Load implements source.Source.
func (l *locals) Load(ctx context.Context, ref *plan.Reference, from string) (*source.Component, error) {
	if ref.Kind == plan.RefAction {
		anchored, err := l.resolver.Anchored(ref, from)
		if err != nil {
			return nil, err
		}
		ref = anchored
	}
	if !ref.IsLocal() {
		found, err := l.resolver.Load(ctx, ref, from)
		if was := l.failure(source.StepOf(ctx), ref); err != nil && was != nil {
			return nil, was
		}
		return found, err
	}
	dir := filepath.Join(ref.Path...)
	if ref.Kind == plan.RefAction {
		dir = filepath.FromSlash(ref.Action)
	}
	written := dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(from, dir)
	}
	recorded, target := l.recordedPlace(dir), dir
	if len(l.dirs) > 0 && !filepath.IsAbs(written) && within(l.mirror, from) { // what is around a folder of the mirror is elsewhere in it
		recorded = filepath.Join(l.recordedPlace(from), written)
	}
	switch {
	case l.dirs[recorded]:
		target = l.mirrored(recorded)
	case len(l.dirs) > 0 && within(l.mirror, from), filepath.IsAbs(written):
		target = moved(recorded, l.was, l.now)
	}
	if target == dir {
		return l.resolver.Load(ctx, ref, from)
	}
	there := *ref
	if ref.Kind == plan.RefAction {
		there.Action = filepath.ToSlash(target)
	} else {
		there.Path = []string{target}
	}
	found, err := l.resolver.Load(ctx, &there, from)
	if err != nil {
		return nil, err
	}
	if digest := l.laid[localKey{recorded, found.File}]; digest != "" && l.dirs[recorded] {
		found.Digest = digest // of more than one file, it was that of one alone where the folder was not a component
	}
	return found, nil
}

// Check implements source.Checker.
func (l *locals) Check(ref *plan.Reference, from string) error {
	err := l.resolver.Check(ref, from)
	if err != nil && l.failure("", ref) != nil {
		return nil // when control reaches it
	}
	return err
}

// recordedPlace is where a folder was in the recorded run.
func (l *locals) recordedPlace(dir string) string {
	if len(l.dirs) > 0 && within(l.mirror, dir) {
		if place := l.unmirrored(dir); place != "" {
			return place
		}
	}
	return moved(dir, l.now, l.was)
}

// mirrored is where a path is below the mirror. The path is absolute and clean, so that it cannot lead out. What was in the work directory
// is in a folder of its own, so that the trace of the replay tells the two apart wherever that was.
func (l *locals) mirrored(path string) string {
	if l.was != "" && within(l.was, path) {
		if rel, err := filepath.Rel(l.was, path); err == nil {
			return filepath.Join(l.mirror, trace.MirrorWorkDir, rel)
		}
	}
	if drive := filepath.VolumeName(path); drive != "" {
		path = strings.Map(func(c rune) rune {
			if c == ':' {
				return '$'
			}
			return c
		}, drive) + path[len(drive):]
	}
	return filepath.Join(l.mirror, trace.MirrorRoot, path)
}

// unmirrored is where a path below the mirror was; "" when it was nowhere.
func (l *locals) unmirrored(path string) string {
	if dir := filepath.Join(l.mirror, trace.MirrorWorkDir); l.was != "" && within(dir, path) {
		return moved(path, dir, l.was)
	}
	rel, err := filepath.Rel(filepath.Join(l.mirror, trace.MirrorRoot), path)
	switch {
	case err != nil || !filepath.IsLocal(rel):
		return ""
	case len(rel) > 1 && rel[1] == '$':
		return rel[:1] + ":" + rel[2:]
	}
	return filepath.Join(string(filepath.Separator), rel)
}
