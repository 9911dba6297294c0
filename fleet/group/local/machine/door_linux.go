package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/internal/confine"
)

// order is what the door is told on its standard input. The end of that is the end of the machine.
type order struct {
	Config
	Folder, Program string
}

// guard is the door: it makes the machine, and waits for its end.
func guard() {
	told := os.NewFile(statusFD, "status")
	ended := func(reason string) {
		message{Ended: reason}.send(told)
		os.Exit(0)
	}
	input := json.NewDecoder(os.Stdin)
	var o order
	if err := input.Decode(&o); err != nil {
		ended("it was not told what to be: " + err.Error())
	}
	child, pid, err := o.begin(told)
	if err != nil {
		ended(err.Error())
	}
	message{Init: pid}.send(told)
	go func() {
		_, _ = io.Copy(io.Discard, io.MultiReader(input.Buffered(), os.Stdin))
		os.Exit(0) // and with it the machine
	}()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR { //nolint:errorlint // the system's own
			break
		}
	}
	code, signal, known := child.Status()
	switch {
	case !known && status.Signaled():
		ended(fmt.Sprintf("its first process was killed (%s)", unix.SignalName(status.Signal())))
	case !known:
		ended("its first process has ended")
	case signal != 0:
		ended(fmt.Sprintf("its SSH server was killed (%s)", unix.SignalName(signal)))
	}
	ended(fmt.Sprintf("its SSH server has ended with exit code %d", code))
}

// begin starts the machine's processes.
func (o *order) begin(told *os.File) (child *confine.Child, pid int, err error) {
	if err := unix.Sethostname([]byte(o.Name)); err != nil {
		return nil, 0, fmt.Errorf("no host name of its own: %w", err)
	}
	if o.Alone {
		if err := loopback(); err != nil {
			return nil, 0, fmt.Errorf("no loopback addresses of its own: %w", err)
		}
	}
	env := append(environment(), "HOME="+Home, "USER="+User, "LOGNAME="+User, "SHELL=/bin/sh", "LANG=C.UTF-8")
	view := o.view()
	child, err = confine.New(&view, &confine.Command{
		Program: programAt, Args: []string{"rung", serverArg}, Env: env, Dir: Home, Files: statusFD + 1,
	})
	if err != nil {
		return nil, 0, err
	}
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	defer nothing.Close()
	attr := &syscall.ProcAttr{
		Files: []uintptr{nothing.Fd(), os.Stdout.Fd(), os.Stderr.Fd(), portFD, told.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	}
	name, args := child.Prepare(attr)
	if pid, err = syscall.ForkExec(name, args, attr); err == nil {
		err = child.Started()
	}
	_ = unix.Close(portFD)
	var missing syscall.Errno
	if errors.As(err, &missing) {
		err = fmt.Errorf("its SSH server cannot be started in its view: %w", err)
	}
	if err != nil {
		child.Close()
		return nil, 0, err
	}
	return child, pid, nil
}

// Where a machine finds its program, and the folder of what lets people in.
const (
	programAt = "/run/rung/program"
	doorAt    = "/run/rung/door"
)

// view is the machine's file system, beside that of the system.
func (o *order) view() confine.View {
	v := confine.View{Paths: []confine.Path{{At: programAt, From: o.Program}, {At: doorAt, From: filepath.Join(o.Folder, doorFolder)}}}
	for _, f := range own {
		v.Paths = append(v.Paths, confine.Path{At: f.at, From: filepath.Join(o.Folder, f.name), Writable: true})
	}
	files := map[string]string{"/etc/passwd": passwdFile, "/etc/group": groupFile, "/etc/hosts": hostsFile}
	if o.Leads != "" {
		files["/etc/resolv.conf"] = namesFile
	}
	for at, from := range files {
		if real, err := filepath.EvalSymlinks(at); err == nil { // a link leads there in the machine, too
			v.Paths = append(v.Paths, confine.Path{At: real, From: filepath.Join(o.Folder, from)})
		}
	}
	for _, path := range o.Paths {
		v.Add(strings.TrimSuffix(path, "/"), false)
	}
	return v
}

// loopback makes the loopback addresses of this network work.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	device, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, device); err != nil {
		return err
	}
	device.SetUint16(device.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, device)
}
