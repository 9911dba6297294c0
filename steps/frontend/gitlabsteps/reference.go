package gitlabsteps

import (
	"errors"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"

	"github.com/rungci/rung/internal/lazyregexp"
)

// gitFolder is where the short form of a Git reference finds components in a repository.
const gitFolder = "steps"

// ParseReference reads a reference in short form. Text with expressions becomes a dynamic reference, whose result the engine
// gives to ParseStaticReference. The error is a diag.Diagnostic at the span.
func ParseReference(text string, span diag.Span) (*plan.Reference, error) {
	if !expr.Has(text) {
		return ParseStaticReference(text, span)
	}
	if _, err := expr.ParseTemplate(text); err != nil {
		d := diag.Diagnostic{Span: span, Message: err.Error()}
		if e := (*expr.Error)(nil); errors.As(err, &e) {
			d.Hint = e.Hint
			if span.Line > 0 {
				d.Span = span.Shift(e.Offset, e.Length)
			}
		}
		return nil, d
	}
	field := plan.Field{Value: value.OfString(text), Span: span}
	return &plan.Reference{Kind: plan.RefDynamic, Text: text, Expr: &field, Span: span}, nil
}

// ParseStaticReference reads a reference in short form from text that is no longer to be evaluated: in it, ${{ means itself.
// The error is a diag.Diagnostic at the span.
func ParseStaticReference(text string, span diag.Span) (*plan.Reference, error) {
	r := reference{Reference: plan.Reference{Text: text, Span: span}}
	switch {
	case strings.TrimSpace(text) == "":
		r.fail("the reference is empty", formsHint)
	case strings.HasPrefix(text, actionPrefix):
		r.action(strings.TrimPrefix(text, actionPrefix))
	case isArchive(text):
		r.archive(text)
	case strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/"):
		r.local(text)
	case strings.HasPrefix(text, "builtin://") || strings.HasPrefix(text, "dist://"):
		r.builtin(text)
	case isOCI(text):
		r.oci(text)
	case strings.Contains(text, "@"):
		r.git(text)
	case strings.Contains(text, "/"):
		r.fail("the reference has no revision", "add @ and a tag, branch or commit; a local path begins with ./")
	default:
		r.fail("cannot tell what this reference means", formsHint)
	}
	if r.problem != nil {
		return nil, *r.problem
	}
	return &r.Reference, nil
}

const formsHint = "write ./folder, host/project@revision, registry.host/repository:tag, https://host/file.zip or builtin://name"

// reference is one that is being read.
type reference struct {
	plan.Reference
	problem *diag.Diagnostic
}

// fail notes the first problem.
func (r *reference) fail(message, hint string) {
	if r.problem == nil {
		r.problem = &diag.Diagnostic{Span: r.Span, Message: message, Hint: hint}
	}
}

// setPath splits a path into folders and, where the last element ends in .yml or .yaml, a file.
func (r *reference) setPath(text string) {
	for _, element := range strings.Split(text, "/") {
		if element != "" {
			r.Path = append(r.Path, element)
		}
	}
	if n := len(r.Path); n > 0 && isFile(r.Path[n-1]) {
		r.Path, r.File = r.Path[:n-1], r.Path[n-1]
	}
	if strings.ContainsAny(text, "\\\x00\n") {
		r.fail("the path has a character that is not allowed here", "separate folders with /")
	}
}

func isFile(element string) bool {
	return strings.HasSuffix(element, ".yml") || strings.HasSuffix(element, ".yaml")
}

// stayInside refuses elements that would lead out of what was fetched.
func (r *reference) stayInside() {
	if slices.Contains(r.Path, "..") || slices.Contains(r.Path, ".") {
		r.fail("the path has an element . or ..", "write the path from the root of what is fetched")
	}
}

// actionPrefix begins a reference to a GitHub Action where the key `action` does not say that it is one.
const actionPrefix = "action:"

func (r *reference) action(text string) {
	r.Kind, r.Action = plan.RefAction, text
	if err := checkAction(text); err != nil {
		r.fail("not an action: "+err.Error(), actionHint)
	}
}

func (r *reference) local(text string) {
	r.Kind = plan.RefLocal
	if strings.HasPrefix(text, "/") {
		r.Path = []string{"/"}
	}
	r.setPath(text)
	if len(r.Path) == 0 { // a file such as ".step.yml"
		r.Path = []string{"."}
	}
}

func (r *reference) builtin(text string) {
	r.Kind = plan.RefBuiltin
	_, path, _ := strings.Cut(text, "://")
	r.Path = strings.Split(path, "/")
	if slices.Contains(r.Path, "") {
		r.fail("the path of a builtin step has an empty element", "write builtin://name")
	}
	r.stayInside()
}

// isOCI reports whether text is an image: it begins like a host and has a tag, a digest, or a path after a space, which no
// Git reference has.
func isOCI(text string) bool {
	image, _, _ := strings.Cut(text, " ")
	host, repository, ok := strings.Cut(image, "/")
	if !ok || strings.Contains(text, "://") || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return false
	}
	if strings.Contains(image, "@") {
		return digestPattern.MatchString(image)
	}
	return strings.Contains(repository, ":")
}

// digestPattern finds a digest, which stands where Git has a revision but cannot be one.
var digestPattern = lazyregexp.New(`@[a-z0-9]+:[0-9a-fA-F]{32,}$`)

func (r *reference) oci(text string) {
	r.Kind = plan.RefOCI
	image, path, _ := strings.Cut(text, " ")
	registry, repository, _ := strings.Cut(image, "/")
	r.setRegistry(registry)
	if name, digest, ok := strings.Cut(repository, "@"); ok {
		if strings.Contains(name, ":") {
			r.fail("the image has a tag and a digest", "keep the digest")
		}
		r.setRepository(name)
		r.setTag(digest)
	} else {
		i := strings.LastIndexByte(repository, ':')
		r.setRepository(repository[:i])
		r.setTag(repository[i+1:])
	}
	path = strings.TrimSpace(path)
	if strings.HasPrefix(path, "/") || strings.ContainsAny(path, " \t") {
		r.fail("the path in the image must be relative and without spaces", "write registry/repository:tag folder/func.yml")
	}
	r.setPath(path)
	r.stayInside()
}

// archiveSuffixes end the names of files that can be unpacked.
var archiveSuffixes = []string{".zip", ".tar.gz", ".tgz"}

// isArchive reports whether text is an archive: its URL or path ends as the names of archives do.
func isArchive(text string) bool {
	url, _, _ := strings.Cut(text, "#")
	url, _, _ = strings.Cut(url, "/-/")
	path := url
	if _, rest, ok := strings.Cut(url, "://"); ok {
		path = rest
	}
	_, path, ok := strings.Cut(path, "/")
	return ok && isArchiveName(path)
}

func isArchiveName(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return slices.ContainsFunc(archiveSuffixes, func(suffix string) bool { return strings.HasSuffix(path, suffix) })
}

// archive reads URL[/-/folder[/file.yml]][#sha256=hex], or a path instead of the URL.
func (r *reference) archive(text string) {
	r.Kind = plan.RefArchive
	text, fragment, pinned := strings.Cut(text, "#")
	if pinned {
		sum, ok := strings.CutPrefix(fragment, "sha256=")
		if !ok {
			r.fail("what follows # is not a digest", "write #sha256= and 64 hexadecimal digits")
		}
		r.setSHA256(sum)
	}
	url, path, _ := strings.Cut(text, "/-/")
	r.setArchiveURL(url)
	r.setPath(path)
	r.stayInside()
}

// setArchiveURL sets the URL of an archive, which is on https unless it says otherwise, or its local path.
func (r *reference) setArchiveURL(url string) {
	r.URL = url
	if !strings.Contains(url, "://") && !strings.HasPrefix(url, ".") && !strings.HasPrefix(url, "/") && !strings.HasPrefix(url, "${{") {
		r.URL = "https://" + url
	}
	if expr.Has(url) {
		return
	}
	scheme, rest, remote := strings.Cut(r.URL, "://")
	host, _, _ := strings.Cut(rest, "/")
	if remote && (!slices.Contains([]string{"http", "https", "file"}, scheme) || host == "" && scheme != "file") {
		r.fail("cannot fetch an archive from this address", "write https://host/file.zip, file:///folder/file.zip or ./file.zip")
	}
	if strings.ContainsAny(url, " \t\r\n\x00") {
		r.fail("the URL has white space in it", "")
	}
}

func (r *reference) setSHA256(sum string) {
	r.SHA256 = strings.ToLower(sum)
	if !expr.Has(sum) && (len(sum) != 64 || strings.Trim(r.SHA256, "0123456789abcdef") != "") {
		r.fail("the digest of the archive is not 64 hexadecimal digits", "sha256sum prints it")
	}
	if expr.Has(sum) {
		r.SHA256 = sum
	}
}

var (
	repositoryPattern = lazyregexp.New(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	tagPattern        = lazyregexp.New(`^([A-Za-z0-9_][A-Za-z0-9._-]{0,127}|[a-z0-9]+:[0-9a-fA-F]{32,})$`)
	registryPattern   = lazyregexp.New(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)
)

func (r *reference) setRegistry(text string) {
	r.Registry = text
	r.checkImage("registry", text, registryPattern)
}

func (r *reference) setRepository(text string) {
	r.Repository = text
	r.checkImage("repository", text, repositoryPattern)
}

func (r *reference) setTag(text string) {
	r.Tag = text
	r.checkImage("tag", text, tagPattern)
}

func (r *reference) checkImage(part, text string, pattern lazyregexp.Regexp) {
	if !expr.Has(text) && !pattern.MatchString(text) {
		r.fail("the "+part+" of the image is not valid", "a short form is registry.host/repository:tag, with the repository in lower case")
	}
}

// git reads [https://]host/project[/-/folder[/file.yml]]@revision. The revision follows the last @, as a URL may have one of
// its own before the host.
func (r *reference) git(text string) {
	r.Kind = plan.RefGit
	at := strings.LastIndexByte(text, '@')
	url, path, _ := strings.Cut(text[:at], "/-/")
	r.setRev(text[at+1:])
	r.setURL(url)
	r.Path, r.OrRoot = []string{gitFolder}, true
	r.setPath(path)
	r.stayInside()
}

// scpPattern finds the form user@host:path, which Git takes for SSH.
var scpPattern = lazyregexp.New(`^[\w.-]+@[\w.-]+:[^/0-9]`)

// setURL sets the URL of a repository, which is on https unless it says otherwise.
func (r *reference) setURL(url string) {
	r.URL = url
	if !strings.Contains(url, "://") && !scpPattern.MatchString(url) && !strings.HasPrefix(url, "${{") {
		r.URL = "https://" + url
	}
	if expr.Has(url) {
		return
	}
	scheme, rest, remote := strings.Cut(r.URL, "://")
	host, project, _ := strings.Cut(rest, "/")
	if remote && (strings.Trim(project, "/") == "" || host == "" && scheme != "file") {
		r.fail("the URL has no host and project", "a short form is host/project@revision")
	}
	if strings.ContainsAny(url, " \t\r\n\x00") {
		r.fail("the URL has white space in it", "")
	}
}

// setRev sets the revision. What Git cannot name is refused, and so is what it could take for an option.
func (r *reference) setRev(rev string) {
	r.Rev = rev
	switch {
	case expr.Has(rev):
	case rev == "":
		r.fail("the revision is missing", "write host/project@revision, with a tag, branch or commit")
	case strings.ContainsAny(rev, " \t\r\n\x00:~^?*[\\") || strings.HasPrefix(rev, "-") || strings.Contains(rev, ".."):
		r.fail("the revision cannot be a tag, branch or commit", "a short form is host/project@revision")
	}
}
