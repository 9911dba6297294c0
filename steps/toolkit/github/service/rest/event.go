package rest

import (
	"net/http"
	"strconv"
	"strings"
)

// eventRoutes are the answers about the pull request or the issue that started the job.
func (a *API) eventRoutes() {
	const pulls = "pull-requests:read"
	a.get("/pulls/{number}", pulls, func(r *http.Request) (any, error) { return a.subject(r, "pull_request") })
	paged(a, "/pulls/{number}/files", pulls, func(r *http.Request) ([]changedFile, error) {
		base, head, err := a.pullCommits(r)
		if err != nil {
			return nil, err
		}
		out, err := a.repo.run(r.Context(), "merge-base", base, head)
		if err != nil {
			return nil, notFound("%s and %s have no common commit here; the clone may be shallow", base, head)
		}
		return a.repo.changes(r.Context(), strings.TrimSpace(out), head)
	})
	paged(a, "/pulls/{number}/commits", pulls, func(r *http.Request) ([]map[string]any, error) {
		base, head, err := a.pullCommits(r)
		if err != nil {
			return nil, err
		}
		return a.commits(r.Context(), base+".."+head, maxCommits)
	})
	paged(a, "/pulls", pulls, func(*http.Request) ([]any, error) { return a.pulls(""), nil })
	a.get("/issues/{number}", "issues:read "+pulls, func(r *http.Request) (any, error) {
		if v, err := a.subject(r, "issue"); err == nil {
			return v, nil
		}
		return a.subject(r, "pull_request")
	})
	paged(a, "/issues/{number}/labels", "issues:read "+pulls, func(r *http.Request) ([]any, error) {
		v, err := a.subject(r, "issue")
		if err != nil {
			v, err = a.subject(r, "pull_request")
		}
		labels, _ := v["labels"].([]any)
		return labels, err
	})
}

// subject is what the event is about, when that is the number that is asked for.
func (a *API) subject(r *http.Request, name string) (map[string]any, error) {
	event, err := a.event()
	if err != nil {
		return nil, err
	}
	number := r.PathValue("number")
	v, ok := event[name].(map[string]any)
	if n, isNumber := v["number"].(float64); !ok || !isNumber || strconv.FormatFloat(n, 'f', -1, 64) != number {
		return nil, notFound("only the %s of the event is available here, and number %s is not", strings.ReplaceAll(name, "_", " "), number)
	}
	return v, nil
}

// pulls is the pull request of the event, when its head is a commit, or any is asked for; else nothing.
func (a *API) pulls(sha string) []any {
	event, err := a.event()
	if err != nil {
		return []any{}
	}
	pull, ok := event["pull_request"].(map[string]any)
	if !ok || sha != "" && commitOf(pull, "head") != sha {
		return []any{}
	}
	return []any{pull}
}

func commitOf(pull map[string]any, end string) string {
	v, _ := pull[end].(map[string]any)
	sha, _ := v["sha"].(string)
	return sha
}

// pullCommits are the commits that a pull request is between.
func (a *API) pullCommits(r *http.Request) (base, head string, err error) {
	pull, err := a.subject(r, "pull_request")
	if err != nil {
		return "", "", err
	}
	if base, err = a.repo.resolve(r.Context(), commitOf(pull, "base")); err != nil {
		return "", "", err
	}
	head, err = a.repo.resolve(r.Context(), commitOf(pull, "head"))
	return base, head, err
}
