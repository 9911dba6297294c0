package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/joblog"
	"github.com/rungci/rung/manager/machines"
	"github.com/rungci/rung/manager/payload"
	"github.com/rungci/rung/manager/policy"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/manager/terminal"
	"github.com/rungci/rung/manager/traces"
	"github.com/rungci/rung/steps/event"
)

// IsolationVariable is the variable by which a job asks for a level of isolation.
const IsolationVariable = "RUNG_ISOLATION"

// TraceVariable is the variable by which a job asks for its trace as an artifact: its value is "artifact".
const TraceVariable = "RUNG_TRACE"

// run is a job in a slot.
type run struct {
	entry       *entry
	from        *gitlab.Job
	slot        int
	projectSlot int
	project     string            // the folder of its project, see traces.ProjectFolder
	network     string            // what the job asks to reach
	names       map[string]string // of the configuration's images with variables, as they are for the job
	keeps       bool              // it goes on with what an earlier job of the project has left
	needs       provider.Needs    // of its machine
	volume      string            // what it asks for of a volume of its project
	began       time.Time
	adopted     bool
	terminal    *terminal.Session // nil is none
	level       executor.Level
	running     Running             // as others see it; the manager's lock is held
	rank        int                 // of its level, once that is open
	traced      bool                // the job wants its trace as an artifact
	reserved    *supply.Reservation // of its entry's supply; nil where that has none
	on          *machines.Level     // its level on the machine of the supply; nil before it has one
	uses        *level              // what it runs in on this machine; nil is none
	prepared    func()              // called when the environment is there, or there will be none
}

// seen shows others what the job is, and where it runs.
func (r *run) seen(p *payload.Job, level executor.Level) {
	r.entry.manager.mu.Lock()
	defer r.entry.manager.mu.Unlock()
	r.level, r.traced = level, p.Variable(TraceVariable) == "artifact"
	r.running = Running{
		Job: r.from.ID, Entry: r.entry.name(), Slot: r.slot, Level: level, Machine: r.running.Machine, Began: r.began, Adopted: r.adopted, Identity: p.Identity(), URL: p.Hide(p.Variable("CI_JOB_URL")),
	}
}

func (r *run) describe() Running {
	r.entry.manager.mu.Lock()
	defer r.entry.manager.mu.Unlock()
	return r.running
}

// begin puts a job into a slot. The caller holds the lock.
func (m *Manager) begin(e *entry, from *gitlab.Job, slot int) *run {
	r := &run{entry: e, from: from, slot: slot, began: time.Now(), prepared: func() {}, project: traces.ProjectFolder(e.settings().URL, from.Info.ProjectID)}
	r.running = Running{Job: from.ID, Entry: e.name(), Slot: slot, Began: r.began}
	taken := map[int]bool{}
	for other := range m.running {
		if other.entry.records.ID() == e.records.ID() && other.from.Info.ProjectID == from.Info.ProjectID {
			taken[other.projectSlot] = true
		}
	}
	for taken[r.projectSlot] {
		r.projectSlot++
	}
	m.running[r] = true
	(space{m}).changed()
	return r
}

// done gives the slot of a job back.
func (m *Manager) done(r *run, ended job.Ended) {
	r.prepared()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.dismiss(r.entry)
	}()
	m.mu.Lock()
	delete(m.running, r)
	m.free()
	m.mu.Unlock()
	r.terminal.Close()
	m.o.Observer.Ended(r.describe(), endOf(r, ended))
	r.export(ended)
	if !r.tried() { // who tries it is told
		r.logEnd(ended)
	}
	if ended.Unreported == nil {
		if err := r.entry.records.Delete(r.from.ID); err != nil {
			r.entry.log.Error("the record of the job cannot be removed", "job", r.from.ID, "error", err)
		}
		wrote(nil)
	}
	if doubtful(ended) {
		r.entry.fitness.doubt.Store(true)
	}
	m.levels.leave(r.uses)
	(space{m}).changed()
	m.slots.leave(r.entry, r.slot)
	r.entry.jobEnded()
}

// logEnd writes into the manager's log how a job ended.
func (r *run) logEnd(ended job.Ended) {
	log := r.entry.log.With("job", r.from.ID, "project", r.from.Info.ProjectID, "took", time.Since(r.began).Round(time.Millisecond))
	switch {
	case ended.Unreported != nil:
		log.Error("GitLab did not accept the final state of the job", "state", ended.Final.State, "error", ended.Unreported)
	case ended.Gone:
		log.Info("GitLab has ended the job")
	case ended.Err != nil && ended.Err.Kind == event.ErrorSystem: // the operator's business
		log.Warn("the job failed with an internal error", "reason", ended.Final.FailureReason, "code", ended.Err.Code, "error", ended.Err.Message)
	case ended.Err != nil:
		log.Info("the job failed", "reason", ended.Final.FailureReason, "code", ended.Err.Code)
	case ended.Final.State == gitlab.Failed: // as the process before has found out
		log.Info("the job failed", "reason", ended.Final.FailureReason)
	default:
		log.Info("the job succeeded")
	}
}

// tell tells the observer of a job that is in its slot.
func (r *run) tell() {
	info := r.from.Info
	waited := Waited{InQueue: time.Duration(info.TimeInQueue * float64(time.Second)), Size: info.QueueSize, Depth: info.QueueDepth, Running: info.RunningOnInstanceRunners}
	waited.Late = r.entry.settings().Monitoring.Late(time.Now(), waited.InQueue, waited.Running)
	r.entry.manager.o.Observer.Began(r.describe(), waited)
}

func endOf(r *run, ended job.Ended) End {
	out := End{State: ended.Final.State, Took: time.Since(r.began), Unreported: ended.Unreported != nil, Trace: ended.Trace}
	if ended.Gone {
		out.State = gitlab.Canceled
	}
	if out.State == gitlab.Failed {
		out.FailureReason, out.ExitCode = ended.Final.FailureReason, ended.Final.ExitCode
	}
	if ended.Err != nil {
		out.Error = ended.Err.Message
	}
	return out
}

// run runs a job that was just handed out.
func (m *Manager) run(ctx context.Context, r *run) job.Ended {
	settings := r.entry.settings()
	runner := m.self(r, settings)
	var level executor.Executor
	wrong := r.wanted(runner)
	if wrong == nil && r.reserved == nil {
		level, wrong = r.levelOf(ctx)
	}
	r.entry.log.Info("a job begins", "job", r.from.ID, "project", r.from.Info.ProjectID, "level", r.level)
	r.tell()
	o := m.options(r, settings)
	o.Level, o.Refused = level, wrong
	r.provide(&o)
	ended := job.Run(m.working, m.kill, r.from, runner, o)
	r.giveBack(ended)
	m.done(r, ended)
	return ended
}

// adoptJob goes on with a job of the process before. taken is called when its environment is this process's, or nobody's.
func (m *Manager) adoptJob(ctx context.Context, r *run, record job.Record, taken func()) {
	defer taken()
	settings := r.entry.settings()
	r.adopted, r.began = true, record.Began
	p, _ := payload.New(record.Payload, record.Runner)
	r.seen(p, record.Level)
	r.tell()
	r.reserved = record.Reserved
	level, wrong := r.levelAgain(ctx, record)
	if level != nil {
		r.rank = rankIn(level)
	}
	o := m.options(r, settings)
	o.Level, o.Refused = level, wrong
	r.entry.log.Info("adopted a job from the previous manager", "job", r.from.ID, "level", record.Level)
	o.Adopted = taken
	r.provide(&o)
	ended := job.Adopt(m.working, m.kill, record, o)
	r.giveBack(ended)
	m.done(r, ended)
}

// levelAgain is the level of a job of the process before.
func (r *run) levelAgain(ctx context.Context, record job.Record) (executor.Executor, error) {
	switch {
	case record.Handle != nil && r.reserved != nil:
		return r.recoverMachine(ctx, record.Level)
	case record.Handle != nil:
		return job.Patiently(r.entry.manager.working, r.note, func() (executor.Executor, error) {
			r.entry.manager.levels.leave(r.uses) // that of the time before
			return r.open(ctx, record.Level)
		})
	}
	// Nothing of it has run: the rules that are in force now say where it may.
	if err := r.wanted(record.Runner); err != nil || r.reserved != nil {
		return nil, err
	}
	return r.levelOf(ctx)
}

// options are what runs a job of an entry.
func (m *Manager) options(r *run, settings *config.Runner) job.Options {
	seen := r.describe()
	return job.Options{
		API:    r.entry.client(),
		Folder: filepath.Join(m.o.State, "running", fmt.Sprintf("%d-%d", r.from.ID, r.slot)),
		Caches: r.caches(settings), CacheStore: cacheStore(r, settings), Bounds: r.bounds(settings),
		SlotGroup: func() string {
			if r.on == nil {
				return ""
			}
			return slotName(settings, r.on.Machine().Slot)
		},
		Keep: func(record job.Record) error {
			data, err := json.Marshal(record)
			if err != nil {
				return err
			}
			err = r.entry.records.Put(r.from.ID, data)
			wrote(&record)
			if record.Handle != nil {
				r.entry.log.Debug("job state saved", "job", r.from.ID, "environment", record.Handle.ID, "ended", record.Final != nil)
				r.prepared()
			}
			return err
		},
		Title:    fmt.Sprintf("rung %s\non %s %s, system ID: %s", m.o.Version, settings.Name, settings.Short(), m.o.SystemID),
		Trace:    m.tracing(r, settings),
		Terminal: r.terminal,
		LogLimit: settings.OutputLimit, Grace: DefaultGrace, PrepareTimeout: settings.PrepareTimeout, Sender: joblog.SenderOptions{Attempts: settings.FinalUpdateRetryLimit},
		Output: func(log []byte) { m.o.Observer.Wrote(seen, log) },
		Note:   r.note, Left: r.left, Elsewhere: m.o.Shared != nil,
	}
}

// note is told of what goes wrong beside the job.
func (r *run) note(err error) { r.entry.log.Warn("job warning", "job", r.from.ID, "error", err) }

// leftPause is the time between two attempts to remove an environment.
const leftPause = 5 * time.Second

// left removes an environment that its job could not remove, as while an engine is restarted: until it is gone, or this manager ends and the next one
// sweeps. What is on a machine of a provider goes with that.
func (r *run) left(remove func(context.Context) error) {
	m := r.entry.manager
	if r.uses == nil {
		return
	}
	m.levels.hold(r.uses)
	m.jobs.Go(func() {
		defer m.levels.leave(r.uses)
		for {
			select {
			case <-m.asking.Done():
				return
			case <-time.After(leftPause):
			}
			ctx, end := context.WithTimeout(m.asking, time.Minute)
			err := remove(ctx)
			end()
			if err == nil {
				r.entry.log.Info("what was left of a job is removed", "job", r.from.ID)
				return
			}
		}
	})
}

// wrote is called after each write of state, with nil after a record was removed. Tests end the process there.
var wrote = func(*job.Record) {}

func readRecord(data []byte) (job.Record, error) {
	var r job.Record
	err := json.Unmarshal(data, &r)
	if err == nil && r.Payload == nil {
		err = fmt.Errorf("the record has no job")
	}
	return r, err
}

// self is what the manager says of itself to a job.
func (m *Manager) self(r *run, settings *config.Runner) payload.Runner {
	levels, _ := settings.Levels()
	contained := levels.Default.Rank() >= executor.Container.Rank() // as gitlab-runner has it for executor docker
	out := payload.Runner{
		Name: settings.Name, ShortToken: settings.Short(), Version: m.o.Version, Revision: m.o.Revision, API: r.entry.client().URL(), CloneURL: settings.CloneURL,
		Environment: r.environment(settings.Environment), PreGetSources: settings.PreGetSourcesScript, PostGetSources: settings.PostGetSourcesScript,
		PreBuild: settings.PreBuildScript, PostBuild: settings.PostBuildScript, Shell: settings.Shell, NoDebugTrace: settings.DebugTraceDisabled,
		Sources:      payload.Sources{Timeout: settings.GetSourcesTimeout, Trusted: yes(settings.SafeDirectoryCheckout, contained), KeepConfig: !yes(settings.CleanGitConfig, true)},
		Uploads:      payload.Uploads{Timeout: settings.Artifact.UploadTimeout, ResponseTimeout: settings.Artifact.ResponseHeaderTimeout},
		TLS:          certificates(r.entry),
		ClonePath:    yes(settings.CustomBuildDir.Enabled, contained),
		FeatureFlags: settings.FeatureFlags, Pods: settings.Executor == config.KubernetesExecutor, Slot: r.slot, ProjectSlot: r.projectSlot,
	}
	if of := settings.Images(); of != nil {
		out.Image, out.PullPolicies = of.Image, of.PullPolicy
		for _, s := range of.Services {
			service := gitlab.Image{Name: s.Name, Alias: s.Alias, Command: s.Command, Entrypoint: s.Entrypoint}
			for _, text := range s.Environment {
				if v, ok := variable(text); ok {
					service.Variables = append(service.Variables, v)
				}
			}
			out.Services = append(out.Services, service)
		}
	}
	return out
}

// yes reads a setting that may not be there.
func yes(setting *bool, otherwise bool) bool {
	if setting == nil {
		return otherwise
	}
	return *setting
}

func variable(text string) (gitlab.Variable, bool) {
	name, value, ok := strings.Cut(text, "=")
	return gitlab.Variable{Key: name, Value: value}, ok && name != ""
}

// wanted finds out which level a job is to run in: the one that it asks for, within what the entry allows, or else the entry's.
func (r *run) wanted(runner payload.Runner) error {
	levels := r.entry.isolation()
	p, _ := payload.New(r.from, runner) // what is wrong with it is said in its log
	r.seen(p, levels.Default)
	r.network, r.keeps = p.Variable(policy.NetworkVariable), p.KeepsProject()
	r.names = map[string]string{}
	for _, name := range r.entry.settings().Images().Names() {
		if strings.Contains(name, "$") {
			r.names[name] = p.Expand(name)
		}
	}
	for _, v := range r.from.Variables {
		if err := policy.Known(v.Key); err != nil {
			return err
		}
	}
	needs, err := policy.Needs(r.entry.settings(), p.Variable)
	if err != nil {
		return err
	}
	if r.volume, err = policy.Volume(r.entry.settings(), p.Variable); err != nil {
		return err
	}
	r.needs = needsOf(needs)
	if asked := p.Variable(IsolationVariable); asked != "" {
		if !executor.Level(asked).Known() {
			return event.NewError(event.CodeEnvironmentInvalid, "the job asks for the isolation level %q (%s), which is not a level", asked, IsolationVariable)
		}
		if err := levels.Permit(executor.Level(asked)); err != nil {
			return event.NewError(event.CodeEnvironmentInvalid, "%v", err)
		}
		r.seen(p, executor.Level(asked))
	}
	r.rank = r.level.Rank()
	return nil
}

// levelOf is the level that a job wants, on this machine.
func (r *run) levelOf(ctx context.Context) (executor.Executor, error) {
	level, err := r.open(ctx, r.level)
	if err != nil {
		return nil, err
	}
	return level, r.admit(level)
}

// open opens a level for the job on this machine.
func (r *run) open(ctx context.Context, level executor.Level) (executor.Executor, error) {
	opened, err := r.entry.manager.levels.open(ctx, r.entry, level)
	r.uses = opened
	if err != nil {
		return nil, err
	}
	return opened.executor, nil
}

// admit refuses a level that is open and weaker than the entry allows. Only of a plugin, or a provider, this is not known before.
func (r *run) admit(level executor.Executor) error {
	r.rank = rankIn(level)
	r.entry.manager.mu.Lock()
	r.level, r.running.Level = level.Level(), level.Level()
	r.entry.manager.mu.Unlock()
	if err := r.entry.isolation().Admit(level); err != nil {
		return event.NewError(event.CodeEnvironmentInvalid, "%v", err)
	}
	return nil
}
