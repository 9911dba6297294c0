package event

import (
	"path"
	"time"

	"github.com/rungci/rung/steps/containers"
)

// Environment is what was created for a run on its machine, and has to be created again for a replay. It contains no secrets: masked
// values are [MASKED].
type Environment struct {
	// Level is the level of isolation, as executors name it: none, container, ….
	Level string `json:"level"`
	Image *Image `json:"image,omitempty"` // nil if the level has no images
	// IgnoredImage is the image that the job asks for and did not run in; "" if it ran as it asks.
	IgnoredImage string    `json:"ignored_image,omitempty"`
	Services     []Service `json:"services,omitempty"`
	// Variables are the job variables that services got.
	Variables map[string]string `json:"variables,omitempty"`
	Files     []File            `json:"files,omitempty"`
	// Project is the project on the machine whose files the job got; "" if it got none.
	Project string `json:"project,omitempty"`
	// Programs is a folder that was made for the run and is first in PATH: it holds this program. "" is none.
	Programs string `json:"programs,omitempty"`
	// Limits are what the job could use and reach; nil if that was not limited.
	Limits *Limits `json:"limits,omitempty"`
	// ServiceLimits are those of each service.
	ServiceLimits *Limits `json:"service_limits,omitempty"`
	// Prepared are the parts of making it, in the order in which they began.
	Prepared []Prepared `json:"prepared,omitempty"`
}

// VariableFolder is the folder that the files of variables are in; "" if there are none.
func (e *Environment) VariableFolder() string {
	for _, f := range e.Files {
		if f.Name != "" && f.From == "" {
			return path.Dir(f.To)
		}
	}
	return ""
}

// Limits are what a job may use and reach. 0 and empty do not limit.
type Limits struct {
	CPUs    float64 `json:"cpus,omitempty"`
	Memory  int64   `json:"memory,omitempty"` // bytes
	PIDs    int64   `json:"pids,omitempty"`
	Disk    int64   `json:"disk,omitempty"`    // bytes
	Swap    int64   `json:"swap,omitempty"`    // bytes beyond Memory
	CPUSet  string  `json:"cpuset,omitempty"`  // the processors, as "0-3,6"
	Read    int64   `json:"read,omitempty"`    // bytes a second from the disk
	Write   int64   `json:"write,omitempty"`   // and to it
	Network string  `json:"network,omitempty"` // none
	// Privileged says that the job had all rights on the host's kernel. A replay does not get them.
	Privileged bool `json:"privileged,omitempty"`
}

// Phase is a part of making the place of a job.
type Phase string

// The phases, in the order in which they usually begin. Not every level has all of them.
const (
	PhaseQueued       Phase = "queued"       // waiting for room, or for another job
	PhaseProvisioning Phase = "provisioning" // waiting for a machine
	PhasePulling      Phase = "pulling"      // getting an image
	PhaseCreating     Phase = "creating"     // making the environment
	PhaseServices     Phase = "services"     // starting a service and waiting for it
	PhaseStarting     Phase = "starting"     // starting the step-runner
)

// Preparing says how far a phase is. It comes before RunStarted, from whoever makes the place, and is not an event of the run: it has no number.
type Preparing struct {
	Phase   Phase  `json:"phase"`
	Subject string `json:"subject,omitempty"` // what it works on: the name of an image or a service
	Current int64  `json:"current,omitempty"`
	Total   int64  `json:"total,omitempty"` // 0 when not known
	Unit    string `json:"unit,omitempty"`  // UnitBytes or a plural noun
	Done    bool   `json:"done,omitempty"`
	// Duration is how long it took, once it is done.
	Duration time.Duration `json:"duration_ns,omitempty"`
	// Message is something that people should know, such as the last words of a service; usually empty.
	Message string `json:"message,omitempty"`
}

// UnitBytes is the unit of sizes.
const UnitBytes = "bytes"

// Prepared is a phase that has ended.
type Prepared struct {
	Phase    Phase         `json:"phase"`
	Subject  string        `json:"subject,omitempty"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	Amount   int64         `json:"amount,omitempty"` // what it moved, in Unit
	Unit     string        `json:"unit,omitempty"`
}

// Found is what an image turned out to be.
type Found struct {
	Digest string `json:"digest,omitempty"` // the engine's ID of its content: "sha256:…"
	Pull   string `json:"pull,omitempty"`   // the name under which a registry serves the same content: "registry/name@sha256:…"
}

// Image is what a container was made of.
type Image struct {
	containers.Image
	Found
}

// Service is a container beside the run's.
type Service struct {
	containers.Service
	Found
}

// Made is what the service's container was made of.
func (s *Service) Made() Image { return Image{s.Image, s.Found} }

// File is a file or folder that was copied to the run. One of From and Text is set; an empty file has neither.
type File struct {
	To   string `json:"to"`             // an absolute path
	From string `json:"from,omitempty"` // the file or folder on the machine that it was copied from
	Tree bool   `json:"tree,omitempty"` // From is a Git work tree; ignored files were not copied
	Text string `json:"text,omitempty"` // its content
	Name string `json:"name,omitempty"` // of the variable whose value is Text
}
