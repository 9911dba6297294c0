package place_test

import (
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/place"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

func TestALoginIsPublicWhereItOnlyNamesHelpers(t *testing.T) {
	for config, want := range map[string]bool{
		`{"credsStore": "ecr-login"}`:                                   true,
		`{"credHelpers": {"registry.example.com": "gcloud"}}`:           true,
		`{"auths": {"registry.example.com": {"auth": "YTpi"}}}`:         false,
		`{"auths": {"r": {"auth": "YTpi"}}, "credsStore": "ecr-login"}`: false,
		`{"auths": {"r": {"auth": "YTpi"`:                               false,
		`not JSON`:                                                      false,
	} {
		vars := variable.New(variable.Variable{Name: "DOCKER_AUTH_CONFIG", Value: config})
		if public, _ := place.Public(vars); (public["DOCKER_AUTH_CONFIG"] != "") != want {
			t.Errorf("%s: want %v", config, want)
		}
	}
}
