package place_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/place"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

func TestOfALoginOnlyTheNamesOfHelpersAndAMistakesPlaceAreShown(t *testing.T) {
	for config, want := range map[string]string{
		`{"credsStore": "ecr-login"}`:                                        `{"credsStore":"ecr-login"}`,
		`{"auths": {}, "credHelpers": {"registry.example.com": "gcloud"}}`:   `{"credHelpers":{"registry.example.com":"gcloud"}}`,
		`{"auths": {"r": {}}, "credsStore": "x", "HttpHeaders": {"A": "b"}}`: `{"credsStore":"x"}`,
		`{"auths": {"registry.example.com": {"auth": "YTpi"}}}`:              "",
		`{"auths": {"r": {"auth": "YTpi"}}, "credsStore": "ecr-login"}`:      "",
		`{"auths": {"r": {"auth": "YTpi"`:                                    strings.Repeat(" ", 30) + "!",
		`{"proxies": {"default": {"httpProxy": "http://u:pw@p"}}}`:           "",
		`not JSON`: " !", " ": "",
	} {
		vars := variable.New(variable.Variable{Name: "DOCKER_AUTH_CONFIG", Value: config})
		if shown, private, _ := place.Shown(vars); shown["DOCKER_AUTH_CONFIG"] != want || want != "" && len(private) == 0 {
			t.Errorf("%s gives %s, want %s", config, shown["DOCKER_AUTH_CONFIG"], want)
		}
	}
}
