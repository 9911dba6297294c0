package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/frontend/actions/lockfile"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/credentials"
)

const (
	// gitHubAPI is where GitHub's API is, unless GITHUB_API_URL says something else.
	gitHubAPI = "https://api.github.com"
	// maxAnswer bounds what the API says of a repository, in bytes.
	maxAnswer = 1 << 20
)

// addNumbers asks GitHub for the numbers of the owners and repositories of which they are not known.
func (a *lockCommands) addNumbers(ctx context.Context, rules source.Rules, f *lockfile.File) error {
	type numbers struct{ owner, repository int64 }
	known := map[string]numbers{}
	for _, key := range f.Incomplete() {
		name, _, _ := strings.Cut(key, "@")
		if _, asked := known[name]; !asked {
			owner, repository, err := a.numbersOf(ctx, rules, name)
			if err != nil {
				return exit.Coded(exit.System, "cannot get GitHub's IDs of %s, which its lock file needs: %v", name, source.MaskUserinfo(err.Error())).
					Hinted("set GITHUB_TOKEN to a token that can read it, and GITHUB_API_URL for another server; without --github only steps.lock is written")
			}
			known[name] = numbers{owner, repository}
		}
		d := f.Dependencies[key]
		d.OwnerID, d.RepoID = known[name].owner, known[name].repository
		f.Dependencies[key] = d
	}
	return nil
}

// numbersOf asks GitHub's API about a repository.
func (a *lockCommands) numbersOf(ctx context.Context, rules source.Rules, name string) (owner, repository int64, err error) {
	url := strings.TrimRight(cmp.Or(a.Getenv("GITHUB_API_URL"), gitHubAPI), "/") + "/repos/" + name
	at := &source.Location{Kind: plan.RefArchive, Name: url, URL: url}
	if rules != nil {
		if _, err := rules.Apply(at); err != nil {
			return 0, 0, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL, nil)
	if err != nil {
		return 0, 0, err
	}
	request.Header.Set("Accept", "application/vnd.github+json")
	if token := cmp.Or(at.Access.Password, a.gitHubToken(ctx)); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := at.Access.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("%s answered %s", url, answer.Status)
	}
	var said struct {
		ID       int64  `json:"id"`
		FullName string `json:"full_name"`
		Owner    struct {
			ID int64 `json:"id"`
		} `json:"owner"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&said); err != nil {
		return 0, 0, fmt.Errorf("cannot read the answer of %s: %w", url, err)
	}
	switch {
	case !strings.EqualFold(said.FullName, name):
		return 0, 0, fmt.Errorf("the repository is now called %q, and GitHub does not run actions under the old name: use the new one", said.FullName)
	case said.ID < 1 || said.Owner.ID < 1:
		return 0, 0, errors.New("the answer has no IDs")
	}
	return said.Owner.ID, said.ID, nil
}

// gitHubToken is the user's token for GitHub, "" where there is none: that of the environment, or what git would use.
func (a *lockCommands) gitHubToken(ctx context.Context) string {
	if token := cmp.Or(a.Getenv("GITHUB_TOKEN"), a.Getenv("GH_TOKEN")); token != "" || a.Getenv("GITHUB_API_URL") != "" {
		return token // what git has is for GitHub alone
	}
	home, _ := os.UserHomeDir()
	_, password, ok, err := (&credentials.Finder{Env: a.Env, Home: home}).Git(ctx, plan.GitHubURL)
	if err != nil || !ok {
		return ""
	}
	return password
}
