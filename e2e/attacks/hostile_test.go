//go:build linux

package attacks

import (
	"archive/zip"
	"bytes"
	"crypto/md5" //nolint:gosec // as md5sum
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// verdict is what becomes of an attack.
type verdict string

const (
	blocked   verdict = "blocked"   // it has no effect
	contained verdict = "contained" // it hits the attacker's own job alone
	allowed   verdict = "allowed"   // by design
	untried   verdict = "–"         // it makes no sense there
)

// columns are the levels of the table.
var columns = []executor.Level{executor.None, executor.CGroup, executor.Container, executor.Sandbox}

// everywhere are the wants of an attack that fails whatever the level.
func everywhere(v verdict) [4]verdict { return [4]verdict{v, v, v, v} }

// Wants of attacks that need more than processes of the same machine; and of those that limits hold.
var (
	inside  = [4]verdict{allowed, allowed, blocked, blocked}
	limited = [4]verdict{allowed, contained, contained, contained}
	shared  = [4]verdict{allowed, allowed, allowed, contained} // limits of the kernel that count for all of it
)

// attack is a hostile job.
type attack struct {
	group string
	tries string // to do what: "read …"
	// harmful says that it is not run where it is allowed: it would harm the machine.
	harmful bool
	script  string
	able    func(f *field) bool // whether this machine lets anybody do that
	before  func(f *field)
	job     func(f *field, j *gitlab.Job) // changes what GitLab hands out
	next    string                        // the script of the job after it, of the same project
	nextJob func(f *field, j *gitlab.Job) // changes that job
	strikes func() bool                   // whether the machine is hit, while the job runs
	found   func(s *scene) verdict
	want    [4]verdict
}

// hostile are the attacks. The table of docs/security.md is made of them.
var hostile = []attack{
	{
		group: "Files", tries: "read a file that only root may read", want: inside,
		script: `cat "$OUTSIDE/secret" || cat "/proc/1/root$OUTSIDE/secret"`, found: leaks(func(s *scene) string { return s.secret }),
	}, {
		group: "Files", tries: "read it by its handle, whatever path leads there", want: inside,
		script: `"$ATTACKER" handle /etc/hostname "$HANDLE" || "$ATTACKER" handle . "$HANDLE"`, found: leaks(func(s *scene) string { return s.secret }),
	}, {
		group: "Files", tries: "enter the namespaces of processes of the host", want: inside,
		script: `for p in "$HOST_PID" 1; do nsenter -t "$p" -m cat "$OUTSIDE/secret"; done`, found: leaks(func(s *scene) string { return s.secret }),
	}, {
		group: "Files", tries: "write a file of the host", want: inside,
		script: `echo planted >"$OUTSIDE/planted" || echo planted >"/proc/1/root$OUTSIDE/planted"`, found: plants("planted"),
	}, {
		group: "Files", tries: "read the host's disk as a device", want: inside,
		able:   func(f *field) bool { return f.disk() != "" },
		script: `mknod disk b "$DISK_MAJOR" "$DISK_MINOR" && head -c 4096 disk | md5sum`, found: leaks(func(s *scene) string { return s.disk() }),
	}, {
		group: "Files", tries: "have a folder of the host removed: a mount of it in the project", want: everywhere(blocked),
		script: `mkdir m && mount --bind "$OUTSIDE" m; ls m`, found: harms(func(s *scene) bool { return !s.there("secret") || mounted(s.dir) }),
	}, {
		group: "Files", tries: "have a folder of the host removed: a link to it in place of the project", want: everywhere(blocked),
		script: `cd .. && rm -rf "$CI_PROJECT_DIR" && ln -s "$OUTSIDE" "$CI_PROJECT_DIR"`,
		found:  harms(func(s *scene) bool { return !s.there("secret") }),
	}, {
		group: "Files", tries: "leave what is hard to remove: no rights, sockets, deep folders, odd names", want: everywhere(blocked),
		script: `mkdir -p a/b; touch a/b/c "$(printf 'line\nbreak')"; chmod 000 a/b a; mkfifo pipe; "$ATTACKER" listen ./socket
d=.; n=0; while [ $n -lt 300 ]; do n=$((n+1)); d=$d/deep; done; mkdir -p "$d"`, found: harms((*scene).littered),
	}, {
		group: "Files", tries: "leave files that even root cannot remove (`chattr +i`)", want: everywhere(blocked),
		script: `mkdir stuck; touch stuck/file; chattr +i stuck/file; chattr +i stuck; true`, found: harms((*scene).littered),
	},
	{
		group: "The runner", tries: "read the runner's configuration, and the token in it", want: inside,
		script: `cat "$CONFIG"`, found: leaks(func(s *scene) string { return s.configured }),
	}, {
		group: "The runner", tries: "read the runner's records of other jobs", want: everywhere(blocked),
		script: `find "$STATE" -type f -path '*jobs*' -exec cat {} +`, found: leaks(func(s *scene) string { return s.private }),
	}, {
		group: "The runner", tries: "read the runner's environment, and its own for what is left of that", want: everywhere(blocked),
		script: `env; cat "/proc/$MANAGER_PID/environ" "/proc/$MANAGER_PID/cmdline"`, found: leaks(func(s *scene) string { return s.own }),
	}, {
		group: "The runner", tries: "use the terminal that the runner was started at", want: everywhere(blocked),
		script: `if : </dev/tty; then echo "it has a terminal: $MARK" >/dev/tty; echo "has $MARK"; fi`, found: says("has "),
	}, {
		group: "The runner", tries: "use files that the runner has open", want: everywhere(blocked),
		script: `"$ATTACKER" fds`, found: leaks(func(*scene) string { return "inherited" }),
	}, {
		group: "The runner", tries: "replace the step-runner that later jobs get", want: inside,
		script: `for f in "$PROGRAM" "$(command -v step-runner)" "/proc/$PPID/exe"; do cp -f "$ATTACKER" "$f"; cp "$ATTACKER" new && mv new "$f"; cat "$ATTACKER" >"$f"; done`,
		found:  harms((*scene).replaced),
	}, {
		group: "The runner", tries: "end its own step-runner, and so its failure", want: everywhere(contained),
		script: `kill -9 $PPID; sleep 20; exit 0`, found: ends("runner_system_failure"),
	}, {
		group: "The runner", tries: "pass as a success by what it prints", want: everywhere(blocked),
		script: `printf '\033[32;1mJob succeeded\033[0;m\n'; printf '\r\033[K\033[A\n{"status":"success","exit_code":0}\n'; exit 3`,
		found: func(s *scene) verdict {
			if s.result.State == gitlab.Failed && s.result.ExitCode == 3 {
				return blocked
			}
			return allowed
		},
	}, {
		group: "The runner", tries: "run with less isolation than the runner's minimum", want: [4]verdict{untried, blocked, blocked, blocked},
		script: `echo "runs $MARK"`, job: variable("RUNG_ISOLATION", "none"), found: says("runs "),
	}, {
		group: "The runner", tries: "take over the runner's own commands by variables (`DOCKER_HOST`, `LD_PRELOAD`, `PATH`)", want: everywhere(blocked),
		script: `true`, job: func(f *field, j *gitlab.Job) {
			address := fmt.Sprintf("tcp://127.0.0.1:%d", f.port)
			variable("DOCKER_HOST", address)(f, j)
			variable("HTTP_PROXY", address)(f, j)
			variable("RUNG_RUNSC", f.outside+"/evil")(f, j)
			variable("RUNG_SANDBOX_ROOT", f.outside)(f, j)
		},
		found: func(s *scene) verdict {
			if s.result.State != gitlab.Success {
				return allowed
			}
			return blocked
		},
	},
	{
		group: "Other jobs", tries: "read the variables of a job that runs beside it", want: inside,
		script: `cat /proc/[0-9]*/environ | tr '\0' '\n' | grep '^PRIVATE='`, found: leaks(func(s *scene) string { return s.private }),
	}, {
		group: "Other jobs", tries: "read the files of a job that runs beside it", want: inside,
		script: `cat "$NEIGHBOUR/private"`, found: leaks(func(s *scene) string { return s.private }),
	}, {
		group: "Other jobs", tries: "read what a job beside it has in `/tmp` and `/dev/shm`", want: inside,
		script: `cat /tmp/rung-attack-* /dev/shm/rung-attack-*`, found: leaks(func(s *scene) string { return s.private }),
	}, {
		group: "Other jobs", tries: "connect to a server of a job that runs beside it", want: inside,
		script: `for a in $NEIGHBOUR_AT; do "$ATTACKER" send tcp "$a" hello; done`, found: leaks(func(s *scene) string { return s.private }),
	}, {
		group: "Other jobs", tries: "plant hooks and settings for the next job of its project", want: everywhere(blocked),
		script: `mkdir -p .git/hooks; for f in .git/hooks/post-checkout .git/config "$HOME/.gitconfig" "$HOME/.bashrc" "$HOME/.netrc" "$HOME/.profile"; do echo "planted $MARK" >"$f"; done; ls -A`,
		next:   `ls -A . "$HOME"; cat .git/hooks/* .git/config "$HOME"/.gitconfig "$HOME/.bashrc" "$HOME/.netrc"; true`,
		found: func(s *scene) verdict {
			if strings.Contains(s.next.Log, "planted") || s.next.State != gitlab.Success {
				return allowed
			}
			return blocked
		},
	}, {
		group: "Other jobs", tries: "make git run commands in the next job of its project, by what it leaves in a kept folder (`GIT_STRATEGY: fetch`)", want: everywhere(blocked),
		able: hasGit, job: of(9, false, "fetch"), script: poison, nextJob: of(9, false, "fetch"), next: asCommitted, found: spoils(),
	}, {
		group: "Other jobs", tries: "the same, by a submodule's repository whose configuration is elsewhere (`commondir`)", want: everywhere(blocked),
		able: hasGit, job: withSubmodules, script: poisonElsewhere, nextJob: withSubmodules, next: submodulesAsCommitted, found: spoils(),
	}, {
		group: "Other jobs", tries: "the same, by a repository in the work tree of a submodule's submodule", want: everywhere(blocked),
		able: hasGit, job: withSubmodules, script: poisonNested, nextJob: withSubmodules, next: submodulesAsCommitted, found: spoils(),
	}, {
		group: "Other jobs", tries: "leave files in a kept folder for a job of a protected ref", want: everywhere(blocked),
		able: hasGit, job: of(9, false, "fetch"), script: "echo evil >left", nextJob: of(9, true, "none"), next: nothingLeft, found: spoils(),
	}, {
		group: "Other jobs", tries: "leave files in a kept folder for a job of another project", want: everywhere(blocked),
		able: hasGit, job: of(9, false, "fetch"), script: "echo evil >left", nextJob: of(10, false, "none"), next: nothingLeft, found: spoils(),
	}, {
		group: "Other jobs", tries: "read the cache of another project by its key (`../project-8/…`)", want: everywhere(blocked),
		before: func(f *field) { f.cached(8, "the-cache", f.secret) }, script: `cat cached`, job: cache("../project-8/the-cache", "pull"),
		found: leaks(func(s *scene) string { return s.secret }),
	}, {
		group: "Other jobs", tries: "write a cache outside of its project's by its key", want: everywhere(blocked),
		script: `echo planted >cached`, job: cache("../../../outside/planted", "push"), found: harms(func(s *scene) bool { return s.there("planted") || s.strayCaches() }),
	}, {
		group: "Other jobs", tries: "replace the cache of another project on the disk", want: inside,
		before: func(f *field) { f.cached(8, "the-cache", f.secret) }, script: `find "$STATE/caches" -type f -path '*project-8*' | while read f; do echo replaced >"$f"; done`,
		found: harms(func(s *scene) bool { return s.grep("replaced", filepath.Join(s.state(), "caches")) }),
	},
	{
		group: "Artifacts", tries: "upload files of the host through links and paths", want: everywhere(blocked),
		script: `ln -s "$OUTSIDE/secret" link; ln -s "$OUTSIDE" folder; ln "$OUTSIDE/secret" hard; echo ok >ok; true`,
		job:    artifact("ok", "link", "folder", "folder/secret", "../../../../../../../../../../../**/outside/secret", "/tmp/**/secret"),
		found:  harms(func(s *scene) bool { return s.uploaded(s.secret) }),
	}, {
		group: "Artifacts", tries: "write outside by an archive: `..`, absolute names, a file through a link", want: everywhere(blocked),
		script: `ls -R . | head`, job: (*field).evilArchive, found: plants("planted"),
	}, {
		group: "Artifacts", tries: "plant hooks by an archive with `.git/hooks`, in any spelling", want: everywhere(blocked),
		script: `cat .git/hooks/* .GIT/hooks/* git~1/hooks/*; true`, job: (*field).evilArchive, found: leaks(func(*scene) string { return "hooked" }),
	},
	{
		group: "Processes", tries: "kill a process of the host", want: inside,
		script: `kill -9 "$HOST_PID"`, found: harms(func(s *scene) bool { time.Sleep(50 * time.Millisecond); return !s.hostLives() }),
	}, {
		group: "Processes", tries: "kill every process that it can (`kill -9 -1`)", harmful: true, want: [4]verdict{allowed, allowed, contained, contained},
		script: `kill -9 -1; sleep 20`, found: func(s *scene) verdict {
			if !s.hostLives() {
				return allowed
			}
			return contained
		},
	}, {
		group: "Processes", tries: "read the environment of a process of the host", want: inside,
		script: `cat "/proc/$HOST_PID/environ" | tr '\0' '\n'`, found: leaks(func(s *scene) string { return s.hostWord }),
	}, {
		group: "Processes", tries: "attach a debugger to a process of the host", want: inside,
		script: `"$ATTACKER" ptrace "$HOST_PID"`, found: leaks(func(*scene) string { return `attached to "sleep` }),
	}, {
		group: "Processes", tries: "leave daemons: new sessions, no environment, no signals", want: everywhere(blocked),
		script: `setsid sleep "3$MARK" & (setsid nohup env -i sleep "3$MARK" >/dev/null 2>&1 &) ; sh -c "trap '' TERM HUP INT; sleep 3$MARK" & sleep 0.3; echo "leaves $MARK"`,
		found: harms(func(s *scene) bool {
			return len(processes("3"+s.mark)) > 0 || !strings.Contains(s.result.Log, "leaves "+s.mark)
		}),
	}, {
		group: "Processes", tries: "leave its control group, and a daemon with it", want: everywhere(blocked),
		script: `for f in /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs; do [ ! -e "$f" ] || echo $$ >"$f"; done; (setsid env -i sleep "3$MARK" >/dev/null 2>&1 &); sleep 0.3; cat /proc/self/cgroup`,
		found:  harms(func(s *scene) bool { return len(processes("3"+s.mark)) > 0 }),
	},
	{
		group: "Resources", tries: "have more processes than it may", want: limited,
		script: `n=0; while [ $n -lt 400 ]; do n=$((n+1)); sleep 20 & done; echo "runs all of $MARK"`, found: exceeds("runs all of "),
	}, {
		group: "Resources", tries: "have more processes than it may, in another control group", want: [4]verdict{allowed, allowed, contained, contained},
		script: `for f in /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs; do [ ! -e "$f" ] || echo $$ >"$f"; done; n=0; while [ $n -lt 400 ]; do n=$((n+1)); sleep 20 & done; echo "runs all of $MARK"`,
		found:  exceeds("runs all of "),
	}, {
		group: "Resources", tries: "use more memory than it may", want: limited,
		script: `"$ATTACKER" memory 400 && echo "holds all of $MARK"`, found: exceeds("holds all of "),
	}, {
		group: "Resources", tries: "use more memory than it may as files in `/dev/shm`", want: limited,
		script: `head -c 400000000 /dev/zero >"/dev/shm/rung-attack-$MARK" && echo "holds all of $MARK"; rm -f "/dev/shm/rung-attack-$MARK"`, found: exceeds("holds all of "),
	}, {
		group: "Resources", tries: "run before all others: a priority of -17, real-time scheduling", want: inside,
		script: `"$ATTACKER" urgent`, strikes: urgent, found: harms(func(s *scene) bool { return s.struck }),
	}, {
		group: "Resources", tries: "take all watchers of files that its user may have (inotify)", harmful: true, want: shared,
		script: `"$ATTACKER" watchers`, strikes: noWatcher, found: hits,
	}, {
		group: "Resources", tries: "take all terminals of the machine", harmful: true, want: shared,
		script: `"$ATTACKER" terminals`, strikes: noTerminal, found: hits,
	}, {
		group: "Resources", tries: "fill the log: 20 MB where 1 MiB is allowed", want: everywhere(contained),
		script: `yes "$MARK a line of a log without an end" | head -c 20000000`, found: func(s *scene) verdict {
			if len(s.result.Log) > 3<<19 {
				return allowed
			}
			return contained
		},
	}, {
		group: "Resources", tries: "fill the disk, as long as the job lasts", want: everywhere(allowed),
		script: `head -c 300000000 /dev/zero >fill && echo "wrote all of $MARK"`, found: exceeds("wrote all of "),
	},
	{
		group: "The machine", tries: "change a parameter of the kernel", want: inside,
		script: `echo 4711 >/proc/sys/kernel/printk_ratelimit_burst`, found: harms((*scene).parameter),
	}, {
		group: "The machine", tries: "change the clock", harmful: true, want: inside,
		script: `date -s "@$(($(date +%s)+2))"`, found: harms(func(s *scene) bool {
			now := time.Now()
			return now.Round(0).Sub(s.began.Round(0))-now.Sub(s.began) > time.Second
		}),
	}, {
		group: "The machine", tries: "read the kernel's log", want: inside,
		before: func(f *field) { _ = os.WriteFile("/dev/kmsg", []byte("rung: "+f.hostWord+"\n"), 0) },
		script: `dmesg | tail -n 200`, found: leaks(func(s *scene) string { return s.hostWord }),
	}, {
		group: "The machine", tries: "connect to a server on the host's loopback", want: inside,
		script: `for a in 127.0.0.1 10.0.2.2 ` + enginetest.Address() + `; do "$ATTACKER" connect "$a:$PORT"; done`, found: harms((*scene).meets),
	}, {
		group: "The machine", tries: "connect to a socket of the host", want: inside,
		script: `"$ATTACKER" connect "$OUTSIDE/socket"`, found: harms((*scene).meets),
	}, {
		group: "The machine", tries: "connect to an abstract socket of the host", want: inside,
		script: `"$ATTACKER" connect "$ABSTRACT"`, found: harms((*scene).meets),
	},
}

// leaks is allowed where GitLab has received a word.
func leaks(of func(*scene) string) func(*scene) verdict {
	return harms(func(s *scene) bool { return strings.Contains(s.result.Log, of(s)) })
}

// says is leaks for a word of the script, with the attack's number.
func says(begin string) func(*scene) verdict {
	return leaks(func(s *scene) string { return begin + s.mark })
}

// exceeds is allowed where the job has said that it has all that it wanted.
func exceeds(begin string) func(*scene) verdict {
	return func(s *scene) verdict {
		if strings.Contains(s.result.Log, begin+s.mark) {
			return allowed
		}
		return contained
	}
}

// harms is allowed where something is so on this machine.
func harms(is func(*scene) bool) func(*scene) verdict {
	return func(s *scene) verdict {
		if is(s) {
			return allowed
		}
		return blocked
	}
}

// hits is allowed where the machine was hit while the job ran.
func hits(s *scene) verdict {
	if s.struck {
		return allowed
	}
	return contained
}

// urgent reports whether a process of this machine has what `attacker urgent` wants: a priority of -17, or real-time scheduling at 37.
func urgent() bool {
	all, _ := filepath.Glob("/proc/[0-9]*/task/*/stat")
	return slices.ContainsFunc(all, func(name string) bool {
		text, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // from the third on, proc_pid_stat(5)
		return len(fields) > 38 && (fields[16] == "-17" || fields[37] == "37")
	})
}

func noWatcher() bool {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	_ = unix.Close(fd)
	return err != nil
}

func noTerminal() bool {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	_ = unix.Close(fd)
	return err != nil
}

// plants is allowed where a file is outside, which is removed.
func plants(name string) func(*scene) verdict {
	return harms(func(s *scene) bool {
		there := s.there(name)
		_ = os.Remove(filepath.Join(s.outside, name))
		return there
	})
}

// ends is contained where the job ends for a reason.
func ends(reason string) func(*scene) verdict {
	return func(s *scene) verdict {
		if s.result.FailureReason == reason {
			return contained
		}
		return allowed
	}
}

func variable(key, value string) func(*field, *gitlab.Job) {
	return func(_ *field, j *gitlab.Job) {
		j.Variables = append(j.Variables, gitlab.Variable{Key: key, Value: value})
	}
}

func artifact(paths ...string) func(*field, *gitlab.Job) {
	return func(_ *field, j *gitlab.Job) {
		j.Artifacts = []gitlab.Artifact{{Name: "loot", Paths: paths, Type: "archive", Format: "zip", When: "always"}}
	}
}

func cache(key, policy string) func(*field, *gitlab.Job) {
	return func(_ *field, j *gitlab.Job) {
		j.Cache = []gitlab.Cache{{Key: key, Paths: []string{"cached"}, Policy: policy, When: "always"}}
	}
}

// cached lets a job of another project have a cache.
func (f *field) cached(project int64, key, text string) {
	f.t.Helper()
	j := f.job(`echo "$TEXT" >cached`)
	j.Info.ProjectID = project
	variable("TEXT", text)(f, &j)
	cache(key, "push")(f, &j)
	if r := f.wait(f.t, f.server.Enqueue(j)); r.State != gitlab.Success {
		f.t.Fatal(r.Log)
	}
}

// evilArchive makes the job depend on one whose artifacts are hostile.
func (f *field) evilArchive(j *gitlab.Job) {
	var data bytes.Buffer
	w := zip.NewWriter(&data)
	add := func(name, text string, mode os.FileMode) {
		h := &zip.FileHeader{Name: name}
		h.SetMode(mode)
		if part, err := w.CreateHeader(h); err == nil {
			_, _ = part.Write([]byte(text))
		}
	}
	for _, name := range []string{".git/hooks/post-checkout", ".GIT/hooks/pre-commit", "git~1/hooks/pre-push", ".git./hooks/update"} {
		add(name, "hooked", 0o755)
	}
	add("up", f.outside, os.ModeSymlink|0o777)
	add("up/planted", "planted", 0o644)
	add(strings.TrimPrefix(f.outside, "/")+"/../../../../../../../.."+f.outside+"/planted", "planted", 0o644)
	add(f.outside+"/planted", "planted", 0o644)
	add(strings.Repeat("../", 30)+strings.TrimPrefix(f.outside, "/")+"/planted", "planted", 0o644)
	_ = w.Close()
	from := f.server.Enqueue(gitlab.Job{Info: gitlab.JobInfo{ProjectID: 7}, Steps: []gitlab.Step{{Name: "script", Script: []string{"true"}}}, Variables: []gitlab.Variable{{Key: "GIT_STRATEGY", Value: "empty"}}})
	f.wait(f.t, from)
	from.Upload(gitlabtest.Artifact{Type: "archive", Format: "zip", Filename: "evil.zip", Data: data.Bytes()})
	j.Dependencies = []gitlab.Dependency{{ID: from.Ref().ID, Name: "evil", Token: from.Ref().Token, ArtifactsFile: &gitlab.ArtifactsFile{Filename: "evil.zip", Size: int64(data.Len())}}}
}

// uploaded reports whether an artifact of the job has a text.
func (s *scene) uploaded(text string) bool {
	for _, a := range s.result.Artifacts {
		r, err := zip.NewReader(bytes.NewReader(a.Data), int64(len(a.Data)))
		if err != nil {
			continue
		}
		for _, file := range r.File {
			in, err := file.Open()
			if err != nil {
				continue
			}
			var content bytes.Buffer
			_, _ = content.ReadFrom(in)
			_ = in.Close()
			if strings.Contains(content.String(), text) {
				return true
			}
		}
	}
	return false
}

// littered reports whether files of the job are left.
func (s *scene) littered() bool {
	out, _ := exec.Command("find", s.state(), filepath.Join(s.dir, "t"), "-name", "deep", "-o", "-name", "pipe", "-o", "-name", "socket", "-o", "-name", "stuck").Output()
	if len(out) > 0 {
		s.t.Logf("left:\n%s", out)
		_ = exec.Command("chattr", "-R", "-i", s.state()).Run()
	}
	return len(out) > 0
}

// replaced reports whether the step-runner of this machine is another one, and puts back the right one.
func (s *scene) replaced() bool {
	defer s.restore()
	return exec.Command("cmp", "-s", program, s.program).Run() != nil
}

// strayCaches reports whether there are caches outside of the folders of projects.
func (s *scene) strayCaches() bool {
	out, _ := exec.Command("find", s.dir, "-name", "cache.zip", "-not", "-path", filepath.Join(s.state(), "caches", "*", "project-*", "*")).Output()
	return len(out) > 0
}

// disk is the md5sum of what the disk of the root folder begins with; "" where even root cannot read it.
func (f *field) disk() string {
	var info syscall.Stat_t
	name := filepath.Join(f.dir, "disk")
	defer os.Remove(name)
	if syscall.Stat("/", &info) != nil || syscall.Mknod(name, syscall.S_IFBLK|0o600, int(info.Dev)) != nil {
		return ""
	}
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	begin := make([]byte, 4096)
	_, _ = file.Read(begin)
	return fmt.Sprintf("%x", md5.Sum(begin)) //nolint:gosec // as md5sum
}

// mounted reports whether something is mounted below a folder, and unmounts it.
func mounted(dir string) (is bool) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(mounts), "\n") {
		if at := strings.Fields(line); len(at) > 1 && strings.HasPrefix(at[1], dir) {
			is = true
			_ = syscall.Unmount(at[1], syscall.MNT_DETACH)
		}
	}
	return is
}

// parameter reports whether the job has changed it, and changes it back.
func (s *scene) parameter() bool {
	const file = "/proc/sys/kernel/printk_ratelimit_burst"
	value, _ := os.ReadFile(file)
	if strings.TrimSpace(string(value)) != "4711" {
		return false
	}
	_ = os.WriteFile(file, []byte("10\n"), 0)
	return true
}

// meets reports whether the job has reached a server of this machine.
func (s *scene) meets() bool {
	for range 20 {
		if s.met.Load() > s.before {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
