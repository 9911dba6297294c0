package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestSystemdScripts runs the stories of testdata/systemd, each on a machine of its own that systemd has booted: a container with what is installed on this one, whose changes
// are in memory, and with the network of this one. `exec inside COMMAND…` runs there, as root.
func TestSystemdScripts(t *testing.T) {
	for _, name := range []string{"systemd-nspawn", "unshare", "nsenter", "mount"} {
		enginetest.Program(t, name)
	}
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root, who boots systemd")
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		enginetest.Skip(t, "a root that may mount: "+string(out))
	}
	stories, err := filepath.Glob("testdata/systemd/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range stories {
		t.Run(filepath.Base(story), func(t *testing.T) {
			t.Parallel()
			runStories(t, testscript.Params{Files: []string{story}, Setup: func(env *testscript.Env) error {
				bin := filepath.Join(env.WorkDir, "bin")
				env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
				return bootSystemd(t, env.WorkDir, filepath.Join(bin, "inside"))
			}}, nil)
		})
	}
}

// bootScript boots systemd in a folder ($1), with a name ($2). Nothing is started but what a machine needs, and what the story installs; and nothing tidies folders up.
// It has control groups of its own, in the hierarchy that systemd uses, and the machine an ID, without which systemd would enable all that is installed.
const bootScript = `cd "$1" && mkdir memory root && mount -t tmpfs tmpfs memory && mkdir memory/upper memory/work || exit
mount -t overlay overlay -o lowerdir=/,upperdir=memory/upper,workdir=memory/work root || exit
rm -rf root/etc/systemd/system/*.wants
for unit in systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-tmpfiles-clean.timer systemd-udevd.service systemd-udev-trigger.service; do
  ln -sf /dev/null "root/etc/systemd/system/$unit"
done
rm -f root/etc/machine-id
echo 0123456789abcdef0123456789abcdef >root/etc/machine-id
for group in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
  case $(stat -fc %T "$group" 2>/dev/null) in
  cgroup*) mkdir "$group/$2" && echo $$ >"$group/$2/cgroup.procs" || exit ;;
  esac
done
exec systemd-nspawn --quiet --directory=root --register=no --keep-unit --console=pipe --link-journal=no --boot --machine="$2" systemd.unit=multi-user.target`

// insideScript runs a command on the machine whose first process is the number.
const insideScript = `#!/bin/sh
exec nsenter --target %d --mount --pid --ipc --uts --cgroup -- "$@"
`

// bootSystemd boots a machine that ends with the test. inside is the file of the command that runs others there.
func bootSystemd(t *testing.T, folder, inside string) error {
	machine, name := filepath.Join(folder, "machine"), fmt.Sprintf("rung-systemd-%d-%d", os.Getpid(), time.Now().UnixNano())
	if err := os.MkdirAll(machine, 0o700); err != nil {
		return err
	}
	var said bytes.Buffer
	boot := exec.Command("unshare", "--mount", "sh", "-c", bootScript, "sh", machine, name)
	boot.Stdout, boot.Stderr = &said, &said
	boot.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // systemd-nspawn takes its machine along
	if err := boot.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = boot.Wait()
		close(ended)
	}()
	first := 0
	t.Cleanup(func() {
		if first != 0 {
			_ = exec.Command("kill", "-KILL", fmt.Sprint(first)).Run() // and with it all that is in there
		}
		_ = boot.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("systemd said: %s", said.String())
		}
		removeGroups(t, name)
	})
	for until := time.Now().Add(jobTime); ; time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			return fmt.Errorf("systemd has not booted: %s", said.String())
		default:
		}
		if time.Now().After(until) {
			return fmt.Errorf("systemd does not boot")
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", boot.Process.Pid)) // unshare has become sh, and that systemd-nspawn
		child := 0
		if _, err := fmt.Sscan(string(children), &child); err != nil {
			continue
		}
		if command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); strings.TrimSpace(string(command)) != "systemd" {
			continue
		}
		first = child
		if err := os.MkdirAll(filepath.Dir(inside), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(inside, fmt.Appendf(nil, insideScript, first), 0o700); err != nil {
			return err
		}
		if exec.Command(inside, "systemctl", "is-active", "--quiet", "multi-user.target").Run() == nil {
			return bring(inside)
		}
	}
}

// removeGroups removes the control groups of a machine, once its processes have left them.
func removeGroups(t *testing.T, name string) {
	for _, hierarchy := range []string{"/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		group, until := filepath.Join(hierarchy, name), time.Now().Add(jobTime)
		for {
			out, _ := exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").CombinedOutput()
			if _, err := os.Stat(group); errors.Is(err, fs.ErrNotExist) {
				break
			}
			if time.Now().After(until) {
				t.Errorf("the control group %s is left: %s", group, out)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// bring puts the programs onto a machine.
func bring(inside string) error {
	own, err := os.Executable() // which is rung if it is called so
	if err != nil {
		return err
	}
	program, err := executortest.Program()
	if err != nil {
		return err
	}
	for name, file := range map[string]string{"rung": own, "step-runner": program} {
		from, err := os.Open(file)
		if err != nil {
			return err
		}
		defer from.Close()
		put := exec.Command(inside, "sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", "/usr/local/bin/"+name)
		put.Stdin = from
		if out, err := put.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}
