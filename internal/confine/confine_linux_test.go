package confine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/internal/confine"
	"github.com/rungci/rung/internal/process"
)

// place is a work directory, and a folder beside it that a view does not have.
type place struct{ work, beside string }

func newPlace(t *testing.T) place {
	t.Helper()
	if err := process.CanConfine(); err != nil {
		t.Skipf("processes cannot be confined here: %v", err)
	}
	dir := t.TempDir()
	p := place{filepath.Join(dir, "work"), filepath.Join(dir, "beside")}
	for _, path := range []string{p.work, p.beside} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.beside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// view is one with the work directory.
func (p place) view() *confine.View {
	v := &confine.View{}
	v.Add(p.work, true)
	return v
}

// run runs a script in a view, by default that of the work directory.
func (p place) run(t *testing.T, script string, change ...func(*process.Spec)) (process.Result, string, error) {
	t.Helper()
	var out bytes.Buffer
	spec := process.Spec{
		Args: []string{"sh", "-c", script}, Dir: p.work, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "BESIDE=" + p.beside, "TEST=" + strconv.Itoa(os.Getpid())},
		Stdout: &out, Stderr: &out, Grace: time.Minute, Confine: p.view(),
	}
	for _, c := range change {
		c(&spec)
	}
	result, err := process.Run(t.Context(), nil, spec)
	return result, strings.TrimSpace(out.String()), err
}

func TestConfinedProcessSeesNothingElse(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, tt := range map[string]struct{ script, want string }{
		"a file beside its own":              {`cat "$BESIDE/secret" 2>/dev/null || echo no`, "no"},
		"that it exists":                     {`test -e "$BESIDE" || echo no`, "no"},
		"the folders of users":               {`ls /home /root /var /run /mnt /srv 2>/dev/null; echo nothing`, "nothing"},
		"other processes":                    {`set -- /proc/[0-9]*; echo $#; kill -0 $TEST 2>/dev/null || echo no`, "2\nno"},
		"its init":                           {`cat /proc/1/environ /proc/1/mem 2>/dev/null; readlink /proc/1/fd/3 2>/dev/null || echo no`, "no"},
		"memory that processes share":        {`ls /dev/shm | wc -l`, "0"},
		"writing programs":                   {`(echo >>/usr/bin/env) 2>/dev/null || echo no`, "no"},
		"a new file in a system folder":      {`(touch /usr/bin/new-program) 2>/dev/null || echo no`, "no"},
		"the settings of the kernel":         {`for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do (echo x >$f) 2>/dev/null || echo no; done`, "no\nno"},
		"passwords":                          {`cat /etc/shadow 2>/dev/null | wc -l`, "0"},
		"keys and passwords in /etc":         {`find -L /etc -type f ! -perm -004 -exec head -qc 1 {} + 2>/dev/null; echo none`, "none"},
		"a mount":                            {`mount -t tmpfs none "$PWD" 2>/dev/null || umount /proc 2>/dev/null || echo no`, "no"},
		"a user namespace":                   {`unshare -Ur true 2>/dev/null || echo no`, "no"},
		"capabilities over others' files":    {`grep CapEff /proc/self/status | tr -d 0b1`, "CapEff:"},
		"more privileges from a set-ID file": {`grep NoNewPrivs /proc/self/status | tr -dc 01`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, out, err := p.run(t, tt.script); err != nil || out != tt.want {
				t.Errorf("got %q, %v, want %q", out, err, tt.want)
			}
		})
	}
}

func TestConfinedProcessHasWhatItNeeds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, tt := range map[string]struct{ script, want string }{
		"its work directory":       {`echo text >file; mkdir d; mv file d/file; ln d/file d/other; cat d/other; pwd | grep -c /work; rm -r d`, "text\n1"},
		"its own user":             {`id -u`, strconv.Itoa(os.Getuid())},
		"its environment":          {`echo $TEST`, strconv.Itoa(os.Getpid())},
		"its own /proc":            {`readlink /proc/self >/dev/null && cat /proc/$$/comm`, "sh"},
		"devices":                  {`echo x >/dev/null; head -c 4 /dev/zero | wc -c; echo on >/dev/stdout; echo x >/dev/shm/x`, "4\non"},
		"a process to signal":      {`sleep 1000 & kill $!; wait $! 2>/dev/null || echo $?`, "143"},
		"a group of its own":       {`test $(ps -o pgid= -p $$ 2>/dev/null || echo $$) = $$ && echo yes`, "yes"},
		"an address to connect to": {`cat /etc/resolv.conf >/dev/null && echo readable`, "readable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, out, err := p.run(t, tt.script); err != nil || out != tt.want {
				t.Errorf("got %q, %v, want %q", out, err, tt.want)
			}
		})
	}
}

func TestConfinedProcessEndsAsItDoesElsewhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for script, want := range map[string]process.Result{
		"true":                    {},
		"exit 7":                  {ExitCode: 7},
		"exit 255":                {ExitCode: 255},
		"kill -9 $$":              {ExitCode: -1, Signal: "SIGKILL"},
		"kill -SEGV $$":           {ExitCode: -1, Signal: "SIGSEGV"},
		"sh -c 'kill -TERM $$'":   {ExitCode: 143},
		"trap '' TERM; kill $$":   {},
		"kill -9 1; exit 3":       {ExitCode: 3},
		"(sleep 1000 &) ; exit 4": {ExitCode: 4},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			got, out, err := p.run(t, script)
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v (%s)", got, err, want, out)
			}
			free, _, err := p.run(t, script, func(s *process.Spec) { s.Confine = nil })
			if script != "kill -9 1; exit 3" && (err != nil || free != got) {
				t.Errorf("a process that is not confined ends with %+v, %v", free, err)
			}
		})
	}
}

// TestConfinedProcessCannotEndItsInit sends it every signal but the one for a polite stop, which comes back.
func TestConfinedProcessCannotEndItsInit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	got, out, err := p.run(t, `for i in $(seq 64); do case $i in 15 | 32 | 33 | 34) ;; *) kill -$i 1 2>/dev/null ;; esac; done; sleep 0.1; echo alive; exit 3`)
	if err != nil || got != (process.Result{ExitCode: 3}) || out != "alive" {
		t.Errorf("got %+v, %q, %v", got, out, err)
	}
}

// TestConfinedProcessIgnoresNoSignals compares what a confined process ignores with what others ignore that this one starts.
func TestConfinedProcessIgnoresNoSignals(t *testing.T) {
	t.Parallel()
	const ignored = "grep SigIgn /proc/self/status"
	want, err := exec.Command("sh", "-c", ignored).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := newPlace(t).run(t, ignored)
	if err != nil || got != strings.TrimSpace(string(want)) {
		t.Errorf("it has %q, %v, want %q", got, err, want)
	}
}

// TestConfinedProcessHasNoKeyrings asks for the keyring of its user, which is not of a namespace.
func TestConfinedProcessHasNoKeyrings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	const getID, ofUser = 0, -4
	call := fmt.Sprintf(`perl -e 'print syscall(%d, %d, %d, 1) < 0 ? $!+0 : "keys"'`, unix.SYS_KEYCTL, getID, ofUser)
	if _, out, err := p.run(t, call); err != nil || out != strconv.Itoa(int(unix.ENOSYS)) {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestConfinedProcessSeesNamesOfSockets holds what docs/security.md says of /proc/net: it has the name of one that it cannot reach.
func TestConfinedProcessSeesNamesOfSockets(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir, err := os.MkdirTemp("", "s") // a short path, as sockets need
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, out, err := p.run(t, "grep -c "+dir+"/s /proc/net/unix; test -e "+dir+" || echo unreachable"); err != nil || out != "1\nunreachable" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestConfinedProcessThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	hidden := filepath.Join(p.beside, "tool")
	if err := os.WriteFile(hidden, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, kind := range map[string]error{"no-such-program": process.ErrNotFound, hidden: process.ErrNotExecutable, p.work: process.ErrNotExecutable} {
		_, _, err := p.run(t, "", func(s *process.Spec) { s.Args = []string{program} })
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

func TestConfinedProcessIsStoppedPolitely(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx, stop := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = r.Read(make([]byte, 1))
		stop()
	}()
	var out bytes.Buffer
	_, err = process.Run(ctx, nil, process.Spec{
		Args: []string{"sh", "-c", `trap 'echo asked; exit 9' TERM; echo >&3; while :; do sleep 0.01; done`}, Dir: p.work,
		Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: &out, Grace: 3 * time.Second, Confine: p.view(), Files: []*os.File{w},
	})
	if !errors.Is(err, context.Canceled) || out.String() != "asked\n" {
		t.Errorf("got %v, %q", err, out.String())
	}
}

// TestDaemonOfAConfinedProcessDiesWithIt has a daemon that leaves its session and its parents, closes its files and clears its environment.
func TestDaemonOfAConfinedProcessDiesWithIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, _, err := p.run(t, `(setsid env -i sh -c '(echo >alive; while echo >>alive; do sleep 0.01; done) &' </dev/null >/dev/null 2>&1 &)
while ! test -s alive; do sleep 0.01; done`)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(p.work, "alive"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a daemon that lives would write several times while another process starts
		_, _, _ = p.run(t, "sleep 0.03")
	}
	if after, _ := os.Stat(filepath.Join(p.work, "alive")); after.Size() != before.Size() {
		t.Error("the daemon is still writing")
	}
}

func TestConfinedProcessIsGivenMore(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	listener, err := net.Listen("unix", filepath.Join(p.beside, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connect := `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); print connect(S,sockaddr_un("'"$BESIDE"'/socket"))?"yes":"no"'`
	for name, tt := range map[string]struct {
		script, want string
		add          string
		writable     bool
	}{
		"nothing":            {connect, "no", "", false},
		"a socket":           {connect, "yes", "socket", true},
		"a file":             {`cat "$BESIDE/secret"; (echo >>"$BESIDE/secret") 2>/dev/null || echo no`, "secretno", "secret", false},
		"a folder":           {`ls "$BESIDE"; (touch "$BESIDE/new") 2>/dev/null || echo no`, "secret\nsocket\nno", ".", false},
		"a folder to change": {`touch "$BESIDE/new" && rm "$BESIDE/new" && echo yes`, "yes", ".", true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("perl"); err != nil && strings.Contains(tt.script, "perl") {
				t.Skip("perl is not installed")
			}
			_, out, err := p.run(t, tt.script, func(s *process.Spec) {
				if tt.add != "" {
					s.Confine.Add(filepath.Join(p.beside, tt.add), tt.writable)
				}
			})
			if err != nil || out != tt.want {
				t.Errorf("got %q, %v, want %q", out, err, tt.want)
			}
		})
	}
}

func TestConfinedProcessDoesNotSeeWhatIsHidden(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, out, err := p.run(t, `cat "$BESIDE/secret"; ls work beside; cat work/kept; mv beside away 2>/dev/null || echo no`, func(s *process.Spec) {
		parent := filepath.Dir(p.work)
		if err := os.WriteFile(filepath.Join(p.work, "kept"), []byte("kept\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Dir, s.Confine = parent, &confine.View{Hidden: []string{p.beside, filepath.Join(p.beside, "secret")}}
		s.Confine.Add(parent, true)
	})
	if err != nil || !strings.HasSuffix(out, "beside:\n\nwork:\nkept\nkept\nno") {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestConfinedProcessHasWhatIsBelowWhatIsHidden has its folder below one that it does not see, in one that it writes to, as in a run whose
// folder is in /tmp: nothing is made there.
func TestConfinedProcessHasWhatIsBelowWhatIsHidden(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	temporary, own := t.TempDir(), filepath.Join(p.beside, "deep", "own")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	_, out, err := p.run(t, `ls -R "$BESIDE" | tail -n 1; echo x >"$BESIDE/deep/own/file"; mv "$BESIDE" "$BESIDE-away" 2>/dev/null || echo kept`, func(s *process.Spec) {
		s.Confine.Paths = append(s.Confine.Paths, confine.Path{At: filepath.Dir(p.beside), From: temporary, Writable: true})
		s.Confine.Hidden = []string{p.beside}
		s.Confine.Add(own, true)
	})
	if err != nil || !strings.HasSuffix(out, "own:\nkept") {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(own, "file")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(temporary, filepath.Base(p.beside), "deep")); err == nil {
		t.Error("the places of mounts are on the disk")
	}
}

// TestWorkDirectoryInSharedMemory has it in a folder that is the process's own otherwise.
func TestWorkDirectoryInSharedMemory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	work, err := os.MkdirTemp("/dev/shm", "confined")
	if err != nil {
		t.Skipf("no shared memory: %v", err)
	}
	defer os.RemoveAll(work)
	_, out, err := p.run(t, `pwd; ls /dev/shm; echo x >here && echo x >/dev/shm/there`, func(s *process.Spec) {
		s.Dir, s.Confine = work, &confine.View{}
		s.Confine.Add(work, true)
	})
	if err != nil || out != work+"\n"+filepath.Base(work) {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := os.Stat("/dev/shm/there"); err == nil {
		t.Error("it wrote beside its work directory")
	}
}

// TestConfinedProcessCannotRenameTheFolderOfWhatIsHidden has one rename it, after which it would be seen in the next one's view.
func TestConfinedProcessCannotRenameTheFolderOfWhatIsHidden(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	change := func(s *process.Spec) {
		parent := filepath.Dir(p.work)
		s.Dir, s.Confine = parent, &confine.View{Hidden: []string{filepath.Join(p.beside, "secret")}}
		s.Confine.Add(parent, true)
	}
	_, out, err := p.run(t, `mv beside away 2>/dev/null || echo kept; echo x >beside/new; mv work other && mv other work && echo moved`, change)
	if err != nil || out != "kept\nmoved" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, out, err := p.run(t, `cat */secret; ls beside`, change); err != nil || out != "new\nsecret" {
		t.Errorf("the next one: %q, %v", out, err)
	}
}

// TestAbstractSocketsOfOthersCannotBeReached connects to one that this test listens on.
func TestAbstractSocketsOfOthersCannotBeReached(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	name := "rung-test-" + strconv.Itoa(os.Getpid()) + strconv.Itoa(os.Getuid())
	listener, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connect := `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); print connect(S,pack("Sa*",AF_UNIX,"\0` + name + `"))?"yes":"no"'`
	if _, out, err := p.run(t, connect, func(s *process.Spec) { s.Confine = nil }); out != "yes" {
		t.Fatalf("a process that is not confined: %q, %v", out, err)
	}
	want := "no"
	if confine.ABI() < confine.ScopeABI {
		want = "yes"
	}
	if _, out, err := p.run(t, connect); out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestConfinedProcessIsGivenItsFilesAndInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file, err := process.MemoryFile([]byte("in memory\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, out, err := p.run(t, "cat "+process.FilePath(0)+" -; ls /proc/self/fd | wc -l", func(s *process.Spec) {
		s.Files, s.Stdin = []*os.File{file}, []byte("input\n")
	})
	if err != nil || out != "in memory\ninput\n5" { // the three, the file, and what ls reads
		t.Errorf("got %q, %v", out, err)
	}
}

// TestAsAnOrdinaryUser runs the tests of this file as nobody, if they are being run as root.
func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	newPlace(t)
	if os.Geteuid() != 0 {
		return // the others have
	}
	const nobody = 65534
	dir := t.TempDir()
	for path := dir; path != "/" && path != os.TempDir(); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, temp := filepath.Join(dir, "test"), filepath.Join(dir, "tmp")
	if err := copyProgram(program); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(temp, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=Confined|Daemon|Abstract|WorkDirectory")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp, "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestConfinedProcessSeesNothingElse")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func copyProgram(to string) error {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return errors.Join(out.Chmod(0o755), out.Close())
}

// TestMain conceals this program as step-runner does itself.
func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
