package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/diag"
)

// registered is a file as `gitlab-runner register` writes it.
const registered = `concurrent = 1
check_interval = 0
connection_max_age = "15m0s"
shutdown_timeout = 0

[session_server]
  session_timeout = 1800

[[runners]]
  name = "build-1"
  url = "https://gitlab.example.com"
  id = 42
  token = "glrt-0123456789abcdefghij"
  token_obtained_at = 2026-01-02T03:04:05Z
  token_expires_at = 0001-01-01T00:00:00Z
  executor = "docker"
  [runners.cache]
    MaxUploadedArchiveSize = 0
    [runners.cache.s3]
    [runners.cache.gcs]
    [runners.cache.azure]
  [runners.docker]
    tls_verify = false
    image = "alpine:3.22"
    privileged = false
    disable_entrypoint_overwrite = false
    oom_kill_disable = false
    disable_cache = false
    volumes = ["/cache"]
    shm_size = 0
    network_mtu = 0
`

func none(string) string { return "" }

func TestAFileThatRegisterWroteIsAllUsed(t *testing.T) {
	t.Parallel()
	r := config.Check("config.toml", []byte(registered), none)
	if len(r.Problems) > 0 || r.Ignored != 0 || r.Used != 22 {
		t.Fatalf("used %d, ignored %d: %v", r.Used, r.Ignored, r.Problems)
	}
	want := &config.Config{
		Path: "config.toml", Concurrent: 1, CheckInterval: 3 * time.Second, ShutdownTimeout: 30 * time.Second, ConnectionMaxAge: 15 * time.Minute,
		SessionServer: config.SessionServer{SessionTimeout: 30 * time.Minute},
		Runners: []config.Runner{{
			Name: "build-1", URL: "https://gitlab.example.com", ID: 42, Token: "glrt-0123456789abcdefghij",
			TokenObtainedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Executor: "docker",
			OutputLimit: 4 << 20, RequestConcurrency: 1, UnhealthyRequestsLimit: 3, UnhealthyInterval: time.Hour, FinalUpdateRetryLimit: 10,
			SlotCgroupTemplate: "gitlab-runner/slot-${slot}",
			Artifact:           config.Artifact{UploadTimeout: time.Hour, ResponseHeaderTimeout: 10 * time.Minute},
			Docker: &config.Docker{
				Image: "alpine:3.22", Volumes: []string{"/cache"}, PullPolicy: []string{"always"}, WaitForServicesTimeout: 30 * time.Second,
				ServiceSlotCgroupTemplate: "gitlab-runner/slot-${slot}",
			},
		}},
	}
	if diff := cmp.Diff(want, r.Config, cmpopts.IgnoreUnexported(config.Config{}, config.Runner{})); diff != "" {
		t.Error(diff)
	}
}

// entry is the beginning of a file with one entry; what is tested follows.
const entry = "[[runners]]\n  url = \"https://gitlab.example.com\"\n  token = \"glrt-0123456789abcdefghij\"\n  executor = \"docker\"\n"

// fleet is one whose machines are made, and autoscaled one with a policy.
var fleet = strings.Replace(entry, "docker", "instance", 1) + "[runners.autoscaler]\n  plugin = \"local\"\n"

var autoscaled = fleet + "[[runners.autoscaler.policy]]\n"

func TestThePoliciesOfAnAutoscalerAreThoseOfTheFleet(t *testing.T) {
	t.Parallel()
	r := config.Check("config.toml", []byte(autoscaled+`  idle_count = 2
  idle_time = "20m"
  scale_factor = 1.5
  scale_factor_limit = 9
[[runners.autoscaler.policy]]
  periods = ["* 8-17 * * mon-fri"]
  timezone = "Europe/Berlin"
  idle_count = 5
  preemptive_mode = false
`), none)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	policies, err := r.Config.Runners[0].Autoscaler.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	night, day := policies.At(time.Date(2026, 1, 12, 23, 0, 0, 0, time.UTC)), policies.At(time.Date(2026, 1, 12, 7, 30, 0, 0, time.UTC))
	if night.IdleCount != 2 || night.IdleTime != 20*time.Minute || night.ScaleFactor != 1.5 || night.ScaleFactorLimit != 9 || !night.Preemptive {
		t.Errorf("at night: %+v", night)
	}
	if day.IdleCount != 5 || day.IdleTime != 0 || day.Preemptive {
		t.Errorf("by day: %+v", day)
	}
}

func TestValuesAreReadAsGitLabRunnerReadsThem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		got  func(*config.Runner) any
		want any
	}{
		"a pull policy":             {"[runners.docker]\npull_policy = \"if-not-present\"", func(r *config.Runner) any { return r.Docker.PullPolicy }, []string{"if-not-present"}},
		"several pull policies":     {"[runners.docker]\npull_policy = [\"always\", \"never\"]", func(r *config.Runner) any { return r.Docker.PullPolicy }, []string{"always", "never"}},
		"a size":                    {"[runners.docker]\nmemory = \"4g\"", func(r *config.Runner) any { return r.Docker.Memory }, int64(4 << 30)},
		"processors":                {"[runners.docker]\ncpus = \"1.5\"", func(r *config.Runner) any { return r.Docker.CPUs }, 1.5},
		"a duration":                {"  unhealthy_interval = \"1h30m\"", func(r *config.Runner) any { return r.UnhealthyInterval }, 90 * time.Minute},
		"a duration in nanoseconds": {"  prepare_timeout = 60000000000", func(r *config.Runner) any { return r.PrepareTimeout }, time.Minute},
		"seconds":                   {"[runners.docker]\nwait_for_services_timeout = 5", func(r *config.Runner) any { return r.Docker.WaitForServicesTimeout }, 5 * time.Second},
		"no waiting for services":   {"[runners.docker]\nwait_for_services_timeout = -1", func(r *config.Runner) any { return r.Docker.WaitForServicesTimeout }, -time.Second},
		"a limit in kilobytes":      {"  output_limit = 8192", func(r *config.Runner) any { return r.OutputLimit }, int64(8 << 20)},
		"options of a plugin":       {"[runners.plugin]\nfile = \"/opt/executor-plugin-wrap.py\"\n[runners.plugin.options]\ncommand = [\"nice\"]\nDeep = { n = 1 }", func(r *config.Runner) any { return *r.Plugin }, config.Plugin{Name: "wrap", File: "/opt/executor-plugin-wrap.py", Options: map[string]any{"command": []any{"nice"}, "Deep": map[string]any{"n": int64(1)}}}},
		"keys in any case":          {"[runners.Docker]\nIMAGE = \"alpine\"", func(r *config.Runner) any { return r.Docker.Image }, "alpine"},
		"cache keys in lower case":  {"[runners.cache]\ntype = \"s3\"", func(r *config.Runner) any { return r.Cache.Type }, "s3"},
		"inline tables":             {"  docker = { image = \"alpine\" }", func(r *config.Runner) any { return r.Docker.Image }, "alpine"},
		"feature flags":             {"[runners.feature_flags]\nFF_X = true", func(r *config.Runner) any { return r.FeatureFlags }, map[string]bool{"FF_X": true}},
		"services":                  {"[[runners.docker.services]]\nname = \"redis\"\nalias = \"r\"", func(r *config.Runner) any { return r.Docker.Services }, []config.Service{{Name: "redis", Alias: "r"}}},
		"devices of services":       {"[runners.docker.services_devices]\n\"redis:*\" = [\"/dev/x\"]", func(r *config.Runner) any { return r.Docker.ServicesDevices }, map[string][]string{"redis:*": {"/dev/x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := config.Check("config.toml", []byte(entry+test.text), none)
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, test.got(&r.Config.Runners[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVariablesOfTheEnvironmentAreInAddressAndToken(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOST": "gitlab.example.com", "TOKEN": "glrt-secret"}
	r := config.Check("", []byte("[[runners]]\nurl = \"https://$HOST/\"\ntoken = \"${TOKEN}\"\nexecutor = \"shell\"\n"), func(n string) string { return env[n] })
	if got := r.Config.Runners[0]; got.URL != "https://gitlab.example.com/" || got.Token != "glrt-secret" {
		t.Errorf("got %q and a token of %d bytes", got.URL, len(got.Token))
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	const networks = `write "none", "public", "all", or hosts and addresses: "example.com:443, *.example.org, 10.1.0.0/16"`
	for name, test := range map[string]struct{ text, want string }{
		"not TOML":                     {"concurrent = \n", `error 1:14 this is not valid TOML: unexpected character U+000A at start of value`},
		"an unknown key":               {"concurent = 2\n", `warning 1:1 unknown key "concurent" (did you mean "concurrent"?)`},
		"an unknown table":             {"[sesion_server]\n", `warning 1:2 unknown key "sesion_server" (did you mean "session_server"?)`},
		"a key of a docker":            {entry + "[runners.docker]\n  imag = \"x\"\n", `warning 6:3 unknown key "imag" (did you mean "image"?)`},
		"a key that is in two tables":  {entry + "[runners.ssh]\n  cache_dir = \"x\"\n", `warning 6:3 unknown key "cache_dir" (it belongs in [[runners]])`},
		"a flag without effect":        {entry + "[runners.feature_flags]\n  FF_TIMESTAMPS = false\n  FF_USE_FASTZIP = true\n", `note 7:3 the feature flag "FF_USE_FASTZIP" has no effect`},
		"a flag with another name":     {entry + "[runners.feature_flags]\n  FF_TIMESTAMP = false\n", `note 6:3 the feature flag "FF_TIMESTAMP" has no effect (did you mean "FF_TIMESTAMPS"?)`},
		"a flag in quotes":             {entry + "[runners.feature_flags]\n  FF_TIMESTAMPS = true\n  FF_X = \"no\"\n", `error 7:10 feature_flags: FF_X must be true or false, not a text (write true or false, without quotes)`},
		"a number among texts":         {entry + "[runners.docker.tmpfs]\n  \"/a.b\" = 3\n", `error 6:12 tmpfs: /a.b must be a text, not a whole number (write it in quotes)`},
		"a mark of an editor":          {"\ufeffconcurent = 2\nzebra = 1\n", `warning 1:1 unknown key "concurent" (did you mean "concurrent"?); warning 2:1 unknown key "zebra" (gitlab-runner ignores it, too: delete it)`},
		"a mark and no TOML":           {"\ufeffconcurrent = \n", `error 1:14 this is not valid TOML: unexpected character U+000A at start of value`},
		"a mark in the middle":         {"concurrent = 1\n\ufeff[[runners]]\n", `error 2:1 this is not valid TOML: invalid character at start of key: U+00EF 'ï'`},
		"a variable that is not set":   {strings.Replace(entry, "https://gitlab.example.com", "$NOWHERE", 1), `warning 2:9 the variable NOWHERE is not set, which url names: without it, the entry cannot ask GitLab for jobs (set it where rung runs, for its service with EnvironmentFile=)`},
		"tags as one text":             {entry + "tags = \"a,b\"\n", `note 5:1 "tags" is ignored: tags belong to the runner on GitLab`},
		"a key in a wrong table":       {entry + "[runners.docker]\n  builds_dir = \"x\"\n  request_concurrency = 1\n  concurrent = 2\n", `warning 6:3 unknown key "builds_dir" (it belongs in [[runners]]); warning 7:3 unknown key "request_concurrency" (it belongs in [[runners]]); warning 8:3 unknown key "concurrent" (it belongs in the lines above all tables)`},
		"tags":                         {entry + "  tags = [\"a\"]\n", `note 5:3 "tags" is ignored: tags belong to the runner on GitLab`},
		"a wrong type":                 {entry + "  limit = \"4\"\n", `error 5:11 limit must be a whole number, not a text`},
		"a number for a size":          {entry + "[runners.docker]\n  memory = 4\n", `error 6:12 memory must be a size, not a whole number (as in "512m" or "4g")`},
		"a size without sense":         {entry + "[runners.docker]\n  memory = \"4 gigs\"\n", `error 6:12 memory: "4 gigs" is not a size (as in "512m" or "4g")`},
		"a list with a number":         {entry + "[runners.docker]\n  volumes = [\"/x\", 3]\n", `error 6:3 volumes must be a list of texts, not a list with other values (as in ["one", "two"])`},
		"a wrong duration":             {entry + "  prepare_timeout = \"soon\"\n", `error 5:21 prepare_timeout: "soon" is not a duration (as in "30s", "10m" or "1h30m")`},
		"a wrong pull policy":          {entry + "[runners.docker]\n  pull_policy = [\"allways\"]\n", `error 6:18 pull_policy cannot be "allways" (did you mean "always"?)`},
		"one bracket":                  {"[runners]\nname = \"x\"\n", `error 1:2 runners must be an array of tables, not a table (write its heading with two brackets)`},
		"a key of long ago":            {entry + "  pre_clone_script = \"x\"\n", `warning 5:3 gitlab-runner has renamed "pre_clone_script", and ignores it (write pre_get_sources_script instead)`},
		"S3 as it was":                 {entry + "[runners.cache]\n  BucketName = \"x\"\n", `warning 6:3 gitlab-runner has renamed "BucketName", and ignores it (write runners.cache.s3.BucketName instead)`},
		"no concurrency":               {"concurrent = 0\n", `warning 1:14 no job runs with concurrent = 0 (write how many jobs may run at once)`},
		"a helper image":               {entry + "[runners.docker]\n  helper_image = \"x\"\n", `note 6:3 "helper_image" is ignored: there is no helper image: the step-runner does its work`},
		"its default":                  {entry + "[runners.docker]\n  helper_image = \"\"\n", ``},
		"an unknown level":             {entry + "[runners.isolation]\n  default = \"sandbx\"\n", `error 6:13 default cannot be "sandbx" (did you mean "sandbox"?)`},
		"a level as minimum":           {entry + "[runners.isolation]\n  minimum = \"vm\"\n", `error 6:13 minimum "vm" is stronger than "container", the default of this entry: no job could run (write a default that is as strong)`},
		"no network policy":            {entry + "[runners.policy]\n  network = \"pubic\"\n", `error 6:13 "pubic" in a network policy is neither none, public, all, nor a host, an address or a range, with :PORT or without (` + networks + `)`},
		"what no policy opens":         {entry + "[runners.policy]\n  network = \"public\"\n  allowed_networks = [\"all\", \"169.254.0.0/16\"]\n", `error 7:30 "169.254.0.0/16" in a network policy: no policy opens 169.254.0.0/16 (link-local) (` + networks + `)`},
		"more beside all":              {entry + "[runners.policy]\n  allowed_networks = [\"all, 10.0.0.0/8\", \"[fd12::1]:0\"]\n", `error 6:23 the network policy "all, 10.0.0.0/8" has more beside none or all, which stand alone (` + networks + `); error 6:42 "[fd12::1]:0" in a network policy: "0" is not a port (` + networks + `)`},
		"network policies":             {entry + "[runners.policy]\n  network = \"none\"\n  allowed_networks = [\"public, 10.1.0.0/16:5432\", \"*.example.com\"]\n", ``},
		"an unknown executor":          {strings.Replace(entry, "docker", "dokcer", 1), `error 4:14 there is no executor "dokcer" (did you mean "docker"?)`},
		"Kubernetes":                   {strings.Replace(entry, "docker", "kubernetes", 1) + "[runners.kubernetes]\n  image = \"x\"\n", ``},
		"Kubernetes, in part":          {strings.Replace(entry, "docker", "kubernetes", 1) + "[runners.kubernetes]\n  helper_image = \"x\"\n  dns_policy = \"nobody\"\n[runners.kubernetes.pod_security_context]\n  supplemental_groups = [1, \"two\"]\n[[runners.kubernetes.volumes.pvc]]\n  name = \"x\"\n  mount_pat = \"/x\"\n", `note 6:3 "helper_image" is ignored: there is no helper container; step_runner_image brings the step-runner; error 7:16 dns_policy cannot be "nobody" (write one of none, default, cluster-first, cluster-first-with-host-net); error 9:3 supplemental_groups must be a list of whole numbers, not a list with other values; warning 12:3 unknown key "mount_pat" (did you mean "mount_path"?)`},
		"an unknown pull policy":       {strings.Replace(entry, "docker", "kubernetes", 1) + "[runners.kubernetes]\n  pull_policy = \"sometimes\"\n  allowed_pull_policies = [\"always\", \"newer\"]\n", `error 6:17 pull_policy cannot be "sometimes" (write one of always, if-not-present, never); error 7:38 allowed_pull_policies cannot be "newer" (did you mean "never"?)`},
		"an unknown effect":            {strings.Replace(entry, "docker", "kubernetes", 1) + "[runners.kubernetes.node_tolerations]\n  \"example.com/gpu=yes\" = \"NoSchedul\"\n  spot = \"\"\n", `error 6:27 node_tolerations cannot be "NoSchedul" (did you mean "NoSchedule"?)`},
		"an unknown propagation":       {strings.Replace(entry, "docker", "kubernetes", 1) + "[runners.kubernetes]\n[[runners.kubernetes.volumes.pvc]]\n  name = \"x\"\n  mount_path = \"/x\"\n  mount_propagation = \"Foo\"\n", `error 9:23 mount_propagation cannot be "Foo" (write one of None, HostToContainer, Bidirectional)`},
		"the images of instances":      {fleet + "[runners.instance]\n  use_common_build_dir = true\n", `note 7:10 "instance" is ignored: virtual machines within machines are always made of vm_isolation.image, and each job has a folder of its own; note 8:3 "use_common_build_dir" is ignored: each job has a folder of its own`},
		"SSH without a host":           {strings.Replace(entry, "docker", "ssh", 1), `warning 4:14 executor "ssh" needs a host (write host in [runners.ssh])`},
		"a driver without run":         {strings.Replace(entry, "docker", "custom", 1), `warning 4:14 executor "custom" needs a program that runs scripts (write run_exec in [runners.custom])`},
		"a plugin without name":        {strings.Replace(entry, "docker", "plugin", 1), `warning 4:14 executor "plugin" needs a plugin (write name or file in [runners.plugin])`},
		"a plugin":                     {strings.Replace(entry, "docker", "plugin", 1) + "[runners.plugin]\n  name = \"wrap\"\n[runners.plugin.options]\n  command = [\"nice\", 3]\n", ``},
		"a plugin not used":            {entry + "[runners.plugin]\n  name = \"wrap\"\n", `warning 5:10 [runners.plugin] is not used by executor "docker" (write executor = "plugin")`},
		"a pin that is none":           {strings.Replace(entry, "docker", "plugin", 1) + "[runners.plugin]\n  name = \"wrap\"\n  sha256 = \"12\"\n", `error 7:12 sha256 must be 64 hexadecimal digits (write what sha256sum prints of the program)`},
		"options that are none":        {strings.Replace(entry, "docker", "plugin", 1) + "[runners.plugin]\n  name = \"wrap\"\n  options = \"nice\"\n", `error 7:13 options must be a table, not a text`},
		"a plugin and a default":       {strings.Replace(entry, "docker", "plugin", 1) + "[runners.plugin]\n  name = \"wrap\"\n[runners.isolation]\n  default = \"none\"\n", `error 8:13 the default of an entry with executor "plugin" is its plugin, not "none" (delete it, or choose another executor)`},
		"a minimum for a plugin":       {strings.Replace(entry, "docker", "plugin", 1) + "[runners.plugin]\n  name = \"wrap\"\n[runners.isolation]\n  minimum = \"vm\"\n", ``},
		"an autoscaler's zone":         {autoscaled + "  timezone = \"Mars\"\n", `error 8:14 there is no time zone "Mars" on this machine (write a name such as Europe/Berlin or UTC)`},
		"an autoscaler's period":       {autoscaled + "  periods = [\"* * *\"]\n", `error 8:3 "* * *" has 3 fields, and an expression of cron has 5 to 7 (write for example "* 9-17 * * mon-fri": minute, hour, day, month, weekday)`},
		"a night":                      {autoscaled + "  periods = [\"* 22-6 * * *\"]\n", ""},
		"a period of no day":           {autoscaled + "  periods = [\"* 8-17 * * *\",\n    \"* * 31 2 *\"]\n", `warning 9:5 the period "* * 31 2 *" never holds: no such day exists (delete it, or write a day that there is)`},
		"years backwards":              {autoscaled + "  periods = [\"* * * * * 2027-2025\"]\n", `error 8:3 "* * * * * 2027-2025" is not an expression of cron: the range "2027-2025" of years ends before it begins (write for example "* 9-17 * * mon-fri": minute, hour, day, month, weekday)`},
		"a queue's period of no day":   {entry + "[[runners.monitoring.job_queuing_durations]]\n  periods = [\"* * 31 4 *\"]\n", `warning 6:14 the period "* * 31 4 *" never holds: no such day exists (delete it, or write a day that there is)`},
		"volumes on shared machines":   {strings.Replace(entry, "docker", "instance", 1) + "[runners.autoscaler]\n  plugin = \"local\"\n  capacity_per_instance = 2\n[runners.fleet]\n  volume = \"per-project\"\n", `warning 9:12 a machine that runs several jobs at once gets no volume, because they are not isolated from each other (write capacity_per_instance = 1)`},
		"volumes of virtual machines":  {strings.Replace(entry, "docker", "instance", 1) + "[runners.autoscaler]\n  plugin = \"local\"\n[runners.autoscaler.vm_isolation]\n  enabled = true\n  image = \"ci\"\n[runners.fleet]\n  volume = \"per-project\"\n", `warning 11:12 jobs in virtual machines within machines get no volumes (delete it)`},
		"an autoscaler's idle time":    {autoscaled + "  idle_time = \"-1m\"\n", `warning 8:15 idle_time cannot be negative: it counts as not set (write a number above 0, or delete the key)`},
		"an autoscaler of no fleet":    {entry + "[runners.autoscaler]\n  plugin = \"local\"\n", `warning 5:10 [runners.autoscaler] is not used by executor "docker" (delete it, or write executor = "instance" or "docker-autoscaler")`},
		"machines of no fleet":         {strings.Replace(entry, "docker", "shell", 1) + "[runners.machine]\n  MachineDriver = \"x\"\n", `warning 5:10 [runners.machine] is not used by executor "shell" (delete it, or write executor = "docker+machine")`},
		"pods of no cluster":           {entry + "[runners.kubernetes]\n  image = \"x\"\n[runners.ssh]\n  host = \"x\"\n[runners.custom]\n  run_exec = \"x\"\n", `warning 5:10 [runners.kubernetes] is not used by executor "docker" (delete it, or write executor = "kubernetes"); warning 7:10 [runners.ssh] is not used by executor "docker" (delete it, or write executor = "ssh"); warning 9:10 [runners.custom] is not used by executor "docker" (delete it, or write executor = "custom")`},
		"tables that say nothing":      {entry + "[runners.autoscaler]\n[runners.machine]\n  IdleCount = 0\n[runners.kubernetes]\n  host = \"\"\n", ``},
		"three sources of machines":    {fleet + "[runners.machine]\n  MachineDriver = \"x\"\n[[runners.provider.hosts]]\n  address = \"x\"\n[runners.fleet]\n  suspend = 1\n", `warning 5:10 [runners.autoscaler] is not used: the machines of this entry come from [runners.provider] (delete one of them); warning 7:10 [runners.machine] is not used by executor "instance" (delete it, or write executor = "docker+machine"); warning 11:10 [runners.fleet] is not used: the machines of this entry come from [runners.provider] (delete one of them)`},
		"buckets that do not grow":     {fleet + "  instance_creation_time_buckets = [5, 1, 3]\n  instance_life_duration_buckets = [1, 1.0]\n", `error 7:40 instance_creation_time_buckets: buckets must grow, and 1 follows 5 (write them in increasing order, each once); error 8:40 instance_life_duration_buckets: buckets must grow, and 1 follows 1 (write them in increasing order, each once)`},
		"buckets without a bound":      {fleet + "  instance_deletion_time_buckets = [1, inf]\n", `error 7:40 instance_deletion_time_buckets: +Inf cannot bound a bucket (delete it: the last bucket has no bound by itself)`},
		"buckets":                      {fleet + "  instance_operation_time_buckets = [0.5, 1, 3]\n", ``},
		"more than a share":            {fleet + "[runners.fleet]\n  worth = 5\n  patience = 1.5\n", `error 8:11 worth must be a number from 0 to 1, not 5 (write for example 0.02); error 9:14 patience must be a number from 0 to 1, not 1.5 (write for example 0.02)`},
		"shares":                       {fleet + "[runners.fleet]\n  worth = 1\n  patience = 0\n  hedge = 1.5\n", ``},
		"no port":                      {fleet + "[runners.autoscaler.connector_config]\n  protocol_port = 99999\n", `error 8:19 there is no port 99999 (write a number from 1 to 65535)`},
		"the last port":                {fleet + "[runners.autoscaler.connector_config]\n  protocol_port = 65535\n", ``},
		"no throttle":                  {fleet + "[runners.autoscaler.scale_throttle]\n  limit = -5\n", `warning 8:11 limit = -5 counts as -1: without a limit (write -1 if that is meant)`},
		"a throttle without limit":     {fleet + "[runners.autoscaler.scale_throttle]\n  limit = -1\n", ``},
		"the systems of pools":         {fleet + "[[runners.fleet.pools]]\n  name = \"a\"\n  os = \"dos\"\n  arch = \"x86_64\"\n[[runners.fleet.pools]]\n  name = \"b\"\n  os = \"Linux\"\n  arch = \"arm64\"\n", `warning 9:8 no machine has os "dos" (write one of aix, darwin, dragonfly, freebsd, illumos, linux, netbsd, openbsd, plan9, solaris, windows); warning 10:10 no machine has arch "x86_64" (did you mean "amd64"?); warning 13:8 no machine has os "Linux" (did you mean "linux"?)`},
		"the systems of needs":         {fleet + "[runners.provider.needs]\n  os = \"macos\"\n[runners.provider.allowed_needs]\n  arch = [\"amd64\", \"aarch64\"]\n", `warning 8:8 no machine has os "macos" (did you mean "darwin"?); warning 10:20 no machine has arch "aarch64" (did you mean "arm64"?)`},
		"slots in one group":           {entry + "  use_slot_cgroups = true\n  slot_cgroup_template = \"ci\"\n", `warning 6:26 slot_cgroup_template has no ${slot}: the jobs of all slots are in one control group (write for example "gitlab-runner/slot-${slot}")`},
		"services in one group":        {entry + "  use_slot_cgroups = true\n  slot_cgroup_template = \"ci/${slot}\"\n[runners.docker]\n  service_slot_cgroup_template = \"ci/services\"\n", `warning 8:34 service_slot_cgroup_template has no ${slot}: the jobs of all slots are in one control group (write for example "gitlab-runner/slot-${slot}")`},
		"a period that is none":        {entry + "[[runners.monitoring.job_queuing_durations]]\n  periods = [\"always\"]\n  timezone = \"Mars\"\n", `error 6:3 "always" has 1 field, and an expression of cron has 5 to 7 (write for example "* * 9-17 * * mon-fri *": second, minute, hour, day, month, weekday, year); error 7:14 there is no time zone "Mars" on this machine (write a name such as Europe/Berlin or UTC)`},
		"no address, no token":         {"[[runners]]\n  executor = \"shell\"\n", "warning 1:3 this entry has no token, and cannot ask GitLab for jobs (see `rung register`); warning 1:3 this entry has no url, and cannot ask GitLab for jobs (see `rung register`)"},
		"the second entry":             {entry + strings.Replace(entry, "0123", "1123", 1) + "  limit = true\n", `error 9:11 limit must be a whole number, not true or false`},
		"an entry of an array":         {entry + "[[runners.docker.services]]\n[[runners.docker.services]]\n  nam = \"x\"\n", `warning 7:3 unknown key "nam" (did you mean "name"?)`},
		"an address without scheme":    {strings.Replace(entry, "https://", "", 1), `error 2:9 the url of GitLab must begin with https:// or http://, and have a host (write for example "https://gitlab.example.com")`},
		"a collector without scheme":   {"[opentelemetry]\n  endpoint = \"localhost:4317\"\n", `warning 2:14 the endpoint must begin with http:// or https://: nothing is sent to "localhost:4317" (write for example "http://localhost:4318")`},
		"a port alone":                 {"listen_address = \"9252\"\n", `warning 1:18 listen_address must be HOST:PORT: metrics are not served at "9252" (write for example "127.0.0.1:9252" or ":9252")`},
		"a port by its name":           {"listen_address = \":http\"\n", ``},
		"terminals that are not found": {"[session_server]\n  listen_address = \"0.0.0.0:8093\"\n", `warning 2:20 GitLab cannot reach "0.0.0.0:8093": jobs have no terminals (write advertise_address = "HOST:PORT", by which GitLab reaches this machine)`},
		"terminals that are found":     {"[session_server]\n  listen_address = \"0.0.0.0:8093\"\n  advertise_address = \"ci.example.com:8093\"\n", ``},
		"terminals without a port":     {"[session_server]\n  listen_address = \"0.0.0.0\"\n", `warning 2:20 listen_address must be HOST:PORT: there are no terminals at "0.0.0.0" (write for example ":8093")`},
		"variables that are none":      {entry + "  environment = [\"A\", \"B=\", \"=x\"]\n", `warning 5:18 environment: part 1 is not NAME=VALUE, and is ignored (write "NAME=VALUE"); warning 5:29 environment: part 3 is not NAME=VALUE, and is ignored (write "NAME=VALUE")`},
		"a negative limit":             {entry + "  limit = -1\n", `warning 5:11 limit cannot be negative: it counts as not set (write a number above 0, or delete the key)`},
		"a negative time":              {"shutdown_timeout = -1\n", `warning 1:20 shutdown_timeout cannot be negative: it counts as not set (write a number above 0, or delete the key)`},
		"negative requests":            {entry + "  request_concurrency = -2\n", `warning 5:25 request_concurrency cannot be negative: it counts as not set (write a number above 0, or delete the key)`},
		"negative where it means":      {entry + "[runners.docker]\n  services_limit = -1\n  wait_for_services_timeout = -1\n  oom_score_adjust = -500\n", ``},
		"an empty volume":              {entry + "[runners.docker]\n  volumes = [\"/x\", \"\"]\n", `warning 6:20 volumes: part 2 is empty, and is ignored (delete it)`},
		"one token in two entries":     {entry + entry, `warning 7:11 this is the token of the entry in line 1, too: GitLab takes both for one runner (register a runner of its own)`},
		"one token of two servers":     {entry + strings.Replace(entry, "gitlab.", "git.", 1), ``},
		"a relative folder of pods":    {strings.Replace(entry, "docker", "kubernetes", 1) + "  builds_dir = \"builds\"\n", `error 5:16 builds_dir "builds" cannot be the folder of projects in a pod (write the absolute path of a folder)`},
		"a relative folder":            {strings.Replace(entry, "docker", "shell", 1) + "  builds_dir = \"builds\"\n", `error 5:16 builds_dir "builds" is relative, and jobs have no folder that it could begin in (write an absolute path)`},
		"limits without a level":       {strings.Replace(entry, "docker", "shell", 1) + "[runners.policy]\n  memory = \"1g\"\n", `warning 5:10 memory, processes and cpus cannot be limited on level none: the jobs of this entry are refused (write default = "cgroup" (Linux) in [runners.isolation], or leave the limits out)`},
		"limits with a level":          {strings.Replace(entry, "docker", "shell", 1) + "[runners.policy]\n  memory = \"1g\"\n[runners.isolation]\n  default = \"cgroup\"\n", ``},
		"what nobody has known":        {"zebra = 1\n", `warning 1:1 unknown key "zebra" (gitlab-runner ignores it, too: delete it)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range config.Check("config.toml", []byte(test.text), none).Problems {
				level := "error"
				if p.Warning {
					level = "warning"
				} else if p.Note {
					level = "note"
				}
				text := fmt.Sprintf("%s %d:%d %s", level, p.Line, p.Column, p.Message)
				if p.Hint != "" {
					text += " (" + p.Hint + ")"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "; ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKeysOfTablesThatNothingReadsAreNotUsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		entry: {3, 0},
		entry + "[runners.autoscaler]\n  plugin = \"local\"\n  [runners.autoscaler.connector_config]\n    os = \"linux\"\n": {3, 2},
		fleet: {4, 0},
		fleet + "[[runners.provider.hosts]]\n  address = \"x\"\n[[runners.fleet.pools]]\n  name = \"a\"\n": {4, 2},
		entry + "[runners.plugin]\n  name = \"wrap\"\n":                                                    {3, 1},
	} {
		if r := config.Check("config.toml", []byte(text), none); [2]int{r.Used, r.Ignored} != want {
			t.Errorf("%s: %d keys are used, and %d not", text, r.Used, r.Ignored)
		}
	}
}

func TestWhatIsWrongWithAnEntryLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	r := config.Check("config.toml", []byte(entry+"[runners.docker]\n  cpus = \"two\"\n  memory = 3\n"+entry), none)
	if r.Err() == nil || r.Unusable() != nil || len(r.Config.Runners) != 2 {
		t.Fatalf("errors %v, unusable %v", r.Err(), r.Unusable())
	}
	var invalid *config.InvalidError
	if _, err := r.Config.Runners[0].Levels(); !errors.As(err, &invalid) || err.Error() != `line 6 of the configuration: cpus: "two" is not a number of processors` {
		t.Errorf("the first entry: %v", err)
	}
	if _, err := r.Config.Runners[1].Levels(); err != nil {
		t.Errorf("the second entry: %v", err)
	}
	for _, text := range []string{"concurrent = \"many\"\n" + entry, "runners = 3\n", "runners = [3]\n"} {
		if r := config.Check("config.toml", []byte(text), none); r.Unusable() == nil || r.Config != nil {
			t.Errorf("%q can be used", text)
		}
	}
}

func TestNoFileIsTooWrong(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&text, "zebra%d = 1\n", i)
	}
	r := config.Check("", []byte("limit = 1\nconcurrent = \"x\"\n"+text.String()), none)
	if n := len(r.Problems); n < config.MaxProblems || n > config.MaxProblems+1 || r.Err() == nil || r.Config != nil {
		t.Errorf("%d problems, %v", n, r.Err())
	}
}

func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`token = "hush" x`, `token = hush`, `SecretKey = hush`, `password = hush`, `environment = ["API_TOKEN=hush", 1]`, `sentry_dsn = hush`,
		`url = "https://user:hush@gitlab.example.com" x`, `AccountKey = 'hush' 1`, `PrivateKey = 'hush' 1`, `tokn = "glrt-hush"`,
	} {
		text := "[[runners]]\n" + line + "\n"
		for _, p := range config.Check("", []byte(text), none).Problems {
			if strings.Contains(p.Render(), "hush") {
				t.Errorf("%s: %s", line, p.Render())
			}
		}
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		executor  string
		isolation config.Isolation
		want      config.Levels
		refused   bool
	}{
		"shell":            {"shell", config.Isolation{}, config.Levels{Default: "none", Minimum: "none", Allowed: []executor.Level{"none"}}, false},
		"docker":           {"docker", config.Isolation{}, config.Levels{Default: "container", Minimum: "container", Allowed: []executor.Level{"container"}}, false},
		"our own":          {"docker", config.Isolation{Default: "sandbox"}, config.Levels{Default: "sandbox", Minimum: "sandbox", Allowed: []executor.Level{"sandbox"}}, false},
		"a plugin":         {"plugin", config.Isolation{Minimum: "container", Allowed: []string{"none", "sandbox"}}, config.Levels{Default: "plugin", Minimum: "container", Allowed: []executor.Level{"sandbox", "plugin"}}, false},
		"a choice":         {"docker", config.Isolation{Allowed: []string{"sandbox", "none"}}, config.Levels{Default: "container", Minimum: "none", Allowed: []executor.Level{"sandbox", "none", "container"}}, false},
		"bounded by a min": {"docker", config.Isolation{Allowed: []string{"sandbox", "none"}, Minimum: "container"}, config.Levels{Default: "container", Minimum: "container", Allowed: []executor.Level{"sandbox", "container"}}, false},
		"kubernetes":       {"kubernetes", config.Isolation{}, config.Levels{Default: "container", Minimum: "container", Allowed: []executor.Level{"container"}}, false},
		"nobody's":         {"parallels", config.Isolation{}, config.Levels{}, true},
		"a mistake":        {"shel", config.Isolation{}, config.Levels{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := config.Runner{Executor: test.executor, Isolation: test.isolation}
			got, err := r.Levels()
			var refused *config.RefusedError
			if errors.As(err, &refused) != test.refused {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAJobGetsNoLevelThatItsRunnerDoesNotAllow(t *testing.T) {
	t.Parallel()
	r := config.Runner{Executor: "docker", Isolation: config.Isolation{Minimum: "container", Allowed: []string{"sandbox"}}}
	levels, err := r.Levels()
	if err != nil {
		t.Fatal(err)
	}
	for level, want := range map[executor.Level]string{
		"container": "", "sandbox": "", "none": "runners.isolation.minimum", "vm": "runners.isolation.allowed",
	} {
		if err := levels.Permit(level); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", level, err)
		}
	}
}

// opened is a level of a plugin that says how strong it is.
type opened struct {
	executor.Executor
	rank executor.Level
}

func (o opened) Level() executor.Level { return "wrap" }
func (o opened) Rank() int             { return o.rank.Rank() }

func TestAPluginIsAsStrongAsItSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ minimum, says, want string }{
		{"", "", ""}, {"", "vm", ""}, {"none", "", ""}, {"container", "container", ""}, {"container", "vm", ""},
		{"cgroup", "", `isolation level "wrap" is weaker than "cgroup"`}, {"sandbox", "container", "runners.isolation.minimum"},
	} {
		r := config.Runner{Executor: config.PluginExecutor, Isolation: config.Isolation{Minimum: c.minimum}}
		levels, err := r.Levels()
		if err != nil {
			t.Fatal(err)
		}
		err = levels.Admit(opened{rank: executor.Level(c.says)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("minimum %q, rank %q: %v", c.minimum, c.says, err)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "32": 32, "32b": 32, "32B": 32, "32k": 32 << 10, "32K": 32 << 10, "32kb": 32 << 10, "32Kib": 32 << 10, "4m": 4 << 20, "4g": 4 << 30,
		"1.5g": 3 << 29, "2t": 2 << 40, "1p": 1 << 50, "32 kB": 32 << 10,
		"": -1, "g": -1, "-4g": -1, "4x": -1, "4gg": -1, "4 g b": -1, "hello": -1, "1e300p": -1, "nan": -1, "4bk": -1,
	} {
		got, err := config.ParseSize(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestShortTokens(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"glrt-0123456789abcdefghij":             "01234567",
		"glrt-t1_0123456789abcdefghij":          "01234567",
		"GR13489410123456789abcdefghij":         "01234567",
		"0123456789abcdefghij":                  "01234567",
		"short":                                 "*****",
		"glrt-0123456789":                       "********",
		"":                                      "",
		"glrtr-0123456789abcdefghij0123456789x": "01234567",
	} {
		if got := config.Short(token); got != want {
			t.Errorf("%q: %q", token, got)
		}
	}
}

func TestAReadableTokenIsAWarning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	for mode, want := range map[fs.FileMode]int{0o600: 0, 0o640: 1, 0o644: 1, 0o400: 0} {
		write(t, path, registered)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		r, err := config.Lint(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Problems) != want {
			t.Errorf("%o: %v", mode, r.Problems)
		}
		_ = os.Remove(path)
	}
}

func TestReadSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	write(t, path, "concurrent = \"4\"\ncheck_interval = \"3s\"\n")
	_, err := config.Read(path)
	if list := diag.Of(err); len(list) != 2 {
		t.Errorf("got %v", err)
	}
	if c, err := config.Read(path + "x"); !errors.Is(err, fs.ErrNotExist) || c == nil || c.Concurrent != 1 {
		t.Errorf("without a file: %v, %v", c, err)
	}
}

func TestTheSystemID(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "config.toml")
	id, err := config.SystemID(path)
	if err != nil || !regexp.MustCompile(`^(s_[0-9a-f]{12}|r_[0-9a-zA-Z]{12})$`).MatchString(id) {
		t.Fatalf("%q, %v", id, err)
	}
	if again, err := config.SystemID(path); err != nil || again != id {
		t.Errorf("%q, then %q, %v", id, again, err)
	}
	kept := filepath.Join(filepath.Dir(path), ".runner_system_id")
	write(t, kept, "s_AbCdEf012345\n")
	if id, err := config.SystemID(path); err != nil || id != "s_AbCdEf012345" {
		t.Errorf("one that is kept: %q, %v", id, err)
	}
	write(t, kept, "nonsense")
	if again, err := config.SystemID(path); err != nil || again[1] != '_' || len(again) != 14 {
		t.Errorf("one that is damaged: %q, %v", again, err)
	}
}

func TestAChangeIsNoticedAndAMistakeLeavesTheOldConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	write(t, path, registered)
	w, c, err := config.Watch(path)
	if err != nil || c.Concurrent != 1 {
		t.Fatal(c, err)
	}
	if c, err := w.Changed(); c != nil || err != nil {
		t.Errorf("nothing has changed: %v, %v", c, err)
	}
	write(t, path, strings.Replace(registered, "concurrent = 1", "concurrent = 20", 1))
	if c, err := w.Changed(); err != nil || c == nil || c.Concurrent != 20 {
		t.Errorf("changed: %v, %v", c, err)
	}
	write(t, path, "concurrent = ")
	if c, err := w.Changed(); err == nil || c != nil {
		t.Errorf("broken: %v, %v", c, err)
	}
	if c, err := w.Changed(); err != nil || c != nil {
		t.Errorf("an error is told once: %v, %v", c, err)
	}
	_ = os.Remove(path)
	if _, err := w.Changed(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	write(t, path, registered)
	if c, err := w.Changed(); err != nil || c == nil {
		t.Errorf("back: %v, %v", c, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCacheNamespace has the forms of gitlab-runner's TestShortenToken (helpers/shorten_token_test.go): caches are found by these names.
func TestCacheNamespace(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"short": "short", "veryverylongtoken": "veryveryl", "glrt-t3_veryverylongtoken": "veryveryl", "t2_veryverylongtoken": "veryveryl", "glrtr-tokenrocks": "tokenrock",
		"GR1348941abcdefghijkl": "abcdefghi", "glcbt-veryverylong": "veryveryl", "glrt-veryverylongtoken": "veryveryl", "glrt-t4_token": "t4_token", "": "",
		"t1_veryverylongtoken": "veryveryl", "t4_veryverylongtoken": "t4_veryve", "glrtr-t1_veryverylong": "t1_veryve", "glcbt-t2_veryverylong": "t2_veryve", "GR134894-abcdefghijkl": "GR134894-",
	} {
		if got := (&config.Runner{Token: token}).CacheNamespace(); got != want {
			t.Errorf("%q: got %q, want %q", token, got, want)
		}
	}
}

func TestWhoseJobsRunAsRoot(t *testing.T) {
	t.Parallel()
	shell := strings.Replace(entry, "docker", "shell", 1)
	for name, test := range map[string]struct {
		text  string
		root  bool
		wants string
	}{
		"a shell":                 {shell, true, ""},
		"a shell of another user": {"user = \"ci\"\n" + shell, false, "ci"},
		"a shell, on purpose":     {"user = \"root\"\n" + shell, false, "root"},
		"containers":              {entry, false, ""},
		"containers or none":      {entry + "[runners.isolation]\n  allowed = [\"none\"]\n", true, ""},
		"a shell in a sandbox":    {shell + "[runners.isolation]\n  default = \"sandbox\"\n", false, ""},
		"another machine":         {"user = \"ci\"\n" + strings.Replace(entry, "docker", "ssh", 1) + "[runners.ssh]\n  host = \"h\"\n", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Check("config.toml", []byte(test.text), none).Config
			if warned := len(config.AsRoot(c)) > 0; warned != (test.root && os.Geteuid() == 0) {
				t.Errorf("warned %v", warned)
			}
			if c.Runners[0].User != test.wants {
				t.Errorf("the user is %q", c.Runners[0].User)
			}
		})
	}
}

func TestWhichJobsAnotherHostReaches(t *testing.T) {
	docker := func(host string) *config.Runner {
		return &config.Runner{Executor: "docker", Docker: &config.Docker{Host: host}}
	}
	for name, c := range map[string]struct {
		runner *config.Runner
		level  executor.Level
		want   bool
	}{
		"pods":                     {&config.Runner{Executor: "kubernetes"}, executor.Sandbox, true},
		"machines of a fleet":      {&config.Runner{Executor: "instance", Provider: &config.Provider{Machinery: &config.Machinery{}}}, executor.None, true},
		"hosts that it names":      {&config.Runner{Executor: "instance", Provider: &config.Provider{}}, executor.None, false},
		"an engine by SSH":         {docker("ssh://ci@host"), executor.Container, true},
		"an engine by TLS":         {docker("tcp://host:2376"), executor.Container, true},
		"beside an engine by TLS":  {docker("tcp://host:2376"), executor.Sandbox, false},
		"an engine of this host":   {docker("unix:///var/run/docker.sock"), executor.Container, false},
		"processes":                {&config.Runner{Executor: "shell"}, executor.None, false},
		"processes, and an engine": {&config.Runner{Executor: "shell", Docker: &config.Docker{Host: "tcp://host:2376"}}, executor.Container, false},
	} {
		if got := c.runner.Apart(c.level); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A shell that the steps of jobs do not know would fail every job.
func TestAShellThatNoJobCanHave(t *testing.T) {
	t.Parallel()
	text := "[[runners]]\nname = \"a\"\nurl = \"https://gitlab.example.com\"\ntoken = \"glrt-x\"\nexecutor = \"shell\"\nshell = \"zsh\"\n"
	r := config.Check("", []byte(text), none)
	if len(r.Problems) == 0 || !strings.Contains(r.Problems[0].Render(), `shell cannot be "zsh"`) {
		t.Errorf("%v", r.Problems)
	}
}
