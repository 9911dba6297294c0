package engine

// Machine is what a container has of its engine's machine beyond the usual: what whoever runs that machine decides. Its groups are flat in
// the engine's JSON.
type Machine struct {
	Rights
	Namespaces
	Hardware
	Shares
	Names
	Tmpfs     map[string]string `json:",omitempty"` // folders in memory, with their mount options
	ShmSize   int64             `json:",omitempty"` // bytes of /dev/shm; 0 is the engine's default
	LogConfig *LogConfig        `json:",omitempty"`
}

// Rights are what its processes may do.
type Rights struct {
	CapAdd      []string `json:",omitempty"`
	CapDrop     []string `json:",omitempty"`
	GroupAdd    []string `json:",omitempty"`
	SecurityOpt []string `json:",omitempty"` // "seccomp=…", "apparmor=…", "no-new-privileges", "label=…"
}

// Namespaces are those of the kernel that it shares, and the kernel's settings in its own.
type Namespaces struct {
	UsernsMode string            `json:",omitempty"` // "host"
	PidMode    string            `json:",omitempty"` // "host", "container:NAME"
	IpcMode    string            `json:",omitempty"` // "host", "private", "shareable", "none", "container:NAME"
	Sysctls    map[string]string `json:",omitempty"`
}

// Hardware are devices of the machine.
type Hardware struct {
	Devices           []Device        `json:",omitempty"`
	DeviceRequests    []DeviceRequest `json:",omitempty"`
	DeviceCgroupRules []string        `json:",omitempty"` // "c 189:* rmw"
}

// Device is a file of /dev.
type Device struct {
	PathOnHost        string
	PathInContainer   string
	CgroupPermissions string // of r, w and m
}

// DeviceRequest asks a driver for devices, such as graphics processors.
type DeviceRequest struct {
	Driver       string            `json:",omitempty"`
	Count        int               `json:",omitempty"` // -1 is all of them
	DeviceIDs    []string          `json:",omitempty"` // instead of Count
	Capabilities [][]string        // any of the lists, all of its words
	Options      map[string]string `json:",omitempty"`
}

// Shares are how the machine is divided where there is not enough of it, and limits of single processes.
type Shares struct {
	MemoryReservation int64    `json:",omitempty"` // bytes
	CPUShares         int64    `json:"CpuShares,omitempty"`
	CpusetMems        string   `json:",omitempty"`
	CgroupParent      string   `json:",omitempty"`
	OomKillDisable    bool     `json:",omitempty"`
	OomScoreAdj       int      `json:",omitempty"`
	Ulimits           []Ulimit `json:",omitempty"`
}

// Ulimit is a limit of each process; -1 is none.
type Ulimit struct {
	Name       string // "nofile"
	Soft, Hard int64
}

// Names are how it finds other machines.
type Names struct {
	DNS        []string `json:"Dns,omitempty"`
	DNSSearch  []string `json:"DnsSearch,omitempty"`
	ExtraHosts []string `json:",omitempty"` // NAME:ADDRESS
}

// LogConfig is where the engine keeps what a container writes.
type LogConfig struct {
	Type   string            `json:",omitempty"` // "" is the engine's own
	Config map[string]string `json:",omitempty"`
}
