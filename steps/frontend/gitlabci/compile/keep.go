package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// levels are those that archives can be compressed with.
var levels = []string{"fastest", "fast", "default", "slow", "slowest"}

// keptCache is a cache whose texts are expanded.
type keptCache struct {
	*Cache
	key        string // "" when it cannot be used
	hashed     bool   // keys are hashes
	candidates []cachekey.Candidate
	pull, push bool
	files      []string
}

// caches are the job's caches that hold anything.
func (c *compiler) caches() []keptCache {
	var kept []keptCache
	for i := range c.job.Cache {
		cache := &c.job.Cache[i]
		k := keptCache{Cache: cache, files: c.patterns("cache:paths", cache.Paths)}
		if len(k.files) == 0 && !cache.Untracked {
			continue
		}
		switch policy := c.expanded("cache:policy", cache.Policy); policy {
		case "", "pull-push":
			k.pull, k.push = true, true
		case "pull":
			k.pull = true
		case "push":
			k.push = true
		default:
			c.fail("cache:policy is %q, and can be pull-push, pull or push", policy)
			continue
		}
		c.keys(&k)
		kept = append(kept, k)
	}
	return kept
}

// keys finds out the keys of a cache, the first of which is its own.
func (c *compiler) keys(k *keptCache) {
	raw := c.expanded("cache:key", k.Key)
	if raw == "" {
		raw = cachekey.Default(c.job.Name, c.job.Source.Ref)
	}
	fallbacks := c.patterns("cache:fallback_keys", k.FallbackKeys)
	global, _ := c.setting("CACHE_FALLBACK_KEY")
	var problems []error
	k.candidates, problems = cachekey.Candidates(raw, fallbacks, global)
	for _, p := range problems {
		c.note("%v", p)
	}
	if c.vars.Bool("FF_HASH_CACHE_KEYS") {
		k.hashed = true
		for i := range k.candidates {
			k.candidates[i].Key = cachekey.Hash(k.candidates[i].Raw)
		}
	}
	if len(k.candidates) > 0 && !k.candidates[0].Fallback {
		k.key = k.candidates[0].Key
	}
}

// location gives the place of a cache.
func (c *compiler) location(in inputs, k *keptCache) (secrets map[string]string) {
	if k.Store != nil {
		return nil
	}
	c.addText(in, "location", k.Location)
	for _, name := range k.Secrets {
		if secrets == nil {
			secrets = map[string]string{}
		}
		secrets[name] = name
	}
	return secrets
}

func (c *compiler) restoreCaches() {
	attempts := c.attempts("RESTORE_CACHE_ATTEMPTS")
	for _, k := range c.kept {
		if !k.pull || len(k.candidates) == 0 {
			continue
		}
		in := inputs{}
		c.addText(in, "key", k.candidates[0].Key)
		var fallbacks []string
		for _, candidate := range k.candidates[1:] {
			fallbacks = append(fallbacks, candidate.Key)
		}
		c.addTexts(in, "fallback_keys", fallbacks)
		secrets := c.location(in, &k)
		if k.Store != nil {
			urls := k.addresses(c)
			if len(urls) == 0 {
				continue
			}
			in.add("urls", value.OfStruct(urls))
		}
		for _, candidate := range k.candidates {
			if k.Store == nil && !slices.Contains(c.results.Restored, candidate.Key) {
				c.results.Restored = append(c.results.Restored, candidate.Key)
			}
		}
		s := c.call("restore_cache", "cache/restore", in)
		s.Secrets = secrets
		if attempts > 1 {
			s.Retry = &plan.Retry{Max: attempts - 1}
		}
		if _, local := in["location"]; !local || strings.Contains(k.Location, "://") {
			s.Env = c.network()
		}
	}
}

// saveCaches appends the steps that keep caches. None of them fails the job.
func (c *compiler) saveCaches() {
	for _, k := range c.kept {
		if !k.push || k.key == "" {
			continue
		}
		in := inputs{}
		c.addText(in, "key", k.key)
		c.addTexts(in, "paths", k.files)
		in.yes("untracked", k.Untracked)
		secrets := c.location(in, &k)
		if k.Store != nil && !k.destination(c, in) {
			continue
		}
		c.addText(in, "format", c.choice("CACHE_COMPRESSION_FORMAT", "zip", "zip", "zipzstd", "tarzstd"))
		c.addText(in, "level", c.choice("CACHE_COMPRESSION_LEVEL", "default", levels...))
		s := c.call("save_cache", "cache/save", in)
		if k.Store == nil {
			c.results.Saved = append(c.results.Saved, SavedCache{Step: s.Name, Key: k.key})
		}
		s.Secrets, s.AllowFailure = secrets, &plan.AllowFailure{}
		c.condition(s, "cache", k.When)
		if _, local := in["location"]; !local || strings.Contains(k.Location, "://") {
			s.Env = c.network()
		}
	}
}

// downloadArtifacts appends the one step that brings what other jobs made.
func (c *compiler) downloadArtifacts() {
	if len(c.job.Dependencies) == 0 {
		return
	}
	remote, in := false, inputs{}
	from := make([]value.Value, len(c.job.Dependencies))
	for i, d := range c.job.Dependencies {
		fields := map[string]value.Value{"name": c.text(d.Name)}
		if d.File != "" {
			fields["file"] = c.text(d.File)
		}
		if d.URL != "" {
			remote = true
			c.certified(in, d.URL)
			fields["url"] = c.text(d.URL)
			fields["token"] = c.secret("ARTIFACTS_TOKEN", d.Token).Value
		}
		if d.Optional {
			fields["optional"] = value.OfBool(true)
		}
		from[i] = value.OfStruct(fields)
	}
	in.add("from", value.OfArray(from))
	in.number("attempts", int64(c.attempts("ARTIFACT_DOWNLOAD_ATTEMPTS")), 1)
	s := c.call("download_artifacts", "artifacts/download", in)
	if remote {
		s.Env = c.network()
	}
}

// archive is the type of artifacts that are no report.
const archive = "archive"

// uploadArtifacts appends a step for each archive and report.
func (c *compiler) uploadArtifacts() {
	for i := range c.job.Artifacts {
		a := &c.job.Artifacts[i]
		paths := c.patterns("artifacts:paths", a.Paths)
		if len(paths) == 0 && !a.Untracked {
			continue
		}
		in := inputs{}
		name := c.expanded("artifacts:name", a.Name)
		if name != "artifacts" {
			c.addText(in, "name", name)
		}
		c.addTexts(in, "paths", paths)
		c.addTexts(in, "exclude", c.patterns("artifacts:exclude", a.Exclude))
		in.yes("untracked", a.Untracked)
		step, format := "upload_artifacts", a.Format
		if a.Type != "" && a.Type != archive {
			step = "upload_" + identifier(a.Type)
			c.addText(in, "type", a.Type)
		}
		if format == "" {
			format = ReportFormat(a.Type)
		}
		if format != "zip" {
			c.addText(in, "format", format)
		}
		c.addText(in, "expire_in", a.ExpireIn)
		c.addText(in, "access", a.Access)
		c.addText(in, "location", a.Location)
		c.addText(in, "url", a.URL)
		c.certified(in, a.URL)
		if a.Token != "" {
			in["token"] = c.secret("ARTIFACTS_TOKEN", a.Token)
		}
		in.number("timeout", int64(a.Timeout.Seconds()), 0)
		in.number("response_timeout", int64(a.ResponseTimeout.Seconds()), 0)
		c.addText(in, "level", c.choice("ARTIFACT_COMPRESSION_LEVEL", "default", levels...))
		described := format == "zip" && c.flag("RUNNER_GENERATE_ARTIFACTS_METADATA", false)
		if described {
			in.add("metadata", c.metadata())
		}
		s := c.call(step, "artifacts/upload", in)
		if a.Location != "" {
			c.results.Uploads = append(c.results.Uploads, Upload{Step: s.Name, Name: name, Type: cmp.Or(a.Type, archive), Format: format, Metadata: described})
		}
		c.condition(s, "artifacts", a.When)
		if a.URL != "" {
			s.Env = c.network()
		}
	}
}

// identifier makes a part of a step's name of a word.
func identifier(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, word)
}

// metadata says where an archive is from: names of variables, and no values.
func (c *compiler) metadata() value.Value {
	fields := map[string]value.Value{"entry_point": c.text(c.job.Name)}
	project, _ := c.setting("CI_PROJECT_URL")
	if runner, ok := c.setting("CI_RUNNER_ID"); ok {
		fields["builder"] = c.text(fmt.Sprintf("%s/-/runners/%s", project, runner))
	}
	for field, name := range map[string]string{
		"source": "CI_PROJECT_URL", "job_id": "CI_JOB_ID", "started_on": "CI_JOB_STARTED_AT", "commit": "CI_COMMIT_SHA",
		"runner": "CI_RUNNER_DESCRIPTION", "version": "CI_RUNNER_VERSION",
	} {
		if text, ok := c.setting(name); ok {
			fields[field] = c.text(text)
		}
	}
	var names []string
	for _, v := range c.all {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	fields["variables"] = c.texts(names)
	return value.OfStruct(fields)
}

// dotenv appends the step that reads the variables which a job gives to others. They are outputs of the step; this job's own later
// steps do not get them, as a variable called PATH or LD_PRELOAD would be theirs too. A report that is sent to a GitLab is for that to read: how
// many variables it takes, its plan and its administrator say.
func (c *compiler) dotenv() {
	for i := range c.job.Artifacts {
		a := &c.job.Artifacts[i]
		if a.URL != "" {
			continue
		}
		paths := c.patterns("artifacts:reports:dotenv", a.Paths)
		if a.Type != "dotenv" || len(paths) == 0 {
			continue
		}
		in := inputs{}
		c.addTexts(in, "paths", paths)
		in.add("export", value.OfBool(false))
		s := c.call("dotenv", "dotenv", in)
		c.condition(s, "artifacts", a.When)
	}
}

// rawReports are the reports that GitLab wants as they are; zipReports those that are archives. All others are compressed.
var (
	rawReports = []string{
		"sast", "secret_detection", "dependency_scanning", "container_scanning", "cluster_image_scanning", "dast", "license_scanning",
		"license_management", "accessibility", "codequality", "performance", "browser_performance", "load_performance", "terraform",
		"requirements", "requirements_v2", "coverage_fuzzing", "api_fuzzing",
	}
	zipReports = []string{"", archive, "lsif"}
)

// ReportFormat returns how GitLab wants artifacts of a type: zip, gzip or raw.
func ReportFormat(kind string) string {
	switch {
	case slices.Contains(zipReports, kind):
		return "zip"
	case slices.Contains(rawReports, kind):
		return "raw"
	default:
		return "gzip"
	}
}
