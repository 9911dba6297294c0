package container_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/containers"
	stepclient "github.com/rungci/rung/steps/service/client"
)

// open prepares a job, which is closed with the test.
func open(t *testing.T, o settings, j *executor.Job) (executor.Environment, *lines) {
	t.Helper()
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	said := &lines{}
	env, err := e.Prepare(t.Context(), j, said.report)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Cleanup(func() {
		if err := env.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return env, said
}

// sh runs a script in a shell of the environment.
func sh(t *testing.T, env executor.Environment, script string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 {
		t.Errorf("%s: code %d, %v\n%s", script, code, err, out.String())
	}
	return out.String()
}

func TestServices(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	enginetest.Import(t, enginetest.Client(t), "rung-test/team/server:1", []enginetest.File{{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"}},
		"EXPOSE 8080/tcp 9090", `ENTRYPOINT ["/bin/sh", "-c"]`)
	serve := `exec /bin/busybox nc -ll -p 8080 -e /bin/busybox echo "I am $NAME of $JOB"`
	service := func(command string, variables map[string]string, aliases ...string) containers.Service {
		return containers.Service{
			Image:   containers.Image{Name: "rung-test/team/server:1", PullPolicies: []string{container.Never}},
			Aliases: aliases, Command: []string{command}, Variables: variables,
		}
	}
	t.Run("are reached under all their names when the job begins", func(t *testing.T) {
		j := job("reach")
		j.Variables = map[string]string{"JOB": "the job", "NAME": "nobody"}
		j.Services = []containers.Service{service("/bin/busybox sleep 0.3; "+serve, map[string]string{"NAME": "db"}, "db", "database")}
		env, said := open(t, options(t.TempDir()), j)
		for _, name := range []string{"rung-test__team__server", "rung-test-team-server", "db", "database"} {
			if got := sh(t, env, "nc "+name+" 8080 </dev/null"); got != "I am db of the job\n" {
				t.Errorf("%s answers %q\n%s", name, got, said)
			}
		}
		if strings.Contains(said.String(), "warning") {
			t.Error(said)
		}
	})
	t.Run("that do not listen are reported with their log", func(t *testing.T) {
		o := options(t.TempDir())
		o.ServiceWait = 3 * time.Second // in which it has said something
		j := job("silent")
		j.Services = []containers.Service{service("echo I only sleep; /bin/busybox sleep 600", nil)}
		_, said := open(t, o, j)
		if text := said.String(); !strings.Contains(text, "warning: service rung-test/team/server:1 probably did not start properly") || !strings.Contains(text, "I only sleep") {
			t.Error(text)
		}
	})
	t.Run("that end are reported at once", func(t *testing.T) {
		o := options(t.TempDir())
		o.ServiceWait = time.Hour
		j := job("ended")
		j.Services = []containers.Service{service("echo no such database; exit 3", nil)}
		_, said := open(t, o, j)
		if text := said.String(); !strings.Contains(text, "it ended with code 3") || !strings.Contains(text, "no such database") {
			t.Error(text)
		}
	})
	t.Run("that cannot be started are the job's mistake", func(t *testing.T) {
		j := job("broken")
		broken := service("", nil)
		broken.Entrypoint = []string{"/no/such/program"}
		j.Services = []containers.Service{broken}
		dir := t.TempDir()
		_, err := prepare(t, options(dir), j)
		var user *executor.UserError
		if !errors.As(err, &user) {
			t.Error(err)
		}
		if left, err := left(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %q %v", left, err)
		}
	})
	t.Run("that the engine cannot start are not the job's mistake", func(t *testing.T) {
		o, j := options(t.TempDir()), job("nosuchnet")
		o.Network.Mode = "no-such-network"
		j.Services = []containers.Service{service(serve, nil)}
		_, err := prepare(t, o, j)
		var user *executor.UserError
		if err == nil || errors.As(err, &user) {
			t.Error(err)
		}
	})
	t.Run("without a port are not waited for", func(t *testing.T) {
		j := job("portless")
		j.Services = []containers.Service{{Image: containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}, Command: []string{"sleep", "600"}}}
		_, said := open(t, options(t.TempDir()), j)
		if !strings.Contains(said.String(), "exposes no port") {
			t.Error(said)
		}
	})
}

func busybox(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skipf("needs busybox-static: %v", err)
	}
	return content
}

func TestAnImageWithNothingButAProgramRunsSteps(t *testing.T) {
	c := enginetest.Client(t)
	enginetest.Import(t, c, "rung-test/bare:1", []enginetest.File{{Name: "busybox", Mode: 0o755, Content: busybox(t)}})
	j := job("bare")
	j.Image.Name = "rung-test/bare:1"
	env, _ := open(t, options(t.TempDir()), j)
	steps, err := stepclient.Dial("environment", stepclient.WithDialer(env.Connect))
	if err != nil {
		t.Fatal(err)
	}
	defer steps.Disconnect()
	var log bytes.Buffer
	_, err = steps.Execute(t.Context(), stepclient.Request{
		ID: "bare", Text: "spec:\n---\nexec:\n  command: [/busybox, uname]\n", WorkDir: env.Layout().Project,
	}, &log)
	if err != nil || !strings.Contains(log.String(), "Linux") {
		t.Errorf("%v\n%s", err, log.String())
	}
	if _, err := env.Shell(t.Context(), &executor.Shell{}); err == nil || !strings.Contains(err.Error(), "no shell") {
		t.Errorf("a shell: %v", err)
	}
}

func TestEntrypoints(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	c := enginetest.Client(t)
	enginetest.Import(t, c, "rung-test/entry:1", []enginetest.File{{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"}},
		`ENTRYPOINT ["/bin/sh", "-c", "echo I run something else; exit 4"]`)
	enginetest.Import(t, c, "rung-test/entry:2", []enginetest.File{{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"}},
		`ENTRYPOINT ["/bin/sh", "-c", "export FROM_ENTRYPOINT=yes; exec \"$@\"", "entry"]`)
	t.Run("that does not run its command is the job's mistake, with what it said", func(t *testing.T) {
		j := job("entry")
		j.Image.Name = "rung-test/entry:1"
		_, err := prepare(t, options(t.TempDir()), j)
		var user *executor.UserError
		if !errors.As(err, &user) || !strings.Contains(user.Message, "I run something else") || !strings.Contains(user.Hint, "entrypoint") {
			t.Errorf("%v", err)
		}
	})
	t.Run("that is emptied is left out", func(t *testing.T) {
		j := job("emptied")
		j.Image.Name, j.Image.Entrypoint = "rung-test/entry:1", []string{""}
		if _, err := prepare(t, options(t.TempDir()), j); err != nil {
			t.Error(err)
		}
	})
	t.Run("that runs its command runs the step-runner", func(t *testing.T) {
		j := job("runs")
		j.Image.Name = "rung-test/entry:2"
		if _, err := prepare(t, options(t.TempDir()), j); err != nil {
			t.Error(err)
		}
	})
	t.Run("that is a shell with -c gets its command as one word", func(t *testing.T) {
		j := job("shell")
		j.ProjectName, j.Image.Entrypoint = "it's a project", []string{"/bin/sh", "-c"}
		env, _ := open(t, options(t.TempDir()), j)
		if got := sh(t, env, "pwd"); got != "/builds/it's a project\n" {
			t.Errorf("it runs in %q", got)
		}
	})
	t.Run("that is not there is the job's mistake", func(t *testing.T) {
		j := job("nowhere")
		j.Image.Entrypoint = []string{"/no/such/program"}
		_, err := prepare(t, options(t.TempDir()), j)
		var user *executor.UserError
		if !errors.As(err, &user) {
			t.Error(err)
		}
	})
}

func TestAnImageWithAFileInThePlaceOfAFolderIsTheJobsMistake(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	for name, file := range map[string]string{"rung-test/file:builds": "builds", "rung-test/file:opt": "opt", "rung-test/file:rung": "opt/rung"} {
		enginetest.Import(t, enginetest.Client(t), name, []enginetest.File{{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: file, Mode: 0o644}})
		for _, privileged := range []bool{false, true} { // which gets the step-runner otherwise
			j := job("file")
			j.Image.Name, j.Privileged = name, privileged
			_, err := prepare(t, options(t.TempDir()), j)
			var user *executor.UserError
			if !errors.As(err, &user) || !strings.Contains(user.Message, "image "+name+" has a file in place of the folder /"+strings.TrimSuffix(file, "/rung")) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestTheStepRunnerRunsWithoutWhatAnImageTunesItsOwnProgramsBy(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	enginetest.Import(t, enginetest.Client(t), "rung-test/tuned:1", []enginetest.File{
		{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"},
	}, "ENV GOMEMLIMIT=100MB GOGC=off OTHER=yes")
	for _, whole := range []bool{false, true} {
		j := job("tuned")
		j.Image.Name, j.ImageEnv = "rung-test/tuned:1", whole
		env, _ := open(t, options(t.TempDir()), j)
		steps, err := stepclient.Dial("environment", stepclient.WithDialer(env.Connect))
		if err != nil {
			t.Fatal(err)
		}
		defer steps.Disconnect()
		var log bytes.Buffer
		_, err = steps.Execute(t.Context(), stepclient.Request{
			ID: "tuned", Text: "spec:\n---\nexec:\n  command: [/bin/sh, -c, 'echo \"limit $GOMEMLIMIT, $GOGC, $OTHER\"']\n", WorkDir: env.Layout().Project, Env: env.Layout().Env,
		}, &log)
		if err != nil || !strings.Contains(log.String(), "limit 100MB, off, yes") {
			t.Errorf("%t: %v\n%s", whole, err, log.String())
		}
	}
}

func TestAnImageWhoseUserHasNoTemporaryFolderRunsSteps(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	enginetest.Import(t, enginetest.Client(t), "rung-test/no-temp:1", []enginetest.File{
		{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"},
		{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/root:/bin/sh\nworker:x:1234:1235::/home/worker:/bin/sh\n")},
		{Name: "tmp/", Mode: 0o755}, {Name: "home/worker/", Mode: 0o755},
	})
	for user, temp := range map[string]string{"worker": "", "": "/no/such/folder"} {
		j := job("no-temp")
		j.Image.Name, j.Image.User = "rung-test/no-temp:1", user
		if temp != "" {
			enginetest.Import(t, enginetest.Client(t), "rung-test/no-temp:2", []enginetest.File{
				{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"},
			}, "ENV TMPDIR="+temp)
			j.Image.Name = "rung-test/no-temp:2"
		}
		env, _ := open(t, options(t.TempDir()), j)
		steps, err := stepclient.Dial("environment", stepclient.WithDialer(env.Connect))
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		_, err = steps.Execute(t.Context(), stepclient.Request{
			ID: "no-temp", WorkDir: env.Layout().Project, Env: env.Layout().Env, Text: `- script: 'echo kept >"$TMPDIR/file"; read text <"$TMPDIR/file"; echo "it is $text"'`,
		}, &log)
		_ = steps.Disconnect()
		if text := log.String(); err != nil || !strings.Contains(text, "it is kept\n") {
			t.Errorf("user %q, TMPDIR %q: %v, %q", user, temp, err, text)
		}
	}
}

func TestTheEntrypointWrapsTheStepsOfAJobThatAsksForItsEnvironment(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	enginetest.Import(t, enginetest.Client(t), "rung-test/entry:3", []enginetest.File{
		{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"}, {Name: "bin/env", Link: "busybox"},
		{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/root:/bin/sh\nworker:x:1234:1235::/home/worker:/bin/sh\n")},
		{Name: "root/", Mode: 0o700}, {Name: "home/worker/", Mode: 0o755},
	}, `ENTRYPOINT ["/bin/sh", "-c", "echo hello from the entrypoint; export FROM_ENTRYPOINT=yes KIND=changed; exec \"$@\"", "entry"]`, "ENV KIND=image OTHER=kept")
	for user, home := range map[string]string{"": "/root", "worker": "/home/worker"} {
		for _, asks := range []bool{true, false} {
			j := job("wrapped")
			j.Image.Name, j.Image.User, j.ImageEnv = "rung-test/entry:3", user, asks
			env, said := open(t, options(t.TempDir()), j)
			steps, err := stepclient.Dial("environment", stepclient.WithDialer(env.Connect))
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			_, err = steps.Execute(t.Context(), stepclient.Request{
				ID: "wrapped", WorkDir: env.Layout().Project, Env: env.Layout().Env,
				Text: `- script: 'echo "HOME=$HOME"; echo "FROM_ENTRYPOINT=$FROM_ENTRYPOINT KIND=$KIND OTHER=$OTHER XDG=${XDG_CONFIG_HOME+own}"'`,
			}, &log)
			_ = steps.Disconnect()
			want := "FROM_ENTRYPOINT= KIND=image OTHER=kept XDG=own"
			if asks {
				want = "FROM_ENTRYPOINT=yes KIND=changed OTHER=kept XDG="
			}
			if text := log.String(); err != nil || !strings.Contains(text, want+"\n") || strings.Contains(text, "HOME="+home+"\n") != asks {
				t.Errorf("user %q, asks %t: %v, %q", user, asks, err, text)
			}
			if !strings.Contains(said.String(), "hello from the entrypoint") {
				t.Errorf("what the entrypoint says is lost: %s", said)
			}
		}
	}
}

func TestUsersOfTheJob(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	for _, c := range []struct{ user, ids string }{
		{"", "0:0"}, {"worker", "1234:1235"}, {"1234", "1234:1235"}, {"4321", "4321:0"}, {"worker:others", "1234:1300"}, {"worker:77", "1234:77"}, {"55:66", "55:66"},
	} {
		t.Run("user "+c.user, func(t *testing.T) {
			j := job("user")
			j.Image.User = c.user
			env, _ := open(t, options(t.TempDir()), j)
			if got := sh(t, env, `echo $(id -u):$(id -g); stat -c %u:%g . ../project.tmp; touch file ../project.tmp/file`); got != strings.Repeat(c.ids+"\n", 3) {
				t.Errorf("it runs as, and owns: %q", got)
			}
		})
	}
	j := job("nobody")
	j.Image.User = "nosuchuser"
	var user *executor.UserError
	if _, err := prepare(t, options(t.TempDir()), j); !errors.As(err, &user) {
		t.Errorf("a user that is not there: %v", err)
	}
}

func TestTheImagesEnvironmentIsForSteps(t *testing.T) {
	enginetest.Busybox(t)
	env, _ := open(t, options(t.TempDir()), job("env"))
	if got := env.Layout().Env["FROM_IMAGE"]; got != "yes" {
		t.Errorf("FROM_IMAGE is %q", got)
	}
	if _, has := env.Layout().Env["PATH"]; has {
		t.Error("PATH is among the variables")
	}
	sh(t, env, "command -v step-runner")
}

func TestAKeptJobLeavesItsFilesAndNoProcess(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	dir := t.TempDir()
	j := job("kept")
	j.Keep = true
	e, err := options(dir).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	env, err := e.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, env, "echo data >file")
	if err := errors.Join(env.Close(t.Context()), e.Sweep(t.Context()), e.Close()); err != nil {
		t.Error(err)
	}
	c := enginetest.Client(t)
	list, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", testLabel+"="+dir)})
	if err != nil || len(list.Items) != 1 || list.Items[0].State == "running" {
		t.Fatalf("%+v %v", list.Items, err)
	}
	id := list.Items[0].ID
	if name := env.Layout().Name; !slices.Contains(list.Items[0].Names, "/"+name) {
		t.Errorf("the container is called %q, and its names are %q", name, list.Items[0].Names)
	}
	if _, err := c.ContainerStatPath(t.Context(), id, client.ContainerStatPathOptions{Path: "/builds/project/file"}); err != nil {
		t.Error(err)
	}
	_, err = c.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	names, _ := left(dir)
	for _, name := range names {
		if volume, ok := strings.CutPrefix(name, "volume "); ok {
			_, removeErr := c.VolumeRemove(t.Context(), volume, client.VolumeRemoveOptions{})
			err = errors.Join(err, removeErr)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestAJobWithoutANetworkReachesItsServices(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	j := job("closed")
	j.Network = executor.NetworkNone
	j.Services = []containers.Service{{
		Image: containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}, Aliases: []string{"db"},
		Command: []string{"nc", "-ll", "-p", "8080", "-e", "echo", "I am the service"}, Variables: map[string]string{"HEALTHCHECK_TCP_PORT": "8080"},
	}}
	env, said := open(t, options(t.TempDir()), j)
	if got := sh(t, env, "nc db 8080 </dev/null"); got != "I am the service\n" {
		t.Errorf("the service answers %q\n%s", got, said)
	}
}

func TestServicesHaveTheirOwnLimits(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	j := job("limits")
	j.ServiceResources = executor.Resources{Memory: 64 << 20, PIDs: 32, CPU: 1e6}
	j.Services = []containers.Service{{Image: containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}, Command: []string{"sleep", "600"}}}
	env, _ := open(t, options(t.TempDir()), j)
	c := enginetest.Client(t)
	for name, want := range map[string]int64{env.Layout().Name: 0, env.Layout().Name + "-service-1": 64 << 20} {
		found, err := c.ContainerInspect(t.Context(), name, client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := found.Container.HostConfig; got.Memory != want || got.MemorySwap != want {
			t.Errorf("%s has %d bytes of memory, and %d with swap space", name, got.Memory, got.MemorySwap)
		}
	}
}

func TestALimitOfDiskSpaceHoldsOrIsRefused(t *testing.T) {
	enginetest.Busybox(t)
	j := job("disk")
	j.Resources.Disk = 64 << 20
	dir := t.TempDir()
	e, err := options(dir).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	env, err := e.Prepare(t.Context(), j, nil)
	var user *executor.UserError
	if errors.As(err, &user) {
		if !strings.Contains(user.Message, "limit of disk space") || user.Hint == "" {
			t.Error(user.Message, user.Hint)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close(t.Context())
	sh(t, env, "! dd if=/dev/zero of=file bs=1M count=100")
}

func TestASweepLeavesOtherEnginesAlone(t *testing.T) {
	enginetest.Host(t)
	dir := t.TempDir()
	o := options(dir)
	o.Engine = &container.Engine{Host: "unix:///nowhere/docker.sock"}
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	book := filepath.Join(state, "container-x.ledger")
	if err := os.WriteFile(book, []byte("+\"eyJob3N0IjoiZWxzZXdoZXJlIiwibmFtZSI6InJ1bmctYSJ9\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(book); err != nil {
		t.Error(err)
	}
}

func TestAnEngineThatIsGoneIsNotTheJobsMistake(t *testing.T) {
	o := options(t.TempDir())
	o.Engine = &container.Engine{Host: "unix:///nowhere/docker.sock", From: "a test"}
	_, err := prepare(t, o, job("gone"))
	var user *executor.UserError
	if err == nil || errors.As(err, &user) || !strings.Contains(err.Error(), "/nowhere/docker.sock") {
		t.Error(err)
	}
}

func BenchmarkPrepare(b *testing.B) {
	enginetest.Busybox(b)
	if _, err := executortest.Program(); err != nil {
		b.Fatal(err)
	}
	e, err := options(b.TempDir()).open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for b.Loop() {
		env, err := e.Prepare(b.Context(), job("fast"), nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := env.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
