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
	{"steps/diag/problems", []string{"steps/diag", "steps/diag/rules"}, nil, "it writes diagnostics down"},
	{"steps/diag/rules", []string{"steps/diag"}, nil, "the catalog of checks knows none of them"},
	{"steps/check", above("steps/diag/rules", "steps/source", "internal/lazyregexp", "internal/shellscript"), nil, "a check reads plans, and is given what loads components"},
	{"steps/expr", []string{"steps/value", "steps/diag"}, nil, "an expression knows values, not where they come from"},
	{"steps/plan", []string{"steps/value", "steps/diag"}, nil, "the plan is data"},
	{"steps/containers", []string{}, nil, "what is asked of a place is data"},
	{"steps/event", []string{"steps/value", "steps/diag", "steps/plan", "steps/containers"}, nil, "events are data"},

	{"steps/plan/planpb", above("api/rung/..."), nil, "it converts the plan, and nothing else"},
	{"steps/frontend/gitlabci/rule", []string{}, nil, "conditions are a language of their own"},
	{"steps/frontend/gitlabci/variable", []string{}, nil, "variables are texts"},
	{"steps/frontend/...", above("steps/frontend/gitlabci/...", "steps/frontend/gitlabsteps", "steps/frontend/actions/...", "steps/expr/github", "steps/catalog/cachekey", "internal/yamlsource", "internal/lazyregexp", "internal/shellscript", "internal/mask", "steps/source/credentials", "steps/diag/rules"), nil, "a frontend turns text into a plan; it runs nothing"},
	{"steps/source", above("steps/source/tree", "steps/source/cache", "steps/source/lock", "internal/mask"), nil, "a source is given the parser that it uses, and what fetches"},
	{"steps/source/tree", []string{"internal/pack"}, nil, "files and their digest are a leaf, and internal/pack reads what is packed"},
	{"steps/source/cache", []string{"steps/source/tree"}, nil, "the cache keeps trees, wherever they are from"},
	{"steps/source/lock", []string{"steps/plan", "steps/containers", "internal/projectfile"}, nil, "a lock file is data"},
	{"steps/source/credentials", []string{"internal/..."}, nil, "it reads what other programs configured"},
	{"steps/source/git/...", fetcher("steps/source/git"), nil, "a fetcher knows one kind of source"},
	{"steps/source/archive/...", fetcher("steps/source/archive/..."), nil, "a fetcher knows one kind of source"},
	{"steps/source/oci/...", fetcher("steps/source/oci/...", "steps/source/archive/..."), nil, "a fetcher knows one kind of source, and image layers are archives"},
	{"steps/source/federation", above("steps/source", "steps/signature", "internal/..."), nil, "it says where to go and what to demand, and fetches nothing"},
	{"steps/source/walk", above("steps/source"), nil, "it follows references, and runs nothing"},
	{"steps/source/locker", above("steps/source", "steps/source/lock", "steps/source/walk"), nil, "it records what references are"},
	{"steps/source/sourcetest", []string{"steps/source/tree"}, nil, "servers for tests"},
	{"steps/catalog", []string{}, nil, "it holds files"},
	{"steps/catalog/...", []string{"steps/value", "steps/plan", "steps/containers", "steps/catalog/...", "steps/source/git/clone", "internal/..."}, nil, "a built-in step knows its inputs and its process, like any other"},
	{"steps/catalog/cachekey", []string{"internal/glob"}, nil, "a key is computed, and nothing is read"},
	{"steps/catalog/transfer", []string{}, nil, "files to and from servers, whatever they are"},
	{"steps/signature", []string{}, nil, "keys and envelopes are a leaf"},
	{"steps/replay", above("steps/engine", "steps/trace", "steps/source", "steps/source/...", "internal/mask", "internal/lazyregexp"), nil, "a replay is a run made from a trace"},
	{"steps/service", above("internal/tempfolder", "steps/engine", "steps/trace", "steps/service/codec", "steps/source", "steps/source/lock", "steps/plan/planpb", "internal/exposition", "api/..."), nil, "it is given what parses and what finds components"},
	{"steps/service/client", above("steps/plan/planpb", "steps/service/codec", "api/rung/..."), nil, "a client knows the contract"},
	{"steps/service/codec", []string{}, nil, "it knows no message"},
	{"steps/expr/github", []string{"steps/expr", "steps/value", "steps/diag", "internal/glob", "internal/lazyregexp"}, nil, "GitHub's dialect of expressions"},
	{"steps/toolkit/...", above("steps/engine", "steps/expr/github", "steps/toolkit/...", "internal/..."), nil, "a toolkit speaks with one process; whoever runs the engine plugs it in"},
	{"steps/engine", above("steps/source", "steps/check", "steps/diag/rules", "internal/..."), nil, "the engine knows no syntax, and emits events, whoever takes them"},
	{"steps/trace", above("internal/..."), nil, "a trace is made from events alone"},
	{"steps/stepproto", above("steps/trace", "api/gitlab/...", "internal/lazyregexp"), nil, "results are made from a trace, and definitions from a plan"},
	{"steps/...", nil, append([]string{"ui/...", "cmd/...", "publish/..."}, upperFloors...), "what a job does is not concerned with screens, or with where it runs"},

	{"publish/provenance", above("steps/trace", "steps/signature"), nil, "it says of a trace what SLSA asks"},
	{"publish/bundle", above("internal/pack", "steps/replay", "steps/trace", "steps/source", "steps/source/..."), nil, "a bundle is a trace and packages"},
	{"publish/page", above("steps/source"), nil, "a page is made of what was loaded"},
	{"publish/oci", above("steps/source/...", "internal/..."), nil, "it sends what others fetch"},
	{"publish/plugin", above("publish/oci", "steps/source", "steps/source/...", "internal/..."), nil, "it brings programs to registries and from there, and runs none"},
	{"publish/...", nil, append([]string{"ui/...", "cmd/..."}, upperFloors...), "what is made of a trace or a component needs no screen, and no place to run"},

	{"ui/...", above("ui/...", "internal/..."), nil, "a view sees events"},
	{"internal/...", []string{"internal/...", "steps/value", "steps/diag"}, nil, "internal packages are leaves, one idea each"},
	{"api/...", []string{"api/..."}, nil, "the contracts depend on nothing else of ours"},
	{"cmd/...", nil, nil, "programs put the parts together"},
	{"cmd/internal/commandtest", []string{"cmd/step-runner/command", "executor/executortest"}, nil, "tests of commands, whatever they do"},
	{"cmd/rung", []string{"cmd/rung/command/...", "cmd/step-runner/command", "cmd/step-runner/command/exit", "internal/process", "internal/tempfolder"}, nil, "main wires the groups of commands to the world"},
	{"cmd/rung/command/...", nil, append([]string{"publish/bundle", "publish/page", "publish/provenance"}, append(rungGroups(), commandGroups()...)...), "a group knows no other group, whatever program it is of, and what they share knows none of them"},
	{"cmd/rung/command/jobs", nil, []string{"local/...", "dev/...", "publish/..."}, "GitLab says what the jobs are"},
	{"cmd/rung/command/runners", nil, []string{"local/...", "dev/...", "publish/..."}, "a runner knows no projects"},
	{"cmd/rung/command/fleet", nil, []string{"local/...", "dev/...", "executor/..."}, "machines are counted, and nothing runs on them"},
	{"cmd/rung/command/configuration", nil, []string{"local/...", "dev/...", "publish/..."}, "a configuration knows no projects"},
	{"cmd/step-runner", []string{"cmd/step-runner/command/...", "internal/process", "internal/tempfolder"}, nil, "main wires the groups of commands to the world"},
	{"cmd/step-runner/command", []string{"cmd/step-runner/command/exit", "steps/diag", "steps/source", "internal/wholefile", "internal/cleantext"}, nil, "what every command knows"},
	{"cmd/step-runner/command/...", nil, append(commandGroups(), futureFloors...), "a group knows no other group, and what they share knows none of them"},
	{"cmd/step-runner/command/run", nil, append([]string{"local/gitlab", "local/github", "steps/frontend/gitlabci/...", "publish/oci", "publish/page", "publish/provenance", "steps/catalog/..."}, futureFloors...), "it runs steps, whoever asks for jobs"},
	{"cmd/step-runner/command/replay", nil, append([]string{"local/gitlab", "local/github", "steps/frontend/gitlabci/...", "publish/oci", "publish/page", "publish/provenance", "steps/catalog/..."}, futureFloors...), "it runs steps, whoever asks for jobs"},
	{"cmd/step-runner/command/inspect", nil, append([]string{"executor/...", "steps/service/...", "steps/catalog/...", "cmd/step-runner/command/levels", "cmd/step-runner/command/session"}, futureFloors...), "it reads, and runs nothing"},
	{"cmd/step-runner/command/trust", nil, append([]string{"executor/...", "steps/service/...", "cmd/step-runner/command/levels"}, futureFloors...), "it fetches and signs, and runs nothing"},
	{"cmd/step-runner/command/lock", nil, append([]string{"executor/...", "steps/service/...", "cmd/step-runner/command/levels"}, futureFloors...), "it fetches and signs, and runs nothing"},
	{"cmd/step-runner/command/serve", nil, append([]string{"local/...", "publish/...", "steps/replay"}, futureFloors...), "a server knows no files of pipelines, and no traces"},
	{"cmd/step-runner/command/local", nil, append([]string{"publish/...", "steps/replay", "steps/signature", "steps/catalog/..."}, futureFloors...), "it runs jobs on this machine, and publishes nothing"},
	{"bench", nil, nil, "it measures all of them"},
	{"bench/growth", []string{"fleet/control", "fleet/group", "fleet/group/fake", "fleet/scale", "fleet/simulate", "fleet/store"}, nil, "it measures a fleet"},
	{"bench/machines", []string{"executor/host/local", "executor/host/sshd"}, nil, "a machine knows nothing of who uses it"},
	{"examples/...", []string{"sdk/..."}, nil, "an author has the SDK alone"},
	{"e2e/...", nil, nil, "it tries what the documents say"},

	{"executor", []string{"executor/host", "executor/usage", "steps/event", "steps/containers", "internal/egress"}, nil, "the contract of environments knows machines and events, and no level"},
	{"executor/...", nil, []string{"manager/...", "fleet/...", "local/..."}, "an executor does not ask how many machines there are, or who wants the job"},
	{"executor/usage", []string{"internal/wholefile"}, nil, "a record knows nothing of what it is of"},
	{"executor/container/engine", []string{}, nil, "a client of an engine knows nothing of jobs"},
	{"executor/host", []string{}, nil, "the contract of machines depends on none of them"},
	{"executor/host/...", []string{"executor/host/...", "executor/host", "executor/archive", "executor/executortest/enginetest", "internal/..."}, nil, "a host runs commands, and knows neither jobs nor levels; its tests ask for a server as others do"},
	{"executor/executortest/enginetest", []string{}, nil, "it is what tests ask for what a machine may lack"},
	{"executor/provider", []string{"executor", "executor/host"}, nil, "where machines come from is not concerned with levels, or with how machines are reached"},
	{"executor/provider/places", []string{"executor", "executor/provider", "internal/background", "steps/event"}, nil, "keys and leases are the same for every source"},
	{"executor/provider/hosts", []string{"executor", "executor/provider", "executor/provider/places"}, nil, "a list, which nobody is asked about"},
	{"executor/provider/fake", []string{"executor", "executor/provider", "executor/provider/places"}, nil, "its machines are nothing"},
	{"executor/provider/fresh", []string{"executor", "executor/provider", "executor/provider/places"}, nil, "it is given what makes machines"},
	{"executor/provider/connect", []string{"executor/provider", "executor/host", "executor/host/local", "executor/host/ssh", "executor/host/winrm"}, nil, "an address becomes a host"},
	{"executor/plugin/wire", []string{"executor", "executor/host", "executor/provider", "steps/event", "steps/containers", "internal/scarcity", "api/...", "internal/pluginoption"}, nil, "the contract as messages"},
	{"executor/plugin", nil, []string{"executor/none", "executor/cgroup", "executor/container", "executor/executortest", "steps/engine", "steps/frontend/..."}, "a plugin is a level like any other, which somebody else wrote"},
	{"sdk/executor/process", []string{"executor", "executor/host", "executor/none"}, nil, "it is level none, started otherwise"},
	{"sdk/python", []string{}, nil, "it holds files"},
	{"sdk/scaffold", []string{"sdk/python"}, nil, "it writes files"},
	{"sdk/internal/pluginserver", []string{"internal/pluginhost/handshake"}, nil, "what every kind of plugin has"},
	{"sdk/instancegroup", []string{"internal/pluginoption", "internal/pluginhost/handshake", "fleet/group", "fleet/group/wire", "sdk/internal/pluginserver", "api/..."}, nil, "what a plugin's author imports is small"},
	{"sdk/executor", []string{"internal/pluginoption", "internal/pluginhost/handshake", "executor", "executor/plugin/wire", "sdk/internal/pluginserver", "steps/event", "api/..."}, nil, "what a plugin's author imports is small"},
	{"sdk/provider", []string{"internal/pluginoption", "executor", "executor/provider", "executor/provider/places", "executor/provider/fresh", "executor/plugin/wire", "internal/pluginhost/handshake", "sdk/internal/pluginserver", "steps/event", "api/..."}, nil, "what a plugin's author imports is small"},
	{"executor/fake", []string{"executor", "steps/event", "api/..."}, nil, "it runs nothing"},
	{"executor/session", nil, []string{"steps/engine", "steps/frontend/...", "executor/none", "executor/cgroup", "executor/container"}, "a session is given the level that it uses"},
	{"executor/none", nil, []string{"steps/engine", "steps/frontend/...", "executor/container", "executor/cgroup"}, "a level is given the step-runner that it starts"},
	{"executor/cgroup", nil, []string{"steps/engine", "steps/frontend/...", "executor/container"}, "it is level none in a control group"},
	{"executor/custom", nil, []string{"steps/engine", "steps/frontend/...", "executor/container", "executor/cgroup"}, "it makes places, in which a job runs as on level none"},
	{"executor/custom/frames", []string{}, nil, "how a stream travels in the lines of a log"},
	{"executor/container", nil, []string{"steps/engine", "steps/frontend/...", "executor/none", "executor/cgroup"}, "a level is given the step-runner that it starts"},
	{"executor/kubernetes", []string{"executor", "executor/container", "executor/host", "executor/host/remotefiles", "executor/ledger", "executor/login", "internal/kube", "steps/containers", "steps/event", "steps/source/credentials"}, nil, "a level is given the step-runner that it starts"},
	{"deploy", []string{"executor/executortest/enginetest", "executor/kubernetes/kubetest"}, nil, "manifests are tried, and nothing is imported from them"},
	{"executor/kubernetes/kubetest", []string{"executor/executortest/enginetest"}, nil, "a cluster knows nothing of jobs"},
	{"executor/imageuser", []string{}, nil, "it reads two files, wherever they are from"},
	{"executor/login", []string{"executor", "executor/container/engine", "steps/containers", "steps/source/credentials"}, nil, "whoever pulls an image asks it"},
	{"executor/sandbox/rootfs", []string{"internal/...", "steps/containers", "steps/source", "steps/source/oci/..."}, nil, "files of images know nothing of jobs"},
	{"executor/sandbox/...", nil, []string{"steps/engine", "steps/frontend/...", "executor/none"}, "a level is given the step-runner that it starts"},
	{"local/...", nil, []string{"manager/...", "fleet/...", "nesting/...", "cmd/...", "ui/...", "steps/engine"}, "it brings a pipeline and environments together; steps run in those"},
	{"local", nil, []string{"steps/frontend/...", "local/gitlab", "local/github", "local/include"}, "the runner knows no language"},
	{"local/repository", above("steps/frontend/gitlabci/...", "steps/catalog/cachekey", "steps/source", "internal/..."), nil, "it knows a Git repository"},
	{"local/include", above("local/repository", "steps/frontend/gitlabci/...", "steps/source/...", "steps/source", "internal/..."), nil, "it fetches what a definition includes"},
	{"local/store", []string{"internal/...", "steps/value"}, nil, "it keeps what jobs leave"},
	{"manager/gitlab", []string{}, nil, "the runner API is a client like any other"},
	{"manager/gitlab/gitlabtest", []string{"manager/gitlab"}, nil, "it is GitLab, and knows no runner"},
	{"manager/config", []string{"executor", "fleet/schedule", "steps/diag", "steps/diag/problems", "internal/account", "internal/egress", "internal/shellword", "internal/silence", "internal/wholefile", "internal/pluginoption"}, nil, "a configuration says what is wanted, and does nothing"},
	{"manager/cachestore", []string{"steps/catalog/cachekey", "steps/frontend/gitlabci/compile", "manager/config"}, nil, "it names objects, and knows no store"},
	{"manager/cachestore/cachestoretest", []string{"manager/cachestore"}, nil, "a suite knows the contract alone"},
	{"manager/cachestore/kinds", []string{"manager/cachestore", "manager/cachestore/s3", "manager/cachestore/gcs", "manager/cachestore/azure", "manager/config"}, nil, "it knows the stores by their names"},
	{"manager/cachestore/s3", []string{"internal/sharedstate", "manager/cachestore", "manager/config"}, nil, "a store signs addresses, and has objects"},
	{"manager/cachestore/gcs", []string{"manager/cachestore", "manager/config", "internal/sigv4"}, nil, "a store signs addresses"},
	{"manager/cachestore/azure", []string{"manager/cachestore", "manager/config"}, nil, "a store signs addresses"},
	{"manager/policy", above("executor", "manager/config", "internal/bytesize", "internal/glob", "internal/egress"), nil, "what jobs may ask for, and nothing is made"},
	{"manager/docker", []string{"executor", "executor/container", "executor/container/engine", "executor/sandbox", "manager/config", "internal/glob", "internal/lazyregexp"}, nil, "a table of the configuration, in the words of the levels"},
	{"manager/containers", []string{"executor", "manager/config", "manager/docker", "manager/kubernetes"}, nil, "it chooses"},
	{"manager/kubernetes", []string{"executor", "executor/kubernetes", "manager/config", "steps/event", "internal/glob"}, nil, "a table of the configuration, in the words of the level"},
	{"manager/registration", []string{"executor", "internal/scarcity", "manager/config", "manager/gitlab"}, nil, "what is in the file, and what GitLab knows"},
	{"manager/disk", above("executor", "executor/host", "executor/usage", "internal/bytesize", "internal/scarcity"), nil, "it is given what keeps things, and knows no level"},
	{"manager/joblog", []string{"manager/gitlab"}, nil, "a log is bytes"},
	{"manager/statestorage", []string{"internal/kube", "internal/kubestate", "internal/sharedstate", "internal/wholefile", "manager/cachestore/s3", "manager/config", "manager/store"}, nil, "a table of the configuration becomes a state"},
	{"manager/fleet", above("executor", "executor/host", "executor/provider", "executor/provider/places", "fleet/control", "fleet/group", "fleet/group/options", "fleet/scale", "fleet/schedule", "fleet/store", "internal/background", "internal/exposition", "internal/lastoutput", "internal/pluginhost", "internal/pluginoption", "internal/pluginstore", "internal/sharedstate", "internal/wholefile", "manager/config", "nesting/client"), nil, "it is given what makes groups, and what connects"},
	{"manager/supply", above("executor", "executor/provider", "internal/background", "internal/sharedstate", "manager/fleet"), nil, "it knows a provider, and no jobs"},
	{"manager/machines", above("executor", "executor/host", "executor/host/local", "executor/ledger", "executor/provider", "executor/usage", "internal/background", "manager/disk"), nil, "it is given what opens levels and connections"},
	{"manager", above("manager/...", "executor", "executor/host", "executor/provider", "executor/ledger", "executor/usage", "internal/cgroup", "internal/otlp"), nil, "it is given what opens levels"},
	{"manager/traces", above("steps/trace", "steps/signature", "publish/provenance", "internal/wholefile"), nil, "a trace is a file that came from a job"},
	{"manager/status", above("manager", "manager/fleet", "manager/disk", "manager/supply", "manager/gitlab", "executor", "internal/cleantext", "internal/exposition"), nil, "it shows what a manager says of itself"},
	{"manager/telemetry", above("steps/trace", "manager/gitlab", "internal/otlp"), nil, "it is handed what it sends"},
	{"manager/terminal", []string{"executor", "manager/gitlab"}, nil, "it is given the shells that it opens"},
	{"manager/service", []string{}, nil, "it describes the program to the system"},
	{"manager/store", []string{"internal/scarcity", "internal/sharedstate", "internal/wholefile"}, nil, "it keeps bytes"},
	{"manager/payload", above("manager/gitlab", "executor", "steps/frontend/...", "internal/mask"), nil, "it reads what GitLab sent, and makes nothing"},
	{"manager/job", above("manager/cachestore", "manager/disk", "manager/gitlab", "manager/joblog", "manager/payload", "manager/supply", "manager/terminal", "executor", "executor/session", "steps/frontend/gitlabci/compile", "steps/service/client", "steps/trace", "ui/joblog"), nil, "it is given the level that a job runs in"},
	{"dev/gitserver", []string{"internal/gitquery"}, nil, "a work tree becomes commits, whoever fetches them"},
	{"dev/fakegitlab", above("internal/cleantext", "dev/gitserver", "local/gitlab", "local/repository", "manager/gitlab", "manager/gitlab/gitlabtest", "steps/frontend/gitlabci/...", "steps/catalog/dotenv"), nil, "it is GitLab, and knows no runner"},
	{"nesting/nestingtest", []string{"api/...", "executor/host", "executor/host/local", "executor/host/sshd"}, nil, "a host of tests, which is reached as hosts are"},
	{"nesting/client", nil, []string{"steps/...", "manager/...", "executor/...", "fleet/..."}, "nesting knows neither jobs nor GitLab"},
	{"fleet/...", nil, []string{"steps/...", "manager/...", "executor", "executor/levels", "executor/none", "executor/container", "executor/provider/...", "local/...", "ui/...", "cmd/...", "api/gitlab/..."}, "the fleet knows neither jobs nor GitLab"},
	{"fleet/group", []string{}, nil, "the contract of clouds depends on none of ours"},
	{"fleet/group/fake", []string{"fleet/group"}, nil, "a cloud knows nothing of who uses it"},
	{"fleet/group/grouptest", []string{"fleet/group"}, nil, "a suite knows the contract alone"},
	{"fleet/group/wire", []string{"fleet/group", "internal/pluginoption", "api/rung/..."}, nil, "the contract as messages"},
	{"fleet/group/plugin/plugintest", []string{"fleet/group", "fleet/group/grouptest", "fleet/group/plugin", "fleet/group/plugin/paid", "internal/plugintrial", "internal/tempfolder"}, nil, "it tries a plugin from outside"},
	{"fleet/group/plugin/paid", []string{"fleet/group", "fleet/group/plugin", "fleet/scale", "internal/lockedfile"}, nil, "it knows what instances cost, and not why they are made"},
	{"fleet/group/plugin", []string{"fleet/group", "fleet/group/wire", "internal/pluginhost", "internal/pluginhost/handshake", "api/rung/..."}, nil, "a plugin is a group like any other, which somebody else wrote"},
	{"fleet/group/options", []string{"internal/bytesize"}, nil, "options are data"},
	{"fleet/group/builtin", []string{"fleet/group", "fleet/group/dockermachine", "fleet/group/local", "fleet/group/options", "fleet/group/static"}, nil, "it lists groups"},
	{"fleet/group/local", []string{"executor/container/engine", "fleet/group", "fleet/group/options", "fleet/group/local/machine", "internal/background", "internal/cgroup", "internal/wholefile", "sdk/instancegroup"}, nil, "a group is given its options, and knows nothing of who asked"},
	{"fleet/group/local/machine", []string{"executor/container/engine", "executor/host/brought", "executor/host/sshd", "executor/login", "internal/confine", "internal/process", "internal/wholefile"}, nil, "what runs on a machine is an SSH server, whoever asked for it"},
	{"fleet/group/local/machine/alone", []string{"fleet/group/local/machine"}, nil, "it is that alone"},
	{"fleet/group/static", []string{"fleet/group", "fleet/group/options", "internal/background", "internal/sshclient", "sdk/instancegroup"}, nil, "a group is given its options, and knows nothing of who asked"},
	{"fleet/group/dockermachine", []string{"fleet/group", "fleet/group/options", "internal/background", "internal/wholefile", "sdk/instancegroup"}, nil, "a group is given its options, and knows nothing of who asked"},
	{"fleet/schedule", []string{}, nil, "when something applies, whatever it is"},
	{"fleet/scale", []string{"fleet/schedule", "internal/bytesize"}, nil, "a decision knows no cloud, no clock and no connection"},
	{"fleet/store/storetest", []string{"fleet/scale", "fleet/store"}, nil, "a suite knows the contract alone"},
	{"fleet/store", []string{"fleet/scale", "internal/lockedfile", "internal/sharedstate", "internal/wholefile"}, nil, "it keeps what was decided, and decides nothing"},
	{"fleet/control", []string{"fleet/group", "fleet/scale", "fleet/store"}, nil, "it is given the groups, and what makes a machine ready"},
	{"fleet/simulate", []string{"fleet/scale", "fleet/schedule"}, nil, "it runs decisions on what is made up"},
	{"fleet/simulate/scenario", []string{"fleet/scale", "fleet/schedule", "fleet/simulate", "internal/bytesize", "internal/placed"}, nil, "files become a simulation"},
	{"fleet/simulate/report", []string{"fleet/simulate"}, nil, "a view of results"},
}

// commandGroups are the groups of commands of step-runner: rooms that have a door to main alone.
func commandGroups() []string {
	var out []string
	for _, group := range []string{"run", "replay", "inspect", "doctor", "trust", "lock", "serve", "egress", "local"} {
		out = append(out, "cmd/step-runner/command/"+group)
	}
	return out
}

// rungGroups are those of rung.
func rungGroups() []string {
	return []string{"cmd/rung/command/configuration", "cmd/rung/command/dev", "cmd/rung/command/fleet", "cmd/rung/command/jobs", "cmd/rung/command/machine", "cmd/rung/command/plugins", "cmd/rung/command/runners"}
}

// foundation are the packages that everything else builds on. They import the standard library and each other only.
var foundation = []string{"steps/value", "steps/diag", "steps/expr", "steps/plan", "steps/containers", "steps/event"}

// fetcher is what one that fetches packages may know.
func fetcher(also ...string) []string {
	return above(append(also, "steps/source", "steps/source/tree", "steps/source/cache", "internal/...")...)
}

// above is the foundation and what else a package may know.
func above(also ...string) []string { return append(also, foundation...) }

// futureFloors are those that no command of step-runner reaches: other programs do.
var futureFloors = []string{"fleet/...", "nesting/...", "manager/..."}

var upperFloors = []string{"local/...", "executor/...", "fleet/...", "nesting/...", "manager/..."}

// thirdParty says which of our packages may import which module. A module that is not here is imported by nobody.
var thirdParty = map[string][]string{
	"github.com/aws/aws-sdk-go-v2":             {"steps/catalog/cache/bucket/buckettest"},
	"github.com/bmatcuk/doublestar/v4":         {"internal/glob"},
	"github.com/bodgit/ntlmssp":                {"executor/host/winrm"},
	"github.com/clipperhouse/displaywidth":     {"ui/..."},
	"github.com/coder/websocket":               {"manager/terminal", "manager/gitlab/gitlabtest", "dev/fakegitlab"},
	"github.com/creack/pty":                    {"internal/process", "e2e/attacks"},
	"github.com/go-git/go-billy/v5":            {"steps/source/git/..."},
	"github.com/go-git/go-git/v5":              {"steps/source/git/...", "steps/source/credentials"},
	"github.com/google/go-cmp":                 {"executor/executortest", "executor/host/hosttest", "fleet/store/storetest"},
	"github.com/google/go-containerregistry":   {"steps/source/sourcetest"},
	"github.com/hashicorp/go-hclog":            {"internal/pluginhost", "sdk/internal/pluginserver", "sdk/instancegroup", "fleet/group/...", "fleet/control", "bench/growth"},
	"github.com/hashicorp/go-plugin":           {"internal/pluginhost/...", "sdk/internal/pluginserver"},
	"github.com/kardianos/service":             {"manager/service"},
	"github.com/kevinburke/ssh_config":         {"internal/sshclient"},
	"github.com/klauspost/compress":            {"publish/oci", "internal/pack", "bench"},
	"github.com/opencontainers/go-digest":      {"steps/source/sourcetest"},
	"github.com/masterzen/winrm":               {"executor/host/winrm"},
	"github.com/moby/moby":                     {"executor/executortest/...", "executor/kubernetes/kubetest"},
	"github.com/opencontainers/image-spec":     {"steps/source/sourcetest"},
	"github.com/gorhill/cronexpr":              {"fleet/schedule"},
	"github.com/pelletier/go-toml/v2":          {"steps/source/lock", "steps/source/federation", "local/include", "manager/config", "internal/placed", "internal/schematest"},
	"github.com/rogpeppe/go-internal":          {"cmd/internal/commandtest", "steps/source/cache", "local/store", "manager/config", "manager/store"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"internal/schematest", "internal/pluginhost", "fleet/group/options"},
	"github.com/skeema/knownhosts":             {"internal/sshclient"},
	"github.com/spf13/cobra":                   {"cmd/..."},
	"github.com/spf13/pflag":                   {"cmd/..."},
	"github.com/xanzy/ssh-agent":               {"internal/sshclient"},
	"github.com/youmark/pkcs8":                 {"steps/signature", "steps/catalog/ssh"},
	"go.yaml.in/yaml/v4":                       {"internal/yamlsource"},
	"golang.org/x/crypto":                      {"sdk/instancegroup", "steps/signature", "steps/source/git/...", "steps/source/sourcetest", "steps/catalog/ssh", "internal/sshclient", "executor/host/ssh", "executor/host/sshd", "executor/host/hosttest", "nesting/nestingtest"},
	"golang.org/x/mod":                         {"internal/pluginstore", "publish/oci", "local/include", "local/repository"},
	"golang.org/x/net":                         {"manager/terminal"},
	"golang.org/x/sys":                         {"internal/...", "cmd/...", "bench", "e2e/attacks", "executor/host/brought", "executor/kubernetes/kubetest", "fleet/group/local/machine"},
	"golang.org/x/tools":                       {"internal/house/..."},
	"golang.org/x/term":                        {"ui/...", "cmd/..."},
	"google.golang.org/grpc":                   {"api/...", "steps/service/...", "cmd/...", "bench", "executor/executortest/forged", "executor/fake", "executor/plugin/...", "nesting/...", "fleet/group/...", "internal/pluginhost/...", "sdk/executor", "sdk/provider", "sdk/instancegroup", "sdk/internal/pluginserver"},
	"google.golang.org/protobuf":               {"api/...", "steps/plan/planpb", "steps/stepproto", "steps/service/...", "executor/fake", "executor/plugin/...", "fleet/group/...", "internal/pluginhost/...", "sdk/executor", "sdk/provider", "sdk/instancegroup", "sdk/internal/pluginserver"},
	"mvdan.cc/sh/v3":                           {"internal/shellscript"},

	// Kubernetes: its types, and what connects to an API server.
	"github.com/containerd/errdefs":  {"executor/kubernetes/kubetest"},
	"github.com/go-logr/logr":        {"internal/kube"},
	"gopkg.in/evanphx/json-patch.v4": {"executor/kubernetes"},
	"k8s.io/api":                     {"executor/kubernetes/...", "internal/kube", "internal/kubestate", "manager/kubernetes"},
	"k8s.io/apimachinery":            {"deploy", "executor/kubernetes/...", "internal/kube", "internal/kubestate", "manager/kubernetes"},
	"k8s.io/client-go":               {"executor/kubernetes/...", "internal/kube", "internal/kubestate"},
	"k8s.io/klog/v2":                 {"internal/kube"},
	"sigs.k8s.io/yaml":               {"manager/kubernetes"},

	// The stores of caches: what they need to get credentials.
	"cloud.google.com/go/compute/metadata":             {"manager/cachestore/gcs"},
	"github.com/Azure/azure-sdk-for-go/sdk/azcore":     {"manager/cachestore/azure"},
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity": {"manager/cachestore/azure"},
	"github.com/minio/minio-go/v7":                     {"manager/cachestore/s3"},
	"golang.org/x/oauth2":                              {"manager/cachestore/gcs"},
}

// testModules may be imported by every package's tests.
var testModules = []string{
	"github.com/aws/aws-sdk-go-v2", "github.com/santhosh-tekuri/jsonschema/v6", "github.com/moby/moby", "github.com/Azure/azure-sdk-for-go/sdk/azcore", "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob", // independent implementations
	"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "golang.org/x/tools/txtar",
	"github.com/in-toto/attestation", "github.com/secure-systems-lab/go-securesystemslib", "google.golang.org/protobuf", "golang.org/x/crypto", "github.com/google/go-containerregistry",
	"github.com/coder/websocket", "github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec", "github.com/klauspost/compress", "github.com/go-git/go-git/v5",
	"github.com/yuin/goldmark", "github.com/prometheus/common", "github.com/prometheus/client_model", "go.opentelemetry.io/proto/otlp",
}

// Caps on non-generated Go, in lines; a test file may be longer.
const (
	maxFileLines     = 800
	maxFunctionLines = 100
	// maxMethods is how many methods a type may have.
	maxMethods = 30
	// maxImports is how many of our packages one package may import.
	maxImports = 25
	// minDocumented is the share of exported names that have a comment.
	minDocumented = 0.85
)

// textReaders are the files that may look into the text of an error or of another message, with the reason.
var textReaders = map[string]string{
	"steps/event/error.go": "messages of older traces begin with the step",
	"ui/ending.go":         "a view does not print the same sentence twice",

	"executor/container/engine/network.go": "engines say in words alone that they have no addresses left, or that a network has them",
	"executor/container/image.go":          "engines say in words alone what is wrong with an image",
	"executor/container/imagefault.go":     "engines say in words alone why a container cannot be made or started",
	"executor/container/owner.go":          "so does Podman about a user",
	"internal/kube/pod.go":                 "a cluster's objects say what has happened in words of its API, and those are no errors",
	"executor/kubernetes/state.go":         "a cluster's objects say what has happened in words of its API, and those are no errors",
	"internal/house/cmd/typecheck/main.go": "the type checker gives paths only in its messages",
	"internal/glob/find.go":                "io/fs has no type for a file that is not a folder",
	"internal/placed/placed.go":            "the TOML reader puts its name before its errors",
	"internal/sshclient/sshclient.go":      "x/crypto/ssh has no type for a refused key",
	"internal/yamlsource/syntax.go":        "the YAML reader has no types for its errors",
	"local/github/project.go":              "GitHub skips a workflow for words in the message of a commit",
	"internal/projectfile/projectfile.go":  "package os has no type for a path that leads out of a root",
	"local/include/lock.go":                "the TOML reader puts its name before its errors",
	"manager/config/places.go":             "the TOML reader puts its name before its errors",
	"local/repository/open.go":             "git says in words alone what is wrong with a repository",
	"steps/frontend/gitlabsteps/spec.go":   "package regexp puts its name before its errors",
	"steps/signature/private.go":           "pkcs8 has no type for a wrong password",
	"steps/source/federation/parse.go":     "the TOML reader puts its name before its errors",
	"steps/source/lock/lock.go":            "the TOML reader puts its name before its errors",
	"steps/trace/read.go":                  "package json has no type for a text that ends too early",
}

// manyMethods and manyImports are the types and packages that exceed a limit, with the number that they have. A number may only shrink.
var (
	manyMethods = map[string]int{}
	manyImports = map[string]int{}
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
