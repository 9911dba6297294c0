package gitlabsteps

import (
	"slices"
)

// mapKeys are the keys of every map but a step, by the name that the map has in schema.json. The keys of a step are in kinds, commonKeys
// and ownKeys.
var mapKeys = map[string][]string{
	"document":      {"spec"},
	"spec":          {"inputs", "outputs", "env", "secrets", "exports", "access", "home", "permissions", "description", "any_inputs", "any_outputs"},
	"input":         {"type", "default", "sensitive", "description", "options", "match", "computed", "deprecated"},
	"output":        {"type", "default", "sensitive", "description"},
	"envRequest":    {"default", "optional", "description"},
	"secretRequest": {"optional", "description"},
	"definition":    {"run", "exec", "env", "outputs", "delegate", "context", "pre", "post", "input_prefix", "type", "steps"},
	"exec":          {"command", "script", "shell", "work_dir", "timeout", "log_file", "toolkit", "workdir", "working_dir"},
	"hook":          {"exec", "if"},
	"retry":         {"max", "delay", "exit_codes"},
	"allowFailure":  {"exit_codes", "if"},
	"reference":     {"git", "oci", "archive"},
	"git":           append([]string{"url", "rev"}, placeKeys...),
	"oci":           append([]string{"registry", "repository", "tag"}, placeKeys...),
	"archive":       append([]string{"url", "sha256"}, placeKeys...),
	"action":        {"uses", "text"},
}

// placeKeys say where in what is fetched the component is.
var placeKeys = []string{"dir", "file"}

// stepKeys returns every key that some step may have.
func stepKeys() []string {
	keys := slices.Concat(commonKeys, kinds)
	for _, own := range ownKeys {
		keys = append(keys, own.key)
	}
	return keys
}
