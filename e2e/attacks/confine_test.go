//go:build linux

package attacks

import (
	"cmp"
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// theft is a row of the table of what confined steps are kept from, in docs/security.md.
type theft struct {
	row    string // of the table
	before string // what another step does first
	beside string // what another step does at the same time
	script string // writes what it gets to its output
}

// thefts are what a hostile component tries. V is the folder of the victim, CANARY what it must not get.
var thefts = []theft{
	{row: "files of the user", script: `cat V/home/secret`},
	{row: "what other steps leave in the run's home and temporary folders", before: `echo CANARY >~/note; echo CANARY >$TMPDIR/note`, script: `find V/tmp -name note -exec cat {} +`},
	{row: "inputs, outputs and scripts of other steps", beside: `touch started; echo CANARY >"${{ output_file }}.part"; touch given; while ! test -e done; do sleep 0.01; done`, script: `while ! test -e given; do sleep 0.01; done; cat V/tmp/step-runner-*/files/*`},
	{row: "other processes, their environment and memory", beside: `LEAK=CANARY sh -c 'touch started; while ! test -e done; do sleep 0.01; done'`, script: `cat /proc/[0-9]*/environ`},
	{row: "the event log and the trace", before: `echo CANARY`, script: `cat trace.json trace.json.events*`},
	{row: "the cache of components", script: `cat V/home/.cache/step-runner/secret`},
	{row: "shared memory", before: `echo CANARY >/dev/shm/NAME`, script: `cat /dev/shm/NAME`},
	{row: "sockets", script: `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); connect(S,sockaddr_un("V/socket")) && print <S>'`},
	{row: "abstract sockets", script: `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); connect(S,pack("Sa*",AF_UNIX,"\0NAME")) && print <S>'`},
}

// TestAConfinedComponentGetsNothing tries each theft twice: what is confined gets nothing, and what is not shows that there is something to get.
func TestAConfinedComponentGetsNothing(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	for _, theft := range thefts {
		if _, err := exec.LookPath("perl"); err != nil && strings.Contains(theft.script, "perl") {
			continue // nothing else here can connect
		}
		t.Run(theft.row, func(t *testing.T) {
			t.Parallel()
			if loot, canary := theft.commit(t, "false"); !strings.Contains(loot, canary) {
				t.Errorf("what is not confined gets %q", loot)
			}
			if loot, canary := theft.commit(t, "true"); strings.Contains(loot, canary) {
				t.Errorf("what is confined gets %q", loot)
			}
		})
	}
}

// commit runs the theft and returns what it got, and what it looked for.
func (theft theft) commit(t *testing.T, confine string) (loot, canary string) {
	t.Helper()
	canary = "canary-" + rand.Text()
	name := "rung-" + rand.Text()
	v := newVictim(t)
	secrets := filepath.Join(v.dir, "home", ".cache", "step-runner")
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(v.dir, "home", "secret"), filepath.Join(secrets, "secret")} {
		if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{filepath.Join(v.dir, "socket"), "@" + name} {
		serve(t, address, canary)
	}
	t.Cleanup(func() { _ = os.Remove("/dev/shm/" + name) })
	fill := strings.NewReplacer("V/", v.dir+"/", "CANARY", canary, "NAME", name).Replace
	v.write("hostile/func.yml", "spec: {}\n---\nexec:\n  script: |\n    while ! test -e started; do sleep 0.01; done\n    { "+fill(theft.script)+"\n    } >loot 2>/dev/null || true\n    touch done\n")
	before, beside := cmp.Or(theft.before, "true"), cmp.Or(theft.beside, "touch started")
	v.write("steps.yml", "- {name: before, script: \""+fill(before)+"\"}\n- parallel:\n  - name: beside\n    script: |\n      "+
		fill(beside)+"\n  - {name: hostile, step: ./hostile, confine: "+confine+"}\n")
	v.mustRun("run", "steps.yml", "--output-file", "trace.json", "--timeout", "1m")
	return v.read("loot"), canary
}

// serve tells everybody who connects to a socket the secret, until the test ends.
func serve(t *testing.T, address, secret string) {
	t.Helper()
	listener, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(secret))
			_ = conn.Close()
		}
	}()
}

// needsConfinement skips a test where processes cannot be confined.
func needsConfinement(t *testing.T) {
	t.Helper()
	if out, _ := exec.Command(program, "doctor").Output(); !strings.Contains(string(out), "steps can be confined: ") {
		t.Skip("processes cannot be confined here: step-runner doctor says why")
	}
}

// TestAConfinedComponentChangesNothing tries to change what does not belong to it.
func TestAConfinedComponentChangesNothing(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	for name, script := range map[string]string{
		"the cache":              `echo x >>V/home/.cache/step-runner/file`,
		"files of the user":      `echo x >>V/home/file; rm -rf V/home/*`,
		"the trace":              `echo x >trace.json.events; rm -f trace.json.events; mv trace.json.events.log elsewhere`,
		"programs":               `echo x >/usr/bin/NAME`,
		"settings of the system": `echo x >/etc/NAME`,
		"settings of the kernel": `echo NAME >/proc/sys/kernel/domainname`,
		"its own view":           `mount --bind /proc/1/root V/work; umount -l /tmp; chroot /proc/1/root sh -c 'echo x >V/home/file'`,
		"other processes":        `kill -9 $(cat pid)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			fill := strings.NewReplacer("V/", v.dir+"/", "NAME", "rung-attack").Replace
			if err := os.MkdirAll(filepath.Join(v.dir, "home", ".cache", "step-runner"), 0o700); err != nil {
				t.Fatal(err)
			}
			files := []string{filepath.Join(v.dir, "home", "file"), filepath.Join(v.dir, "home", ".cache", "step-runner", "file")}
			for _, file := range files {
				if err := os.WriteFile(file, []byte("as it was"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			v.write("hostile/func.yml", "spec: {}\n---\nexec:\n  script: |\n    while ! test -s pid; do sleep 0.01; done\n    sh -c '"+strings.ReplaceAll(fill(script), "'", `'\''`)+"' 2>/dev/null || true\n    touch done\n")
			v.write("steps.yml", "- parallel:\n  - name: beside\n    script: |\n      echo $$ >pid\n      while ! test -e done; do sleep 0.01; done\n  - {name: hostile, step: ./hostile, confine: true}\n")
			v.mustRun("run", "steps.yml", "--output-file", "trace.json", "--timeout", "1m")
			for _, file := range files {
				if text, err := os.ReadFile(file); string(text) != "as it was" {
					t.Errorf("%s: %q, %v", file, text, err)
				}
			}
			for _, file := range []string{"/usr/bin/rung-attack", "/etc/rung-attack"} {
				if os.Remove(file) == nil {
					t.Errorf("there was %s", file)
				}
			}
			if text, _ := os.ReadFile("/proc/sys/kernel/domainname"); strings.Contains(string(text), "rung-attack") {
				t.Error("the kernel's settings changed")
			}
			if trace := v.read("trace.json"); !strings.Contains(trace, `"status": "success"`) && !strings.Contains(trace, `"status":"success"`) {
				t.Errorf("the trace is %q", trace)
			}
		})
	}
}

// TestAKilledRunnerLeavesNothingOfAConfinedStep kills step-runner with SIGKILL while a confined step and its daemons run.
func TestAKilledRunnerLeavesNothingOfAConfinedStep(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	v, mark := newVictim(t), "mark-"+rand.Text()
	stay := "sh -c 'while :; do sleep 0.1; done' " + mark
	v.write("steps.yml", "- name: stay\n  confine: true\n  script: |\n    trap '' TERM HUP\n    setsid env -i sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' "+mark+
		" </dev/null >/dev/null 2>&1 &\n    (setsid "+stay+" </dev/null >/dev/null 2>&1 &)\n    "+stay+"\n")
	cmd := v.command("run", "steps.yml")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.await("the step and its daemons run, and the watchdog", func() bool {
		return countRunning(mark) >= 3 && hasChild(cmd.Process.Pid, "step-runner\x00watchdog\x00")
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	v.await("all of them have ended", func() bool { return countRunning(mark) == 0 })
	v.await("the folders are gone", func() bool {
		left, err := os.ReadDir(filepath.Join(v.dir, "tmp"))
		return err == nil && len(left) == 0
	})
}

// countRunning counts the processes of the machine, in all namespaces, with a text in their arguments.
func countRunning(text string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	count := 0
	for _, file := range files {
		if args, _ := os.ReadFile(file); strings.HasSuffix(string(args), text+"\x00") {
			count++
		}
	}
	return count
}

// TestADaemonOfAConfinedStepEndsWithIt has one that nothing but its namespace connects to the step.
func TestADaemonOfAConfinedStepEndsWithIt(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	v, mark := newVictim(t), "mark-"+rand.Text()
	v.write("steps.yml", "- name: stay\n  confine: true\n  script: |\n    (setsid env -i sh -c 'trap \"\" TERM; touch alive; while :; do sleep 0.1; done' "+mark+
		" </dev/null >/dev/null 2>&1 &)\n    while ! test -e alive; do sleep 0.01; done\n- {name: after, script: 'grep -l [m]"+mark[1:]+" /proc/[0-9]*/cmdline >found || true'}\n")
	v.mustRun("run", "steps.yml")
	if n := countRunning(mark); n > 0 || v.read("found") != "" {
		t.Errorf("%d processes are left; the next step found %q", n, v.read("found"))
	}
}

// TestTheTableOfConfinedStepsHasARowForEachAttack holds docs/security.md against what is tried here.
func TestTheTableOfConfinedStepsHasARowForEachAttack(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, theft := range thefts {
		if !strings.Contains(string(page), "| "+theft.row+" |") {
			t.Errorf("docs/security.md has no row for %q", theft.row)
		}
	}
}
