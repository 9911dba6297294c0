package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/levels"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/executor"
	jobenv "github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/replay"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/ui"
)

// A run that had a place made for it is replayed in such a place: there the same program replays it, and its word is ours.
//
//	trace.run.environment -> executor.Prepare -> files of the run, the trace -> step-runner replay, in it

// wantsPlace reports whether the recorded run was somewhere else than on its machine.
func (r *replaying) wantsPlace(recorded *trace.Trace) (bool, error) {
	env := recorded.Run.Environment
	elsewhere := env != nil && !onThisMachine(env)
	if env != nil && !elsewhere && env.Limits != nil {
		r.notes = append(r.notes, "the recorded run had limits of resources, and this one has none")
	}
	switch r.isolation {
	case "none":
		if elsewhere {
			r.notes = append(r.notes, "the recorded run was in a "+env.Level+", and this one is on this machine (--isolation none)")
		}
		return false, nil
	case "auto":
		return elsewhere, nil
	case inEnvironment:
		return false, nil
	}
	return false, command.OneOf("--isolation", r.isolation, "auto", "none")
}

// onThisMachine reports whether the steps of an environment were processes of its machine.
func onThisMachine(env *event.Environment) bool {
	return env.Level == string(executor.None) || env.Level == string(executor.CGroup)
}

// inEnvironment is the --isolation of the replay that runs in the environment.
const inEnvironment = "here"

// replayFolder is where the replay's own files are in an environment, below the folder for temporary files.
const replayFolder = "replay"

// inPlace replays the trace in an environment like that of the recorded run.
func (r *replaying) inPlace(ctx context.Context, recorded *trace.Trace) error {
	if err := r.refuseOutside(); err != nil {
		return err
	}
	described, err := r.filled(&recorded.Run)
	if err != nil {
		return err
	}
	inside := func(name string) bool { return replay.HasSecret(&recorded.Run, name) } // of these the replay in there tells
	r.placeholders = slices.DeleteFunc(r.placeholders, inside)
	r.tellPlaceholders()
	if described.Level != string(executor.Container) && described.Level != string(executor.Sandbox) {
		return exit.Coded(exit.Definition, "the recorded run was in a %s, which this version cannot create", described.Level).Hinted("--isolation none replays it on this machine")
	}
	ctx, _, stop := signals.Handle(ctx, nil)
	defer stop()
	places := levels.New(r.Program, &r.Session.From, "")
	defer places.Close()
	level, err := places.Open(executor.Level(described.Level))
	if err != nil {
		return exit.Coded(exit.System, "the recorded run was in a %s, which is not available here: %v", described.Level, err).Hinted("start Docker or Podman; --isolation none replays it on this machine")
	}
	job := jobenv.Job(described)
	job.ID, job.ProjectName = "replay", filepath.Base(recorded.Run.WorkDir)
	if described.Limits != nil && described.Limits.Privileged {
		fmt.Fprintln(r.Program.Stderr, "note: the recorded run was privileged, and the replay is not: a trace grants no privileges")
	}
	env, err := level.Prepare(ctx, job, func(p event.Preparing) {
		if !r.Quiet {
			if line := ui.Preparing(p); line != "" {
				r.Program.Tell(line)
			}
		}
	})
	if err != nil {
		return placeError(ctx, err)
	}
	defer func() {
		if err := jobenv.End(ctx, env.Close); err != nil {
			fmt.Fprintf(r.Program.Stderr, "warning: the environment was not removed: %v\n", err)
		}
	}()
	if err := r.sameImages(imagesOf(described), env.Layout().Images); err != nil {
		return err
	}
	code, err := r.inside(ctx, env, recorded, described)
	if err != nil {
		return placeError(ctx, err)
	}
	if code != exit.OK {
		return exit.Shown(code) // it has said why
	}
	return nil
}

// placeError gives an error of an environment its exit code.
func placeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exit.Coded(exit.Interrupted, "%v", context.Cause(ctx))
	}
	return jobenv.AsError(ctx, err)
}

// refuseOutside refuses flags that say something on this machine, which the replay does not see.
func (r *replaying) refuseOutside() error {
	from := r.Session.From
	if r.WorkDir != "" || from.Sources != "" || from.CacheDir != "" || len(from.Bundles) > 0 {
		return exit.Usage("--work-dir, --sources, --cache and --bundle apply to this machine, and the recorded run was in a container").
			Hinted("--isolation none replays it on this machine")
	}
	return nil
}

// filling puts what was given in place of what is masked in the description of an environment, and collects what is missing.
type filling struct {
	*replaying
	missing []string
}

// filled returns the description of a run's environment as it can be made again.
func (r *replaying) filled(recorded *trace.Run) (*event.Environment, error) {
	f, out := filling{replaying: r}, *recorded.Environment
	out.Variables = f.texts(out.Variables, false)
	out.Services = slices.Clone(out.Services)
	for i := range out.Services {
		out.Services[i].Variables = f.texts(out.Services[i].Variables, true)
		if strings.Contains(strings.Join(out.Services[i].Command, " "), mask.Replacement) {
			return nil, exit.Coded(exit.Denied, "the command of the service %s contained a masked value, which is not in the trace", out.Services[i].Name).
				Hinted("--isolation none replays the run on this machine")
		}
	}
	out.Files = f.files(out.Files)
	return &out, f.check()
}

// filledFiles returns only the files.
func (r *replaying) filledFiles(recorded *trace.Run) ([]event.File, error) {
	f := filling{replaying: r}
	files := f.files(recorded.Environment.Files)
	return files, f.check()
}

// texts fills variables. Those that a service has of its own always have to be given; placeholders are used for others that no step names.
func (f *filling) texts(in map[string]string, own bool) map[string]string {
	in = maps.Clone(in)
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if !strings.Contains(in[name], mask.Replacement) {
			continue
		}
		text, ok := f.needs.Given(name)
		switch shown := f.needs.Shown(name); {
		case ok:
			in[name] = text
		case own || f.needs.Named(name):
			f.missing = append(f.missing, shown)
		default:
			in[name] = strings.ReplaceAll(in[name], mask.Replacement, replay.Placeholder(shown))
			f.placeholders = append(f.placeholders, shown)
		}
	}
	return in
}

func (f *filling) files(in []event.File) []event.File {
	in = slices.Clone(in)
	for i := range in {
		in[i].Text = f.texts(map[string]string{in[i].Name: in[i].Text}, false)[in[i].Name]
	}
	return in
}

// check returns the error of all that is missing, also for the steps.
func (f *filling) check() error {
	if len(f.missing) == 0 {
		return nil
	}
	missing := slices.Concat(f.missing, f.needs.Missing())
	slices.Sort(missing)
	return exit.Coded(exit.Denied, "the trace does not hold the variables %s, which are masked", strings.Join(slices.Compact(missing), ", ")).
		Hinted("pass each with --secret NAME, NAME=env:OTHER or NAME=@FILE")
}

// tellPlaceholders warns once of the placeholders.
func (r *replaying) tellPlaceholders() {
	slices.Sort(r.placeholders)
	if r.placeholders = slices.Compact(r.placeholders); len(r.placeholders) == 0 {
		return
	}
	r.Program.Tell("warning: placeholders are used for secrets that no step names: " + strings.Join(r.placeholders, ", "))
	r.Program.Tell("hint: if a program reads one of them from its environment, pass it with --secret NAME, NAME=env:OTHER or NAME=@FILE")
}

// imagesOf are the recorded images of an environment: its own, if it has one, and those of its services.
func imagesOf(described *event.Environment) (images []event.Image) {
	if described.Image != nil {
		images = append(images, *described.Image)
	}
	for i := range described.Services {
		images = append(images, described.Services[i].Made())
	}
	return images
}

// sameImages refuses images that are not those of the recorded run.
func (r *replaying) sameImages(recorded []event.Image, found []executor.FoundImage) error {
	for i, was := range recorded {
		if was.Digest == "" || i >= len(found) || found[i].ID == was.Digest {
			continue
		}
		text := fmt.Sprintf("the image %s is not that of the recorded run (%s → %s)", was.Name, was.Digest, found[i].ID)
		if !r.options.Changed {
			return exit.Coded(exit.Denied, "%s", text).Hinted("replay it where that image is, or with --changed, which shows what the change does")
		}
		r.Program.Tell("note: " + text)
	}
	return nil
}

// inside brings everything to the environment and replays the trace there.
func (r *replaying) inside(ctx context.Context, env executor.Environment, recorded *trace.Trace, described *event.Environment) (int, error) {
	layout := env.Layout()
	if recorded.Run.WorkDir != layout.Project {
		r.notes = append(r.notes, fmt.Sprintf("the recorded run was in %s, and this is in %s", recorded.Run.WorkDir, layout.Project))
	}
	here, err := filepath.Abs(".")
	if err != nil {
		return 0, err
	}
	missing, err := jobenv.Bring(ctx, env, r.filesHere(described), levels.ProjectFolder, projectAround(here))
	if err != nil {
		return 0, err
	}
	for _, name := range missing {
		r.notes = append(r.notes, name+" no longer exists, and the recorded run had it")
	}
	for _, note := range r.notes {
		r.Program.Tell("note: " + note)
	}
	own := path.Join(layout.Temp, replayFolder)
	args := []string{path.Join(layout.Bin, "step-runner"), "replay", "--isolation", inEnvironment, "--work-dir", layout.Project}
	if r.Confine != "" {
		args = append(args, "--confine", r.Confine)
	}
	send := func(name, from string) error {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return jobenv.SendText(ctx, env, path.Join(own, name), string(data))
	}
	const recordedName, stepsName, againName = "recorded", "steps.yml", "again.json"
	if err := sendTrace(ctx, env, own, recordedName, r.loaded); err != nil {
		return 0, fmt.Errorf("sending the trace: %w", err)
	}
	if r.steps != "" {
		if err := send(stepsName, r.steps); err != nil {
			return 0, err
		}
		args = append(args, "--steps", path.Join(own, stepsName))
	}
	secrets, err := r.secretArguments(ctx, env, own)
	if err != nil {
		return 0, err
	}
	args = append(args, secrets...)
	if r.TraceFile != "" {
		args = append(args, "--output-file", path.Join(own, againName))
	}
	more, variables, err := r.passedOn()
	if err != nil {
		return 0, err
	}
	args = append(append(args, more...), path.Join(own, recordedName))
	code, err := env.Shell(ctx, &executor.Shell{Args: args, Dir: layout.Project, Env: variables, Stdout: r.Program.Stdout, Stderr: r.Program.Stderr})
	if err != nil || r.TraceFile == "" {
		return code, err
	}
	return code, r.fetchTrace(ctx, env, path.Join(own, againName))
}

// sendTrace sends what was loaded, and no other bytes, to a folder of an environment, as one file under a name.
func sendTrace(ctx context.Context, env executor.Environment, dir, name string, loaded *tracefile.Loaded) error {
	temp, err := engine.MakeFolderFor("replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	document := filepath.Join(temp, name)
	if err := loaded.CopyTo(document); err != nil {
		return err
	}
	return jobenv.SendFile(ctx, env, dir, document)
}

// secretArguments brings secrets to the environment as files, so that no list of processes shows them. Those of services are masked there.
func (r *replaying) secretArguments(ctx context.Context, env executor.Environment, own string) ([]string, error) {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(r.options.Given)) {
		file := path.Join(own, "secrets", name)
		if err := jobenv.SendText(ctx, env, file, r.options.Given[name]); err != nil {
			return nil, err
		}
		args = append(args, "--secret", name+"=@"+file)
	}
	return args, nil
}

// passedOn are the flags that mean the same in the environment. The values of variables go the way of the environment: a list of processes
// does not show them.
func (r *replaying) passedOn() (args, variables []string, err error) {
	env, err := values.Assignments("--env", r.Session.Env, values.PassedOn(r.Program, "--env"))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		args, variables = append(args, "--env", name), append(variables, name+"="+env[name])
	}
	for name, text := range map[string]string{"--from": r.options.From, "--until": r.options.Until, "--progress": r.Progress, "--show": r.Show} {
		if text != "" {
			args = append(args, name+"="+text)
		}
	}
	for name, on := range map[string]bool{
		"--all-secrets": r.options.AllSecrets, "--other-secrets": r.options.OtherSecrets, "--changed": r.options.Changed, "--any-platform": r.options.AnyPlatform,
		"--exact": r.compare.Exact, "--json": r.asJSON, "--quiet": r.Quiet,
		"--offline": r.Session.From.Offline, "--verbose": r.Verbose > 0,
	} {
		if on {
			args = append(args, name)
		}
	}
	if r.Verbose > 1 {
		args = append(args, "--verbose")
	}
	return append(args, "--timeout", r.Timeout.String(), "--grace", r.Grace.String()), variables, nil
}

// fetchTrace brings the trace of the new run here.
func (r *replaying) fetchTrace(ctx context.Context, env executor.Environment, from string) error {
	temp, err := engine.MakeFolderFor("replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := jobenv.Fetch(ctx, env, path.Dir(from), filepath.Join(temp, "all")); err != nil {
		return err
	}
	made := filepath.Join(temp, "all", path.Base(from))
	if _, err := os.Stat(made); errors.Is(err, os.ErrNotExist) {
		return nil // nothing ran
	}
	return trace.HandOver(made, r.TraceFile)
}
