package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// initName is the name under which this program starts as the init of a confined process.
const initName = "step-runner: init of a confined step"

// config is what an init is told.
type config struct {
	View    View
	Command *Command // nil only tries whether a view can be made
	UID     int
	GID     int
	ABI     int
}

// answer is what an init says: once when the command has started, or why it has not, and once when it has ended.
type answer struct {
	Failed string        `json:",omitempty"` // what could not be set up
	Start  bool          `json:",omitempty"` // it was the command that could not be started
	Errno  syscall.Errno `json:",omitempty"`
	Reason string        `json:",omitempty"`
	Exit   int           `json:",omitempty"`
	Signal int           `json:",omitempty"`
	Ended  bool          `json:",omitempty"`
}

// Child is a confined process on its way.
type Child struct {
	ours     *os.File // the control socket
	theirs   *os.File
	settings *os.File
	answers  *json.Decoder
}

// New prepares a process with the view. A command of nil only tries whether the view can be made.
func New(view *View, command *Command) (*Child, error) {
	if ABI() == 0 {
		return nil, &SetupError{"Landlock", errors.New("the kernel does not have it, or it is not enabled (Linux 5.13 and later, lsm=landlock)")}
	}
	told := *view
	told.Paths = slices.Concat(systemFiles(), view.Paths)
	told.Hidden = slices.Concat(rootsFiles(), view.Hidden)
	for _, p := range told.Paths {
		if p.At == "/" {
			return nil, &SetupError{"view of its own", errors.New("it would have the whole file system: its work directory is /")}
		}
	}
	text, err := json.Marshal(config{View: told, Command: command, UID: os.Geteuid(), GID: os.Getegid(), ABI: ABI()})
	if err != nil {
		return nil, err
	}
	c := &Child{}
	fd, err := unix.MemfdCreate("confine", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, &SetupError{"file in memory", err}
	}
	c.settings = os.NewFile(uintptr(fd), "confine")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		c.ours, c.theirs = os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
		_, err = c.settings.WriteAt(text, 0)
	}
	if err != nil {
		c.Close()
		return nil, &SetupError{"control socket", err}
	}
	c.answers = json.NewDecoder(io.LimitReader(c.ours, 1<<16))
	return c, nil
}

// Prepare turns what would start a process, with as many Files as it is to have, into what starts its init.
func (c *Child) Prepare(attr *syscall.ProcAttr) (program string, args []string) {
	attr.Files = append(attr.Files, c.settings.Fd(), c.theirs.Fd())
	attr.Dir, attr.Env = "/", []string{"GOMAXPROCS=2", "GOGC=off"}
	attr.Sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	// Nobody has written the map of the user namespace when the init is executed: these would be lost without being ambient.
	attr.Sys.AmbientCaps = initCapabilities
	return "/proc/self/exe", []string{initName, fmt.Sprint(len(attr.Files) - 2)}
}

// Started waits until the command runs. The error is a *SetupError, or a syscall.Errno of the command itself.
func (c *Child) Started() error {
	c.theirs.Close()
	c.settings.Close()
	var a answer
	if err := c.answers.Decode(&a); err != nil {
		return &SetupError{"answer of the process that confines", err}
	}
	switch {
	case a.Start && a.Errno != 0:
		return a.Errno
	case a.Failed != "" && a.Errno != 0:
		return &SetupError{a.Failed, a.Errno}
	case a.Failed != "":
		return &SetupError{a.Failed, errors.New(a.Reason)}
	}
	return nil
}

// Status is how the command ended; false if its init could not tell, because it was killed.
func (c *Child) Status() (exitCode int, signal syscall.Signal, ok bool) {
	var a answer
	if err := c.answers.Decode(&a); err != nil || !a.Ended {
		return 0, 0, false
	}
	return a.Exit, syscall.Signal(a.Signal), true
}

// Close lets go of the process; what is left in its namespaces is killed.
func (c *Child) Close() {
	for _, file := range []*os.File{c.ours, c.theirs, c.settings} {
		if file != nil {
			_ = file.Close()
		}
	}
}
