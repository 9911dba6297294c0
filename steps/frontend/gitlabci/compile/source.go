package compile

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// sources appends the step that brings the job's files. A job whose files are there has none: to start a process that has nothing to do takes
// long where starting one does.
func (c *compiler) sources() {
	src := c.job.Source
	in := inputs{}
	strategy, submodules := c.strategy(), c.submoduleStrategy()
	switch {
	case src.None:
		if strategy == "clone" || strategy == "empty" {
			c.note("GIT_STRATEGY is %s; ignored: the job runs in the folder as it is", strategy)
		}
		return
	case strategy == "none":
		s := c.call("get_sources", "git/checkout", nil) // without a process: the log says that it was skipped, and why
		s.Title, s.If = "get_sources (GIT_STRATEGY is none)", &plan.Field{Value: value.OfString("false")}
		return
	case strategy == "empty":
		in.add("strategy", value.OfString(strategy))
	case src.WorkTree != "":
		c.addText(in, "work_tree", src.WorkTree)
		c.addText(in, "excludes_file", src.Excludes)
		c.addText(in, "submodules", submodules)
	default:
		c.repository(in, src)
		if strategy == "clone" || strategy == "" && !src.AllowFetch {
			in.add("strategy", value.OfString("clone"))
		}
		c.gitOptions(in, src)
		if submodules != "" {
			c.submodules(in, src, submodules)
		}
	}
	s := c.call("get_sources", "git/checkout", in)
	if _, ok := in["url"]; ok {
		s.Env = c.some(forGit)
		s.Timeout = plan.Duration(src.Timeout)
	}
}

// strategy reads GIT_STRATEGY; "" when it is not set.
func (c *settings) strategy() string {
	text, _ := c.setting("GIT_STRATEGY")
	if text != "" && !slices.Contains([]string{"fetch", "clone", "none", "empty"}, text) {
		c.fail("GIT_STRATEGY is %q, and can be fetch, clone, none or empty", text)
	}
	return text
}

// repository gives what is fetched, and the way in. A password in an address is taken out of it.
func (c *compiler) repository(in inputs, src Source) {
	address, token := src.URL, src.Token
	if u, err := url.Parse(src.URL); err == nil && u.User != nil && u.Host != "" {
		if password, ok := u.User.Password(); ok {
			if token == "" {
				token = password
			}
			if name := u.User.Username(); name != "" && name != "gitlab-ci-token" {
				c.addText(in, "username", name)
			}
			u.User = nil
			address = u.String()
		}
	}
	c.addText(in, "url", address)
	c.certified(in, address)
	if token != "" {
		in["token"] = c.secret("SOURCE_TOKEN", token)
	}
	c.addText(in, "ref", src.Ref)
	c.addText(in, "sha", src.SHA)
	c.addTexts(in, "refspecs", src.Refspecs)
	if src.ObjectFormat != "" && src.ObjectFormat != "sha1" {
		c.addText(in, "object_format", src.ObjectFormat)
	}
}

func (c *compiler) gitOptions(in inputs, src Source) {
	if !c.flag("GIT_CHECKOUT", true) {
		in.add("checkout", value.OfBool(false))
	}
	in.number("depth", int64(c.count("GIT_DEPTH", src.Depth)), 0)
	c.flags(in, "clean_flags", "GIT_CLEAN_FLAGS", "-ffdx")
	c.flags(in, "fetch_flags", "GIT_FETCH_EXTRA_FLAGS", "--prune --quiet")
	c.flags(in, "clone_flags", "GIT_CLONE_EXTRA_FLAGS", "")
	in.yes("lfs_skip_smudge", c.flag("GIT_LFS_SKIP_SMUDGE", false))
	in.number("attempts", int64(c.attempts("GET_SOURCES_ATTEMPTS")), 1)
	if src.KeepConfig {
		in.add("clean_config", value.OfBool(false))
	}
	in.yes("safe_directory", src.Trusted)
}

// submoduleStrategy reads GIT_SUBMODULE_STRATEGY; "" when it asks for no submodules.
func (c *settings) submoduleStrategy() string {
	switch strategy, _ := c.setting("GIT_SUBMODULE_STRATEGY"); strategy {
	case "", "none":
		return ""
	case "normal", "recursive":
		return strategy
	default:
		c.fail("GIT_SUBMODULE_STRATEGY is %q, and can be none, normal or recursive", strategy)
		return ""
	}
}

func (c *compiler) submodules(in inputs, src Source, strategy string) {
	in.add("submodules", value.OfString(strategy))
	c.flags(in, "submodule_paths", "GIT_SUBMODULE_PATHS", "")
	in.number("submodule_depth", int64(c.count("GIT_SUBMODULE_DEPTH", c.count("GIT_DEPTH", src.Depth))), 0)
	c.flags(in, "submodule_update_flags", "GIT_SUBMODULE_UPDATE_FLAGS", "")
	in.yes("submodule_force_https", c.flag("GIT_SUBMODULE_FORCE_HTTPS", false))
}

// flags reads a variable that holds arguments with spaces between them. The word none stands for no arguments.
func (c *settings) flags(in inputs, input, name, byDefault string) {
	text, ok := c.setting(name)
	switch {
	case !ok || text == byDefault:
	case text == "none":
		if byDefault != "" {
			in.add(input, value.OfArray(nil))
		}
	default:
		in.add(input, c.texts(arguments(text)))
	}
}

// arguments takes a text apart at spaces that are not in quotes.
func arguments(text string) []string {
	var all []string
	var b strings.Builder
	quote, begun := rune(0), false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && unicode.IsSpace(r):
			if begun {
				all = append(all, b.String())
			}
			b.Reset()
			begun = false
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	if begun {
		all = append(all, b.String())
	}
	return all
}

// runnersOwn are the GIT_ variables that gitlab-runner reads. All other ones are Git's.
var runnersOwn = []string{
	"GIT_STRATEGY", "GIT_CHECKOUT", "GIT_DEPTH", "GIT_CLEAN_FLAGS", "GIT_FETCH_EXTRA_FLAGS", "GIT_CLONE_EXTRA_FLAGS", "GIT_CLONE_PATH",
	"GIT_SUBMODULE_STRATEGY", "GIT_SUBMODULE_PATHS", "GIT_SUBMODULE_DEPTH", "GIT_SUBMODULE_UPDATE_FLAGS", "GIT_SUBMODULE_FORCE_HTTPS", "GIT_LFS_SKIP_SMUDGE",
}

// forGit reports whether a variable is one that git reads itself, such as GIT_SSL_NO_VERIFY.
func forGit(name string) bool {
	return strings.HasPrefix(name, "GIT_") && !slices.Contains(runnersOwn, name) || slices.Contains(networkNames, strings.ToUpper(name))
}

// gitSettings holds settings for git, as `git -c` hands them to the programs that it starts. Unlike GIT_CONFIG_COUNT, every git reads it, it leaves those
// of a job and an image alone, and it needs no variable that is empty.
const gitSettings = "GIT_CONFIG_PARAMETERS"

// gitHelper logs git in as the job. It is text for the shell that git brings along, without single quotes, and holds no token.
const gitHelper = `!f() { test "$1" = get && test "$CI_JOB_TOKEN" && printf "username=gitlab-ci-token\npassword=%s\n" "$CI_JOB_TOKEN"; }; f`

// gitLogin are the settings of git in the job's own commands: at the server of the repository and at GitLab, and nowhere else, it has the job's token. Other
// helpers are not asked there: they would keep the token. Empty is none.
func (c *compiler) gitLogin() string {
	_, own := c.vars.Get(gitSettings)
	if _, has := c.setting("CI_JOB_TOKEN"); own || !has || c.job.Source.URL == "" { // as in local runs, where the token opens nothing
		return ""
	}
	var settings []string
	gitlab, _ := c.setting("CI_SERVER_URL")
	for _, address := range []string{c.job.Source.URL, gitlab} {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(u.Host, "'=") {
			continue
		}
		key := "credential." + u.Scheme + "://" + u.Host + ".helper="
		if reset := "'" + key + "'"; !slices.Contains(settings, reset) {
			settings = append(settings, reset, "'"+key+gitHelper+"'")
		}
	}
	return strings.Join(settings, " ")
}

// secrets appends a step for each secret of a vault.
func (c *compiler) secrets() {
	for _, s := range c.job.Secrets {
		if !isVariable(s.Name) {
			c.note("the secret %q is not given to the steps: no shell takes that name", s.Name)
			continue
		}
		c.noteReferences(s.Name)
		in := inputs{}
		c.addText(in, "server", c.expanded("the vault's address", s.Server))
		c.addText(in, "namespace", c.expanded("the vault's namespace", s.Namespace))
		in["jwt"] = c.secret("VAULT_TOKEN", c.expanded("the vault's token", s.JWT))
		for _, part := range []struct{ input, text, byDefault string }{
			{"auth_path", s.AuthPath, "jwt"}, {"role", s.Role, ""}, {"engine", s.Engine, "kv-v2"}, {"engine_path", s.EnginePath, "kv-v2"},
			{"path", s.Path, ""}, {"field", s.Field, ""},
		} {
			if text := c.expanded("the secret "+s.Name, part.text); text != part.byDefault {
				c.addText(in, part.input, text)
			}
		}
		if s.File {
			if c.temp == "" {
				c.fail("the secret %s is a file, and there is no folder for it", s.Name)
			}
			in.yes("file", true)
			c.addText(in, "folder", c.temp)
		}
		c.addText(in, "name", s.Name)
		step := c.call("secret_"+s.Name, "secrets/vault", in)
		step.Env = c.network()
	}
}

// noteReferences says which variables are meant to have a secret in them: they are expanded before it is read.
func (c *compiler) noteReferences(secret string) {
	if c.job.Variables == nil {
		return
	}
	for _, v := range c.job.Variables.Effective() {
		if !v.Raw && v.Name != secret && slices.Contains(variable.References(v.Value), secret) {
			c.note("the variable %s refers to the secret %s and does not get its value, which is read later; use $%s in the script", v.Name, secret, secret)
		}
	}
}

// release appends the step that makes a release.
func (c *compiler) release() {
	if len(c.job.ReleaseScript) > 0 {
		c.lines("release", c.job.ReleaseScript, nil)
	}
	r := c.job.Release
	if r == nil {
		return
	}
	in := inputs{}
	for _, part := range []struct{ input, text string }{
		{"tag_name", r.TagName}, {"tag_message", r.TagMessage}, {"name", r.Name}, {"description", r.Description}, {"ref", r.Ref},
		{"released_at", r.ReleasedAt}, {"api_url", r.APIURL}, {"project", r.Project},
	} {
		c.addText(in, part.input, c.expanded("release", part.text))
	}
	c.addTexts(in, "milestones", c.patterns("release:milestones", r.Milestones))
	c.addText(in, "record", r.Record)
	if r.Token != "" {
		in["token"] = c.secret("RELEASE_TOKEN", r.Token)
	}
	if len(r.Links) > 0 {
		links := make([]value.Value, len(r.Links))
		for i, l := range r.Links {
			fields := map[string]value.Value{}
			for name, text := range map[string]string{"name": l.Name, "url": l.URL, "filepath": l.FilePath, "link_type": l.LinkType} {
				if text != "" {
					fields[name] = c.text(c.expanded("release:assets", text))
				}
			}
			links[i] = value.OfStruct(fields)
		}
		in.add("assets", value.OfArray(links))
	}
	s := c.call("release", "release", in)
	if r.Record != "" {
		c.results.Release = &RecordedRelease{Step: s.Name, Tag: c.expanded("release", r.TagName)}
	}
	if r.APIURL != "" {
		s.Env = c.network()
	}
}

// pages appends the step that publishes pages.
func (c *compiler) pages() {
	p := c.job.Pages
	if p == nil {
		return
	}
	if p.Location == "" {
		c.note("the pages are not published: there is no folder for them")
		return
	}
	in := inputs{}
	if publish := c.expanded("pages:publish", p.Publish); publish != "public" {
		c.addText(in, "publish", publish)
	}
	c.addText(in, "location", p.Location)
	prefix := c.expanded("pages:path_prefix", p.PathPrefix)
	c.addText(in, "path_prefix", prefix)
	c.addText(in, "expire_in", c.expanded("pages:expire_in", p.ExpireIn))
	s := c.call("pages", "pages", in)
	c.results.Pages = &PublishedPages{Step: s.Name, PathPrefix: prefix}
}
