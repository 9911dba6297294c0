// Package place reads what the variables of a GitLab job say of the place that it runs in: what its services are given, and who may pull
// its images.
package place

import (
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// authConfig is the variable with credentials for registries. They are for pulling images, and services do not get them.
const authConfig = "DOCKER_AUTH_CONFIG"

// Shown are a job's variables that are not secret, expanded, the names of those that are private all the same, so that its services do not get them,
// and the values that are masked in what services print. Variables that are masked or files, and those that hold a masked value, are not shown.
// A job passes them, and private ones, to a service by `services:variables`.
func Shown(vars *variable.Collection) (shown map[string]string, private, masked []string) {
	shown, masked = map[string]string{}, Masked(vars)
	expanded, err := vars.ExpandForJob(func(string) string { return "" })
	if err != nil {
		return shown, nil, masked
	}
	masked = append(masked, Masked(expanded)...)
	hide := mask.NewSet(masked...)
	for _, v := range expanded.Effective() {
		if v.Name == authConfig {
			v.Value = shownAuthConfig(v.Value)
		}
		if !v.Masked && !v.File && (v.Name != authConfig || v.Value != "") && (hide.Len() == 0 || hide.String(v.Value) == v.Value) {
			shown[v.Name] = v.Value
			if v.Private || v.Name == authConfig {
				private = append(private, v.Name)
			}
		}
	}
	return shown, private, masked
}

// Masked are the values that nobody may see.
func Masked(vars *variable.Collection) []string {
	var out []string
	for _, v := range vars.Effective() {
		if v.Masked && v.Value != "" {
			out = append(out, v.Value)
		}
	}
	return out
}

// Registries are the credentials for registries that a job's variables hold.
func Registries(vars *variable.Collection) []containers.Registry {
	text, ok := vars.Lookup(authConfig)
	if !ok || text == "" {
		return nil
	}
	return ParseAuthConfig(text)
}
