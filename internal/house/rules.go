package house

// This file is the floor plan as a table: which package may know which. A pattern is a folder of the repository; one that
// ends in "/..." stands for everything below it as well.

// importRule bounds what the packages of a folder may import of our own packages. Tests may import what they like.
type importRule struct {
	packages string
	only     []string // nothing but these; nil sets no bound
	never    []string
	why      string
}

// importRules has a row for every folder. All rows whose pattern a package matches apply to it.
var importRules = []importRule{
	{"steps/value", []string{}, nil, "values are the ground floor"},
	{"steps/diag", []string{}, nil, "diagnostics are the ground floor"},
	{"steps/expr", []string{"steps/value", "steps/diag"}, nil, "an expression knows values, not where they come from"},
	{"steps/plan", []string{"steps/value", "steps/diag"}, nil, "the plan is data"},
	{"steps/event", []string{"steps/value", "steps/diag", "steps/plan"}, nil, "events are data"},

	{"steps/plan/planpb", above("api/rung/..."), nil, "it converts the plan, and nothing else"},
	{"steps/frontend/...", above("internal/yamlsource", "internal/lazyregexp"), nil, "a frontend turns text into a plan; it runs nothing"},
	{"steps/source", above(), nil, "a source is given the parser that it uses"},
	{"steps/toolkit/...", []string{"steps/value"}, nil, "a toolkit speaks with one process; whoever runs the engine plugs it in"},
	{"steps/engine", above("steps/source", "internal/..."), nil, "the engine knows no syntax, and emits events, whoever takes them"},
	{"steps/trace", above("internal/..."), nil, "a trace is made from events alone"},
	{"steps/stepproto", above("steps/trace", "api/gitlab/...", "internal/lazyregexp"), nil, "results are made from a trace, and definitions from a plan"},
	{"steps/...", nil, append([]string{"ui/...", "cmd/..."}, upperFloors...), "what a job does is not concerned with screens, or with where it runs"},

	{"ui/...", above("ui/...", "internal/..."), nil, "a view sees events"},
	{"internal/...", []string{"internal/...", "steps/value", "steps/diag"}, nil, "internal packages are leaves, one idea each"},
	{"api/...", []string{}, nil, "the contracts depend on nothing of ours"},
	{"cmd/...", nil, nil, "programs put the parts together"},
	{"bench", nil, nil, "it measures all of them"},
	{"e2e", nil, nil, "it tries what the documents say"},

	{"executor/...", nil, []string{"manager/...", "fleet/..."}, "an executor does not ask how many machines there are, or who wants the job"},
	{"snapshot/...", nil, []string{"manager/...", "fleet/..."}, "nor does a snapshot"},
	{"nesting/...", nil, []string{"steps/...", "manager/...", "executor/...", "fleet/..."}, "nesting knows neither jobs nor GitLab"},
	{"fleet/...", nil, []string{"steps/...", "manager/...", "executor/..."}, "the fleet knows neither jobs nor GitLab"},
}

// foundation are the packages that everything else stands on. They import the standard library and each other only.
var foundation = []string{"steps/value", "steps/diag", "steps/expr", "steps/plan", "steps/event"}

// above is the foundation and what else a package may know.
func above(also ...string) []string { return append(also, foundation...) }

var upperFloors = []string{"executor/...", "fleet/...", "nesting/...", "snapshot/...", "manager/..."}

// thirdParty says which of our packages may import which module. A module that is not here is imported by nobody.
var thirdParty = map[string][]string{
	"github.com/clipperhouse/displaywidth": {"ui/..."},
	"github.com/spf13/cobra":               {"cmd/..."},
	"github.com/spf13/pflag":               {"cmd/..."},
	"go.yaml.in/yaml/v4":                   {"internal/yamlsource"},
	"golang.org/x/sys":                     {"internal/...", "cmd/..."},
	"golang.org/x/term":                    {"ui/...", "cmd/..."},
	"google.golang.org/protobuf":           {"api/...", "steps/plan/planpb", "steps/stepproto"},
	"mvdan.cc/sh/v3":                       {"internal/shellscript"},
}

// testModules may be imported by every package's tests.
var testModules = []string{"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "golang.org/x/tools/txtar"}

// Caps on non-generated Go, in lines; a test file may be longer.
const (
	maxFileLines     = 800
	maxFunctionLines = 100
	// minDocumented is the share of exported names that have a comment.
	minDocumented = 0.85
)

// vagueNames say nothing about what a package holds.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib"}

// bannedText is what no tracked file may hold, and why. Each pattern is written so that it does not match itself.
var bannedText = map[string]string{
	`/(?:home|Users)/[a-z]+/(?:go|src|Documents)/|/[r]oot/(?:go|\.)`: "a path of somebody's machine",
	`\b(?:T[O]DO|F[I]XME|X[X]X:|H[A]CK:)`:                            "unfinished work: finish it, or write an issue",
	`(?m)^(?:<{7} |>{7} )`:                                           "a merge conflict",
	`(?i)not [i]mplemented yet|lorem [i]psum`:                        "a stub",
	`(?m)\bfmt\.Print(?:ln|f)?\("(?:DEBUG|[x]xx)`:                    "debugging output",
}
