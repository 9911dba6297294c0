package gitlabsteps

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// referenceReader reads references to components.
type referenceReader struct{ *reader }

// reference reads what step and func refer to: a short form, or a map with git, oci or archive.
func (p referenceReader) reference(n *yamlsource.Node) *plan.Reference {
	switch n.Kind {
	case yamlsource.String:
		if !p.checkTemplate(n) {
			return nil
		}
		ref, err := ParseReference(n.Text, n.Span)
		for _, d := range diag.Of(err) {
			p.report(d.Span, d.Hint, "%s", d.Message)
		}
		return ref
	case yamlsource.Mapping:
		return p.referenceMap(n)
	default:
		p.report(n.Span, formsHint, "a reference must be a string or a map, not %s", n.Kind)
		return nil
	}
}

func (p referenceReader) referenceMap(n *yamlsource.Node) *plan.Reference {
	p.object(n, "a reference", mapKeys["reference"]...)
	r := &reference{Reference: plan.Reference{Span: n.Span}}
	var used []string
	for _, kind := range []struct {
		key  string
		read func(*reference, *yamlsource.Node)
	}{{"git", p.gitMap}, {"oci", p.ociMap}, {"archive", p.archiveMap}} {
		if body := n.Get(kind.key); body != nil {
			if used = append(used, kind.key); len(used) == 1 {
				kind.read(r, body)
			}
		}
	}
	switch {
	case len(used) > 1:
		p.report(n.Span, "keep one of them", "a reference cannot use both %s and %s", used[0], used[1])
	case len(used) == 0:
		p.report(n.Span, "write `git: {url: …, rev: …}`, `oci: {registry: …, repository: …, tag: …}` or `archive: {url: …}`", "a reference needs git, oci or archive")
	}
	if r.problem != nil {
		p.report(r.problem.Span, r.problem.Hint, "%s", r.problem.Message)
	}
	return &r.Reference
}

func (p referenceReader) gitMap(r *reference, n *yamlsource.Node) {
	r.Kind = plan.RefGit
	if !p.parts(n, "git", "url", "rev") {
		return
	}
	r.part(n, "url", r.setURL)
	r.part(n, "rev", r.setRev)
	r.part(n, "dir", r.setDir)
	r.part(n, "file", r.setFile)
	r.Text = r.URL + "@" + r.Rev + r.place()
}

func (p referenceReader) ociMap(r *reference, n *yamlsource.Node) {
	r.Kind = plan.RefOCI
	if !p.parts(n, "oci", "registry", "repository", "tag") {
		return
	}
	r.part(n, "registry", r.setRegistry)
	r.part(n, "repository", r.setRepository)
	r.part(n, "tag", r.setTag)
	r.part(n, "dir", r.setDir)
	r.part(n, "file", r.setFile)
	separator := ":"
	if strings.Contains(r.Tag, ":") && !expr.Has(r.Tag) {
		separator = "@"
	}
	r.Text = r.Registry + "/" + r.Repository + separator + r.Tag + r.place()
}

func (p referenceReader) archiveMap(r *reference, n *yamlsource.Node) {
	r.Kind = plan.RefArchive
	if !p.parts(n, "archive", "url") {
		return
	}
	r.part(n, "url", r.setArchiveURL)
	r.part(n, "sha256", r.setSHA256)
	r.part(n, "dir", r.setDir)
	r.part(n, "file", r.setFile)
	r.Text = r.URL + r.place()
}

// parts checks a map of strings with expressions, which has at least the required ones. what is its name in mapKeys.
func (p referenceReader) parts(n *yamlsource.Node, what string, required ...string) bool {
	if !p.object(n, what, mapKeys[what]...) {
		return false
	}
	ok := true
	for _, key := range required {
		if n.Get(key) == nil {
			p.report(n.Span, "", "%s has no %s", what, key)
			ok = false
		}
	}
	for _, e := range n.Entries {
		_, filled := p.filled(e.Value, fmt.Sprintf("%q", e.Key.Text))
		ok = filled && p.checkTemplate(e.Value) && ok
	}
	return ok
}

// part sets one part of a reference; what is wrong with it is reported at its own place.
func (r *reference) part(n *yamlsource.Node, key string, set func(string)) {
	if part := n.Get(key); part != nil {
		whole := r.Span
		r.Span = part.Span
		set(part.Text)
		r.Span = whole
	}
}

// setDir sets the folder. One with expressions stays in one piece: only its value has slashes that count.
func (r *reference) setDir(dir string) {
	if expr.Has(dir) {
		r.Path = []string{dir}
		return
	}
	for _, element := range strings.Split(dir, "/") {
		if element != "" && element != "." {
			r.Path = append(r.Path, element)
		}
	}
	r.stayInside()
}

func (r *reference) setFile(file string) {
	r.File = file
	if !expr.Has(file) && strings.ContainsAny(file, `/\`) {
		r.fail("the file has a folder in it", "write the folder in dir")
	}
}

// place returns the folder and file as they follow a reference in short form.
func (r *reference) place() string {
	path := strings.Join(r.Path, "/")
	if path != "" && r.File != "" {
		path += "/"
	}
	if path += r.File; path == "" {
		return ""
	}
	return " " + path
}

// action reads the name of a GitHub Action.
func (p referenceReader) action(n *yamlsource.Node) *plan.Reference {
	if n.Kind == yamlsource.Mapping && n.Get("uses") != nil {
		p.object(n, "the action", mapKeys["action"]...)
		ref := p.action(n.Get("uses"))
		if text := n.Get("text"); text != nil && ref != nil {
			ref.Text, _ = p.filled(text, "the text")
		}
		return ref
	}
	text, ok := p.filled(n, "the action")
	if !ok || !p.checkTemplate(n) {
		return nil
	}
	if !expr.Has(text) {
		if err := checkAction(text); err != nil {
			p.report(n.Span, actionHint, "%q is not an action: %v", shorten(text), err)
		}
	}
	return &plan.Reference{Kind: plan.RefAction, Text: text, Action: text, Span: n.Span}
}

// actionHint says how actions are named.
const actionHint = "write owner/repository@version, owner/repository/folder@version, ./folder or docker://image"

func checkAction(text string) error {
	action, err := plan.ParseAction(text)
	if err == nil && action.Folder != "" && !action.Own && !strings.HasPrefix(text, "./") {
		return errors.New("local ones begin with ./")
	}
	return err
}
