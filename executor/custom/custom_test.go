//go:build unix

package custom_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/custom"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/ledger"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// shown is what a job's log gets while its place is made.
type shown struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shown) report(p event.Preparing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Message != "" {
		s.text.WriteString(p.Message + "\n")
	}
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// opened is the level with a driver, and the folder where everything of it is.
type opened struct {
	*custom.Executor
	dir string
}

// open opens the level. env is added to this program's environment; the program of a step-runner is built when it is needed.
func open(t *testing.T, o custom.Options, env ...string) *opened {
	t.Helper()
	dir, err := os.MkdirTemp("", "rung-test-")
	if err != nil {
		t.Fatal(err)
	}
	if o.BuildsDir == "" {
		o.BuildsDir = filepath.Join(dir, "builds")
	}
	e, err := custom.New(t.Context(), executor.Setup{
		Program: func(string, string) (string, error) { return executortest.Program() }, State: filepath.Join(dir, "state"), Temp: dir,
		Env: append(append(os.Environ(), cache()), env...), Lease: executor.Lease{Owner: "test", Keep: time.Hour},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "custom-executor*")); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		_ = os.RemoveAll(dir)
	})
	return &opened{e, dir}
}

// program writes a program of a driver.
func program(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "driver")
	if err := os.WriteFile(file, []byte("#!/usr/bin/env bash\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// testdata is the path of a driver's program.
func testdata(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a script in an environment and returns its log.
func run(t *testing.T, env executor.Environment, text string) (string, error) {
	t.Helper()
	c, err := client.Dial("environment", client.WithDialer(env.Connect))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Disconnect() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log bytes.Buffer
	_, err = c.Execute(ctx, client.Request{ID: "run", Text: "- script: |\n    " + strings.ReplaceAll(text, "\n", "\n    "), WorkDir: env.Layout().Project}, &log)
	return log.String(), err
}

func closed(t *testing.T, env executor.Environment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := env.Close(ctx); err != nil {
		t.Error(err)
	}
}

// facts are a job as a manager describes it.
func facts(id string) *executor.Job {
	return &executor.Job{
		ID: id, ProjectName: "project", Masked: []string{"hunter2hunter2"},
		Variables: map[string]string{"CI_JOB_ID": "17", "CI_RUNNER_ID": "3", "CI_PROJECT_ID": "5", "CI_CONCURRENT_PROJECT_ID": "0"},
		Driver: &executor.DriverFacts{
			Variables: func(builds string) map[string]string {
				return map[string]string{
					"CI_JOB_ID": "17", "CI_RUNNER_ID": "3", "CI_PROJECT_ID": "5", "CI_CONCURRENT_PROJECT_ID": "0", "SECRET": "hunter2hunter2",
					"PATH": "/nowhere", "BUILD_FAILURE_EXIT_CODE": "77", "CI_JOB_SERVICES": `[{"name":"redis"}]`, "A_FILE": builds + "/A_FILE",
				}
			},
			Response: []byte(`{"id":17,"token":"glcbt-token"}`),
		},
	}
}

// stages reads which stages a driver was called for.
func stages(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// allStages are those that a driver sees of a job.
var allStages = []string{"prepare_script", "build_script", "after_script", "cleanup_file_variables"}

func TestADriverInTheShapeOfTheLXDExample(t *testing.T) {
	containers := t.TempDir()
	list := filepath.Join(t.TempDir(), "stages")
	l := open(t, custom.Options{
		Driver:    custom.Driver{PrepareExec: testdata(t, "lxd/prepare"), RunExec: testdata(t, "lxd/run"), CleanupExec: testdata(t, "lxd/cleanup")},
		BuildsDir: filepath.Join(containers, "builds"),
	}, "PATH="+testdata(t, "stand-ins")+":"+os.Getenv("PATH"), "CONTAINERS="+containers, "STAGES="+list)
	tryPlace(t, l, list, filepath.Join(containers, "runner-3-project-5-concurrent-0-17"))
}

func TestADriverInTheShapeOfTheLibvirtExample(t *testing.T) {
	enginetest.Program(t, "ssh")
	s := hosttest.StartSSHD(t)
	user, address, _ := strings.Cut(s.Address, "@")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	images := t.TempDir()
	list := filepath.Join(t.TempDir(), "stages")
	l := open(t, custom.Options{
		Driver:    custom.Driver{PrepareExec: testdata(t, "libvirt/prepare"), RunExec: testdata(t, "libvirt/run"), CleanupExec: testdata(t, "libvirt/cleanup")},
		BuildsDir: filepath.Join(s.Home, "builds"),
	}, "PATH="+testdata(t, "stand-ins")+":"+os.Getenv("PATH"), "IMAGES="+images, "STAGES="+list, "VM_USER="+user, "VM_PORT="+port, "VM_KEY="+s.Key)
	tryPlace(t, l, list, filepath.Join(images, "runner-3-project-5-concurrent-0-job-17.qcow2"))
}

// tryPlace runs a job in the place of a driver. made exists while the place does.
func tryPlace(t *testing.T, l *opened, list, made string) {
	t.Helper()
	log := &shown{}
	env, err := l.Prepare(t.Context(), facts("job-17"), log.report)
	if err != nil {
		t.Fatalf("%v; its log:\n%s", err, log)
	}
	defer closed(t, env)
	if _, err := os.Stat(made); err != nil {
		t.Errorf("the place is not made: %v", err)
	}
	out, err := run(t, env, `echo "home is $HOME, secret is ${CUSTOM_ENV_SECRET-unknown}"; cat; echo end`)
	if err != nil || !strings.Contains(out, "secret is unknown") || !strings.HasSuffix(out, "end\n") {
		t.Errorf("the job ends with %v; its log:\n%s", err, out)
	}
	_, err = run(t, env, "exit 42")
	if failure := (*client.StepFailure)(nil); !errors.As(err, &failure) || failure.ExitCode != 42 {
		t.Errorf("a job that fails ends with %v", err)
	}
	began := time.Now()
	out, err = run(t, env, "head -c 5000000 /dev/zero | tr '\\0' x | fold -w 100")
	if err != nil || strings.Count(out, "x") != 5000000 {
		t.Errorf("of a log of 5 MB come %d bytes (%v)", len(out), err)
	}
	t.Logf("5 MB of log took %s", time.Since(began))
	closed(t, env)
	if diff := cmp.Diff(allStages, stages(t, list)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the place is still there: %v", err)
	}
}

func TestWaysInWhichDriversRunScripts(t *testing.T) {
	for name, text := range map[string]string{
		"from their input":              `bash <"$1"`,
		"as a file":                     `bash "$1"`,
		"through a pipe":                `cat "$1" | bash`,
		"with a shell that is not bash": `sh <"$1"`,
		"with noise":                    `echo "noise of $2"; echo more >&2; printf 'no end of line'; bash <"$1" | cat; echo "end of noise"`,
		"with lines as on a terminal":   `bash <"$1" | sed -u 's/$/\r/'`,
		"with times before lines":       `bash <"$1" | while IFS= read -r line; do echo "12:00 $line"; done`,
		"in a shell that traces":        `bash -x <"$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &shown{}
			l := open(t, custom.Options{Driver: custom.Driver{RunExec: program(t, text)}})
			env, err := l.Prepare(t.Context(), facts("job-1"), log.report)
			if err != nil {
				t.Fatalf("%v; its log:\n%s", err, log)
			}
			defer closed(t, env)
			if out, err := run(t, env, "echo it runs"); err != nil || out != "it runs\n" {
				t.Errorf("the job ends with %v; its log:\n%s", err, out)
			}
			if name == "with noise" && !strings.Contains(log.String(), "noise of prepare_script\n") {
				t.Errorf("the driver's output is not in the log:\n%s", log)
			}
		})
	}
}

func TestWhatADriverIsTold(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	text := fmt.Sprintf(`{ echo "[$*]"; env; cat "$JOB_RESPONSE_FILE"; stat -c 'mode %%a' "$JOB_RESPONSE_FILE"; pwd; } >>%s; `, told)
	config := `{"builds_dir": "` + t.TempDir() + `", "cache_dir": "/cache-of-job", "builds_dir_is_shared": true, "hostname": "h", "shell": "bash", "unknown": [1],
		"driver": {"name": "test driver", "version": "v0.0.1"}, "job_env": {"FROM_CONFIG": "yes", "CUSTOM_ENV_SECRET": "not this", "TMPDIR": "/not/this"}}`
	log := &shown{}
	l := open(t, custom.Options{CacheDir: "/cache", Driver: custom.Driver{
		ConfigExec: program(t, text+"cat <<'E'\n"+config+"\nE\necho for people >&2"), ConfigArgs: []string{"config", "a b"},
		PrepareExec: program(t, text+`echo "the secret is $CUSTOM_ENV_SECRET"`), PrepareArgs: []string{"prepare"},
		RunExec: program(t, text+`bash <"$3"`), RunArgs: []string{"run", "x"},
		CleanupExec: program(t, text), CleanupArgs: []string{"cleanup"},
	}}, "OF_THE_RUNNER=yes")
	env, err := l.Prepare(t.Context(), facts("job-17"), log.report)
	if err != nil {
		t.Fatalf("%v; its log:\n%s", err, log)
	}
	project := env.Layout().Project
	closed(t, env)
	read, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	calls := strings.Split(string(read), "\n[")
	if len(calls) != 7 {
		t.Fatalf("the driver was called %d times:\n%s", len(calls), read)
	}
	for i, begins := range []string{"[config a b]\n", "prepare]\n", "run x ", "run x ", "run x ", "run x ", "cleanup]\n"} {
		if !strings.HasPrefix(calls[i], begins) {
			t.Errorf("call %d begins with %.40q, not %q", i, calls[i], begins)
		}
		lines := strings.Split(calls[i], "\n")
		want := []string{
			"CUSTOM_ENV_CI_JOB_ID=17", "CUSTOM_ENV_SECRET=hunter2hunter2", "CUSTOM_ENV_PATH=/nowhere", "CUSTOM_ENV_BUILD_FAILURE_EXIT_CODE=77",
			`CUSTOM_ENV_CI_JOB_SERVICES=[{"name":"redis"}]`, "BUILD_FAILURE_EXIT_CODE=1", "SYSTEM_FAILURE_EXIT_CODE=2", "OF_THE_RUNNER=yes",
			`{"id":17,"token":"glcbt-token"}mode 600`,
		}
		if i > 0 {
			want = append(want, "FROM_CONFIG=yes", "CUSTOM_ENV_CI_PROJECT_DIR="+project, "CUSTOM_ENV_CI_BUILDS_DIR="+filepath.Dir(filepath.Dir(project)), "CUSTOM_ENV_A_FILE="+filepath.Dir(filepath.Dir(project))+"/A_FILE")
		}
		for _, line := range want {
			if !slices.Contains(lines, line) {
				t.Errorf("call %d is not told %s", i, line)
			}
		}
		if dir := lines[len(lines)-1]; i < 6 && !slices.Contains(lines, "TMPDIR="+dir) {
			t.Errorf("call %d works in %s, which is not its TMPDIR", i, dir)
		}
	}
	for _, want := range []string{"Using custom executor with driver test driver v0.0.1...\n", "for people\n", "the secret is [MASKED]\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
}

func TestDriversThatFail(t *testing.T) {
	runs := `bash <"$1"`
	for _, c := range []struct {
		name   string
		driver map[string]string // its programs
		want   string
		ofJob  bool
		calls  int // of the program that fails
	}{
		{"config says that the job is wrong", map[string]string{"config": `exit $BUILD_FAILURE_EXIT_CODE`}, "config_exec of the driver says that the job has failed", true, 1},
		{"config fails", map[string]string{"config": `exit $SYSTEM_FAILURE_EXIT_CODE`}, "the job is not the reason (exit code 2", false, 3},
		{"config prints no JSON", map[string]string{"config": `echo '{"builds_dir": }'`}, `has printed "{\"builds_dir\": }\n", which is not its configuration`, false, 3},
		{"config prints without end", map[string]string{"config": `yes | head -c 5000000`}, "more than 1048576 bytes", false, 3},
		{"config prints another type", map[string]string{"config": `echo '{"builds_dir": 1}'`}, "not its configuration in JSON", false, 3},
		{"config names a folder that is none", map[string]string{"config": `echo '{"builds_dir": "builds"}'`}, `has "builds"`, false, 1},
		{"config names a shell that we do not have", map[string]string{"config": `echo '{"shell": "pwsh"}'`}, `"pwsh"`, false, 1},
		{"prepare fails", map[string]string{"prepare": `exit $SYSTEM_FAILURE_EXIT_CODE`}, "prepare_exec of the driver failed", false, 3},
		{"prepare blames the job", map[string]string{"prepare": `exit $BUILD_FAILURE_EXIT_CODE`}, "says that the job has failed", true, 1},
		{"prepare gives the exit code of a job", map[string]string{"prepare": `echo 33 >$BUILD_EXIT_CODE_FILE; exit $BUILD_FAILURE_EXIT_CODE`}, "exit code 33", true, 1},
		{"prepare gives an exit code that is none", map[string]string{"prepare": `echo x33 >$BUILD_EXIT_CODE_FILE; exit $BUILD_FAILURE_EXIT_CODE`}, `"x33"`, false, 3},
		{"prepare ends with a code that means nothing", map[string]string{"prepare": `exit 5`}, "unknown exit code 5", false, 3},
		{"prepare is killed", map[string]string{"prepare": `kill -9 $$`}, "signal: killed", false, 3},
		{"prepare hangs", map[string]string{"prepare": `sleep 600`}, "prepare_exec of the driver has not ended within 2s", false, 3},
		{"prepare does not even end when it is told to", map[string]string{"prepare": `trap '' TERM; sleep 600 & wait; sleep 600`}, "has not ended within 2s", false, 3},
		{"run does not run anything", map[string]string{"run": `exit 0`}, "has not run its script", false, 3},
		{"run prints nothing of it", map[string]string{"run": `bash <"$1" >/dev/null`}, "has not run its script", false, 3},
		{"run lies", map[string]string{"run": `echo '@rung-X:hello Linux x86_64'; echo '@rung-X:ready'`}, "has not run its script", false, 3},
		{"run opens its script again when that has ended", map[string]string{"run": `ln "$1" "$1.again"; cat "$1" >/dev/null; bash "$1.again"`}, "it waits for the end of the script", false, 6},
		{"run is no program", map[string]string{"run": ""}, "cannot be started", false, 3},
		{"run fails at the job", map[string]string{"run": `[ "$2" != build_script ] || exit $SYSTEM_FAILURE_EXIT_CODE; ` + runs}, "run_exec (build_script) of the driver", false, 3},
		{"run blames the job at once", map[string]string{"run": `[ "$2" != build_script ] || { echo 7 >$BUILD_EXIT_CODE_FILE; exit $BUILD_FAILURE_EXIT_CODE; }; ` + runs}, "exit code 7", true, 1},
		{"run damages what it hands on", map[string]string{"run": `[ "$2" != build_script ] || { bash <"$1" | sed -u 's/:=..../:=!!!!/'; exit; }; ` + runs}, "not what was written", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			count := filepath.Join(t.TempDir(), "calls")
			files := map[string]string{}
			for _, name := range []string{"config", "prepare", "run"} {
				text, given := c.driver[name]
				switch {
				case given && text == "":
					files[name] = filepath.Join(t.TempDir(), "missing")
				case given:
					files[name] = program(t, "echo >>"+count+"\n"+text)
				case name == "run":
					files[name] = program(t, runs)
				}
			}
			cleaned := filepath.Join(t.TempDir(), "cleaned")
			within := time.Minute
			if strings.HasSuffix(c.want, "within 2s") { // of which env and a shell need some
				within = 2 * time.Second
			}
			l := open(t, custom.Options{Driver: custom.Driver{
				ConfigExec: files["config"], PrepareExec: files["prepare"], RunExec: files["run"], CleanupExec: program(t, "echo >>"+cleaned+"; exit 1"),
				PrepareTimeout: within, GracefulKill: 200 * time.Millisecond, ForceKill: 5 * time.Second,
			}})
			log := &shown{}
			env, err := l.Prepare(t.Context(), facts("job-1"), log.report)
			if err == nil {
				closed(t, env)
				t.Fatalf("it succeeds; its log:\n%s", log)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("it fails with %q, and not with %q", err, c.want)
			}
			if user := (*executor.UserError)(nil); errors.As(err, &user) != c.ofJob {
				t.Errorf("whether the job is the reason: %v", !c.ofJob)
			}
			if text, _ := os.ReadFile(count); c.calls > 0 && files["run"] == "" && bytes.Count(text, []byte("\n")) != c.calls {
				t.Errorf("it was called %d times, not %d", bytes.Count(text, []byte("\n")), c.calls)
			}
			if text, _ := os.ReadFile(cleaned); len(text) == 0 {
				t.Error("cleanup_exec was not called")
			}
		})
	}
}

func TestAProgramOfADriverThatIsMissingIsKnownBeforeThereIsAJob(t *testing.T) {
	there, missing := program(t, "true"), filepath.Join(t.TempDir(), "missing")
	for key, d := range map[string]custom.Driver{
		"":             {ConfigExec: there, RunExec: there},
		"config_exec":  {ConfigExec: missing, RunExec: there},
		"prepare_exec": {PrepareExec: missing, RunExec: there},
		"run_exec":     {RunExec: missing},
		"cleanup_exec": {RunExec: there, CleanupExec: missing},
	} {
		l := open(t, custom.Options{Driver: d})
		if err := l.Probe(t.Context(), nil); (err == nil) != (key == "") || err != nil && !strings.Contains(err.Error(), "the driver's "+key+" cannot be run") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestADriverThatEndsInTheJobSaysWhy(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"the system":     {`exit $SYSTEM_FAILURE_EXIT_CODE`, "the job is not the reason"},
		"the job":        {`echo 9 >$BUILD_EXIT_CODE_FILE; exit $BUILD_FAILURE_EXIT_CODE`, "exit code 9"},
		"nobody":         {`exit 0`, "has ended before the job"},
		"something else": {`exit 99`, "unknown exit code 99"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop := filepath.Join(t.TempDir(), "stop")
			l := open(t, custom.Options{Driver: custom.Driver{RunExec: program(t, `
[ "$2" = build_script ] || exec bash <"$1"
exec 3<"$1"
bash <&3 & while [ ! -e `+stop+` ]; do sleep 0.05; done
kill $!; `+c.text)}})
			env, err := l.Prepare(t.Context(), facts("job-1"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, env)
			if err := os.WriteFile(stop, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			select {
			case <-env.Done():
			case <-time.After(time.Minute):
				t.Fatal("the environment does not end")
			}
			if err := env.Err(); !errors.Is(err, executor.ErrGone) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

func TestAJobThatIsCancelledTerminatesItsDriver(t *testing.T) {
	began, ended := filepath.Join(t.TempDir(), "began"), filepath.Join(t.TempDir(), "ended")
	l := open(t, custom.Options{Driver: custom.Driver{
		PrepareExec: program(t, `trap 'echo terminated >`+ended+`; exit 1' TERM; touch `+began+`; sleep 600 & wait`), RunExec: program(t, `bash <"$1"`),
		CleanupExec: program(t, `echo cleaned >>`+ended),
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(began); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := l.Prepare(ctx, facts("job-1"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	if text, _ := os.ReadFile(ended); string(text) != "terminated\ncleaned\n" {
		t.Errorf("the driver did %q", text)
	}
}

func TestWhatAProcessLeavesIsCleanedUpByTheNext(t *testing.T) {
	cleaned := filepath.Join(t.TempDir(), "cleaned")
	state, temp := t.TempDir(), t.TempDir()
	options := custom.Options{BuildsDir: t.TempDir(), Driver: custom.Driver{RunExec: program(t, `bash <"$1"`), CleanupExec: program(t, `echo "$CUSTOM_ENV_CI_JOB_ID ${CUSTOM_ENV_SECRET-no secret}" >>`+cleaned)}}
	dir := filepath.Join(temp, "custom-executorofthekilled")
	it, err := json.Marshal(map[string]any{"dir": dir, "cleanup": []string{options.Driver.CleanupExec}, "variables": map[string]string{"CI_JOB_ID": "17"}})
	if err != nil {
		t.Fatal(err)
	}
	killed(t, state, string(it))
	e, err := custom.New(t.Context(), executor.Setup{State: state, Temp: temp, Lease: executor.Lease{Owner: "test", Keep: time.Hour}}, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cleaned); err == nil {
		t.Error("a sweep removes what a successor may ask for")
	}
	text, _ := json.Marshal(string(it))
	if _, err := e.Recover(t.Context(), executor.Handle{Level: custom.Level, Host: "local", ID: "x", State: text}); !errors.Is(err, executor.ErrGone) {
		t.Errorf("it is recovered: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(cleaned); string(got) != "17 no secret\n" {
		t.Errorf("cleanup_exec did %q", got)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is left")
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for name, o := range map[string]custom.Options{
		"run_exec": {}, "powershell": {Driver: custom.Driver{RunExec: "x"}, Shell: "powershell"},
	} {
		if _, err := custom.New(t.Context(), executor.Setup{}, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// killed writes the ledger of a process that was killed.
func killed(t *testing.T, state, entry string) {
	t.Helper()
	book, err := ledger.Open(state, string(custom.Level), ledger.Lease{Owner: "test", Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(book.Add(entry), book.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestADriverThatStopsReadingKeepsNoCancelledJob(t *testing.T) {
	reads := filepath.Join(t.TempDir(), "reads")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "head"), []byte("#!/bin/sh\ntouch "+reads+"\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := open(t, custom.Options{Driver: custom.Driver{RunExec: program(t, `bash <"$1"`)}}, "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(reads); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := l.Prepare(ctx, facts("job-1"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
