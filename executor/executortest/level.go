// Package executortest is the test suite that every isolation level passes. It checks what executor.Executor promises from outside, with
// the client that the rest of the program uses.
package executortest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/steps/service/client"
)

// patience is how long the suite waits for what must happen. It is never waited for in vain where everything is right.
const patience = 3 * time.Minute

// Level is a level to be tried.
type Level struct {
	// Open makes the level.
	Open func(ctx context.Context, setup executor.Setup) (executor.Executor, error)
	// Host is the machine to run on, which sees the files of this one; nil is this machine.
	Host host.Host
	// Job makes a job that the level can run; with commands of POSIX and a shell called sh.
	Job func(id string) *executor.Job
	// Left names what the level has made, with New(dir), that still exists.
	Left func(dir string) ([]string, error)
	// Running names the environments that the level has made, with New(dir), in which something can run. Nil leaves
	// out what cannot be seen without it.
	Running func(dir string) ([]string, error)
	// Unheld names the limits, as the suite calls them, that a level with limits of resources refuses all the same.
	Unheld []string
	// MissingImage is the name of an image that is nowhere, on levels that have images; empty leaves that out.
	MissingImage string
	// Ends are ways in which an environment ends from outside, by what happens.
	Ends map[string]func(t *testing.T, env executor.Environment)
	// Stalls are ways in which an environment stays, and answers no more.
	Stalls map[string]func(t *testing.T, env executor.Environment)
	// Env is added to the variables of the process that is started again, and killed: by it, it knows its level.
	Env []string
}

// LabelName is the label of all that the suite makes; its value is the dir of New.
const LabelName = "rung.test"

// New makes the level. Everything that it keeps between processes is in dir, and so is what it makes on this machine.
func (l *Level) New(dir string, lease executor.Lease) (executor.Executor, error) {
	setup := executor.Setup{
		Host: l.Host, Program: func(string, string) (string, error) { return Program() }, State: filepath.Join(dir, "state"), Lease: lease,
		PullPolicies: []string{"never"}, Labels: map[string]string{LabelName: dir},
	}
	// Tests of hosts run on this machine, too.
	setup.Temp = filepath.Join(dir, "temp")
	if err := os.MkdirAll(setup.Temp, 0o700); err != nil {
		return nil, err
	}
	return l.Open(context.Background(), setup)
}

// The variables that make a test binary the owner of an environment, which is then killed.
const (
	ownerDir = "RUNG_TEST_OWNER_DIR"
	// ownerReady is what the owner says when its environment runs a step.
	ownerReady = "ready\n"
	// ownerLease is the owner's lease, as JSON.
	ownerLease = "RUNG_TEST_OWNER_LEASE"
	// ownerKept is the owner's Job.KeepProject.
	ownerKept = "RUNG_TEST_OWNER_KEPT"
	// ownerUser is the user of the owner's job, in its image.
	ownerUser = "RUNG_TEST_OWNER_USER"
)

// Main runs the tests of a package that calls Run, from its TestMain. The suite starts the test binary again, as a process
// that is killed.
func Main(m *testing.M, level func() (Level, error)) {
	if Own(level) {
		return
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set(strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	RemoveProgram()
	os.Exit(code)
}

// atOnce is how many parallel tests run at once, however few cores there are: they wait for limits of time more than they compute.
const atOnce = 4

// ProgramVariable names a step-runner for Program that was built already; scripts/engines.sh and the suite set it.
const ProgramVariable = "RUNG_TEST_PROGRAM"

// Again are the arguments with which the suite starts this program as one that calls Own; nil are those of a test binary that calls Main.
var Again []string

// Own reports whether this is the process of an environment's owner, and is that until it is killed.
func Own(level func() (Level, error)) bool {
	dir := os.Getenv(ownerDir)
	if dir == "" {
		return false
	}
	if err := own(level, dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	time.Sleep(patience)
	return true
}

// own prepares an environment and starts a step in it that does not end.
func own(level func() (Level, error), dir string) error {
	l, err := level()
	if err != nil {
		return err
	}
	var lease executor.Lease
	if err := json.Unmarshal([]byte(os.Getenv(ownerLease)), &lease); err != nil {
		return err
	}
	if lease.Outlives() {
		return bequeath(&l, dir, lease)
	}
	e, err := l.New(dir, lease)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	owned := l.Job("owned")
	owned.KeepProject = os.Getenv(ownerKept)
	if user := os.Getenv(ownerUser); user != "" {
		owned.Image.User = user
	}
	env, err := e.Prepare(ctx, owned, nil)
	if err != nil {
		return err
	}
	c, err := client.Dial("environment", client.WithDialer(env.Connect))
	if err != nil {
		return err
	}
	err = c.Run(ctx, client.Request{
		ID: "owned", Text: `- script: echo kept >file; echo "working in $PWD"; sleep 600`, WorkDir: env.Layout().Project,
		Env: map[string]string{"CI_PROJECT_DIR": env.Layout().Project},
	})
	if err != nil {
		return err
	}
	go func() { // the first line of the log says that the step runs
		_, _ = c.FollowLogs(context.Background(), "owned", once(func() { _, _ = os.Stdout.WriteString(ownerReady) }), client.LogOptions{})
	}()
	return nil
}

// once is a writer that calls a function at the first write.
func once(do func()) io.Writer {
	var o sync.Once
	return writerFunc(func(p []byte) (int, error) {
		o.Do(do)
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Program returns the file of a step-runner that runs in any Linux environment, or natively where that is another system. It is
// built once for a test binary, unless ProgramVariable names it. A TestMain calls Main or RemoveProgram in the end.
func Program() (string, error) {
	if file := os.Getenv(ProgramVariable); file != "" {
		return file, nil
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "rung-test-program-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", programFile(), "github.com/rungci/rung/cmd/step-runner")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = errors.Join(fmt.Errorf("building step-runner: %w\n%s", err, out), os.RemoveAll(built.dir))
		}
	})
	return programFile(), built.err
}

func programFile() string { return filepath.Join(built.dir, "step-runner") }

// RemoveProgram removes what Program has built. Main does; a TestMain that does not call it ends with this.
func RemoveProgram() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
}
