// Package host is the contract of a machine on which levels of isolation run jobs.
//
// A level (executor.Level) says how a job is isolated; a Host says on which machine. A level reaches its machine through a Host
// alone, so it runs unchanged on this machine (executor/host/local) and on one behind SSH (executor/host/ssh). The suite in
// executor/host/hosttest defines what every host promises.
//
//	level ──> Host.Exec    a process on the machine
//	     ├──> Host.Dial    a socket or port on the machine
//	     ├──> Host.Put     this program, or another one, copied to the machine once
//	     └──> Host.Files   folders and archives on the machine
//
// The operating system, the architecture and the rules for paths are properties of the host, never of the program that uses it.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"
)

// Host is a machine. Its methods are safe for concurrent use.
type Host interface {
	// Name identifies the machine in handles and messages: "local", "ssh://user@build-1:22". It holds no secret.
	Name() string
	// Platform is what the machine runs.
	Platform() Platform
	// Path has the rules for paths on the machine.
	Path() Paths
	// Exec starts a command and returns once it runs. The error is a *StartError if the command cannot start on the machine,
	// and ErrLost if the machine cannot be reached. When ctx ends, the command's process group is killed.
	Exec(ctx context.Context, command *Command) (Process, error)
	// Dial connects to a "unix" socket or a "tcp" port as seen from the machine. The connection has CloseWrite. ctx bounds
	// connecting only.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Put copies a program file from this machine to the host and returns its path there. Copies are kept by their SHA-256 in a
	// cache folder of the host's user, verified on the host, executable, and sent only if they are missing or damaged.
	Put(ctx context.Context, file string) (path string, err error)
	// Files gives access to the machine's files.
	Files() Files
	// Done is closed when the machine is lost for good: it has not answered for LostAfter. A shorter interruption ends the
	// processes and connections under way with ErrLost, and later calls reconnect. It is never closed for this machine.
	Done() <-chan struct{}
	// Err is why Done is closed; nil before.
	Err() error
	// Close closes the connection to the machine. Commands that still run there run on: end them first, through their contexts.
	Close() error
}

// LostAfter bounds how long a host may be unreachable before Done is closed.
const LostAfter = 20 * time.Second

// Platform is an operating system and an architecture, named as GOOS and GOARCH name them.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Command is a program to start on a host.
//
// It gets a session and a process group of its own: an interrupt at this program's terminal does not reach it. When it ends,
// members of its group that still hold its output are killed. If this program dies or the connection to the host breaks, the
// command runs on (except on Windows); its standard input then ends, and writing to its standard output or error fails.
type Command struct {
	// Args are the program and its arguments. A program without a separator is looked up in PATH: that of Env, else the host's.
	Args []string
	// Dir is the working directory; empty is the home folder of the host's user (on this machine, the current folder).
	Dir string
	// Env is added to a minimal environment (HOME, USER, LOGNAME, SHELL, PATH, TMPDIR and the like, as the host has them for its
	// user), as NAME=value; of two with the same name the last counts. Over SSH, names are letters, digits and underscores. It
	// never appears on a command line.
	Env []string
	// Group is the folder of a control group (of version 2) that the command starts in: no instruction of it runs outside. Only this
	// machine has it, where that is Linux; empty is the group of this program.
	Group string
	// Stdin is what the command reads; nil is an empty input. A read that is under way when the command ends is not waited for.
	Stdin io.Reader
	// Stdout and Stderr get the command's output; nil discards it. With Terminal, everything goes to Stdout.
	Stdout, Stderr io.Writer
	// Terminal gives the command a terminal of the size; nil gives it pipes.
	Terminal *Terminal
}

// Terminal is the terminal of a command.
type Terminal struct {
	Name string // TERM; empty is "xterm"
	Size Size
}

// TERM is the name of the terminal's type.
func (t *Terminal) TERM() string { return cmp.Or(t.Name, "xterm") }

// Validate refuses commands that no system can start.
func (c *Command) Validate() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("the command is empty; its first argument must be a program")
	}
	for i, a := range c.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("argument %d holds a NUL byte, which no process can be given", i)
		}
	}
	for _, v := range c.Env {
		name, value, found := strings.Cut(v, "=")
		switch {
		case !found || name == "":
			return fmt.Errorf("%q is not an environment variable; write NAME=value", name)
		case strings.IndexByte(value, 0) >= 0:
			return fmt.Errorf("the environment variable %s holds a NUL byte, which no process can be given", name)
		}
	}
	return nil
}

// Size is that of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// Process is a running command.
type Process interface {
	// PID is its process ID on the host, and the ID of its process group. Terminals on Windows aside, it is above 0.
	PID() int
	// Wait waits for the end, including that of its output. exitCode is -1 if there is none. The error is nil if the command ended by
	// itself, a *SignalError if a signal ended it, the cause of the context or ErrKilled if it was stopped, and ErrLost if the
	// connection to the host broke. Some hosts learn only here that the program could not start (*StartError). Wait can be called
	// more than once.
	Wait() (exitCode int, err error)
	// Kill kills the process group. It does not wait. Killing a command that has ended does nothing.
	Kill() error
	// Resize tells the terminal its new size. Without a terminal it does nothing.
	Resize(size Size) error
}

// Files are the files of a host. Paths are absolute, in the host's own form. Errors satisfy errors.Is with fs.ErrNotExist,
// fs.ErrExist, fs.ErrPermission and ErrNoSpace, and name the path.
type Files interface {
	// Temp is the folder for temporary files.
	Temp(ctx context.Context) (string, error)
	// Stat describes what is at path. Links are not followed.
	Stat(ctx context.Context, path string) (Info, error)
	// Mkdir makes a folder with exactly these permissions. It must not exist.
	Mkdir(ctx context.Context, path string, perm fs.FileMode) error
	// MkdirAll makes a folder and those above it, if they do not exist.
	MkdirAll(ctx context.Context, path string, perm fs.FileMode) error
	// Link makes a program available at path: as a symbolic link to target, or as a hard link or a copy where the system has no
	// symbolic links.
	Link(ctx context.Context, target, path string) error
	// RemoveAll removes what is at path, including folders that are read-only. Links are not followed. That nothing exists is fine.
	RemoveAll(ctx context.Context, path string) error
	// Taken is how much of a disk what is at path takes, with all that is in it, in bytes, as far as it can be read. Links are not followed.
	Taken(ctx context.Context, path string) (bytes int64, err error)
	// Free is how much is free on the disk of the folder at path, in bytes, for those who are not root. It is not known where there is no such folder, or
	// the system does not tell, as Windows.
	Free(ctx context.Context, path string) (bytes int64, known bool, err error)
	// Unpack unpacks a tar archive below dir, which is made. The rules are those of executor/archive.
	Unpack(ctx context.Context, dir string, archive io.Reader) error
	// Pack writes the file or folder at path as a tar archive, whose names start with the last element of path.
	Pack(ctx context.Context, path string, archive io.Writer) error
}

// Info describes a file.
type Info struct {
	Mode fs.FileMode
	// Size is that of a regular file, in bytes.
	Size    int64
	ModTime time.Time
	// Empty reports whether a folder holds nothing.
	Empty bool
}

var (
	// ErrLost says that the connection to a host broke, or that the host cannot be reached.
	ErrLost = errors.New("the connection to the host is lost")
	// ErrRefused says that a host answers, and does not let us in, or is not the one that we trust.
	ErrRefused = errors.New("the host refuses the login, or is not trusted")
	// ErrKilled is what Wait returns after Kill.
	ErrKilled = errors.New("the command was killed")
	// ErrNoSpace says that a disk of the host is full.
	ErrNoSpace = errors.New("no space left on the host's disk")
)

// StartError says why a command could not start.
type StartError struct {
	Program string // Args[0]
	Host    string // Host.Name
	Reason  string // why, and what to do about it
	Err     error  // fs.ErrNotExist, fs.ErrPermission or the system's; may be nil
}

func (e *StartError) Error() string {
	return "cannot start " + e.Program + " on " + e.Host + ": " + e.Reason
}

// Unwrap returns the error below.
func (e *StartError) Unwrap() error { return e.Err }

// SignalError says that a signal ended a command that was not asked to stop.
type SignalError struct{ Signal string } // as "SIGSEGV"

func (e *SignalError) Error() string { return "the command was ended by " + e.Signal }
