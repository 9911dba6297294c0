package lock

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/plan"
)

// pin is a package of which only the commit is known.
func pin(repository, rev, commit string) Package {
	return Package{Kind: plan.RefGit, URL: plan.GitHubURL + repository, Rev: rev, Pin: strings.Repeat(commit, 40)}
}

func TestTwoFilesAreJoined(t *testing.T) {
	t.Parallel()
	ours := &File{Packages: []Package{pin("o/a", "v1", "1")}, Closed: []Closed{{By: "us"}}}
	theirs := &File{Packages: []Package{pin("o/a", "v1", "1"), pin("o/b", "v1", "2")}, Closed: []Closed{{URL: plan.GitHubURL, By: "them"}}}
	both, err := Join(ours, "x", theirs, "y")
	want := &File{Version: Version, Packages: []Package{pin("o/a", "v1", "1"), pin("o/b", "v1", "2")}, Closed: []Closed{{By: "us"}, {URL: plan.GitHubURL, By: "them"}}}
	if diff := cmp.Diff(want, both); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, one := range [][2]*File{{ours, nil}, {nil, ours}} {
		if got, err := Join(one[0], "x", one[1], "y"); got != ours || err != nil {
			t.Error(got, err)
		}
	}
	_, err = Join(ours, "x", &File{Packages: []Package{pin("O/A", "v1", "3")}}, "y")
	if err == nil || !strings.Contains(err.Error(), "in x") || !strings.Contains(err.Error(), "in y") {
		t.Errorf("a contradiction is not told with both names: %v", err)
	}
}

func TestWhatIsClosed(t *testing.T) {
	t.Parallel()
	f := &File{Packages: []Package{pin("o/a", "v1", "1")}, Closed: []Closed{{URL: plan.GitHubURL, Except: plan.GitHubURL + "o/own", By: "it"}}}
	for url, want := range map[string]bool{
		plan.GitHubURL + "o/a": true, plan.GitHubURL + "O/Own": false, plan.GitHubURL + "o/owned": true, "https://gitlab.com/o/a": false,
	} {
		if got := f.Closes(url) != nil; got != want {
			t.Errorf("%s: %t", url, got)
		}
	}
	if (*File)(nil).Closes(plan.GitHubURL) != nil {
		t.Error("no file closes something")
	}
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(Name, text)
	if err != nil || cmp.Diff(f.Closed, again.Closed) != "" || again.Packages[0].Content != "" {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestCaseDoesNotCountOnGitHub(t *testing.T) {
	t.Parallel()
	f := &File{Packages: []Package{pin("Octo/Say", "v1", "1"), {Kind: plan.RefGit, URL: "https://host/A", Rev: "v1"}}}
	for _, c := range []struct {
		url, rev string
		found    bool
	}{{plan.GitHubURL + "octo/say", "v1", true}, {plan.GitHubURL + "octo/say", "V1", false}, {"https://host/a", "v1", false}, {"https://host/A", "v1", true}} {
		if got := f.Find(plan.RefGit, c.url, c.rev) != nil; got != c.found {
			t.Errorf("%s@%s: %t", c.url, c.rev, got)
		}
	}
}
