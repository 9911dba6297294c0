// Package machine is one machine on this host, which outlives whoever starts it: a tree of processes, or a container or sandbox. All of its processes are this program again.
//
//	keeper    outside; records which processes there are, and why the machine has ended
//	  │ slirp4netns, where the machine has a network that leads on
//	  └─> door    in namespaces of users, network and host name; makes the view (internal/confine), which is the machine's lifeline
//	        └─> init    process 1 of the machine: the end of it is that of all that runs there
//	              └─> server    executor/host/sshd, and below it whatever is run on the machine
//
// A machine in a box has a keeper, too, and in place of the door and what is below it a container, whose first process is executor/host/brought:
//
//	keeper    outside; takes connections, and runs a brought.Connect in the box for each
//	  └─ ─ ─> container    ends with its first process, whose input ends with the keeper
//	            └─> brought.ServeSocket, the server, and below it whatever is run on the machine
//
// A machine has a network that need not lead anywhere, and is reached all the same: its server takes connections from a listener of this host's
// loopback addresses, which whoever starts the machine makes and hands down. A socket belongs to the network in which it was made, whoever has it. So the
// machine has an address like any other, nothing of this host's network is changed, and no root is needed; a socket file would need a connector of its own.
package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/internal/wholefile"
)

// User is who runs on machines, and Home that user's folder there.
const (
	User = "runner"
	Home = "/home/" + User
)

// Config is what a machine is made of.
type Config struct {
	// Name is its host name.
	Name string `json:"name"`
	// UID and GID are those of its user on this host. Others than those of this program need root.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Alone says that the network is the machine's own; Leads is slirp4netns, which leads from there to others; empty: nothing does.
	Alone bool   `json:"alone,omitempty"`
	Leads string `json:"leads,omitempty"`
	// Paths are files and folders of this host that the machine sees, and cannot change.
	Paths []string `json:"paths,omitempty"`
	// Box is what the machine is instead of processes; nil: processes. Alone, Leads, Paths, UID and GID are those of processes.
	Box *Box `json:"box,omitempty"`
	// With is a process of this host with which the machine ends; nil: with none.
	With *Process `json:"with,omitempty"`
}

// Box is a container.
type Box struct {
	// Engine is the address of the engine that makes it, as engine.New takes it, with the folder Certificates if there are some.
	Engine       string `json:"engine"`
	Certificates string `json:"certificates,omitempty"`
	// Runtime is the engine's name of an OCI runtime; empty is its default.
	Runtime string `json:"runtime,omitempty"`
	Image   string `json:"image"`
	// Network is the engine's name of a network; empty is its default.
	Network string            `json:"network,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// CPUs and Memory, in bytes, bound it; 0 is no limit.
	CPUs   float64 `json:"cpus,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	// Program is the file that is its SSH server: this program, or another one with this package, which needs no libraries.
	Program string `json:"program"`
}

// Status is what runs of a machine.
type Status struct {
	Keeper Process `json:"keeper"`
	Door   Process `json:"door"`
	Init   Process `json:"init"`
	// HostKey is the fingerprint of the server's key. The server is ready once it is known.
	HostKey string `json:"host_key"`
}

// End is how a machine has ended.
type End struct {
	Reason string `json:"reason"`
}

// Volumes is the folder of volumes in that of a machine, and VolumesAt where the machine sees it. What is in it can be changed there, and itself only if this program is not
// run by root.
const (
	Volumes   = "volumes"
	VolumesAt = "/volumes"
)

// The folder of a machine has folders, which it sees as its own, and records, which it does not see.
const (
	configFile = "config.json"
	statusFile = "status.json"
	endFile    = "end.json"
	logFile    = "log"

	doorFolder = "door" // what lets people in: Authorized, and files of the system in the machine's own words
	// Authorized are the public keys that are let in, as in authorized_keys.
	Authorized = doorFolder + "/authorized"
	passwdFile = doorFolder + "/passwd"
	groupFile  = doorFolder + "/group"
	hostsFile  = doorFolder + "/hosts"
	namesFile  = doorFolder + "/resolv.conf"
)

// own are the folders of a machine, and where it sees them.
var own = []struct {
	name, at string
	mode     fs.FileMode
}{
	{"home", Home, 0o755},
	{"tmp", "/tmp", 0o777 | fs.ModeSticky},
	{"var-tmp", "/var/tmp", 0o777 | fs.ModeSticky},
	{"builds", "/builds", 0o755},
	{"cache", "/cache", 0o755},
	{Volumes, VolumesAt, 0o755},
}

// ReadStatus reads what runs of the machine in a folder; known is false where nothing is known yet.
func ReadStatus(folder string) (s Status, known bool, err error) {
	known, err = read(folder, statusFile, &s)
	return s, known, err
}

// ReadEnd reads how the machine in a folder has ended; false where it has not, or nobody could say.
func ReadEnd(folder string) (e End, ended bool, err error) {
	ended, err = read(folder, endFile, &e)
	return e, ended, err
}

func read(folder, file string, into any) (known bool, err error) {
	text, err := os.ReadFile(filepath.Join(folder, file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return false, fmt.Errorf("the record of a machine: %w", err)
	}
	return true, nil
}

const private = 0o600

func write(folder, file string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return wholefile.WriteText(filepath.Join(folder, file), private, text)
}
