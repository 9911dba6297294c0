package config

// globalKeywords are the keys at the top level that name no job.
var globalKeywords = setOf("default", "include", "stages", "variables", "workflow", "spec",
	"image", "services", "cache", "before_script", "after_script")

// globalDefaults are the global keywords that say the same as `default:`, and are deprecated for it.
var globalDefaults = []string{"image", "services", "cache", "before_script", "after_script"}

// defaultKeywords are the keywords that `default:` may set.
var defaultKeywords = []string{"after_script", "artifacts", "before_script", "cache", "hooks", "id_tokens", "identity", "image",
	"interruptible", "retry", "services", "tags", "timeout"}

// triggerDefaults are those that reach a job that triggers a pipeline: the others say how a script runs.
var triggerDefaults = []string{"interruptible"}

// jobKeywords are the keys of a job.
var jobKeywords = []string{
	"after_script", "allow_failure", "artifacts", "before_script", "cache", "coverage", "dast_configuration", "dependencies",
	"environment", "except", "extends", "hooks", "id_tokens", "identity", "image", "inherit", "inputs", "interruptible",
	"manual_confirmation", "needs", "only", "pages", "parallel", "publish", "release", "resource_group", "retry", "rules", "run",
	"script", "secrets", "services", "stage", "start_in", "tags", "timeout", "trigger", "variables", "when",
}

var jobKeywordSet = setOf(jobKeywords...)

// reservedNames cannot name a job.
var reservedNames = setOf("true", "false", "nil", "pages:deploy")

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// JobKeywords are the keys that a job may have, sorted.
func JobKeywords() []string { return append([]string(nil), jobKeywords...) }

// DefaultKeywords are those of them that `default:` may set, sorted.
func DefaultKeywords() []string { return append([]string(nil), defaultKeywords...) }
