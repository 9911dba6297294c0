package docker

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/containers"
)

// lockedImage is the name under which an image is to be pulled: that which the run has locked it to, if it has.
func lockedImage(call *program.Call, name string) string {
	if locked := call.Getenv(containers.LockedImageVariable); locked != "" && name != "" {
		return locked
	}
	return name
}

// inspected is what an engine says of an image.
type inspected struct {
	ID      string
	Digests []string // the names by which registries give it
}

// name is by which the image can be had again: that of a registry. An image that was built here has its ID only.
func (i *inspected) name() string {
	if len(i.Digests) > 0 {
		return i.Digests[0]
	}
	return i.ID
}

// inspect asks the engine about an image; nil if it does not know it: then what ran before has said what is wrong.
func inspect(ctx context.Context, call *program.Call, engine, image string) *inspected {
	quiet := *call
	var discard strings.Builder
	quiet.Stderr = &discard
	said, err := quiet.Read(ctx, "", nil, engine, "image", "inspect", "--format", "{{.Id}} {{json .RepoDigests}}", image)
	if err != nil {
		return nil
	}
	id, digests, _ := strings.Cut(strings.TrimSpace(said), " ")
	if id != "" && !strings.Contains(id, ":") { // as podman writes it
		id = "sha256:" + id
	}
	out := &inspected{ID: id}
	_ = json.Unmarshal([]byte(digests), &out.Digests) // null, for one that was built here
	return out
}

// record tells the run which image the step's container had.
func record(call *program.Call, named, pulled string, i *inspected) {
	file := call.Getenv(containers.ImageFileVariable)
	if file == "" {
		return // whoever runs this program does not ask
	}
	out := containers.StepImage{Name: named, Digest: i.ID}
	of := containers.ParseName(pulled)
	for _, name := range i.Digests {
		if other := containers.ParseName(name); other.Registry == of.Registry && other.Repository == of.Repository {
			out.Pull = name
			if other.Digest == of.Digest { // an image can have several: of an index, and of what is in it
				break
			}
		}
	}
	if text, err := json.Marshal(out); err == nil {
		_ = os.WriteFile(file, text, 0o600) // a trace without it says less, and is no reason to fail
	}
}
