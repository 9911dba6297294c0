package trace

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/value"
)

// What stands for paths that differ between any two runs.
const (
	RunFolderText = "<run folder>"
	WorkDirText   = "<work dir>"
	// VariableFilesText is the folder beside the work directory with the files of a job's variables.
	VariableFilesText = WorkDirText + ".tmp"
	ProjectText       = "<project>" // the project on the machine whose work tree a job got
	ToolCacheText     = "<tool cache>"
	ProgramsText      = "<programs>"              // the folder in PATH that the step-runner of a job was in
	LoopbackText      = "http://127.0.0.1:<port>" // a server of the run itself, whose port the system chose
)

// fileCommands is the folder of GitHub's toolkit for the files that steps write to.
const fileCommands = "_runner_file_commands"

// toolCache is the variable with the folder of the tools that actions have installed.
const toolCache = "RUNNER_TOOL_CACHE"

const loopbackHost = "http://127.0.0.1:"

// places are the folders of one run whose paths say nothing about what it did.
type places struct {
	runFolders []string          // the run's own, made under a random name and removed when it ended; usually one
	workDir    string            // "" when it is left as it is
	variables  string            // with the files of variables; "" when there are none
	parent     string            // the folder around the work directory; "" when it is left as it is
	project    string            // of a job; "" when it is left as it is
	programs   string            // likewise
	tools      string            // the tool cache of actions, which lies with the caches of the user; "" when it is left as it is
	env        map[string]string // of the run: what processes have unless their attempt says otherwise
	mirrored   string            // what stands for the recorded work directory in the mirror of a replay
}

// MirrorFolder is where a replay has local components that came with the trace, in its run's own folder: those of the work directory, and
// others under their whole paths.
const (
	MirrorFolder  = "recorded"
	MirrorWorkDir = "work-dir"
	MirrorRoot    = "root"
)

// Patterns of paths in the run's own folder: at the beginning of a variable, and anywhere in a command. The engine makes
// these folders in it.
var (
	ownFolder = lazyregexp.New(`^(.*[/\\]step-runner-[0-9]+)[/\\](?:files|tmp|homes?|components|recorded|confined)(?:[/\\]|$)`)
	loopback  = lazyregexp.New(`http://127\.0\.0\.1:(?:3276[89]|327[7-9][0-9]|32[89][0-9]{2}|3[3-9][0-9]{3}|[456][0-9]{4})`) // 32768 and above
	fileSet   = lazyregexp.New(`(` + fileCommands + `[/\\]+)[0-9]+`)
	ownFile   = lazyregexp.New(`([^\s'"=:;]*[/\\]step-runner-[0-9]+)[/\\](?:files|components|recorded|confined)[/\\]`)
	apart     = lazyregexp.New(RunFolderText + `/confined/[^/\s'"]+/(files|tmp|home)\b`) // of a confined step, instead of the run's
)

// OwnFolders are the folders that the run made for itself and removed when it ended: in them were its home, its temporary folder
// and the files of its steps. Usually there is one.
func (t *Trace) OwnFolders() []string { return placesOf(t).runFolders }

// placesOf finds the folders of a run in what its processes were given.
func placesOf(t *Trace) places {
	var p places
	add := func(re *regexp.Regexp, text string) {
		if !strings.Contains(text, "step-runner-") {
			return
		}
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(p.runFolders, m[1]) {
				p.runFolders = append(p.runFolders, m[1])
			}
		}
	}
	for _, v := range t.Run.Env {
		add(ownFolder(), v)
	}
	if p.runFolders == nil { // the steps used the user's folders
		t.Walk(func(s *Step, _ int) {
			if s.Resolved != nil {
				add(ownFolder(), s.Resolved.Dir)
			}
			for _, attempt := range s.Attempts {
				for _, v := range attempt.Env {
					add(ownFolder(), v)
				}
				for _, word := range attempt.Command {
					add(ownFile(), word)
				}
			}
		})
	}
	for _, part := range t.Run.Parts {
		for _, folder := range part.Folders {
			if folder != "" && !slices.Contains(p.runFolders, folder) {
				p.runFolders = append(p.runFolders, folder)
			}
		}
	}
	slices.SortFunc(p.runFolders, func(a, b string) int { return len(b) - len(a) })
	if len(strings.TrimRight(t.Run.WorkDir, `/\`)) > len("C:") {
		p.workDir = strings.TrimRight(t.Run.WorkDir, `/\`)
	}
	if at := strings.LastIndexAny(p.workDir, `/\`); at > len("C:") {
		p.parent = p.workDir[:at]
	}
	p.mirrored, p.env = WorkDirText, t.Run.Env
	t.Walk(func(s *Step, _ int) {
		for i := range s.Attempts {
			if dir := s.Attempts[i].Env[toolCache]; len(dir) > len("C:/") && p.tools == "" {
				p.tools = strings.TrimRight(dir, `/\`)
			}
		}
	})
	if env := t.Run.Environment; env != nil {
		p.programs, p.variables = env.Programs, env.VariableFolder()
		if env.Project != t.Run.WorkDir {
			p.project = env.Project
		}
	}
	return p
}

// beyond returns the variables of a process that differ from those of the run, where folders of the two that stand for each other are the same.
func (p *places) beyond(env map[string]string) map[string]string {
	out := maps.Clone(env)
	maps.DeleteFunc(out, func(name, text string) bool {
		base, ok := p.env[name]
		return ok && p.text(base) == p.text(text)
	})
	return out
}

// text returns s with the run's folders replaced.
func (p *places) text(s string) string {
	if p.parent != "" && s == p.parent { // as a whole: other things on this machine may be in it, too
		return WorkDirText + "/.."
	}
	if p.parent != "" { // as a whole text of a definition
		s = strings.ReplaceAll(s, `"`+p.parent+`"`, `"`+WorkDirText+`/.."`)
	}
	for _, folder := range p.runFolders {
		s = p.unmirrored(s, folder)
		s = ReplacePath(s, folder, RunFolderText)
	}
	if strings.Contains(s, RunFolderText+"/confined/") { // another machine may not be able to confine it
		s = apart().ReplaceAllString(s, RunFolderText+"/$1")
	}
	for _, place := range [][2]string{{p.variables, VariableFilesText}, {p.workDir, WorkDirText}, {p.programs, ProgramsText}, {p.project, ProjectText}, {p.tools, ToolCacheText}} {
		if place[0] != "" {
			s = ReplacePath(s, place[0], place[1])
		}
	}
	if strings.Contains(s, fileCommands) { // which of the sets of files a step had depends on what else ran
		s = fileSet().ReplaceAllString(s, "${1}<set>")
	}
	if strings.Contains(s, loopbackHost) {
		s = loopback().ReplaceAllString(s, LoopbackText)
	}
	return s
}

// unmirrored puts the recorded paths in the place of those in the mirror below a run's folder.
func (p *places) unmirrored(s, folder string) string {
	for _, separator := range []string{"/", `\`, `\\`} { // the last as it is in JSON
		mirror := folder + separator + MirrorFolder + separator
		if strings.Contains(s, mirror) {
			s = ReplacePath(s, mirror+MirrorWorkDir, p.mirrored)
			s = ReplacePath(s, mirror+MirrorRoot, "")
		}
	}
	return s
}

// ReplacePath replaces a path, and the beginning of paths below it, but not that of a longer name.
func ReplacePath(s, path, with string) string {
	var b strings.Builder
	for rest := s; ; {
		i := strings.Index(rest, path)
		if i < 0 {
			if b.Len() == 0 {
				return s
			}
			b.WriteString(rest)
			return b.String()
		}
		end := i + len(path)
		b.WriteString(rest[:i])
		if end < len(rest) && inName(rest[end]) {
			b.WriteString(path)
		} else {
			b.WriteString(with)
		}
		rest = rest[end:]
	}
}

// inName reports whether a path's last name goes on with c.
func inName(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// value returns v with the run's folders replaced in every text of it.
func (p *places) value(v value.Value) value.Value {
	switch v.Kind() {
	case value.String:
		if text := p.text(v.Str()); text != v.Str() {
			return value.OfString(text)
		}
	case value.Array:
		items := make([]value.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = p.value(item)
		}
		return value.OfArray(items)
	case value.Struct:
		fields := make(map[string]value.Value, len(v.Fields()))
		for key, field := range v.Fields() {
			fields[key] = p.value(field)
		}
		return value.OfStruct(fields)
	}
	return v
}
