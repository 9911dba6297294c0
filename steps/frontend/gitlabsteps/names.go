package gitlabsteps

import (
	"path"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// namespace holds the names of a list of steps and of the parallel groups in it.
type namespace struct {
	taken map[string]diag.Span
	next  map[string]int // the first number that may be free, of generated names that were taken
}

// nameSteps checks the names that the authors gave the steps of a list, and then names the rest after what they do. Given
// names come first: a generated name never takes one.
func (p stepReader) nameSteps(list *yamlsource.Node, steps []plan.Step) {
	names := &namespace{taken: map[string]diag.Span{}, next: map[string]int{}}
	p.claim(names, list, steps)
	names.generate(steps)
}

func (p stepReader) claim(names *namespace, list *yamlsource.Node, steps []plan.Step) {
	for i := range steps {
		item := list.Items[i]
		if n := item.Get("name"); n != nil && steps[i].Name != "" {
			if first, again := names.taken[steps[i].Name]; again {
				p.report(n.Span, "rename one of them", "the name %q is already taken by the step on line %d", steps[i].Name, first.Line)
			} else {
				names.taken[steps[i].Name] = n.Span
			}
		}
		if group := item.Get("parallel"); group != nil {
			p.claim(names, group, steps[i].Parallel)
		}
	}
}

func (names *namespace) generate(steps []plan.Step) {
	for i := range steps {
		if s := &steps[i]; s.Name == "" {
			base, title := origin(s)
			if s.Title != "" {
				base, title = s.Title, s.Title
			}
			s.Title = title
			s.Name = names.free(validName(base))
		}
		names.generate(steps[i].Parallel)
	}
}

// unnamed returns the steps of a list that need not be written with their names and titles, as they are named after what they do.
func unnamed(steps []plan.Step) map[*plan.Step]bool {
	found := map[*plan.Step]bool{}
	eachStep(steps, func(s *plan.Step) {
		if _, title := origin(s); s.Title != "" && s.Title == title {
			found[s] = true
		}
	})
	for wrong := true; wrong; {
		wrong = false
		names := &namespace{taken: map[string]diag.Span{}, next: map[string]int{}}
		eachStep(steps, func(s *plan.Step) {
			if !found[s] {
				names.taken[s.Name] = diag.Span{}
			}
		})
		eachStep(steps, func(s *plan.Step) {
			if base, _ := origin(s); found[s] && names.free(validName(base)) != s.Name {
				delete(found, s)
				wrong = true
			}
		})
	}
	return found
}

// eachStep visits the steps of a list, and those of the parallel groups in it, in order.
func eachStep(steps []plan.Step, visit func(*plan.Step)) {
	for i := range steps {
		visit(&steps[i])
		eachStep(steps[i].Parallel, visit)
	}
}

// free returns the name, with a number when it is taken, and takes it.
func (names *namespace) free(base string) string {
	if base == "" {
		base = "step"
	}
	name := base
	for n := max(names.next[base], 2); ; n++ {
		if _, taken := names.taken[name]; !taken {
			break
		}
		name = base + "_" + strconv.Itoa(n)
		names.next[base] = n + 1
	}
	names.taken[name] = diag.Span{}
	return name
}

// maxName bounds the names that are made of titles, in bytes.
const maxName = 60

// validName returns the text with all that a name cannot hold replaced by underscores, "" when nothing is left of it.
func validName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
	if strings.Trim(name, "_") == "" {
		return ""
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	if len(name) > maxName {
		name = name[:maxName]
	}
	return name
}

// origin returns what the name of a step is made from, and its title.
func origin(s *plan.Step) (base, title string) {
	switch {
	case s.Ref != nil:
		return meaningful(s.Ref), shorten(withoutPassword(s.Ref.Text))
	case len(s.Parallel) > 0:
		return "parallel", ""
	case s.Await != nil && s.Await.Cancel:
		return "cancel", ""
	case s.Await != nil:
		return "wait", ""
	case s.Inline == nil:
		return "step", ""
	case s.Inline.Definition.Exec == nil:
		return "run", ""
	case s.Inline.Definition.Exec.Script != nil:
		return "script", shorten(strings.TrimLeft(s.Inline.Definition.Exec.Script.Text.Value.Str(), " \t\r\n"))
	default:
		return program(s.Inline.Definition.Exec.Command)
	}
}

// program names an exec after its program, when that is known.
func program(command []plan.Field) (base, title string) {
	args := make([]string, len(command))
	for i, arg := range command {
		args[i] = arg.Value.Str()
	}
	if len(args) == 0 || expr.Has(args[0]) {
		return "exec", shorten(strings.Join(args, " "))
	}
	base = args[0][strings.LastIndexAny(args[0], `/\`)+1:]
	return strings.TrimSuffix(base, ".exe"), shorten(strings.Join(args, " "))
}

// meaningful returns the last part of a reference that tells it from others, "" when there is none.
func meaningful(ref *plan.Reference) string {
	if ref.Kind == plan.RefDynamic || expr.Has(ref.Text) {
		return ""
	}
	if file := strings.TrimSuffix(ref.File, path.Ext(ref.File)); file != "" && file != "func" && file != "step" {
		return file
	}
	elements := ref.Path
	if ref.Kind == plan.RefGit && len(elements) == 1 && elements[0] == gitFolder {
		elements = nil
	}
	for i := len(elements) - 1; i >= 0; i-- {
		if e := elements[i]; strings.Trim(e, "./") != "" {
			return e
		}
	}
	switch ref.Kind {
	case plan.RefGit:
		return path.Base(strings.TrimSuffix(strings.TrimRight(ref.URL, "/"), ".git"))
	case plan.RefOCI:
		return path.Base(ref.Repository)
	case plan.RefArchive:
		name, _, _ := strings.Cut(path.Base(ref.URL), "?")
		for _, suffix := range archiveSuffixes {
			name = strings.TrimSuffix(name, suffix)
		}
		return name
	case plan.RefAction:
		name, _, _ := strings.Cut(strings.TrimPrefix(ref.Action, "docker://"), "@")
		return path.Base(name)
	default:
		return ""
	}
}

// withoutPassword takes the user and password out of a reference's URL: a title is shown everywhere.
func withoutPassword(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	}
	authority, after, slash := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	if !slash || at < 0 {
		return text
	}
	if ok {
		scheme += "://"
	}
	return scheme + authority[at+1:] + "/" + after
}

// NameFor returns the name that a step without one gets from its reference.
func NameFor(ref *plan.Reference) string {
	base, _ := origin(&plan.Step{Ref: ref})
	if name := validName(base); name != "" {
		return name
	}
	return "step"
}
