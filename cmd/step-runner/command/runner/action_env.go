package runner

import (
	"slices"
	"strings"
)

// What docker and podman find their engine by: its address, and the user's folders, which hold programs, contexts, credentials and images.
var (
	engineAddress = []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST"}
	engineFolders = []string{"PATH", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
)

// programEnv is an engine.Options.ProgramEnv. The process of a Docker action finds the engine as the user does, unless the step itself names
// one: steps see nothing of that, and their containers get nothing of it.
func programEnv(host, args, env []string) []string {
	if len(args) < 2 || args[0] != "builtin" || args[1] != "docker/action" {
		return env
	}
	named := func(names []string) func(string) bool {
		return func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return slices.Contains(names, name)
		}
	}
	if !slices.ContainsFunc(env, named(engineAddress)) {
		env = append(env, kept(host, named(engineAddress))...)
	}
	if config := named([]string{"DOCKER_CONFIG"}); !slices.ContainsFunc(env, config) {
		env = append(env, kept(host, config)...)
	}
	folders := named(engineFolders)
	env = slices.DeleteFunc(env, func(pair string) bool { // an action must not decide which program starts its container
		return folders(pair) || strings.HasPrefix(pair, "LD_") || strings.HasPrefix(pair, "DYLD_")
	})
	return append(env, kept(host, folders)...)
}

// kept are the texts that are wanted.
func kept(texts []string, wanted func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return !wanted(text) })
}
