package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/executor/host/brought"
)

// The first argument of this program as a part of a machine, see init.
const (
	keeperArg = "machine: keeper"
	doorArg   = "machine: door"
	serverArg = "machine: server"
	// broughtArg is that of this program in a box, see brought.Run.
	broughtArg = "machine: brought"
)

// The parts of a machine begin before the rest of this program is initialised, which they do not need.
func init() {
	if len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == keeperArg && len(os.Args) == 3:
		keep(os.Args[2])
	case os.Args[1] == doorArg && len(os.Args) == 2:
		guard()
	case os.Args[1] == serverArg && len(os.Args) == 2:
		serve()
	case os.Args[1] == broughtArg:
		if err := brought.Run(broughtArg, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Files that the parts are started with.
const (
	portFD   = 3 // the listener
	statusFD = 4 // what is told to the keeper, as messages
)

// keeper looks after a machine from outside.
type keeper struct {
	Config
	folder string // its folder, and the program, where the machine's user finds them
	state  string // its folder
	log    *os.File
	port   *os.File
	held   *os.File // slirp4netns ends when this is closed
	status Status
	ended  string                 // as the machine says
	why    atomic.Pointer[string] // as is seen from here
	over   chan struct{}          // receives when the machine is to end
}

func keep(folder string) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	k := &keeper{state: folder, folder: folder, log: os.Stderr, port: os.NewFile(portFD, "port"), over: make(chan struct{}, 1)}
	reason := "its end is not known"
	if err := k.run(); err != nil {
		reason = err.Error()
	} else if why := k.why.Load(); why != nil {
		reason = *why
	} else if k.ended != "" {
		reason = k.ended
	}
	if err := write(k.state, endFile, End{Reason: reason}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(0)
}

// run runs the machine to its end. An error is why it could not begin.
func (k *keeper) run() error {
	if known, err := read(k.state, configFile, &k.Config); err != nil || !known {
		return fmt.Errorf("it has no configuration: %w", errors.Join(err, os.ErrNotExist))
	}
	me, err := Of(os.Getpid())
	if err != nil {
		return err
	}
	k.status.Keeper = me
	if k.Box != nil {
		return k.inBox()
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if program, err = k.gather(program); err != nil {
			return fmt.Errorf("its folder cannot be mounted where its user finds it: %w", err)
		}
	}
	lifeline, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	heard, told, err := os.Pipe()
	if err != nil {
		return err
	}
	door := k.door(program, lifeline, told)
	if err := door.Start(); err != nil {
		return fmt.Errorf("no namespaces of users and networks: %w", err)
	}
	lifeline.Close()
	told.Close()
	k.port.Close()
	if k.status.Door, err = Of(door.Process.Pid); err == nil {
		k.save()
		err = k.lead(door.Process.Pid)
	}
	if err == nil {
		err = json.NewEncoder(feed).Encode(order{Config: k.Config, Folder: k.folder, Program: program})
	}
	if err != nil {
		_ = door.Process.Kill()
		_ = door.Wait()
		return err
	}
	go k.until(func() { _ = feed.Close() })
	k.listen(heard)
	if err := door.Wait(); err != nil && k.ended == "" {
		k.ended = "the process that holds its namespaces has ended: " + err.Error()
	}
	return nil
}

// mounts are folders of which one is there on every system, and which nothing of a machine needs: root's keeper gathers there what the
// machine's user must find.
var mounts = []string{"/mnt", "/media", "/srv", "/home"}

// gather mounts the machine's folder and the program in the keeper's own view, so that the machine's user reaches them by way of folders that only root can
// enter. It returns where the program is.
func (k *keeper) gather(program string) (string, error) {
	dir, err := unix.Open(k.state, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	file, err := unix.Open(program, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(file)
	err = errors.New("this host has none of the folders " + strings.Join(mounts, ", ") + " that the option paths leaves free")
	for _, base := range mounts {
		if slices.ContainsFunc(k.Paths, func(path string) bool { return strings.HasPrefix(filepath.Clean(path)+"/", base+"/") }) {
			continue
		}
		if err = unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
			continue
		}
		k.folder = filepath.Join(base, "machine")
		program = filepath.Join(base, "program")
		if err = errors.Join(os.Mkdir(k.folder, 0o755), os.WriteFile(program, nil, 0o755)); err != nil {
			return "", err
		}
		return program, errors.Join(
			unix.Mount("/proc/self/fd/"+strconv.Itoa(dir), k.folder, "", unix.MS_BIND, ""),
			unix.Mount("/proc/self/fd/"+strconv.Itoa(file), program, "", unix.MS_BIND, ""),
		)
	}
	return "", err
}

// door is the process that begins the machine, as its user.
func (k *keeper) door(program string, lifeline, told *os.File) *exec.Cmd {
	cmd := exec.Command(program, doorArg)
	cmd.Dir, cmd.Env = "/", environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = lifeline, k.log, k.log
	cmd.ExtraFiles = []*os.File{k.port, told}
	attr := &syscall.SysProcAttr{
		Setsid: true, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: k.UID, HostID: k.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: k.GID, HostID: k.GID, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN},
	}
	if k.Alone {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if os.Geteuid() == 0 {
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: uint32(k.UID), Gid: uint32(k.GID)}
	}
	cmd.SysProcAttr = attr
	return cmd
}

// leadTime bounds how long slirp4netns may take to be ready.
const leadTime = 30 * time.Second

// lead makes the machine's network lead to others, for as long as this process lives.
func (k *keeper) lead(door int) error {
	if k.Leads == "" {
		return nil
	}
	exit, held, err := os.Pipe()
	if err != nil {
		return err
	}
	ready, isReady, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	const mtu = "65520"
	cmd := exec.Command(k.Leads, "--configure", "--mtu="+mtu, "--disable-host-loopback", "--enable-seccomp", "--exit-fd=3", "--ready-fd=4", strconv.Itoa(door), "eth0")
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = environment(), k.log, []*os.File{exit, isReady}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("its network leads nowhere: %w", err)
	}
	k.held = held
	exit.Close()
	isReady.Close()
	_ = ready.SetReadDeadline(time.Now().Add(leadTime))
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("its network leads nowhere: slirp4netns was not ready (%w); the machine's log says more, or set the option network to %q", err, "none")
	}
	go func() {
		err := cmd.Wait()
		k.stop(fmt.Sprintf("its network has ended: slirp4netns: %v", err))
	}()
	return nil
}

// save records what runs.
func (k *keeper) save() {
	if err := write(k.state, statusFile, k.status); err != nil {
		fmt.Fprintln(k.log, err)
	}
}

// stop ends the machine for a reason.
func (k *keeper) stop(reason string) {
	k.why.CompareAndSwap(nil, &reason)
	select {
	case k.over <- struct{}{}:
	default:
	}
}

// until ends the machine when it is to end.
func (k *keeper) until(end func()) {
	const look = time.Second
	for {
		select {
		case <-k.over:
			end()
			return
		case <-time.After(look):
			if k.With != nil && !k.With.Lives() {
				k.stop("the process that it was to end with has ended")
			}
		}
	}
}

// listen takes what the machine's processes say, until none of them is left that could.
func (k *keeper) listen(heard io.Reader) {
	messages := json.NewDecoder(heard)
	for {
		var m message
		if messages.Decode(&m) != nil {
			return
		}
		switch {
		case m.Init != 0:
			k.status.Init, _ = Of(m.Init)
			k.save()
		case m.HostKey != "":
			k.status.HostKey = m.HostKey
			k.save()
		case m.Ended != "":
			k.ended = m.Ended
		}
	}
}
