package explain

import (
	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/local/limits"
	"github.com/rungci/rung/local/settings"
	"github.com/rungci/rung/steps/frontend/gitlabci/reference"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/source/federation"
	"github.com/rungci/rung/steps/source/lock"
)

// schema is the JSON schema of a kind of file.
type schema struct {
	// name is what `explain --schema` calls it.
	name string
	// file is which file it describes, in a few words.
	file string
	// text returns the schema as JSON.
	text func() ([]byte, error)
}

// defaultSchema is the name of the schema that is meant when nobody names one.
const defaultSchema = "gitlab-ci"

// schemas are the schemas, in the order in which help lists them.
var schemas = []schema{
	{defaultSchema, ".gitlab-ci.yml", reference.Schema},
	{"steps", "a list of steps, as run and ci read it", gitlabsteps.StepsSchema},
	{"step", "step.yml and func.yml", gitlabsteps.FileSchema},
	{"sources", "sources.toml", fixed(federation.Schema)},
	{"variables", ".rung/variables.yml", fixed(settings.Schema)},
	{"runners", ".rung/runners.yml", fixed(github.RunnersSchema)},
	{"limits", ".rung/limits.yml", fixed(limits.Schema)},
	{"lock", "steps.lock", fixed(lock.Schema)},
	{"includes", ".rung/includes.lock", fixed(include.LockSchema)},
}

// fixed makes a text of a schema that is a file.
func fixed(text func() []byte) func() ([]byte, error) {
	return func() ([]byte, error) { return text(), nil }
}
