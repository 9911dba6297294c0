//go:build linux

package attacks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// TestHostileJobs runs every attack of the table on every level, as a job that GitLab hands to `rung run`. Beside it another job runs, which must not
// notice. What counts is what is found on this machine, and what GitLab has received.
func TestHostileJobs(t *testing.T) {
	for column, level := range columns {
		t.Run(string(level), func(t *testing.T) {
			f := newField(t, level)
			for _, a := range hostile {
				if a.want[column] == untried || a.harmful && a.want[column] == allowed || a.able != nil && !a.able(f) {
					continue
				}
				t.Run(a.tries, func(t *testing.T) {
					s := f.attack(t, a)
					if got := a.found(s); got != a.want[column] {
						t.Errorf("it is %s, want %s; the job is %s %s\n%s\n%s", got, a.want[column], s.result.State, s.result.FailureReason, tail(s.result.Log), tail(s.next.Log))
					}
					if !f.neighbourLives() {
						t.Error("the job beside it was hit")
					}
				})
			}
			f.over(t)
		})
	}
}

// field is where attacks on one level happen: a manager of this machine, what it must protect, and a job beside that of the attacker.
type field struct {
	t       *testing.T
	level   executor.Level
	limits  string            // of [runners.policy]
	world   *enginetest.World // what jobs reach beyond their network; nil is what this machine reaches
	alone   bool              // sandboxes are made without an engine
	dir     string            // state, temporary files, and outside
	outside string            // a folder of this machine that is no job's business
	server  *gitlabtest.Server
	url     string
	token   string
	manager *exec.Cmd
	ended   chan error
	stop    func() // ends it
	said    lockedBuffer
	tool    string // where jobs find testdata/attacker
	program string // the step-runner of this manager

	secret     string // in outside/secret, which only root may read
	own        string // in the environment of the manager
	configured string // in its configuration
	host       *exec.Cmd
	hostWord   string // in the environment of that process
	port       int    // of this machine's loopback
	met        atomic.Int64
	neighbour  *gitlabtest.Job
	place      string // the project folder of the neighbour, as it sees it
	meet       string // the addresses at which the neighbour says it to everybody who asks
	private    string // the neighbour's secret
	mark       int
	sources    sources // see repository
}

// scene is an attack that is over.
type scene struct {
	*field
	result gitlabtest.Result
	next   gitlabtest.Result // of the job after it, if the attack is on that
	mark   string            // a number that no other attack has
	before int64             // connections
	struck bool              // attack.strikes was true while the job ran
	began  time.Time
}

// newField is one with a manager that runs. with says what is otherwise than in the table of hostile jobs.
func newField(t *testing.T, level executor.Level, with ...func(*field)) *field {
	t.Helper()
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root")
	}
	dir, err := os.MkdirTemp("", "rung-attacks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &field{
		t: t, level: level, limits: "memory = \"256m\"\nprocesses = 200\n", dir: dir, outside: filepath.Join(dir, "outside"), ended: make(chan error, 1), mark: newMark(),
		secret: word("host-file"), own: word("manager-env"), configured: word("manager-config"), hostWord: word("host-env"), private: word("neighbour"),
	}
	for _, change := range with {
		change(f)
	}
	f.copy(built(t, "rung", "github.com/rungci/rung/cmd/rung"), filepath.Join(dir, "rung"))
	f.tool = filepath.Join(dir, "attacker")
	f.copy(built(t, "attacker", "./testdata/attacker"), f.tool)
	f.program = filepath.Join(dir, "step-runner")
	f.restore()
	if err := os.Mkdir(f.outside, 0o755); err != nil {
		t.Fatal(err)
	}
	f.write("secret", f.secret)
	f.begin()
	f.listen()
	f.serve()
	f.run(f.isolation())
	f.settle()
	return f
}

// isolation is the part of the configuration that makes the level.
func (f *field) isolation() (config string, env []string) {
	f.t.Helper()
	limits := "[runners.policy]\n" + f.limits
	docker := "executor = \"docker\"\n" + limits + "[runners.docker]\nimage = \"" + enginetest.Image + "\"\npull_policy = \"never\"\nallowed_pull_policies = [\"never\"]\n"
	if f.level == executor.Container || f.world != nil && !f.alone {
		host := enginetest.Host(f.t)
		enginetest.Busybox(f.t)
		tool := f.tool
		f.tool = "/attacker"
		docker += fmt.Sprintf("volumes = [%q]\n", tool+":/attacker:ro")
		if f.world != nil {
			docker += fmt.Sprintf("network_mode = %q\ndns = [%q]\n", f.world.Network, f.world.DNS)
		}
		return docker, []string{"DOCKER_HOST=" + host}
	}
	switch f.level {
	case executor.None:
		return "executor = \"shell\"\n", nil
	case executor.CGroup:
		if _, err := cgroup.Open(); err != nil {
			enginetest.Skip(f.t, "control groups")
		}
		return "executor = \"shell\"\n" + limits, nil
	case executor.Sandbox:
		runsc := enginetest.Runsc(f.t)
		enginetest.Program(f.t, "slirp4netns")
		images := filepath.Join(f.dir, "images")
		root := filepath.Join(images, enginetest.Image)
		enginetest.Tree(f.t, root)
		f.copy(f.tool, filepath.Join(root, "attacker"))
		f.tool = "/attacker"
		env = []string{"RUNG_SANDBOX_IMAGES=" + images, enginetest.RunscVariable + "=" + runsc, "DOCKER_HOST=unix:///nowhere"}
		if f.world != nil {
			env = append(env, "RUNG_SANDBOX_NETWORK="+f.world.Namespace(f.t))
		}
		return docker, env
	}
	f.t.Fatal("there is no such level")
	return "", nil
}

func word(name string) string { return "rung-" + name + "-" + strings.ToLower(rand.Text()) }

// programs are the locks of what is built once for all fields, by name.
var programs sync.Map

// built is a program, beside the step-runner under attack. It is not for jobs, who may have write access to their copies.
func built(t *testing.T, name, of string) string {
	t.Helper()
	lock, _ := programs.LoadOrStore(name, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	file := filepath.Join(filepath.Dir(program), name)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	build := exec.Command("go", "build", "-o", file, of)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// marks are how many marks there were.
var marks atomic.Int64

// newMark is a number that no other attack has, of any field or process.
func newMark() int { return 1000*os.Getpid() + int(marks.Add(1)) }

// restore puts a whole step-runner where the manager expects it.
func (f *field) restore() {
	f.copy(program, f.program+".new")
	if err := os.Rename(f.program+".new", f.program); err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) copy(from, to string) {
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o755)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// write puts a file outside, which only root may read.
func (f *field) write(name, text string) {
	if err := os.WriteFile(filepath.Join(f.outside, name), []byte(text+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// begin starts a process of this machine that is no job's business.
func (f *field) begin() {
	f.host = exec.Command("sleep", "3600")
	f.host.Env = append(os.Environ(), "WORD="+f.hostWord)
	if err := f.host.Start(); err != nil {
		f.t.Fatal(err)
	}
	process, once := f.host, &sync.Once{}
	f.t.Cleanup(func() { once.Do(func() { _ = process.Process.Kill(); _ = process.Wait() }) })
}

// hostLives reports whether that process lives, and starts another one if not.
func (f *field) hostLives() bool {
	var status syscall.WaitStatus
	if pid, _ := syscall.Wait4(f.host.Process.Pid, &status, syscall.WNOHANG, nil); pid == 0 {
		return true
	}
	f.begin()
	return false
}

// listen opens sockets of this machine: on loopback, at a path, and by an abstract name.
func (f *field) listen() {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "unix": filepath.Join(f.outside, "socket"), "abstract": "@" + f.secret} {
		if network == "abstract" {
			network = "unix"
		}
		l, err := net.Listen(network, address)
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = l.Close() })
		if tcp, is := l.Addr().(*net.TCPAddr); is {
			f.port = tcp.Port
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.SetDeadline(time.Now().Add(time.Second))
				if text, _ := io.ReadAll(io.LimitReader(c, 9)); strings.HasPrefix(string(text), "attacker") {
					f.met.Add(1)
				}
				_ = c.Close()
			}
		}()
	}
}

// serve lets GitLab be reached, from containers too.
func (f *field) serve() {
	f.server = gitlabtest.New(gitlabtest.Options{Unwatched: 1, LongPoll: 5 * time.Second, Holds: true})
	mux := http.NewServeMux()
	mux.Handle("/", f.server)
	mux.Handle(sourcesGroup, &f.sources)
	server := httptest.NewUnstartedServer(mux)
	at := addresses()
	if address := enginetest.Address(); address != "" {
		at = append([]string{address}, at...)
	}
	for _, address := range at {
		if l, err := net.Listen("tcp4", net.JoinHostPort(address, "0")); err == nil {
			_ = server.Listener.Close()
			server.Listener = l
			break
		}
	}
	server.Start()
	f.t.Cleanup(server.Close)
	f.url, f.token = server.URL, f.server.NewRunner()
}

// addresses are those of this machine that others can reach.
func addresses() (out []string) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// run starts `rung run` at a terminal, as an operator does who tries it.
func (f *field) run(isolation string, env []string) {
	f.t.Helper()
	text := fmt.Sprintf("# %s\n", f.configured) + fmt.Sprintf("concurrent = 3\ncheck_interval = 1\nlisten_address = \"127.0.0.1:0\"\n[[runners]]\nname = \"attacked\"\nurl = %q\ntoken = %q\noutput_limit = 1024\n", f.url, f.token)
	head, tables, _ := strings.Cut(isolation+"\n", "\n")
	text += fmt.Sprintf("%s\n[runners.isolation]\ndefault = %q\nminimum = %q\n%s", head, f.level, f.level, tables)
	config := filepath.Join(f.dir, "config.toml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	temp := filepath.Join(f.dir, "t")
	if err := os.Mkdir(temp, 0o700); err != nil {
		f.t.Fatal(err)
	}
	f.manager = exec.Command(filepath.Join(f.dir, "rung"), "run", "--config", config, "--state", f.state())
	f.manager.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "TMPDIR=" + temp, "TOP_SECRET=" + f.own}, env...)
	terminal, err := pty.Start(f.manager)
	if err != nil {
		f.t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(&f.said, terminal)
		f.ended <- f.manager.Wait()
	}()
	f.stop = sync.OnceFunc(func() {
		_ = f.manager.Process.Signal(syscall.SIGTERM)
		select {
		case <-f.ended:
		case <-time.After(time.Minute):
			_ = f.manager.Process.Kill()
			f.t.Error("the manager does not end")
		}
		_ = terminal.Close()
	})
	f.t.Cleanup(func() {
		f.stop()
		if f.t.Failed() {
			f.t.Log(tail(f.said.String()))
		}
	})
}

func (f *field) state() string { return filepath.Join(f.dir, "state") }

// settle starts the neighbour.
func (f *field) settle() {
	f.t.Helper()
	job := f.job(`echo "$PRIVATE" >private; cp private "/tmp/rung-attack-$MARK"; cp private "/dev/shm/rung-attack-$MARK"; "$ATTACKER" answer "$PRIVATE" & echo "place=$PWD"; sleep 0.5
while [ ! -e stop ]; do echo tick; sleep 0.2; done`)
	job.Info.ProjectID, job.Runner.Timeout = 1, 3600
	job.Variables = append(job.Variables, gitlab.Variable{Key: "PRIVATE", Value: f.private, Masked: true})
	f.neighbour = f.server.Enqueue(job)
	mark := strconv.Itoa(f.mark)
	f.t.Cleanup(func() {
		_ = os.Remove("/tmp/rung-attack-" + mark)
		_ = os.Remove("/dev/shm/rung-attack-" + mark)
	})
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	if err := f.neighbour.WaitLog(ctx, "tick"); err != nil {
		f.t.Fatalf("%v\n%s\n%s", err, f.neighbour.Result().Log, f.said.String())
	}
	_, rest, _ := strings.Cut(f.neighbour.Result().Log, "\nplace=")
	f.place, _, _ = strings.Cut(rest, "\n")
	_, rest, _ = strings.Cut(f.neighbour.Result().Log, "\nanswers at ")
	f.meet, _, _ = strings.Cut(rest, "\n")
}

// neighbourLives reports whether the neighbour goes on. It starts another one if not.
func (f *field) neighbourLives() bool {
	_, before := f.neighbour.LogFrom(0)
	for range 100 {
		if r := f.neighbour.Status(); r.State != gitlab.Running {
			f.t.Logf("the neighbour is %s %s", r.State, r.FailureReason)
			f.settle()
			return false
		}
		if _, now := f.neighbour.LogFrom(0); now > before {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// job is a hostile one.
func (f *field) job(script string) gitlab.Job {
	var info unix.Stat_t
	if err := unix.Stat("/", &info); err != nil {
		f.t.Fatal(err)
	}
	j := gitlab.Job{
		Info: gitlab.JobInfo{Name: "hostile", Stage: "test", ProjectID: 7, ProjectName: "project"},
		Git:  gitlab.GitInfo{RepoURL: f.url + "/group/project.git", Ref: "main", SHA: strings.Repeat("1", 40)}, Runner: gitlab.RunnerInfo{Timeout: 120},
		Steps: []gitlab.Step{{Name: "script", Script: []string{"set +e", script}}},
	}
	for key, value := range map[string]string{
		"GIT_STRATEGY": "empty", "FF_TIMESTAMPS": "false", "OUTSIDE": f.outside, "STATE": f.state(), "CONFIG": filepath.Join(f.dir, "config.toml"),
		"PROGRAM": f.program, "HOST_PID": strconv.Itoa(f.host.Process.Pid), "MANAGER_PID": strconv.Itoa(managerPID(f.manager)), "PORT": strconv.Itoa(f.port),
		"ABSTRACT": "@" + f.secret, "ATTACKER": f.tool, "NEIGHBOUR": f.place, "NEIGHBOUR_AT": f.meet, "HANDLE": f.handle(), "MARK": strconv.Itoa(f.mark),
		"DISK_MAJOR": strconv.Itoa(int(unix.Major(info.Dev))), "DISK_MINOR": strconv.Itoa(int(unix.Minor(info.Dev))),
	} {
		j.Variables = append(j.Variables, gitlab.Variable{Key: key, Value: value, Raw: true, Public: true})
	}
	return j
}

func managerPID(c *exec.Cmd) int {
	if c == nil || c.Process == nil {
		return 0
	}
	return c.Process.Pid
}

// handle is the handle of outside/secret.
func (f *field) handle() string {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Join(f.outside, "secret"), 0)
	if err != nil {
		return "" // the file system has none
	}
	return fmt.Sprintf("%d:%s", h.Type(), hex.EncodeToString(h.Bytes()))
}

// attack runs the job of an attack, and the next one.
func (f *field) attack(t *testing.T, a attack) *scene {
	t.Helper()
	f.mark = newMark()
	s := &scene{field: f, mark: strconv.Itoa(f.mark), before: f.met.Load(), began: time.Now()}
	if a.before != nil {
		a.before(f)
	}
	job := f.job(a.script)
	if a.job != nil {
		a.job(f, &job)
	}
	enqueued := f.server.Enqueue(job)
	for a.strikes != nil && !s.struck && (enqueued.Status().State == gitlab.Pending || enqueued.Status().State == gitlab.Running) {
		s.struck = a.strikes()
		time.Sleep(50 * time.Millisecond)
	}
	s.result = f.wait(t, enqueued)
	if a.next != "" {
		next := f.job(a.next)
		if a.nextJob != nil {
			a.nextJob(f, &next)
		}
		s.next = f.wait(t, f.server.Enqueue(next))
	}
	return s
}

func (f *field) wait(t *testing.T, j *gitlabtest.Job) gitlabtest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := j.Wait(ctx)
	if err != nil {
		t.Fatalf("the job does not end: %v\n%s\n%s", err, tail(r.Log), tail(f.said.String()))
	}
	for range 200 { // GitLab hears of the end while the job's environment is removed
		if left, _ := filepath.Glob(filepath.Join(f.state(), "jobs", "runners", "*", fmt.Sprint(j.Ref().ID))); len(left) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if finals := strings.Count(fmt.Sprint(r.Updates), "canceled") + strings.Count(fmt.Sprint(r.Updates), "failed") + strings.Count(fmt.Sprint(r.Updates), "success"); finals != 1 {
		t.Errorf("the job ended %d times: %v", finals, r.Updates)
	}
	return r
}

// over checks what is left in the end.
func (f *field) over(t *testing.T) {
	f.neighbour.Cancel()
	f.wait(t, f.neighbour)
	f.stop()
	for _, v := range f.server.Violations() {
		t.Error("GitLab objects:", v)
	}
	for _, pattern := range []string{"running/*", "builds/job-*", "builds/*.busy", "environments/*", "jobs/runners/*/[0-9n]*"} {
		if left, _ := filepath.Glob(filepath.Join(f.state(), pattern)); len(left) > 0 {
			t.Error("left:", left)
		}
	}
	if f.grep(f.own, f.state()) || f.grep(f.private, f.state()) {
		t.Error("a secret is on the disk")
	}
}

// grep reports whether a file below a folder has a text.
func (f *field) grep(text, dir string) bool {
	out, _ := exec.Command("grep", "-rlaF", "--devices=skip", text, dir).Output()
	return len(bytes.TrimSpace(out)) > 0
}

// there reports whether something is outside.
func (f *field) there(name string) bool {
	_, err := os.Lstat(filepath.Join(f.outside, name))
	return err == nil
}

// processes are those with an argument or variable that is, or ends with, text.
func processes(text string) (out []string) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range folders {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(args, []byte(text+"\x00")) {
			out = append(out, filepath.Base(dir)+" "+string(bytes.ReplaceAll(args, []byte{0}, []byte(" "))))
		}
	}
	return out
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

// lockedBuffer is a buffer that several goroutines use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
