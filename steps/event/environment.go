package event

import "time"

// Environment is the place that was made for a run, beyond the machine that it was on: what whoever runs it again has to make first. It
// holds no secrets: what is masked stands in it as [MASKED].
type Environment struct {
	// Level is the level of isolation, as executors name it: none, container, ….
	Level    string    `json:"level"`
	Image    *Image    `json:"image,omitempty"` // nil where the level has none
	Services []Service `json:"services,omitempty"`
	// Variables are those of the job that services were given.
	Variables map[string]string `json:"variables,omitempty"`
	Files     []File            `json:"files,omitempty"`
	// Prepared are the parts of making it, in the order in which they began.
	Prepared []Prepared `json:"prepared,omitempty"`
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

// Preparing says how far a phase is. It comes before RunStarted, from whoever makes the place, and is no event of the run: it has no number.
type Preparing struct {
	Phase   Phase  `json:"phase"`
	Subject string `json:"subject,omitempty"` // what it works on: the name of an image or a service
	Current int64  `json:"current,omitempty"`
	Total   int64  `json:"total,omitempty"` // 0 when not known
	Unit    string `json:"unit,omitempty"`  // "bytes" or a plural noun
	Done    bool   `json:"done,omitempty"`
	// Duration is how long it took, once it is done.
	Duration time.Duration `json:"duration_ns,omitempty"`
	// Message is something that people should know, such as the last words of a service; usually empty.
	Message string `json:"message,omitempty"`
}

// Prepared is a phase that has ended.
type Prepared struct {
	Phase    Phase         `json:"phase"`
	Subject  string        `json:"subject,omitempty"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	Amount   int64         `json:"amount,omitempty"` // what it moved, in Unit
	Unit     string        `json:"unit,omitempty"`
}

// Image is what a container was made of.
type Image struct {
	Name       string   `json:"name"`             // as it was asked for
	Digest     string   `json:"digest,omitempty"` // the engine's ID of what it found: "sha256:…"
	Pull       string   `json:"pull,omitempty"`   // the name by which a registry gives the same: "registry/name@sha256:…"
	Entrypoint []string `json:"entrypoint"`       // null is the image's own
	Platform   string   `json:"platform,omitempty"`
	User       string   `json:"user,omitempty"`
}

// Service is a container beside the run's.
type Service struct {
	Image
	Aliases   []string          `json:"aliases,omitempty"`
	Command   []string          `json:"command,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Ports are those that lead to the service, for a run on the machine itself: of the service, and of the machine.
	Ports map[uint16]uint16 `json:"ports,omitempty"`
}

// File is something that was brought to the run. One of From and Text is set; an empty file has neither.
type File struct {
	To   string `json:"to"`             // an absolute path
	From string `json:"from,omitempty"` // the file or folder of the machine that it was copied from
	Tree bool   `json:"tree,omitempty"` // From is a Git work tree, of which ignored files stayed behind
	Text string `json:"text,omitempty"` // what stood in it
	Name string `json:"name,omitempty"` // of the variable that Text is the value of
}
