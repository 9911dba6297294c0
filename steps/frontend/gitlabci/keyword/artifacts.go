package keyword

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// MaxExposeAs is how long `artifacts:expose_as` may be, in characters.
const MaxExposeAs = 100

var artifactKeys = []string{"paths", "exclude", "name", "untracked", "when", "expire_in", "expose_as", "public", "access", "reports"}

// reportTypes are the types of artifacts:reports: those of GitLab's reference, then those that its templates use besides.
var reportTypes = []string{"accessibility", "annotations", "browser_performance", "codequality", "container_scanning", "coverage_report",
	"cyclonedx", "dast", "dependency_scanning", "dotenv", "junit", "license_management", "license_scanning", "load_performance", "lsif",
	"metrics", "repository_xray", "requirements", "sarif", "sast", "secret_detection", "terraform",
	"api_fuzzing", "cluster_image_scanning", "coverage_fuzzing", "performance", "requirements_v2"}

// artifactReader reads `artifacts:`.
type artifactReader struct {
	*values
}

// artifacts reads `artifacts:`.
func (r artifactReader) artifacts(n config.Node) *Artifacts {
	out := &Artifacts{When: when.OnSuccess, Node: n}
	for key, v := range r.fields(n, "artifacts", artifactKeys) {
		name := "artifacts:" + key
		switch key {
		case "paths":
			out.Paths = r.texts(v, name)
		case "exclude":
			out.Exclude = r.texts(v, name)
		case "name":
			out.Name = r.text(v, name)
		case "untracked":
			out.Untracked = r.boolean(v, name)
		case "when":
			out.When = r.outcome(v, name)
		case "expire_in":
			out.ExpireIn, _ = r.duration(v, name, period{never: true})
		case "expose_as":
			out.ExposeAs = r.exposeAs(v, n)
		case "public":
			out.Public = r.flag(v, name)
		case "access":
			out.Access = r.choice(v, name, "all", "developer", "maintainer", "none")
		case "reports":
			out.Reports = r.reports(v)
		}
	}
	_, public := n.Entry("public")
	if key, access := n.Entry("access"); !access.IsNull() && !public.IsNull() {
		r.report(key, "keep `access:`: `public: false` is `access: developer`", "`artifacts:access` and `artifacts:public` exclude each other")
	}
	return out
}

// exposeAs reads the name under which a merge request shows the paths, which therefore have to be paths and no patterns.
func (r artifactReader) exposeAs(n, artifacts config.Node) string {
	text := r.text(n, "artifacts:expose_as")
	if n.Kind() != yamlsource.String {
		return ""
	}
	switch {
	case len([]rune(text)) > MaxExposeAs:
		r.report(n, "shorten it", "`artifacts:expose_as` is longer than %d characters, which is the limit", MaxExposeAs)
	case !isLabel(text):
		r.report(n, "use letters, digits, -, _ and spaces, not starting with a space or -", "`artifacts:expose_as` cannot be %q", shorten(text))
	}
	paths := artifacts.Get("paths")
	if paths.IsNull() || paths.Len() == 0 {
		r.report(n, "add `paths:`", "`artifacts:expose_as` shows the paths, but there are none")
	}
	for _, it := range paths.Items() {
		if strings.Contains(it.Text(), "*") {
			r.report(it, "name the file or folder itself", "with `artifacts:expose_as`, a path cannot have a *")
		}
	}
	return text
}

func isLabel(text string) bool {
	for i, c := range text {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_':
		case i > 0 && (c == '-' || c == ' '):
		default:
			return false
		}
	}
	return text != ""
}

// reports reads artifacts:reports.
func (r artifactReader) reports(n config.Node) []Report {
	if n.Kind() == yamlsource.Mapping {
		if key, v := n.Entry("cobertura"); !v.IsNull() {
			r.report(key, "write `coverage_report: {coverage_format: cobertura, path: …}`", "GitLab no longer has `artifacts:reports:cobertura`")
			return nil
		}
	}
	var out []Report
	for key, v := range r.fields(n, "artifacts:reports", reportTypes) {
		report := Report{Type: key, Node: v}
		if key == "coverage_report" {
			r.coverageReport(v, &report)
		} else {
			report.Paths = r.textOrTexts(v, "artifacts:reports:"+key)
		}
		out = append(out, report)
	}
	return out
}

func (r artifactReader) coverageReport(n config.Node, out *Report) {
	const name = "artifacts:reports:coverage_report"
	for key, v := range r.fields(n, name, []string{"coverage_format", "path"}) {
		if key == "path" {
			out.Paths = []string{r.filled(v, name+":path")}
		} else {
			out.Format = r.choice(v, name+":coverage_format", "cobertura", "jacoco")
		}
	}
	for _, key := range []string{"coverage_format", "path"} {
		if n.Kind() == yamlsource.Mapping && n.Get(key).IsNull() {
			r.report(n, "add `"+key+":`", "`%s` has no %s", name, key)
		}
	}
}
