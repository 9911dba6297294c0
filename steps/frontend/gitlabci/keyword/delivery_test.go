package keyword_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

func TestCache(t *testing.T) {
	of := func(text string) string { return job("cache: " + text) }
	type seen struct {
		Key             keyword.CacheKey
		Paths, Fallback []string
		When, Policy    string
		Flags           []bool
	}
	cache := func(d *keyword.Definition) any {
		var out []seen
		for _, c := range first(d).Cache {
			out = append(out, seen{c.Key, c.Paths, c.FallbackKeys, string(c.When), c.Policy, []bool{c.Untracked, c.Unprotect}})
		}
		return out
	}
	check(t, "cache", []accepts{
		{"a map", of("{paths: [a]}"), cache, []seen{{keyword.CacheKey{}, []string{"a"}, nil, "on_success", "pull-push", []bool{false, false}}}},
		{
			"all keys", of("{key: $CI_COMMIT_REF_SLUG, paths: [a], untracked: true, unprotect: true, when: always, policy: pull, fallback_keys: [b, c]}"), cache,
			[]seen{{keyword.CacheKey{Text: "$CI_COMMIT_REF_SLUG"}, []string{"a"}, []string{"b", "c"}, "always", "pull", []bool{true, true}}},
		},
		{"a list of four", of("[{paths: [a]}, {paths: [b]}, {paths: [c]}, {paths: [d]}]"), func(d *keyword.Definition) any { return len(first(d).Cache) }, 4},
		{"a key of files", of("{key: {files: [a, b], prefix: $CI_JOB_NAME}, paths: [x]}"), func(d *keyword.Definition) any { return first(d).Cache[0].Key }, keyword.CacheKey{Files: []string{"a", "b"}, Prefix: "$CI_JOB_NAME"}},
		{"a key of commits", of("{key: {files_commits: [a]}, paths: [x]}"), func(d *keyword.Definition) any { return first(d).Cache[0].Key }, keyword.CacheKey{FilesCommits: []string{"a"}}},
		{"a policy with variables", of("{policy: $POLICY}"), func(d *keyword.Definition) any { return first(d).Cache[0].Policy }, "$POLICY"},
		{"an empty map, which takes the default away", "default: {cache: {paths: [a]}}\n" + of("{}"), cache, []seen(nil)},
	}, []refuses{
		{"five", of("[{paths: [a]}, {paths: [b]}, {paths: [c]}, {paths: [d]}, {paths: [e]}]"), "3:10: a job can have at most 4 caches, not 5"},
		{"a text", of("vendor"), "`cache` must be a map or a list of maps, not a string"},
		{"paths that are a text", of("{paths: vendor}"), "`cache:paths` must be a list of strings, not a string"},
		{"a key with a slash", of("{key: a/b}"), "`cache:key` cannot have a slash"},
		{"a key with an escaped slash", of("{key: a%2Fb}"), "`cache:key` cannot have a slash"},
		{"a key of dots", of("{key: ..}"), "`cache:key` cannot be \"..\""},
		{"a key that is a number", of("{key: 1}"), "`cache:key` must be a string, not a number\n  hint: put quotes around it"},
		{"a key of three files", of("{key: {files: [a, b, c]}}"), "`cache:key:files` has 3 items, and the limit is 2"},
		{"a key of no file", of("{key: {files: []}}"), "`cache:key:files` is empty"},
		{"a key with a prefix only", of("{key: {prefix: a}}"), "`cache:key` has neither files nor files_commits"},
		{"a key of files and commits", of("{key: {files: [a], files_commits: [b]}}"), "`cache:key:files` and `cache:key:files_commits` exclude each other"},
		{"six fallback keys", of("{fallback_keys: [a, b, c, d, e, f]}"), "`cache:fallback_keys` has 6 items, and the limit is 5"},
		{"another policy", of("{policy: pul}"), "`cache:policy` cannot be \"pul\"\n  hint: did you mean \"pull\"?"},
		{"another moment", of("{when: manual}"), "`cache:when` cannot be \"manual\""},
		{"an untracked that is a text", of("{untracked: yes please}"), "`cache:untracked` must be a boolean"},
		{"another key", of("{path: [a]}"), "`cache` has no key \"path\"\n  hint: did you mean \"paths\"?"},
	})
}

func TestArtifacts(t *testing.T) {
	of := func(text string) string { return job("artifacts: " + text) }
	reports := func(d *keyword.Definition) any {
		var out []string
		for _, r := range first(d).Artifacts.Reports {
			out = append(out, strings.TrimSpace(r.Type+" "+strings.Join(r.Paths, " ")+" "+r.Format))
		}
		return out
	}
	good := []accepts{
		{
			"everything", of("{paths: [a], exclude: [b], name: n, untracked: true, when: always, expire_in: 1 week, expose_as: 'Test results', access: developer}"),
			func(d *keyword.Definition) any {
				a := first(d).Artifacts
				return []any{a.Paths, a.Exclude, a.Name, a.Untracked, string(a.When), a.ExpireIn, a.ExposeAs, a.Access, a.Public == nil}
			},
			[]any{[]string{"a"}, []string{"b"}, "n", true, "always", "1 week", "Test results", "developer", true},
		},
		{"public: false", of("{paths: [a], public: false}"), func(d *keyword.Definition) any { return *first(d).Artifacts.Public }, false},
		{"paths that never expire", of("{paths: [a], expire_in: never}"), func(d *keyword.Definition) any { return first(d).Artifacts.ExpireIn }, "never"},
		{"a coverage report", of("{reports: {coverage_report: {coverage_format: cobertura, path: c.xml}}}"), reports, []string{"coverage_report c.xml cobertura"}},
		{"several paths of a report", of("{reports: {junit: [a.xml, b/*.xml], dotenv: build.env}}"), reports, []string{"junit a.xml b/*.xml", "dotenv build.env"}},
	}
	for _, report := range keyword.ReportTypes {
		if report != "coverage_report" {
			good = append(good, accepts{"the report " + report, of("{reports: {" + report + ": a.json}}"), reports, []string{report + " a.json"}})
		}
	}
	check(t, "artifacts", good, []refuses{
		{"a list", of("[a]"), "3:14: `artifacts` must be a map, not a list"},
		{"paths that are a text", of("{paths: a}"), "`artifacts:paths` must be a list of strings, not a string"},
		{"public and access", of("{paths: [a], public: true, access: all}"), "`artifacts:access` and `artifacts:public` exclude each other"},
		{"another access", of("{access: everybody}"), "`artifacts:access` cannot be \"everybody\""},
		{"a name for no paths", of("{expose_as: a}"), "`artifacts:expose_as` shows the paths, but there are none"},
		{"a name for patterns", of("{expose_as: a, paths: ['*.txt']}"), "with `artifacts:expose_as`, a path cannot have a *"},
		{"a name with other characters", of("{expose_as: a/b, paths: [c]}"), "`artifacts:expose_as` cannot be \"a/b\""},
		{"a name that is too long", of("{expose_as: " + strings.Repeat("a", 101) + ", paths: [c]}"), "`artifacts:expose_as` is longer than 100 characters"},
		{"a time without sense", of("{expire_in: someday}"), "`artifacts:expire_in`: \"someday\" is not a unit of time"},
		{"a time that is a number", of("{expire_in: 3600}"), "`artifacts:expire_in` must be a duration, not a number"},
		{"another moment", of("{when: manual}"), "`artifacts:when` cannot be \"manual\""},
		{"another report", of("{reports: {junt: a}}"), "`artifacts:reports` has no key \"junt\"\n  hint: did you mean \"junit\"?"},
		{"a report that is no more", of("{reports: {cobertura: a}}"), "GitLab no longer has `artifacts:reports:cobertura`"},
		{"a report that is a map", of("{reports: {junit: {path: a}}}"), "`artifacts:reports:junit` must be a string or a list of strings, not a map"},
		{"a coverage report that is a text", of("{reports: {coverage_report: a.xml}}"), "`artifacts:reports:coverage_report` must be a map, not a string"},
		{"a coverage report without a format", of("{reports: {coverage_report: {path: a}}}"), "`artifacts:reports:coverage_report` has no coverage_format"},
		{"a coverage report of another format", of("{reports: {coverage_report: {path: a, coverage_format: lcov}}}"), "`artifacts:reports:coverage_report:coverage_format` cannot be \"lcov\""},
		{"a public that is a text", of("{public: 'no'}"), "`artifacts:public` must be a boolean"},
	})
}

func TestCoverage(t *testing.T) {
	coverage := func(d *keyword.Definition) any { return first(d).Coverage }
	check(t, "coverage", []accepts{
		{"a pattern", job(`coverage: '/Coverage: (\d+\.\d+)%/'`), coverage, `/Coverage: (\d+\.\d+)%/`},
		{"a pattern with a flag", job("coverage: /total/i"), coverage, "/total/i"},
	}, []refuses{
		{"a pattern without slashes", job("coverage: total"), "3:13: `coverage` is a pattern between slashes\n  hint: put slashes around it: '/total/'"},
		{"a pattern that RE2 does not know", job("coverage: '/(?=a)/'"), "`coverage`: "},
		{"a list", job("coverage: [/a/]"), "`coverage` must be a string, not a list"},
	})
}

func TestEnvironment(t *testing.T) {
	of := func(text string) string { return job("environment: " + text) }
	stop := func(environment string) string {
		return of("{name: prod, on_stop: stop}") + "stop:\n  script: x\n  when: manual\n" + environment
	}
	check(t, "environment", []accepts{
		{"a name", of("review/$CI_COMMIT_REF_SLUG"), func(d *keyword.Definition) any {
			return []string{first(d).Environment.Name, first(d).Environment.Action}
		}, []string{"review/$CI_COMMIT_REF_SLUG", "start"}},
		{
			"a map", of("{name: prod, url: https://x, action: prepare, auto_stop_in: 1 day, deployment_tier: production, kubernetes: {agent: 'g/p:a', namespace: n, dashboard: {namespace: m}, managed_resources: {enabled: true}}}"),
			func(d *keyword.Definition) any {
				e := first(d).Environment
				return []string{e.Name, e.URL, e.Action, e.AutoStopIn, e.DeploymentTier, e.Kubernetes.Get("agent").Text()}
			}, []string{"prod", "https://x", "prepare", "1 day", "production", "g/p:a"},
		},
		{"a job that stops it", stop("  environment: {name: prod, action: stop}\n"), nil, nil},
		{"a time with variables, and never", of("{name: a, auto_stop_in: $DAYS days}") + "b: {script: x, environment: {name: b, auto_stop_in: never}}\n", nil, nil},
	}, []refuses{
		{"a list", of("[prod]"), "`environment` must be a string or a map, not a list"},
		{"an empty name", of("''"), "`environment` is empty"},
		{"a map without a name", of("{url: https://x}"), "`environment` has no name"},
		{"another action", of("{name: a, action: restart}"), "`environment:action` cannot be \"restart\"\n  hint: did you mean \"start\"?"},
		{"another tier", of("{name: a, deployment_tier: test}"), "`environment:deployment_tier` cannot be \"test\""},
		{"a name with other characters", of("'a:b'"), "\"a:b\" cannot be the name of an environment"},
		{"a name that begins with a slash", of("/a"), "the name of an environment neither begins nor ends with a slash"},
		{"a URL that is too long", of("{name: a, url: " + strings.Repeat("u", 256) + "}"), "`environment:url` is longer than 255 characters"},
		{"a time without sense", of("{name: a, auto_stop_in: later}"), "`environment:auto_stop_in`: \"later\" is not a unit of time"},
		{"a stop job that does not exist", of("{name: a, on_stop: stopp}") + "stop: {script: x}\n", "the job of `on_stop` \"stopp\" does not exist\n  hint: did you mean \"stop\"?"},
		{"a stop job without an environment", stop(""), "the job \"stop\", which should stop the environment, has no environment"},
		{"a stop job of another environment", stop("  environment: {name: test, action: stop}\n"), "the job \"stop\" stops the environment \"test\", not \"prod\""},
		{"a stop job that starts", stop("  environment: {name: prod}\n"), "the job \"stop\" has the environment and does not stop it"},
		{"a cluster that is a text", of("{name: a, kubernetes: b}"), "`environment:kubernetes` must be a map, not a string"},
	})
}

func TestRelease(t *testing.T) {
	of := func(text string) string { return job("release: " + text) }
	check(t, "release", []accepts{
		{"a tag and a description", of("{tag_name: $CI_COMMIT_TAG, description: d}"), func(d *keyword.Definition) any { return first(d).Release.TagName }, "$CI_COMMIT_TAG"},
		{
			"everything", of("{tag_name: t, tag_message: m, name: n, description: d, ref: r, milestones: [a, b], released_at: '2026-03-15T08:00:00Z', assets: {links: [{name: l, url: u, filepath: /f, link_type: other}]}}"),
			func(d *keyword.Definition) any {
				r := first(d).Release
				return []any{r.TagMessage, r.Name, r.Ref, r.Milestones, r.ReleasedAt, r.Links}
			},
			[]any{"m", "n", "r", []string{"a", "b"}, "2026-03-15T08:00:00Z", []keyword.ReleaseLink{{Name: "l", URL: "u", FilePath: "/f", LinkType: "other"}}},
		},
	}, []refuses{
		{"no tag", of("{description: d}"), "`release` has no tag_name"},
		{"no description", of("{tag_name: t}"), "`release` has no description"},
		{"a text", of("v1"), "`release` must be a map, not a string"},
		{"a date without sense", of("{tag_name: t, description: d, released_at: tomorrow}"), "`release:released_at` is not a date of ISO 8601"},
		{"a link without a URL", of("{tag_name: t, description: d, assets: {links: [{name: a}]}}"), "a link of `release:assets:links` has no url"},
		{"no links", of("{tag_name: t, description: d, assets: {links: []}}"), "`release:assets:links` must be a list of links, not an empty one"},
		{"assets without links", of("{tag_name: t, description: d, assets: {}}"), "`release:assets` has no links"},
		{"another type of link", of("{tag_name: t, description: d, assets: {links: [{name: a, url: b, link_type: c}]}}"), "`release:assets:links:link_type` cannot be \"c\""},
	})
}

func TestPages(t *testing.T) {
	pages := func(d *keyword.Definition) any {
		p := first(d).Pages
		if p == nil {
			return "none"
		}
		return p.Publish + "|" + p.PathPrefix + "|" + p.ExpireIn
	}
	check(t, "pages", []accepts{
		{"a job of that name", "pages: {script: make}\n", pages, "||"},
		{"a job of that name that is none", "pages: {script: make, pages: false}\n", pages, "none"},
		{"true", job("pages: true"), pages, "||"},
		{"a map", job("pages: {publish: site, path_prefix: $CI_COMMIT_REF_SLUG, expire_in: never}"), pages, "site|$CI_COMMIT_REF_SLUG|never"},
		{"nothing", someJob, pages, "none"},
	}, []refuses{
		{"a text", job("pages: public"), "`pages` must be a boolean or a map, not a string"},
		{"another key", job("pages: {path: a}"), "`pages` has no key \"path\""},
		{"a time without sense", job("pages: {expire_in: later}"), "`pages:expire_in`: \"later\" is not a unit of time"},
		{"a folder that is a list", job("pages: {publish: [a]}"), "`pages:publish` must be a string, not a list"},
	})
}

func TestPublish(t *testing.T) {
	publish := func(d *keyword.Definition) any { return first(d).Pages.Publish }
	check(t, "publish", []accepts{
		{"a folder of the job pages", "pages: {script: make, publish: site}\n", publish, "site"},
		{"a folder of a job with pages", job("pages: true\npublish: site"), publish, "site"},
	}, []refuses{
		{"another job", job("publish: site"), "3:3: `publish` is for jobs that deploy pages"},
		{"pages:publish besides", job("pages: {publish: a}\npublish: b"), "4:3: `publish` and `pages:publish` exclude each other"},
		{"a list", "pages: {script: make, publish: [site]}\n", "`publish` must be a string, not a list"},
	})
}
