package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/group/options"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/manager/config"
)

// volumesOf are the volumes of projects as the decision has them.
func volumesOf(m *config.Machinery) scale.Volumes {
	f := &m.Fleet
	if f.Volume == "" {
		return scale.Volumes{}
	}
	return scale.Volumes{
		Max: cmp.Or(max(0, f.MaxVolumes), config.DefaultMaxVolumes), Size: cmp.Or(f.VolumeSize, config.DefaultVolumeSize), Idle: f.VolumeIdleTime,
		Wait: f.VolumeWait, Price: f.VolumePrice, Shared: m.Apart, // containers have folders of their own in it
	}
}

// CheckVolumes says what is wrong where an entry wants volumes and the group of a source has none, at the option of the group that decides it, else where the entry
// wants them. none is group.NoVolumes of that group.
func (s *Source) CheckVolumes(m *config.Machinery, none error) error {
	if m.Fleet.Volume == "" || none == nil {
		return nil
	}
	var decided options.Errors
	if errors.As(none, &decided) {
		var all options.Errors
		for _, one := range decided {
			all = append(all, &options.Error{Pointer: one.Pointer, Message: one.Message + ", and [runners.fleet] sets volume: change this, or remove volume"})
		}
		return s.WrongOptions(all)
	}
	instead := "a plugin that has some"
	if m.Machine != nil {
		instead = "executor docker-autoscaler with " + instead
	}
	return &config.TableError{Table: config.FleetOptions, Err: &pluginoption.Errors{Of: s.group(), All: []*pluginoption.Error{
		{Pointer: "/volume", Err: errors.New("it has no volumes: remove volume, or use " + instead)},
	}}}
}

// protectedSuffix ends the names of tenants whose jobs are of protected refs: what others have prepared must not reach them.
const protectedSuffix = "-p"

// own says in needs whose the job is, and whether it gets a volume. Of jobs whose project is not known, each is its own.
func (s *source) own(job provider.Job, n *scale.Needs) {
	f := &s.o.Machinery.Fleet
	if f.Volume == "" || job.Project == "" {
		return
	}
	n.Tenant = job.Project
	if job.Protected {
		n.Tenant += protectedSuffix
	}
	n.Volume = f.WantsVolume(job.Volume)
}

// tidyScript removes from a volume ($1) what jobs have left there that lost their machine: all but the folders of projects, whose names end with a number, those that containers
// have, and that of the file system. A link is none: an engine would follow it. If $2 is not empty, something must be mounted there.
const tidyScript = `[ -z "$2" ] || mountpoint -q "$1" || exit 76
cd -- "$1" || exit
for name in * .[!.]*; do
  [ -L "$name" ] && rm -f -- "$name"
  case $name in
  rung-kept-*|rung-volume-*|lost+found) ;;
  *.[0-9]|*.[0-9][0-9]|*.[0-9][0-9][0-9]) ;;
  *) rm -rf -- "$name" ;;
  esac
done`

// notMounted is the exit code of tidyScript where nothing is mounted.
const notMounted = 76

// tidy makes a volume one that no job uses, as nobody else has it. One that is a device must be mounted: a machine that was started again, or lost it otherwise, is of no
// more use.
func (s *source) tidy(ctx context.Context, at *seat) error {
	folder := at.slot.Volume
	if !path.IsAbs(folder) {
		return fmt.Errorf("the volume of the job is in %s, and volumes are for machines with a POSIX shell", folder)
	}
	code, said, err := s.mounts.posix(ctx, &at.slot.Machine, "/bin/sh", "-c", tidyScript, "sh", folder, at.mounted)
	if err == nil && code == notMounted {
		at.fault = "the volume in " + folder + " is not mounted there any more"
		return errors.New(at.fault)
	}
	if err := failed(code, said, err); err != nil {
		return fmt.Errorf("the volume in %s cannot be used: %w", folder, err)
	}
	return nil
}
