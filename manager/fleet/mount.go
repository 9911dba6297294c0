package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
)

// Volumes that are block devices are mounted by the host, so that a plugin need not know what is on a machine:
//
//	AttachVolume returns a device ──> mount: a file system, if it has none, at mountFolder/id-VOLUME ──> jobs ──> settle: what they wrote is on the device
//	                                                                       DetachVolume <── unmount <──┘
//
// Scripts run as root, by sudo where the machine's user is not root. They can be repeated: a process may have died in the middle of one.

// mountFolder is where machines have their volumes.
const mountFolder = "/var/lib/rung/volumes"

// mounts are the volumes that machines have mounted.
type mounts struct {
	*hosts
	folder string // of all of them, on every machine
}

// asRoot runs a script ($1) as root. What is after it are the script's arguments, and the last one is whose the command is: UID:GID.
const asRoot = `script=$1
shift
owner=$(id -u):$(id -g) || exit
root=
[ "${owner%%:*}" = 0 ] || root="sudo -n"
exec $root /bin/sh -c "PATH=\$PATH:/usr/local/sbin:/usr/sbin:/sbin
$script" sh "$@" "$owner"`

const (
	// deviceTime is how many seconds a device may take to appear on its machine.
	deviceTime = 10
	// notYet is the exit code of mountScript where the device has not appeared.
	notYet = 75
)

// mountScript mounts a device ($3) at a folder ($1), with a file system if it has none, for a user ($4). $2 is how long it waits for the device, in seconds.
// A device without a file system is one whose first MiB can be read, and on which blkid finds nothing: it finds nothing on one that cannot be read, either.
// e2fsck has repaired what was wrong if its exit code is below 4.
const mountScript = `at=$1 left=$2 device=$3 owner=$4
until [ -b "$device" ]; do
  [ "$left" -gt 0 ] || { echo "there is no block device $device" >&2; exit 75; }
  left=$((left - 1))
  sleep 1
done
if mountpoint -q "$at"; then
  [ "$(mountpoint -d "$at")" = "$(mountpoint -x "$device")" ] || { echo "another device is mounted at $at" >&2; exit 1; }
else
  [ "$(head -c 1048576 "$device" | wc -c)" -eq 1048576 ] || { echo "$device cannot be read" >&2; exit 1; }
  blkid -p "$device" >/dev/null
  case $? in
  0) e2fsck -p "$device" >&2 || [ $? -lt 4 ] || exit 1 ;;
  2) mkfs.ext4 -q -m 0 "$device" || exit 1 ;;
  *) echo "what is on $device is unknown" >&2; exit 1 ;;
  esac
  mkdir -p "$at" && mount -t ext4 -o nosuid,nodev,noatime "$device" "$at" || exit 1
fi
[ "$(stat -c %u:%g "$at")" = "$owner" ] || chown -hR "$owner" "$at"
chmod 700 "$at"`

// unmountScript takes from a folder ($1) what is mounted there.
const unmountScript = `while mountpoint -q "$1"; do umount "$1" || exit 1; done
[ ! -d "$1" ] || rmdir "$1"`

// at is the folder of a volume that is a device. Its ID is somebody else's text.
func (m *mounts) at(volume string) string { return path.Join(m.folder, "id-"+url.QueryEscape(volume)) }

// has reports whether a folder is that of such a volume.
func (m *mounts) has(folder string) bool { return path.Dir(folder) == m.folder }

// mount implements control.Options.Mount. What the machine refuses it will refuse again, so that the job does not wait for it: the error is group.ErrUnsupported then.
func (m *mounts) mount(ctx context.Context, on *control.Machine, volume, device string) (string, error) {
	at := m.at(volume)
	code, said, err := m.asRoot(ctx, on, mountScript, at, fmt.Sprint(deviceTime), device)
	switch {
	case err == nil && code == notYet:
		return "", group.Transient(0, fmt.Errorf("the volume %s is not on its machine yet: %s", volume, said))
	case err == nil && code != 0:
		return "", &group.Error{Kind: group.ErrUnsupported, Message: fmt.Sprintf(
			"the volume %s cannot be mounted on its machine, which needs Linux with util-linux and e2fsprogs, and root or sudo without a password: %s", volume, said)}
	}
	return at, err
}

// unmount implements control.Options.Unmount. A machine that cannot be reached is left to its cloud, which does not detach what is still in use.
func (m *mounts) unmount(ctx context.Context, on *control.Machine, volume, folder string) error {
	at := m.at(volume)
	if folder != "" && folder != at {
		return nil // it is a folder of its group's
	}
	code, said, err := m.asRoot(ctx, on, unmountScript, at)
	switch {
	case err != nil:
		m.p.o.Log.Warn("a volume is detached from a machine that cannot be reached to unmount it", "volume", volume, "machine", nameOf(on), "error", err)
	case code != 0:
		return group.Transient(0, fmt.Errorf("the volume %s cannot be unmounted: %s", volume, said))
	}
	return nil
}

// settle brings to the device what a job has written to its volume, as the machine may be ended next.
func (m *mounts) settle(ctx context.Context, at *seat) {
	if at.mounted == "" {
		return
	}
	code, said, err := m.posix(ctx, at.machine, "sync", "-f", at.mounted)
	if err == nil && code != 0 {
		err = errors.New(said)
	}
	if err != nil {
		m.p.o.Log.Warn("the next job may not find in its volume all that this one has written", "folder", at.mounted, "machine", nameOf(at.machine), "error", err)
	}
}

// asRoot runs a script on a machine as root.
func (m *mounts) asRoot(ctx context.Context, on *control.Machine, script string, args ...string) (code int, said string, err error) {
	return m.posix(ctx, on, append([]string{"/bin/sh", "-c", asRoot, "sh", script}, args...)...)
}

// posix runs a command on a machine with a POSIX shell. output is the end of what it prints.
func (m *mounts) posix(ctx context.Context, on *control.Machine, args ...string) (code int, output string, err error) {
	s, err := m.get(ctx, on)
	if err != nil {
		return -1, "", err
	}
	defer m.leave(s)
	if s.host.Platform().OS == "windows" {
		return -1, "", errors.New("it has no POSIX shell")
	}
	var out said
	code, err = run(ctx, s.host, &host.Command{Args: args, Stdout: &out, Stderr: &out})
	return code, out.String(), err
}
