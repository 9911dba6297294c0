package event

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
