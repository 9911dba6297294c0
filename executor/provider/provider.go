// Package provider is the contract of where the machines of jobs come from.
//
// A level (executor.Executor) says how a job is isolated, and a host on which machine. A Provider says which machine that is: one of a list
// (executor/provider/hosts), one that a plugin makes for the job, one of a fleet. It knows neither levels nor GitLab.
//
//	Capacity ──> there is room ──> Reserve(key) ──> GitLab is asked ──┬─ a job: Acquire(key) ──> Machine ──> a level runs there
//	                                                                  └─ none ─────────────────────┬───────────────┘
//	               Keep(keys), again and again, as long as they are wanted                     Release(key)
//
// A key names the place of one job, from before the job is known until its machine is given back. Whoever reserves chooses it, once: after
// Release it is over. Every call can be repeated with the same key, by several callers at once, and then gives the same result. A call
// that is cancelled changes nothing: what it began goes on until Release.
//
// Nothing leaks when the caller dies: a key that Keep has not named for the lease is released. After a restart of the caller, Recover gives the same
// machine for a handle that was written down.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
)

// Provider is a source of machines. Its methods are safe for concurrent use.
type Provider interface {
	// Capacity tells how many more jobs with these needs can be reserved for: at once, and whenever that changes, until ctx ends (the error
	// is then its cause) or the provider does. It is an estimate, and Reserve decides. tell must not block.
	Capacity(ctx context.Context, needs Needs, tell func(Capacity)) error
	// Reserve keeps a place for a job before there is one. It does not wait: the error is a *NoCapacity while there is none, and ErrReleased
	// for a key that is over.
	Reserve(ctx context.Context, key string, needs Needs) error
	// Keep names all keys that are still wanted, with and without machines, and returns those that the provider does not have any more. It is
	// called at least every third of a lease.
	Keep(ctx context.Context, keys []string) (lost []string, err error)
	// Acquire waits until the machine of a reservation is ready. report may be nil. A failure leaves the reservation as it is, so that it can be
	// tried again. The error is ErrNotReserved where there is no reservation (any more), and a *NoCapacity where it needs time.
	Acquire(ctx context.Context, key string, job Job, report executor.Reporter) (*Machine, error)
	// Recover gives the machine that another process acquired with the key, and holds the key from then on. The error wraps executor.ErrGone where
	// the machine no longer exists, or belongs to somebody else.
	Recover(ctx context.Context, key string, handle json.RawMessage) (*Machine, error)
	// Release gives back what there is of a key: a reservation, a machine on its way, a machine. fault is why the machine is of no use to
	// jobs; empty if nothing is wrong with it. A key that is not known is no error.
	Release(ctx context.Context, key string, fault string) error
	// Close ends the provider. Machines that were not released are left to be recovered by another process, until their leases end.
	Close() error
}

// Ender is a provider whose machines cost something while nobody uses them.
type Ender interface {
	// End is Close for a caller that ends, and not only this provider of it: machines without jobs may be ended, as the configuration says. removed says
	// that nobody will come for any of them: all are ended.
	End(removed bool) error
}

// Queuer is a provider in which jobs wait their turn.
type Queuer interface {
	// Queue is Reserve for a job that exists. If there is no room now, it may succeed all the same: Acquire waits then, in the order of asking.
	Queue(ctx context.Context, key string, needs Needs) error
}

// Capacity is how much room there is.
type Capacity struct {
	// Free is how many more jobs can be reserved for.
	Free int
	// Reason says why there is no room, for people; empty where there is.
	Reason string
}

// Needs are what a machine must have for a job. The zero value is any machine.
type Needs struct {
	OS, Arch     string            // as GOOS and GOARCH have them; empty: any
	CPUs         float64           // for the job alone
	Memory, Disk int64             // bytes, for the job alone
	GPUs         int               // for the job alone
	Labels       map[string]string // what a machine must say of itself
}

// Within reports whether a place that has all this is enough. A place that does not say what it has (0, "") is not.
func (n Needs) Within(has Needs) bool {
	for name, value := range n.Labels {
		if got, ok := has.Labels[name]; !ok || got != value {
			return false
		}
	}
	return (n.OS == "" || n.OS == has.OS) && (n.Arch == "" || n.Arch == has.Arch) &&
		n.CPUs <= has.CPUs && n.Memory <= has.Memory && n.Disk <= has.Disk && n.GPUs <= has.GPUs
}

// Job is what a provider is told of a job.
type Job struct {
	ID      string // for people: its number in GitLab
	Project string // whose it is: jobs of one project may profit from one machine
	// ProjectName is what people call the project; empty: that is not known.
	ProjectName string
	// Protected says that the job is of a protected ref: what others have prepared must not reach it. Volume is what it asks for of a volume of its project: "per-project",
	// "none", or nothing; providers without volumes ignore it.
	Protected bool
	Volume    string
	// Needs are those of the job; they are within those of its reservation, or the provider may answer *NoCapacity.
	Needs Needs
}

// Machine is where one job runs. It is ready when it is returned.
type Machine struct {
	// Name is what people call it.
	Name string
	// Slot is the number of the job's place on the machine, from 0; -1 if places have none.
	Slot int
	// Access is how to get there.
	Access Access
	// Volume is the folder on the machine with the volume of the job's project, if the job has it.
	Volume string
	// Level is the level of isolation to run there; empty leaves that to the caller.
	Level executor.Level
	// Env says where the level's engine is on the machine, as NAME=VALUE: DOCKER_HOST.
	Env []string
	// Temp is the folder on the machine for what levels without files of their own make; empty is the machine's for temporary files.
	Temp string
	// Connect makes a host of the machine, in place of Access; nil: Access leads there. Several jobs may share it.
	Connect func(ctx context.Context) (host.Host, error)
	// Fresh says that the machine was made for this job and goes with it: whatever the level, jobs are apart as executor.Instance has it.
	Fresh bool
	// Handle is what Recover needs. It holds no secret.
	Handle json.RawMessage
	// Life ends when the machine is gone, with a *executor.Gone: it was removed from outside, or released. What runs there has ended then, or
	// will not be heard of again.
	*executor.Life
}

// The protocols of Access.
const (
	Local      = "local" // this machine
	SSH        = "ssh"
	WinRM      = "winrm" // over HTTP, with NTLM, which seals what is sent
	WinRMHTTPS = "winrm+https"
)

// Access is how to get to a machine. It holds secrets, which its String does not show.
type Access struct {
	Protocol string // one of those above
	// Address is host:port, host, or an alias of the SSH configuration.
	Address string
	User    string // empty: as the SSH configuration says
	// Key is a private key in PEM, and KeyFile the path of one on this machine. Without both, keys are found as OpenSSH's client finds them.
	Key     []byte
	KeyFile string
	// Password is tried after the keys; empty is none. WinRM needs one.
	Password string
	// Renew gives a Key and a Password that are good now, for each connection, where those above are not for long; nil: they are.
	Renew func(ctx context.Context) (key []byte, password string, err error) `json:"-"`
	// HostKey is the fingerprint of the machine's key: "SHA256:…", or several with spaces between, one of which it must show; for WinRMHTTPS, that of its
	// certificate, which is believed as others are without. Without it, KnownHosts names a file of keys, to which one that is not known is added if Record
	// says so; without that, it is added to the user's file.
	HostKey    string
	KnownHosts string
	Record     bool
	// Jump lists jump hosts as OpenSSH's -J does.
	Jump string
	// Via connects to the address, as Dial of the host.Host that it is reached through; nil: it is reached from here.
	Via func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// String is the address without secrets.
func (a Access) String() string {
	if a.Protocol == Local {
		return Local
	}
	if a.User == "" {
		return a.Protocol + "://" + a.Address
	}
	return a.Protocol + "://" + a.User + "@" + a.Address
}

// GoString is String.
func (a Access) GoString() string { return a.String() }

// Validate refuses what leads nowhere.
func (a Access) Validate() error {
	switch {
	case a.Protocol == Local && a.Address == "":
		return nil
	case a.Protocol == Local:
		return fmt.Errorf("this machine has no address, such as %q", a.Address)
	case a.Protocol != SSH && a.Protocol != WinRM && a.Protocol != WinRMHTTPS:
		return fmt.Errorf("machines are reached by %q, %q, %q or %q, not by %q", SSH, WinRM, WinRMHTTPS, Local, a.Protocol)
	case a.Address == "":
		return errors.New("there is no address")
	case a.Protocol != SSH && (a.User == "" || a.Password == ""):
		return errors.New("a machine behind WinRM is reached with a user and a password")
	}
	return nil
}

// Setup is what every provider is made with.
type Setup struct {
	// Owner names whom machines belong to, across processes: letters, digits, - and _.
	Owner string
	// State is a folder on this machine for what has to outlive the process. It is the provider's alone.
	State string
	// Lease is how long a key is held that Keep does not name; 0 is DefaultLease.
	Lease time.Duration
	// Vault is for what must outlive the process and may hold secrets; nil: there is none.
	Vault Vault
	// Removed says that the entry is gone, and End follows: what the provider has is to be ended, also where what the configuration said last does not work.
	Removed bool
}

// Vault keeps secrets, sealed.
type Vault interface {
	// Keep keeps something under a name, in place of what was there.
	Keep(name string, text []byte) error
	// Kept is what was kept last; nil: nothing was.
	Kept(name string) ([]byte, error)
}

// DefaultLease is how long a key is held that nobody keeps.
const DefaultLease = 2 * time.Minute

var (
	// ErrNotReserved says that nothing is reserved under a key: it is over, its lease has ended, or nobody has asked.
	ErrNotReserved = errors.New("nothing is reserved under this key")
	// ErrReleased says that a key was released, or was lost, and cannot be used again.
	ErrReleased = errors.New("the key was released, and cannot be used again")
)

// NoCapacity says that there is no room now.
type NoCapacity struct {
	// Reason says why, for people.
	Reason string
	// After is when it is worth to ask again; 0 is when Capacity tells.
	After time.Duration
	// Never says that there will be none for these needs as long as the configuration stays as it is.
	Never bool
}

func (e *NoCapacity) Error() string {
	if e.Reason == "" {
		return "there is no machine for the job now"
	}
	return "there is no machine for the job now: " + e.Reason
}

// maxKey bounds a key.
const maxKey = 64

// CheckKey returns an error for what cannot be a key: they are 1 to 64 letters, digits, - and _.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey || strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return fmt.Errorf("a key must be 1 to %d letters, digits, - and _, not %q", maxKey, key)
	}
	return nil
}
