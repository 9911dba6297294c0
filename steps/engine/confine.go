package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/rungci/rung/internal/confine"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// This file is the other wall around a component (gate.go has the first): which part of the machine its processes see.

// apart is what a confined process has of its own instead of what the run's steps share.
type apart struct {
	root   string // holds the others; removed with it
	dirs   directories
	access []plan.Access // what it has beyond that

	vars map[string]variable // that lead to those folders
}

// confinedFolder is the name, in the run's own folder, of those of confined processes.
const confinedFolder = "confined"

// CanConfine says why this machine cannot confine processes; nil if it can.
var CanConfine = sync.OnceValue(process.CanConfine)

// unscoped is what the kernel lacks that can confine a process but for one thing; "" for a kernel that has all.
func unscoped() string {
	if confine.ABI() >= confine.ScopeABI {
		return ""
	}
	return "abstract sockets of other processes stay reachable (Linux 6.12 or later keeps them apart)"
}

// confinement keeps a run from saying twice what is not confined.
type confinement struct{ notice sync.Once }

// mustConfine makes the error of a step that is to be confined on a machine that cannot do it; nil if it can.
func mustConfine(what string) *event.Error {
	const hint = "run `step-runner doctor`, or let steps be where the others are: `confine: false`, --confine none"
	if err := CanConfine(); err != nil {
		return hinted(event.NewError(event.CodeConfineUnsupported, "%s is to be confined, and this machine has %v", what, err), hint)
	}
	if lacking := unscoped(); lacking != "" {
		return hinted(event.NewError(event.CodeConfineUnsupported, "%s is to be confined, and here %s", what, lacking), hint)
	}
	return nil
}

// asked reports whether somebody asked for the step to be confined, whatever it runs.
func (r *run) asked(st *plan.Step) bool {
	return st.Confine != nil && *st.Confine || r.opts.Confine == plan.ConfineAll && (st.Ref != nil || st.Inline != nil)
}

// confines reports whether the step that calls the component confines it. GitHub Actions are written for a machine of their own, whose tools,
// home folder and Docker they share with the steps around them: only those that are asked for are confined.
func (c *call) confines() bool {
	switch mode := c.from.run.opts.Confine; {
	case mode == plan.ConfineAll:
		return true
	case c.step.Confine != nil:
		return *c.step.Confine
	default:
		return mode == plan.ConfineFetched && c.origin != nil && !c.isOwn() && !c.isAction()
	}
}

// confined reports whether the call, or one that it is in, confines its component.
func (c *call) confined() bool {
	for ; c != nil; c = c.from.call {
		if c.confines() {
			return true
		}
	}
	return false
}

// access is what the component of a call, which is confined, has of the machine: what it requests, its caller allows, and those around it have.
func (c *call) access() []plan.Access {
	has := plan.AccessesOf(c.spec.Access)
	limits := [][]plan.Access{plan.AccessesOf(c.step.AllowAccess)}
	if c.from.call.confined() {
		limits = append(limits, c.from.call.access())
	}
	return within(has, limits...)
}

// within are the accesses that each of the limits covers.
func within(has []plan.Access, limits ...[]plan.Access) []plan.Access {
	return slices.DeleteFunc(has, func(a plan.Access) bool {
		for _, limit := range limits {
			if _, uncovered := plan.Uncovered([]plan.Access{a}, limit); uncovered {
				return true
			}
		}
		return false
	})
}

// allowsAccess is the error of a confined component that requests more than it gets.
func (c *call) allowsAccess() *event.Error {
	if !c.confined() {
		return nil
	}
	wanted := plan.AccessesOf(c.spec.Access)
	if lacking, ok := plan.Uncovered(wanted, plan.AccessesOf(c.step.AllowAccess)); ok {
		return hinted(event.NewError(event.CodeAccessNotGranted, "%s is confined and requests access to %s, which its caller does not allow", c.step.Ref.Text, lacking),
			fmt.Sprintf("if that is wanted, allow it on the step with `allow_access: [%[1]s]`, or with `run --allow-access %[1]s` where you run the component itself", lacking))
	}
	if lacking, ok := plan.Uncovered(wanted, c.access()); ok {
		return hinted(event.NewError(event.CodeAccessNotGranted, "%s requests access to %s, which the component around it does not have", c.step.Ref.Text, lacking),
			fmt.Sprintf("let that request it as well, with `spec: {access: [%s]}`", lacking))
	}
	return nil
}

// keepApart finds out whether the process of the invocation is confined, and makes what it has then of its own; nil if it is not.
func (s *scope) keepApart(inv *invocation) (*apart, *event.Error) {
	around := s.call.confined()
	inline := inv.step != nil && inv.step.Ref == nil && s.run.asked(inv.step)
	whole := s.run.opts.Confine == plan.ConfineAll
	if !around && !inline && !whole {
		return nil, nil
	}
	if ok, err := s.run.ready(inv); !ok {
		return nil, err
	}
	a := &apart{root: filepath.Join(s.run.dirs.root, confinedFolder, cmp.Or(inv.id, "run"))}
	switch {
	case inline && (!around || inv.step.Confine != nil):
		a.access = plan.AccessesOf(inv.step.AllowAccess)
		if around {
			a.access = within(a.access, s.call.access())
		}
	case around:
		a.access = s.call.access()
	}
	if err := a.make(); err != nil {
		a.remove()
		return nil, systemError("creating the folders of a confined step: %v", err)
	}
	return a, nil
}

// ready reports whether the process can be confined. Where only the run's default would confine it, it is not, and the run says so once.
func (r *run) ready(inv *invocation) (bool, *event.Error) {
	asked := r.opts.Confine != plan.ConfineFetched || inv.step != nil && r.asked(inv.step)
	if asked {
		return true, mustConfine("the step")
	}
	missing := CanConfine()
	lacking := unscoped()
	if missing != nil {
		lacking = fmt.Sprintf("fetched components are not confined: this machine has %v; `step-runner doctor` says more", missing)
	}
	if lacking != "" {
		r.confinement.notice.Do(func() { r.out.emit(inv.id, event.Warning{Message: lacking, Machine: true}) })
	}
	return missing == nil, nil
}

// make creates the folders.
func (a *apart) make() error {
	a.dirs = directories{files: filepath.Join(a.root, filesFolder), tmp: filepath.Join(a.root, tmpFolder), home: filepath.Join(a.root, homeFolder)}
	for _, dir := range []string{a.dirs.files, a.dirs.tmp, a.dirs.home, a.system()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// system is the folder that stands for the temporary folders of the machine.
func (a *apart) system() string { return filepath.Join(a.root, "system") }

func (a *apart) remove() {
	if a != nil {
		RemoveFolder(a.root)
	}
}

// filesFor is the folder of the step's files.
func (a *apart) filesFor(r *run) string {
	if a == nil {
		return r.dirs.files
	}
	return a.dirs.files
}

// tempFor is the temporary folder of the process.
func (a *apart) tempFor(r *run) string {
	if a == nil {
		return r.dirs.tmp
	}
	return a.dirs.tmp
}

// environ points programs to the process's own folders, as far as they are not pointed elsewhere than to those of the run. A home folder that is
// the component's own stays.
func (a *apart) environ(r *run, env *environ, call *call) *environ {
	if a == nil {
		return env
	}
	vars := homeVariables(a.dirs.home)
	if home := env.vars["HOME"].text; call.hasHome(home) {
		a.dirs.home, vars = home, map[string]variable{}
	} else if slices.ContainsFunc(a.access, func(access plan.Access) bool { return access.Path == "~" }) {
		vars = map[string]variable{}
	}
	vars["TMPDIR"], vars["XDG_RUNTIME_DIR"] = variable{text: a.dirs.tmp}, variable{text: a.dirs.tmp}
	maps.DeleteFunc(vars, func(name string, _ variable) bool { return env.vars[name] != r.base.vars[name] })
	a.vars = vars
	return env.with(vars)
}

// without leaves out what leads to the process's own folders: they are gone when the next process of its step begins.
func (a *apart) without(vars map[string]variable) map[string]variable {
	if a != nil {
		maps.DeleteFunc(vars, func(name string, v variable) bool {
			own, ok := a.vars[name]
			return ok && v == own
		})
	}
	return vars
}

// hasHome reports whether a folder is the home of the component, or of one around it. A variable may name any other.
func (c *call) hasHome(home string) bool {
	for ; c != nil; c = c.from.call {
		if home != "" && home == c.home {
			return true
		}
	}
	return false
}

// view is what the process sees, which runs the program; nil is everything.
func (x *execution) view(args []string) *confine.View {
	a, r := x.inv.apart, x.run
	if a == nil {
		return nil
	}
	v := &confine.View{Hidden: append([]string{r.dirs.root}, r.opts.Hidden...)}
	v.Add(x.workDir, true)
	for _, temporary := range []string{"/tmp", "/var/tmp"} {
		v.Paths = append(v.Paths, confine.Path{At: temporary, From: a.system(), Writable: true})
	}
	for _, dir := range []string{a.dirs.files, a.dirs.tmp, a.dirs.home} {
		v.Add(dir, true)
	}
	if x.call != nil {
		v.Add(x.packageDir(), false)
	}
	if args[0] == r.opts.Program {
		v.Add(r.opts.Program, false)
	}
	for _, dir := range filepath.SplitList(r.base.vars["PATH"].text) {
		if rel, err := filepath.Rel(dir, r.dirs.root); filepath.IsAbs(dir) && (err != nil || !filepath.IsLocal(rel)) {
			v.Add(dir, false)
		}
	}
	for _, known := range r.opts.Job { // files that variables name
		if rel, err := filepath.Rel(r.dirs.root, known.Value); err == nil && filepath.IsLocal(rel) && x.has(known.Value) {
			v.Add(known.Value, false)
		}
	}
	for _, access := range a.access {
		a.give(v, access, r.base.vars["HOME"].text)
	}
	return v
}

// createInside creates a file that a confined step names, or empties it: in the work directory, where no link leads out of it, and not in what
// the step does not see.
func (x *execution) createInside(path string) (*os.File, error) {
	rel, err := filepath.Rel(x.workDir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%s: the step is confined, and the file is not in the work directory", path)
	}
	root, err := os.OpenRoot(x.workDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
		return nil, err
	}
	file, err := root.OpenFile(rel, os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600) // it may be a pipe
	if err != nil {
		return nil, err
	}
	if x.isHidden(file) {
		err = fmt.Errorf("%s: the step is confined, and does not see the file", path)
	} else {
		err = file.Truncate(0)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// isHidden reports whether an open file is in what confined steps do not see.
func (x *execution) isHidden(file *os.File) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return true
	}
	return slices.ContainsFunc(append([]string{x.run.dirs.root}, x.run.opts.Hidden...), func(hidden string) bool {
		if real, err := filepath.EvalSymlinks(hidden); err == nil {
			hidden = real
		}
		rel, err := filepath.Rel(hidden, path)
		return err == nil && filepath.IsLocal(rel)
	})
}

// has reports whether a variable of the process has the value.
func (x *execution) has(text string) bool {
	for _, v := range x.env.vars {
		if v.text == text {
			return true
		}
	}
	return false
}

// packageDir is the folder of what was fetched that the component is in; of a local one it is its own.
func (x *execution) packageDir() string {
	if x.origin == nil || x.origin.Path == "" {
		return x.dir
	}
	return strings.TrimSuffix(x.dir, string(filepath.Separator)+filepath.FromSlash(x.origin.Path))
}

// give adds an access to the view. What is in the run's home folder is in the process's own, at the same place; a folder there that is to be
// written to, and does not exist, is made.
func (a *apart) give(v *confine.View, access plan.Access, home string) {
	below, inHome := strings.CutPrefix(access.Path, "~")
	switch {
	case !inHome:
		v.Add(access.Path, access.Writable)
	case home == "":
	case below == "":
		v.Add(home, access.Writable)
	default:
		from := filepath.Join(home, below)
		if access.Writable {
			_ = os.MkdirAll(from, 0o700) // a file is not one
		}
		v.Paths = append(v.Paths, confine.Path{At: filepath.Join(a.dirs.home, below), From: from, Writable: access.Writable})
	}
}

// confinable finds out, before the first step, whether the steps that ask to be confined can be.
func (p *preflight) confinable(st *plan.Step) *event.Error {
	if !p.run.asked(st) {
		return nil
	}
	if err := mustConfine("the step"); err != nil {
		return p.run.at(err, st.Span)
	}
	return nil
}

// confineError makes the error of a process that could not be confined.
func confineError(ctx context.Context, err error) *event.Error {
	if errors.Is(err, process.ErrConfine) {
		return event.NewError(event.CodeConfineUnsupported, "%v", err)
	}
	return processError(ctx, err)
}
