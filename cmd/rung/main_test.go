package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/cmd/internal/commandtest"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/fleet/group/local/machine"
	api "github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == foldersPlugin {
		serveFolders()
		return
	}
	commandtest.Main(m, "rung", run)
}

// TestScripts runs every command as its user does. Each file in testdata/script tells one story.
func TestScripts(t *testing.T) {
	t.Parallel()
	runStories(t, testscript.Params{Dir: "testdata/script", RequireUniqueNames: true, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != ""}, nil)
}

// runStories runs scripts, with variables beside those that all have. It adds what Setup and Cmds of the parameters need not say.
func runStories(t *testing.T, p testscript.Params, variables map[string]string) {
	t.Helper()
	program, err := executortest.Program() // which also runs in every container
	if err != nil {
		t.Fatal(err)
	}
	more := p.Setup
	p.RequireExplicitExec = true
	p.Setup = func(env *testscript.Env) error {
		prepare(env, program)
		for name, value := range variables {
			env.Setenv(name, value)
		}
		if more == nil {
			return nil
		}
		return more(env)
	}
	all := maps.Clone(commands)
	maps.Copy(all, p.Cmds)
	p.Cmds = all
	p.Condition = condition
	testscript.Run(t, p)
}

// commands are those of scripts.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"exits": commandtest.Exits, "send": send, "gitlab": gitlabCommand, "private": private, "web": web, "key": key, "plugin": pluginCommand, "port": port, "page": page, "registry": registry, "waits": waits,
}

// prepare is what all scripts have.
func prepare(env *testscript.Env, program string) {
	env.Setenv("NO_COLOR", "1")
	env.Setenv("LANG", "C.UTF-8")
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("CONFIG_FILE", filepath.Join(env.WorkDir, "config.toml"))
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Setenv("STEP_RUNNER", program)
	env.Setenv("TESTS", strconv.Itoa(os.Getpid())) // with which machines of this host end
	env.Values[gitlabKey{}] = &gitlab{}
}

type gitlabKey struct{}

type gitlab struct {
	server *gitlabtest.Server
	jobs   map[string]*gitlabtest.Job
}

// jobTime is how long a job of a script may take.
const jobTime = time.Minute

// gitlabCommand is a GitLab for a script:
//
//	gitlab start              $GITLAB is its address, $REGISTRATION a registration token
//	gitlab runner NAME        makes a runner, whose authentication token is in $NAME
//	gitlab knows TOKEN [N]    checks that there is a runner with a token, on N machines; ! gitlab knows: that there is none
//	gitlab forgets TOKEN      waits until a token is replaced
//	gitlab expire TOKEN       lets a token have an end, in an hour
//	gitlab fail N ENDPOINT STATUS
//	gitlab job NAME FILE      enqueues the job of a payload
//	gitlab says NAME TEXT     waits until the job's log has a text
//	gitlab ends NAME STATE [WITHIN]
//	                          waits until the job has ended, and puts its log into NAME.log; STATE may have the reason and the exit code
//	gitlab artifact NAME TYPE the only artifact of a job, of that type, a zip archive, is unpacked
//	gitlab cancel NAME
//	gitlab terminal NAME LINE WANT
//	                          opens the job's terminal as soon as it can be opened, types a line, waits for what that shows, and leaves
func gitlabCommand(ts *testscript.TestScript, neg bool, args []string) {
	g := ts.Value(gitlabKey{}).(*gitlab)
	switch {
	case len(args) == 1 && args[0] == "start":
		g.server = gitlabtest.New(gitlabtest.Options{Unwatched: 1})
		server := httptest.NewUnstartedServer(g.server)
		reachable(server)
		ts.Defer(func() {
			server.Close()
			for _, v := range g.server.Violations() {
				ts.Logf("violation: %s", v)
			}
			if len(g.server.Violations()) > 0 {
				panic("the runner API was not spoken as it should be")
			}
		})
		ts.Setenv("GITLAB", server.URL)
		ts.Setenv("REGISTRATION", gitlabtest.RegistrationToken)
	case len(args) == 2 && args[0] == "runner":
		ts.Setenv(args[1], g.server.NewRunner())
	case len(args) >= 2 && args[0] == "knows":
		r := g.server.Runner(args[1])
		if (r != nil) == neg {
			ts.Fatalf("GitLab has the runner: %v", r != nil)
		}
		if r != nil && len(args) == 3 && strconv.Itoa(len(r.Managers)) != args[2] {
			ts.Fatalf("the runner is on %d machines", len(r.Managers))
		}
	case len(args) == 2 && args[0] == "forgets":
		for until := time.Now().Add(jobTime); g.server.Runner(args[1]) != nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				ts.Fatalf("GitLab still has the runner")
			}
		}
		time.Sleep(time.Second) // the new token is written, and read again
	case len(args) == 2 && args[0] == "expire":
		g.server.Expire(args[1], time.Now().Add(time.Hour))
	case len(args) == 3 && args[0] == "job":
		var payload api.Job
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &payload))
		if g.jobs == nil {
			g.jobs = map[string]*gitlabtest.Job{}
		}
		g.jobs[args[1]] = g.server.Enqueue(payload)
	case len(args) == 3 && args[0] == "says":
		ctx, cancel := context.WithTimeout(context.Background(), jobTime)
		defer cancel()
		ts.Check(g.jobs[args[1]].WaitLog(ctx, args[2]))
	case (len(args) == 3 || len(args) == 4) && args[0] == "ends":
		within := jobTime
		if len(args) == 4 {
			var err error
			within, err = time.ParseDuration(args[3])
			ts.Check(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		r, err := g.jobs[args[1]].Wait(ctx)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[1]+".log"), []byte(r.Log), 0o600))
		how := string(r.State)
		if r.State == api.Failed {
			how += fmt.Sprintf(" %s %d", r.FailureReason, r.ExitCode)
		}
		if how != args[2] && string(r.State) != args[2] {
			ts.Fatalf("the job %s is %q\n%s", args[1], how, r.Log)
		}
	case len(args) == 3 && args[0] == "artifact":
		ctx, cancel := context.WithTimeout(context.Background(), jobTime)
		defer cancel()
		r, err := g.jobs[args[1]].Wait(ctx)
		ts.Check(err)
		if len(r.Artifacts) != 1 || r.Artifacts[0].Type != args[2] {
			ts.Fatalf("the job has %d artifacts: %+v", len(r.Artifacts), r.Artifacts)
		}
		unpack(ts, r.Artifacts[0].Data)
	case len(args) == 4 && args[0] == "terminal":
		g.terminal(ts, args[1], args[2], args[3])
	case len(args) == 2 && args[0] == "cancel":
		g.jobs[args[1]].Cancel()
	case len(args) == 4 && args[0] == "fail":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		status, err := strconv.Atoi(args[3])
		ts.Check(err)
		g.server.Fail(n, args[2], status)
	default:
		ts.Fatalf("usage: gitlab start|runner|knows|expire|fail")
	}
}

// condition reports what scripts may ask for: "machines" is that this host can have some.
func condition(name string) (bool, error) {
	if name != "machines" {
		return false, fmt.Errorf("there is no condition %q", name)
	}
	return machine.Possible() == nil, nil
}

// waits runs a command until a line of its output matches a pattern, or, with a !, none does: waits PATTERN COMMAND [ARG ...]
func waits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: waits PATTERN COMMAND [ARG ...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for until := time.Now().Add(jobTime); ; time.Sleep(100 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && pattern.MatchString(out) != neg {
			return
		}
		if time.Now().After(until) {
			ts.Fatalf("%v: %v\n%s", args[1:], err, out)
		}
	}
}

// private checks that only its owner can read a file: private FILE.
func private(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: private FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if info.Mode().Perm() != 0o600 {
		ts.Fatalf("%s has the mode %o", args[0], info.Mode().Perm())
	}
}

// TestCommandReference keeps docs/cli in step with the commands; `make generate` writes it.
func TestCommandReference(t *testing.T) {
	t.Parallel()
	commandtest.Reference(t, rootCommand(commandtest.Program()), filepath.Join("..", "..", "docs", "cli"))
}

// TestEveryCommandHasAManPage makes the man pages; scripts/man.sh keeps them.
func TestEveryCommandHasAManPage(t *testing.T) {
	t.Parallel()
	commandtest.Man(t, rootCommand(commandtest.Program()))
}

func TestHelpFitsEightyColumns(t *testing.T) {
	t.Parallel()
	commandtest.Help(t, rootCommand(commandtest.Program()))
}
