package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/internal/lastoutput"
)

// Volumes that are block devices are mounted by the host, so that a plugin need not know what is on a machine:
//
//	AttachVolume returns a device ──> mount: a file system, if it has none, at mountFolder/id-VOLUME ──> jobs ──> settle: what they wrote is on the device
//	                                                                       DetachVolume <── unmount <──┘
//
// Scripts run as root, by sudo where the machine's user is not root. They can be repeated: a process may have died in the middle of one. One that was given up may
// still run on its machine, so that those of a volume wait for each other there.

// mountFolder is where machines have their volumes.
const mountFolder = "/var/lib/rung/volumes"

// mounts are the volumes that machines have mounted.
type mounts struct {
	*hosts
	folder string // of all of them, on every machine
}

// asRoot runs a script ($1) as root, alone with the folder of a volume ($2). What is after it are the script's other arguments, and the last one is whose the command is: UID:GID.
const asRoot = `script=$1
shift
owner=$(id -u):$(id -g) || exit
root=
[ "${owner%%:*}" = 0 ] || root="sudo -n"
exec $root /bin/sh -c "PATH=\$PATH:/usr/local/sbin:/usr/sbin:/sbin
mkdir -p \"\${1%/*}\" && exec 9>\"\$1.lock\" || exit
flock -w 30 9 || { echo 'another command for the volume still runs' >&2; exit 75; }
$script" sh "$@" "$owner"`

const (
	// deviceTime is how many seconds a device may take to appear on its machine.
	deviceTime = 10
	// notYet is the exit code of scripts that may work later.
	notYet = 75
	// settleTime bounds how long a job's slot waits for what the job has written.
	settleTime = 30 * time.Second
)

// mountScript mounts a device ($3) at a folder ($1), with a file system if it is blank, for a user ($4). $2 is how long it waits for the device, in seconds.
// Blank is a device whose first MiB can be read, and has nothing but zeros: a file system that is damaged is not, whatever can be told of it.
// e2fsck has repaired what was wrong if its exit code is below 4. Nobody can enter the folder while nothing is mounted there.
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
  if [ "$(head -c 1048576 "$device" | tr -d '\000' | wc -c)" -eq 0 ]; then
    mkfs.ext4 -q -m 0 "$device" || exit 1
  else
    e2fsck -p "$device" >&2 || [ $? -lt 4 ] || exit 1
  fi
  [ -d "$at" ] || mkdir -m 000 "$at" || exit 1
  mount -t ext4 -o nosuid,nodev,noatime "$device" "$at" || exit 1
  rm -f "$at.device"
fi
[ "$(stat -c %u:%g "$at")" = "$owner" ] || chown -hR "$owner" "$at"
chmod 700 "$at"`

// isMounted succeeds if a volume is mounted at a folder ($1), or an end of that was begun.
const isMounted = `[ -e "$1.device" ] || mountpoint -q "$1"`

// unmountScript takes from a folder ($1) what is mounted there. A process that has it mounted in a mount namespace of its own, such as a container, does not keep it from
// that, and still has the device: its number is in a file until nobody has it.
const unmountScript = `if mountpoint -q "$1"; then
  mountpoint -d "$1" >"$1.device" && sync -f "$1" && umount "$1" || exit 1
fi
[ -e "$1.device" ] || exit 0
at=$(grep -ls " $(cat "$1.device") " /proc/[0-9]*/mountinfo)
[ -z "$at" ] || { echo "it is also mounted where these processes are:" $at >&2; exit 1; }
rm -f "$1.device"
rmdir "$1" 2>/dev/null
exit 0`

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
		return "", group.Transient(0, fmt.Errorf("the volume %s cannot be mounted on its machine yet: %s", volume, said))
	case err == nil && code != 0:
		return "", &group.Error{Kind: group.ErrUnsupported, Message: fmt.Sprintf(
			"the volume %s cannot be mounted on its machine, which needs Linux with util-linux and e2fsprogs, and root or sudo without a password: %s", volume, said)}
	}
	return at, err
}

// unmount implements control.Options.Unmount.
func (m *mounts) unmount(ctx context.Context, on *control.Machine, volume, folder string) error {
	at := m.at(volume)
	if folder != "" && folder != at {
		return nil // it is a folder of its group's
	}
	code, _, err := m.posix(ctx, on, "/bin/sh", "-c", isMounted, "sh", at) // for which nobody need be root
	if err == nil && code != 0 {
		return nil
	}
	if err == nil {
		err = failed(m.asRoot(ctx, on, unmountScript, at))
	}
	if err != nil {
		return group.Transient(0, fmt.Errorf("the volume %s cannot be unmounted: %w", volume, err))
	}
	return nil
}

// settle brings to the device what a job has written to its volume, as the machine may be ended next.
func (m *mounts) settle(ctx context.Context, at *seat) {
	if at.mounted == "" || at.slot == nil || at.slot.Reason() != "" { // the machine is gone
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := failed(m.posix(ctx, &at.slot.Machine, "sync", "-f", at.mounted)); err != nil {
		m.p.o.Log.Warn("the next job may not find in its volume all that this one has written", "folder", at.mounted, "machine", nameOf(&at.slot.Machine), "error", err)
	}
}

// asRoot runs a script on a machine as root.
func (m *mounts) asRoot(ctx context.Context, on *control.Machine, script string, args ...string) (code int, said string, err error) {
	return m.posix(ctx, on, append([]string{"/bin/sh", "-c", asRoot, "sh", script}, args...)...)
}

// failed is the error of a command that did not succeed, with what it has said; nil: it did.
func failed(code int, said string, err error) error {
	if err == nil && code != 0 {
		err = errors.New(said)
	}
	return err
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
	out := lastoutput.Buffer{Max: maxSaid}
	code, err = run(ctx, s.host, &host.Command{Args: args, Stdout: &out, Stderr: &out})
	return code, out.String(), err
}
