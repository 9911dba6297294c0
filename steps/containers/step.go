package containers

// What the engine tells a built-in program that runs a container for a step: under which name the image is to be pulled, and the file that takes a
// StepImage. Neither is for the container.
const (
	LockedImageVariable = "STEP_RUNNER_IMAGE"
	ImageFileVariable   = "STEP_RUNNER_IMAGE_FILE"
)

// StepImage is what the image of a step's container was.
type StepImage struct {
	Name   string `json:"name"`             // as the step names it; of one that was built, as it was built
	Digest string `json:"digest,omitempty"` // the engine's ID of its content: "sha256:…"
	Pull   string `json:"pull,omitempty"`   // the name under which a registry serves the same content: "registry/name@sha256:…"
}
