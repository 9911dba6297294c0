package keyword

import (
	"strings"
	"time"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// MaxEnvironment is how long the name and the URL of an environment may be, in characters.
const MaxEnvironment = 255

var environmentKeys = []string{"name", "url", "action", "on_stop", "auto_stop_in", "deployment_tier", "kubernetes"}

// deliveryReader reads the keywords of what a job delivers: `environment:`, `release:` and `pages:`.
type deliveryReader struct {
	*values
}

// environment reads `environment:`.
func (r deliveryReader) environment(n config.Node) *Environment {
	out := &Environment{Action: "start", Node: n}
	switch n.Kind() {
	case yamlsource.String:
		out.Name = r.environmentName(n, "environment")
		return out
	case yamlsource.Mapping:
	default:
		r.report(n, "write the name of the environment", "`environment` must be a string or a map, not %s", n.Kind())
		return nil
	}
	for key, v := range r.fields(n, "environment", environmentKeys) {
		name := "environment:" + key
		switch key {
		case "name":
			out.Name = r.environmentName(v, name)
		case "url":
			out.URL = r.text(v, name)
			if len([]rune(out.URL)) > MaxEnvironment {
				r.report(v, "shorten it", "`%s` is longer than %d characters, which is the limit", name, MaxEnvironment)
			}
		case "action":
			out.Action = r.choice(v, name, "start", "prepare", "stop", "verify", "access")
		case "on_stop":
			out.OnStop = r.filled(v, name)
		case "auto_stop_in":
			out.AutoStopIn, _ = r.duration(v, name, period{never: true, variables: true})
		case "deployment_tier":
			out.DeploymentTier = r.choice(v, name, "production", "staging", "testing", "development", "other")
		case "kubernetes":
			out.Kubernetes = v
			r.kubernetes(v)
		}
	}
	if n.Get("name").IsNull() {
		r.report(n, "add `name:`", "`environment` has no name")
	}
	return out
}

func (r deliveryReader) environmentName(n config.Node, keyword string) string {
	text := r.filled(n, keyword)
	switch {
	case len([]rune(text)) > MaxEnvironment:
		r.report(n, "shorten it", "the name of the environment is longer than %d characters, which is the limit", MaxEnvironment)
	case strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/"):
		r.report(n, "take the slash off", "the name of an environment neither begins nor ends with a slash")
	case strings.ContainsFunc(text, func(c rune) bool {
		return !(c < 128 && (isLabel(string(c)) || strings.ContainsRune("-/${}. ", c)))
	}):
		r.report(n, "use letters, digits, spaces, and - _ / $ { } .", "%q cannot be the name of an environment", shorten(text))
	}
	return text
}

// kubernetes checks environment:kubernetes.
func (r deliveryReader) kubernetes(n config.Node) {
	const name = "environment:kubernetes"
	for key, v := range r.fields(n, name, []string{"agent", "namespace", "flux_resource_path", "dashboard", "managed_resources"}) {
		switch key {
		case "dashboard":
			for key, v := range r.fields(v, name+":dashboard", []string{"namespace", "flux_resource_path"}) {
				r.text(v, name+":dashboard:"+key)
			}
		case "managed_resources":
			for _, v := range r.fields(v, name+":managed_resources", []string{"enabled"}) {
				r.boolean(v, name+":managed_resources:enabled")
			}
		default:
			r.text(v, name+":"+key)
		}
	}
}

var releaseKeys = []string{"tag_name", "tag_message", "name", "description", "ref", "milestones", "released_at", "assets"}

// release reads `release:`.
func (r deliveryReader) release(n config.Node) *Release {
	out := &Release{Node: n}
	for key, v := range r.fields(n, "release", releaseKeys) {
		name := "release:" + key
		switch key {
		case "tag_name":
			out.TagName = r.filled(v, name)
		case "tag_message":
			out.TagMessage = r.text(v, name)
		case "name":
			out.Name = r.text(v, name)
		case "description":
			out.Description = r.filled(v, name)
		case "ref":
			out.Ref = r.text(v, name)
		case "milestones":
			out.Milestones = r.textOrTexts(v, name)
		case "released_at":
			out.ReleasedAt = r.releasedAt(v)
		case "assets":
			out.Links = r.assets(v)
		}
	}
	for _, key := range []string{"tag_name", "description"} {
		if n.Kind() == yamlsource.Mapping && n.Get(key).IsNull() {
			r.report(n, "add `"+key+":`", "`release` has no %s", key)
		}
	}
	return out
}

func (r deliveryReader) releasedAt(n config.Node) string {
	text := r.text(n, "release:released_at")
	if n.Kind() != yamlsource.String {
		return ""
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04:05 -0700", time.DateOnly} {
		if _, err := time.Parse(layout, text); err == nil {
			return text
		}
	}
	r.report(n, `write it as in "2026-03-15T08:00:00Z"`, "`release:released_at` is not a date of ISO 8601")
	return ""
}

func (r deliveryReader) assets(n config.Node) []ReleaseLink {
	const name = "release:assets:links"
	var out []ReleaseLink
	for _, links := range r.fields(n, "release:assets", []string{"links"}) {
		if links.Kind() != yamlsource.Sequence || links.Len() == 0 {
			r.report(links, "write a list of maps with `name:` and `url:`", "`%s` must be a list of links, not %s", name, listKind(links))
			continue
		}
		for _, it := range links.Items() {
			link := ReleaseLink{}
			for key, v := range r.fields(it, name, []string{"name", "url", "filepath", "link_type"}) {
				switch key {
				case "name":
					link.Name = r.filled(v, name+":name")
				case "url":
					link.URL = r.filled(v, name+":url")
				case "filepath":
					link.FilePath = r.text(v, name+":filepath")
				case "link_type":
					link.LinkType = r.choice(v, name+":link_type", "runbook", "package", "image", "other")
				}
			}
			for _, key := range []string{"name", "url"} {
				if it.Kind() == yamlsource.Mapping && it.Get(key).IsNull() {
					r.report(it, "add `"+key+":`", "a link of `%s` has no %s", name, key)
				}
			}
			out = append(out, link)
		}
	}
	if n.Kind() == yamlsource.Mapping && n.Get("links").IsNull() {
		r.report(n, "add `links:`", "`release:assets` has no links")
	}
	return out
}

// listKind is the kind of a value where a list is wanted that holds something.
func listKind(n config.Node) string {
	if n.Kind() == yamlsource.Sequence {
		return "an empty one"
	}
	return n.Kind().String()
}

// pages reads `pages:` and `publish:` of a job. A job called pages is one even without them.
func (r deliveryReader) pages(j *Job) *Pages {
	n := j.Node.Get("pages")
	publishKey, publish := j.Node.Entry("publish")
	out := &Pages{Node: n}
	is := j.Name == "pages"
	switch {
	case n.IsNull():
	case isBoolean(n):
		is = n.Text() == "true"
	case n.Kind() == yamlsource.Mapping:
		is = true
		for key, v := range r.fields(n, "pages", []string{"publish", "path_prefix", "expire_in"}) {
			switch key {
			case "publish":
				out.Publish = r.filled(v, "pages:publish")
			case "path_prefix":
				out.PathPrefix = r.text(v, "pages:path_prefix")
			case "expire_in":
				out.ExpireIn, _ = r.duration(v, "pages:expire_in", period{never: true, variables: true})
			}
		}
	default:
		r.report(n, "write true, false, or `publish:` under it", "`pages` must be a boolean or a map, not %s", n.Kind())
		return nil
	}
	switch {
	case publish.IsNull():
	case !is:
		r.report(publishKey, "add `pages: true`", "`publish` is for jobs that deploy pages")
	case !n.Get("publish").IsNull():
		r.report(publishKey, "keep `pages:publish`", "`publish` and `pages:publish` exclude each other")
	default:
		out.Publish = r.filled(publish, "publish")
	}
	if !is {
		return nil
	}
	if !n.Exists() {
		out.Node = j.Key
	}
	return out
}
