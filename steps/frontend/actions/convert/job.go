package convert

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// job writes a job.
func (c *converter) job(j *workflow.Job) mapping {
	n, s := c.node(j), c.newScope(j)
	var out, matrix mapping
	defaults := s.parallel(&matrix, n.Get("strategy"))
	s = s.with(c.root.Get("env"))
	variables := c.variables(s, n.Get("env"))
	s = s.with(n.Get("env"))
	for _, name := range defaults { // a leg without a value finds the empty one, and not none at all
		if !variables.has(name) {
			variables.add(name, "")
		}
	}
	s.machine(&out, n)
	s.services(&out, n.Get("services"))
	s.needs(&out, n)
	out = append(out, matrix...)
	var steps mapping
	var checkout mapping
	b := &stepsOf{scope: s, job: n, variables: &checkout}
	list := b.list(n.Get("steps"))
	variables = append(variables, checkout...)
	if len(variables) > 0 {
		out.add("variables", variables)
	}
	s.limits(&out, n)
	s.deployment(&out, n)
	list = append(list, b.outputs(c.outputs(j))...)
	if len(b.caches) > 0 {
		out.add("cache", b.caches)
	}
	if artifacts := b.artifacts(); len(artifacts) > 0 {
		out.add("artifacts", artifacts)
	}
	if !slices.ContainsFunc(list, func(item any) bool { _, is := item.(mapping); return is }) {
		list = append(list, mapping{{nil, "name", "nothing"}, {nil, "script", "true"}})
	}
	steps.add("run", list)
	b.tellKeys()
	return append(out, steps...)
}

// variables writes a map of variables.
func (c *converter) variables(s *scope, env *yamlsource.Node) mapping {
	var out mapping
	if env == nil {
		return nil
	}
	for _, e := range env.Entries {
		text, ok := s.dollars(e.Value)
		switch {
		case !ok:
			out.remark(e.Key.Text + ": " + c.note(e.Value.Span, "the variable %s is left out: its value is known only in the job: %s", e.Key.Text, shorten(e.Value.Text)))
		case text == "$"+e.Key.Text:
			out.remark(e.Key.Text + " is a variable of the settings")
		default:
			c.setting(&out, e.Key, text)
		}
	}
	return out
}

// machine writes where a job runs: an image, or tags.
func (s *scope) machine(out *mapping, n *yamlsource.Node) {
	container := n.Get("container")
	image := container
	if container != nil && container.Kind == yamlsource.Mapping {
		image = container.Get("image")
	}
	if image != nil {
		if text, ok := s.dollars(image); ok {
			out.add("image", strings.TrimPrefix(text, "docker://"))
		} else {
			out.remark(s.note(image.Span, "the image is known only in the job: %s", shorten(image.Text)))
		}
	}
	s.without(out, container, "the container")
	runsOn := n.Get("runs-on")
	labels := texts(runsOn)
	if runsOn.Kind == yamlsource.Mapping {
		labels = texts(runsOn.Get("labels"))
		if group := runsOn.Get("group"); group != nil {
			out.remark(s.note(group.Span, "the group of runners %s is left out: give its runners a tag", group.Text))
		}
	}
	var tags list
	for i, label := range labels {
		place := &yamlsource.Node{Kind: yamlsource.String, Text: label, Span: runsOn.Span}
		text, ok := s.dollars(place)
		switch {
		case label == "self-hosted":
		case strings.HasPrefix(label, "ubuntu-") && image != nil: // which says it
		case strings.HasPrefix(label, "ubuntu-"):
			out.remark("runs-on: " + label)
			s.note(runsOn.Span, "%s has no tag: the job takes any runner, and has the tools of its image; add `image:`", label)
		case !ok:
			out.remark(s.note(runsOn.Span, "runs-on: %s is known only in the job", shorten(labels[i])))
		default:
			s.note(runsOn.Span, "runs-on: %s becomes a tag: runners must have it", label)
			tags = append(tags, text)
		}
	}
	if len(tags) > 0 {
		out.add("tags", tags)
	}
}

// without notes what of a container is left out.
func (s *scope) without(out *mapping, n *yamlsource.Node, what string) {
	if n == nil || n.Kind != yamlsource.Mapping {
		return
	}
	for _, left := range [][2]string{
		{"credentials", "create the CI/CD variable DOCKER_AUTH_CONFIG"}, {"volumes", "they are the runner's"}, {"options", "they are the runner's"},
	} {
		if v := n.Get(left[0]); v != nil {
			out.remark(s.note(v.Span, "%s of %s are left out: %s", left[0], what, left[1]))
		}
	}
	if v := n.Get("env"); v != nil && what == "the container" {
		out.remark(s.note(v.Span, "env of the container is left out: move it to the job's"))
	}
}

func (s *scope) services(out *mapping, n *yamlsource.Node) {
	if n == nil {
		return
	}
	var all list
	for _, e := range n.Entries {
		image, ok := s.dollars(e.Value.Get("image"))
		if !ok || image == "" {
			all = append(all, remark(s.note(e.Key.Span, "the service %s is left out: its image is known only in the job", e.Key.Text)))
			continue
		}
		service := mapping{{nil, "name", strings.TrimPrefix(image, "docker://")}, {nil, "alias", e.Key.Text}}
		for _, key := range []string{"entrypoint", "command"} {
			if v := e.Value.Get(key); v != nil {
				var words list
				for _, word := range strings.Fields(v.Text) {
					words = append(words, word)
				}
				service.add(key, words)
			}
		}
		if variables := s.variables(s, e.Value.Get("env")); len(variables) > 0 {
			service.add("variables", variables)
		}
		s.without(&service, e.Value, "the service "+e.Key.Text)
		if ports := e.Value.Get("ports"); ports != nil {
			service.remark(s.note(ports.Span, "ports of the service %s need no mapping: it is reached as %s, not as localhost", e.Key.Text, e.Key.Text))
		}
		all = append(all, service)
	}
	out.add("services", all)
}

// needs writes what a job waits for, and when it runs.
func (s *scope) needs(out *mapping, n *yamlsource.Node) {
	own := s.jobIf(n.Get("if"))
	if own.note != "" {
		out.remark(own.note)
	}
	var needs list
	implied := s.implied(n)
	for _, id := range s.job.Needs {
		if slices.Contains(implied, id) {
			continue
		}
		if !s.isChosen(id) {
			out.remark(s.note(n.Get("needs").Span, "the job %s is not included, so nothing waits for it", id))
			continue
		}
		need := s.w.Job(id)
		if len(s.ruled(need)) > 0 && own.when == "always" {
			needs = append(needs, mapping{{nil, "job", s.jobName(need)}, {nil, "optional", raw("true")}})
			continue
		}
		needs = append(needs, s.jobName(need))
	}
	if len(needs) > 0 {
		out.add("needs", needs)
	}
	conditions := slices.Clone(s.ruled(s.job))
	switch {
	case len(conditions) > 0:
		if len(conditions) > 1 {
			for i, text := range conditions {
				if strings.Contains(text, " || ") {
					conditions[i] = "(" + text + ")"
				}
			}
		}
		rule := mapping{{nil, "if", strings.Join(conditions, " && ")}}
		if own.when != "" {
			rule.add("when", own.when)
		}
		out.add("rules", list{rule})
	case own.when != "":
		out.add("when", own.when)
	}
}

// implied are the jobs in `needs` that may be left out, because there are more than GitLab takes: another one needs them.
func (s *scope) implied(n *yamlsource.Node) (left []string) {
	needs := s.job.Needs
	for i := 0; i < len(needs) && len(needs)-len(left) > keyword.MaxNeeds; i++ {
		if slices.ContainsFunc(needs, func(other string) bool { return slices.Contains(s.w.Ancestors(s.w.Job(other)), s.w.Job(needs[i]).ID) }) {
			left = append(left, needs[i])
		}
	}
	if over := len(needs) - len(left) - keyword.MaxNeeds; over > 0 {
		left = append(left, slices.DeleteFunc(slices.Clone(needs), func(id string) bool { return slices.Contains(left, id) })[:over]...)
		s.note(n.Get("needs").Span, "the job %s does not wait for all of the jobs that it needs: GitLab takes %d", s.job.ID, keyword.MaxNeeds)
	}
	if len(left) > 0 {
		s.note(n.Get("needs").Span, "left out of needs, so their outputs and artifacts are missing: %s", strings.Join(left, ", "))
	}
	return left
}

// ruled are the conditions that a job needs to be in the pipeline: its own, and those of what it needs, without which GitLab would refuse it.
func (c *converter) ruled(j *workflow.Job) []string {
	if known, ok := c.rules[j]; ok {
		return known
	}
	own := c.newScope(j).jobIf(c.node(j).Get("if"))
	var out []string
	if own.when != "always" {
		for _, id := range j.Needs {
			if !c.isChosen(id) {
				continue
			}
			for _, text := range c.ruled(c.w.Job(id)) {
				if !slices.Contains(out, text) {
					out = append(out, text)
				}
			}
		}
	}
	if own.text != "" && !slices.Contains(out, own.text) {
		out = append(out, own.text)
	}
	c.rules[j] = out
	return out
}

// Limits of timeouts, in minutes: GitLab's of a job, and GitHub's of a step.
const (
	maxMinutes     = 30 * 24 * 60
	maxStepMinutes = 360
)

// limits writes what bounds a job.
func (s *scope) limits(out *mapping, n *yamlsource.Node) {
	if t := n.Get("timeout-minutes"); t != nil {
		if minutes, err := strconv.ParseFloat(t.Text, 64); err == nil {
			if minutes > maxMinutes {
				minutes = maxMinutes
				s.note(t.Span, "the timeout is %d minutes: that exceeds GitLab's limit", maxMinutes)
			}
			out.add("timeout", strconv.FormatFloat(minutes, 'f', -1, 64)+" minutes")
		} else {
			out.remark(s.note(t.Span, "the timeout is known only in the job: %s", shorten(t.Text)))
		}
	}
	switch e := n.Get("continue-on-error"); {
	case e == nil || e.Text == "false":
	case e.Text == "true":
		out.add("allow_failure", raw("true"))
	default:
		out.remark(s.note(e.Span, "continue-on-error of a job cannot be computed: a failure counts. %s", shorten(e.Text)))
	}
	c := n.Get("concurrency")
	if c == nil {
		return
	}
	group := c
	if c.Kind == yamlsource.Mapping {
		group = c.Get("group")
	}
	if text, ok := s.dollars(group); ok {
		out.add("resource_group", text)
	} else {
		out.remark(s.note(group.Span, "the concurrency group is known only in the job: %s", shorten(group.Text)))
	}
	if cancels(c) {
		out.add("interruptible", raw("true"), s.note(c.Span, "a newer pipeline of the same branch cancels the job, whatever its group"))
	}
}

// noEnvironment is what the name of an environment cannot hold.
var noEnvironment = lazyregexp.New(`[^a-zA-Z0-9 \-_/${}.]+`)

// deployment writes the environment, and tokens.
func (s *scope) deployment(out *mapping, n *yamlsource.Node) {
	if e := n.Get("environment"); e != nil {
		name, url := e, (*yamlsource.Node)(nil)
		if e.Kind == yamlsource.Mapping {
			name, url = e.Get("name"), e.Get("url")
		}
		if text, ok := s.dollars(name); ok {
			if clean := noEnvironment().ReplaceAllString(text, "-"); clean != text {
				text = clean
				s.note(name.Span, "the environment is called %s here", text)
			}
			environment := mapping{{nil, "name", text}}
			if address, ok := s.dollars(url); ok && url != nil {
				environment.add("url", address)
			} else if url != nil {
				environment.remark(s.note(url.Span, "the address of the environment is known only in the job: %s; write it to a dotenv report", shorten(url.Text)))
			}
			if d := e.Get("deployment"); d != nil && d.Text == "false" {
				environment.add("action", "access")
			}
			out.add("environment", environment)
		} else {
			out.remark(s.note(name.Span, "the environment is known only in the job: %s", shorten(name.Text)))
		}
	}
	permissions := n.Get("permissions")
	if permissions == nil {
		permissions = s.root.Get("permissions")
	}
	if permissions == nil {
		return
	}
	others := permissions.Kind != yamlsource.Mapping
	for _, e := range permissions.Entries {
		if e.Key.Text == "id-token" && e.Value.Text == "write" {
			out.add("id_tokens", mapping{{nil, "GITLAB_OIDC_TOKEN", mapping{{nil, "aud", "$CI_SERVER_URL"}}}},
				s.note(e.Key.Span, "id-token: write becomes the variable GITLAB_OIDC_TOKEN: put its audience into `aud`, and make them trust GitLab's issuer"))
		} else {
			others = true
		}
	}
	if others {
		s.note(permissions.Span, "permissions are left out: what CI_JOB_TOKEN may do is in the project's settings")
	}
}
