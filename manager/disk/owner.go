package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Owner says for whose later jobs something is kept: those of one runner, project and slot of it. Jobs of protected refs have their own: what others
// have prepared must not reach them.
type Owner struct {
	// Runner is what tells the runner and its machine from others.
	Runner  string
	Project int64
	// ProjectSlot tells jobs of the project apart that run at once.
	ProjectSlot int
	Protected   bool
	// User is who the jobs run as on the machine; empty is the runner's own user, or whoever the level says.
	User string
}

// Name is one for executor.Job.KeepProject and KeepVolumes.
func (o Owner) Name() string {
	of := o.Runner
	if o.User != "" {
		of += "\x00" + o.User
	}
	sum := sha256.Sum256([]byte(of))
	name := hex.EncodeToString(sum[:5]) + "-" + strconv.FormatInt(o.Project, 10) + "-" + strconv.Itoa(o.ProjectSlot)
	if o.Protected {
		name += "-p"
	}
	return name
}
