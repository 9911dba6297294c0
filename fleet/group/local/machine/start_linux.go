package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/wholefile"
)

// Possible says in one sentence why there can be no machines on this host; nil if there can.
func Possible() error {
	if err := process.CanConfine(); err != nil {
		return fmt.Errorf("this host allows no machines: %w", err)
	}
	return nil
}

// Prepare makes the folders and files of a machine in its folder, which exists and is empty. keys are lines of authorized_keys.
func Prepare(folder string, c Config, keys string) error {
	if c.Box != nil {
		if err := os.Mkdir(filepath.Join(folder, doorFolder), 0o700); err != nil {
			return err
		}
		return errors.Join(Authorize(folder, keys), write(folder, configFile, c))
	}
	for _, f := range own {
		path := filepath.Join(folder, f.name)
		if err := os.Mkdir(path, f.mode.Perm()); err != nil {
			return err
		}
		if err := os.Chmod(path, f.mode); err != nil {
			return err
		}
		if f.name == Volumes { // its user puts nothing in the place of one
			continue
		}
		if err := os.Chown(path, c.UID, c.GID); err != nil {
			return err
		}
	}
	const everybodys, enter, pass = 0o644, 0o755, 0o711
	if err := errors.Join(os.Chmod(folder, pass), os.Mkdir(filepath.Join(folder, doorFolder), enter)); err != nil {
		return err
	}
	passwd := without("/etc/passwd", User, c.UID) + fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", User, c.UID, c.GID, Home)
	group := without("/etc/group", User, c.GID) + fmt.Sprintf("%s:x:%d:\n", User, c.GID)
	files := map[string]string{
		Authorized: keys, passwdFile: passwd, groupFile: group,
		hostsFile: fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n", c.Name),
		namesFile: "nameserver 10.0.2.3\n", // that of slirp4netns
	}
	for name, text := range files {
		if err := wholefile.WriteText(filepath.Join(folder, name), everybodys, []byte(text)); err != nil {
			return err
		}
	}
	return write(folder, configFile, c)
}

// without are the lines of a file of the system but those of a name or number.
func without(file, name string, number int) string {
	text, _ := os.ReadFile(file)
	var out strings.Builder
	for _, line := range strings.SplitAfter(string(text), "\n") {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 2 && fields[0] != name && fields[2] != fmt.Sprint(number) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Authorize writes the keys that are let in: lines of authorized_keys.
func Authorize(folder, keys string) error {
	const everybodys = 0o644
	return wholefile.WriteText(filepath.Join(folder, Authorized), everybodys, []byte(keys))
}

// Start starts the machine that was prepared in a folder, and returns its keeper, which this program is to reap with wait. The server takes connections from
// listener. launch, which may be nil, makes the command be started in a control group; cgroup is the folder of one of version 2, or empty.
func Start(folder string, listener *net.TCPListener, cgroup string, launch func([]string) []string) (keeper Process, wait func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return keeper, nil, err
	}
	var of Config
	if _, err := read(folder, configFile, &of); err != nil {
		return keeper, nil, err
	}
	port, err := listener.File()
	if err != nil {
		return keeper, nil, err
	}
	defer port.Close()
	log, err := os.OpenFile(filepath.Join(folder, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, private)
	if err != nil {
		return keeper, nil, err
	}
	defer log.Close()
	args := []string{program, keeperArg, folder}
	if launch != nil {
		args = launch(args)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", environment()
	if of.Box != nil { // which gets none of it; what has the credentials for its image may need anything
		cmd.Env = append(os.Environ(), limits)
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{port}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS // see keeper.gather
	}
	if cgroup != "" {
		group, err := os.Open(cgroup)
		if err != nil {
			return keeper, nil, err
		}
		defer group.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	if err := cmd.Start(); err != nil {
		return keeper, nil, err
	}
	keeper, err = Of(cmd.Process.Pid)
	return keeper, func() { _ = cmd.Wait() }, err
}

// limits bounds the processes around a machine.
const limits = "GOMAXPROCS=2"

// environment is that of the processes around a machine of processes: nothing of what this program was given.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", limits}
}

// message is what the processes of a machine tell its keeper.
type message struct {
	Init    int    `json:",omitempty"`
	HostKey string `json:",omitempty"`
	Ended   string `json:",omitempty"`
}

func (m message) send(to *os.File) {
	text, _ := json.Marshal(m)
	_, _ = to.Write(append(text, '\n'))
}
