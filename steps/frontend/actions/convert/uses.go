package convert

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// upload is what an upload of artifacts keeps.
type upload struct {
	job            string // its id
	name           string
	paths, exclude []string
	when, expire   string
}

// keyword finds a keyword of the job for an action, where that says the same. What is left to say stands in the place of the step.
func (b *stepsOf) keyword(n *yamlsource.Node) (remarks []string, ok bool) {
	if n.Get("uses") == nil || n.Get("env") != nil || n.Get("background") != nil || n.Get("continue-on-error") != nil || b.isAsked(n) {
		return nil, false
	}
	action, _, _ := strings.Cut(n.Get("uses").Text, "@")
	switch strings.ToLower(action) {
	case "actions/checkout":
		return b.checkout(n)
	case "actions/upload-artifact":
		return b.upload(n)
	case "actions/download-artifact":
		return b.download(n)
	case "actions/cache":
		return b.cache(n)
	}
	return nil, false
}

// isAsked reports whether something in the job asks for the outputs of a step.
func (b *stepsOf) isAsked(n *yamlsource.Node) bool {
	id := n.Get("id")
	if id == nil {
		return false
	}
	var asks func(n *yamlsource.Node) bool
	asks = func(n *yamlsource.Node) bool {
		text := strings.ToLower(n.Text)
		return strings.Contains(text, "steps."+strings.ToLower(id.Text)) || strings.Contains(text, "steps[") || slices.ContainsFunc(n.Items, asks) ||
			slices.ContainsFunc(n.Entries, func(e yamlsource.Entry) bool { return asks(e.Value) })
	}
	return asks(b.job)
}

// with are the inputs of an action, by name in lower case.
func with(n *yamlsource.Node) map[string]*yamlsource.Node {
	out := map[string]*yamlsource.Node{}
	if inputs := n.Get("with"); inputs != nil {
		for _, e := range inputs.Entries {
			if textOf(e.Value) != "" {
				out[strings.ToLower(e.Key.Text)] = e.Value
			}
		}
	}
	return out
}

// only reports whether there are no inputs but these.
func only(inputs map[string]*yamlsource.Node, names ...string) bool {
	for name := range inputs {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// checkout leaves out what GitLab does before the first step.
func (b *stepsOf) checkout(n *yamlsource.Node) ([]string, bool) {
	inputs := with(n)
	repository, ref := textOf(inputs["repository"]), strings.ReplaceAll(textOf(inputs["ref"]), " ", "")
	own := repository == "" || strings.ReplaceAll(repository, " ", "") == "${{github.repository}}"
	if !own || n.Get("if") != nil || !slices.Contains([]string{"", "${{github.sha}}", "${{github.ref}}", "${{github.head_ref}}", "${{github.ref_name}}"}, ref) ||
		!only(inputs, "repository", "ref", "fetch-depth", "fetch-tags", "submodules", "lfs", "token", "persist-credentials", "clean", "show-progress", "set-safe-directory") {
		if own {
			b.note(n.Span, "actions/checkout stays an action: its inputs are more than GitLab's own checkout knows")
		}
		return nil, false
	}
	set := func(name, text string) {
		if !b.variables.has(name) {
			b.variables.add(name, text)
		}
	}
	if depth := inputs["fetch-depth"]; depth != nil {
		set("GIT_DEPTH", depth.Text)
	}
	switch textOf(inputs["submodules"]) {
	case "true":
		set("GIT_SUBMODULE_STRATEGY", "normal")
	case "recursive":
		set("GIT_SUBMODULE_STRATEGY", "recursive")
	}
	if clean := inputs["clean"]; clean != nil && clean.Text == "false" {
		set("GIT_CLEAN_FLAGS", "none")
	}
	return []string{b.note(n.Span, "actions/checkout is left out: GitLab fetches the sources itself")}, true
}

// plainPath makes a path one of GitLab's, which start in the project's folder.
func plainPath(text string) (string, bool) {
	text = strings.TrimPrefix(text, "${{ github.workspace }}/")
	clean := path.Clean(text)
	if strings.Contains(text, "${{") || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "~") || strings.Contains(clean, `\`) {
		return "", false
	}
	if strings.HasSuffix(text, "/") {
		clean += "/"
	}
	return strings.ReplaceAll(clean, "$", "$$"), true
}

// lines are the lines of a text that hold something.
func lines(n *yamlsource.Node) []string {
	var out []string
	for line := range strings.SplitSeq(textOf(n), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// maxDays is how long GitHub keeps artifacts at most.
const maxDays = 400

// readUpload reads a plain upload.
func (s *scope) readUpload(n *yamlsource.Node) (upload, bool) {
	inputs := with(n)
	u := upload{job: s.job.ID, name: "artifact"}
	if !only(inputs, "name", "path", "retention-days", "if-no-files-found", "compression-level", "overwrite", "include-hidden-files") {
		return u, false
	}
	if c := n.Get("if"); c != nil {
		when := s.jobIf(c)
		if when.text != "" || when.note != "" || when.when == "" {
			return u, false
		}
		u.when = when.when
	}
	if name := inputs["name"]; name != nil {
		var ok bool
		if u.name, ok = s.dollars(name); !ok {
			return u, false
		}
	}
	for _, text := range lines(inputs["path"]) {
		rest, minus := strings.CutPrefix(text, "!")
		clean, ok := plainPath(rest)
		switch {
		case !ok:
			return u, false
		case minus:
			u.exclude = append(u.exclude, clean)
		default:
			u.paths = append(u.paths, clean)
		}
	}
	if days := inputs["retention-days"]; days != nil {
		n, err := strconv.Atoi(days.Text)
		if err != nil || n < 1 || n > maxDays {
			return u, false
		}
		u.expire = strconv.Itoa(n) + " days"
	}
	return u, len(u.paths) > 0
}

// findUploads finds what other jobs can download.
func (c *converter) findUploads(j *workflow.Job) {
	steps := c.node(j).Get("steps")
	if steps == nil {
		return
	}
	for _, n := range steps.Items {
		b := &stepsOf{scope: c.newScope(j), job: c.node(j)}
		if !strings.HasPrefix(textOf(n.Get("uses")), "actions/upload-artifact@") || n.Get("env") != nil || n.Get("background") != nil || n.Get("continue-on-error") != nil || b.isAsked(n) {
			continue
		}
		if u, ok := b.readUpload(n); ok {
			c.uploads[u.name] = u
		}
	}
}

func (b *stepsOf) upload(n *yamlsource.Node) ([]string, bool) {
	u, ok := b.readUpload(n)
	if !ok {
		b.note(n.Span, "actions/upload-artifact stays an action: `artifacts` cannot express what it does, and GitLab jobs do not see what it keeps")
		return nil, false
	}
	if !b.keeps {
		b.kept, b.keeps = u, true
	} else {
		b.note(n.Span, "a job has one archive of artifacts: %s and %s are kept together", b.kept.name, u.name)
		b.kept.paths, b.kept.exclude = append(b.kept.paths, u.paths...), append(b.kept.exclude, u.exclude...)
		if u.when != b.kept.when {
			b.kept.when = "always"
		}
		b.kept.expire = cmp.Or(b.kept.expire, u.expire)
	}
	return []string{b.note(n.Span, "the upload of %s is left out: the job's `artifacts` keep it, and files keep their folders", u.name)}, true
}

// artifacts writes the job's artifacts.
func (b *stepsOf) artifacts() mapping {
	var out mapping
	strings := func(texts []string) list {
		var l list
		for _, text := range texts {
			l = append(l, text)
		}
		return l
	}
	if b.keeps {
		out.add("name", b.kept.name)
		out.add("paths", strings(b.kept.paths))
		if len(b.kept.exclude) > 0 {
			out.add("exclude", strings(b.kept.exclude))
		}
		if b.kept.when != "" {
			out.add("when", b.kept.when)
		}
		if b.kept.expire != "" {
			out.add("expire_in", b.kept.expire)
		}
	}
	if b.dotenv != "" {
		out.add("reports", mapping{{nil, "dotenv", b.dotenv}})
	}
	return out
}

// download leaves out what `needs` brings.
func (b *stepsOf) download(n *yamlsource.Node) ([]string, bool) {
	inputs := with(n)
	u, found := b.uploads[textOf(inputs["name"])]
	if !found || !only(inputs, "name", "path") || n.Get("if") != nil || !slices.Contains(b.w.Ancestors(b.scope.job), u.job) || !slices.Contains(b.scope.job.Needs, u.job) {
		b.note(n.Span, "actions/download-artifact stays an action: it finds what actions of the same job upload, not the artifacts of other jobs")
		return nil, false
	}
	return []string{b.note(n.Span, "the download of %s is left out: `needs` brings it, to where it was kept: %s", u.name, strings.Join(u.paths, ", "))}, true
}

// cache makes a cache of GitLab's of a plain one.
func (b *stepsOf) cache(n *yamlsource.Node) ([]string, bool) {
	inputs := with(n)
	refuse := func(why string) ([]string, bool) {
		b.note(n.Span, "actions/cache stays an action: %s", why)
		return nil, false
	}
	if !only(inputs, "path", "key", "restore-keys") || n.Get("if") != nil || len(b.caches) == maxCaches {
		return refuse("`cache` cannot express what it does")
	}
	var paths list
	for _, text := range lines(inputs["path"]) {
		clean, ok := plainPath(text)
		if !ok || strings.HasPrefix(text, "!") {
			return refuse(text + " is not in the project, and GitLab caches nothing else")
		}
		paths = append(paths, clean)
	}
	key, ok := b.cacheKey(inputs["key"])
	if !ok || len(paths) == 0 {
		return refuse("its key is more than variables and the digest of one or two files")
	}
	b.caches = append(b.caches, mapping{{nil, "key", key}, {nil, "paths", paths}})
	remarks := []string{b.note(n.Span, "actions/cache is left out: the job's `cache` keeps %s", strings.Join(lines(inputs["path"]), ", "))}
	if restore := inputs["restore-keys"]; restore != nil {
		remarks = append(remarks, b.note(restore.Span, "restore-keys are left out: GitLab finds caches by their whole key"))
	}
	return remarks, true
}

// Limits of GitLab on caches.
const (
	maxCaches   = 4
	maxKeyFiles = 2
)

// cacheKey writes a key: a text, or a prefix and files.
func (b *stepsOf) cacheKey(n *yamlsource.Node) (any, bool) {
	t, err := ghexpr.ParseTemplate(textOf(n), nil)
	if err != nil || textOf(n) == "" {
		return nil, false
	}
	prefix := ""
	parts := t.Parts()
	for i, part := range parts {
		if part.Expr == nil {
			prefix += strings.ReplaceAll(strings.ReplaceAll(part.Text, "$", "$$"), "/", "-")
			continue
		}
		tree := part.Expr.Tree()
		if tree.Kind == ghexpr.FunctionOf && tree.Text == "hashFiles" && i == len(parts)-1 && len(tree.Args) <= maxKeyFiles {
			var files list
			for _, arg := range tree.Args {
				if arg.Kind != ghexpr.Literal || arg.Value.Kind() != value.String {
					return nil, false
				}
				files = append(files, arg.Value.Str())
			}
			key := mapping{{nil, "files", files}}
			if prefix = strings.TrimRight(prefix, "-_."); prefix != "" {
				key.add("prefix", prefix)
			}
			return key, true
		}
		if name, _ := tree.Path(); strings.EqualFold(strings.Join(name, "."), "runner.os") {
			system, ok := b.system()
			if !ok {
				return nil, false
			}
			prefix += system
			continue
		}
		text, ok := b.dollars(&yamlsource.Node{Kind: yamlsource.String, Text: "${{ " + part.Expr.String() + " }}", Span: n.Span})
		if !ok {
			return nil, false
		}
		if i+1 < len(parts) {
			text = "${" + strings.TrimPrefix(text, "$") + "}"
		}
		prefix += text
	}
	return prefix, prefix != ""
}

// system is runner.os, as far as runs-on tells.
func (b *stepsOf) system() (name string, ok bool) {
	label := strings.Join(texts(b.job.Get("runs-on")), " ")
	switch {
	case strings.Contains(label, "windows"):
		return "Windows", true
	case strings.Contains(label, "macos"):
		return "macOS", true
	case strings.Contains(label, "${{"):
		return "", false
	}
	return "Linux", true
}
